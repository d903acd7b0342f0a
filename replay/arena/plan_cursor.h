// Where a lane is in its stream, and the comparison that a run which follows its plan makes for
// every request: nothing else is looked at, and nothing but the cursor is written.
//
// Thread-safety: belongs to one thread; the cursor may be seen by others. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_PLAN_CURSOR_H_
#define REPRISE_REPLAY_ARENA_PLAN_CURSOR_H_

#include <stdint.h>

#include "base/owned.h"
#include "replay/arena/block_map.h"
#include "replay/arena/live_keys.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

class PlanCursor {
 public:
  // Of Differs: the request is the expected one, but its placement is guarded: the lane has a map.
  static constexpr uint64_t kGuarded = uint64_t{1} << kAddressBits;

  // How a malloc, of any size, differs from the word at Next(). 0: not at all; kGuarded: not at
  // all, and it is placed by PlaceGuarded; else it is another one. No side effects. `caller` tells
  // where on the stack the return address is: slot(), and return_address().
  const uint32_t* Next() const { return cursor_.Seen(); }
  template <typename Caller>
  [[gnu::always_inline]] uint64_t Differs(const uint32_t* next, uint64_t size,
                                          Caller caller) const {
    // What is no allocation is a number below zero and leads to where there are no keys.
    const int64_t word = static_cast<int32_t>(*next);
    int64_t at = (word >> offset_bits_) * int64_t{sizeof(LiveKey)};
    const auto key = [this, &at] {
      return reinterpret_cast<const LiveKey*>(reinterpret_cast<const char*>(keys_) + at);
    };
    if (__builtin_expect(key()->shape != PlainShape(size), 0)) return kAnother;
    KeepApart(at);
    uint64_t site = (caller.slot() << kFrameShift) - caller.return_address();
    KeepApart(site);
    return site - frames_ + key()->site;
  }
  // Where the stack of the lane's thread begins, from which depths are counted. To be told before
  // Differs is asked.
  void SetStackBase(uint64_t base) {
    stack_base_ = base;
    SetMapped(mapped_ != 0);
  }

  // Places the allocation at the cursor, which the request is.
  void* PlaceUnguarded(const uint32_t* next) {
    const uint64_t granule = *next & offset_mask_;
    cursor_ = next + 1;
    return box_ + granule * kGranule;
  }
  // The same with a map. Null: its place is taken, or its block is long; nothing has happened.
  void* PlaceGuarded() {
    const uint32_t* next = cursor_;
    const uint64_t granule = *next & offset_mask_;
    const uint64_t size = key_sizes_[*next >> offset_bits_];
    if (size > 2 * BlockMap::kUnit) return nullptr;
    const uint64_t granules = (size + 1) / 2;
    const uint64_t at = box_granule_ + granule;
    if (__builtin_expect(map_.HasAnyOfFew(at, granules), 0)) return nullptr;
    map_.Add(at, granules, size % 2 == 0);
    cursor_ = next + 1;
    return box_ + granule * kGranule;
  }

  // How the block differs from the one whose free the word at Next() is. 0: not at all, and the
  // lane has no map; kGuardedFree: not at all, and FreeGuarded frees it; else it is another one.
  static constexpr uint64_t kGuardedFree = uint64_t{1} << 61;
  [[gnu::always_inline]] uint64_t FreeDiffers(const uint32_t* next, const void* pointer) const {
    uint64_t expected = Freed(*next, expected_base_);
    KeepApart(expected);
    return expected - reinterpret_cast<uint64_t>(pointer);
  }
  void FreeUnguarded(const uint32_t* next) { cursor_ = next + 1; }
  // False: no such block lives; nothing has happened.
  bool FreeGuarded() {
    const uint32_t* next = cursor_;
    if (!RemoveLive(*next & ~kFreeBit)) return false;
    cursor_ = next + 1;
    return true;
  }
  // Frees the block whose free the stream expects next; false: that is another one, and nothing has
  // happened.
  bool FreeExpected(const void* pointer) {
    const uint32_t* next = cursor_;
    const uint64_t differs = FreeDiffers(next, pointer);
    if (differs == kGuardedFree) return FreeGuarded();
    if (differs == 0) FreeUnguarded(next);
    return differs == 0;
  }

 protected:
  static constexpr uint64_t kAnother = 1;
  // A free's word taken for a number is less than zero by as much as its offset is below this.
  static constexpr uint64_t kFreedBase = uint64_t{kFreeBit} * kGranule;
  static constexpr uint64_t kNowhere = uint64_t{1} << 62;  // 32 GiB to both sides are no addresses;
                                                           // nor is kGuardedFree, nor both

  // What follows is not computed together with what came before: then each address and each term
  // of a sum is a part of the instruction that needs it.
  template <typename Number>
  static void KeepApart(Number& number) {
    asm("" : "+r"(number));
  }
  // The address that a word frees. Of any other word it is one some 32 to 64 GiB behind the box,
  // or, as with all words of a crowded lane, one that no pointer has.
  uint64_t FreedBy(uint32_t word) const { return Freed(word, freed_base_); }
  static uint64_t Freed(uint32_t word, uint64_t base) {
    return base + static_cast<uint64_t>(int64_t{static_cast<int32_t>(word)}) * kGranule;
  }
  // Of a pointer into a granule it is a number that no word holds.
  uint64_t GranuleOf(const void* pointer) const {
    const uint64_t distance = static_cast<const char*>(pointer) - box_;
    return distance >> 4 | distance << 60;
  }
  void SetMapped(bool mapped) {
    __atomic_store_n(&mapped_, mapped ? 1 : 0, __ATOMIC_RELEASE);  // others look at it
    const uint64_t frames = (stack_base_ - sizeof(uint64_t)) << kFrameShift;
    frames_ = mapped ? frames - kGuarded : frames;
    expected_base_ = freed_base_ + (mapped ? kGuardedFree : 0);
  }
  MappedBlock LiveAt(uint64_t granule) const { return map_.At(box_granule_ + granule); }
  // With a map: the block that begins there lives no longer; false: none did.
  bool RemoveLive(uint64_t granule) {
    const MappedBlock block = LiveAt(granule);
    if (block.granules != 0) map_.Remove(box_granule_ + granule, block.granules);
    return block.granules != 0;
  }

  // Hot.
  Owned<const uint32_t*> cursor_;
  const LiveKey* keys_;
  uint64_t frames_;  // where the stack begins, as a term of a site; - kGuarded with a map
  char* box_;
  uint64_t expected_base_;  // freed_base_; + kGuardedFree with a map
  uint32_t offset_bits_;
  uint32_t offset_mask_;
  uint32_t mapped_;  // 1: the map tells what lives in the box; else the stream alone does
  uint64_t freed_base_;

  // Hot with a map.
  const uint8_t* key_sizes_;
  BlockMap map_;          // of the arena
  uint64_t box_granule_;  // of the arena, at which the box begins
  uint64_t box_granules_;
  uint64_t stack_base_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_PLAN_CURSOR_H_
