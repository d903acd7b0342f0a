#include "replay/arena/heap.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kMiB = 1 << 20;

uint64_t RoundUp(uint64_t number, uint64_t step) { return (number + step - 1) & ~(step - 1); }

}  // namespace

// A free range for every 16 units; more are not noted, and lost.
uint64_t Heap::StateBytes(uint64_t arena_bytes) {
  return RoundUp(arena_bytes / kHeapUnit / 16 * sizeof(FreeIndex::Node) + kPage, kPage);
}

void Heap::Start(char* base, uint64_t limit_bytes, ArenaTables* tables, char* state,
                 HeldPages* held) {
  base_ = base;
  tables_ = tables;
  nodes_ = state;
  most_nodes_bytes_ = StateBytes(limit_bytes);
  index_.Attach(reinterpret_cast<FreeIndex::Node*>(state));
  limit_ = longest_request_ = limit_bytes / kHeapUnit;
  top_ = kRegionBytes / kHeapUnit;  // there is no region 0
  pages_.Start(base, tables, held);
}

uint64_t Heap::StopGrowing(uint64_t more_bytes) {
  limit_ = writable_;
  const uint64_t before = most_nodes_bytes_;
  most_nodes_bytes_ = StateBytes(limit_ * kHeapUnit + more_bytes);
  if (most_nodes_bytes_ < nodes_bytes_) most_nodes_bytes_ = nodes_bytes_;
  if (most_nodes_bytes_ > before) most_nodes_bytes_ = before;
  GiveAddresses(nodes_ + most_nodes_bytes_, nodes_ + before);
  return limit_ * kHeapUnit;
}

void Heap::LeaveBehind() {
  if (lock_.IsHeldHere()) abandoned_ = true;
  lock_.LeaveBehind();
}

// Of all ranges that are long enough, one of the first few that are aligned as well.
UnitRange Heap::Find(uint64_t units, uint64_t step) {
  constexpr int kTries = 8;
  UnitRange range = index_.AtLeast(units, 0);
  if (step == 1) return range;
  for (int tries = 0; tries < kTries && range.units != 0; ++tries) {
    if (RoundUp(range.begin, step) + units <= range.end()) return range;
    range = index_.AtLeast(range.units, range.begin + 1);
  }
  return index_.AtLeast(units + step - 1, 0);
}

uint64_t Heap::Take(uint64_t units, uint64_t step) {
  if (abandoned_ || units > longest_request_ || step > longest_request_) return kNone;
  UnitRange range = Find(units, step);
  if (range.units == 0) range = Grow(units, step);
  if (range.units == 0 || !HaveNode()) return kNone;
  const uint64_t unit = RoundUp(range.begin, step);
  pages_.Take(range, {unit, units});
  Carve(range, unit, units);
  return unit;
}

// Makes the last range of the heap long enough: it, or none.
UnitRange Heap::Grow(uint64_t units, uint64_t step) {
  uint64_t begin = top_;
  if (top_ > 0) {
    const uint64_t last = tables_->starts().Previous(top_);
    if (last != OrderedBits::kNone && tables_->free().Has(last)) begin = last;
  }
  const uint64_t end = RoundUp(begin, step) + units;
  if (end > limit_ || !Reach(end)) return {};
  if (end > top_) {
    const uint64_t grown = top_;
    top_ = end;
    AddFree({grown, end - grown});
    pages_.Free({grown, end - grown});  // the last page may have been used in part
  }
  return tables_->free().Has(begin) ? UnitRange{begin, top_ - begin} : UnitRange{};
}

// Has the memory of the first so many units.
bool Heap::Reach(uint64_t units) {
  constexpr uint64_t kStep = kMiB / kHeapUnit;
  constexpr uint64_t kShare = 8;
  if (units <= writable_) return true;
  // More than is needed, so that it need not be asked for often; if that is refused, no more.
  const uint64_t ahead = RoundUp(units + writable_ / kShare, kStep);
  return MakeUsable(ahead < limit_ ? ahead : limit_) || MakeUsable(units);
}

bool Heap::MakeUsable(uint64_t end) {
  if (!tables_->Cover(writable_ * kHeapUnit, end * kHeapUnit) ||
      !MakeWritable(AddressOf(writable_), (end - writable_) * kHeapUnit)) {
    return false;
  }
  writable_ = end & ~(kPageUnits - 1);
  return true;
}

void Heap::AddFree(UnitRange range) {
  OrderedBits& starts = tables_->starts();
  FlatBits& free = tables_->free();
  starts.Add(range.begin);
  starts.Add(range.end());
  if (free.Has(range.end())) {
    const UnitRange next = {range.end(), Length(range.end())};
    index_.Remove(next);
    free.Remove(next.begin);
    starts.Remove(next.begin);
    range.units += next.units;
  }
  const uint64_t before = starts.Previous(range.begin);
  if (before != OrderedBits::kNone && free.Has(before)) {
    index_.Remove({before, range.begin - before});
    starts.Remove(range.begin);
    range = {before, range.end() - before};
  }
  if (!HaveNode()) {
    free.Remove(range.begin);  // taken for good
    return;
  }
  free.Add(range.begin);
  index_.Add(range);
}

// Whether the index may have one more range.
bool Heap::HaveNode() {
  const uint64_t bytes = index_.nodes() * sizeof(FreeIndex::Node);
  if (bytes <= nodes_bytes_) return true;
  const uint64_t wanted = RoundUp(bytes + nodes_bytes_ / 4, kPage);
  if (wanted > most_nodes_bytes_ || !MakeWritable(nodes_, wanted)) return false;
  nodes_bytes_ = wanted;
  return true;
}

// Takes a part of a free range.
void Heap::Carve(UnitRange range, uint64_t unit, uint64_t units) {
  index_.Remove(range);
  tables_->free().Remove(range.begin);
  if (unit > range.begin) {
    index_.Add({range.begin, unit - range.begin});
    tables_->free().Add(range.begin);
    tables_->starts().Add(unit);
  }
  const uint64_t end = unit + units;
  if (end < range.end()) {
    index_.Add({end, range.end() - end});
    tables_->free().Add(end);
    tables_->starts().Add(end);
  }
}

void Heap::Release(uint64_t unit, uint64_t units) {
  if (abandoned_) return;
  AddFree({unit, units});
  pages_.Release({unit, units}, index_);
}

bool Heap::Extend(uint64_t unit, uint64_t units) {
  const uint64_t before = Length(unit);
  const uint64_t end = unit + before;
  if (abandoned_ || units <= before || units > longest_request_) return false;
  const uint64_t more = units - before;
  if (end == top_) {
    if (Grow(more, 1).units == 0) return false;
  } else if (!tables_->free().Has(end)) {
    return false;
  } else if (Length(end) < more) {
    if (end + Length(end) != top_ || Grow(more, 1).units == 0) return false;
  }
  const UnitRange range = {end, Length(end)};
  pages_.Take(range, {end, more});
  Carve(range, end, more);
  tables_->starts().Remove(end);
  return true;
}

}  // namespace reprise::replay
