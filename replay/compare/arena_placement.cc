#include "replay/compare/arena_placement.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "replay/arena/arena.h"

namespace reprise::replay {
namespace {

using trace::Allocation;
using trace::kNone;

constexpr uint64_t kHeapBytes = uint64_t{64} << 30;
constexpr uint64_t kArenaAlignment = uint64_t{1} << 30;

// Addresses, given back at the end.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (at_ != nullptr) munmap(at_, bytes_);
  }
  // Null: the system refuses.
  char* Map(uint64_t bytes, int protection, int flags, int descriptor = -1) {
    void* at = mmap(nullptr, bytes, protection, flags | MAP_PRIVATE, descriptor, 0);
    if (at == MAP_FAILED) return nullptr;
    bytes_ = bytes;
    return at_ = static_cast<char*>(at);
  }

 private:
  char* at_ = nullptr;
  uint64_t bytes_ = 0;
};

// Call sites as if each module lay at an address of its own.
uint64_t BaseOf(uint32_t module) { return uint64_t{1} << 46 | uint64_t{module % 8192} << 33; }
uint64_t SiteOf(uint64_t offset, uint32_t module, uint32_t depth) {
  return LiveSite(module == kNone ? offset : BaseOf(module) + offset, depth % kDepths);
}
static_assert(kNoModule == kNone);

// An arena in this process, and the threads that it serves.
class Performer {
 public:
  explicit Performer(const trace::Recording& recording)
      : recording_(recording),
        threads_(recording.threads.size()),
        blocks_(recording.allocations.size()),
        placed_(recording.allocations.size()) {}

  absl::Status Start(const PlanFile* plan);
  void Allocate(uint32_t index);
  void Reallocate(uint32_t index);
  void Free(uint32_t index);
  void End(uint32_t thread) { arena_.Leave(threads_[thread].lane, threads_[thread].heap); }
  Placement Finish() const;

 private:
  struct Thread {
    bool began = false;
    Lane* lane = nullptr;
    LocalHeap* heap = nullptr;
    bool Follows() const { return lane != nullptr && !lane->is_off_plan(); }
  };

  const char* MapPlan(const PlanFile& plan);
  void SetUpKeys();
  uint64_t SiteOfBlock(const Allocation& allocation) const {
    if (allocation.site == kNone) return 0;
    const trace::Site& site = recording_.sites[allocation.site];
    return SiteOf(site.offset, site.module, site.depth);
  }
  void Keep(uint32_t index, void* block) {
    blocks_[index] = placed_[index] = static_cast<char*>(block);
  }
  void* Elsewhere(Thread& thread, uint64_t bytes, unsigned log2_alignment);

  const trace::Recording& recording_;
  std::vector<Thread> threads_;
  std::vector<char*> blocks_;  // live ones; null: none, or no longer
  std::vector<char*> placed_;
  PlanHeader none_{};
  const PlanHeader* plan_ = &none_;
  Mapping plan_file_, addresses_, state_;
  std::vector<LiveKey> keys_;
  std::vector<uint8_t> sizes_;
  std::vector<uint64_t> modules_;
  std::vector<LaneCounters> counters_;
  std::vector<NotePage> notes_;
  ArenaMemory memory_{};
  Arena arena_{};
};

// A lane gives pages of its stream back, which it may read again: they are to be a file's.
const char* Performer::MapPlan(const PlanFile& plan) {
  const uint64_t bytes = plan.header().file_bytes;
  const int file = memfd_create("reprise-plan", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  const char* from = reinterpret_cast<const char*>(&plan.header());
  uint64_t written = 0;
  while (written < bytes) {
    const ssize_t more = write(file, from + written, bytes - written);
    if (more <= 0) break;
    written += static_cast<uint64_t>(more);
  }
  const char* mapped =
      written == bytes ? plan_file_.Map(bytes, PROT_READ, /*flags=*/0, file) : nullptr;
  close(file);
  return mapped;
}

void Performer::SetUpKeys() {
  const auto* keys =
      reinterpret_cast<const PlanKey*>(reinterpret_cast<const char*>(plan_) + plan_->keys.offset);
  keys_.resize(2 * plan_->keys.count);  // the first half stays zero
  for (uint64_t i = 0; i < plan_->keys.count; ++i) {
    sizes_.push_back(LiveKeys::SizeOf(keys[i]));
    if (keys[i].shape == 0 || IsTold(i, keys[i])) continue;
    const bool nowhere = keys[i].module == kNoModule && keys[i].site_offset == 0;
    keys_[plan_->keys.count + i] = {
        keys[i].shape, nowhere ? 0 : SiteOf(keys[i].site_offset, keys[i].module, keys[i].depth)};
  }
  for (uint32_t i = 0; i < plan_->modules.count; ++i) modules_.push_back(BaseOf(i) + 1);
}

absl::Status Performer::Start(const PlanFile* plan) {
  if (plan != nullptr) plan_ = reinterpret_cast<const PlanHeader*>(MapPlan(*plan));
  const auto refused = [] {
    return absl::UnavailableError(
        absl::StrCat("cannot reserve addresses for the arena: ", std::strerror(errno)));
  };
  if (plan_ == nullptr) return refused();
  SetUpKeys();
  memory_.heap_bytes = kHeapBytes;
  const uint64_t state_bytes = Arena::StateBytes(*plan_, kHeapBytes);
  const char* addresses = addresses_.Map(kHeapBytes + plan_->arena_bytes + 2 * kArenaAlignment,
                                         PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE);
  memory_.state = state_.Map(state_bytes, PROT_READ, MAP_ANONYMOUS | MAP_NORESERVE);
  if (addresses == nullptr || memory_.state == nullptr) return refused();
  memory_.blocks = reinterpret_cast<char*>(
      (reinterpret_cast<uint64_t>(addresses) + kArenaAlignment - 1) & ~(kArenaAlignment - 1));
  counters_.resize(plan_->lanes.count + kOtherCounters);
  notes_.resize(plan_->lanes.count * CountersLayout::Of(*plan_).pages);
  memory_.counters = counters_.data();
  memory_.notes = notes_.data();
  const auto* plan_keys =
      reinterpret_cast<const PlanKey*>(reinterpret_cast<const char*>(plan_) + plan_->keys.offset);
  const LiveKeys keys = {keys_.data() + plan_->keys.count, [](uint64_t) { return false; },
                         sizes_.data(), plan_keys, modules_.data()};
  return arena_.Start(plan_, keys, memory_) ? absl::OkStatus() : refused();
}

void* Performer::Elsewhere(Thread& thread, uint64_t bytes, unsigned log2_alignment) {
  if (thread.heap == nullptr) thread.heap = arena_.TakeHeap(thread.lane);
  const uint64_t alignment = uint64_t{1} << std::max(4u, log2_alignment);
  if (thread.heap == nullptr) return arena_.AllocateShared(bytes, alignment);
  void* block = log2_alignment <= 4 ? thread.heap->AllocateQuickly(bytes) : nullptr;
  return block != nullptr ? block : thread.heap->Allocate(bytes, alignment);
}

void Performer::Allocate(uint32_t index) {
  const Allocation& allocation = recording_.allocations[index];
  Thread& thread = threads_[allocation.thread];
  const uint64_t shape = Shape(allocation.size, allocation.log2_alignment);
  const uint64_t site = SiteOfBlock(allocation);
  if (!thread.began) {
    thread.began = true;
    thread.lane = arena_.TakeLane(recording_.threads[allocation.thread].path, shape, site);
  }
  uint64_t bytes = std::max<uint64_t>(allocation.size, 1);
  if (thread.Follows()) {
    const Lane::Placed placed = thread.lane->Allocate(shape, site);
    if (thread.lane->wants_to_leave()) thread.lane->LeavePlan();
    if (placed.block != nullptr) return Keep(index, placed.block);
    bytes = std::max(bytes, placed.bytes);
  }
  Keep(index, Elsewhere(thread, bytes, allocation.log2_alignment));
}

// As replay has it: in place, if the stream expects that or the heap has room behind the block.
void Performer::Reallocate(uint32_t index) {
  const Allocation& allocation = recording_.allocations[index];
  const uint32_t old = allocation.previous;
  Thread& thread = threads_[allocation.thread];
  char* before = blocks_[old];
  const uint64_t size = std::max<uint64_t>(allocation.size, 1);
  if (thread.Follows() && before != nullptr && thread.lane->Contains(before)) {
    void* planned =
        thread.lane->ReallocateExpected(before, size, SiteOfBlock(allocation), /*may_move=*/true);
    if (planned == nullptr) {
      Free(old);
      return Allocate(index);
    }
    blocks_[old] = nullptr;
    return Keep(index, planned);
  }
  if (thread.heap != nullptr && before != nullptr && thread.heap->Resize(before, size)) {
    blocks_[old] = nullptr;
    return Keep(index, before);
  }
  Allocate(index);
  Free(old);
}

void Performer::Free(uint32_t index) {
  char* block = blocks_[index];
  if (block == nullptr) return;
  blocks_[index] = nullptr;
  const Allocation& allocation = recording_.allocations[index];
  const bool known = allocation.free_thread < threads_.size();
  Thread& thread = threads_[known ? allocation.free_thread : allocation.thread];
  if (thread.Follows() && thread.lane->FreeExpected(block)) return;
  if (thread.heap != nullptr && thread.heap->FreeQuickly(block)) return;
  arena_.Free(block, thread.heap, thread.lane);
}

// The boxes follow the heap, as far as that was used.
Placement Performer::Finish() const {
  Placement placement;
  uint64_t strictest = kBoxAlignment, top = 0;
  for (size_t i = 0; i < placed_.size(); ++i) {
    const Allocation& allocation = recording_.allocations[i];
    strictest = std::max(strictest, uint64_t{1} << allocation.log2_alignment);
    const auto at = static_cast<uint64_t>(placed_[i] - memory_.blocks);
    if (placed_[i] != nullptr && at < kHeapBytes) {
      top = std::max(top, at + trace::BlockBytes(allocation.size));
    }
  }
  const uint64_t moved = kHeapBytes - ((top + strictest - 1) & ~(strictest - 1));
  for (size_t i = 0; i < placed_.size(); ++i) {
    placement.offsets.push_back(Placement::kUnplanned);
    if (placed_[i] == nullptr) continue;
    auto at = static_cast<uint64_t>(placed_[i] - memory_.blocks);
    if (at >= kHeapBytes) at -= moved;
    placement.offsets.back() = static_cast<int64_t>(at);
    const uint64_t end = at + trace::BlockBytes(recording_.allocations[i].size);
    placement.arena_bytes = std::max(placement.arena_bytes, static_cast<int64_t>(end));
  }
  return placement;
}

}  // namespace

absl::StatusOr<Placement> PlaceByArena(const trace::Recording& recording, const PlanFile* plan) {
  Performer performer(recording);
  if (absl::Status status = performer.Start(plan); !status.ok()) return status;
  constexpr uint32_t kDies = uint32_t{1} << 31;
  std::vector<uint32_t> steps(recording.events, kNone);
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& allocation = recording.allocations[i];
    steps[allocation.birth] = i;
    if (allocation.death != trace::kNever) steps[allocation.death] = i | kDies;
  }
  // What a realloc replaces is freed by it.
  for (const Allocation& allocation : recording.allocations) {
    if (allocation.previous == kNone) continue;
    const uint64_t death = recording.allocations[allocation.previous].death;
    if (death != trace::kNever) steps[death] = kNone;
  }
  std::vector<uint32_t> ends(recording.threads.size());
  for (uint32_t i = 0; i < ends.size(); ++i) ends[i] = i;
  std::stable_sort(ends.begin(), ends.end(), [&](uint32_t a, uint32_t b) {
    return recording.threads[a].end_event < recording.threads[b].end_event;
  });
  auto ended = ends.begin();
  for (uint64_t event = 0; event < steps.size(); ++event) {
    while (ended != ends.end() && recording.threads[*ended].end_event <= event) {
      performer.End(*ended++);
    }
    const uint32_t step = steps[event];
    if (step == kNone) continue;
    if ((step & kDies) != 0) {
      performer.Free(step & ~kDies);
    } else if (recording.allocations[step].previous != kNone) {
      performer.Reallocate(step);
    } else {
      performer.Allocate(step);
    }
  }
  return performer.Finish();
}

}  // namespace reprise::replay
