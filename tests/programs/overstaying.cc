// overstaying: does what the file "how" in its folder says, so that runs differ although their
// command lines are the same.
//   phases KEPT   phases that allocate blocks and free them; KEPT blocks of each live on for some
//                 phases more
//   mixed SEED    long-lived blocks that come and go in the order of SEED, and between them blocks
//                 of another call site that are freed at once
// Every block holds a pattern that is verified before it is freed.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

struct Block {
  unsigned char* bytes;
  size_t size;
  unsigned char pattern;
};

bool broken = false;

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Block Filled(void* pointer, size_t size, uint64_t pattern) {
  const Block block = {static_cast<unsigned char*>(pointer), size,
                       static_cast<unsigned char>(pattern)};
  memset(block.bytes, block.pattern, size);
  return block;
}

void Drop(Block& block) {
  if (block.bytes == nullptr) return;
  for (size_t i = 0; i < block.size; ++i) broken = broken || block.bytes[i] != block.pattern;
  free(block.bytes);
  block.bytes = nullptr;
}

__attribute__((noinline)) Block PhaseBlock(size_t size, uint64_t pattern) {
  return Filled(malloc(size), size, pattern);
}
// Patterns of their own, or the compiler makes one function of them.
__attribute__((noinline)) Block LongLived(size_t size, uint64_t pattern) {
  return Filled(malloc(size), size, pattern + 1);
}
__attribute__((noinline)) Block FreedAtOnce(size_t size, uint64_t pattern) {
  // Aligned: places that were freed a moment ago are kept for plain requests only.
  return Filled(aligned_alloc(64, size), size, pattern + 2);
}

void Phases(int kept) {
  constexpr int kPhases = 60;
  constexpr int kBlocks = 400;
  constexpr int kLonger = 6;  // phases
  static Block blocks[kPhases][kBlocks];
  for (int phase = 0; phase < kPhases; ++phase) {
    for (int i = 0; i < kBlocks; ++i) {
      blocks[phase][i] = PhaseBlock(16 + Mix(phase * 1000 + i) % 500, i);
    }
    if (phase >= kLonger) {
      for (Block& block : blocks[phase - kLonger]) Drop(block);
    }
    for (int i = 0; i < kBlocks; ++i) {
      if ((i + phase) % 100 != 7 || i / 100 >= kept) Drop(blocks[phase][i]);
    }
  }
  for (auto& phase : blocks) {
    for (Block& block : phase) Drop(block);
  }
}

void Mixed(uint64_t seed) {
  static Block held[300];
  for (uint64_t step = 0; step < 30000; ++step) {
    const uint64_t chance = Mix(seed * 1000003 + step);
    Block& block = held[chance % 300];
    Drop(block);
    block = LongLived(16 + (chance >> 20) % 8 * 16, chance >> 32);
    Block brief = FreedAtOnce(64, step);
    Drop(brief);
  }
  for (Block& block : held) Drop(block);
}

}  // namespace

int main() {
  char how[64] = {};
  const int fd = open("how", O_RDONLY);
  if (fd < 0 || read(fd, how, sizeof(how) - 1) <= 0) return 2;
  close(fd);
  if (strncmp(how, "phases ", 7) == 0) {
    Phases(atoi(how + 7));
  } else {
    Mixed(strtoull(how + 6, nullptr, 10));
  }
  puts(broken ? "blocks were overwritten" : "every block kept its bytes");
  return broken ? 1 : 0;
}
