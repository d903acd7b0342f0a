// How many bytes are usable in a block, noted where it begins, as a code of one byte per granule,
// or of three: for a lane that follows its stream and is asked for it often, directly or by
// realloc. To look it up among the placements takes a search through a file.
//
// Hook-safe. Notes are written by the lane's thread; others may read that of a block whose lifetime
// they have under control.
#ifndef REPRISE_REPLAY_ARENA_BLOCK_NOTES_H_
#define REPRISE_REPLAY_ARENA_BLOCK_NOTES_H_

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "replay/plan_format.h"

namespace reprise::replay {

class BlockNotes {
 public:
  // Bytes of zeroed memory, mostly untouched before Start, for a box of so many granules.
  static uint64_t MemoryFor(uint64_t granules, uint64_t keys) {
    return kCodes * sizeof(uint32_t) + kHashes * sizeof(uint16_t) + keys * sizeof(uint16_t) +
           granules;
  }

  void Attach(void* zeroed_memory, uint64_t keys) {
    usable_ = static_cast<uint32_t*>(zeroed_memory);
    code_of_hash_ = reinterpret_cast<uint16_t*>(usable_ + kCodes);
    code_of_key_ = code_of_hash_ + kHashes;
    code_at_ = reinterpret_cast<uint8_t*>(code_of_key_ + keys);
  }

  // The most frequent keys come first, so that nearly all blocks have a length of a short code.
  void Start(const PlanKey* keys, uint64_t count) {
    uint16_t codes = 1;  // 0: not known
    for (uint64_t key = 0; key < count; ++key) {
      const uint64_t usable = keys[key].usable;
      if (keys[key].shape == 0 || usable > UINT32_MAX) continue;
      uint16_t* code = &code_of_hash_[usable / 8 % kHashes];
      while (*code != 0 && usable_[*code] != usable) {
        code = code + 1 < code_of_hash_ + kHashes ? code + 1 : code_of_hash_;
      }
      if (*code == 0) {
        if (codes == kCodes) continue;
        if (codes >= kLongCode && usable < kGranulesOfLong * kGranule) continue;
        usable_[codes] = static_cast<uint32_t>(usable);
        *code = codes;
        codes += codes + 1 == kLongCode ? 2 : 1;
      }
      code_of_key_[key] = *code;
    }
  }

  // Blocks of this key are going to be noted.
  void LookAhead(uint32_t key) const { __builtin_prefetch(&code_of_key_[key]); }

  void Note(uint64_t granule, uint32_t key) {
    uint16_t code = code_of_key_[key];
    if (__builtin_expect(code > kLongCode, 0)) {
      Set(granule + 1, static_cast<uint8_t>(code));
      Set(granule + 2, static_cast<uint8_t>(code >> 8));
      code = kLongCode;
    }
    Set(granule, static_cast<uint8_t>(code));
  }

  // Of the block that was noted last at `granule`, alive or not; 0: not known.
  uint64_t UsableAt(uint64_t granule) const {
    const uint32_t code = CodeAt(granule);
    if (__builtin_expect(code == kLongCode, 0)) {
      return usable_[(CodeAt(granule + 1) | CodeAt(granule + 2) << 8) % kCodes];
    }
    return usable_[code];
  }

  // Forgets all of it. `granules` as in MemoryFor.
  void Clear(uint64_t granules) {
    const auto begin = (reinterpret_cast<uint64_t>(code_at_) + 4095) & ~uint64_t{4095};
    const auto end = reinterpret_cast<uint64_t>(code_at_ + granules) & ~uint64_t{4095};
    if (begin >= end) {
      memset(code_at_, 0, granules);
      return;
    }
    memset(code_at_, 0, begin - reinterpret_cast<uint64_t>(code_at_));
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    memset(reinterpret_cast<void*>(end), 0, reinterpret_cast<uint64_t>(code_at_ + granules) - end);
  }

 private:
  static constexpr uint32_t kCodes = 1024;
  static constexpr uint32_t kHashes = 2 * kCodes;
  static constexpr uint16_t kLongCode = 255;  // higher ones stand in the two granules behind
  static constexpr uint64_t kGranulesOfLong = 3;

  void Set(uint64_t granule, uint8_t code) {
    __atomic_store_n(&code_at_[granule], code, __ATOMIC_RELAXED);
  }
  uint32_t CodeAt(uint64_t granule) const {
    return __atomic_load_n(&code_at_[granule], __ATOMIC_RELAXED);
  }

  uint16_t* code_of_key_ = nullptr;   // per key
  uint8_t* code_at_ = nullptr;        // per granule
  uint32_t* usable_ = nullptr;        // per code
  uint16_t* code_of_hash_ = nullptr;  // of a length: open addressing
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_BLOCK_NOTES_H_
