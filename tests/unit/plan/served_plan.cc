#include "tests/unit/plan/served_plan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

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
                       uint64_t spare_bytes) {
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
    key_granules_.push_back(LiveKeys::FewGranules(plan_keys[i]));
    const bool told = IsTold(i, plan_keys[i]);
    told_ += told ? 1 : 0;
    keys_.push_back({told ? 0 : plan_keys[i].shape,
                     told || plan_keys[i].shape == 0 ? 0 : SiteOf(plan_keys[i])});
  }
  modules_.assign(plan_->modules.count, kModuleBase + 1);
  spacious_bytes_ = Pages(plan_->arena_bytes * 5 + spare_bytes);
  const auto blocks = reinterpret_cast<uint64_t>(Map(spacious_bytes_ + kAlignment));
  memory_.blocks = reinterpret_cast<char*>((blocks + kAlignment - 1) & ~(kAlignment - 1));
  memory_.state = static_cast<char*>(Map(Arena::StateBytes(*plan_, spacious_bytes_)));
  Restart();
}

ServedPlan::~ServedPlan() {
  for (const auto& [address, bytes] : maps_) munmap(address, bytes);
}

void ServedPlan::Restart(bool spare, bool dear_pages) {
  Require(madvise(memory_.state, Arena::StateBytes(*plan_, spacious_bytes_), MADV_DONTNEED) == 0,
          "madvise");
  memory_.block_bytes = spare ? spacious_bytes_ : Pages(plan_->arena_bytes);
  counters_.assign(plan_->lanes.count + 1, {});
  memory_.counters = counters_.data();
  notes_.assign(plan_->lanes.count * CountersLayout::Of(*plan_).pages, {});
  memory_.notes = notes_.data();
  memory_.releases = true;
  memory_.dear_pages = dear_pages;
  arena_ = Arena();
  arena_.Start(plan_,
               {keys_.data() + plan_->keys.count, LearnNothing, key_granules_.data(),
                Table<PlanKey>(plan_->keys), modules_.data()},
               memory_);
}

void ServedPlan::HidePlacements() const {
  auto* placements = const_cast<PlanBlock*>(Table<PlanBlock>(plan_->placements));
  const uint64_t bytes = plan_->placements.count * sizeof(PlanBlock) & ~uint64_t{4095};
  Require(mprotect(placements, bytes, PROT_NONE) == 0, "mprotect");
}

Served ServedPlan::served(size_t lane) const {
  arena_.Publish();
  const PlanLane& entry = Table<PlanLane>(plan_->lanes)[lane];
  return ServedBy(entry, Table<uint32_t>(plan_->words) + entry.first_word, counters_[lane]);
}

uint64_t ServedPlan::ResidentBytes() const { return Resident(plan_, plan_->file_bytes); }

uint64_t ServedPlan::ResidentState() const {
  return Resident(memory_.state, Arena::StateBytes(*plan_, spacious_bytes_));
}

uint64_t ServedPlan::Resident(const void* begin, uint64_t length) {
  const int fd = open("/proc/self/pagemap", O_RDONLY);
  std::vector<uint64_t> pages(Pages(length) / 4096);
  const auto bytes = static_cast<ssize_t>(pages.size() * sizeof(uint64_t));
  const auto at = static_cast<off_t>(reinterpret_cast<uint64_t>(begin) / 4096 * sizeof(uint64_t));
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
