// Seeded randomness that is the same on every machine.
#ifndef REPRISE_PLANNER_CORE_RANDOM_H_
#define REPRISE_PLANNER_CORE_RANDOM_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/hash.h"

namespace reprise::planner {

// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  // A stream of its own for every pair of numbers.
  explicit Random(uint64_t seed, uint64_t stream = 0)
      : state_(seed * base::kGoldenRatio + (stream + 1) * 0xd1b54a32d192ed03) {
    Next();
  }

  uint64_t Next() {
    state_ += base::kGoldenRatio;
    return base::MixBits(state_);
  }

  // In [0, n), n > 0; the bias is below n / 2^64.
  uint64_t Below(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
  }

  // In [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// The chance with which simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) takes a step that is
// worse by the share `rise`, at the temperature `heat`.
inline double ChanceOfRise(double rise, double heat) {
  return std::exp(-rise / std::max(heat, 1e-9));
}

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_RANDOM_H_
