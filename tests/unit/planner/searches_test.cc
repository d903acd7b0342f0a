// Single searches where they are at their best, or were at their worst.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "planner/core/sort.h"
#include "planner/solve.h"
#include "tests/unit/effort.h"
#include "tests/unit/planner/random.h"

namespace reprise::planner {
namespace {

// Weights so far apart that their sums are not exact: what is met must not be told from them.
TEST(EjectionSearchTest, AlignmentsFarApart) {
  struct Row {
    int64_t lower, upper;
    int log2_alignment;
  };
  constexpr Row kRows[] = {
      {78, 81, 3},   {27, 127, 2},  {89, 127, 8},   {106, 109, 3},  {79, 115, 5}, {36, 88, 7},
      {7, 37, 35},   {45, 67, 2},   {99, 118, 0},   {4, 33, 3},     {46, 52, 4},  {88, 115, 4},
      {53, 84, 45},  {89, 91, 8},   {10, 127, 0},   {112, 119, 1},  {69, 85, 7},  {85, 111, 35},
      {96, 106, 6},  {66, 74, 0},   {81, 125, 2},   {7, 82, 1},     {21, 127, 3}, {35, 73, 4},
      {83, 96, 5},   {77, 104, 5},  {106, 115, 16}, {108, 117, 40}, {58, 94, 6},  {90, 98, 5},
      {115, 121, 0}, {86, 127, 35}, {117, 126, 4},  {8, 56, 4},     {80, 83, 8},  {42, 127, 43},
      {91, 116, 4},  {9, 85, 7},    {69, 100, 8},   {47, 51, 4},    {2, 14, 20},  {107, 121, 8},
      {15, 19, 1},   {13, 127, 6},  {4, 94, 6},     {20, 117, 1}};
  Instance instance;
  for (const Row& row : kRows) {
    instance.buffers.push_back({row.lower, row.upper, 1});
    instance.alignments.push_back(int64_t{1} << row.log2_alignment);
  }
  Options options;
  options.strategy = "ejection_search";
  options.iterations = 3;
  options.seed = 5685338253465667053;
  options.threads = 1;
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
}

// Nearly as much is live everywhere, so placement in any one order goes wrong somewhere.
TEST(EjectionSearchTest, ALongChain) {
  std::mt19937_64 random(6);
  Instance instance;
  for (int64_t i = 0; i < 10'000; ++i) {
    const int64_t upper = 2 * i + 3 + static_cast<int64_t>(random() % 3);
    instance.buffers.push_back({2 * i, upper, 1 + static_cast<int64_t>(random() % 1000)});
  }
  Options options;
  options.iterations = 40;
  options.budget_seconds = kAmple;
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->makespan, plan->max_load);
}

// The same with more at a time, and a few small blocks that live to the end: first fit by size has
// those on top, where they are in the way of all others.
TEST(EjectionSearchTest, ALongChainAndWhatLivesThroughout) {
  constexpr int64_t kLinks = 7'000;
  std::mt19937_64 random(7);
  Instance instance;
  for (int64_t i = 0; i < kLinks; ++i) {
    const int64_t upper = 2 * (i + 4 + static_cast<int64_t>(random() % 9)) + 1;
    instance.buffers.push_back({2 * i, upper, 1024 * (1 + static_cast<int64_t>(random() % 4096))});
  }
  for (int i = 0; i < 30; ++i) {
    const auto lower = static_cast<int64_t>(random() % (kLinks / 4));
    instance.buffers.push_back(
        {lower, 2 * kLinks, 16 * (1 + static_cast<int64_t>(random() % 100))});
  }
  Options options;
  options.iterations = 32;
  options.budget_seconds = kAmple;
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->makespan, plan->max_load);
}

TEST(SortTest, AsAStableSortDoes) {
  std::mt19937_64 random(8);
  for (const size_t size : {0, 1, 63, 64, 300, 2047, 2048, 5000}) {
    for (const uint64_t mask : {uint64_t{0}, uint64_t{0x7f}, uint64_t{0xfff000}, ~uint64_t{0}}) {
      std::vector<KeyedId> keyed;
      for (uint32_t i = 0; i < size; ++i) keyed.push_back({random() & mask, i});
      std::vector<KeyedId> expected = keyed;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const KeyedId& a, const KeyedId& b) { return a.key < b.key; });
      std::vector<KeyedId> scratch;
      SortByKey(keyed, scratch);
      EXPECT_TRUE(std::equal(
          keyed.begin(), keyed.end(), expected.begin(), expected.end(),
          [](const KeyedId& a, const KeyedId& b) { return a.key == b.key && a.id == b.id; }));
    }
  }
}

// A heap in balance: a block dies for every one that is born, so there is no slack to waste. Every
// now and then a large one is born; 0: never.
Instance FullHeap(size_t now_and_then, size_t at_a_time = 6'000) {
  std::mt19937_64 random(1);
  Instance instance;
  std::vector<size_t> live;
  int64_t now = 0;
  for (size_t i = 0; i < 60'000; ++i) {
    live.push_back(i);
    const bool large = now_and_then > 0 && i % now_and_then == 1;
    const auto units = large ? 1000 : 1 + static_cast<int64_t>(random() % 25);
    instance.buffers.push_back({now++, 0, 16 * units});
    if (live.size() <= at_a_time) continue;
    std::swap(live[random() % live.size()], live.back());
    instance.buffers[live.back()].upper = now++;
    live.pop_back();
  }
  for (const size_t i : live) instance.buffers[i].upper = now;
  return instance;
}

// Few enough live long to be settled, but first fit would take seconds for that.
TEST(EjectionSearchTest, AHeapThatStaysFullIsInTime) {
  Options options;
  options.budget_seconds = 0.3;
  options.threads = 1;
  const Instance instance = FullHeap(0, 4'000);
  const double start = CpuSeconds();
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT(CpuSeconds() - start, 5 * options.budget_seconds);
}

// Each fits into its alignment badly or well, and what is wasted most above one costs nothing where
// that one lies at the top: of the six orders of the three one or two are good.
TEST(OrderTest, AFewLargeAlignments) {
  Instance instance;
  for (int i = 0; i < 900; ++i) instance.buffers.push_back({i, 4000 - i, 16});
  instance.alignments.assign(instance.buffers.size(), 1);
  for (const int64_t size : {228 << 10, 96 << 10, 80 << 10}) {
    instance.buffers.push_back({2000, 2100, size});
    instance.alignments.push_back(32 << 10);
  }
  Options options;
  options.iterations = 1;
  options.budget_seconds = kAmple;
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->makespan, (96 + 96 + 228) << 10);
  EXPECT_TRUE(plan->proven_optimal);
}

#if !REPRISE_SANITIZED  // minutes
TEST(PeakSweepTest, AHeapThatStaysFull) {
  for (const size_t now_and_then : {0, 1000}) {
    SCOPED_TRACE(now_and_then);
    const Instance instance = FullHeap(now_and_then);
    Options options;  // auto leaves out what is no use here
    options.iterations = 1;
    options.budget_seconds = kAmple;
    const auto plan = Solve(instance, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LT(static_cast<double>(plan->fragmentation()),
              (now_and_then == 0 ? 0.001 : 0.004) * static_cast<double>(plan->max_load));
    options.threads = 3;
    EXPECT_EQ(Solve(instance, options)->offsets, plan->offsets);
  }
}
#endif

// A block that is a little longer than a multiple of the alignment leaves a gap below the next one,
// and here only what is a little shorter than a multiple closes it.
TEST(PeakSweepTest, AlignedBlocksOnWhatLeavesNoGap) {
  std::mt19937_64 random(1);
  const auto draw = [&](int64_t most) { return static_cast<int64_t>(random() % most); };
  Instance instance;
  for (int i = 0; i < 1000; ++i) {
    const bool aligned = i < 500;
    const int64_t size = aligned ? 64 * (1 + draw(8)) + 16 : 176;
    instance.buffers.push_back({draw(10'000), 10'100 + draw(10'000), size});
    instance.alignments.push_back(aligned ? 64 : 1);
  }
  Options options;
  options.iterations = 1;
  options.budget_seconds = kAmple;
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->makespan, plan->max_load);
}

// A cache of some hundred documents of 4 to 64 KiB, thrown out to make room for others: nearly
// every one of them is larger than what makes a rock elsewhere.
TEST(PeakSweepTest, ACacheOfDocuments) {
  std::mt19937_64 random(1);
  Instance instance;
  std::vector<size_t> live;
  int64_t now = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < 10'000; ++i) {
    const auto size = static_cast<int64_t>((4096 << random() % 4) * (16 + random() % 16) / 16);
    while (bytes + size > 8 << 20) {
      std::swap(live[random() % live.size()], live.back());
      instance.buffers[live.back()].upper = now++;
      bytes -= instance.buffers[live.back()].size;
      live.pop_back();
    }
    live.push_back(i);
    instance.buffers.push_back({now++, 0, size});
    bytes += size;
  }
  for (const size_t i : live) instance.buffers[i].upper = now;
  Options options;
  options.iterations = 1;
  options.budget_seconds = kAmple;
  options.strategy = "peak_sweep";
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT(static_cast<double>(plan->fragmentation()),
            0.095 * static_cast<double>(plan->max_load));
  options.threads = 3;
  EXPECT_EQ(Solve(instance, options)->offsets, plan->offsets);
}

#if !REPRISE_SANITIZED  // minutes
// A long heap that is full for a moment only, in which blocks of all sizes come and go. What
// decides is who lives then, not who is large.
TEST(LayersTest, AShortPeak) {
  std::mt19937_64 random(1);
  const auto draw = [&](int64_t most) { return 16 * (1 + static_cast<int64_t>(random() % most)); };
  Instance instance;
  std::vector<size_t> live;
  int64_t now = 0;
  int64_t bytes = 0;
  constexpr int64_t kBlocks = 24'000;
  for (int64_t i = 0; i < kBlocks; ++i) {
    const bool peak = i >= kBlocks / 2 && i < kBlocks / 2 + 150;
    const int64_t size = draw(random() % 8 == 0 ? 512 : 16);
    while (bytes + size > (peak ? 2 << 20 : 3 << 19)) {
      std::swap(live[random() % live.size()], live.back());
      instance.buffers[live.back()].upper = now++;
      bytes -= instance.buffers[live.back()].size;
      live.pop_back();
    }
    for (; peak && bytes + (1 << 16) < 2 << 20; bytes += instance.buffers.back().size) {
      live.push_back(instance.buffers.size());
      instance.buffers.push_back({now++, 0, draw(4096)});
    }
    live.push_back(instance.buffers.size());
    instance.buffers.push_back({now++, 0, size});
    bytes += size;
  }
  for (const size_t i : live) instance.buffers[i].upper = now;
  Options options;
  options.iterations = 1;
  options.budget_seconds = kAmple;
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->makespan, plan->max_load);
}
#endif

#if !REPRISE_SANITIZED  // minutes
// A program that keeps forty matrices of all sizes and makes new ones from old ones, and a hundred
// times as many small blocks, some of which stay. The matrices are the hard part.
TEST(LayersTest, AProgramOfMatrices) {
  std::mt19937_64 random(1);
  Instance instance;
  std::vector<size_t> live;
  std::vector<size_t> matrices(40, ~size_t{0});
  int64_t now = 0;
  const auto allocate = [&](int64_t size) {
    instance.buffers.push_back({now++, 0, size});
    return instance.buffers.size() - 1;
  };
  const auto free = [&](size_t i) { instance.buffers[i].upper = now++; };
  allocate(16);  // nothing is in parts
  for (int i = 0; i < 250; ++i) {
    for (int k = 0; k < 45; ++k) {
      live.push_back(allocate(16 * (1 + static_cast<int64_t>(random() % 16))));
      std::swap(live[random() % live.size()], live.back());
      if (random() % 4 == 0) continue;
      free(live.back());
      live.pop_back();
    }
    const auto side = [&] { return static_cast<int64_t>(10 + random() % 200); };
    const size_t operand = allocate(8 * side() * side());
    size_t& matrix = matrices[random() % matrices.size()];
    const size_t result = allocate(8 * side() * side());
    free(operand);
    if (matrix != ~size_t{0}) free(matrix);
    matrix = result;
  }
  for (Buffer& buffer : instance.buffers) {
    if (buffer.upper == 0) buffer.upper = now;
  }
  Options options;
  options.iterations = 1;
  options.budget_seconds = kAmple;
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT(static_cast<double>(plan->fragmentation()),
            0.015 * static_cast<double>(plan->max_load));
  options.threads = 3;
  EXPECT_EQ(Solve(instance, options)->offsets, plan->offsets);
}
#endif

}  // namespace
}  // namespace reprise::planner
