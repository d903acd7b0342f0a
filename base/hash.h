// Mixing the bits of numbers. Hook-safe.
#ifndef REPRISE_BASE_HASH_H_
#define REPRISE_BASE_HASH_H_

#include <stdint.h>

namespace reprise::base {

// 2^64 divided by the golden ratio: multiples of it are spread evenly (Knuth, volume 3, 6.4).
inline constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;

// The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection; every bit of the result
// depends on all bits of `x`.
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace reprise::base

#endif  // REPRISE_BASE_HASH_H_
