// The places that a lane which runs free gives out first: for each kind of request those that the
// plan has for it.
//
// In the course of a long run a kind visits far more places than it has blocks at any time, and
// most of them are other kinds' for most of that time. The plan names those where the kind has
// blocks for longest, as many as it has blocks at most: a short block in a place that is usually a
// long one's makes that useless for as long as it lives. Of a kind of long blocks, for which gaps
// are looked for (arena/lane.h), it names one, so that it is known that the lane has such blocks.
#ifndef REPRISE_REPLAY_PLAN_PLANNED_SLOTS_H_
#define REPRISE_REPLAY_PLAN_PLANNED_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "replay/plan/plan_format.h"

namespace reprise::replay {

// For one lane after the other. Costs what the lane has, whatever the plan has.
class SlotGatherer {
 public:
  // The keys outlive it.
  explicit SlotGatherer(const std::vector<PlanKey>& keys);

  // Of a lane's words and its placements, sorted by offset. Slots are numbered from `first_slot`
  // on.
  void Gather(std::span<const uint32_t> words, uint32_t offset_bits,
              const std::vector<PlanBlock>& placements, uint64_t box_bytes, uint64_t first_slot);

  // Of the latest lane.
  const std::vector<PlanRing>& rings() const { return rings_; }
  const std::vector<uint32_t>& slots() const { return slots_; }

 private:
  struct Tally {
    uint32_t live = 0;
    uint32_t peak = 0;
    uint32_t visits = 0;  // places
    uint64_t latest = 0;
  };
  struct Visited {
    uint32_t kind;
    uint32_t offset;
    uint64_t dwelt;  // words for which a block was there
  };

  void FindPeaks(std::span<const uint32_t> words, uint32_t offset_bits, uint64_t box_bytes);
  void AddLongest(std::span<const Visited> places, size_t most);

  const std::vector<PlanKey>& keys_;
  std::vector<uint32_t> kind_;  // per key: the first key of its kind
  std::vector<Tally> tally_;    // per kind
  std::vector<uint32_t> kinds_;
  // Per granule: the kind of the block that began there last. What is not touched takes no memory.
  std::unique_ptr<uint32_t[]> live_at_;
  uint64_t room_ = 0;
  std::vector<Visited> visited_;
  std::vector<uint64_t> dwelt_;
  std::vector<PlanRing> rings_;
  std::vector<uint32_t> slots_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_PLANNED_SLOTS_H_
