// Which planned blocks are planned to live now and do, and how many bytes are usable in them: noted
// where each begins, as a code of one byte or of two, from its allocation to its free, or to its
// planned free where that comes first. For a lane that follows its stream and is asked for it
// often: for how long blocks are, directly or by realloc, or, by frees that come in another order,
// for what lives. To look it up among the placements takes a search through a file.
//
// Not everything is noted: not what was allocated before it was begun with, nor lengths that have
// no code.
//
// Hook-safe. Notes are written by the lane's thread; others may read that of a block whose lifetime
// they have under control.
#ifndef REPRISE_REPLAY_ARENA_BLOCK_NOTES_H_
#define REPRISE_REPLAY_ARENA_BLOCK_NOTES_H_

#include <stdint.h>
#include <string.h>

#include "base/give_back.h"
#include "replay/plan/plan_format.h"

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
    byte_at_ = reinterpret_cast<uint8_t*>(code_of_key_ + keys);
  }

  // The most frequent keys come first, so that nearly all blocks have a length of a short code.
  // at(key) is called before one is read.
  template <typename At>
  void Start(const PlanKey* keys, uint64_t count, At at) {
    uint16_t codes = 1;  // 0: not known
    for (uint64_t key = 0; key < count; ++key) {
      at(&keys[key]);
      const uint64_t usable = keys[key].usable;
      if (keys[key].shape == 0 || usable > UINT32_MAX) continue;
      uint16_t* code = &code_of_hash_[usable / 8 % kHashes];
      while (*code != 0 && usable_[*code] != usable) {
        code = code + 1 < code_of_hash_ + kHashes ? code + 1 : code_of_hash_;
      }
      if (*code == 0) {
        if (codes == kCodes || (codes >= kFirstLong && usable <= kGranule)) continue;
        usable_[codes] = static_cast<uint32_t>(usable);
        *code = codes++;
      }
      code_of_key_[key] = *code;
    }
  }

  // Blocks of this key are going to be noted.
  void LookAhead(uint32_t key) const { __builtin_prefetch(&code_of_key_[key]); }

  void Note(uint64_t granule, uint32_t key) {
    uint32_t code = code_of_key_[key];
    if (__builtin_expect(code >= kFirstLong, 0)) {
      Set(granule + 1, kSecond | (code - kFirstLong) % kSecond);
      code = kFirstLong + (code - kFirstLong) / kSecond;
    }
    Set(granule, code);
  }

  // The block that begins there, noted or not, is planned to live no longer. The first byte goes
  // first: a signal handler that asks in between finds no note, not half of one.
  void Forget(uint64_t granule) {
    const bool is_long = ByteAt(granule) >= kFirstLong;
    Set(granule, 0);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(is_long, 0)) Set(granule + 1, 0);
  }

  // Whether a block that begins there is noted.
  bool Has(uint64_t granule) const {
    const uint32_t byte = ByteAt(granule);
    return byte != 0 && byte < kSecond;
  }

  // Of the block that is noted there; 0: none is.
  uint64_t UsableAt(uint64_t granule) const {
    uint32_t code = ByteAt(granule);
    if (__builtin_expect(code >= kFirstLong, 0)) {
      if (code >= kSecond) return 0;
      code = kFirstLong + (code - kFirstLong) * kSecond + ByteAt(granule + 1) % kSecond;
    }
    return usable_[code];
  }

  // Forgets all of them. `granules` as in MemoryFor.
  void Clear(uint64_t granules) {
    const auto begin = (reinterpret_cast<uint64_t>(byte_at_) + 4095) & ~uint64_t{4095};
    const auto end = reinterpret_cast<uint64_t>(byte_at_ + granules) & ~uint64_t{4095};
    if (begin >= end) {
      memset(byte_at_, 0, granules);
      return;
    }
    memset(byte_at_, 0, begin - reinterpret_cast<uint64_t>(byte_at_));
    auto* pages = reinterpret_cast<void*>(begin);
    if (!GiveBack(pages, end - begin)) memset(pages, 0, end - begin);
    memset(reinterpret_cast<void*>(end), 0, reinterpret_cast<uint64_t>(byte_at_ + granules) - end);
  }

 private:
  // A byte below kFirstLong is a code, one below kSecond the first byte of a longer code, which has
  // its other bits in the byte behind.
  static constexpr uint32_t kFirstLong = 120;
  static constexpr uint32_t kSecond = 128;
  static constexpr uint32_t kCodes = kFirstLong + (kSecond - kFirstLong) * kSecond;
  static constexpr uint32_t kHashes = 2048;
  static_assert(kCodes < kHashes);

  void Set(uint64_t granule, uint32_t byte) {
    __atomic_store_n(&byte_at_[granule], static_cast<uint8_t>(byte), __ATOMIC_RELAXED);
  }
  uint32_t ByteAt(uint64_t granule) const {
    return __atomic_load_n(&byte_at_[granule], __ATOMIC_RELAXED);
  }

  uint16_t* code_of_key_ = nullptr;   // per key
  uint8_t* byte_at_ = nullptr;        // per granule
  uint32_t* usable_ = nullptr;        // per code
  uint16_t* code_of_hash_ = nullptr;  // of a length: open addressing
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_BLOCK_NOTES_H_
