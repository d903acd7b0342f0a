// Files that would cost more than they hold: limits that readers enforce, files that are cut short
// while they are read, folders with what is no file.
#include "trace/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/unit/trace/random_recording.h"
#include "tests/unit/trace/spool_builder.h"
#include "trace/chunk.h"
#include "trace/formats/csv.h"
#include "trace/reader.h"
#include "trace/trace_writer.h"
#include "trace/varint.h"

namespace reprise::trace {
namespace {

struct Sealed {
  ChunkType type;
  std::string content;
};

// A compact trace of such chunks, and an end mark.
std::string TraceOf(const std::vector<Sealed>& chunks) {
  std::string file = SealFileHeader();
  uint32_t number = 0;
  for (const Sealed& chunk : chunks) file += SealChunk(chunk.type, number++, chunk.content);
  return file + SealChunk(ChunkType::kEnd, number, "");
}

// Definitions of `count` things, each of which takes these bytes.
std::string Definitions(uint64_t first, uint64_t count, const std::string& each) {
  std::string content;
  AppendVarint(content, first);
  AppendVarint(content, count);
  for (uint64_t i = 0; i < count; ++i) content += each;
  return content;
}

Recording ReadRecording(std::string bytes) {
  Recording recording;
  const absl::Status status =
      ReadTrace(MappedFile::FromBytes(std::move(bytes)), "test", recording, [](const Event&) {});
  const bool left = recording.events > 0 || recording.damage.empty();
  EXPECT_EQ(status.code(), left ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss) << status;
  return recording;
}

TEST(TraceLimits, ModulesAreAsManyAsAWriterHas) {
  const std::string module = {'\1', 'm', '\0', '\0'};
  const Recording most =
      ReadRecording(TraceOf({{ChunkType::kModules, Definitions(0, 512, module)}}));
  EXPECT_EQ(most.modules.size(), 512u);
  EXPECT_TRUE(most.damage.empty());
  const Recording more =
      ReadRecording(TraceOf({{ChunkType::kModules, Definitions(0, 100'000, module)}}));
  EXPECT_EQ(more.modules.size(), 512u);
  EXPECT_EQ(more.damage.size(), 1u);
}

// Empty stacks take a byte each, and compress to nearly nothing.
TEST(TraceLimits, DefinitionsOfASmallFileAreFew) {
  std::vector<Sealed> chunks;
  for (uint64_t i = 0; i < 3; ++i) {
    const std::string stack(1, '\0');
    chunks.push_back({ChunkType::kStacks, Definitions(i * 2'000'000, 2'000'000, stack)});
  }
  const std::string bytes = TraceOf(chunks);
  ASSERT_LT(bytes.size(), 8192u);
  const Recording recording = ReadRecording(bytes);
  EXPECT_LE(recording.stacks.size(), kMostStacks);
  EXPECT_FALSE(recording.damage.empty());
}

TEST(TraceLimits, ThreadsAreLimited) {
  std::vector<Sealed> chunks;
  for (uint64_t i = 0; i < 4; ++i) {
    const std::string thread = {'\7', '\0'};
    chunks.push_back({ChunkType::kThreads, Definitions(i * 400'000, 400'000, thread)});
  }
  const Recording recording = ReadRecording(TraceOf(chunks));
  EXPECT_LE(recording.threads.size(), kMostThreads);
  EXPECT_FALSE(recording.damage.empty());
}

TEST(TraceLimits, DamageIsToldApartUpToALimit) {
  std::string damage;
  AppendVarint(damage, 100'000);
  for (int i = 0; i < 100'000; ++i) damage += std::string("\0\1\0", 3);
  const Recording recording = ReadRecording(TraceOf({{ChunkType::kDamage, damage}}));
  ASSERT_EQ(recording.damage.size(), 10'000u);
  EXPECT_EQ(recording.damage.back().bytes, 90'001u);
  EXPECT_EQ(recording.damage.back().reason, "here and in more places behind it");
}

TEST(TraceLimits, AChunkOfEventsIsNotLargerThanAWriterMakes) {
  std::string events(3, '\0');
  while (events.size() < 3'000'000) events += std::string("\0\1", 2);
  const Recording recording = ReadRecording(TraceOf({{ChunkType::kEvents, events}}));
  EXPECT_EQ(recording.events, 0u);
  EXPECT_EQ(recording.damage.size(), 1u);
}

// The sums of sizes stay below 2^63, whatever a file claims.
TEST(TraceLimits, SizesTogetherStayBelowTheirLimit) {
  std::string events(3, '\0');
  for (int i = 0; i < 300; ++i) {
    events += '\0';
    AppendVarint(events, kMaxSize);
  }
  uint64_t sum = 0;
  Recording recording;
  ASSERT_TRUE(ReadTrace(MappedFile::FromBytes(TraceOf({{ChunkType::kEvents, events}})), "test",
                        recording, [&](const Event& event) { sum += event.size; })
                  .ok());
  EXPECT_EQ(recording.events, 128u);
  EXPECT_LE(sum, uint64_t{INT64_MAX});
  EXPECT_FALSE(recording.damage.empty());

  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  for (uint64_t i = 0; i < 300; ++i) spool.Allocate(0, 1, 0x1000 + i * 16, kMaxSize);
  const Recording spooled = ReadRecording(spool.Bytes());
  EXPECT_EQ(spooled.events, 128u);
  EXPECT_EQ(spooled.lost_events, 172u);
}

TEST(TraceLimits, ASpoolHasNoMoreModulesThanAWriterWrites) {
  SpoolBuilder spool;
  for (uint64_t i = 0; i < 5000; ++i) spool.Module("m", "", 0x1000 * i, 0x1000 * i + 0x1000, 0);
  spool.Thread(0, 0, 0, 1, 0);
  spool.Allocate(0, 1, 0x1000, 16);
  const Recording recording = ReadRecording(spool.Bytes());
  EXPECT_EQ(recording.events, 1u);
  EXPECT_EQ(recording.damage.size(), 1u);
}

// Reallocs whose outcome stands in another segment are paired by address, not by trying all.
TEST(TraceLimits, FailedReallocsTakeNoSquareTime) {
  SpoolBuilder spool;
  constexpr uint64_t kCount = 30'000;
  uint64_t epoch = 1;
  const auto chunk = [](uint64_t i) { return static_cast<uint32_t>(i / 500); };
  for (uint64_t i = 0; i < kCount; ++i, epoch += 2) {
    const uint32_t at = chunk(i);
    if (i % 500 == 0) spool.Thread(at, 0, 0, 1, epoch);
    spool.Free(at, epoch, 0x1000 + i * 16, kSpoolReallocFree);
    spool.Thread(at, 0, 0, 1, epoch + 1);
    spool.Free(at, epoch + 1, 0x1000 + i * 16, kSpoolReallocFailed);
  }
  const auto start = std::chrono::steady_clock::now();
  const Recording recording = ReadRecording(spool.Bytes());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(recording.events, 0u);   // all were revoked
  EXPECT_LT(seconds.count(), 10.0);  // 30,000^2 steps under a sanitizer take longer
}

TEST(TraceLimits, AFileThatIsCutShortIsSaid) {
  const std::string path = TestPath("cut.csv");
  std::string text = "id,lower,upper,size\n";
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i) + ",0,1,16\n";
  WriteFile(path, text);
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->Whole(path).ok());
  ASSERT_EQ(truncate(path.c_str(), 5000), 0);
  uint64_t sum = 0;
  for (const uint8_t byte : file->bytes()) sum += byte;
  EXPECT_GT(sum, 0u);
  EXPECT_EQ(file->bytes().back(), 0);
  EXPECT_TRUE(absl::IsDataLoss(file->Whole(path)));
  EXPECT_EQ(file->Whole(path).message(), path + ": cut short while it was read");
}

TEST(TraceLimits, ATraceThatIsCutShortWhileItIsReadIsRefused) {
  const std::string path = TestPath("cut.trace");
  ASSERT_TRUE(WriteRecording(RandomRecording(1, 400'000), path).ok());
  Recording recording;
  bool cut = false;
  const absl::Status status = ReadTrace(path, recording, [&](const Event&) {
    if (!cut) cut = truncate(path.c_str(), 8192) == 0;
  });
  EXPECT_TRUE(cut);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

// Nobody writes to a pipe in a folder: opening it would wait for ever.
TEST(TraceLimits, FoldersGiveTheirRegularFiles) {
  const std::string folder = TestPath("folder");
  ASSERT_EQ(mkdir(folder.c_str(), 0777), 0);
  ASSERT_EQ(mkfifo((folder + "/1.trace").c_str(), 0666), 0);
  ASSERT_EQ(mkfifo((folder + "/2.spool").c_str(), 0666), 0);
  ASSERT_EQ(symlink("/dev/zero", (folder + "/3.trace").c_str()), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(FindTraces(folder).status()));
  ASSERT_TRUE(WriteRecording(RandomRecording(1, 10), folder + "/4.trace").ok());
  EXPECT_THAT(*FindTraces(folder), testing::ElementsAre(folder + "/4.trace"));
}

TEST(TraceLimits, WhatHasNoEndIsNotReadToItsEnd) {
  const absl::Status status = MappedFile::Open("/dev/zero").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

}  // namespace
}  // namespace reprise::trace
