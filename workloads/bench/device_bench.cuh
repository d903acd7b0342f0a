// What the device experiments share: timing, device arrays, and results as one JSON object a line.
#ifndef REPRISE_WORKLOADS_BENCH_DEVICE_BENCH_CUH_
#define REPRISE_WORKLOADS_BENCH_DEVICE_BENCH_CUH_

#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "random_walk/page_pool.cuh"

namespace bench {

using reprise::random_walk::check_cuda;

inline constexpr unsigned kBlock = 256;
inline unsigned blocks_for(uint64_t threads) {
  return static_cast<unsigned>((threads + kBlock - 1) / kBlock);
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    check_cuda(cudaMalloc(&data_, sizeof(T) * size), "an array");
    zero();
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* get() const { return data_; }
  void zero() { check_cuda(cudaMemset(data_, 0, sizeof(T) * size_), "an array"); }
  void write(const std::vector<T>& from) {
    check_cuda(cudaMemcpy(data_, from.data(), sizeof(T) * from.size(), cudaMemcpyHostToDevice),
               "an array");
  }
  std::vector<T> read(size_t count) const {
    std::vector<T> result(count);
    check_cuda(cudaMemcpy(result.data(), data_, sizeof(T) * count, cudaMemcpyDeviceToHost),
               "an array");
    return result;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

// Microseconds of what `launch` starts, by events. Throws if it fails.
template <class Launch>
double time_us(Launch&& launch) {
  static cudaEvent_t begin = nullptr, end = nullptr;
  if (begin == nullptr) {
    check_cuda(cudaEventCreate(&begin), "an event");
    check_cuda(cudaEventCreate(&end), "an event");
  }
  check_cuda(cudaDeviceSynchronize(), "before a kernel");
  check_cuda(cudaEventRecord(begin), "an event");
  launch();
  check_cuda(cudaGetLastError(), "a launch");
  check_cuda(cudaEventRecord(end), "an event");
  check_cuda(cudaEventSynchronize(end), "a kernel");
  float ms = 0;
  check_cuda(cudaEventElapsedTime(&ms, begin, end), "an event");
  return ms * 1e3;
}

struct Mean {
  double value = 0, error = 0;  // standard error
};
inline Mean mean_of(const std::vector<double>& values) {
  Mean mean;
  for (const double value : values) mean.value += value / values.size();
  for (const double value : values) mean.error += (value - mean.value) * (value - mean.value);
  const double n = static_cast<double>(values.size());
  mean.error = n > 1 ? std::sqrt(mean.error / (n - 1) / n) : 0;
  return mean;
}

// Seconds that an experiment may take. What comes later is left out, and that is said.
class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds) {}
  bool over() const { return elapsed() > seconds_; }
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// One line, at once on its way, so that a run that is stopped leaves what it had.
__attribute__((format(printf, 1, 2))) inline void emit(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
}

// Each experiment: returns the number of errors it found.
int check_everything();
int measure_pages(double seconds);
int measure_runs(double seconds);
int measure_utilisation(double seconds);
int measure_join(double seconds);

}  // namespace bench

#endif  // REPRISE_WORKLOADS_BENCH_DEVICE_BENCH_CUH_
