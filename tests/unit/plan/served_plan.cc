#include "tests/unit/plan/served_plan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace reprise::replay {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::abort();
}

bool LearnNothing(uint64_t) { return false; }

uint64_t SiteOf(const PlanKey& key) { return LiveSite(kModuleBase + key.site_offset, key.depth); }

uint64_t Pages(uint64_t bytes) { return (bytes + 4095) & ~uint64_t{4095}; }

// Of the blocks; those of a replayed program are aligned to more.
constexpr uint64_t kAlignment = 1 << 30;

}  // namespace

ServedPlan::ServedPlan(const trace::Recording& recording, const Learned& learned,
                       uint64_t heap_bytes) {
  planner::Options options;
  options.budget_seconds = 0.02;
  options.threads = 1;
  built_ = *BuildPlan(recording, options, LaneMode::kThread, learned);
  // A mapped file, because lanes give back pages of it that they expect to find again.
  const int fd = memfd_create("plan", 0);
  Require(write(fd, built_.bytes.data(), built_.bytes.size()) ==
              static_cast<ssize_t>(built_.bytes.size()),
          "memfd_create");
  plan_ = static_cast<const PlanHeader*>(Map(built_.bytes.size(), MAP_PRIVATE, fd));
  close(fd);
  const auto* plan_keys = Table<PlanKey>(plan_->keys);
  keys_.resize(plan_->keys.count);
  for (uint64_t i = 0; i < plan_->keys.count; ++i) {
    key_sizes_.push_back(LiveKeys::SizeOf(plan_keys[i]));
    const bool told = IsTold(i, plan_keys[i]);
    told_ += told ? 1 : 0;
    keys_.push_back({told ? 0 : plan_keys[i].shape,
                     told || plan_keys[i].shape == 0 ? 0 : SiteOf(plan_keys[i])});
  }
  modules_.assign(plan_->modules.count, kModuleBase + 1);
  memory_.heap_bytes = heap_bytes;
  const auto blocks =
      reinterpret_cast<uint64_t>(Map(Pages(plan_->arena_bytes + heap_bytes) + kAlignment));
  memory_.blocks = reinterpret_cast<char*>((blocks + kAlignment - 1) & ~(kAlignment - 1));
  memory_.state = static_cast<char*>(Map(Arena::StateBytes(*plan_, heap_bytes)));
  memory_.releases = true;
  Restart();
}

ServedPlan::~ServedPlan() {
  for (const auto& [address, bytes] : maps_) munmap(address, bytes);
}

void ServedPlan::Restart() {
  Require(madvise(memory_.state, Arena::StateBytes(*plan_, memory_.heap_bytes), MADV_DONTNEED) == 0,
          "madvise");
  counters_.assign(plan_->lanes.count + kOtherCounters, {});
  memory_.counters = counters_.data();
  notes_.assign(plan_->lanes.count * CountersLayout::Of(*plan_).pages, {});
  memory_.notes = notes_.data();
  arena_ = std::make_unique<Arena>();
  Require(arena_->Start(plan_,
                        {keys_.data() + plan_->keys.count, LearnNothing, key_sizes_.data(),
                         Table<PlanKey>(plan_->keys), modules_.data()},
                        memory_),
          "mprotect");
}

uint64_t ServedPlan::Elsewhere() const {
  uint64_t sum = 0;
  for (const LaneCounters& it : counters_) sum += it.heap.allocations;
  return sum;
}

uint64_t ServedPlan::InvalidFrees() const {
  uint64_t sum = 0;
  for (const LaneCounters& it : counters_) sum += it.invalid_frees;
  return sum;
}

Served ServedPlan::served(size_t lane) const {
  arena_->Publish();
  const PlanLane& entry = Table<PlanLane>(plan_->lanes)[lane];
  return ServedBy(entry, Table<uint32_t>(plan_->words) + entry.first_word,
                  Table<PlanLoop>(plan_->loops) + entry.first_loop, counters_[lane]);
}

uint64_t ServedPlan::ResidentBytes() const {
  const int fd = open("/proc/self/pagemap", O_RDONLY);
  std::vector<uint64_t> pages(Pages(plan_->file_bytes) / 4096);
  const auto bytes = static_cast<ssize_t>(pages.size() * sizeof(uint64_t));
  const auto at = static_cast<off_t>(reinterpret_cast<uint64_t>(plan_) / 4096 * sizeof(uint64_t));
  Require(pread(fd, pages.data(), pages.size() * sizeof(uint64_t), at) == bytes, "pagemap");
  close(fd);
  return 4096 * static_cast<uint64_t>(std::count_if(pages.begin(), pages.end(),
                                                    [](uint64_t page) { return page >> 63 != 0; }));
}

void* ServedPlan::Map(uint64_t bytes, int flags, int fd) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  Require(mapped != MAP_FAILED, "mmap");
  maps_.emplace_back(mapped, bytes);
  return mapped;
}

void* ServedThread::AllocateExpected(uint64_t size, uint64_t site) {
  const uint32_t* next = lane_->Next();
  const uint64_t differs = lane_->Differs(next, size, CallerAt{site});
  if (differs == 0) return lane_->PlaceUnguarded(next);
  if (differs != Lane::kGuarded) return nullptr;
  if (void* pointer = lane_->PlaceGuarded()) return pointer;
  const Lane::Placed placed = lane_->PlaceAsExpected();
  if (lane_->wants_to_leave()) lane_->LeavePlan();
  return placed.block != nullptr ? placed.block : Elsewhere(std::max(size, placed.bytes), 4);
}

char* ServedThread::Allocate(uint64_t size, unsigned log2_alignment, uint64_t site) {
  uint64_t bytes = size;
  if (Follows()) {
    void* expected = log2_alignment <= 4 ? AllocateExpected(size, site) : nullptr;
    if (expected != nullptr) return static_cast<char*>(expected);
    const Lane::Placed placed = lane_->Allocate(Shape(size, log2_alignment), site);
    if (lane_->wants_to_leave()) lane_->LeavePlan();
    if (placed.block != nullptr) return static_cast<char*>(placed.block);
    bytes = std::max(bytes, placed.bytes);
  }
  return Elsewhere(bytes, log2_alignment);
}

char* ServedThread::Elsewhere(uint64_t bytes, unsigned log2_alignment) {
  if (heap_ == nullptr) heap_ = plan_->arena().TakeHeap(lane_);
  void* pointer = log2_alignment <= 4 ? heap_->AllocateQuickly(bytes) : nullptr;
  if (pointer == nullptr) {
    pointer = heap_->Allocate(bytes, uint64_t{1} << std::max(4u, log2_alignment));
  }
  return static_cast<char*>(pointer);
}

bool ServedThread::Free(char* pointer) {
  if (Follows() && lane_->FreeExpected(pointer)) return true;
  if (heap_ != nullptr && heap_->FreeQuickly(pointer)) return true;
  return plan_->arena().Free(pointer, heap_, lane_);
}

char* ServedThread::Reallocate(char* pointer, uint64_t size, uint64_t site) {
  if (Follows() && lane_->Contains(pointer)) {
    const uint64_t before = lane_->Usable(pointer);
    lane_->SettleBefore(pointer);
    if (void* planned = lane_->ReallocateExpected(pointer, size, site, /*may_move=*/true)) {
      std::memmove(planned, pointer, std::min(before, size));
      return static_cast<char*>(planned);
    }
    lane_->set_keeps_pages(true);
    Require(lane_->Free(pointer), "a live block was not recognised");
    const Lane::Placed placed = lane_->Allocate(Shape(size, 4), site);
    char* fresh = static_cast<char*>(placed.block);
    if (fresh == nullptr) fresh = Elsewhere(std::max(size, placed.bytes), 4);
    if (fresh == nullptr) {
      lane_->Revive(pointer, before);
    } else {
      std::memmove(fresh, pointer, std::min(before, size));
    }
    lane_->set_keeps_pages(false);
    if (lane_->wants_to_leave()) lane_->LeavePlan();
    return fresh;
  }
  if (heap_ != nullptr && heap_->Resize(pointer, size)) return pointer;
  const uint64_t before = Usable(pointer);
  char* fresh = Allocate(size, 4, site);
  if (fresh == nullptr) return nullptr;
  std::memcpy(fresh, pointer, std::min(before, size));
  Require(Free(pointer), "a live block was not recognised");
  return fresh;
}

void ServedThread::End() {
  plan_->arena().Leave(lane_, heap_);
  lane_ = nullptr;
  heap_ = nullptr;
}

uint64_t SiteWordOf(const trace::Recording& recording, const trace::Allocation& allocation) {
  const trace::Site& site = recording.sites[allocation.site];
  return LiveSite(kModuleBase + site.offset, site.depth);
}

std::map<uint64_t, uint32_t> EventsOf(const trace::Recording& recording) {
  std::map<uint64_t, uint32_t> events;
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    events[recording.allocations[i].birth] = i;
    if (recording.allocations[i].death != trace::kNever) {
      events[recording.allocations[i].death] = i | kDies;
    }
  }
  return events;
}

}  // namespace reprise::replay
