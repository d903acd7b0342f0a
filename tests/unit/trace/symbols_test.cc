// Names of this test's own code.
#include "trace/symbols.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "trace/module_file.h"

namespace reprise::trace {
namespace {

// This executable as a recording would name it.
Module Self() {
  Module self;
  self.path = std::filesystem::read_symlink("/proc/self/exe");
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& module = *static_cast<Module*>(data);
        module.base = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_NOTE) continue;
          const char* at =
              reinterpret_cast<const char*>(info->dlpi_addr) + info->dlpi_phdr[i].p_vaddr;
          const char* end = at + info->dlpi_phdr[i].p_memsz;
          while (at + sizeof(ElfW(Nhdr)) <= end) {
            const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
            const char* name = at + sizeof(*note);
            const char* content = name + (note->n_namesz + 3) / 4 * 4;
            if (note->n_type == NT_GNU_BUILD_ID && std::strcmp(name, "GNU") == 0) {
              module.build_id = absl::BytesToHexString(std::string(content, note->n_descsz));
            }
            at = content + (note->n_descsz + 3) / 4 * 4;
          }
        }
        return 1;  // the executable comes first
      },
      &self);
  return self;
}

// Where the call of this function returns to, as an offset from `base`. Another template argument
// makes another function of it.
[[gnu::noinline]] uint64_t ReturnOffset(uint64_t base) {
  return reinterpret_cast<uint64_t>(__builtin_return_address(0)) - base;
}

template <typename T>
[[gnu::noinline]] uint64_t CallFromTemplate(uint64_t base) {
  const uint64_t offset = ReturnOffset(base);
  asm volatile("");  // no tail call
  return offset;
}

class SymbolsTest : public testing::Test {
 protected:
  SymbolsTest() {
    std::filesystem::remove_all(cache_);
    std::filesystem::create_directories(cache_);
  }
  ~SymbolsTest() override { std::filesystem::remove_all(cache_); }
  std::string cache_ = testing::TempDir() + "reprise-symbols-" + std::to_string(getpid());
};

TEST_F(SymbolsTest, AFunctionHasItsReadableNameFileAndLine) {
  const Module self = Self();
  Symbolizer symbolizer(cache_);
  const Symbol symbol = symbolizer.Find(self, CallFromTemplate<double>(self.base));
  EXPECT_NE(symbol.function.find("CallFromTemplate<double>"), std::string::npos) << symbol.function;
  EXPECT_NE(symbol.file.find("symbols_test.cc"), std::string::npos) << symbol.file;
  EXPECT_GT(symbol.line, 50);
  EXPECT_LT(symbol.line, 80);
  EXPECT_TRUE(symbolizer.Complaints().empty());
}

TEST_F(SymbolsTest, WhatWasFoundIsReadFromTheCache) {
  const Module self = Self();
  const uint64_t offset = CallFromTemplate<int>(self.base);
  Symbol first;
  {
    Symbolizer symbolizer(cache_);
    first = symbolizer.Find(self, offset);
  }
  const std::string path = cache_ + "/" + self.build_id;
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  ASSERT_NE(text.find(first.function), std::string::npos) << path;
  // The file is believed: it names what the executable does not.
  const size_t at = text.find(first.function);
  text.replace(at, first.function.size(), "FromTheCache");
  std::ofstream(path) << text;
  Symbolizer symbolizer(cache_);
  EXPECT_EQ(symbolizer.Find(self, offset).function, "FromTheCache");
}

TEST_F(SymbolsTest, NamesWithoutLinesAreReadFromTheCacheToo) {
  Module self = Self();
  const uint64_t offset = CallFromTemplate<int>(self.base);
  const std::string copy = cache_ + "/stripped";
  const std::string command = "objcopy --strip-debug " + self.path + " " + copy;
  ASSERT_EQ(std::system(command.c_str()), 0);
  self.path = copy;
  const Symbol first = Symbolizer(cache_).Find(self, offset);
  ASSERT_NE(first.function, "");
  ASSERT_EQ(first.line, 0);
  const std::string path = cache_ + "/" + self.build_id;
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  const size_t at = text.find(first.function);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, first.function.size(), "FromTheCache");
  std::ofstream(path) << text;
  EXPECT_EQ(Symbolizer(cache_).Find(self, offset).function, "FromTheCache");
}

// As clang makes them.
TEST_F(SymbolsTest, AProgramWithoutATableOfUnitsHasNamesAndLines) {
  Module self = Self();
  const uint64_t offset = CallFromTemplate<double>(self.base);
  const std::string copy = cache_ + "/without_table";
  const std::string command = "objcopy --remove-section .debug_aranges " + self.path + " " + copy;
  ASSERT_EQ(std::system(command.c_str()), 0);
  self.path = copy;
  Symbolizer symbolizer("");
  const Symbol symbol = symbolizer.Find(self, offset);
  EXPECT_NE(symbol.function.find("CallFromTemplate<double>"), std::string::npos) << symbol.function;
  EXPECT_NE(symbol.file.find("symbols_test.cc"), std::string::npos) << symbol.file;
}

TEST_F(SymbolsTest, AnotherBuildHasNoNames) {
  Module other = Self();
  const uint64_t offset = CallFromTemplate<char>(other.base);
  other.build_id = "00";
  Symbolizer symbolizer(cache_);
  EXPECT_EQ(symbolizer.Find(other, offset).function, "");
  ASSERT_EQ(symbolizer.Complaints().size(), 1u);
  EXPECT_NE(symbolizer.Complaints()[0].find("expected build id 00"), std::string::npos);
}

TEST_F(SymbolsTest, WhatIsGoneOrNoProgramHasNoNames) {
  Symbolizer symbolizer(cache_);
  EXPECT_EQ(symbolizer.Find({.path = "/nowhere/lib.so", .build_id = "11", .base = 0}, 64).function,
            "");
  EXPECT_EQ(symbolizer.Find({.path = "/etc/passwd", .build_id = "", .base = 0}, 64).function, "");
  EXPECT_EQ(symbolizer.Find(Self(), UINT64_MAX).function, "");
}

TEST_F(SymbolsTest, ADamagedCacheDoesNoHarm) {
  const Module self = Self();
  const std::string path = cache_ + "/" + self.build_id;
  Symbolizer(cache_).Find(self, CallFromTemplate<short>(self.base));
  std::string header;
  std::ifstream file(path);
  ASSERT_TRUE(std::getline(file, header));
  std::ofstream(path) << header << "\nx\ty\n\t\t\t\n99999999999999999999\t1\ta\tb\n5\n";
  Symbolizer symbolizer(cache_);
  EXPECT_NE(symbolizer.Find(self, CallFromTemplate<long>(self.base)).function, "");
}

// A file that says it is another one's build leaves no names for that one.
TEST_F(SymbolsTest, TheCacheHoldsForTheFileThatItWasReadFrom) {
  const Module self = Self();
  const uint64_t offset = CallFromTemplate<int>(self.base);
  const std::string path = cache_ + "/" + self.build_id;
  Module forged = self;
  forged.path = cache_ + "/forged";
  std::filesystem::copy_file(self.path, forged.path);
  const std::string name = Symbolizer(cache_).Find(forged, offset).function;
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  ASSERT_NE(text.find(name), std::string::npos) << path;
  text.replace(text.find(name), name.size(), "Forged");
  std::ofstream(path) << text;
  EXPECT_EQ(Symbolizer(cache_).Find(forged, offset).function, "Forged");
  EXPECT_EQ(Symbolizer(cache_).Find(self, offset).function, name);
  // Nor does it hold for what has been written to since.
  Symbolizer(cache_).Find(forged, offset);
  std::ofstream(forged.path, std::ios::app | std::ios::binary) << "more";
  EXPECT_EQ(Symbolizer(cache_).Find(forged, offset).function, name);
}

TEST_F(SymbolsTest, ABuildIdIsNoPath) {
  for (const char* text : {"", "a", "abc", "../ab", "AB", "ab/cd", "ag", "ab\n"}) {
    EXPECT_FALSE(IsBuildId(text)) << text;
  }
  EXPECT_FALSE(IsBuildId(std::string(66, 'a')));
  EXPECT_TRUE(IsBuildId("00ff"));
  EXPECT_TRUE(IsBuildId(std::string(64, 'a')));
  // Whoever waits for a pipe, or reads zeros, does not come back.
  ASSERT_EQ(mkfifo((cache_ + "/pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", cache_ + "/ab");
  std::filesystem::create_directory(cache_ + "/names");
  for (const char* id : {"../pipe", "../ab", "ab"}) {
    Module module = Self();
    module.build_id = id;
    EXPECT_EQ(Symbolizer(cache_ + (id[0] == '.' ? "/names" : "")).Find(module, 64).function, "");
  }
  EXPECT_TRUE(std::filesystem::is_fifo(cache_ + "/pipe"));
}

class HostileModuleTest : public SymbolsTest {
 protected:
  // Why the file has no names; empty: it has.
  std::string Complaint(const std::string& path) const {
    Module module = Self();
    module.path = path;
    Symbolizer symbolizer("");
    symbolizer.Find(module, CallFromTemplate<double>(module.base));
    return symbolizer.Complaints().empty() ? "" : symbolizer.Complaints()[0];
  }
  // A copy of this executable that a command has changed.
  std::string Made(const std::string& command) const {
    const std::string copy = cache_ + "/copy";
    EXPECT_EQ(std::system((command + " " + Self().path + " " + copy).c_str()), 0) << command;
    return copy;
  }
};

TEST_F(HostileModuleTest, OnlyRegularElfFilesAtAbsolutePathsAreOpened) {
  const auto has = [](const std::string& what) { return testing::HasSubstr(what); };
  const std::string relative = std::filesystem::relative(Self().path);
  EXPECT_THAT(Complaint(relative), has("no absolute path"));
  ASSERT_EQ(mkfifo((cache_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Complaint(cache_ + "/pipe"), has("no regular file"));
  EXPECT_THAT(Complaint("/dev/zero"), has("no regular file"));
  EXPECT_THAT(Complaint("/"), has("no regular file"));
  std::ofstream(cache_ + "/short") << "\x7f"
                                      "ELF";
  EXPECT_THAT(Complaint(cache_ + "/short"), has("no ELF file"));
  EXPECT_EQ(Complaint(Made("cp")), "");
}

TEST_F(HostileModuleTest, PackedFilesAreNotUnpacked) {
  const std::string copy = cache_ + "/packed";
  ASSERT_EQ(std::system(("gzip -c " + Self().path + " > " + copy).c_str()), 0);
  EXPECT_THAT(Complaint(copy), testing::HasSubstr("no ELF file"));
}

TEST_F(HostileModuleTest, ACompressedSectionMayClaimSixtyFourTimesItsSize) {
  std::ofstream(cache_ + "/zeros") << std::string(16 << 20, '\0');
  const std::string copy = Made("objcopy --add-section .debug_zeros=" + cache_ + "/zeros");
  EXPECT_EQ(Complaint(copy), "");
  for (const char* kind : {"zlib", "zlib-gnu"}) {
    const std::string packed = cache_ + "/" + kind;
    const std::string compress = std::string("objcopy --compress-debug-sections=") + kind + " ";
    ASSERT_EQ(std::system((compress + copy + " " + packed).c_str()), 0);
    EXPECT_THAT(Complaint(packed), testing::HasSubstr("compressed section"));
    EXPECT_EQ(Complaint(Made(compress)), "") << kind;
    std::filesystem::remove(copy);
    Made("objcopy --add-section .debug_zeros=" + cache_ + "/zeros");
  }
}

TEST_F(HostileModuleTest, NoOtherFileIsNamedForDebugInformation) {
  std::ofstream(cache_ + "/link") << "/dev/zero" << '\0' << "12345678901234567890";
  EXPECT_THAT(Complaint(Made("objcopy --add-section .gnu_debugaltlink=" + cache_ + "/link")),
              testing::HasSubstr("names another file"));
  // Without debug information nobody follows the link: so are the programs of a distribution.
  EXPECT_EQ(
      Complaint(Made("objcopy --strip-debug --add-section .gnu_debugaltlink=" + cache_ + "/link")),
      "");
}

TEST_F(HostileModuleTest, ASectionTableThatIsNotInTheFileIsRefused) {
  const std::string copy = Made("cp");
  std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
  for (const uint64_t offset : {UINT64_MAX, uint64_t{1} << 40, std::filesystem::file_size(copy)}) {
    file.seekp(40);  // e_shoff
    file.write(reinterpret_cast<const char*>(&offset), sizeof(offset)).flush();
    EXPECT_THAT(Complaint(copy), testing::HasSubstr("section table"));
  }
}

}  // namespace
}  // namespace reprise::trace
