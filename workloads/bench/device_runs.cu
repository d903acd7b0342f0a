// Experiments (c) and (d): RW_malloc against the device's own malloc, and how much memory is used
// when it is out.
#include <algorithm>
#include <random>

#include "device_bench.cuh"

namespace bench {
namespace {

using namespace reprise::random_walk;

constexpr uint32_t kUnit = 16;
constexpr uint64_t kPoolBytes = uint64_t{16} << 30;  // twice what 2^20 blocks of 8192 bytes need
constexpr uint32_t kMostThreads = 1U << 20;

template <class Word>
__global__ void allocate_runs(PoolView<Word> pool, uint64_t seed, uint32_t threads,
                              const uint32_t* sizes, void** blocks) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  DeviceThread<Word> mine(pool, seed);
  const bool wanted = self < threads;
  void* const block = mine.rw_malloc(wanted ? sizes[self] : 0, wanted);
  if (wanted) blocks[self] = block;
}
template <class Word>
__global__ void free_runs(PoolView<Word> pool, uint32_t threads, const uint32_t* sizes,
                          void** blocks) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  if (self < threads) rw_free<DeviceWarp>(pool, blocks[self], sizes[self]);
}
__global__ void allocate_device(uint32_t threads, const uint32_t* sizes, void** blocks) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  if (self < threads) blocks[self] = malloc(sizes[self]);
}
__global__ void free_device(uint32_t threads, void** blocks) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  if (self < threads) free(blocks[self]);
}

struct Workspace {
  DeviceArray<uint32_t> sizes{kMostThreads};
  DeviceArray<void*> blocks{kMostThreads};
  std::vector<uint32_t> host_sizes;
};

// Blocks that overlap another one, and those that were refused.
struct Faults {
  int overlaps = 0, refused = 0;
};
Faults faults_of(const Workspace& space, uint32_t threads) {
  const std::vector<void*> blocks = space.blocks.read(threads);
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  Faults faults;
  for (uint32_t i = 0; i < threads; ++i) {
    const auto at = reinterpret_cast<uint64_t>(blocks[i]);
    if (at == 0) {
      ++faults.refused;
    } else {
      spans.emplace_back(at, at + space.host_sizes[i]);
    }
  }
  std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].first < spans[i - 1].second) ++faults.overlaps;
  }
  return faults;
}

template <class Allocate, class Free>
int measure(const char* allocator, const char* sizes, uint32_t threads, int runs, Workspace& space,
            Allocate&& allocate, Free&& release) {
  std::vector<double> get, back;
  Faults faults;
  for (int run = -1; run < runs; ++run) {
    const double us = time_us([&] { allocate(run); });
    if (run < 0) faults = faults_of(space, threads);
    const double free_us = time_us([&] { release(); });
    if (run < 0 && runs > 0) continue;  // warms up
    get.push_back(us);
    back.push_back(free_us);
  }
  const Mean a = mean_of(get), f = mean_of(back);
  emit(R"({"kind": "runs", "allocator": "%s", "sizes": "%s", "threads": %u, "allocate_us": %.3f, )"
       R"("allocate_error": %.3f, "free_us": %.3f, "free_error": %.3f, "runs": %d, "refused": %d, )"
       R"("errors": %d})",
       allocator, sizes, threads, a.value, a.error, f.value, f.error, static_cast<int>(get.size()),
       faults.refused, faults.overlaps);
  return faults.overlaps;
}

template <class Word>
int measure_walk(const char* name, DevicePool<Word>& pool, const char* sizes, uint32_t threads,
                 Workspace& space) {
  return measure(
      name, sizes, threads, 5, space,
      [&](int run) {
        allocate_runs<<<blocks_for(threads), kBlock>>>(pool.view(), 77 + run, threads,
                                                       space.sizes.get(), space.blocks.get());
      },
      [&] {
        free_runs<<<blocks_for(threads), kBlock>>>(pool.view(), threads, space.sizes.get(),
                                                   space.blocks.get());
      });
}

int measure_device_malloc(const char* sizes, uint32_t threads, Workspace& space) {
  return measure(
      "device malloc", sizes, threads, threads > 1U << 16 ? 1 : 3, space,
      [&](int) {
        allocate_device<<<blocks_for(threads), kBlock>>>(threads, space.sizes.get(),
                                                         space.blocks.get());
      },
      [&] { free_device<<<blocks_for(threads), kBlock>>>(threads, space.blocks.get()); });
}

// `bytes` 0: mixed, 4 to 8192.
std::vector<uint32_t> make_sizes(uint32_t bytes, uint32_t count) {
  std::vector<uint32_t> sizes(count, bytes);
  if (bytes == 0) {
    std::mt19937 random(1);
    for (uint32_t& size : sizes) size = 4 + random() % 8189;
  }
  return sizes;
}

template <class Word>
void fill_up(uint32_t pool_bytes, uint32_t unit, uint32_t bytes) {
  constexpr uint32_t kThreads = 1U << 13;
  DevicePool<Word> pool(pool_bytes / unit, unit);
  DeviceArray<uint32_t> sizes(kThreads);
  DeviceArray<void*> blocks(kThreads);
  const std::vector<uint32_t> host_sizes = make_sizes(bytes, kThreads);
  sizes.write(host_sizes);
  uint64_t requested = 0, units = 0;
  bool full = false;
  for (int turn = 0; !full && turn < 1 << 16; ++turn) {
    allocate_runs<<<blocks_for(kThreads), kBlock>>>(pool.view(), turn, kThreads, sizes.get(),
                                                    blocks.get());
    check_cuda(cudaDeviceSynchronize(), "allocate_runs");
    const std::vector<void*> given = blocks.read(kThreads);
    for (uint32_t i = 0; i < kThreads; ++i) {
      if (given[i] == nullptr) {
        full = true;
      } else {
        requested += host_sizes[i];
        units += pool.view().units_of(host_sizes[i]);
      }
    }
  }
  emit(R"({"kind": "utilisation", "bytes": %u, "unit": %u, "width": %u, "pool": %u, )"
       R"("of_requests": %.5f, "of_units": %.5f})",
       bytes, unit, kWordBits<Word>, pool_bytes, double(requested) / pool_bytes,
       double(units) * unit / pool_bytes);
}

}  // namespace

int measure_runs(double seconds) {
  const Budget budget(seconds);
  check_cuda(cudaDeviceSetLimit(cudaLimitMallocHeapSize, size_t{12} << 30), "the device's heap");
  Workspace space;
  DevicePool<uint32_t> narrow(kPoolBytes / kUnit, kUnit);
  DevicePool<uint64_t> wide(kPoolBytes / kUnit, kUnit);
  int errors = 0;
  double slowest = 0;  // seconds
  for (const uint32_t threads : {1U << 10, 1U << 13, 1U << 16, 1U << 18, 1U << 20}) {
    for (const uint32_t bytes : {4U, 16U, 64U, 256U, 1024U, 4096U, 8192U, 0U}) {
      const std::string sizes = bytes == 0 ? "mixed" : std::to_string(bytes);
      space.host_sizes = make_sizes(bytes, threads);
      space.sizes.write(space.host_sizes);
      if (bytes <= 992 * kUnit) {
        errors += measure_walk("RW_malloc 32", narrow, sizes.c_str(), threads, space);
      }
      errors += measure_walk("RW_malloc 64", wide, sizes.c_str(), threads, space);
      // As slow as the slowest so far, or 4 times that with 4 times the threads.
      if (budget.elapsed() + 4 * slowest > seconds) {
        emit(R"({"kind": "left_out", "experiment": "device malloc", "threads": %u, "sizes": "%s"})",
             threads, sizes.c_str());
      } else {
        const Budget mine(seconds);
        errors += measure_device_malloc(sizes.c_str(), threads, space);
        slowest = std::max(slowest, mine.elapsed());
      }
    }
  }
  return errors;
}

int measure_utilisation(double seconds) {
  const Budget budget(seconds);
  for (const uint32_t bytes :
       {4U, 16U, 40U, 100U, 256U, 700U, 1024U, 3000U, 4096U, 7000U, 8192U, 0U}) {
    if (budget.over()) break;
    fill_up<uint64_t>(256U << 20, bytes > 7936 || bytes == 0 ? 8 : 4, bytes);
    fill_up<uint32_t>(256U << 20, 16, bytes);
  }
  return 0;
}

}  // namespace bench
