#include "replay/arena/heap_pages.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/give_back.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kPageUnits = kPage / kHeapUnit;

// Pages.
struct PageRange {
  uint64_t begin;
  uint64_t end;
};
uint64_t RoundUp(uint64_t unit) { return (unit + kPageUnits - 1) / kPageUnits; }
PageRange Touched(UnitRange range) { return {range.begin / kPageUnits, RoundUp(range.end())}; }
PageRange Whole(UnitRange range) { return {RoundUp(range.begin), range.end() / kPageUnits}; }
PageRange Both(PageRange one, PageRange other) {
  return {one.begin > other.begin ? one.begin : other.begin,
          one.end < other.end ? one.end : other.end};
}

}  // namespace

void HeapPages::Take(UnitRange from, UnitRange part) {
  const PageRange touched = Touched(part);
  const PageRange were_idle = Both(touched, Whole(from));
  FlatBits& resident = tables_->resident();
  if (were_idle.begin < were_idle.end) idle_ -= resident.Count(were_idle.begin, were_idle.end);
  const uint64_t fresh = touched.end - touched.begin -
                         resident.Count(touched.begin, touched.end, FlatBits::Then::kSet);
  held_here_ += fresh;
  if (fresh != 0) held_->Add(static_cast<int64_t>(fresh));
}

void HeapPages::Free(UnitRange range) {
  const OrderedBits& starts = tables_->starts();
  uint64_t begin = range.begin;
  if (!tables_->free().Has(begin)) begin = starts.Previous(begin);
  if (begin == OrderedBits::kNone || !tables_->free().Has(begin)) return;
  const UnitRange around = {begin, starts.Next(begin + 1) - begin};
  const PageRange are_idle = Both(Touched(range), Whole(around));
  if (are_idle.begin < are_idle.end) {
    idle_ += tables_->resident().Count(are_idle.begin, are_idle.end);
  }
}

void HeapPages::Release(UnitRange range, const FreeIndex& index) {
  const uint64_t before = in_use();
  Free(range);
  if (before >= lately_) {
    lately_ = before;
  } else if (before != in_use()) {
    lately_ -= (lately_ - before + kFall - 1) / kFall;
  }
  longest_ = range.units >= longest_ ? range.units
                                     : longest_ - (longest_ - range.units + kFall - 1) / kFall;
  const uint64_t share = lately_ / kIdleShare;
  const uint64_t least = kLeastIdle + kIdleBlocks * longest_ / kPageUnits;
  const uint64_t most = lately_ + (share > least ? share : least);
  if (held_here_ > most) GiveIdle(idle_ - (held_here_ - lately_) / 2, index);
}

void HeapPages::GiveIdle(uint64_t enough, const FreeIndex& index) {
  for (UnitRange range = index.Before(UINT32_MAX, UINT32_MAX);
       range.units >= kPageUnits && idle_ > enough;
       range = index.Before(range.units, range.begin)) {
    const PageRange pages = Whole(range);
    if (pages.begin >= pages.end || tables_->resident().Count(pages.begin, pages.end) == 0) {
      continue;
    }
    // The last ones of a range are needed last.
    const uint64_t wanted = idle_ - enough;
    uint64_t first = pages.end;
    while (first > pages.begin && tables_->resident().Count(first, pages.end) < wanted) {
      first -= first - pages.begin < wanted ? first - pages.begin : wanted;
    }
    if (!GiveBack(base_ + first * kPage, (pages.end - first) * kPage)) continue;  // locked
    const uint64_t given = tables_->resident().Count(first, pages.end, FlatBits::Then::kClear);
    idle_ -= given;
    held_here_ -= given;
    held_->Add(-static_cast<int64_t>(given));
  }
}

template <typename Visit>
uint64_t HeapPages::ForEachResident(uint64_t begin, uint64_t end, Visit visit) const {
  constexpr uint64_t kAtOnce = 1024;
  unsigned char resident[kAtOnce];
  const int before = errno;
  uint64_t found = 0;
  for (uint64_t first = begin; first < end; first += kAtOnce) {
    const uint64_t count = end - first < kAtOnce ? end - first : kAtOnce;
    const bool known = mincore(base_ + first * kPage, count * kPage, resident) == 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (known && (resident[i] & 1) == 0) continue;
      visit(first + i);
      ++found;
    }
  }
  errno = before;
  return found;
}

uint64_t HeapPages::Adopt(uint64_t begin, uint64_t end) {
  const uint64_t adopted =
      ForEachResident(begin, end, [this](uint64_t page) { tables_->resident().Add(page); });
  held_here_ += adopted;
  return adopted;
}

uint64_t HeapPages::CountResident(uint64_t begin, uint64_t end) const {
  return ForEachResident(begin, end, [](uint64_t) {});
}

}  // namespace reprise::replay
