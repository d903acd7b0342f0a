// The malloc of librandom_walk.so: blocks of all sizes and alignments, resized and freed by any
// thread, never overlap and keep their contents.
#include "random_walk/preload/heap.h"

#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace reprise::random_walk {
namespace {

// The sizes at which one way of serving ends and the next one begins.
constexpr size_t kEdges[] = {0,    1,     15,    16,     17,      1024,    1025,    7168,
                             7169, 28672, 28673, 131072, 1048575, 1048576, 1048577, 5000000};

struct Block {
  unsigned char* address = nullptr;
  size_t bytes = 0;
  unsigned char fill = 0;
};

// The first and last bytes tell as much as all of them would: blocks are contiguous.
void Fill(const Block& block) {
  const size_t head = std::min<size_t>(block.bytes, 64);
  if (head == 0) return;
  std::memset(block.address, block.fill, head);
  std::memset(block.address + block.bytes - head, block.fill, head);
}
bool Intact(const Block& block, size_t bytes) {
  const size_t head = std::min<size_t>({block.bytes, bytes, 64});
  for (size_t i = 0; i < head; ++i) {
    if (block.address[i] != block.fill) return false;
    if (bytes >= block.bytes && block.address[block.bytes - 1 - i] != block.fill) return false;
  }
  return true;
}

size_t DrawSize(std::mt19937& random) {
  switch (random() % 16) {
    case 0:
      return random() % 40000;
    case 1:
      return random() % 8 == 0 ? random() % 1500000 : random() % 200000;
    case 2:
      return kEdges[random() % std::size(kEdges)];
    default:
      return random() % (random() % 3 == 0 ? 1100 : 100);
  }
}

// One step of a life: allocate, resize or free. Returns the errors.
int Step(std::vector<Block>& held, std::mt19937& random, size_t most) {
  int errors = 0;
  const unsigned what = random() % 8;
  if (held.size() < most && (held.empty() || what < 4)) {
    Block block{nullptr, DrawSize(random), static_cast<unsigned char>(random())};
    size_t alignment = 16;
    if (what == 0) {
      alignment = size_t{1} << random() % 18;
      block.address = static_cast<unsigned char*>(heap::allocate_aligned(alignment, block.bytes));
    } else if (what == 1) {
      block.address = static_cast<unsigned char*>(heap::allocate_zeroed(block.bytes));
      for (size_t i = 0; i < std::min<size_t>(block.bytes, 3000); ++i)
        errors += block.address[i] != 0;
    } else {
      block.address = static_cast<unsigned char*>(heap::allocate(block.bytes));
    }
    errors +=
        block.address == nullptr || reinterpret_cast<uintptr_t>(block.address) % alignment != 0;
    errors += heap::usable_bytes(block.address) < block.bytes;
    Fill(block);
    held.push_back(block);
    return errors;
  }
  std::swap(held[random() % held.size()], held.back());
  Block& block = held.back();
  errors += !Intact(block, block.bytes);
  if (what == 4) {
    const size_t bytes = 1 + DrawSize(random);
    auto* moved = static_cast<unsigned char*>(heap::reallocate(block.address, bytes));
    errors += moved == nullptr || heap::usable_bytes(moved) < bytes;
    block.address = moved;
    errors += !Intact(block, bytes);
    block.bytes = bytes;
    Fill(block);
  } else {
    heap::release(block.address);
    held.pop_back();
  }
  return errors;
}

TEST(HeapTest, EachSizeIsServedWithRoomEnough) {
  for (const size_t bytes : kEdges) {
    void* block = heap::allocate(bytes);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 16, 0) << bytes;
    EXPECT_GE(heap::usable_bytes(block), bytes);
    EXPECT_LE(heap::usable_bytes(block), bytes + std::max<size_t>(16, bytes / 7)) << bytes;
    std::memset(block, 1, heap::usable_bytes(block));
    heap::release(block);
  }
}

TEST(HeapTest, WhatNoMachineHasIsRefused) {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, size_t{1} << 62, size_t{PTRDIFF_MAX}}) {
    EXPECT_EQ(heap::allocate(bytes), nullptr);
    EXPECT_EQ(heap::allocate_zeroed(bytes), nullptr);
    EXPECT_EQ(heap::allocate_aligned(64, bytes), nullptr);
    EXPECT_EQ(heap::allocate_aligned(1 << 20, bytes), nullptr);
    for (const size_t before : {size_t{10}, size_t{100000}, size_t{3} << 20}) {
      auto* block = static_cast<char*>(heap::allocate(before));
      block[before - 1] = 7;
      EXPECT_EQ(heap::reallocate(block, bytes), nullptr);
      EXPECT_EQ(block[before - 1], 7);
      heap::release(block);
    }
  }
  EXPECT_EQ(heap::allocate_aligned(size_t{1} << 62, 1), nullptr);
}

TEST(HeapTest, EveryAlignmentHoldsForEverySize) {
  for (size_t alignment = 1; alignment <= 8 << 20; alignment *= 2) {
    std::vector<void*> blocks;
    for (const size_t bytes : kEdges) {
      void* block = heap::allocate_aligned(alignment, bytes);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0) << alignment << " " << bytes;
      EXPECT_GE(heap::usable_bytes(block), bytes);
      blocks.push_back(block);
    }
    for (void* block : blocks) heap::release(block);
  }
}

TEST(HeapTest, ABlockGrowsWhereItIsWhenNothingLiesBehindIt) {
  void* block = heap::allocate(20000);
  void* smaller = heap::reallocate(block, 9000);
  EXPECT_EQ(smaller, block);
  EXPECT_EQ(heap::reallocate(block, 20000), block);
  heap::release(block);
}

TEST(HeapTest, BlocksKeepTheirContentsThroughALongLife) {
  std::mt19937 random(1);
  std::vector<Block> held;
  int errors = 0;
  for (int turn = 0; turn < 60000; ++turn) errors += Step(held, random, 2000);
  EXPECT_EQ(errors, 0);
  for (const Block& block : held) heap::release(block.address);
}

TEST(HeapTest, ThreadsShareTheHeapAndFreeEachOthersBlocks) {
  std::atomic<int> errors = 0;
  std::mutex mutex;
  std::vector<Block> shared;
  for (int round = 0; round < 3; ++round) {  // threads end, and others take what they kept
    std::vector<std::jthread> threads;
    for (int self = 0; self < 4; ++self) {
      threads.emplace_back([&, seed = round * 10 + self] {
        std::mt19937 random(seed);
        std::vector<Block> held;
        int mine = 0;
        for (int turn = 0; turn < 6000; ++turn) {
          mine += Step(held, random, 300);
          if (turn % 20 != 0 || held.empty()) continue;
          const std::lock_guard lock(mutex);
          if (shared.empty() || random() % 2 == 0) {
            shared.push_back(held.back());
            held.pop_back();
          } else {
            held.push_back(shared.back());
            shared.pop_back();
          }
        }
        for (const Block& block : held) {
          mine += !Intact(block, block.bytes);
          heap::release(block.address);
        }
        errors += mine;
      });
    }
  }
  for (const Block& block : shared) {
    errors += !Intact(block, block.bytes);
    heap::release(block.address);
  }
  EXPECT_EQ(errors, 0);
}

std::atomic<int> signal_errors = 0, signals = 0;

// Signals at any instant, on a small stack: the handler's blocks and the thread's never mix.
TEST(HeapTest, ASignalHandlerMayAllocate) {
  std::vector<char> memory(16 << 10);
  const stack_t stack{memory.data(), 0, memory.size()};
  stack_t before;
  ASSERT_EQ(sigaltstack(&stack, &before), 0);
  struct sigaction action = {}, old;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  action.sa_handler = [](int) {
    Block block{static_cast<unsigned char*>(heap::allocate(100)), 100, 9};
    if (block.address == nullptr) {
      ++signal_errors;
      return;
    }
    Fill(block);
    signal_errors += !Intact(block, 100);
    heap::release(block.address);
    ++signals;
  };
  ASSERT_EQ(sigaction(SIGALRM, &action, &old), 0);
  const itimerval every{{0, 200}, {0, 200}}, never{};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every, nullptr), 0);
  std::mt19937 random(1);
  std::vector<Block> held;
  int errors = 0;
  for (int turn = 0; turn < 400000 && (turn < 60000 || signals < 100); ++turn) {
    errors += Step(held, random, 500);
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  sigaltstack(&before, nullptr);
  for (const Block& block : held) heap::release(block.address);
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(signal_errors, 0);
  EXPECT_GT(signals, 0);
}

TEST(HeapTest, AForkedChildGoesOnAmongThreads) {
  std::atomic<bool> stop = false;
  std::jthread other([&] {
    std::mt19937 random(3);
    std::vector<Block> held;
    while (!stop) Step(held, random, 200);
    for (const Block& block : held) heap::release(block.address);
  });
  for (int turn = 0; turn < 10; ++turn) {
    const pid_t child = fork();
    if (child == 0) {
      std::mt19937 random(turn);
      Block held[100];
      int errors = 0;
      for (int i = 0; i < 3000; ++i) {
        Block& block = held[random() % 100];
        errors += !Intact(block, block.bytes);
        heap::release(block.address);
        block = {nullptr, DrawSize(random) % 30000, static_cast<unsigned char>(i)};
        block.address = static_cast<unsigned char*>(heap::allocate(block.bytes));
        Fill(block);
      }
      _exit(errors == 0 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
}

}  // namespace
}  // namespace reprise::random_walk
