// Performs scripts in a toy machine that interleaves the threads at random: whatever the scheduler
// does, the order that was promised must come out.
#include "replay/compare/player/compile_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "replay/compare/player/script.h"
#include "tests/unit/compare/recording.h"

namespace reprise::replay {
namespace {

using trace::Recording;

class Machine {
 public:
  explicit Machine(const Script& script) : words_(script.words) {
    std::memcpy(&header_, words_.data(), sizeof(header_));
    table_.resize(header_.threads);
    std::memcpy(table_.data(), words_.data() + sizeof(header_) / 8,
                table_.size() * sizeof(ScriptThread));
    slots_.resize(header_.slots, 0);
    threads_.resize(header_.threads);
    threads_[0].started = true;
  }

  // The sizes of the blocks in the order in which they were allocated (size) and freed (-size).
  std::vector<int64_t> Run(uint64_t seed) {
    std::mt19937_64 random(seed);
    while (true) {
      std::vector<uint32_t> ready;
      bool all_done = true;
      for (uint32_t i = 0; i < threads_.size(); ++i) {
        all_done = all_done && Done(i);
        if (CanStep(i)) ready.push_back(i);
      }
      if (all_done) return happened_;
      if (ready.empty()) {
        ADD_FAILURE() << "the threads wait for each other";
        return happened_;
      }
      Step(ready[random() % ready.size()]);
    }
  }

 private:
  struct Thread {
    uint64_t at = 0;
    uint32_t progress = 0;
    bool started = false;
  };

  uint64_t Word(uint32_t i) const { return words_[table_[i].begin + threads_[i].at]; }
  bool Done(uint32_t i) const {
    return threads_[i].started && table_[i].begin + threads_[i].at == table_[i].end;
  }
  bool CanStep(uint32_t i) const {
    if (!threads_[i].started || Done(i)) return false;
    const uint64_t word = Word(i);
    if (KindOf(word) == kScriptWait) return threads_[SlotOf(word)].progress >= ValueOf(word);
    if (KindOf(word) == kScriptJoin) return Done(SlotOf(word));
    return true;
  }

  void Take(uint32_t slot, uint64_t bytes) {
    EXPECT_EQ(slots_[slot], 0) << "slot " << slot << " is in use";
    slots_[slot] = static_cast<int64_t>(bytes);
    happened_.push_back(slots_[slot]);
  }
  void Leave(uint32_t slot) {
    EXPECT_NE(slots_[slot], 0) << "slot " << slot << " is empty";
    happened_.push_back(-slots_[slot]);
    slots_[slot] = 0;
  }

  void Step(uint32_t i) {
    const uint64_t word = Word(i);
    ++threads_[i].at;
    switch (KindOf(word)) {
      case kScriptMalloc:
      case kScriptCalloc:
        Take(SlotOf(word), ValueOf(word));
        break;
      case kScriptRealloc:
        Leave(SlotOf(word));
        Take(SlotOf(word), ValueOf(word));
        break;
      case kScriptExtended: {
        if ((ValueOf(word) & 255) == kScriptRealloc) Leave(SlotOf(word));
        const uint64_t bytes = Word(i);
        ++threads_[i].at;
        Take(SlotOf(word), bytes);
        break;
      }
      case kScriptFree:
        Leave(SlotOf(word));
        break;
      case kScriptSignal:
        EXPECT_EQ(ValueOf(word), ++threads_[i].progress);
        break;
      case kScriptStart:
        EXPECT_FALSE(threads_[SlotOf(word)].started);
        threads_[SlotOf(word)].started = true;
        break;
      case kScriptWait:
      case kScriptJoin:
        break;
      default:
        ADD_FAILURE() << "unknown operation";
    }
  }

  const std::vector<uint64_t>& words_;
  ScriptHeader header_;
  std::vector<ScriptThread> table_;
  std::vector<Thread> threads_;
  std::vector<int64_t> slots_;  // size of the block; 0: none
  std::vector<int64_t> happened_;
};

std::vector<int64_t> InRecordedOrder(const Recording& recording) {
  std::vector<int64_t> events(recording.events, 0);
  for (const trace::Allocation& it : recording.allocations) {
    events[it.birth] = static_cast<int64_t>(it.size);
    if (it.death != trace::kNever) events[it.death] = -static_cast<int64_t>(it.size);
  }
  std::erase(events, 0);
  return events;
}

TEST(LowerTest, RecordedOrderHoldsUnderEveryScheduler) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Recording recording = RandomRecording(seed, 1 + seed % 9, 300);
    const absl::StatusOr<Script> script = Lower(recording, {});
    ASSERT_TRUE(script.ok()) << script.status();
    EXPECT_EQ(Machine(*script).Run(seed), InRecordedOrder(recording)) << "seed " << seed;
  }
}

TEST(LowerTest, DependenciesHoldUnderEveryScheduler) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Recording recording = RandomRecording(seed, 1 + seed % 9, 300);
    const absl::StatusOr<Script> script = Lower(recording, {.order = Order::kDependencies});
    ASSERT_TRUE(script.ok()) << script.status();
    // The machine complains about a free before its malloc; sizes tell that it was the right block.
    std::vector<int64_t> happened = Machine(*script).Run(seed);
    std::vector<int64_t> expected = InRecordedOrder(recording);
    std::sort(happened.begin(), happened.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(happened, expected) << "seed " << seed;
  }
}

TEST(LowerTest, ThreadsBeyondTheLimitShare) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Recording recording = RandomRecording(seed, 24, 600);
    const absl::StatusOr<Script> script = Lower(recording, {.most_threads = 3});
    ASSERT_TRUE(script.ok()) << script.status();
    EXPECT_GT(script->shared, 0);
    EXPECT_LT(script->threads, 24);
    EXPECT_EQ(Machine(*script).Run(seed), InRecordedOrder(recording));
  }
}

TEST(LowerTest, ARecordingWithoutThreadsOrEventsIsAnEmptyScript) {
  const absl::StatusOr<Script> script = Lower(Recording(), {});
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_TRUE(Machine(*script).Run(1).empty());
}

TEST(LowerTest, ReallocAcrossOtherEventsIsOneOperation) {
  RecordingMaker maker(2);
  const uint32_t old = maker.Malloc(0, 100);
  maker.Free(0, old);
  maker.Malloc(1, 7);  // came between the two halves of the realloc
  const uint32_t fresh = maker.Malloc(0, 200);
  maker[fresh].kind = trace::AllocationKind::kRealloc;
  maker[fresh].previous = old;
  const absl::StatusOr<Script> script = Lower(maker.recording(), {});
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(Machine(*script).Run(1), testing::ElementsAre(100, 7, -100, 200));
}

TEST(LowerTest, ReallocToNothingIsAFreeAndAMalloc) {
  RecordingMaker maker(1);
  maker.Realloc(0, maker.Malloc(0, 64), 0);
  const absl::StatusOr<Script> script = Lower(maker.recording(), {});
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(Machine(*script).Run(1), testing::ElementsAre(64, -64, 0));
}

struct Broken {
  std::string name;
  std::string message;
  void (*breakage)(RecordingMaker&);
};

class LowerBrokenTest : public testing::TestWithParam<Broken> {};

TEST_P(LowerBrokenTest, IsRefusedWithOneClearLine) {
  RecordingMaker maker(1);
  maker.Free(0, maker.Malloc(0, 16));
  maker.Free(0, maker.Malloc(0, 32));
  GetParam().breakage(maker);
  const absl::StatusOr<Script> script = Lower(maker.recording(), {});
  ASSERT_FALSE(script.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(script.status()));
  EXPECT_TRUE(absl::StrContains(script.status().message(), GetParam().message)) << script.status();
}

INSTANTIATE_TEST_SUITE_P(
    All, LowerBrokenTest,
    testing::Values(Broken{"DeathBeforeBirth", "dies before its birth",
                           [](RecordingMaker& it) { it[1].death = it[1].birth; }},
                    Broken{"SharedEvent", "shares an event",
                           [](RecordingMaker& it) { it[0].death = it[1].birth; }},
                    Broken{"BornTooLate", "born after the last event",
                           [](RecordingMaker& it) { it[1].birth = 100; }},
                    Broken{"DiesTooLate", "dies after the last event",
                           [](RecordingMaker& it) { it[1].death = 100; }},
                    Broken{"NoSuchThread", "thread does not exist",
                           [](RecordingMaker& it) { it[1].thread = 9; }},
                    Broken{"NobodyFreed", "freeing thread does not exist",
                           [](RecordingMaker& it) { it[1].free_thread = trace::kNone; }},
                    Broken{"ReplacesLater", "replaces a later one",
                           [](RecordingMaker& it) { it[0].previous = 1; }}),
    [](const testing::TestParamInfo<Broken>& test) { return test.param.name; });

TEST(LowerTest, APlanMustFitTheRecording) {
  RecordingMaker maker(1);
  maker.Malloc(0, 100);
  const Placement outside = {{16}, 100};
  EXPECT_TRUE(absl::IsInvalidArgument(Lower(maker.recording(), {.placement = &outside}).status()));
  const Placement too_short = {{}, 100};
  EXPECT_TRUE(
      absl::IsInvalidArgument(Lower(maker.recording(), {.placement = &too_short}).status()));
  const Placement fits = {{0}, 100};
  EXPECT_TRUE(Lower(maker.recording(), {.placement = &fits}).ok());
}

}  // namespace
}  // namespace reprise::replay
