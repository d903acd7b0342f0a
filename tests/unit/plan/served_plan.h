// A plan that is served in the test's own process, and requests as the hooks make them.
#ifndef REPRISE_TESTS_UNIT_PLAN_SERVED_PLAN_H_
#define REPRISE_TESTS_UNIT_PLAN_SERVED_PLAN_H_

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <memory>
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
  // The shared heap grows up to so many bytes.
  explicit ServedPlan(const trace::Recording& recording, const Learned& learned = {},
                      uint64_t heap_bytes = 1 << 30);
  ~ServedPlan();
  ServedPlan(const ServedPlan&) = delete;
  ServedPlan& operator=(const ServedPlan&) = delete;

  // As if the program had been started anew: no lane is taken, nothing is live. The blocks keep
  // their bytes.
  void Restart();

  Arena& arena() { return *arena_; }
  const BuiltPlan& built() const { return built_; }
  size_t lanes() const { return plan_->lanes.count; }
  // Where the boxes begin.
  char* boxes() const { return memory_.blocks + memory_.heap_bytes; }
  const LaneCounters& counters(size_t lane) const { return counters_[lane]; }
  Served served(size_t lane) const;
  // What all local heaps gave out.
  uint64_t Elsewhere() const;
  uint64_t InvalidFrees() const;
  uint64_t MostHeldPages() const { return counters_[plan_->lanes.count].most_held; }
  const std::vector<NotePage>& notes() const { return notes_; }
  // Kinds of request that the plan tells where they are asked for.
  uint64_t told() const { return told_; }
  // Of the plan file, in this process.
  uint64_t ResidentBytes() const;

 private:
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
  std::vector<uint8_t> key_sizes_;
  ArenaMemory memory_{};
  std::vector<LaneCounters> counters_;
  std::vector<NotePage> notes_;
  std::vector<std::pair<void*, uint64_t>> maps_;
  std::unique_ptr<Arena> arena_;
};

// As a hook's caller, on a stack that begins at 0.
struct CallerAt {
  uint64_t site;
  uint64_t slot() const { return -uint64_t{DepthOfSite(site)} * 16 - sizeof(uint64_t); }
  uint64_t return_address() const { return AddressOfSite(site); }
};

// A thread of a program, which asks as the hooks do (interpose/replay/replayer.cc).
class ServedThread {
 public:
  ServedThread(ServedPlan& plan, uint64_t path, uint64_t shape = 0, uint64_t site = 0)
      : plan_(&plan), lane_(plan.arena().TakeLane(path, shape, site)) {}

  Lane* lane() const { return lane_; }
  LocalHeap* heap() const { return heap_; }
  bool Follows() const { return lane_ != nullptr && !lane_->is_off_plan(); }

  // What the stream expects; null: it expects another request.
  void* AllocateExpected(uint64_t size, uint64_t site);
  char* Allocate(uint64_t size, unsigned log2_alignment, uint64_t site);
  // False: it is no live block.
  bool Free(char* pointer);
  // Null: there is no room, and the old block stays.
  char* Reallocate(char* pointer, uint64_t size, uint64_t site);
  uint64_t Usable(const char* pointer) { return plan_->arena().Usable(pointer); }
  void End();

 private:
  char* Elsewhere(uint64_t bytes, unsigned log2_alignment);

  ServedPlan* plan_;
  Lane* lane_;
  LocalHeap* heap_ = nullptr;
};

uint64_t SiteWordOf(const trace::Recording& recording, const trace::Allocation& allocation);

// What happens at each event index: an allocation is born, or dies (kDies).
inline constexpr uint32_t kDies = 1u << 31;
std::map<uint64_t, uint32_t> EventsOf(const trace::Recording& recording);

}  // namespace reprise::replay

#endif  // REPRISE_TESTS_UNIT_PLAN_SERVED_PLAN_H_
