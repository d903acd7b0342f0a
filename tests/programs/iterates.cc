// Threads that do the same in each iteration, which they mark: short blocks, some that the next
// iteration frees, and a ring of blocks that live for three.
//
//     iterates ITERATIONS [THREADS] [DIFFERENT]
//
// The iteration DIFFERENT, from 0, allocates what no other one does, in its middle.
#include <pthread.h>
#include <reprise/marks.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kShort = 40, kCarried = 7, kRing = 3, kMostThreads = 16;
long iterations = 3, different = -1;
uint64_t sums[kMostThreads];

struct Block {
  unsigned char* bytes;
  size_t size;
};

Block Take(size_t size, unsigned char fill) {
  Block block{static_cast<unsigned char*>(malloc(size)), size};
  memset(block.bytes, fill, size);
  return block;
}

// Its bytes must be what they were.
uint64_t Give(Block block, unsigned char fill) {
  uint64_t sum = 0;
  for (size_t i = 0; i < block.size; ++i) {
    if (block.bytes[i] != fill) {
      std::puts("a byte was overwritten");
      abort();
    }
    sum += block.bytes[i];
  }
  free(block.bytes);
  return sum;
}

uint64_t Different() {
  uint64_t sum = 0;
  Block blocks[60];
  for (size_t k = 0; k < 60; ++k) blocks[k] = Take(3000 + 31 * k, 9);
  for (Block& block : blocks) sum += Give(block, 9);
  return sum;
}

void* Work(void* argument) {
  const auto thread = reinterpret_cast<intptr_t>(argument);
  uint64_t sum = 0;
  Block carried[kCarried], ring[kRing];
  for (size_t k = 0; k < kCarried; ++k) carried[k] = Take(200 + 16 * k, 1);
  for (size_t k = 0; k < kRing; ++k) ring[k] = Take(5000, 2);
  for (long i = 0; i < iterations; ++i) {
    reprise_iteration();
    Block blocks[kShort];
    for (size_t k = 0; k < kShort; ++k) {
      blocks[k] = Take(24 + k % 9 * 40 + 8 * thread, 3);
      if (k == kShort / 2 && i == different) sum += Different();
      if (k % 3 == 2) sum += Give(blocks[k - 1], 3);
    }
    for (size_t k = 0; k < kCarried; ++k) {
      sum += Give(carried[k], 1);
      carried[k] = Take(200 + 16 * k, 1);
    }
    sum += Give(ring[0], 2);
    memmove(ring, ring + 1, (kRing - 1) * sizeof(Block));
    ring[kRing - 1] = Take(5000, 2);
    for (size_t k = 0; k < kShort; ++k) {
      if (k % 3 != 1) sum += Give(blocks[k], 3);
    }
    if (kShort % 3 == 2) sum += Give(blocks[kShort - 1], 3);
  }
  for (Block& block : carried) sum += Give(block, 1);
  for (Block& block : ring) sum += Give(block, 2);
  sums[thread] = sum;
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) iterations = atol(argv[1]);
  const long threads = argc > 2 ? atol(argv[2]) : 1;
  if (argc > 3) different = atol(argv[3]);
  if (threads < 1 || threads > kMostThreads) return 2;
  pthread_t handles[kMostThreads];
  for (intptr_t i = 1; i < threads; ++i) {
    pthread_create(&handles[i], nullptr, Work, reinterpret_cast<void*>(i));
  }
  Work(nullptr);
  for (long i = 1; i < threads; ++i) pthread_join(handles[i], nullptr);
  uint64_t sum = 0;
  for (long i = 0; i < threads; ++i) sum = sum * 31 + sums[i];
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
