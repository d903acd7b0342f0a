// What the programs share: blocks of memory that are filled with a pattern of their own, so that
// a block which another one overlaps is found out.
#ifndef REPRISE_TESTS_PROGRAMS_BLOCK_H_
#define REPRISE_TESTS_PROGRAMS_BLOCK_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Hides a pointer from the optimiser, which would remove an allocation that nobody looks at.
template <typename T>
T* Use(T* pointer) {
  asm volatile("" : "+r"(pointer)::"memory");
  return pointer;
}

inline void Require(bool condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "failed: %s\n", what);
  _Exit(99);
}

struct Block {
  unsigned char* bytes = nullptr;
  size_t size = 0;
  unsigned char pattern = 0;
};

inline void Fill(Block& block, size_t from) {
  memset(block.bytes + from, block.pattern, block.size - from);
}

inline Block Allocate(size_t size, unsigned seed) {
  Block block{static_cast<unsigned char*>(Use(malloc(size))), size,
              static_cast<unsigned char>(seed * 37 + 11)};
  Require(block.bytes != nullptr, "malloc");
  Fill(block, 0);
  return block;
}

inline void Verify(const Block& block) {
  for (size_t i = 0; i < block.size; ++i) {
    Require(block.bytes[i] == block.pattern, "a block was overwritten");
  }
}

inline void Release(Block& block) {
  Verify(block);
  free(block.bytes);
  block.bytes = nullptr;
}

inline void Resize(Block& block, size_t size) {
  Verify(block);
  block.bytes = static_cast<unsigned char*>(Use(realloc(block.bytes, size)));
  Require(block.bytes != nullptr, "realloc");
  const size_t kept = size < block.size ? size : block.size;
  block.size = kept;
  Verify(block);
  block.size = size;
  Fill(block, kept);
}

// A small generator: the same numbers in every run.
struct Random {
  uint64_t state;
  uint32_t operator()(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33) % below;
  }
};

// Allocates, resizes and frees at random; true when no block was ever touched by another.
inline void Churn(unsigned seed, int rounds, uint32_t largest = 2000) {
  constexpr int kLive = 64;
  Block live[kLive];
  Random random{seed};
  for (int round = 0; round < rounds; ++round) {
    Block& block = live[random(kLive)];
    if (block.bytes == nullptr) {
      block = Allocate(1 + random(largest), seed + round);
    } else if (random(4) == 0) {
      Resize(block, 1 + random(largest));
    } else {
      Release(block);
    }
  }
  for (Block& block : live) {
    if (block.bytes != nullptr) Release(block);
  }
}

#endif  // REPRISE_TESTS_PROGRAMS_BLOCK_H_
