// What a lane notes of the requests that went wrong, for the launcher to explain them and for
// `reprise plan --learn`. The notes lie behind the counters in the same file (CountersLayout).
//
// The tables are small and never grow. A place of a table is found by a hash, among four; when all
// four are in use, the note with the lowest count gives way, and what it had counted is lost. So
// what goes wrong often is noted nearly always, what goes wrong once may not be.
//
// Thread-safety: a lane's notes belong to the thread that holds the lane. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_LANE_NOTES_H_
#define REPRISE_REPLAY_ARENA_LANE_NOTES_H_

#include <stdint.h>

#include "replay/plan/counters.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

// A block of the box that outlived its planned free. Those that are still live and those that were
// in a request's place are kept before others.
struct SquatterNote {
  uint32_t word;      // 1 + index in the lane of the free that was planned for it; 0: unused
  uint32_t granule;   // where it begins
  uint32_t blocked;   // requests that found it in their place
  uint32_t freed_at;  // index of the word that the cursor stood at when it was freed; 0: it was not
};

// A kind of request, by shape and call site, that did not go where the plan says.
struct MissNote {
  uint64_t shape;       // 0: an unused note
  uint64_t site;        // as LiveKey::site
  uint32_t unexpected;  // the plan had no place for it
  uint32_t blocked;     // every place that was looked at was taken
  uint32_t blocker;     // 1 + granule of the block that was in the way most often; 0: none was
  uint32_t votes;       // by how much it leads (Boyer and Moore, MJRTY, 1981)
};

// A lane has a row of these; what comes before the tables is used in the first one only.
struct alignas(64) NotePage {
  static constexpr uint32_t kWays = 4;
  static constexpr uint32_t kSquatterSets = 16;
  static constexpr uint32_t kMissSets = 23;

  uint64_t unnamed;  // blocked requests of which no note says what was in the way
  uint64_t padding[15];
  SquatterNote squatters[kSquatterSets][kWays];
  MissNote misses[kMissSets][kWays];
};
static_assert(sizeof(NotePage) == 4096);

// Where a module of the plan lies in the process. All 0: it was not seen loaded.
struct ModuleRange {
  uint64_t base;        // what site offsets count from
  uint64_t begin, end;  // half-open
};

// The file of an image's counters: LaneCounters per lane and kOtherCounters, NotePages of each
// lane, ModuleRange per module.
struct CountersLayout {
  uint64_t notes;    // byte offsets
  uint64_t modules;  // byte offset
  uint64_t bytes;
  uint32_t pages;  // per lane: more where lanes are few

  static CountersLayout Of(const PlanHeader& plan) {
    constexpr uint64_t kPagesPerImage = 8;
    const uint64_t lanes = plan.lanes.count;
    CountersLayout layout{};
    layout.pages = static_cast<uint32_t>(lanes <= 1               ? kPagesPerImage
                                         : lanes < kPagesPerImage ? kPagesPerImage / lanes
                                                                  : 1);
    layout.notes = (lanes + kOtherCounters) * sizeof(LaneCounters);
    layout.modules = layout.notes + lanes * layout.pages * sizeof(NotePage);
    layout.bytes = layout.modules + plan.modules.count * sizeof(ModuleRange);
    return layout;
  }
};

// A lane's notes. The memory is the caller's, zeroed.
class LaneNotes {
 public:
  void Attach(NotePage* pages, uint32_t count) {
    pages_ = pages;
    count_ = count;
  }

  // The block at `granule` has outlived its planned free, which is `word`.
  void BecameLate(uint64_t granule, uint64_t word);

  // The note of the late block at `granule`, or null.
  SquatterNote* LiveSquatter(uint64_t granule) const;
  bool AnyLate() const { return any_late_; }

  // Such a block was freed at word `now`.
  void Freed(SquatterNote* note, uint64_t now);

  // A request of this kind was none that the plan expects.
  void Unexpected(uint64_t shape, uint64_t site) { ++MissOf(shape, site)->unexpected; }

  // So many requests, one of them of this kind, found the block at `granule` in their place.
  void Blocked(uint64_t shape, uint64_t site, uint64_t granule, uint32_t times);

 private:
  SquatterNote* SquatterSet(uint64_t number) const;
  static void Keep(SquatterNote* set, const SquatterNote& kept);
  MissNote* MissOf(uint64_t shape, uint64_t site);

  NotePage* pages_ = nullptr;
  uint32_t count_ = 0;
  bool any_late_ = false;  // squatters were noted
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LANE_NOTES_H_
