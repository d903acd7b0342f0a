// Small recordings for the tests of the comparison.
#ifndef REPRISE_TESTS_UNIT_COMPARE_RECORDING_H_
#define REPRISE_TESTS_UNIT_COMPARE_RECORDING_H_

#include <cstdint>
#include <random>
#include <vector>

#include "trace/recording.h"

namespace reprise {

// Appends events one after another, as a program would cause them.
class RecordingMaker {
 public:
  explicit RecordingMaker(uint32_t threads) { recording_.threads.resize(threads); }

  uint32_t Malloc(uint32_t thread, uint64_t size) {
    trace::Allocation it;
    it.birth = recording_.events++;
    it.size = size;
    it.thread = thread;
    recording_.allocations.push_back(it);
    return static_cast<uint32_t>(recording_.allocations.size() - 1);
  }

  void Free(uint32_t thread, uint32_t allocation) {
    recording_.allocations[allocation].death = recording_.events++;
    recording_.allocations[allocation].free_thread = thread;
  }

  uint32_t Realloc(uint32_t thread, uint32_t old, uint64_t size) {
    Free(thread, old);
    const uint32_t fresh = Malloc(thread, size);
    recording_.allocations[fresh].kind = trace::AllocationKind::kRealloc;
    recording_.allocations[fresh].previous = old;
    return fresh;
  }

  trace::Allocation& operator[](uint32_t allocation) { return recording_.allocations[allocation]; }
  trace::Recording& recording() { return recording_; }

 private:
  trace::Recording recording_;
};

// `steps` random mallocs, frees and reallocs on random threads; a block is often freed by another
// thread than its own. Every thread is busy for a part of the time only. Sizes are all different.
inline trace::Recording RandomRecording(uint64_t seed, uint32_t threads, int steps) {
  std::mt19937_64 random(seed);
  RecordingMaker maker(threads);
  std::vector<uint32_t> live;
  for (int step = 0; step < steps; ++step) {
    // A window of threads that moves on, so that threads start and end on the way.
    const uint32_t window = std::max(threads / 2, 1u);
    const auto first = static_cast<uint32_t>(uint64_t{threads - window} * step / steps);
    const uint32_t thread = random() % 8 == 0 ? 0 : first + random() % window;
    const uint64_t size = 16 + 16 * static_cast<uint64_t>(step);
    const size_t which = live.empty() ? 0 : random() % live.size();
    const int dice = static_cast<int>(random() % 10);
    if (live.empty() || dice < 5) {
      live.push_back(maker.Malloc(thread, size));
    } else if (dice < 9) {
      maker.Free(thread, live[which]);
      live[which] = live.back();
      live.pop_back();
    } else {
      live[which] = maker.Realloc(thread, live[which], size);
    }
  }
  return maker.recording();
}

}  // namespace reprise

#endif  // REPRISE_TESTS_UNIT_COMPARE_RECORDING_H_
