// A warp of CUDA threads on the CPU: 32 fibers that meet at each warp-wide intrinsic. Lets device
// code run without a device, and finds what is undefined on one: lanes that do not all come to the
// same intrinsic. Include it before the device code.
#ifndef REPRISE_TESTS_UNIT_RANDOM_WALK_CUDA_ON_HOST_H_
#define REPRISE_TESTS_UNIT_RANDOM_WALK_CUDA_ON_HOST_H_

#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#define __device__
#define __host__

struct CudaIndex {
  unsigned x = 0;
};
inline CudaIndex threadIdx, blockIdx, blockDim{32};

namespace cuda_on_host {

enum class Meeting : uint8_t { kNone, kSync, kBallot, kShuffle, kShuffleUp };

class Warp {
 public:
  // Runs `kernel` in 32 lanes. False if they did not meet at the same intrinsics.
  bool run(const std::function<void()>& kernel) {
    kernel_ = &kernel;
    running() = this;
    good_ = true;
    arrivals_ = 0;
    for (unsigned lane = 0; lane < 32; ++lane) {
      met_[lane] = 0;
      done_[lane] = false;
      getcontext(&contexts_[lane]);
      contexts_[lane].uc_stack.ss_sp = stacks_.get() + lane * kStackBytes;
      contexts_[lane].uc_stack.ss_size = kStackBytes;
      contexts_[lane].uc_link = &scheduler_;
      makecontext(&contexts_[lane], &Warp::enter, 0);
    }
    for (bool progress = true; progress;) {
      progress = false;
      const uint64_t before = arrivals_;
      for (lane_ = 0; lane_ < 32; ++lane_) {
        if (done_[lane_]) continue;
        threadIdx.x = lane_;
        swapcontext(&scheduler_, &contexts_[lane_]);
        progress |= done_[lane_];
      }
      progress |= arrivals_ != before;
    }
    for (const bool done : done_) good_ &= done;
    return good_;
  }

  // What all lanes brought to this meeting.
  const std::array<uint64_t, 32>& meet(Meeting what, uint64_t value) {
    const uint64_t number = met_[lane_]++;
    auto& values = values_[number % 2];
    values[lane_] = value;
    kinds_[number % 2][lane_] = what;
    ++arrivals_;
    // All go on in the order of their numbers, the last one to come as well.
    do {
      swapcontext(&contexts_[lane_], &scheduler_);
    } while (arrivals_ < 32 * (number + 1));
    for (const Meeting kind : kinds_[number % 2]) good_ &= kind == what;
    return values;
  }
  unsigned lane() const { return lane_; }
  static Warp*& running() {
    static Warp* warp = nullptr;
    return warp;
  }

 private:
  static constexpr size_t kStackBytes = 256 << 10;
  static void enter() {
    Warp* warp = running();
    (*warp->kernel_)();
    warp->done_[warp->lane_] = true;
  }

  const std::function<void()>* kernel_ = nullptr;
  std::unique_ptr<char[]> stacks_{new char[32 * kStackBytes]};
  std::array<ucontext_t, 32> contexts_;
  ucontext_t scheduler_;
  std::array<std::array<uint64_t, 32>, 2> values_;
  std::array<std::array<Meeting, 32>, 2> kinds_;
  std::array<uint64_t, 32> met_;
  std::array<bool, 32> done_;
  uint64_t arrivals_ = 0;
  unsigned lane_ = 0;
  bool good_ = true;
};

inline const std::array<uint64_t, 32>& meet(Meeting what, uint64_t value) {
  return Warp::running()->meet(what, value);
}

}  // namespace cuda_on_host

inline void __syncwarp(unsigned) { cuda_on_host::meet(cuda_on_host::Meeting::kSync, 0); }
inline unsigned __ballot_sync(unsigned, int predicate) {
  unsigned mask = 0;
  const auto& values = cuda_on_host::meet(cuda_on_host::Meeting::kBallot, predicate != 0 ? 1 : 0);
  for (unsigned lane = 0; lane < 32; ++lane) mask |= static_cast<unsigned>(values[lane]) << lane;
  return mask;
}
template <class T>
T __shfl_sync(unsigned, T value, int source) {
  return static_cast<T>(cuda_on_host::meet(cuda_on_host::Meeting::kShuffle,
                                           value)[static_cast<unsigned>(source) % 32]);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const auto& values = cuda_on_host::meet(cuda_on_host::Meeting::kShuffleUp, value);
  const unsigned lane = cuda_on_host::Warp::running()->lane();
  return lane < distance ? value : static_cast<T>(values[lane - distance]);
}
template <class T>
T atomicOr(T* word, T bits) {
  return __atomic_fetch_or(word, bits, __ATOMIC_SEQ_CST);
}
template <class T>
T atomicAnd(T* word, T bits) {
  return __atomic_fetch_and(word, bits, __ATOMIC_SEQ_CST);
}
inline void __threadfence() {}

#endif  // REPRISE_TESTS_UNIT_RANDOM_WALK_CUDA_ON_HOST_H_
