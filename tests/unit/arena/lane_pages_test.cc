// Pages that lanes that run free give back.
#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "replay/arena/held_memory.h"
#include "tests/unit/plan/recordings.h"
#include "tests/unit/plan/served_plan.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBox = 4 << 20;
constexpr uint64_t kOtherSite = 0x7000;
constexpr uint64_t kNotKept = 200 * kGranule;  // too long for a place to be kept

TEST(HeldMemoryTest, AsksOnceInAStepOfGrowth) {
  constexpr uint64_t kStep = 16 << 10;
  uint64_t most = 0;
  HeldMemory held;
  held.Start(1 << 20, &most);
  held.Take(kStep - 1);
  EXPECT_EQ(held.Asks(), 0u);
  held.Take(1);
  EXPECT_EQ(held.Asks(), 1u);
  EXPECT_EQ(held.Wanted(), 15 * kStep);
  held.Give(15 * kStep);
  EXPECT_EQ(held.Wanted(), 0u);
  held.Take(15 * kStep);  // no more than before
  EXPECT_EQ(held.Asks(), 1u);
  EXPECT_EQ(most, kStep);
  held.Take(kStep);
  EXPECT_EQ(held.Asks(), 2u);
  EXPECT_EQ(most, 2 * kStep);
}

// What is given back of the boxes makes room for as much elsewhere; the most is no number below 0.
TEST(HeldMemoryTest, ABoxInPartGivenBackCountsForLess) {
  uint64_t most = 0;
  HeldMemory held;
  held.Start(kBox, &most);
  held.Give(1 << 20);
  held.Take(1 << 19);
  EXPECT_EQ(most, 0u);
  held.Take(1 << 20);
  EXPECT_EQ(most, 1u << 19);
}

uint64_t ResidentPages(const char* begin, uint64_t bytes) {
  std::vector<unsigned char> pages(bytes / kPage);
  EXPECT_EQ(mincore(const_cast<char*>(begin), bytes, pages.data()), 0);
  return static_cast<uint64_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

// Two lanes that run free, each with a box of kBox. The first had all of it in use, and all of it
// is free but for a block of a page in each sixteenth; nothing has been given back.
class TwoLanes : public ::testing::Test {
 protected:
  explicit TwoLanes(bool dear_pages = false) : plan_(BothWithABox()) {
    plan_.Restart(/*spare=*/true, dear_pages);
    for (const uint64_t path : {1, 2}) {
      Lane* lane = plan_.arena().Take(path, 0, 0);
      lanes_.push_back(lane);
      while (!lane->running_free()) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, kOtherSite)));
    }
    std::vector<char*> blocks = Fill(lanes_[0]);
    lanes_[0]->set_keeps_pages(true);
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i % 16 == 0 && lanes_[0]->Contains(blocks[i])) {
        kept_.push_back(blocks[i]);
      } else {
        EXPECT_TRUE(Free(lanes_[0], blocks[i]));
      }
    }
    lanes_[0]->set_keeps_pages(false);
  }

  static trace::Recording BothWithABox() {
    trace::Recording recording = RecordingOf({{0, 3, kBox}, {1, 2, kBox}});
    recording.threads.push_back({2, trace::kNone, 0, 0});
    recording.allocations[1].thread = recording.allocations[1].free_thread = 1;
    return recording;
  }

  // Blocks of a page until one is in the annex.
  static std::vector<char*> Fill(Lane* lane) {
    std::vector<char*> blocks;
    do {
      blocks.push_back(Allocate(lane, kPage, 4, kOtherSite));
      memset(blocks.back(), 0x5a, kPage);
    } while (lane->Contains(blocks.back()));
    return blocks;
  }

  // The second lane takes all of its box, and `bytes` of its annex; the first does something all
  // the time.
  void NeedMore(uint64_t bytes) {
    std::vector<char*> blocks = Fill(lanes_[1]);
    while (plan_.counters(1).annex_bytes < bytes) {
      blocks.push_back(Allocate(lanes_[1], kPage, 4, kOtherSite));
      Work(100);
    }
  }

  // The first lane allocates and frees so often.
  void Work(int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_TRUE(Free(lanes_[0], Allocate(lanes_[0], kNotKept, 4, kOtherSite)));
    }
  }

  // Of what the first lane has kept an eighth stays.
  void KeepFewer() {
    std::vector<char*> fewer;
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (i % 8 == 0) {
        fewer.push_back(kept_[i]);
      } else {
        EXPECT_TRUE(Free(lanes_[0], kept_[i]));
      }
    }
    kept_ = fewer;
  }

  // The first lane takes all of its box, and frees it again.
  void DoATask() {
    std::vector<char*> task;
    for (uint64_t i = kept_.size(); i < kBox / kPage; ++i) {
      task.push_back(Allocate(lanes_[0], kPage, 4, kOtherSite));
      memset(task.back(), 0x5a, kPage);
    }
    EXPECT_GT(ResidentInBox(), kBox / kPage / 8 * 7);
    for (char* block : task) EXPECT_TRUE(Free(lanes_[0], block));
  }

  void RunsStay(uint64_t pages);

  uint64_t Most() const { return plan_.counters(plan_.lanes()).annex_bytes; }
  uint64_t ResidentInBox() const { return ResidentPages(lanes_[0]->room().box, kBox); }

  ServedPlan plan_;
  std::vector<Lane*> lanes_;
  std::vector<char*> kept_;  // of the first lane, each byte 0x5a
};

TEST_F(TwoLanes, WhatOneNeedsMoreTheOtherGivesBack) {
  const uint64_t before = ResidentInBox();
  const uint64_t annexes = Most();
  NeedMore(1 << 20);
  EXPECT_LT(Most(), annexes + (1 << 17));
  EXPECT_GT(lanes_[0]->GivenBytes(), 7u << 17);
  EXPECT_EQ(ResidentInBox(), before - lanes_[0]->GivenBytes() / kPage);
  for (const char* block : kept_) {
    EXPECT_EQ(std::count(block, block + kPage, 0x5a), static_cast<int64_t>(kPage));
  }
}

// At the next request, although too little is free for a task to have ended.
TEST_F(TwoLanes, WhatIsAskedForGoesBackAtOnce) {
  constexpr size_t kFreed = 60;
  Work(60000);  // earns what it spends
  std::vector<char*> task;
  for (uint64_t i = kept_.size(); i < kBox / kPage; ++i) {
    task.push_back(Allocate(lanes_[0], kPage, 4, kOtherSite));
  }
  std::sort(task.begin(), task.end());
  for (size_t i = 0; i < kFreed; ++i) EXPECT_TRUE(Free(lanes_[0], task[i]));
  const uint64_t before = lanes_[0]->GivenBytes();
  Fill(lanes_[1]);
  while (plan_.counters(1).annex_bytes < 1 << 20) Allocate(lanes_[1], kPage, 4, kOtherSite);
  EXPECT_EQ(lanes_[0]->GivenBytes(), before);
  Work(1);
  EXPECT_GT(lanes_[0]->GivenBytes(), before + kFreed / 2 * kPage);
}

// A free that fails to give pages back leaves errno alone, and nothing is counted that is not gone.
TEST_F(TwoLanes, LockedPagesStay) {
  // Not by mlock, which does nothing in a build with sanitizers.
  if (syscall(SYS_mlock, lanes_[0]->room().box, kBox) != 0) GTEST_SKIP() << "may not lock memory";
  const uint64_t before = ResidentInBox();
  errno = 77;
  NeedMore(1 << 20);
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(lanes_[0]->GivenBytes(), 0u);
  EXPECT_EQ(ResidentInBox(), before);
  EXPECT_GE(Most(), 1u << 20);
}

TEST_F(TwoLanes, PagesThatAreUsedAgainCount) {
  NeedMore(1 << 20);
  const uint64_t given = lanes_[0]->GivenBytes();
  for (uint64_t i = kept_.size(); i < kBox / kPage; ++i) {
    ASSERT_NE(Allocate(lanes_[0], kPage, 4, kOtherSite), nullptr);
  }
  EXPECT_LT(lanes_[0]->GivenBytes(), given / 8);
  EXPECT_GE(Most(), 1u << 20);  // both boxes, and what the second lane has of its annex
}

// Although nobody needs more.
TEST_F(TwoLanes, WhatIsIdleGoesBack) {
  Work(60000);
  EXPECT_GT(lanes_[0]->GivenBytes(), kBox / 8 * 7);
  EXPECT_LT(ResidentInBox(), kBox / kPage / 8);
  for (const char* block : kept_) {
    EXPECT_EQ(std::count(block, block + kPage, 0x5a), static_cast<int64_t>(kPage));
  }
}

// Of more gaps than a lane knows of, too.
TEST_F(TwoLanes, WhatIsIdleAmongManyGapsGoesBack) {
  Work(60000);
  std::vector<char*> blocks;
  for (uint64_t i = 0; i < 3 * LongGaps::kMost; ++i) {
    blocks.push_back(Allocate(lanes_[0], LongGaps::kLeast * kGranule, 4, kOtherSite));
    memset(blocks.back(), 0x5a, LongGaps::kLeast * kGranule);
  }
  std::sort(blocks.begin(), blocks.end());
  const uint64_t before = ResidentInBox();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 2 != 0 && i % 256 >= 32) continue;
    EXPECT_TRUE(Free(lanes_[0], blocks[i]));
  }
  Work(60000);
  EXPECT_LT(ResidentInBox() + blocks.size() / 256 * 32 * LongGaps::kLeast / 256 / 2, before);
}

// The thread need not ask for anything more.
TEST_F(TwoLanes, WhatATaskLeavesGoesBackWhenItEnds) {
  KeepFewer();
  Work(60000);  // earns what it spends
  DoATask();
  EXPECT_LT(ResidentInBox(), kBox / kPage / 8);
  for (const char* block : kept_) {
    EXPECT_EQ(std::count(block, block + kPage, 0x5a), static_cast<int64_t>(kPage));
  }
}

// More of them may follow at once, and then they are longer; the next look takes them.
TEST_F(TwoLanes, WhatATaskLeavesInShortRunsWaitsForALook) {
  Work(60000);
  DoATask();
  EXPECT_GT(ResidentInBox(), kBox / kPage / 8 * 7);
  Work(60000);
  EXPECT_LT(ResidentInBox(), kBox / kPage / 8);
}

// All of the box is in use but for runs of so many pages less one, in each of so many pages. They
// stay.
void TwoLanes::RunsStay(uint64_t pages) {
  const char* box = lanes_[0]->room().box;
  std::vector<char*> blocks;
  for (uint64_t i = kept_.size(); i < kBox / kPage; ++i) {
    blocks.push_back(Allocate(lanes_[0], kPage, 4, kOtherSite));
  }
  for (char* block : blocks) {
    if ((block - box) / kPage % pages == 0) continue;
    EXPECT_TRUE(Free(lanes_[0], block));
  }
  const uint64_t before = ResidentInBox();
  Work(60000);
  EXPECT_EQ(ResidentInBox(), before);
}

TEST_F(TwoLanes, ThreePagesSideBySideAreNotWorthACall) { RunsStay(4); }

class TwoLanesWherePagesAreDear : public TwoLanes {
 protected:
  TwoLanesWherePagesAreDear() : TwoLanes(/*dear_pages=*/true) {}
};

TEST_F(TwoLanesWherePagesAreDear, FifteenAreNotEither) { RunsStay(16); }

TEST_F(TwoLanesWherePagesAreDear, ManyAre) {
  for (char* block : kept_) EXPECT_TRUE(Free(lanes_[0], block));
  Work(60000);
  EXPECT_GT(lanes_[0]->GivenBytes(), kBox / 8 * 7);
}

// Those that follow will be used next.
TEST_F(TwoLanes, PagesThatAreUsedAgainComeAFewAtATime) {
  KeepFewer();
  Work(60000);
  const uint64_t given = lanes_[0]->GivenBytes();
  const uint64_t resident = ResidentInBox();
  const char* block;
  do {  // the annex has the shortest gaps
    block = Allocate(lanes_[0], kPage, 4, kOtherSite);
  } while (!lanes_[0]->Contains(block));
  EXPECT_EQ(lanes_[0]->GivenBytes(), given - 16 * kPage);
  EXPECT_EQ(ResidentInBox(), resident + 16);
  EXPECT_EQ(std::count(block, block + kPage, 0), static_cast<int64_t>(kPage));
}

// A page that tells where blocks begin and end tells of 64 pages.
TEST_F(TwoLanes, WhatTellsOfPagesThatAreGivenBackGoesToo) {
  for (char* block : kept_) EXPECT_TRUE(Free(lanes_[0], block));
  const uint64_t before = plan_.ResidentState();
  Work(60000);
  EXPECT_LT(plan_.ResidentState() + kBox / 64 / 8 * 6, before);
  std::vector<char*> blocks = Fill(lanes_[0]);
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 0; i + 1 < blocks.size(); ++i) ASSERT_LE(blocks[i] + kPage, blocks[i + 1]);
  for (char* block : blocks) EXPECT_TRUE(Free(lanes_[0], block));
}

TEST_F(TwoLanes, NothingIsGivenBackThatIsStillWanted) {
  lanes_[0]->set_keeps_pages(true);
  const uint64_t before = ResidentInBox();
  NeedMore(1 << 20);
  EXPECT_EQ(lanes_[0]->GivenBytes(), 0u);
  EXPECT_EQ(ResidentInBox(), before);
}

}  // namespace
}  // namespace reprise::replay
