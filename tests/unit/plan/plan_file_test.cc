// Plan files: what goes in comes out, and nothing that is damaged is taken for a plan.
#include "replay/plan/plan_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "planner/core/check.h"
#include "planner/core/instance.h"
#include "replay/plan/plan_builder.h"
#include "replay/plan/plan_encoder.h"
#include "replay/plan/plan_verifier.h"
#include "tests/unit/plan/recordings.h"
#include "trace/statistics.h"

namespace reprise::replay {
namespace {

namespace fs = std::filesystem;

class PlanFileTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("replay_plan_test." + std::to_string(getpid()));
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string Write(const std::string& bytes) {
    const std::string path = (directory_ / "a.plan").string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  fs::path directory_;
};

BuiltPlan Build(const trace::Recording& recording, LaneMode mode = LaneMode::kThread) {
  planner::Options options;
  options.budget_seconds = 0.05;
  options.threads = 1;
  absl::StatusOr<BuiltPlan> built = BuildPlan(recording, options, mode);
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

TEST_F(PlanFileTest, HoldsTheOffsetsThatWerePlanned) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    RecordingShape shape;
    shape.threads = seed % 4 + 1;
    shape.remote_frees = 0.2;
    const trace::Recording recording = RandomRecording(shape, seed);
    for (const LaneMode mode : {LaneMode::kThread, LaneMode::kNone}) {
      const BuiltPlan built = Build(recording, mode);
      EXPECT_TRUE(planner::Check(WholeInstance(recording), built.offsets).valid);
      const auto file = PlanFile::Read(Write(built.bytes));
      ASSERT_TRUE(file.ok()) << file.status();
      const auto offsets = PlanOffsets(*file, recording);
      ASSERT_TRUE(offsets.ok()) << offsets.status();
      EXPECT_EQ(*offsets, built.offsets);
      EXPECT_EQ(file->header().arena_bytes, static_cast<uint64_t>(built.arena_bytes));
      EXPECT_LE(built.makespan, built.arena_bytes);
      EXPECT_GE(built.makespan, built.max_load);
    }
  }
}

// Offsets and keys that do not fit into one word of the stream.
TEST_F(PlanFileTest, HoldsFarOffsetsAndRareKeys) {
  RecordingShape shape;
  shape.allocations = 20000;
  shape.sites = 3000;
  shape.most_bytes = 1 << 20;
  const trace::Recording recording = RandomRecording(shape, 99);
  const BuiltPlan built = Build(recording);
  const auto file = PlanFile::Read(Write(built.bytes));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*PlanOffsets(*file, recording), built.offsets);
}

TEST_F(PlanFileTest, AnotherRecordingIsRefused) {
  const BuiltPlan built = Build(RandomRecording({}, 1));
  const auto file = PlanFile::Read(Write(built.bytes));
  RecordingShape longer;
  longer.allocations = 1001;
  EXPECT_EQ(PlanOffsets(*file, RandomRecording(longer, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A plan that is not in the page cache comes back in single pages: with one look at it no more than
// a stretch becomes resident. Where the file system or the cache does not let go of it this shows
// nothing.
TEST_F(PlanFileTest, ComesBackInSinglePages) {
  trace::Recording recording = RandomRecording({}, 3);
  recording.process.executable.assign(40 << 20, 'x');  // the system's pieces grow as it reads on
  const BuiltPlan built = Build(recording);
  const std::string path = (directory_ / "a.plan").string();
  ASSERT_TRUE(WritePlanFile(path, built.bytes).ok());
  const int fd = open(path.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fsync(fd), 0);
  EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_TRUE(PlanFile::Read(path).ok());
  const size_t pages = built.bytes.size() / 4096;
  auto* mapped = static_cast<char*>(mmap(nullptr, pages * 4096, PROT_READ, MAP_PRIVATE, fd, 0));
  ASSERT_NE(mapped, MAP_FAILED);
  volatile char look = mapped[pages / 8 * 7 * 4096];
  (void)look;
  std::vector<uint64_t> entries(pages);
  const int map = open("/proc/self/pagemap", O_RDONLY);
  const auto bytes = static_cast<ssize_t>(pages * sizeof(uint64_t));
  const auto at = static_cast<off_t>(reinterpret_cast<uint64_t>(mapped) / 4096 * sizeof(uint64_t));
  EXPECT_EQ(pread(map, entries.data(), pages * sizeof(uint64_t), at), bytes);
  const auto resident = std::count_if(entries.begin(), entries.end(),
                                      [](uint64_t entry) { return entry >> 63 != 0; });
  EXPECT_GE(resident, 1);
  EXPECT_LE(resident, 16);
  close(map);
  munmap(mapped, pages * 4096);
  close(fd);
}

TEST_F(PlanFileTest, ManyLongBlocksBeginWithAPage) {
  RecordingShape shape;
  shape.allocations = 2000;
  shape.most_bytes = 1 << 20;
  shape.aligned = 0;
  for (const bool many : {true, false}) {
    if (!many) shape.allocations = 250;
    const trace::Recording recording = RandomRecording(shape, 8);
    const BuiltPlan built = Build(recording);
    EXPECT_TRUE(planner::Check(WholeInstance(recording), built.offsets).valid);
    EXPECT_EQ(built.max_load, planner::MaxLoad(WholeInstance(recording)));
    uint64_t within = 0;
    for (size_t i = 0; i < built.offsets.size(); ++i) {
      within += recording.allocations[i].size >= 256 << 10 && built.offsets[i] % 4096 != 0 ? 1 : 0;
    }
    EXPECT_EQ(within == 0, many) << within;
  }
}

TEST_F(PlanFileTest, SaysWhereAllOfTheArenaBecomesResident) {
  struct {
    uint32_t allocations;
    uint64_t most_bytes;
    double never_freed;
    bool dense;
  } const kCases[] = {{30, 16 << 20, 0, false},      // long blocks, a few
                      {30000, 1 << 20, 0, true},     // many
                      {30000, 4 << 10, 0.1, true}};  // short ones
  for (const auto& [allocations, most_bytes, never_freed, dense] : kCases) {
    RecordingShape shape;
    shape.never_freed = never_freed;
    shape.allocations = allocations;
    shape.most_bytes = most_bytes;
    const BuiltPlan built = Build(RandomRecording(shape, 2));
    const auto file = PlanFile::Read(Write(built.bytes));
    ASSERT_TRUE(file.ok());
    EXPECT_GT(built.arena_bytes, uint64_t{kHugePage});
    EXPECT_EQ(file->header().dense.count, dense ? built.arena_bytes / kHugePage : 0)
        << allocations << " up to " << most_bytes << " bytes in " << built.arena_bytes;
  }
}

// 4 MiB of short blocks beside a long one, of which the program may touch little.
TEST_F(PlanFileTest, SaysWhichPartsOfTheArenaBecomeResident) {
  constexpr uint64_t kShort = 2048;
  std::vector<Made> made;
  for (uint64_t i = 0; i < kShort; ++i) made.push_back({i, 2 * kShort + 1 - i, 2048});
  made.push_back({kShort, kShort + 1, 8 << 20});
  const BuiltPlan built = Build(RecordingOf(made));
  const auto file = PlanFile::Read(Write(built.bytes));
  ASSERT_TRUE(file.ok());
  EXPECT_GE(built.arena_bytes, uint64_t{12 << 20});
  EXPECT_GE(file->header().dense.count, 1u);
  EXPECT_LE(file->header().dense.count, 2u);
}

TEST_F(PlanFileTest, AnEmptyRecordingHasAPlan) {
  trace::Recording silent;
  silent.threads.push_back({1, trace::kNone, {}, 0, 0});
  EXPECT_EQ(Build(silent).strategy, "auto");
  const BuiltPlan built = Build(trace::Recording{});
  EXPECT_EQ(built.makespan, 0);
  EXPECT_TRUE(PlanFile::Read(Write(built.bytes)).ok());
}

// Blocks whose usable size the program was told keep that size, and how much that is can be told.
TEST_F(PlanFileTest, TheMaxLoadCountsUsableSizesThatTheProgramWasTold) {
  RecordingShape shape;
  shape.usable_asked = 0.5;
  const trace::Recording recording = RandomRecording(shape, 5);
  const BuiltPlan built = Build(recording, LaneMode::kNone);
  const trace::Statistics statistics = trace::ComputeStatistics(recording, 0);
  EXPECT_GT(built.usable_size_bytes, 0);
  EXPECT_EQ(built.max_load - built.usable_size_bytes, static_cast<int64_t>(statistics.max_load));

  trace::Recording never_asked = recording;
  never_asked.usable_answers.clear();
  const BuiltPlan requested = Build(never_asked, LaneMode::kNone);
  EXPECT_EQ(requested.usable_size_bytes, 0);
  EXPECT_EQ(requested.max_load, static_cast<int64_t>(statistics.max_load));
}

// Other threads of the recording make no difference while they allocate nothing.
TEST_F(PlanFileTest, TheMakespanOfOneAllocatingThreadIsTheHighestEnd) {
  trace::Recording recording = RandomRecording({}, 7);
  ASSERT_EQ(recording.threads.size(), 1u);
  recording.threads.push_back({2, 0, {}, 0, recording.events});
  const BuiltPlan built = Build(recording);
  EXPECT_EQ(built.estimated_held_bytes, 0);
  EXPECT_EQ(built.makespan, planner::Check(WholeInstance(recording), built.offsets).makespan);
}

TEST_F(PlanFileTest, EveryTruncationIsRefused) {
  RecordingShape small;
  small.allocations = 20;
  const std::string bytes = Build(RandomRecording(small, 3)).bytes;
  for (size_t length = 0; length < bytes.size(); length += 7) {
    EXPECT_FALSE(PlanFile::Read(Write(bytes.substr(0, length))).ok()) << length;
  }
}

TEST_F(PlanFileTest, EveryFlippedBitIsRefused) {
  RecordingShape small;
  small.allocations = 10;
  std::string bytes = Build(RandomRecording(small, 4)).bytes;
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 11) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(PlanFile::Read(Write(bytes)).ok()) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  }
}

// A checksum can be made for anything: what is read then may be wrong, but lies in the file.
TEST_F(PlanFileTest, FlippedBitsUnderARightChecksumAreHarmless) {
  RecordingShape small;
  small.allocations = 10;
  const trace::Recording recording = RandomRecording(small, 4);
  std::string bytes = Build(recording).bytes;
  constexpr size_t kChecksum = offsetof(PlanHeader, checksum);
  size_t refused = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 13) {
    const std::string before = bytes;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    std::memset(bytes.data() + kChecksum, 0, sizeof(uint64_t));
    const uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
    std::memcpy(bytes.data() + kChecksum, &checksum, sizeof(checksum));
    const auto file = PlanFile::Read(Write(bytes));
    if (file.ok()) {
      const auto* modules = file->table<PlanModule>(file->header().modules);
      for (uint64_t i = 0; i < file->header().modules.count; ++i) {
        EXPECT_LE(file->String(modules[i].path_offset, modules[i].path_bytes).size(), bytes.size());
      }
      const auto offsets = PlanOffsets(*file, recording);
      for (size_t i = 0; offsets.ok() && i < offsets->size(); ++i) {
        EXPECT_LE((*offsets)[i] + static_cast<int64_t>(recording.allocations[i].size),
                  file->header().arena_bytes)
            << bit;
      }
    } else {
      ++refused;
    }
    bytes = before;
  }
  EXPECT_GT(refused, 30);
}

// What a lane takes for granted when it follows its tables.
TEST_F(PlanFileTest, ALaneWhoseTablesEndBeforeItDoesIsRefused) {
  const std::string bytes = Build(RandomRecording({}, 4)).bytes;
  const auto is_read = [&](auto change) {
    std::string changed = bytes;
    auto* header = reinterpret_cast<PlanHeader*>(changed.data());
    const auto at = [&](const PlanTable& table) { return changed.data() + table.offset; };
    change(*header, *reinterpret_cast<PlanLane*>(at(header->lanes)));
    header->checksum = 0;
    header->checksum = XXH3_64bits(changed.data(), changed.size());
    return PlanFile::Read(Write(changed)).ok();
  };
  EXPECT_TRUE(is_read([](PlanHeader&, PlanLane&) {}));
  EXPECT_FALSE(is_read([](PlanHeader& header, PlanLane&) { header.keys.count = 1; }));
  EXPECT_FALSE(is_read([](PlanHeader& header, PlanLane&) {
    header.dense = {header.words.offset, 1};  // the arena is smaller than a huge page
  }));
  EXPECT_FALSE(is_read([](PlanHeader&, PlanLane& lane) { lane.words = 0; }));
  EXPECT_FALSE(is_read([](PlanHeader&, PlanLane& lane) { --lane.words; }));
  EXPECT_FALSE(is_read([](PlanHeader&, PlanLane& lane) { lane.offset_bits = 1; }));
  EXPECT_FALSE(is_read([](PlanHeader&, PlanLane& lane) { lane.box_bytes -= 16; }));
}

TEST_F(PlanFileTest, WordsAheadCanBeRead) {
  const auto file = PlanFile::Read(Write(Build(RandomRecording({}, 6)).bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  const PlanHeader& header = file->header();
  const PlanLane& last = file->table<PlanLane>(header.lanes)[header.lanes.count - 1];
  EXPECT_GE(header.words.count, last.first_word + last.words + kWordsAhead);
}

TEST_F(PlanFileTest, ANewerVersionIsNamed) {
  std::string bytes = Build(RandomRecording({}, 5)).bytes;
  const uint32_t newer = kPlanVersion + 1;
  std::memcpy(bytes.data() + 8, &newer, sizeof(newer));
  const auto file = PlanFile::Read(Write(bytes));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(file.status().message()), testing::HasSubstr("version 10"));
}

TEST_F(PlanFileTest, AnOlderVersionIsNamed) {
  std::string bytes = Build(RandomRecording({}, 5)).bytes;
  const uint32_t older = kPlanVersion - 1;
  std::memcpy(bytes.data() + 8, &older, sizeof(older));
  const auto file = PlanFile::Read(Write(bytes));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(file.status().message()), testing::HasSubstr("plan the recording again"));
}

// Each thread does what cannot be planned at its max load, by a strategy that only tries.
TEST_F(PlanFileTest, ManyLanesKeepTheBudget) {
  constexpr uint32_t kThreads = 400;
  struct Block {
    uint64_t lower, upper, granules;
  };
  constexpr Block kBlocks[] = {{0, 3, 3}, {2, 6, 5},  {3, 4, 7},  {4, 10, 4},
                               {4, 8, 5}, {6, 10, 2}, {9, 14, 7}, {10, 12, 8}};
  trace::Recording recording;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    const uint64_t first = recording.events;
    const size_t block = recording.allocations.size();
    for (uint64_t instant = 0; instant < 15; ++instant) {
      for (size_t i = 0; i < std::size(kBlocks); ++i) {
        if (kBlocks[i].upper != instant) continue;
        recording.allocations[block + i].death = recording.events++;
        recording.allocations[block + i].free_thread = thread;
      }
      for (const Block& it : kBlocks) {
        if (it.lower != instant) continue;
        trace::Allocation allocation{.birth = recording.events++, .size = it.granules * kGranule};
        allocation.thread = thread;
        recording.allocations.push_back(allocation);
      }
    }
    recording.threads.push_back({thread + 1, trace::kNone, {}, first, recording.events});
  }
  planner::Options options;
  options.strategy = "sampled_orders";
  options.budget_seconds = 0.5;
  const auto built = BuildPlan(recording, options, LaneMode::kThread);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_LT(built->seconds, kThreads * options.budget_seconds / 10) << "each lane took the budget";
}

// A thread's box is not another one's, at whatever time: both may run side by side next time.
TEST_F(PlanFileTest, LanesOfThreadsThatDoNotCoexistHaveTheirOwnAddresses) {
  trace::Recording recording;
  recording.threads = {{1, trace::kNone, {}, 0, 2}, {2, 0, {}, 2, 4}};
  trace::Allocation first{.birth = 0, .death = 1, .size = 100000};
  first.free_thread = 0;
  trace::Allocation second{.birth = 2, .death = 3, .size = 100000};
  second.thread = second.free_thread = 1;
  recording.allocations = {first, second};
  recording.events = 4;
  const BuiltPlan built = Build(recording);
  EXPECT_EQ(built.lanes, 2);
  EXPECT_GE(built.arena_bytes, 200000);
  EXPECT_LE(built.makespan, built.arena_bytes) << "an ended thread's box stays resident";
  EXPECT_EQ(built.makespan, built.estimated_held_bytes);
}

// Two threads that run side by side hold much at different times, and share the heap. A third one
// never holds much.
TEST_F(PlanFileTest, ALaneWhoseBoxCostsMuchIsLeftOut) {
  constexpr uint64_t kBytes = 64 << 20;
  trace::Recording recording;
  recording.threads = {
      {1, trace::kNone, {}, 0, 12001}, {2, 0, {}, 0, 12001}, {3, 0, {}, 8000, 12001}};
  for (uint64_t i = 0; i < 6000; ++i) {
    const bool large = i == 1000 || i == 3000;
    trace::Allocation allocation{.birth = 2 * i, .death = 2 * i + 1, .size = large ? kBytes : 64};
    allocation.thread = allocation.free_thread = static_cast<uint32_t>(i / 2000);
    recording.allocations.push_back(allocation);
  }
  for (const size_t large : {1000, 3000}) {
    std::swap(recording.allocations[large].death, recording.allocations[large + 500].death);
    recording.allocations[large + 500].death = trace::kNever;
  }
  recording.allocations[0].death = 12000;  // the first two are there all the time
  recording.events = 12001;
  const BuiltPlan some = Build(recording, LaneMode::kAuto);
  EXPECT_EQ(some.threads, 3);
  EXPECT_EQ(some.lanes, 1);
  EXPECT_LT(some.makespan, some.max_load * 17 / 16 + 4096);
  EXPECT_EQ(std::count(some.offsets.begin(), some.offsets.end(), kUnplanned), 4000);
  EXPECT_EQ(some.unplanned, 4000);
  EXPECT_FALSE(some.proven_optimal) << "the shared heap may need more";
  const auto file = PlanFile::Read(Write(some.bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*PlanOffsets(*file, recording), some.offsets);
  // The threads that have none are known all the same.
  const auto* lanes = file->table<PlanLane>(file->header().lanes);
  ASSERT_EQ(file->header().lanes.count, 3u);
  EXPECT_EQ(std::count_if(lanes, lanes + 3, [](const PlanLane& it) { return it.box_bytes == 0; }),
            2);
  EXPECT_EQ(VerifyPlan(*file, "a.plan"), absl::OkStatus());
  const BuiltPlan all = Build(recording, LaneMode::kThread);
  EXPECT_EQ(all.lanes, 3);
  EXPECT_EQ(all.unplanned, 0);
  EXPECT_GT(all.makespan, some.makespan);
}

// Of two threads only one allocates, and its box is too large.
TEST_F(PlanFileTest, WhereTheOnlyLaneIsLeftOutNothingIsPlanned) {
  RecordingShape shape;
  shape.most_bytes = 1 << 20;
  trace::Recording recording = RandomRecording(shape, 8);
  recording.threads[0].end_event = recording.events;
  recording.threads.push_back({2, 0, {}, 0, recording.events});
  planner::Options options;
  options.strategy = "bump";
  const auto built = BuildPlan(recording, options, LaneMode::kAuto);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->lanes, 0);
  EXPECT_EQ(built->unplanned, static_cast<int64_t>(recording.allocations.size()));
  EXPECT_EQ(built->estimated_held_bytes, built->max_load);
  EXPECT_FALSE(built->proven_optimal);
}

// Five threads that peak one after the other, for which one box would do.
TEST_F(PlanFileTest, EveryThreadHasALaneWhereAllBoxesAreSmall) {
  constexpr uint32_t kThreads = 5;
  trace::Recording recording;
  for (const uint64_t bytes : {200'000, 20'000'000}) {
    recording = {};
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      recording.threads.push_back({thread + 1, trace::kNone, {}, 0, 100});
      trace::Allocation allocation{.birth = 10 * thread, .death = 10 * thread + 1, .size = bytes};
      allocation.thread = allocation.free_thread = thread;
      recording.allocations.push_back(allocation);
    }
    recording.events = 100;
    const int64_t lanes = bytes < 1'000'000 ? kThreads : 0;
    EXPECT_EQ(Build(recording, LaneMode::kAuto).lanes, lanes) << bytes;
  }
}

}  // namespace
}  // namespace reprise::replay
