// Writes the stream of one lane: plan_format.h.
#ifndef REPRISE_REPLAY_PLAN_LANE_ENCODER_H_
#define REPRISE_REPLAY_PLAN_LANE_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "replay/plan/encoded_lane.h"
#include "replay/plan/loops.h"
#include "replay/plan/plan_format.h"
#include "replay/plan/plan_keys.h"
#include "replay/plan/stream.h"
#include "trace/recording.h"

namespace reprise::replay {

// Some hints need a look at every page of every block: few of them may claim many pages. So many
// are looked at in all, which takes a second; then there are no more such hints.
class PageWork {
 public:
  bool Take(uint64_t pages) {
    if (pages > left_) return false;
    left_ -= pages;
    return true;
  }

 private:
  uint64_t left_ = uint64_t{1} << 30;
};

// Measure every allocation, ChooseSplit, then Allocate and Free in the order of the recording, at
// the end TakeWords. Everything outlives it.
class LaneEncoder {
 public:
  LaneEncoder(const trace::Recording& recording, Keys& keys, const std::vector<int64_t>& offsets,
              const EncodedLane& lane)
      : recording_(recording), keys_(keys), offsets_(offsets), lane_(lane) {}

  // First pass: what the words will have to hold.
  void Measure(uint32_t allocation);

  // Between the passes: splits a word so that as few allocations as possible are far.
  void ChooseSplit();

  void Allocate(uint32_t allocation);
  void Free(uint32_t allocation);

  // What follows, up to EndLoop, is one pass through a loop, with these steps. Its pages are told
  // as used beforehand: words about that are not to be followed twice.
  void BeginLoop(std::span<const uint32_t> steps);
  void EndLoop(const Loop& found);

  // A hint that memory for this Free, if its block is born, will be needed soon.
  void WillFree(uint32_t allocation) const;

  // At the end; what is taken is no longer held here.
  std::vector<uint32_t> TakeWords(PageWork& work);
  uint64_t blocks() const { return lane_.box_bytes > 0 ? placements_.size() : 0; }
  const std::vector<PlanLoop>& loops() const { return loops_; }

  int offset_bits() const { return offset_bits_; }

 private:
  // Of a lane without a box only the first allocation is written, with offset 0.
  bool HasRoom(uint64_t allocations) const { return lane_.box_bytes > 0 || allocations == 0; }

  uint64_t Granule(uint32_t allocation) const;
  uint64_t PagesToLookAt() const;
  bool IsTold(uint32_t key) const { return replay::IsTold(key, keys_.keys[key]); }
  void Tell(uint32_t word, uint32_t key, uint32_t granule);
  void Turn();
  void TellIdlePages(std::span<const uint32_t> body);
  void Use(uint64_t granule, uint64_t granules);
  uint64_t NextUnused(uint64_t page);

  const trace::Recording& recording_;
  Keys& keys_;
  const std::vector<int64_t>& offsets_;
  const EncodedLane& lane_;
  // How many allocations have an offset and a key of so many bits. A lane may have one allocation,
  // and a program a million lanes.
  static constexpr int kMostBits = 64;
  absl::flat_hash_map<int, uint64_t> sizes_;
  uint64_t allocations_ = 0;
  uint64_t told_ = 0;  // of these, with keys that are
  int offset_bits_ = 16;
  size_t next_turn_ = kTurnWords - kTurnWords / 8;  // near the end of each stretch
  std::vector<uint32_t> words_;
  std::vector<uint32_t> turns_;  // the kTurn words among them
  std::vector<PlanBlock> placements_;
  std::vector<uint32_t> next_unused_;  // per page of the box: itself, or one behind it; the end
  uint64_t used_pages_ = 0;
  uint64_t told_pages_ = 0;
  bool has_turns_ = true;
  std::vector<PlanLoop> loops_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_LANE_ENCODER_H_
