// The spool reader: what a process wrote comes back as one ordered story, whatever order, chunks
// and threads it was written in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/trace/spool_builder.h"
#include "trace/reader.h"

namespace reprise::trace {
namespace {

Recording Load(const SpoolBuilder& spool) {
  const std::string path = TestPath("a.spool");
  spool.Write(path);
  auto recording = LoadRecording(path);
  EXPECT_TRUE(recording.ok()) << recording.status();
  return recording.ok() ? *std::move(recording) : Recording{};
}

// "birth-death:size" per allocation.
std::vector<std::string> Story(const Recording& recording) {
  std::vector<std::string> story;
  for (const Allocation& a : recording.allocations) {
    story.push_back(std::to_string(a.birth) + "-" +
                    (a.death == kNever ? "" : std::to_string(a.death)) + ":" +
                    std::to_string(a.size));
  }
  return story;
}

TEST(TraceSpool, OneThread) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Allocate(0, 1, 0x1000, 100);
  spool.Allocate(0, 2, 0x2000, 0, kSpoolCalloc);
  spool.Free(0, 3, 0x1000);
  spool.Usable(0, 4, 0x2000, 24);
  spool.Allocate(0, 5, 0x1000, 7, kSpoolAligned, 0x1000, 6);
  const Recording recording = Load(spool);
  EXPECT_THAT(Story(recording), testing::ElementsAre("0-2:100", "1-:0", "3-:7"));
  EXPECT_EQ(recording.events, 4);
  EXPECT_EQ(recording.allocations[1].kind, AllocationKind::kCalloc);
  EXPECT_EQ(recording.allocations[2].kind, AllocationKind::kAligned);
  EXPECT_EQ(recording.allocations[2].log2_alignment, 6);
  EXPECT_THAT(recording.usable_answers, testing::ElementsAre(testing::Pair(1, 24)));
  EXPECT_TRUE(recording.damage.empty());
  EXPECT_EQ(recording.process.executable, "/bin/example");
  EXPECT_EQ(recording.process.place, 77);
  EXPECT_TRUE(recording.process.complete);
}

TEST(TraceSpool, AShortUsableSizeStandsInTheFirstWord) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 1);
  spool.Allocate(0, 1, 0x1000, 40000);
  constexpr uint64_t kAnswer = kSpoolSmallSizes - 1;
  spool.Words(0, {kSpoolSmallUsable | kAnswer << 4 | (0x1000 >> kSpoolAddressShift) << 20});
  spool.Free(0, 1, 0x1000);
  const Recording recording = Load(spool);
  EXPECT_THAT(Story(recording), testing::ElementsAre("0-1:40000"));
  EXPECT_THAT(recording.usable_answers, testing::ElementsAre(testing::Pair(0, kAnswer)));
}

// Each lies before the next event of its thread, and is no event itself.
TEST(TraceSpool, MarksStandBetweenEvents) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Thread(1, 1, 0, 99, 0);
  spool.Words(0, {kSpoolMark});
  spool.Allocate(0, 1, 0x1000, 100);
  spool.Allocate(1, 2, 0x2000, 100);
  spool.Words(1, {kSpoolMark, kSpoolMark});
  spool.Free(0, 3, 0x1000);
  spool.Words(0, {kSpoolSkip | kSpoolWaste | 1 << 20, kSpoolMark});
  const Recording recording = Load(spool);
  EXPECT_EQ(recording.events, 3);
  EXPECT_EQ(recording.lost_events, 0);
  EXPECT_TRUE(recording.damage.empty());
  const std::vector<Mark> expected = {{0, 0}, {2, 1}, {2, 1}, {3, 0}};
  EXPECT_EQ(recording.marks, expected);
}

// The free of an address by one thread and its reuse by another stand in the order of the epochs.
TEST(TraceSpool, ThreadsMergeByEpoch) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Thread(1, 1, 0, 42, 0);
  spool.Allocate(0, 1, 0x1000, 10);
  spool.Free(1, 2, 0x1000);
  spool.Allocate(0, 3, 0x1000, 11);
  spool.Free(1, 4, 0x1000);
  spool.Allocate(1, 5, 0x1000, 12);
  const Recording recording = Load(spool);
  EXPECT_THAT(Story(recording), testing::ElementsAre("0-1:10", "2-3:11", "4-:12"));
  ASSERT_EQ(recording.threads.size(), 2);
  EXPECT_EQ(recording.threads[0].path, 1);
  EXPECT_EQ(recording.threads[0].parent, kNone);
  EXPECT_EQ(recording.threads[1].path, 42);
  EXPECT_EQ(recording.threads[1].parent, 0);
  EXPECT_EQ(recording.threads[1].first_event, 1);
  EXPECT_EQ(recording.threads[1].end_event, 5);
  EXPECT_EQ(recording.allocations[0].thread, 0);
  EXPECT_EQ(recording.allocations[0].free_thread, 1);
  EXPECT_EQ(recording.implied_frees, 0);
}

// A chunk goes from thread to thread, and a thread's chunks need not lie in the order of time.
TEST(TraceSpool, ChunksArePassedOn) {
  SpoolBuilder spool;
  spool.Thread(0, 1, 0, 42, 0);
  spool.Allocate(0, 1, 0x1000, 1);
  spool.Thread(1, 0, 0, 1, 0);
  spool.Allocate(1, 2, 0x2000, 2);
  spool.Seal(1);
  spool.Thread(0, 0, 0, 1, 2);
  spool.Allocate(0, 3, 0x3000, 3);
  spool.Free(0, 4, 0x1000);
  const Recording recording = Load(spool);
  EXPECT_THAT(Story(recording), testing::ElementsAre("0-3:1", "1-:2", "2-:3"));
  EXPECT_EQ(recording.allocations[0].free_thread, 0);
  EXPECT_EQ(recording.allocations[2].thread, 0);
}

// The events of an epoch stay together, in the order of memory, wherever other threads' epochs lie.
TEST(TraceSpool, TurnsAreNotMixed) {
  SpoolBuilder spool;
  const uint64_t path = 1;
  spool.Thread(0, 0, 0, path, 1);
  spool.Allocate(0, 1, 0x1000, 1);
  spool.Words(0, {kSpoolSkip | kSpoolWaste | 2 << 20, 0});
  spool.Allocate(0, 1, 0x2000, 70000);
  spool.Free(0, 1, 0x1000);
  spool.Thread(1, 1, 0, 7, 2);
  spool.Allocate(1, 2, 0x1000, 3, kSpoolSmallMalloc);
  spool.Free(1, 2, 0x2000);
  spool.Free(1, 4, 0x3000);
  spool.Allocate(0, uint64_t{1} << 40, 0x3000, 65535, kSpoolSmallMalloc);
  spool.Allocate(0, 3, 0x3000, 5);  // an epoch that goes back: the reader takes it as it is
  const Recording recording = Load(spool);
  EXPECT_TRUE(recording.damage.empty());
  EXPECT_THAT(Story(recording),
              testing::ElementsAre("0-2:1", "1-4:70000", "3-:3", "6-7:65535", "8-:5"));
  EXPECT_EQ(recording.unmatched_frees, 1);
}

// A hole parts an epoch into segments.
TEST(TraceSpool, AHoleWithinATurnKeepsItsOrder) {
  SpoolBuilder spool;
  spool.Thread(1, 1, 0, 7, 1);
  spool.Allocate(1, 1, 0x9000, 9);
  spool.Free(1, 4, 0x9000);
  spool.Thread(0, 0, 0, 1, 2);
  for (uint64_t i = 1; i < 20; ++i) {
    spool.Allocate(0, 2, 0x1000, i);
    spool.Words(0, {0});
    spool.Free(0, 2, 0x1000);
  }
  const Recording recording = Load(spool);
  ASSERT_EQ(recording.allocations.size(), 20);
  EXPECT_EQ(recording.implied_frees, 0);
  EXPECT_EQ(recording.unmatched_frees, 0);
  EXPECT_EQ(recording.allocations[0].death, 39);
}

constexpr uint64_t Skip(uint64_t words) { return kSpoolSkip | words << 20; }

// A signal handler jumps out of the hook it interrupted, so that a slot stays empty for ever: only
// that event is missing. Whatever part of the slot was written (its first word says "pass over"),
// and sealed or not.
TEST(TraceSpool, AHoleCostsOneEvent) {
  const std::vector<std::vector<uint64_t>> holes = {{0},
                                                    {0, 0, 0},
                                                    {Skip(3), 0, 0},
                                                    {Skip(3), 0x5555, 0},
                                                    {Skip(3), 0x555555555234, 100},
                                                    {Skip(4), 1, 42, 0}};
  for (const bool sealed : {false, true}) {
    for (const auto& hole : holes) {
      SpoolBuilder spool;
      spool.Thread(0, 0, 0, 1, 0);
      spool.Allocate(0, 1, 0x1000, 1);
      spool.Words(0, hole);
      for (uint64_t i = 3; i < 40; ++i) spool.Allocate(0, i, i * 0x1000, i);
      if (sealed) spool.Seal(0);
      const Recording recording = Load(spool);
      ASSERT_EQ(recording.allocations.size(), 38) << hole.size();
      EXPECT_EQ(recording.allocations[37].size, 39);
      EXPECT_EQ(recording.lost_events, 1);
      EXPECT_TRUE(recording.damage.empty());
    }
  }
}

TEST(TraceSpool, WasteCostsNothing) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Allocate(0, 1, 0x1000, 1);
  spool.Words(0, {Skip(4) | kSpoolWaste, 0x1234, 0, 7});
  spool.Free(0, 1, 0x1000);
  const Recording recording = Load(spool);
  EXPECT_THAT(Story(recording), testing::ElementsAre("0-1:1"));
  EXPECT_EQ(recording.lost_events, 0);
}

TEST(TraceSpool, ReallocLinksOldAndNew) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Allocate(0, 1, 0x1000, 10);
  spool.Free(0, 2, 0x1000, kSpoolReallocFree);
  spool.Allocate(0, 3, 0x2000, 70000, kSpoolReallocAlloc);
  spool.Free(0, 4, 0x2000, kSpoolReallocFree);
  spool.Allocate(0, 5, 0x2000, 65535, kSpoolSmallRealloc);
  const Recording recording = Load(spool);
  EXPECT_THAT(Story(recording), testing::ElementsAre("0-1:10", "2-3:70000", "4-:65535"));
  for (const int i : {1, 2}) {
    EXPECT_EQ(recording.allocations[i].kind, AllocationKind::kRealloc);
    EXPECT_EQ(recording.allocations[i].previous, i - 1);
  }
}

// A handler reallocates within a realloc: they nest.
TEST(TraceSpool, ReallocsNest) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Allocate(0, 1, 0x1000, 1);
  spool.Allocate(0, 2, 0x2000, 2);
  spool.Free(0, 3, 0x1000, kSpoolReallocFree);
  spool.Free(0, 4, 0x2000, kSpoolReallocFree);
  spool.Allocate(0, 5, 0x3000, 3, kSpoolReallocAlloc);
  spool.Allocate(0, 6, 0x4000, 4, kSpoolReallocAlloc);
  const Recording recording = Load(spool);
  EXPECT_EQ(recording.allocations[2].previous, 1);
  EXPECT_EQ(recording.allocations[3].previous, 0);
}

TEST(TraceSpool, FailedReallocLeavesTheBlock) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Allocate(0, 1, 0x1000, 10);
  spool.Free(0, 2, 0x1000, kSpoolReallocFree);
  spool.Free(0, 3, 0x1000, kSpoolReallocFailed);
  spool.Free(0, 4, 0x1000);
  const Recording recording = Load(spool);
  EXPECT_THAT(Story(recording), testing::ElementsAre("0-1:10"));
  EXPECT_EQ(recording.unmatched_frees, 0);
}

// The failure is noted in the thread's next chunk.
TEST(TraceSpool, FailedReallocAcrossChunks) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Allocate(0, 1, 0x1000, 10);
  spool.Free(0, 2, 0x1000, kSpoolReallocFree);
  spool.Seal(0);
  spool.Thread(1, 0, 0, 1, 2);
  spool.Free(1, 3, 0x1000, kSpoolReallocFailed);
  const Recording recording = Load(spool);
  EXPECT_THAT(Story(recording), testing::ElementsAre("0-:10"));
}

TEST(TraceSpool, UnmatchedAndImpliedFrees) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Free(0, 1, 0x9000);
  spool.Allocate(0, 2, 0x1000, 10);
  spool.Allocate(0, 3, 0x1000, 20);
  const Recording recording = Load(spool);
  EXPECT_THAT(Story(recording), testing::ElementsAre("1-2:10", "3-:20"));
  EXPECT_EQ(recording.unmatched_frees, 1);
  EXPECT_EQ(recording.implied_frees, 1);
  EXPECT_EQ(recording.events, 4);
}

// A library is unloaded and another one takes its addresses.
TEST(TraceSpool, ModulesCountFromTheirEpochOn) {
  SpoolBuilder spool;
  spool.Module("/lib/a.so", "\xab\xcd", 0x10000, 0x20000, 0);
  spool.Module("/lib/b.so", "", 0x18000, 0x28000, 3);
  spool.Thread(0, 0, 0, 1, 0);
  spool.Allocate(0, 1, 0x1000, 1, kSpoolMalloc, SiteWord(0x18010, 5));
  spool.Allocate(0, 2, 0x2000, 1, kSpoolMalloc, SiteWord(0x18010, 6));
  spool.Allocate(0, 3, 0x3000, 1, kSpoolMalloc, SiteWord(0x18010, 5));
  spool.Allocate(0, 4, 0x4000, 1, kSpoolMalloc, SiteWord(0x500, 0));
  const Recording recording = Load(spool);
  ASSERT_EQ(recording.modules.size(), 2);
  EXPECT_EQ(recording.modules[0].build_id, "abcd");
  ASSERT_EQ(recording.sites.size(), 4);
  EXPECT_EQ(recording.sites[0].module, 0);
  EXPECT_EQ(recording.sites[0].offset, 0x8010);
  EXPECT_EQ(recording.sites[0].depth, 5);
  EXPECT_EQ(recording.sites[1].depth, 6);
  EXPECT_EQ(recording.sites[2].module, 1);
  EXPECT_EQ(recording.sites[2].offset, 0x10);
  EXPECT_EQ(recording.sites[3].module, kNone);
  EXPECT_EQ(recording.sites[3].offset, 0x500);
}

TEST(TraceSpool, BadChecksumIsDamageAndCounted) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 1);
  spool.Allocate(0, 1, 0x1000, 10);
  spool.Seal(0);
  spool.Thread(1, 0, 0, 1, 1);
  spool.Allocate(1, 2, 0x2000, 20);
  std::string bytes = spool.Bytes();
  bytes[SpoolBuilder::ChunkOffset(0) + sizeof(SpoolChunk) + 32 + 16] ^= 1;  // the size
  const std::string path = TestPath("a.spool");
  WriteFile(path, bytes);
  const auto recording = LoadRecording(path);
  ASSERT_TRUE(recording.ok());
  EXPECT_THAT(Story(*recording), testing::ElementsAre("0-:20"));
  ASSERT_EQ(recording->damage.size(), 1);
  EXPECT_EQ(recording->damage[0].offset, SpoolBuilder::ChunkOffset(0));
  EXPECT_EQ(recording->damage[0].bytes, kSpoolChunkBytes);
  EXPECT_EQ(recording->lost_events, 1);
}

constexpr uint64_t kStackBase = 0x2a00c0000000;

// The number of a stack in place of a return address; sites that differ in their callers are two,
// and callers that several sites share are told once.
TEST(TraceSpool, StacksNameTheirSites) {
  SpoolBuilder spool;
  spool.header.stack_base = kStackBase;
  spool.Module("/bin/example", "", 0x10000, 0x20000, 1);
  spool.Thread(0, 0, 0, 1, 2);
  spool.Stack(0, 0, {0x10100, 0x10200, 0x7000});
  spool.Stack(0, 1, {0x10100, 0x10300});
  spool.Allocate(0, 2, 0x1000, 1, kSpoolSmallMalloc, SiteWord(kStackBase, 5));
  spool.Allocate(0, 2, 0x2000, 2, kSpoolCalloc, SiteWord(kStackBase + 1, 5));
  spool.Thread(1, 1, 0, 42, 3);
  spool.Stack(1, 2, {0x10500, 0x10300});
  spool.Allocate(1, 3, 0x3000, 3, kSpoolMalloc, SiteWord(kStackBase + 2, 5));
  spool.Allocate(1, 3, 0x4000, 4, kSpoolMalloc, SiteWord(kStackBase, 6));
  spool.Allocate(1, 3, 0x5000, 5, kSpoolMalloc, SiteWord(0x10100, 5));
  spool.Allocate(1, 3, 0x6000, 6, kSpoolMalloc, SiteWord(kStackBase + 9, 5));
  const Recording recording = Load(spool);
  EXPECT_TRUE(recording.damage.empty());
  ASSERT_EQ(recording.allocations.size(), 6);
  EXPECT_THAT(recording.stacks,
              testing::ElementsAre(testing::ElementsAre(Frame{0, 0x200}, Frame{kNone, 0x7000}),
                                   testing::ElementsAre(Frame{0, 0x300})));
  const auto site = [&](size_t i) {
    const Site& it = recording.sites.at(recording.allocations[i].site);
    return std::tuple(it.offset, it.depth, it.stack);
  };
  EXPECT_EQ(site(0), std::tuple(0x100, 5, 0));
  EXPECT_EQ(site(1), std::tuple(0x100, 5, 1));
  EXPECT_EQ(site(2), std::tuple(0x500, 5, 1));
  EXPECT_EQ(site(3), std::tuple(0x100, 6, 0));
  EXPECT_EQ(site(4), std::tuple(0x100, 5, kNone));
  EXPECT_EQ(recording.allocations[5].site, kNone);  // nobody told of that stack
}

// A stack that claims more addresses than there is room for is damage, and nothing else.
TEST(TraceSpool, StackWithoutEnd) {
  for (const uint64_t count : {0, 3, 65535}) {
    SpoolBuilder spool;
    spool.header.stack_base = kStackBase;
    spool.Thread(0, 0, 0, 1, 0);
    spool.Allocate(0, 1, 0x1000, 10);
    spool.Words(0, {kSpoolStack | count << 4});
    spool.Seal(0);
    const Recording recording = Load(spool);
    EXPECT_THAT(Story(recording), testing::ElementsAre("0-:10"));
    EXPECT_EQ(recording.damage.size(), count == 0 ? 0 : 1) << count;
  }
}

TEST(TraceSpool, SizesThatNoAddressSpaceHasAreDamage) {
  for (const bool usable : {false, true}) {
    SpoolBuilder spool;
    spool.Thread(0, 0, 0, 1, 0);
    spool.Allocate(0, 1, 0x1000, 10);
    if (usable) {
      spool.Usable(0, 1, 0x1000, kMaxSize + 1);
    } else {
      spool.Allocate(0, 1, 0x2000, 20, kSpoolAligned, 0x1000, kSizeBits);
    }
    spool.Seal(0);
    const Recording recording = Load(spool);
    EXPECT_THAT(Story(recording), testing::ElementsAre("0-:10"));
    EXPECT_EQ(recording.damage.size(), 1);
  }
}

TEST(TraceSpool, RefusesWhatItCannotRead) {
  SpoolBuilder spool;
  spool.Thread(0, 0, 0, 1, 0);
  spool.header.version = kSpoolVersion + 1;
  const std::string path = TestPath("a.spool");
  spool.Write(path);
  EXPECT_EQ(LoadRecording(path).status().code(), absl::StatusCode::kUnimplemented);
  WriteFile(path, "");
  EXPECT_EQ(LoadRecording(path).status().code(), absl::StatusCode::kInvalidArgument);
  WriteFile(path, spool.Bytes().substr(0, 100));
  EXPECT_EQ(LoadRecording(path).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(LoadRecording(TestPath("missing")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace reprise::trace
