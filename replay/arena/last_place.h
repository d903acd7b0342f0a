// The place of the block that a lane freed last, apart from those that it keeps (kept_places.h): a
// block that is asked for next and is of the same length gets it. It is remembered then whose it
// is. So where each block is freed before the next one is asked for, which programs often do, no
// more is read and written than this, and neither call has to look up where the block ends.
//
// Hook-safe. Belongs to one thread.
#ifndef REPRISE_REPLAY_ARENA_LAST_PLACE_H_
#define REPRISE_REPLAY_ARENA_LAST_PLACE_H_

#include <stdint.h>

namespace reprise::replay {

class LastPlace {
 public:
  void Clear() {
    pointer_ = kNobody;
    granules_ = kNone;
  }

  // A block was freed here; what was free before is somebody else's business.
  void Put(void* pointer, uint32_t granule, uint64_t granules) {
    pointer_ = pointer;
    granule_ = granule;
    granules_ = static_cast<uint32_t>(granules);
  }

  // For a block of so many granules; null: the place is taken, or has another length.
  char* Take(uint32_t granules) {
    if (granules_ != granules) return nullptr;
    taken_granules_ = granules;
    granules_ = kNone;
    if (pointer_ == nullptr) __builtin_unreachable();
    return static_cast<char*>(pointer_);
  }

  // Whether this is the address of the place, free or taken; then PutBack may be asked. False: its
  // block is freed already.
  bool Is(const void* pointer) const { return pointer_ == pointer; }
  bool PutBack() {
    if (__builtin_expect(granules_ != kNone, 0)) return false;
    granules_ = taken_granules_;
    return true;
  }

  // The block that begins there is freed otherwise.
  void Forget(uint64_t granule) {
    if (granule_ == granule) Clear();
  }

  bool IsFree() const { return granules_ != kNone; }
  bool IsFreeAt(uint64_t granule) const { return IsFree() && granule_ == granule; }
  uint32_t granule() const { return granule_; }
  uint32_t granules() const { return granules_; }  // while it is free

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static inline void* const kNobody = reinterpret_cast<void*>(1);  // no block's address

  void* pointer_;
  uint32_t granule_;
  uint32_t granules_;  // kNone: it is taken, or there is no place
  uint32_t taken_granules_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LAST_PLACE_H_
