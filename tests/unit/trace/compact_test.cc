// The compact trace: what is written comes back, and damage costs only what it touches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/trace/random_recording.h"
#include "tests/unit/trace/spool_builder.h"
#include "trace/chunk.h"
#include "trace/reader.h"
#include "trace/trace_writer.h"
#include "trace/varint.h"

namespace reprise::trace {
namespace {

// Streams `recording` into a file the way the launcher does, threads of unmatched frees kept.
std::string Write(const Recording& recording, const std::string& name) {
  const std::string path = TestPath(name);
  const absl::Status status = WriteRecording(recording, path);
  EXPECT_TRUE(status.ok()) << status;
  return path;
}

// What was written before there were stacks is read as ever.
TEST(TraceCompact, VersionOneIsReadAsWell) {
  Recording recording = RandomRecording(1, 300);
  for (Site& site : recording.sites) site.stack = kNone;
  recording.stacks.clear();
  const std::string path = Write(recording, "a.trace");
  const auto expected = LoadRecording(path);
  ASSERT_TRUE(expected.ok());
  FileHeader header;
  header.version = 1;
  header.checksum = XXH3_64bits(&header, offsetof(FileHeader, checksum));
  std::string bytes = ReadFile(path);
  bytes.replace(0, sizeof(header), reinterpret_cast<const char*>(&header), sizeof(header));
  WriteFile(path, bytes);
  const auto read = LoadRecording(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->damage.empty());
  ExpectSame(*read, *expected);
}

TEST(TraceCompact, RandomRecordingsComeBack) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Recording expected = RandomRecording(seed, 300);
    const auto first = LoadRecording(Write(expected, "a.trace"));
    ASSERT_TRUE(first.ok()) << first.status();
    // A recording in memory does not hold the threads of unmatched frees, nor which frees were
    // implied, nor when usable sizes were asked; what it does hold survives.
    EXPECT_EQ(first->implied_frees, 0);
    Recording settled = *first;
    settled.implied_frees = expected.implied_frees;
    for (size_t i = 0; i < expected.threads.size(); ++i) {
      expected.threads[i].first_event = settled.threads[i].first_event;
      expected.threads[i].end_event = settled.threads[i].end_event;
    }
    std::stable_sort(expected.usable_answers.begin(), expected.usable_answers.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    settled.sites.clear();
    for (size_t i = 0; i < settled.allocations.size(); ++i) {
      // Sites may be numbered otherwise; they must say the same.
      uint32_t& ours = settled.allocations[i].site;
      const uint32_t theirs = expected.allocations[i].site;
      ASSERT_EQ(ours == kNone, theirs == kNone);
      if (ours == kNone) continue;
      EXPECT_EQ(first->sites[ours].offset, expected.sites[theirs].offset);
      EXPECT_EQ(first->sites[ours].module, expected.sites[theirs].module);
      EXPECT_EQ(first->sites[ours].depth, expected.sites[theirs].depth);
      EXPECT_EQ(first->sites[ours].stack, expected.sites[theirs].stack);
      ours = theirs;
    }
    settled.sites = expected.sites;
    ExpectSame(settled, expected);
    // Copying a trace changes nothing at all.
    const std::string copy = TestPath("b.trace");
    ASSERT_TRUE(Compact(TestPath("a.trace"), copy).ok());
    const auto second = LoadRecording(copy);
    ASSERT_TRUE(second.ok());
    ExpectSame(*second, *first);
  }
}

TEST(TraceCompact, SpoolAndItsTraceSayTheSame) {
  SpoolBuilder spool;
  spool.Module("/bin/example", "\x01\x02", 0x1000, 0x9000, 0);
  spool.Thread(0, 0, 0, 1, 0);
  spool.Thread(1, 1, 0, 99, 0);
  spool.Allocate(0, 1, 0x1000, 10, kSpoolMalloc, SiteWord(0x1234, 3));
  spool.Allocate(1, 2, 0x2000, 20, kSpoolCalloc, SiteWord(0x1235, 4));
  spool.Free(0, 3, 0x1000, kSpoolReallocFree);
  spool.Free(1, 4, 0x7770);
  spool.Allocate(0, 5, 0x3000, 30, kSpoolReallocAlloc, SiteWord(0x1234, 3));
  spool.Usable(1, 6, 0x3000, 40);
  spool.Allocate(1, 7, 0x3000, 50);
  spool.header.lost_events = 4;
  const std::string from = TestPath("a.spool");
  const std::string to = TestPath("a.trace");
  spool.Write(from);
  const auto totals = Compact(from, to);
  ASSERT_TRUE(totals.ok());
  EXPECT_EQ(totals->events, 7);
  const auto expected = LoadRecording(from);
  const auto actual = LoadRecording(to);
  ASSERT_TRUE(expected.ok() && actual.ok());
  ExpectSame(*actual, *expected);
  EXPECT_EQ(actual->implied_frees, 1);
  EXPECT_EQ(actual->allocations[2].previous, 0);
  EXPECT_EQ(ReadProcess(to)->executable, "/bin/example");
  EXPECT_EQ(ReadProcess(from)->build_id, "0102");
}

TEST(TraceCompact, NamesAreDroppedOnRequest) {
  const std::string path = Write(RandomRecording(1, 100), "a.trace");
  const std::string to = TestPath("b.trace");
  ASSERT_TRUE(Compact(path, to, true).ok());
  const auto recording = LoadRecording(to);
  ASSERT_TRUE(recording.ok());
  EXPECT_EQ(recording->modules[1].path, "module 1");
  EXPECT_EQ(recording->modules[0].build_id, "");
  EXPECT_EQ(recording->process.executable, "");
  EXPECT_EQ(recording->allocations.size(), LoadRecording(path)->allocations.size());
}

TEST(TraceCompact, AnUnfinishedFileNeverAppears) {
  const std::string path = TestPath("a.trace");
  {
    auto writer = TraceWriter::Create(path);
    ASSERT_TRUE(writer.ok());
  }
  const auto folder = std::filesystem::path(path).parent_path();
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_FALSE(Compact(TestPath("missing.spool"), path).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_FALSE(TraceWriter::Create("/nonexistent/a.trace").ok());
}

// Several EVENTS chunks, of which one is destroyed: the others are read, the loss is counted.
TEST(TraceCompact, ReadingGoesOnAfterALostChunk) {
  const Recording recording = RandomRecording(7, 800000);
  const std::string path = Write(recording, "a.trace");
  std::string bytes = ReadFile(path);
  std::vector<Damage> none;
  ChunkScanner scanner({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                       sizeof(FileHeader), none);
  std::vector<Chunk> events;
  for (Chunk chunk; scanner.Next(chunk);) {
    if (chunk.type == ChunkType::kEvents) events.push_back(chunk);
  }
  ASSERT_GE(events.size(), 3);
  const uint64_t first_lost = ByteReader(events[1].raw).Varint();
  bytes[events[1].offset + sizeof(ChunkHeader) + 100] ^= 4;
  WriteFile(path, bytes);
  const auto damaged = LoadRecording(path);
  ASSERT_TRUE(damaged.ok());
  ASSERT_EQ(damaged->damage.size(), 1);
  EXPECT_EQ(damaged->damage[0].offset, events[1].offset);
  EXPECT_EQ(damaged->damage[0].bytes, events[1].bytes);
  EXPECT_EQ(damaged->events + damaged->lost_events, recording.events);
  EXPECT_GT(damaged->lost_events, 0);
  EXPECT_GT(damaged->events, recording.events / 3);
  // Marks among the lost events are lost, the others lie where they did.
  std::vector<Mark> expected;
  const uint64_t lost_end = recording.events - (damaged->events - first_lost);
  for (const Mark& mark : recording.marks) {
    if (mark.event < first_lost) expected.push_back(mark);
    if (mark.event >= lost_end)
      expected.push_back({mark.event - damaged->lost_events, mark.thread});
  }
  EXPECT_LT(expected.size(), recording.marks.size());
  EXPECT_EQ(damaged->marks, expected);
  // A whole recording is read without the table of live blocks that streaming needs.
  Recording streamed;
  ASSERT_TRUE(
      ReadTrace(path, streamed, [&](const Event& event) { AppendEvent(streamed, event); }).ok());
  ExpectSame(*damaged, streamed);
}

TEST(TraceCompact, Refusals) {
  const std::string path = Write(RandomRecording(1, 100), "a.trace");
  std::string bytes = ReadFile(path);
  WriteFile(path, bytes.substr(0, 20));
  EXPECT_EQ(LoadRecording(path).status().code(), absl::StatusCode::kDataLoss);
  bytes[0] = 'X';
  WriteFile(path, bytes);
  EXPECT_EQ(LoadRecording(path).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(LoadRecording(path).status().message()), testing::StartsWith(path));
}

// A chunk whose checksums are right may still hold nonsense; it must not crash or loop.
TEST(TraceCompact, NonsenseInsideAnIntactChunkIsDamage) {
  for (const ChunkType type : {ChunkType::kModules, ChunkType::kThreads, ChunkType::kSites,
                               ChunkType::kEvents, ChunkType::kDamage, ChunkType::kMarks}) {
    std::string huge;
    for (const uint64_t number : {uint64_t{0}, UINT64_MAX, UINT64_MAX >> 1}) {
      AppendVarint(huge, number);
    }
    const std::string path = TestPath("a.trace");
    WriteFile(path, SealFileHeader() + SealChunk(type, 0, huge + "\xff") +
                        SealChunk(ChunkType::kEnd, 1, ""));
    Recording recording;
    const absl::Status status = ReadTrace(path, recording, [](const Event&) {});
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;  // no event is left
    EXPECT_EQ(recording.damage.size(), 1) << static_cast<int>(type);
  }
}

// Larger than any address space: sums over such sizes would wrap, and plans would hold nonsense.
TEST(TraceCompact, SizesThatNoAddressSpaceHasAreDamage) {
  const auto damaged = [](uint64_t log2_alignment, uint64_t size, uint64_t usable) {
    std::string sites, events, end;
    for (const uint64_t number :
         {uint64_t{0}, uint64_t{1}, log2_alignment << 2, uint64_t{0}, uint64_t{0}, uint64_t{0}}) {
      AppendVarint(sites, number);
    }
    for (const uint64_t number : {uint64_t{0}, uint64_t{0}, uint64_t{0}, uint64_t{0}, size,
                                  uint64_t{4 << 2 | 2}, uint64_t{1}, usable}) {
      AppendVarint(events, number);
    }
    for (const uint64_t number : {1, 1, 1, 2, 1, 1})
      AppendVarint(end, number);  // an event, a block
    const std::string path = TestPath("a.trace");
    WriteFile(path, SealFileHeader() + SealChunk(ChunkType::kSites, 0, sites) +
                        SealChunk(ChunkType::kEvents, 1, events) +
                        SealChunk(ChunkType::kEnd, 2, end));
    Recording recording;
    const absl::Status status = ReadTrace(path, recording, [](const Event&) {});
    EXPECT_EQ(status.ok(), recording.events > 0) << status;
    return !recording.damage.empty();
  };
  EXPECT_FALSE(damaged(kSizeBits - 1, kMaxSize, kMaxSize));
  EXPECT_TRUE(damaged(kSizeBits, 1, 1));
  EXPECT_TRUE(damaged(0, kMaxSize + 1, 1));
  EXPECT_TRUE(damaged(0, UINT64_MAX, 1));
  EXPECT_TRUE(damaged(0, 1, kMaxSize + 1));
}

TEST(FindTraces, AFolderGivesItsTracesByName) {
  for (const char* name : {"b.trace", "a.spool", "b.spool", "c.txt"}) {
    WriteFile(TestPath(name), "something");
  }
  for (const size_t bytes : {0, 4096}) {  // of processes that were killed before they began
    WriteFile(TestPath("begun" + std::to_string(bytes) + ".spool"), std::string(bytes, '\0'));
  }
  const std::string folder = std::filesystem::path(TestPath("x")).parent_path().string();
  EXPECT_THAT(*FindTraces(folder), testing::ElementsAre(TestPath("a.spool"), TestPath("b.trace")));
  EXPECT_THAT(*FindTraces(TestPath("c.txt")), testing::ElementsAre(TestPath("c.txt")));
  EXPECT_EQ(FindTraces(TestPath("none")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace reprise::trace
