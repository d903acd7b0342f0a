// Output files: whole or not there, and never another user's choice.
#include "base/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace reprise::base {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "atomic_file_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    umask(022);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string In(const std::string& name) const { return (folder_ / name).string(); }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(In(name)) << text;
  }
  std::string Text(const std::string& name) const {
    std::ifstream file(In(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  mode_t Mode(const std::string& name) const {
    struct stat info {};
    EXPECT_EQ(lstat(In(name).c_str(), &info), 0);
    return info.st_mode & 07777;
  }

  fs::path folder_;
};

// Writes `text`; empty, or what went wrong.
std::string WriteTo(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.Write(text);
  return file.Finish() ? "" : file.problem();
}

TEST_F(AtomicFileTest, AppearsWhenItIsWhole) {
  {
    AtomicFile file(In("a"));
    for (int i = 0; i < 100'000; ++i) file.Write("0123456789");
    EXPECT_FALSE(fs::exists(In("a")));
    EXPECT_TRUE(file.Finish()) << file.problem();
  }
  EXPECT_EQ(Text("a").size(), 1'000'000U);
  EXPECT_THAT(Names(), testing::ElementsAre("a"));
  EXPECT_EQ(Mode("a"), 0644U);
}

TEST_F(AtomicFileTest, LeavesWhatWasThereWhenItIsNotFinished) {
  Put("a", "before");
  {
    AtomicFile file(In("a"));
    file.Write("after");
  }
  EXPECT_EQ(Text("a"), "before");
  EXPECT_THAT(Names(), testing::ElementsAre("a"));
}

TEST_F(AtomicFileTest, TheTemporaryFileIsReadableByItsOwnerOnlyAndHasARandomName) {
  std::vector<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    AtomicFile file(In("a"));
    const std::vector<std::string> names = Names();
    ASSERT_EQ(names.size(), 1U);
    EXPECT_EQ(Mode(names[0]), 0600U);
    seen.push_back(names[0]);
  }
  EXPECT_NE(seen[0], seen[1]);
}

TEST_F(AtomicFileTest, KeepsTheModeOfWhatItReplacesButForSetIdBits) {
  Put("a", "before");
  ASSERT_EQ(chmod(In("a").c_str(), 04640), 0);
  EXPECT_EQ(WriteTo(In("a"), "after"), "");
  EXPECT_EQ(Mode("a"), 0640U);
  EXPECT_EQ(Text("a"), "after");
}

TEST_F(AtomicFileTest, APrivateFileIsPrivateWhateverWasThere) {
  Put("a", "before");
  AtomicFile file(In("a"));
  file.KeepPrivate();
  file.Write("secret");
  EXPECT_TRUE(file.Finish());
  EXPECT_EQ(Mode("a"), 0600U);
}

TEST_F(AtomicFileTest, FollowsLinksOfTheCaller) {
  fs::create_directory(In("there"));
  Put("there/file", "before");
  fs::create_symlink("there/next", In("link"));
  fs::create_symlink("file", In("there/next"));
  EXPECT_EQ(WriteTo(In("link"), "after"), "");
  EXPECT_TRUE(fs::is_symlink(In("link")));
  EXPECT_TRUE(fs::is_symlink(In("there/next")));
  EXPECT_EQ(Text("there/file"), "after");
}

TEST_F(AtomicFileTest, RefusesALinkThatLeadsToItself) {
  fs::create_symlink("link", In("link"));
  EXPECT_THAT(WriteTo(In("link"), "text"), testing::HasSubstr("symbolic links"));
}

TEST_F(AtomicFileTest, ANameOf255BytesHasRoomForItsTemporaryFile) {
  const std::string name(255, 'n');
  EXPECT_EQ(WriteTo(In(name), "text"), "");
  EXPECT_EQ(Text(name), "text");
}

TEST_F(AtomicFileTest, SaysWhatIsWrong) {
  EXPECT_EQ(WriteTo(In("none/a"), "text"), In("none/a") + ": No such file or directory");
  EXPECT_THAT(WriteTo(In(""), "text"), testing::HasSubstr("Is a directory"));
  EXPECT_THAT(WriteTo("/dev/full", "text"), testing::HasSubstr("No space left"));
  EXPECT_THAT(Names(), testing::IsEmpty());
}

TEST_F(AtomicFileTest, WritesToAPipeAtOnce) {
  ASSERT_EQ(mkfifo(In("pipe").c_str(), 0600), 0);
  const int reader = open(In("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(WriteTo(In("pipe"), "text"), "");
  char text[8] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 4);
  close(reader);
  EXPECT_TRUE(fs::is_fifo(In("pipe")));
}

// In a folder that everybody may write to, as /tmp.
class SharedFolderTest : public AtomicFileTest {
 protected:
  void SetUp() override {
    AtomicFileTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "needs the superuser, who can act as another user";
    ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  }

  // The exit status of what another user does.
  static int AsNobody(const std::function<int()>& action) {
    const pid_t child = fork();
    if (child == 0) {
      const bool dropped =
          setresgid(kNobody, kNobody, kNobody) == 0 && setresuid(kNobody, kNobody, kNobody) == 0;
      _exit(dropped ? action() : 99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(SharedFolderTest, RefusesALinkOfAnotherUser) {
  Put("mine", "before");
  ASSERT_EQ(AsNobody([&] { return symlink(In("mine").c_str(), In("out").c_str()); }), 0);
  EXPECT_THAT(WriteTo(In("out"), "after"), testing::HasSubstr("link of another user"));
  EXPECT_EQ(Text("mine"), "before");
  EXPECT_TRUE(fs::is_symlink(In("out")));
}

// The other way around: what the superuser's link leads to is no choice of the caller's either.
TEST_F(SharedFolderTest, RefusesALinkOfTheSuperuserForOthers) {
  fs::create_symlink(In("there"), In("out"));
  EXPECT_EQ(AsNobody([&] { return WriteTo(In("out"), "text").empty() ? 1 : 0; }), 0);
  EXPECT_FALSE(fs::exists(In("there")));
}

TEST_F(SharedFolderTest, RefusesAPipeOfAnotherUser) {
  ASSERT_EQ(AsNobody([&] { return mkfifo(In("out").c_str(), 0666); }), 0);
  EXPECT_THAT(WriteTo(In("out"), "text"), testing::HasSubstr("pipe of another user"));
}

TEST_F(SharedFolderTest, KeepsTheOwnerOfWhatItReplaces) {
  Put("out", "before");
  ASSERT_EQ(chown(In("out").c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(WriteTo(In("out"), "after"), "");
  struct stat info {};
  ASSERT_EQ(stat(In("out").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kNobody);
  EXPECT_EQ(info.st_gid, kNobody);
}

// An output whose group the caller may not give gives that group's rights to nobody else.
TEST_F(SharedFolderTest, AnotherGroupGetsNoMoreThanEverybody) {
  fs::create_directory(In("folder"));
  Put("folder/out", "before");
  ASSERT_EQ(chown(In("folder").c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(chown(In("folder/out").c_str(), kNobody, 4), 0);
  ASSERT_EQ(chmod(In("folder/out").c_str(), 0660), 0);
  ASSERT_EQ(AsNobody([&] { return WriteTo(In("folder/out"), "after").empty() ? 0 : 1; }), 0);
  EXPECT_EQ(Mode("folder/out"), 0600U);
}

TEST_F(SharedFolderTest, AFolderForOutputIsNoLinkOfAnotherUser) {
  fs::create_directory(In("mine"));
  ASSERT_EQ(AsNobody([&] { return symlink(In("mine").c_str(), In("out").c_str()); }), 0);
  std::string problem;
  EXPECT_EQ(OpenOutputFolder(In("out") + "/", &problem), -1);
  EXPECT_THAT(problem, testing::HasSubstr("link of another user"));
}

TEST_F(SharedFolderTest, WhatOthersCanReplaceIsWithinTheirReach) {
  fs::create_directory(In("mine"));
  EXPECT_EQ(IsOutOfReach(In("mine")), IsOutOfReach(folder_));  // sticky: only the owner renames
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_FALSE(IsOutOfReach(In("mine")));
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(chown(In("mine").c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(IsOutOfReach(In("mine")));
  fs::create_symlink(In("mine"), In("link"));
  EXPECT_FALSE(IsOutOfReach(In("link")));
}

TEST_F(AtomicFileTest, MakesAFolderForOutputAndThoseAboveIt) {
  std::string problem;
  const int fd = OpenOutputFolder(In("a/b/c//"), &problem);
  EXPECT_GE(fd, 0) << problem;
  close(fd);
  EXPECT_TRUE(fs::is_directory(In("a/b/c")));
  fs::create_symlink("a", In("link"));
  const int linked = OpenOutputFolder(In("link"), &problem);
  EXPECT_GE(linked, 0) << problem;
  close(linked);
  Put("file", "text");
  EXPECT_EQ(OpenOutputFolder(In("file"), &problem), -1);
  EXPECT_THAT(problem, testing::HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace reprise::base
