#include "replay/arena/lane_box.h"

#include "base/give_back.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kPageGranules = kPage / kGranule;
// What a box gives to the heap: whole pieces of the length of a region, so that a program which
// frees many small blocks in any order does not have the heap join as many ranges.
constexpr uint64_t kPieceGranules = kRegionBytes / kGranule;
constexpr uint64_t kPieceUnits = kRegionBytes / kHeapUnit;

// Gives back the whole pages of [begin, end).
void GiveBackPages(const uint32_t* begin, const uint32_t* end) {
  const uint64_t first = (reinterpret_cast<uint64_t>(begin) + kPage - 1) & ~(kPage - 1);
  const uint64_t last = reinterpret_cast<uint64_t>(end) & ~(kPage - 1);
  if (first < last) GiveBack(reinterpret_cast<const void*>(first), last - first);
}

}  // namespace

void LaneBox::StartBox(const LaneSurroundings& around, const PlanLane& lane, char* box) {
  const char* file = reinterpret_cast<const char*>(around.plan);
  const auto* words = reinterpret_cast<const uint32_t*>(file + around.plan->words.offset);
  const auto* loops = reinterpret_cast<const PlanLoop*>(file + around.plan->loops.offset);
  around_ = around;
  stream_ = {words + lane.first_word, words + lane.first_word + lane.words - 1,
             lane.offset_bits,        around.keys,
             loops + lane.first_loop, lane.loops};
  cursor_ = walked_ = stream_.first;
  keys_ = around.keys.keys;
  key_sizes_ = around.keys.sizes;
  box_ = box;
  box_granules_ = lane.box_bytes / kGranule;
  box_granule_ = static_cast<uint64_t>(box - around.heap->AddressOf(0)) / kGranule;
  freed_base_ = around.crowded ? kNowhere : reinterpret_cast<uint64_t>(box) + kFreedBase;
  offset_bits_ = lane.offset_bits;
  offset_mask_ = (uint32_t{1} << lane.offset_bits) - 1;
  map_ = around.tables->blocks();
  SetMapped(false);
  keeps_pages_ = false;
}

// The map learns what the stream does up to `until`. What was walked over is not needed soon.
void LaneBox::Walk(const uint32_t* until) {
  constexpr uint64_t kPiece = 128 << 10;
  constexpr uint64_t kLeast = 64 << 10;
  const uint32_t* dropped = walked_;
  while (walked_ < until) {
    const Word word = stream_.Decode(walked_);
    if (word.kind == Word::kAllocation) {
      const uint64_t size = stream_.keys.Size(word.key);
      map_.Add(box_granule_ + word.granule, (size + 1) / 2, size % 2 == 0);
    } else if (word.kind == Word::kFree || word.kind == Word::kRemoteFree) {
      RemoveLive(word.granule);
    }
    walked_ += word.length;
    const uint64_t walked = static_cast<uint64_t>(walked_ - dropped) * sizeof(uint32_t);
    if (walked < (walked_ < until ? kPiece : kLeast)) continue;
    GiveBackPages(dropped, walked_);
    dropped = walked_;
  }
}

void LaneBox::BecomeMapped() {
  if (mapped_ != 0) return;
  walk_lock_.Lock();
  Walk(cursor_);
  SetMapped(true);
  walk_lock_.Unlock();
}

void LaneBox::MoveBack(const PlanLoop& loop) {
  const uint32_t* first = stream_.FirstOf(loop);
  walk_lock_.Lock();
  if (walked_ > first) {
    if (mapped_ == 0) Walk(stream_.EndOf(loop));
    walked_ = first;
  }
  cursor_ = first;
  walk_lock_.Unlock();
}

// Without the map, which somebody is changing: twice its usable bytes / 16.
uint64_t LaneBox::SizeByWalking(uint64_t granule) const {
  uint64_t size = 0;
  const uint32_t* const here = cursor_.Seen();
  for (const uint32_t* at = stream_.first; at < here;) {
    const Word word = stream_.Decode(at);
    if (word.kind == Word::kEnded) break;
    if (word.kind == Word::kAllocation && word.granule == granule) {
      size = stream_.keys.Size(word.key);
    }
    at += word.length;
  }
  return size;
}

uint64_t LaneBox::Usable(const void* pointer) {
  const uint64_t granule = GranuleOf(pointer);
  if (granule >= box_granules_) return 0;
  if (__atomic_load_n(&mapped_, __ATOMIC_ACQUIRE) == 0) {
    if (!walk_lock_.TryLock()) return SizeByWalking(granule) * kGranule / 2;
    if (__atomic_load_n(&mapped_, __ATOMIC_RELAXED) == 0) Walk(cursor_.Seen());
    walk_lock_.Unlock();
  }
  const MappedBlock block = LiveAt(granule);
  return block.granules == 0 ? 0 : block.granules * kGranule - (block.marked ? 0 : kGranule / 2);
}

void LaneBox::Revive(void* pointer, uint64_t bytes) {
  BecomeMapped();
  const uint64_t size = (bytes + 7) / 8;
  map_.Add(box_granule_ + GranuleOf(pointer), (size + 1) / 2, size % 2 == 0);
}

uint64_t LaneBox::BlockBegin(uint64_t granule) const {
  while (granule > 0 && LiveAt(granule).granules == 0) --granule;
  return granule;
}

// What the program did not ask for did not use any.
void LaneBox::CountPages(uint64_t told) {
  uint64_t pages = told;
  if (mapped_ != 0) {
    const uint64_t first = box_granule_ / kPageGranules;
    const uint64_t resident =
        around_.heap->pages().CountResident(first, first + box_granules_ / kPageGranules);
    const uint64_t more = resident + told - told_pages_;
    if (more < pages) pages = more;
  }
  told_pages_ = told;
  around_.held->Add(static_cast<int64_t>(pages) - static_cast<int64_t>(used_pages_));
  used_pages_ = pages;
}

void LaneBox::ReleaseIdle(const Word& idle) const {
  const uint64_t begin = uint64_t{idle.granule} * kPageGranules;
  const uint64_t end = begin + uint64_t{idle.key} * kPageGranules;
  if (!around_.releases || keeps_pages_) return;
  if (mapped_ != 0 && map_.HasAny(box_granule_ + begin, box_granule_ + end)) return;
  GiveBack(At(begin), (end - begin) * kGranule);
}

void LaneBox::DropWords(const uint32_t* end) const { GiveBackPages(stream_.first, end); }

void LaneBox::Donate() {
  const uint64_t first_page = box_granule_ / kPageGranules;
  const uint64_t adopted =
      around_.heap->pages().Adopt(first_page, first_page + box_granules_ / kPageGranules);
  around_.held->Add(static_cast<int64_t>(adopted) - static_cast<int64_t>(used_pages_));
  const uint64_t end = box_granule_ + box_granules_;
  for (uint64_t free = box_granule_; free < end;) {
    const uint64_t taken = map_.NextIn(free, end);
    const uint64_t first = (free + kPieceGranules - 1) / kPieceGranules;
    const uint64_t last = taken / kPieceGranules;
    if (first < last) around_.heap->Release(first * kPieceUnits, (last - first) * kPieceUnits);
    if (taken >= end) break;
    free = taken + LiveAt(taken - box_granule_).granules;
  }
}

bool LaneBox::FreeInBox(uint64_t granule) {
  if (granule >= box_granules_) return false;
  const MappedBlock block = LiveAt(granule);
  if (block.granules == 0) return false;
  map_.Remove(box_granule_ + granule, block.granules);
  DonateAround(granule, block.granules);
  return true;
}

// Gives the pieces to the heap that are free because these granules are: at the edges a piece may
// be shared with other blocks.
void LaneBox::DonateAround(uint64_t granule, uint64_t granules) {
  const uint64_t begin = box_granule_ + granule;
  const uint64_t end = begin + granules;
  uint64_t first = begin / kPieceGranules;
  uint64_t last = (end + kPieceGranules - 1) / kPieceGranules;
  if (map_.HasAny(first * kPieceGranules, begin)) ++first;
  if (map_.HasAny(end, last * kPieceGranules)) --last;
  if (first < last) around_.heap->Release(first * kPieceUnits, (last - first) * kPieceUnits);
}

}  // namespace reprise::replay
