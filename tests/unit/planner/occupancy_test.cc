// First fit and best fit find what a search of every address finds; the space of a sweep.
#include "planner/core/occupancy.h"

#include <gtest/gtest.h>

#include <set>

#include "planner/core/check.h"
#include "planner/core/concurrent.h"
#include "planner/placement/free_blocks.h"
#include "planner/placement/make_room.h"
#include "planner/placement/reshuffle.h"
#include "tests/unit/planner/random.h"

namespace reprise::planner {
namespace {

struct Placed {
  uint32_t job;
  int64_t address;
};

// Whether `job` could be at `address`, by comparing it with everything placed.
bool Legal(const Problem& problem, const std::vector<Placed>& placed, uint32_t job,
           int64_t address) {
  if (problem.AlignUp(job, address) != address) return false;
  const Job& a = problem.jobs[job];
  for (const Placed& other : placed) {
    const Job& b = problem.jobs[other.job];
    if (a.lower >= b.upper || b.lower >= a.upper) continue;
    if (address < other.address + b.size && other.address < address + a.size) return false;
  }
  return true;
}

TEST(ConcurrentTest, FindsWhatSharesASection) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Shape shape;
    shape.buffers = 1 + static_cast<int>(seed);
    shape.horizon = 3 + static_cast<int>(seed % 90);
    const Instance instance = RandomInstance(seed, shape);
    const Problem problem = MakeProblem(instance);
    const Concurrent concurrent(problem.jobs);
    for (const Job& a : problem.jobs) {
      std::multiset<uint32_t> found, expected;
      concurrent.ForEach(a, [&](uint32_t other) { found.insert(other); });
      for (uint32_t j = 0; j < problem.size(); ++j) {
        const Job& b = problem.jobs[j];
        if (a.lower < b.upper && b.lower < a.upper) expected.insert(j);
      }
      ASSERT_EQ(found, expected) << seed;
    }
  }
}

TEST(OccupancyTest, FindsTheLowestAddressAndTheTightestGap) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape;
    shape.buffers = 30;
    shape.horizon = 5 + static_cast<int>(seed % 40);
    Instance instance = RandomInstance(seed, shape);
    std::mt19937_64 random(seed);
    if (seed % 3 == 0) {
      for (int i = 0; i < shape.buffers; ++i) {
        instance.alignments.push_back(int64_t{1} << (random() % 4));
      }
    }
    const Problem problem = MakeProblem(instance);
    Occupancy occupancy(problem);
    std::vector<Placed> placed;
    for (uint32_t job = 0; job < problem.size(); ++job) {
      const int64_t from = static_cast<int64_t>(random() % 20);
      int64_t lowest = from;
      while (!Legal(problem, placed, job, lowest)) ++lowest;
      EXPECT_EQ(occupancy.FirstFit(job, from), lowest);
      // The room above a legal address, up to the next one that is taken.
      int64_t best = -1;
      int64_t best_room = INT64_MAX;
      for (int64_t address = 0; address < 400; ++address) {
        if (!Legal(problem, placed, job, address)) continue;
        if (address > 0 && Legal(problem, placed, job, address - 1)) continue;
        int64_t room = 0;
        const Problem& p = problem;
        for (const Placed& other : placed) {
          if (p.jobs[job].lower >= p.jobs[other.job].upper ||
              p.jobs[other.job].lower >= p.jobs[job].upper || other.address < address) {
            continue;
          }
          const int64_t gap = other.address - address - p.jobs[job].size;
          if (room == 0 || gap + 1 < room) room = gap + 1;
        }
        if (room == 0) room = INT64_MAX;
        if (best < 0 || room < best_room) {
          best = address;
          best_room = room;
        }
      }
      if (instance.alignments.empty()) {
        EXPECT_EQ(occupancy.BestFit(job), best);
      }
      const int64_t address = random() % 2 == 0 ? lowest : occupancy.BestFit(job);
      EXPECT_TRUE(Legal(problem, placed, job, address));
      occupancy.Place(job, address);
      placed.push_back({job, address});
    }
    occupancy.Clear();
    for (uint32_t job = 0; job < problem.size(); ++job) EXPECT_FALSE(occupancy.Look(job));
  }
}

TEST(OccupancyTest, CutsHoldAFewJobsAsExactlyAsSectionsDo) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape;
    shape.buffers = 60;
    shape.horizon = 5 + static_cast<int>(seed % 80);
    const Instance instance = RandomInstance(seed, shape);
    const Problem problem = MakeProblem(instance);
    std::set<uint32_t> cuts;
    for (uint32_t job = 0; job < problem.size(); job += 7) {
      cuts.insert({problem.jobs[job].lower, problem.jobs[job].upper});
    }
    Occupancy sections(problem);
    Occupancy stretches(problem, {cuts.begin(), cuts.end()});
    for (uint32_t job = 0; job < problem.size(); ++job) {
      EXPECT_EQ(stretches.Look(job), sections.Look(job));
      const int64_t address = sections.FirstFit(job);
      EXPECT_EQ(stretches.FirstFit(job), address);
      if (job % 7 != 0) continue;
      sections.Place(job, address);
      stretches.Place(job, address);
    }
  }
}

// Of free blocks, the one that leaves no rest; otherwise the rest stays beside the neighbour that
// leaves first.
TEST(FreeBlocksTest, RestsThatSoonGoDoTheLeastHarm) {
  FreeBlocks space(/*scored=*/true);
  std::vector<uint32_t> handles;
  for (const uint32_t leaves : {90, 1, 80, 1, 20, 1, 70}) {
    handles.push_back(space.TakeFromTop(10));
    space.Annotate(handles.back(), {0, 0, leaves, 0});
  }
  for (const int hole : {1, 3, 5}) space.Free(handles[hole], 1);
  FreeBlocks::CostWeights weights;
  weights.lifespan = 100;
  weights.hold_bonus = 0.001F;
  // Between those that stay longest.
  EXPECT_EQ(space.address(space.TakeBestScored(10, {1, 1, 50, 0}, weights)), 10);
  // What is left lies beside the block that leaves at 20.
  const int64_t address = space.address(space.TakeBestScored(4, {2, 1, 60, 0}, weights));
  EXPECT_TRUE(address == 30 || address == 56) << address;
  EXPECT_EQ(space.TakeBestScored(11, {3, 1, 60, 0}, weights), FreeBlocks::kNone);
  EXPECT_EQ(space.top(), 70);
}

// Where not all of a free block may be used: at its other end, in another block, nowhere.
TEST(FreeBlocksTest, WhatMayNotBeUsedIsPassedOver) {
  FreeBlocks space(/*scored=*/true);
  std::vector<uint32_t> handles;
  for (const uint32_t leaves : {90, 1, 20, 1, 80}) {
    handles.push_back(space.TakeFromTop(10));
    space.Annotate(handles.back(), {0, 0, leaves, 0});
  }
  for (const int hole : {1, 3}) space.Free(handles[hole], 1);
  FreeBlocks::CostWeights weights;
  weights.lifespan = 100;
  const auto take = [&](int64_t size, int64_t least, int64_t most) {
    const auto may = [&](int64_t address) { return least <= address && address <= most; };
    const uint32_t handle = space.TakeBestScored(size, {1, 1, 50, 0}, weights, may);
    return handle == FreeBlocks::kNone ? -1 : space.address(handle);
  };
  EXPECT_EQ(take(10, 11, 29), -1);
  EXPECT_EQ(take(10, 11, 30), 30);
  EXPECT_EQ(take(4, 11, 15), -1);
  EXPECT_EQ(take(4, 11, 16), 16);
}

// A crowded heap in which blocks move for the whole of their lives: no two ever share memory.
// Returns the most that moved at once.
template <typename Left, typename Make>
uint32_t MoveInACrowd(Left left, Make make) {
  std::mt19937_64 random(11);
  FreeBlocks space(/*scored=*/true);
  Instance instance;
  std::vector<int64_t> offsets;
  std::vector<uint32_t> handles;
  std::vector<uint32_t> live;
  int made = 0;
  uint32_t longest = 0;
  for (uint32_t now = 0; now < 100'000; ++now) {
    if (live.size() > 300 || (live.size() > 20 && random() % 2 == 0)) {
      std::swap(live[random() % live.size()], live.back());
      instance.buffers[live.back()].upper = now;
      space.Free(handles[live.back()], now);
      left(offsets[live.back()], instance.buffers[live.back()].size, now);
      live.pop_back();
      continue;
    }
    const auto job = static_cast<uint32_t>(offsets.size());
    const auto size = static_cast<int64_t>(1 + random() % 40);
    instance.buffers.push_back({now, 100'000, size});
    offsets.push_back(0);
    handles.push_back(0);
    live.push_back(job);
    // One in ten may not be moved.
    const FreeBlocks::Note note{job, now, 100'000,
                                random() % 10 == 0 ? FreeBlocks::Note::kNever : 0};
    handles[job] = space.TakeBestScored(size, note, {});
    if (handles[job] == FreeBlocks::kNone) {
      const std::vector<FreeBlocks::Element> elements = space.Elements();
      const std::vector<Move> moves = make(elements, size, now, space.top());
      if (moves.empty()) {
        handles[job] = space.TakeFromTop(size);
      } else {
        ++made;
        longest = std::max(longest, static_cast<uint32_t>(moves.size()));
        for (const auto& [element, address] : moves) {
          if (element == Move::kTarget) continue;
          EXPECT_NE(elements[element].note.since, FreeBlocks::Note::kNever);
          space.Free(elements[element].handle, elements[element].note.since);
        }
        for (const auto& [element, address] : moves) {
          if (element == Move::kTarget) {
            handles[job] = space.TakeAt(address, size);
            continue;
          }
          const FreeBlocks::Element& moved = elements[element];
          handles[moved.note.job] = space.TakeAt(address, moved.size);
          space.Annotate(handles[moved.note.job], moved.note);
          offsets[moved.note.job] = address;
        }
      }
      space.Annotate(handles[job], note);
    }
    offsets[job] = space.address(handles[job]);
  }
  EXPECT_GT(made, 50);
  const CheckResult check = Check(instance, offsets, 1);
  EXPECT_TRUE(check.valid);
  EXPECT_EQ(check.makespan, space.top());
  return longest;
}

TEST(MakeRoomTest, WhoMovesNeverMeetsAnybody) {
  const uint32_t longest = MoveInACrowd(
      [](auto...) {},
      [](const auto& elements, int64_t size, auto...) { return MakeRoom(elements, size); });
  EXPECT_GT(longest, 3u);
}

// With cells of one unit, and of several.
TEST(ReshuffleTest, WhoMovesNeverMeetsAnybody) {
  for (const size_t cells : {1'000'000, 500}) {
    SCOPED_TRACE(cells);
    Reshuffle reshuffle;
    reshuffle.Begin(5'000, cells, INT64_MAX);
    const uint32_t longest = MoveInACrowd(
        [&](int64_t address, int64_t size, uint32_t now) { reshuffle.Left(address, size, now); },
        [&](const auto& elements, int64_t size, uint32_t now, int64_t top) {
          return reshuffle.Run(elements, size, now, top);
        });
    EXPECT_GT(longest, 8u);
  }
}

// Its work is bounded.
TEST(ReshuffleTest, GivesUp) {
  FreeBlocks space(/*scored=*/true);
  for (uint32_t i = 0; i < 100; ++i) {
    const uint32_t handle = space.Append(3 * i, 1);
    space.Annotate(handle, {i, i + 1, 1'000, 0});
  }
  Reshuffle reshuffle;
  reshuffle.Begin(300, 300, 100'000);
  EXPECT_FALSE(reshuffle.Run(space.Elements(), 30, 200, 300).empty());
  EXPECT_TRUE(reshuffle.Run(space.Elements(), 250, 200, 300).empty());
  reshuffle.Begin(300, 300, 100);
  EXPECT_TRUE(reshuffle.Run(space.Elements(), 30, 200, 300).empty());
  // Noting is work, too: large blocks may come and go all the time.
  reshuffle.Begin(300, 300, 100'000);
  for (int i = 0; i < 100; ++i) reshuffle.Left(0, 300, 0);
  EXPECT_FALSE(reshuffle.Run(space.Elements(), 30, 200, 300).empty());
  for (int i = 0; i < 3'000; ++i) reshuffle.Left(0, 300, 0);
  EXPECT_TRUE(reshuffle.Run(space.Elements(), 30, 200, 300).empty());
}

TEST(FreeBlocksTest, BlocksNeverOverlapAndFreeNeighboursMerge) {
  std::mt19937_64 random(7);
  FreeBlocks space;
  struct Live {
    uint32_t handle;
    int64_t size;
  };
  std::vector<Live> live;
  for (int step = 0; step < 20'000; ++step) {
    if (live.size() < 10 || random() % 2 == 0) {
      const int64_t size = 1 + static_cast<int64_t>(random() % (random() % 8 == 0 ? 5000 : 60));
      if (random() % 8 == 0) {
        // At an address of our choice: somewhere in what was taken and freed, or above the top.
        const uint32_t taken = space.Take(size + 7);
        const int64_t address = space.address(taken) + 3;
        space.Free(taken);
        const int64_t above = space.top() + 5;
        live.push_back({space.TakeAt(random() % 4 == 0 ? above : address, size), size});
        const int64_t got = space.address(live.back().handle);
        EXPECT_TRUE(got == above || got == address);
      } else if (random() % 3 == 0) {
        // Only even addresses will do.
        const uint32_t handle = space.TakeWhere(
            size, [](int64_t lower, int64_t) { return lower + (lower % 2 == 0 ? 0 : 1); });
        EXPECT_EQ(space.address(handle) % 2, 0);
        live.push_back({handle, size});
      } else {
        live.push_back({space.Take(size), size});
      }
    } else {
      const size_t at = random() % live.size();
      space.Free(live[at].handle);
      live[at] = live.back();
      live.pop_back();
    }
    if (step % 100 != 0) continue;
    std::set<std::pair<int64_t, int64_t>> extents;
    for (const Live& block : live) {
      extents.insert({space.address(block.handle), space.address(block.handle) + block.size});
    }
    ASSERT_EQ(extents.size(), live.size());
    int64_t end = 0;
    for (const auto& [lower, upper] : extents) {
      EXPECT_LE(end, lower);
      end = upper;
    }
    EXPECT_LE(end, space.top());
  }
  for (const Live& block : live) space.Free(block.handle);
  // Everything is one free block again.
  EXPECT_EQ(space.address(space.Take(space.top())), 0);
}

}  // namespace
}  // namespace reprise::planner
