// Experiments (a) and (b): steps and time of get_page, and time of free_page, for 2^20 pages.
#include <algorithm>
#include <numeric>
#include <random>

#include "device_bench.cuh"
#include "device_queue.cuh"

namespace bench {
namespace {

using namespace reprise::random_walk;

constexpr uint32_t kPages = 1U << 20;
constexpr int kRuns = 10;

// `steps` may be null: then only pages are written.
template <Algorithm kAlgorithm, class Word>
__global__ void get_pages(PoolView<Word> pool, uint64_t seed, uint32_t threads, uint32_t* pages,
                          unsigned* steps) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  DeviceThread<Word> mine(pool, seed);
  const uint32_t page = mine.template get_page<kAlgorithm>(self < threads);
  if (self >= threads) return;
  pages[self] = page;
  if (steps != nullptr) steps[self] = mine.steps();
}

template <class Word>
__global__ void free_pages(PoolView<Word> pool, uint32_t threads, const uint32_t* pages) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  if (self < threads && pages[self] != kNoPage) free_run<DeviceWarp>(pool, pages[self], 1);
}

__global__ void get_from_queue(QueueView queue, uint32_t threads, uint32_t* pages,
                               unsigned* steps) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  if (self >= threads) return;
  unsigned position = 0;
  pages[self] = queue.get_page(position);
  if (steps != nullptr) steps[self] = position;
}

__global__ void free_to_queue(QueueView queue, uint32_t threads, const uint32_t* pages) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
  if (self < threads && pages[self] != QueueView::kEmpty) queue.free_page(pages[self]);
}

struct Steps {
  double tas = 0, was = 0;
};
Steps steps_of(const std::vector<unsigned>& steps) {
  Steps mean;
  size_t warps = 0;
  for (size_t first = 0; first < steps.size(); first += 32, ++warps) {
    const auto end = steps.begin() + std::min(first + 32, steps.size());
    mean.was += *std::max_element(steps.begin() + first, end);
  }
  for (const unsigned one : steps) mean.tas += one;
  return {mean.tas / steps.size(), mean.was / warps};
}

// Pages that two threads have, or that were not free; and those that should have been found.
int wrong_pages(const std::vector<uint32_t>& pages, const std::vector<char>& was_free,
                uint32_t free) {
  std::vector<char> seen(kPages);
  int errors = 0;
  size_t found = 0;
  for (const uint32_t page : pages) {
    if (page == kNoPage) continue;
    ++found;
    if (page >= kPages || seen[page] || !was_free[page]) ++errors;
    if (page < kPages) seen[page] = 1;
  }
  if (found != std::min<size_t>(pages.size(), free)) ++errors;
  return errors;
}

void report(const char* algorithm, unsigned width, uint32_t free, uint32_t threads, Steps steps,
            const std::vector<double>& get, const std::vector<double>& release, int errors) {
  const Mean g = mean_of(get), f = mean_of(release);
  emit(R"({"kind": "pages", "algorithm": "%s", "width": %u, "pages": %u, "free": %u, )"
       R"("threads": %u, "tas": %.4f, "was": %.4f, "get_us": %.3f, "get_error": %.3f, )"
       R"("free_us": %.3f, "free_error": %.3f, "runs": %d, "errors": %d})",
       algorithm, width, kPages, free, threads, steps.tas, steps.was, g.value, g.error, f.value,
       f.error, kRuns, errors);
}

struct Workspace {
  DeviceArray<uint32_t> pages{kPages};
  DeviceArray<unsigned> steps{kPages};
};

template <Algorithm kAlgorithm, class Word>
int measure(const char* name, const std::vector<char>& is_free, uint32_t free, uint32_t threads,
            Workspace& space) {
  DevicePool<Word> pool(kPages, 1, false);
  // Unlimited where all are served, so that the steps are those of the algorithm.
  pool.view().probes = threads <= free * 0.99 ? 1U << 24 : 256;
  std::vector<Word> bitmap(pool.view().words);
  for (uint32_t i = 0; i < kPages; ++i) {
    if (!is_free[i]) bitmap[i / kWordBits<Word>] |= Word{1} << i % kWordBits<Word>;
  }
  std::vector<double> get, release;
  Steps steps;
  int errors = 0;
  for (int run = -1; run < kRuns; ++run) {  // run -1 warms up, and tells of steps
    check_cuda(cudaMemcpy(pool.view().used, bitmap.data(), sizeof(Word) * bitmap.size(),
                          cudaMemcpyHostToDevice),
               "the bitmap");
    unsigned* const note = run < 0 ? space.steps.get() : nullptr;
    const double us = time_us([&] {
      get_pages<kAlgorithm><<<blocks_for(threads), kBlock>>>(pool.view(), 1000 + run, threads,
                                                             space.pages.get(), note);
    });
    if (run < 0) {
      steps = steps_of(space.steps.read(threads));
      errors += wrong_pages(space.pages.read(threads), is_free, free);
    } else {
      get.push_back(us);
    }
    const double back = time_us([&] {
      free_pages<<<blocks_for(threads), kBlock>>>(pool.view(), threads, space.pages.get());
    });
    if (run >= 0) release.push_back(back);
  }
  std::vector<Word> after(bitmap.size());
  check_cuda(cudaMemcpy(after.data(), pool.view().used, sizeof(Word) * after.size(),
                        cudaMemcpyDeviceToHost),
             "the bitmap");
  if (after != bitmap) ++errors;
  report(name, kWordBits<Word>, free, threads, steps, get, release, errors);
  return errors;
}

int measure_queue(const std::vector<char>& is_free, uint32_t free, uint32_t threads,
                  Workspace& space) {
  DeviceArray<uint32_t> slots(kPages);
  DeviceArray<unsigned> ends(64);  // head and tail, on lines of their own
  const QueueView queue{slots.get(), kPages - 1, ends.get(), ends.get() + 32};
  std::vector<uint32_t> start(kPages, QueueView::kEmpty);
  uint32_t filled = 0;
  for (uint32_t i = 0; i < kPages; ++i) {
    if (is_free[i]) start[filled++] = i;
  }
  std::vector<double> get, release;
  Steps steps;
  int errors = 0;
  for (int run = -1; run < kRuns; ++run) {
    slots.write(start);
    std::vector<unsigned> at(64);
    at[32] = filled;
    ends.write(at);
    unsigned* const note = run < 0 ? space.steps.get() : nullptr;
    const double us = time_us([&] {
      get_from_queue<<<blocks_for(threads), kBlock>>>(queue, threads, space.pages.get(), note);
    });
    if (run < 0) {
      steps = steps_of(space.steps.read(threads));
      errors += wrong_pages(space.pages.read(threads), is_free, free);
    } else {
      get.push_back(us);
    }
    const double back = time_us(
        [&] { free_to_queue<<<blocks_for(threads), kBlock>>>(queue, threads, space.pages.get()); });
    if (run >= 0) release.push_back(back);
  }
  report("queue", 0, free, threads, steps, get, release, errors);
  return errors;
}

}  // namespace

int measure_pages(double seconds) {
  const Budget budget(seconds);
  Workspace space;
  int errors = 0;
  for (const double percent : {50.0, 10.0, 1.0, 0.5}) {
    const auto free = static_cast<uint32_t>(kPages * percent / 100);
    std::vector<char> is_free(kPages);
    std::fill(is_free.begin(), is_free.begin() + free, 1);
    std::shuffle(is_free.begin(), is_free.end(), std::mt19937_64(1));
    std::vector<uint32_t> counts;
    for (unsigned power = 5; power <= 20; ++power) counts.push_back(1U << power);
    counts.push_back(static_cast<uint32_t>(free * 0.99) / 32 * 32);
    for (const uint32_t threads : counts) {
      if (budget.over()) {
        emit(R"({"kind": "left_out", "experiment": "pages", "free": %u, "threads": %u})", free,
             threads);
        continue;
      }
      errors += measure<Algorithm::kRandomWalk, uint32_t>("RW", is_free, free, threads, space);
      errors += measure<Algorithm::kBitmap, uint32_t>("RW-BM", is_free, free, threads, space);
      errors += measure<Algorithm::kBitmap, uint64_t>("RW-BM", is_free, free, threads, space);
      errors += measure<Algorithm::kCollective, uint32_t>("CoRW", is_free, free, threads, space);
      errors += measure<Algorithm::kCollective, uint64_t>("CoRW", is_free, free, threads, space);
      errors += measure<Algorithm::kCollectiveLockFree, uint32_t>("CoRW-LF", is_free, free, threads,
                                                                  space);
      errors += measure<Algorithm::kCollectiveLockFree, uint64_t>("CoRW-LF", is_free, free, threads,
                                                                  space);
      errors += measure_queue(is_free, free, threads, space);
    }
  }
  return errors;
}

}  // namespace bench
