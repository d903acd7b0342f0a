// A plan's keys in this process: what a lane compares requests with. Hook-safe; nothing is changed
// but by `learn`.
#ifndef REPRISE_REPLAY_ARENA_LIVE_KEYS_H_
#define REPRISE_REPLAY_ARENA_LIVE_KEYS_H_

#include <stdint.h>

#include "replay/plan/plan_format.h"
#include "replay/plan/stream.h"

namespace reprise::replay {

// A call site in this process: the return address, which has 47 bits, and in bits 52 to 63 the
// stack's depth in units of 16 bytes, modulo kDepths. So two sites never differ by 2^47, nor do
// frames that are no multiple of 16 apart (Lane::Differs).
inline constexpr int kAddressBits = 47;
inline constexpr int kFrameShift = 64 - kFrameBits;  // of an address on the stack
constexpr uint64_t LiveSite(uint64_t return_address, uint64_t depth) {
  return (return_address & ((uint64_t{1} << kAddressBits) - 1)) | depth * 16 << kFrameShift;
}
constexpr uint64_t AddressOfSite(uint64_t site) {
  return site & ((uint64_t{1} << kAddressBits) - 1);
}
constexpr uint32_t DepthOfSite(uint64_t site) {
  return static_cast<uint32_t>(site >> kFrameShift) / 16;
}

// A key as replay compares it: PlanKey with the call site at its address in this process.
struct LiveKey {
  uint64_t shape;
  uint64_t site;  // LiveSite; 0: its module is not loaded, nothing matches
};

// The keys of a plan in this process.
struct LiveKeys {
  const LiveKey* keys;  // all zeros where they are told; before them there are as many zeros, which
                        // nothing matches: that is where a word that is no allocation leads
  // Called when a request's shape is the expected one, but the module of the expected call site is
  // not known to be loaded: true when `site` lies in a module that has been loaded since, and whose
  // keys now have their addresses.
  bool (*learn)(uint64_t site);
  // Usable bytes of each key's block / 8, below kLong: what is looked at for every guarded
  // allocation lies close together.
  const uint8_t* sizes;
  static constexpr uint8_t kLong = 255;  // or more
  static uint8_t SizeOf(const PlanKey& key) {
    const uint64_t size = key.usable / 8;
    return size < kLong ? static_cast<uint8_t>(size) : kLong;
  }
  // The plan's, for what is seldom asked.
  const PlanKey* plan_keys;
  // Where each of the plan's modules lies in this process, + 1; 0: it is not loaded. Of keys that
  // are told.
  const uint64_t* modules;

  // The key of the allocation word at `at`.
  LiveKey At(const uint32_t* at, uint32_t offset_bits) const {
    const Word word = DecodeWord(at, offset_bits);
    if (__builtin_expect(word.length != kToldLength, 1)) return keys[word.key];
    return Told(at[3], at[4], at[5] >> kDepthBits, at[5] % kDepths);
  }
  // Usable bytes of its block / 8, a block has half as many granules, rounded up.
  uint64_t Size(uint32_t key) const {
    const uint8_t size = sizes[key];
    return size < kLong ? size : plan_keys[key].usable / 8;
  }

 private:
  LiveKey Told(uint64_t shape, uint64_t site_offset, uint32_t module, uint32_t depth) const {
    const uint64_t begin = __atomic_load_n(&modules[module], __ATOMIC_ACQUIRE);
    return {shape, begin != 0 ? LiveSite(begin - 1 + site_offset, depth) : 0};
  }
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LIVE_KEYS_H_
