// A plan that is served in the test's own process, and requests as the hooks make them.
#ifndef REPRISE_TESTS_UNIT_PLAN_SERVED_PLAN_H_
#define REPRISE_TESTS_UNIT_PLAN_SERVED_PLAN_H_

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "replay/arena/arena.h"
#include "replay/plan/plan_builder.h"
#include "replay/plan/replay_totals.h"
#include "tests/unit/plan/recordings.h"
#include "trace/recording.h"

namespace reprise::replay {

// The arena of a plan of `recording`. Ends the process when the machine has no memory for it.
class ServedPlan {
 public:
  // There are at least so many bytes behind the boxes.
  explicit ServedPlan(const trace::Recording& recording, const Learned& learned = {},
                      uint64_t spare_bytes = 8 << 20);
  ~ServedPlan();
  ServedPlan(const ServedPlan&) = delete;
  ServedPlan& operator=(const ServedPlan&) = delete;

  // As if the program had been started anew: no lane is taken, nothing is live. The blocks keep
  // their bytes. `spare`: whether there is room behind the boxes.
  void Restart(bool spare = true, bool dear_pages = false);

  Arena& arena() { return arena_; }
  const BuiltPlan& built() const { return built_; }
  size_t lanes() const { return plan_->lanes.count; }
  char* blocks() const { return memory_.blocks; }
  const LaneCounters& counters(size_t lane) const { return counters_[lane]; }
  Served served(size_t lane) const;
  const std::vector<NotePage>& notes() const { return notes_; }
  // Kinds of request that the plan tells where they are asked for.
  uint64_t told() const { return told_; }
  // Of the plan file, in this process.
  uint64_t ResidentBytes() const;
  // Of what the arena notes. A page that was only read counts, too.
  uint64_t ResidentState() const;
  // From now on to read a long plan's placements ends the process, but for the last few of them.
  void HidePlacements() const;

 private:
  static uint64_t Resident(const void* begin, uint64_t length);
  void* Map(uint64_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, int fd = -1);
  template <typename T>
  const T* Table(const PlanTable& table) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(plan_) + table.offset);
  }

  BuiltPlan built_;
  const PlanHeader* plan_ = nullptr;
  std::vector<LiveKey> keys_;
  std::vector<uint64_t> modules_;
  uint64_t told_ = 0;
  std::vector<uint8_t> key_granules_;
  ArenaMemory memory_{};
  uint64_t spacious_bytes_ = 0;  // of the blocks, the spare range included
  std::vector<LaneCounters> counters_;
  std::vector<NotePage> notes_;
  std::vector<std::pair<void*, uint64_t>> maps_;
  Arena arena_;
};

// As a hook's caller, on a stack that begins at 0.
struct CallerAt {
  uint64_t site;
  uint64_t slot() const { return -uint64_t{DepthOfSite(site)} * 16 - sizeof(uint64_t); }
  uint64_t return_address() const { return AddressOfSite(site); }
};

// Of a lane that follows its stream.
inline void* AllocateExpected(Lane* lane, uint64_t size, uint64_t site) {
  const uint32_t* next = lane->Next();
  const uint64_t differs = lane->Differs(next, size, CallerAt{site});
  if (differs == 0) return lane->PlacePlainly(next);
  if (differs != Lane::kWithCare) return nullptr;
  void* pointer = lane->PlaceWithCare();
  return pointer != nullptr ? pointer : lane->PlaceAsExpected();
}

// As the hooks ask: what the stream expects first.
inline char* Allocate(Lane* lane, uint64_t size, unsigned log2_alignment, uint64_t site) {
  void* pointer = nullptr;
  if (log2_alignment <= 4) {
    if (lane->gives_kept()) {
      pointer = lane->AllocateKeptQuickly(PlainShape(size));
      if (pointer == nullptr) pointer = lane->AllocateKept(PlainShape(size));
    } else if (!lane->running_free()) {
      pointer = AllocateExpected(lane, size, site);
    }
  }
  if (pointer == nullptr) pointer = lane->Allocate(Shape(size, log2_alignment), site);
  return static_cast<char*>(pointer);
}

// As the hooks free: false for what is no live block.
inline bool Free(Lane* lane, char* pointer) {
  const bool quickly =
      lane->FreeExpected(pointer) ||
      (lane->gives_kept() && (lane->FreeKeptQuickly(pointer) || lane->FreeFreely(pointer)));
  return quickly || lane->Free(pointer);
}

// Whether a realloc leaves the block where it is. As the hooks ask; false: nothing has happened.
inline bool ReallocateInPlace(Lane* lane, char* pointer, uint64_t size, uint64_t site) {
  return lane->ReallocateExpected(pointer, size, site, /*may_move=*/false) != nullptr ||
         lane->ReallocateFreely(pointer, size);
}

uint64_t SiteWordOf(const trace::Recording& recording, const trace::Allocation& allocation);

// What happens at each event index: an allocation is born, or dies (kDies).
inline constexpr uint32_t kDies = 1u << 31;
std::map<uint64_t, uint32_t> EventsOf(const trace::Recording& recording);

}  // namespace reprise::replay

#endif  // REPRISE_TESTS_UNIT_PLAN_SERVED_PLAN_H_
