// Experiment (e): the probe of a hash join writes each match to a page of its own. 128 Mi pages.
#include <algorithm>
#include <numeric>
#include <random>

#include "device_bench.cuh"
#include "device_queue.cuh"

namespace bench {
namespace {

using namespace reprise::random_walk;

constexpr uint32_t kPages = 128U << 20;
constexpr uint32_t kMostTuples = 10U << 20;
constexpr uint32_t kSlots = 1U << 25;  // of the hash table
constexpr uint32_t kNoKey = 0xffffffffU;

struct Tuple {
  uint32_t key, value;
};
struct alignas(16) Match {
  uint32_t key, left, right, valid;
};

__device__ uint32_t slot_of(uint32_t key) { return mix_bits(key) & (kSlots - 1); }

__global__ void build(const Tuple* tuples, uint32_t count, Tuple* table) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  if (self >= count) return;
  uint32_t slot = slot_of(tuples[self].key);
  while (atomicCAS(&table[slot].key, kNoKey, tuples[self].key) != kNoKey) {
    slot = (slot + 1) & (kSlots - 1);
  }
  table[slot].value = tuples[self].value;
}

// The match of a tuple; false without one.
__device__ bool probe(const Tuple& tuple, const Tuple* table, Match& match) {
  for (uint32_t slot = slot_of(tuple.key);; slot = (slot + 1) & (kSlots - 1)) {
    const Tuple found = table[slot];
    if (found.key == kNoKey) return false;
    if (found.key == tuple.key) {
      match = {tuple.key, found.value, tuple.value, 1};
      return true;
    }
  }
}

// Where the pages come from: get(wanted) is called by all threads of a warp together.
template <Algorithm kAlgorithm>
struct FromWalk {
  PoolView<uint32_t> pool;
  __device__ uint32_t get(bool wanted) const {
    DeviceThread<uint32_t> mine(pool, 99);
    return mine.get_page<kAlgorithm>(wanted);
  }
};
struct FromQueue {
  QueueView queue;
  __device__ uint32_t get(bool wanted) const {
    unsigned position = 0;
    return wanted ? queue.get_page(position) : kNoPage;
  }
};
struct FromCounter {
  CounterView counter;
  __device__ uint32_t get(bool wanted) const { return wanted ? counter.get_page() : kNoPage; }
};

template <class Source>
__global__ void join(const Tuple* tuples, uint32_t count, const Tuple* table, Source source,
                     Match* output) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  Match match{};
  const bool wanted = self < count && probe(tuples[self], table, match);
  const uint32_t page = source.get(wanted);
  if (page < kPages) output[page] = match;
}

__global__ void count_matches(const Match* output, unsigned long long* sums) {
  unsigned long long count = 0, sum = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kPages;
       i += gridDim.x * blockDim.x) {
    if (output[i].valid == 0) continue;
    ++count;
    sum += output[i].left ^ output[i].right;
  }
  atomicAdd(&sums[0], count);
  atomicAdd(&sums[1], sum);
}
__global__ void fill_queue(QueueView queue) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  if (self < kPages) queue.slots[self] = self;
}

struct Workspace {
  DeviceArray<Tuple> left{kMostTuples}, right{kMostTuples}, table{kSlots};
  DeviceArray<Match> output{kPages};
  DeviceArray<unsigned long long> sums{2};
};

template <class Source, class Reset>
int measure(const char* name, uint32_t tuples, uint64_t expected, Workspace& space, Source source,
            Reset&& reset) {
  constexpr int kRuns = 5;
  std::vector<double> times;
  int errors = 0;
  for (int run = -1; run < kRuns; ++run) {
    reset();
    if (run < 0) space.output.zero();
    const double us = time_us([&] {
      join<<<blocks_for(tuples), kBlock>>>(space.right.get(), tuples, space.table.get(), source,
                                           space.output.get());
    });
    if (run >= 0) {
      times.push_back(us);
      continue;
    }
    space.sums.zero();
    count_matches<<<1024, kBlock>>>(space.output.get(), space.sums.get());
    const auto sums = space.sums.read(2);
    if (sums[0] != tuples || sums[1] != expected) ++errors;
  }
  const Mean mean = mean_of(times);
  emit(R"({"kind": "join", "source": "%s", "tuples": %u, "pages": %u, "us": %.3f, "error": %.3f, )"
       R"("runs": %d, "errors": %d})",
       name, tuples, kPages, mean.value, mean.error, kRuns, errors);
  return errors;
}

// Relations of `count` tuples with the same keys in different orders. Returns the sum of matches.
uint64_t prepare(uint32_t count, Workspace& space) {
  std::vector<Tuple> left(count), right(count);
  std::mt19937 random(count);
  for (uint32_t i = 0; i < count; ++i) left[i] = {i, static_cast<uint32_t>(random())};
  right = left;
  std::shuffle(right.begin(), right.end(), random);
  uint64_t sum = 0;
  for (Tuple& tuple : right) {
    tuple.value ^= 0x5bd1e995U * (tuple.key + 1);
    sum += left[tuple.key].value ^ tuple.value;
  }
  space.left.write(left);
  space.right.write(right);
  check_cuda(cudaMemset(space.table.get(), 0xff, sizeof(Tuple) * kSlots), "the table");
  build<<<blocks_for(count), kBlock>>>(space.left.get(), count, space.table.get());
  check_cuda(cudaDeviceSynchronize(), "build");
  return sum;
}

}  // namespace

int measure_join(double seconds) {
  const Budget budget(seconds);
  Workspace space;
  DevicePool<uint32_t> pool(kPages, 16, false);
  pool.view().memory = reinterpret_cast<unsigned char*>(space.output.get());
  DeviceArray<uint32_t> slots(kPages);
  DeviceArray<unsigned> ends(64);
  const QueueView queue{slots.get(), kPages - 1, ends.get(), ends.get() + 32};
  const auto view = pool.view();
  const auto clear = [&] { pool.clear(); };
  int errors = 0;
  for (const uint32_t tuples : {16U << 10, 64U << 10, 256U << 10, 1U << 20, 4U << 20, 10U << 20}) {
    if (budget.over()) {
      emit(R"({"kind": "left_out", "experiment": "join", "tuples": %u})", tuples);
      continue;
    }
    const uint64_t expected = prepare(tuples, space);
    errors +=
        measure("DO", tuples, expected, space, FromCounter{{ends.get()}}, [&] { ends.zero(); });
    errors += measure("RW", tuples, expected, space, FromWalk<Algorithm::kRandomWalk>{view}, clear);
    errors += measure("RW-BM", tuples, expected, space, FromWalk<Algorithm::kBitmap>{view}, clear);
    errors +=
        measure("CoRW", tuples, expected, space, FromWalk<Algorithm::kCollective>{view}, clear);
    errors += measure("CoRW-LF", tuples, expected, space,
                      FromWalk<Algorithm::kCollectiveLockFree>{view}, clear);
    errors += measure("queue", tuples, expected, space, FromQueue{queue}, [&] {
      std::vector<unsigned> at(64);
      at[32] = kPages;
      ends.write(at);
      fill_queue<<<blocks_for(kPages), kBlock>>>(queue);
    });
  }
  // The view's memory belongs to the workspace.
  pool.view().memory = nullptr;
  return errors;
}

}  // namespace bench
