#include "replay/compare/arena_placement.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "replay/plan/plan_builder.h"
#include "replay/plan/plan_verifier.h"
#include "tests/unit/plan/recordings.h"
#include "tests/unit/plan/served_plan.h"

namespace reprise::replay {
namespace {

BuiltPlan BuildLanes(const trace::Recording& recording, LaneMode mode) {
  planner::Options options;
  options.iterations = 1;
  options.threads = 1;
  absl::StatusOr<BuiltPlan> built = BuildPlan(recording, options, mode);
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

Placement Place(const trace::Recording& recording, const BuiltPlan* built) {
  absl::StatusOr<Placement> placed = absl::UnavailableError("no plan");
  if (built == nullptr) {
    placed = PlaceByArena(recording, nullptr);
  } else {
    const auto plan = PlanFile::Parse(trace::MappedFile::FromBytes(built->bytes), "a.plan");
    EXPECT_EQ(VerifyPlan(*plan, "a.plan"), absl::OkStatus());
    placed = PlaceByArena(recording, &*plan);
  }
  EXPECT_TRUE(placed.ok()) << placed.status();
  return *std::move(placed);
}

struct Looked {
  std::string wrong;     // two live blocks that share memory, or one that lies nowhere
  int64_t max_load = 0;  // bytes
  int64_t footprint = 0;
};

Looked Look(const trace::Recording& recording, const Placement& placement) {
  Looked looked;
  std::map<int64_t, int64_t> live;  // begin to end
  std::set<int64_t> pages;
  int64_t load = 0;
  for (const auto& [event, what] : EventsOf(recording)) {
    const trace::Allocation& allocation = recording.allocations[what & ~kDies];
    const auto bytes = static_cast<int64_t>(trace::BlockBytes(allocation.size));
    const int64_t begin = placement.offsets[what & ~kDies];
    if ((what & kDies) != 0) {
      live.erase(begin);
      load -= bytes;
      continue;
    }
    if (begin < 0 || begin + bytes > placement.arena_bytes) looked.wrong = "outside of the arena";
    if (begin % (int64_t{1} << allocation.log2_alignment) != 0) looked.wrong = "alignment";
    const auto next = live.lower_bound(begin);
    if (next != live.end() && next->first < begin + bytes) looked.wrong = "overlaps the next one";
    if (next != live.begin() && std::prev(next)->second > begin)
      looked.wrong = "overlaps one before";
    live[begin] = begin + bytes;
    load += bytes;
    looked.max_load = std::max(looked.max_load, load);
    for (int64_t page = begin / 4096; page <= (begin + bytes - 1) / 4096; ++page)
      pages.insert(page);
  }
  looked.footprint = static_cast<int64_t>(pages.size()) * 4096;
  return looked;
}

TEST(ArenaPlacementTest, AHeapNeedsMoreThanTheMaxLoad) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    RecordingShape shape;
    shape.allocations = 20'000;
    shape.most_bytes = seed % 2 == 0 ? 400 : 20'000;
    shape.threads = seed % 3 + 1;
    shape.remote_frees = 0.2;
    shape.reallocs = 0.1;
    const trace::Recording recording = RandomRecording(shape, seed);
    const Looked heap = Look(recording, Place(recording, nullptr));
    EXPECT_EQ(heap.wrong, "") << seed;
    EXPECT_GE(heap.footprint, heap.max_load) << seed;
  }
}

// Whoever does what was recorded gets what was planned.
TEST(ArenaPlacementTest, AThreadWithALaneHasItsPlannedPlaces) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    RecordingShape shape;
    shape.allocations = 5'000;
    shape.reallocs = 0.1;
    shape.threads = seed % 2 + 1;
    shape.remote_frees = 0.1;
    const trace::Recording recording = RandomRecording(shape, seed);
    const BuiltPlan built = BuildLanes(recording, LaneMode::kThread);
    const Placement placed = Place(recording, &built);
    EXPECT_EQ(placed.offsets, built.offsets) << seed;
    if (shape.threads > 1) continue;
    EXPECT_LE(Look(recording, placed).footprint,
              Look(recording, Place(recording, nullptr)).footprint)
        << seed;
  }
}

// Many threads that hold much one after the other, in one heap: none has a box of that length.
TEST(ArenaPlacementTest, ThreadsWithoutBoxesShareTheHeap) {
  constexpr uint32_t kThreads = 60;
  trace::Recording recording;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    const uint64_t first = recording.events;
    for (int block = 0; block < 100; ++block) {
      trace::Allocation allocation{.birth = recording.events++,
                                   .size = 1000 + thread * 7919 % 300 + 100u * block};
      allocation.thread = allocation.free_thread = thread;
      recording.allocations.push_back(allocation);
    }
    for (size_t i = recording.allocations.size() - 100; i < recording.allocations.size(); ++i) {
      recording.allocations[i].death = recording.events++;
    }
    recording.threads.push_back({thread + 1, trace::kNone, {}, first, recording.events});
  }
  const BuiltPlan built = BuildLanes(recording, LaneMode::kAuto);
  EXPECT_LT(built.lanes, 3);
  const Looked plan = Look(recording, Place(recording, &built));
  EXPECT_EQ(plan.wrong, "");
  EXPECT_LT(static_cast<double>(plan.footprint), 1.15 * static_cast<double>(plan.max_load));
}

}  // namespace
}  // namespace reprise::replay
