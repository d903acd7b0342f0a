// micro_malloc: five small loops over malloc and free. Checksums of what the blocks held go to
// standard output and do not depend on the allocator; times go to standard error. An event is one
// malloc or one free.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"

ABSL_FLAG(uint64_t, events, 2'000'000, "mallocs and frees per case; large: a thousandth of it");
ABSL_FLAG(uint64_t, perturbed, 0, "live_set: requests in a million with another size");

namespace {

struct Outcome {
  uint64_t events = 0;
  uint64_t checksum = 0;
};

// xorshift64* (Vigna 2016): cheap enough not to drown the allocator in a benchmark of it.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
  }

 private:
  uint64_t state_;
};

// Keeps the compiler from removing a malloc together with its free.
void Escape(void* pointer) { asm volatile("" : : "g"(pointer) : "memory"); }

void* Allocate(size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) {
    std::fprintf(stderr, "micro_malloc: out of memory\n");
    std::_Exit(1);
  }
  Escape(block);
  return block;
}

uint64_t ReadWord(const void* block) {
  uint64_t word;
  std::memcpy(&word, block, sizeof(word));
  return word;
}

void WriteWord(void* block, uint64_t word) { std::memcpy(block, &word, sizeof(word)); }

// Of so many requests of the live set in a million the size is another one, a different choice of
// them in every run that asks for another share: what a plan meets when the input changed.

// A live set of 10,000 blocks of 16 to 1024 bytes; each step replaces a random one.
Outcome LiveSet(uint64_t events) {
  constexpr size_t kLive = 10'000;
  Random random(1);
  const uint64_t perturbed = absl::GetFlag(FLAGS_perturbed);
  Random chance(perturbed + 5);
  const auto fresh = [&random, &chance, perturbed] {
    uint64_t size = 16 + random() % 1009;
    if (perturbed != 0 && chance() % 1'000'000 < perturbed) size = 16 + chance() % 1009;
    void* block = Allocate(size);
    WriteWord(block, size);
    return block;
  };
  std::vector<void*> live(kLive);
  for (void*& block : live) block = fresh();
  Outcome outcome;
  for (uint64_t i = 0; i < events / 2; ++i) {
    void*& block = live[random() % kLive];
    outcome.checksum += ReadWord(block) * (i + 1);
    std::free(block);
    block = fresh();
  }
  for (void* block : live) std::free(block);
  outcome.events = events / 2 * 2 + 2 * kLive;
  return outcome;
}

// One thread allocates, the other frees. They meet once per batch, so that it is the allocator that
// is measured and not the hand-over.
Outcome CrossThread(uint64_t events) {
  constexpr uint64_t kBatch = 256;
  constexpr uint64_t kRing = 16 * kBatch;
  std::vector<void*> ring(kRing);
  std::atomic<uint64_t> made{0};
  std::atomic<uint64_t> freed{0};
  const uint64_t blocks = events / 2 / kBatch * kBatch;
  Outcome outcome;
  std::jthread consumer([&] {
    for (uint64_t i = 0; i < blocks; ++i) {
      while (made.load(std::memory_order_acquire) <= i) std::this_thread::yield();
      void* block = ring[i % kRing];
      outcome.checksum += ReadWord(block) * (i + 1);
      std::free(block);
      if ((i + 1) % kBatch == 0) freed.store(i + 1, std::memory_order_release);
    }
  });
  Random random(2);
  for (uint64_t i = 0; i < blocks; ++i) {
    while (i - freed.load(std::memory_order_acquire) >= kRing) std::this_thread::yield();
    const uint64_t size = 16 + random() % 1009;
    void* block = Allocate(size);
    WriteWord(block, size);
    ring[i % kRing] = block;
    if ((i + 1) % kBatch == 0) made.store(i + 1, std::memory_order_release);
  }
  consumer.join();
  outcome.events = 2 * blocks;
  return outcome;
}

// The best case of every free list: 64 bytes, freed at once.
Outcome Lifo(uint64_t events) {
  Outcome outcome;
  for (uint64_t i = 0; i < events / 2; ++i) {
    void* block = Allocate(64);
    WriteWord(block, i);
    outcome.checksum += ReadWord(block);
    std::free(block);
  }
  outcome.events = events / 2 * 2;
  return outcome;
}

// Blocks of 64 KiB to 4 MiB, eight alive, every page touched: page faults and trimming.
Outcome Large(uint64_t events) {
  constexpr size_t kLive = 8;
  constexpr size_t kPage = 4096;
  Random random(4);
  std::array<char*, kLive> live{};
  Outcome outcome;
  for (uint64_t i = 0; i < events / 2; ++i) {
    char*& block = live[i % kLive];
    if (block != nullptr) outcome.checksum += ReadWord(block);
    std::free(block);
    const size_t size = (64 << 10) + random() % ((4 << 20) - (64 << 10));
    block = static_cast<char*>(Allocate(size));
    for (size_t at = 0; at < size; at += kPage) block[at] = 1;
    WriteWord(block, size);
  }
  for (char* block : live) std::free(block);
  outcome.events = events / 2 * 2;
  return outcome;
}

// Four workers pull tasks from a queue, a few at a time. Which worker gets a task is up to the
// scheduler, what it does is not: a handful of allocations, some of which outlive the task and are
// freed by whichever worker runs a task later on.
class TaskQueue {
 public:
  explicit TaskQueue(uint64_t tasks) : tasks_(tasks), left_over_(kAhead) {}

  void Work() {
    for (;;) {
      const uint64_t first = next_.fetch_add(kBatch, std::memory_order_relaxed);
      if (first >= tasks_) return;
      const uint64_t last = std::min(first + kBatch, tasks_);
      for (uint64_t task = first; task < last; ++task) Perform(task);
    }
  }

  // What the last tasks left.
  void Finish() {
    for (std::atomic<void*>& place : left_over_) Take(place);
  }

  Outcome outcome() const { return {tasks_ * 2 * kBlocks, checksum_.load()}; }

 private:
  static constexpr uint64_t kBlocks = 6;   // of a task
  static constexpr uint64_t kBatch = 16;   // tasks, so that the queue is not what is measured
  static constexpr uint64_t kAhead = 512;  // places for blocks that are handed on

  void Perform(uint64_t task) {
    Random random(task + 1);
    std::array<void*, kBlocks> blocks;
    for (void*& block : blocks) {
      const uint64_t size = 16 + random() % (random() % 8 == 0 ? 2032 : 240);
      block = Allocate(size);
      WriteWord(block, size);
    }
    Take(left_over_[task % kAhead], blocks[0]);
    uint64_t sum = 0;
    for (uint64_t i = 1; i < kBlocks; ++i) {
      sum += ReadWord(blocks[i]);
      std::free(blocks[i]);
    }
    checksum_.fetch_add(sum, std::memory_order_relaxed);
  }

  // Frees what an earlier task left, and leaves something else.
  void Take(std::atomic<void*>& place, void* instead = nullptr) {
    void* block = place.exchange(instead, std::memory_order_acq_rel);
    if (block == nullptr) return;
    checksum_.fetch_add(ReadWord(block), std::memory_order_relaxed);
    std::free(block);
  }

  const uint64_t tasks_;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> checksum_{0};
  std::vector<std::atomic<void*>> left_over_;
};

Outcome Queue(uint64_t events) {
  constexpr int kWorkers = 4;
  TaskQueue queue(events / 12);
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < kWorkers; ++i) workers.emplace_back([&queue] { queue.Work(); });
  }
  queue.Finish();
  return queue.outcome();
}

struct Case {
  const char* name;
  Outcome (*run)(uint64_t events);
  uint64_t divisor;  // a large block costs as much as many small ones
};

constexpr Case kCases[] = {{"live_set", LiveSet, 1},
                           {"cross_thread", CrossThread, 1},
                           {"lifo", Lifo, 1},
                           {"large", Large, 1000},
                           {"queue", Queue, 1}};

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void Measure(const Case& which, uint64_t events) {
  const double cpu_before = CpuSeconds();
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = which.run(events / which.divisor);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  const double cpu = CpuSeconds() - cpu_before;
  std::printf("%-12s events %" PRIu64 " checksum %016" PRIx64 "\n", which.name, outcome.events,
              outcome.checksum);
  std::fprintf(stderr, "%-12s %.2f ns per event, %.6f s wall, %.6f s CPU\n", which.name,
               1e9 * wall.count() / static_cast<double>(outcome.events), wall.count(), cpu);
}

int Refuse(const char* reason) {
  std::fprintf(stderr, "micro_malloc: %s\n", reason);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Five small loops over malloc and free: micro_malloc "
      "[live_set|cross_thread|lifo|large|queue]...");
  std::vector<char*> names = absl::ParseCommandLine(argc, argv);
  names.erase(names.begin());
  const uint64_t events = absl::GetFlag(FLAGS_events);
  if (events < 2000) return Refuse("--events: expected 2000 or more");
  for (const std::string_view name : names) {
    const auto is_named = [&](const Case& which) { return name == which.name; };
    if (std::none_of(std::begin(kCases), std::end(kCases), is_named)) return Refuse("unknown case");
  }
  for (const Case& which : kCases) {
    bool wanted = names.empty();
    for (const std::string_view name : names) wanted = wanted || name == which.name;
    if (wanted) Measure(which, events);
  }
  return 0;
}
