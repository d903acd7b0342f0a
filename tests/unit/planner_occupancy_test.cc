// First fit and best fit find what a search of every address finds.
#include <gtest/gtest.h>

#include <set>

#include "planner/free_blocks.h"
#include "planner/occupancy.h"
#include "planner_random.h"

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

// Of holes that fit equally well, the one that would not grow soon; and the rest of a hole stays
// beside the neighbour that leaves first.
TEST(FreeBlocksTest, HolesBetweenLastingBlocksGoFirst) {
  FreeBlocks space;
  std::vector<uint32_t> handles;
  for (const uint32_t leaves : {90, 0, 80, 0, 20, 0, 70}) {  // 0: freed at once
    handles.push_back(space.TakeLasting(10));
    space.SetLeaves(handles.back(), leaves);
  }
  for (const int hole : {1, 3, 5}) space.Free(handles[hole]);
  const uint32_t first = space.TakeLasting(10);
  space.SetLeaves(first, 50);
  EXPECT_EQ(space.address(first), 10);
  const uint32_t second = space.TakeLasting(4);
  space.SetLeaves(second, 60);
  EXPECT_TRUE(space.address(second) == 30 || space.address(second) == 56) << space.address(second);
  EXPECT_EQ(space.top(), 70);
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
        live.push_back({step % 2 == 0 ? space.Take(size) : space.TakeLasting(size), size});
      }
      space.SetLeaves(live.back().handle, static_cast<uint32_t>(step + random() % 1000));
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
