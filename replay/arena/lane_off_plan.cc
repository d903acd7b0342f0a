// What a lane does when it leaves its plan, and afterwards.
#include "base/give_back.h"
#include "replay/arena/lane.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kPageGranules = kPage / kGranule;
// What a box gives to the heap: whole pieces of the length of a region, so that a program which
// frees many small blocks in any order does not have the heap join as many ranges.
constexpr uint64_t kPieceGranules = kRegionBytes / kGranule;
constexpr uint64_t kPieceUnits = kRegionBytes / kHeapUnit;

}  // namespace

// Gives back what is resident of the words.
void Lane::DropStream() const {
  const uint64_t first = (reinterpret_cast<uint64_t>(stream_.first) + kPage - 1) & ~(kPage - 1);
  const uint64_t end = reinterpret_cast<uint64_t>(stream_.end) & ~(kPage - 1);
  if (first < end) GiveBack(reinterpret_cast<const void*>(first), end - first);
}

bool Lane::FreeRemotely(void* pointer) {
  if (reinterpret_cast<uint64_t>(pointer) % kGranule != 0) return false;
  if (remote_.Push(pointer)) return true;
  const HeapLock lock(*around_.heap);
  return FreeInBox(GranuleOf(pointer));
}

// Off plan, with the lock of the heap.
bool Lane::FreeInBox(uint64_t granule) {
  if (granule >= box_granules_) return false;
  const MappedBlock block = LiveAt(granule);
  if (block.granules == 0) return false;
  map_.Remove(box_granule_ + granule, block.granules);
  DonateAround(granule, block.granules);
  return true;
}

// Gives the pieces to the heap that are free because these granules are: at the edges a piece may
// be shared with other blocks.
void Lane::DonateAround(uint64_t granule, uint64_t granules) {
  const uint64_t begin = box_granule_ + granule;
  const uint64_t end = begin + granules;
  uint64_t first = begin / kPieceGranules;
  uint64_t last = (end + kPieceGranules - 1) / kPieceGranules;
  if (map_.HasAny(first * kPieceGranules, begin)) ++first;
  if (map_.HasAny(end, last * kPieceGranules)) --last;
  if (first < last) around_.heap->Release(first * kPieceUnits, (last - first) * kPieceUnits);
}

void Lane::LeavePlan() {
  if (off_plan_) return;
  BecomeMapped();
  TakeInRemoteFrees(remote_.TakeAll());
  Publish();
  counters_->off_plan_at = 1 + Here();
  DropStream();
  const HeapLock lock(*around_.heap);
  const uint64_t first_page = box_granule_ / kPageGranules;
  const uint64_t adopted =
      around_.heap->AdoptPages(first_page, first_page + box_granules_ / kPageGranules);
  around_.held->Add(static_cast<int64_t>(adopted) - static_cast<int64_t>(used_pages_));
  // Everything between the blocks, in whole pieces.
  const uint64_t end = box_granule_ + box_granules_;
  for (uint64_t free = box_granule_; free < end;) {
    const uint64_t taken = map_.NextIn(free, end);
    const uint64_t first = (free + kPieceGranules - 1) / kPieceGranules;
    const uint64_t last = taken / kPieceGranules;
    if (first < last) around_.heap->Release(first * kPieceUnits, (last - first) * kPieceUnits);
    if (taken >= end) break;
    free = taken + LiveAt(taken - box_granule_).granules;
  }
  cursor_ = stream_.end;
  off_plan_ = true;
  wants_to_leave_ = false;
  // Who finds the list closed has the lock of the heap next.
  for (void* block = remote_.Close(); block != nullptr;) {
    const uint64_t granule = GranuleOf(block);
    void* next = granule < box_granules_ && LiveAt(granule).granules != 0 ? RemoteFrees::Next(block)
                                                                          : nullptr;
    if (!FreeInBox(granule)) __atomic_fetch_add(&counters_->invalid_frees, 1, __ATOMIC_RELAXED);
    block = next;
  }
}

}  // namespace reprise::replay
