// CPU threads on one pool: the stress test, and the speed beside mimalloc and a free list under a
// mutex.
#include <mimalloc.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "random_walk/page_pool.h"
#include "workloads/bench/cpu_bench.h"

namespace bench {
namespace {

using namespace reprise::random_walk;

constexpr uint32_t kPages = 1U << 16;
constexpr uint32_t kPageBytes = 256;

// How many pages a thread holds goes up and down, so that memory is out now and then.
uint64_t stress_thread(PagePool<>& pool, std::vector<std::atomic<uint8_t>>& owner, uint8_t self,
                       uint64_t operations, std::atomic<uint64_t>& refused) {
  PoolThread<> mine(pool, self);
  LaneRandom random = LaneRandom::seeded(99, self);
  std::vector<uint32_t> held;
  uint64_t errors = 0, none = 0;
  uint32_t percent = 50;
  for (uint64_t i = 0; i < operations; ++i) {
    if (i % 100000 == 0) percent = 35 + random.below(31);
    if (held.empty() || random.below(100) < percent) {
      const uint32_t page = mine.get_page();
      if (page == kNoPage) {
        ++none;
        percent = 40;
        continue;
      }
      if (owner[page].exchange(self, std::memory_order_relaxed) != 0) ++errors;
      held.push_back(page);
    } else {
      std::swap(held[random.below(static_cast<uint32_t>(held.size()))], held.back());
      const uint32_t page = held.back();
      held.pop_back();
      if (owner[page].exchange(0, std::memory_order_relaxed) != self) ++errors;
      if (mine.free_page(page) != FreeResult::kFreed) ++errors;
    }
  }
  for (const uint32_t page : held) {
    if (owner[page].exchange(0) != self) ++errors;
    if (mine.free_page(page) != FreeResult::kFreed) ++errors;
  }
  refused += none;
  return errors;
}

class WalkPages {
 public:
  static constexpr const char* kName = "random_walk";
  struct Shared {
    PagePool<> pool{{.pages = kPages, .page_bytes = kPageBytes}};
  };
  WalkPages(Shared& shared, int self) : mine_(shared.pool, self) {}
  void* get() { return mine_.address(mine_.get_page()); }
  void put(void* page) { mine_.free_page(mine_.page_of(page)); }

 private:
  PoolThread<> mine_;
};

class MutexPages {
 public:
  static constexpr const char* kName = "mutex";
  struct Shared {
    std::mutex mutex;
    std::vector<void*> free;
    std::unique_ptr<unsigned char[]> memory{new unsigned char[size_t{kPages} * kPageBytes]};
    Shared() {
      for (uint32_t i = kPages; i-- > 0;) free.push_back(&memory[size_t{i} * kPageBytes]);
    }
  };
  MutexPages(Shared& shared, int) : shared_(shared) {}
  void* get() {
    const std::lock_guard lock(shared_.mutex);
    void* page = shared_.free.back();
    shared_.free.pop_back();
    return page;
  }
  void put(void* page) {
    const std::lock_guard lock(shared_.mutex);
    shared_.free.push_back(page);
  }

 private:
  Shared& shared_;
};

class MimallocPages {
 public:
  static constexpr const char* kName = "mimalloc";
  struct Shared {};
  MimallocPages(Shared&, int) {}
  void* get() { return mi_malloc(kPageBytes); }
  void put(void* page) { mi_free(page); }
};

// Each thread holds up to 1,000 pages; which is freed next is random.
template <class Pages>
void churn(Pages& pages, uint64_t seed, uint32_t operations) {
  LaneRandom random = LaneRandom::seeded(5, seed);
  std::vector<void*> held(1000);
  for (uint32_t i = 0; i < operations; ++i) {
    void*& slot = held[random.below(1000)];
    if (slot != nullptr) {
      pages.put(slot);
      slot = nullptr;
    } else {
      slot = pages.get();
      *static_cast<uint64_t*>(slot) = i;
    }
  }
  for (void* page : held) {
    if (page != nullptr) pages.put(page);
  }
}

// Takes 500 pages and frees them again, in the same order.
template <class Pages>
void batches(Pages& pages, uint64_t, uint32_t operations) {
  void* held[500];
  for (uint32_t i = 0; i < operations; i += 1000) {
    for (void*& slot : held) {
      slot = pages.get();
      *static_cast<uint64_t*>(slot) = i;
    }
    for (void* slot : held) pages.put(slot);
  }
}

// Nanoseconds that an operation takes a thread, by the clock, from when the first one begins until
// the last one ends.
template <class Pages, class Work>
double time_work(int threads, uint32_t operations, Work&& work) {
  using Clock = std::chrono::steady_clock;
  typename Pages::Shared shared;
  std::barrier start(threads);
  std::vector<Clock::time_point> begin(threads), end(threads);
  {
    std::vector<std::jthread> all;
    for (int self = 0; self < threads; ++self) {
      all.emplace_back([&, self] {
        Pages pages(shared, self);
        work(pages, self, operations / 10);  // warms up
        start.arrive_and_wait();
        begin[self] = Clock::now();
        work(pages, self, operations);
        end[self] = Clock::now();
      });
    }
  }
  const std::chrono::duration<double, std::nano> took =
      *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
  return took.count() / operations;
}

template <class Pages>
void race_round(const char* pattern, int threads, int round, uint32_t operations) {
  const double ns =
      std::string(pattern) == "random"
          ? time_work<Pages>(threads, operations,
                             [](auto& pages, int self, uint32_t n) { churn(pages, self, n); })
          : time_work<Pages>(threads, operations,
                             [](auto& pages, int self, uint32_t n) { batches(pages, self, n); });
  emit(
      R"({"kind": "race", "allocator": "%s", "pattern": "%s", "threads": %d, "round": %d, "ns": %.3f})",
      Pages::kName, pattern, threads, round, ns);
}

}  // namespace

uint64_t stress(uint64_t operations, int threads) {
  PagePool<> pool({.pages = kPages, .page_bytes = 1, .debug = true, .with_memory = false});
  std::vector<std::atomic<uint8_t>> owner(kPages);
  std::atomic<uint64_t> errors = 0, refused = 0;
  {
    std::vector<std::jthread> all;
    for (int self = 1; self <= threads; ++self) {
      all.emplace_back([&, self] {
        errors +=
            stress_thread(pool, owner, static_cast<uint8_t>(self), operations / threads, refused);
      });
    }
  }
  const uint32_t lost = kPages - pool.statistics().free;
  // Everything is found again, once.
  uint32_t found = 0;
  PoolThread<> last(pool, 1);
  for (uint32_t page = last.get_page(); page != kNoPage; page = last.get_page()) {
    if (owner[page].exchange(1) != 0) ++errors;
    ++found;
  }
  errors += lost + (kPages - found);
  emit(R"({"kind": "stress", "operations": %llu, "threads": %d, "pages": %u, "refused": %llu, )"
       R"("lost": %u, "found": %u, "errors": %llu})",
       static_cast<unsigned long long>(operations), threads, kPages,
       static_cast<unsigned long long>(refused.load()), lost, found,
       static_cast<unsigned long long>(errors.load()));
  return errors;
}

void race(int threads, int rounds) {
  constexpr uint32_t kOperations = 2'000'000;
  for (int round = 0; round < rounds; ++round) {
    for (const char* pattern : {"random", "batches"}) {
      race_round<WalkPages>(pattern, threads, round, kOperations);
      race_round<MimallocPages>(pattern, threads, round, kOperations);
      race_round<MutexPages>(pattern, threads, round, kOperations);
    }
  }
}

}  // namespace bench
