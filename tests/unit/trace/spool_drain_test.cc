// Sealed chunks move to the end of the spool and are written anew, and no event is there twice or
// not at all, whoever stops at whatever moment.
#include "trace/spool_drain.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/unit/trace/spool_builder.h"
#include "trace/reader.h"

namespace reprise::trace {
namespace {

constexpr uint64_t kBlock = 0x1000;

// Chunk 0 is full: `blocks` allocations and room that was wasted. Chunk 1 is being written.
class SpoolDrainTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = TestPath("a.spool");
    spool_.Thread(0, 0, 0, 1, 1);
    for (uint64_t i = 0; i < 10; ++i) spool_.Allocate(0, 1, kBlock * (1 + i), 10);
    spool_.header.copies_offset = kSpoolChunksOffset + 100 * kSpoolChunkBytes;
    spool_.header.sealed_count = 1;
    spool_.header.sealed[0] = 0;
  }

  void FillAndSeal(uint64_t last_word_0 = kSpoolWaste) {
    const uint64_t left =
        (kSpoolChunkBytes - sizeof(SpoolChunk) - spool_.EventBytes(0)) / sizeof(uint64_t);
    std::vector<uint64_t> words(left);
    words[0] = kSpoolSkip | last_word_0 | left << 20;
    spool_.Words(0, words);
    spool_.Seal(0);
    spool_.Thread(1, 0, 0, 1, 11);
    spool_.Allocate(1, 11, kBlock * 11, 20);
    spool_.Write(path_);
    std::filesystem::resize_file(path_, spool_.header.copies_offset);
  }

  Recording Load() const {
    auto recording = LoadRecording(path_);
    EXPECT_TRUE(recording.ok()) << recording.status();
    EXPECT_TRUE(recording->damage.empty()) << recording->damage[0].reason;
    EXPECT_EQ(recording->lost_events, 0);
    EXPECT_EQ(recording->implied_frees, 0);
    return *std::move(recording);
  }

  void Patch(uint64_t offset, const void* bytes, size_t count) const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  }

  // The process takes chunk 0 again and writes one allocation.
  void WriteAnew(uint64_t epoch) const {
    SpoolBuilder fresh;
    fresh.Thread(0, 0, 0, 1, epoch);
    fresh.Allocate(0, epoch, kBlock * epoch, 30);
    std::string bytes = fresh.Bytes().substr(kSpoolChunksOffset);
    SpoolChunk chunk;
    std::memcpy(&chunk, bytes.data(), sizeof(chunk));
    chunk.serial = epoch;
    std::memcpy(bytes.data(), &chunk, sizeof(chunk));
    bytes.resize(kSpoolChunkBytes);
    Patch(kSpoolChunksOffset, bytes.data(), bytes.size());
  }

  SpoolBuilder spool_;
  std::string path_;
};

TEST_F(SpoolDrainTest, ACopyCountsOnce) {
  FillAndSeal();
  EXPECT_EQ(Load().allocations.size(), 11);
  auto drain = SpoolDrain::Open(path_);
  ASSERT_TRUE(drain.ok()) << drain.status();
  EXPECT_EQ(drain->Run(), 1);
  EXPECT_EQ(drain->Run(), 0);
  EXPECT_TRUE(drain->Finished());
  EXPECT_EQ(Load().allocations.size(), 11);
  WriteAnew(12);
  const Recording recording = Load();
  ASSERT_EQ(recording.allocations.size(), 12);
  EXPECT_EQ(recording.allocations[9].size, 10);
  EXPECT_EQ(recording.allocations[10].size, 20);
  EXPECT_EQ(recording.allocations[11].size, 30);
}

// The process was killed after it cleared the chunk and before it numbered it anew.
TEST_F(SpoolDrainTest, AClearedChunkCountsByItsCopy) {
  FillAndSeal();
  ASSERT_EQ(SpoolDrain::Open(path_)->Run(), 1);
  const std::string zeros(kSpoolChunkBytes - sizeof(SpoolChunk), '\0');
  Patch(kSpoolChunksOffset + sizeof(SpoolChunk), zeros.data(), zeros.size());
  EXPECT_EQ(Load().allocations.size(), 11);
}

// We were killed after the copy was written and before it was counted.
TEST_F(SpoolDrainTest, AnUncountedCopyIsWrittenAgain) {
  FillAndSeal();
  ASSERT_EQ(SpoolDrain::Open(path_)->Run(), 1);
  SpoolHeader header = spool_.header;
  Patch(0, &header, sizeof(header));
  EXPECT_EQ(Load().allocations.size(), 11);
  ASSERT_EQ(SpoolDrain::Open(path_)->Run(), 1);
  EXPECT_EQ(Load().allocations.size(), 11);
}

// A signal handler filled the rest of the chunk while the hook that it interrupted holds room
// there.
TEST_F(SpoolDrainTest, AnEventUnderWayKeepsItsChunk) {
  const uint64_t at = kSpoolChunksOffset + sizeof(SpoolChunk) + spool_.EventBytes(0);
  FillAndSeal(/*last_word_0=*/0);
  auto drain = SpoolDrain::Open(path_);
  ASSERT_TRUE(drain.ok()) << drain.status();
  EXPECT_EQ(drain->Run(), 0);
  EXPECT_EQ(drain->Run(), 0);
  const uint64_t words = (kSpoolChunksOffset + kSpoolChunkBytes - at) / sizeof(uint64_t);
  const uint64_t waste = kSpoolSkip | kSpoolWaste | words << 20;
  Patch(at, &waste, sizeof(waste));
  EXPECT_EQ(drain->Run(), 1);
  EXPECT_EQ(Load().allocations.size(), 11);
}

// Chunks without a zero word: one, one with a site that looks like an event under way, and one with
// an event under way.
TEST_F(SpoolDrainTest, FullChunksAreToldApart) {
  constexpr uint64_t kUnderWay = kSpoolSkip | 3 << 20;
  struct Case {
    uint64_t site;
    uint64_t first_word;
    uint64_t copied;
  };
  for (const Case& one : {Case{0x1000, kSpoolMalloc | 1 << 20, 1},
                          Case{kUnderWay, kSpoolMalloc | 1 << 20, 1}, Case{0x1000, kUnderWay, 0}}) {
    SpoolBuilder spool;
    spool.header = spool_.header;
    spool.Thread(0, 0, 0, 1, 1);
    spool.Words(0, {one.first_word, one.site, 8});
    const auto left = [&] {
      return (kSpoolChunkBytes - sizeof(SpoolChunk) - spool.EventBytes(0)) / sizeof(uint64_t);
    };
    while (left() > 0) spool.Words(0, {kSpoolSkip | kSpoolWaste | 1 << 20});
    spool.Seal(0);
    spool.Write(path_);
    std::filesystem::resize_file(path_, spool.header.copies_offset);
    auto drain = SpoolDrain::Open(path_);
    ASSERT_TRUE(drain.ok()) << drain.status();
    EXPECT_EQ(drain->Run(), one.copied) << one.site << " " << one.first_word;
  }
}

TEST_F(SpoolDrainTest, ADamagedCopyIsSaid) {
  FillAndSeal();
  ASSERT_EQ(SpoolDrain::Open(path_)->Run(), 1);
  WriteAnew(12);
  const uint64_t event = spool_.header.copies_offset + sizeof(SpoolChunk) + 48;
  const char wrong = 0x55;
  Patch(event, &wrong, 1);
  const auto recording = LoadRecording(path_);
  ASSERT_TRUE(recording.ok());
  ASSERT_EQ(recording->damage.size(), 1);
  EXPECT_EQ(recording->damage[0].offset, spool_.header.copies_offset);
  EXPECT_EQ(recording->lost_events, 10);
  EXPECT_EQ(recording->allocations.size(), 2);
}

TEST_F(SpoolDrainTest, OpensSpoolsOnly) {
  WriteFile(path_, "rubbish");
  EXPECT_FALSE(SpoolDrain::Open(path_).ok());
  EXPECT_FALSE(SpoolDrain::Open(path_ + ".none").ok());
}

}  // namespace
}  // namespace reprise::trace
