// Small checks of every device function, quick enough for compute-sanitizer.
#include <algorithm>
#include <set>

#include "device_bench.cuh"
#include "device_queue.cuh"

namespace bench {
namespace {

using namespace reprise::random_walk;

constexpr uint32_t kThreads = 1024;

// Takes and frees pages in turns; each page is marked while it is held. Odd threads want a page in
// odd turns only.
template <Algorithm kAlgorithm, class Word>
__global__ void churn_pages(PoolView<Word> pool, unsigned* marks, unsigned* counts) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  DeviceThread<Word> mine(pool, 5);
  for (unsigned turn = 0; turn < 8; ++turn) {
    const bool wanted = ((self & turn) & 1) == 0;
    const uint32_t page = mine.template get_page<kAlgorithm>(wanted);
    if (page != kNoPage) {
      if (atomicExch(&marks[page], self + 1) != 0) atomicAdd(&counts[0], 1U);
      atomicAdd(&counts[1], 1U);
      if (atomicExch(&marks[page], 0U) != self + 1) atomicAdd(&counts[0], 1U);
      if (mine.free_page(page) != FreeResult::kFreed) atomicAdd(&counts[0], 1U);
    } else if (wanted) {
      atomicAdd(&counts[2], 1U);
    }
  }
}

// Takes pages until none is left: each thread once, more threads than pages.
template <Algorithm kAlgorithm, class Word>
__global__ void take_all(PoolView<Word> pool, uint32_t* pages) {
  DeviceThread<Word> mine(pool, 6);
  pages[blockIdx.x * blockDim.x + threadIdx.x] = mine.template get_page<kAlgorithm>();
}

template <Algorithm kAlgorithm, class Word>
int check_pages(const char* name) {
  int errors = 0;
  for (const uint32_t pages : {33U, 700U, 5000U}) {
    DevicePool<Word> pool(pages, 8);
    pool.view().debug = true;
    DeviceArray<unsigned> marks(pages), counts(3);
    DeviceArray<uint32_t> taken(kThreads);
    churn_pages<kAlgorithm>
        <<<blocks_for(kThreads), kBlock>>>(pool.view(), marks.get(), counts.get());
    check_cuda(cudaDeviceSynchronize(), name);
    const auto count = counts.read(3);
    errors += static_cast<int>(count[0]);
    if (pages >= kThreads && count[2] != 0) ++errors;
    take_all<kAlgorithm><<<blocks_for(kThreads), kBlock>>>(pool.view(), taken.get());
    check_cuda(cudaDeviceSynchronize(), name);
    std::set<uint32_t> found;
    for (const uint32_t page : taken.read(kThreads)) {
      if (page == kNoPage) continue;
      if (page >= pages || !found.insert(page).second) ++errors;
    }
    if (found.size() != std::min(pages, kThreads)) ++errors;
    emit(
        R"({"kind": "check", "what": "%s %u", "pages": %u, "taken": %u, "refused": %u, "errors": %d})",
        name, kWordBits<Word>, pages, count[1], count[2], errors);
  }
  return errors;
}

// Runs of mixed lengths, filled with the thread's number and looked at again before they are freed.
template <class Word>
__global__ void churn_runs(PoolView<Word> pool, unsigned* counts) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  DeviceThread<Word> mine(pool, 7);
  for (unsigned turn = 0; turn < 4; ++turn) {
    const uint32_t bytes = 4 * (1 + mix_bits(self * 8 + turn) % (self % 16 == 0 ? 2048 : 40));
    auto* block = static_cast<uint32_t*>(mine.rw_malloc(bytes, (self + turn) % 5 != 0));
    if (block == nullptr) {
      if ((self + turn) % 5 != 0) atomicAdd(&counts[2], 1U);
      continue;  // the warp meets again at the next rw_malloc
    }
    for (uint32_t i = 0; i < bytes / 4; ++i) block[i] = self;
    for (uint32_t i = 0; i < bytes / 4; ++i) {
      if (*static_cast<volatile uint32_t*>(&block[i]) != self) atomicAdd(&counts[0], 1U);
    }
    atomicAdd(&counts[1], 1U);
    if (mine.rw_free(block, bytes) != FreeResult::kFreed) atomicAdd(&counts[0], 1U);
  }
}

template <class Word>
__global__ void misuse(PoolView<Word> pool, unsigned* counts) {
  DeviceThread<Word> mine(pool, 8);
  auto* block = static_cast<unsigned char*>(mine.rw_malloc(100, threadIdx.x == 0));
  if (threadIdx.x != 0) return;
  if (mine.rw_free(block + 1, 100) != FreeResult::kForeign) ++counts[0];
  if (mine.rw_free(counts, 100) != FreeResult::kForeign) ++counts[0];
  if (mine.rw_free(block, 100) != FreeResult::kFreed) ++counts[0];
  if (mine.rw_free(block, 100) != FreeResult::kDoubleFree) ++counts[0];
  if (mine.free_page(pool.pages) != FreeResult::kForeign) ++counts[0];
}

template <class Word>
int check_runs() {
  int errors = 0;
  for (const uint32_t pages : {3000U, 200000U}) {
    DevicePool<Word> pool(pages, 16);
    pool.view().debug = true;
    DeviceArray<unsigned> counts(3);
    churn_runs<<<blocks_for(kThreads), kBlock>>>(pool.view(), counts.get());
    check_cuda(cudaDeviceSynchronize(), "churn_runs");
    misuse<<<1, 32>>>(pool.view(), counts.get());
    check_cuda(cudaDeviceSynchronize(), "misuse");
    const auto count = counts.read(3);
    errors += static_cast<int>(count[0]);
    if (pool.statistics().used != 0) ++errors;
    emit(
        R"({"kind": "check", "what": "runs %u", "pages": %u, "taken": %u, "refused": %u, "errors": %d})",
        kWordBits<Word>, pages, count[1], count[2], errors);
  }
  return errors;
}

__global__ void churn_queue(QueueView queue, unsigned* marks, unsigned* counts) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned turn = 0; turn < 8; ++turn) {
    unsigned position = 0;
    const uint32_t page = queue.get_page(position);
    if (page == QueueView::kEmpty) continue;
    if (atomicExch(&marks[page], self + 1) != 0) atomicAdd(&counts[0], 1U);
    if (atomicExch(&marks[page], 0U) != self + 1) atomicAdd(&counts[0], 1U);
    queue.free_page(page);
  }
}

int check_queue() {
  DeviceArray<uint32_t> slots(4096);
  DeviceArray<unsigned> ends(64), marks(4096), counts(1);
  std::vector<uint32_t> start(4096, QueueView::kEmpty);
  for (uint32_t i = 0; i < 2048; ++i) start[i] = i;
  slots.write(start);
  std::vector<unsigned> at(64);
  at[32] = 2048;
  ends.write(at);
  churn_queue<<<blocks_for(kThreads), kBlock>>>({slots.get(), 4095, ends.get(), ends.get() + 32},
                                                marks.get(), counts.get());
  check_cuda(cudaDeviceSynchronize(), "churn_queue");
  const int errors = static_cast<int>(counts.read(1)[0]);
  emit(R"({"kind": "check", "what": "queue", "errors": %d})", errors);
  return errors;
}

}  // namespace

int check_everything() {
  int errors = 0;
  errors += check_pages<Algorithm::kRandomWalk, uint32_t>("RW");
  errors += check_pages<Algorithm::kRandomWalk, uint64_t>("RW");
  errors += check_pages<Algorithm::kBitmap, uint32_t>("RW-BM");
  errors += check_pages<Algorithm::kBitmap, uint64_t>("RW-BM");
  errors += check_pages<Algorithm::kCollective, uint32_t>("CoRW");
  errors += check_pages<Algorithm::kCollective, uint64_t>("CoRW");
  errors += check_pages<Algorithm::kCollectiveLockFree, uint32_t>("CoRW-LF");
  errors += check_pages<Algorithm::kCollectiveLockFree, uint64_t>("CoRW-LF");
  errors += check_runs<uint32_t>();
  errors += check_runs<uint64_t>();
  errors += check_queue();
  emit(R"({"kind": "checked", "errors": %d})", errors);
  return errors;
}

}  // namespace bench
