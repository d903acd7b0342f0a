#include "synthetic_trace.h"

#include <algorithm>
#include <cmath>

namespace workloads {
namespace {

// splitmix64 (Steele, Lea, Flood 2014). The standard library's distributions differ between
// implementations; this does not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // In (0, 1].
  double Unit() { return (static_cast<double>(Next() >> 11) + 1) * 0x1p-53; }
  bool Chance(double probability) { return Unit() <= probability; }
  // At least `least`; the heavier the tail, the smaller `alpha`.
  double Pareto(double least, double alpha) { return least / std::pow(Unit(), 1 / alpha); }

 private:
  uint64_t state_;
};

int64_t Granules(double bytes, double most) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::min(bytes, most)) / 16) * 16;
}

int64_t Size(Random& random, int kind) {
  if (random.Chance(0.05)) return Granules(random.Pareto(1024, kind == 1 ? 1.2 : 0.9), 4 << 20);
  // Programs ask for a few sizes again and again.
  if (random.Chance(0.6)) return 16 * (1 + static_cast<int64_t>(random.Next() % 8));
  return Granules(random.Pareto(32, kind == 1 ? 1.5 : 1.1), 1 << 16);
}

}  // namespace

std::vector<SyntheticBuffer> SyntheticTrace(int kind, int64_t buffers, uint64_t seed) {
  Random random(seed * 2 + static_cast<uint64_t>(kind));
  std::vector<SyntheticBuffer> trace;
  trace.reserve(buffers);
  std::vector<int64_t> live;  // kind 1: the blocks born since the last flush, or that survived it
  const int64_t phase = std::max<int64_t>(buffers / 100, 1);
  for (int64_t now = 0; now < buffers; ++now) {
    double lifetime = 0;
    if (kind == 2 && random.Chance(0.06)) {
      lifetime = random.Unit() * static_cast<double>(buffers - now);
    } else {
      lifetime = random.Pareto(2, kind == 1 ? 0.5 : 0.6);
    }
    const double last = static_cast<double>(buffers - now);
    const int64_t upper =
        now + std::max<int64_t>(1, static_cast<int64_t>(std::min(lifetime, last)));
    trace.push_back({now, upper, Size(random, kind)});
    if (kind != 1) continue;
    live.push_back(now);
    if ((now + 1) % phase != 0) continue;
    std::erase_if(live, [&](int64_t block) {
      if (trace[block].upper <= now + 1) return true;
      if (!random.Chance(0.2)) return false;
      trace[block].upper = now + 1;
      return true;
    });
  }
  return trace;
}

}  // namespace workloads
