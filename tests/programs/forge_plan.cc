// forge_plan PLAN [loop]: makes the second block of a plan's first lane lie where the first one is,
// and the checksum right, as somebody would who wants two live blocks to share an address. `loop`:
// lets the first loop's body begin a word later, so that a pass leaves other blocks live than it
// found.
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

namespace {

constexpr size_t kChecksum = 16, kLanes = 104, kWords = 120, kLoops = 192;  // bytes into the header

uint64_t At(const std::string& bytes, size_t offset) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

bool ForgeLoop(std::string& bytes) {
  uint32_t loop[3];  // first word, words, words of a period
  const size_t at = At(bytes, kLoops);
  if (At(bytes, kLoops + 8) == 0) return false;
  std::memcpy(loop, bytes.data() + at, sizeof(loop));
  ++loop[0];
  loop[2] = --loop[1];
  std::memcpy(bytes.data() + at, loop, sizeof(loop));
  return true;
}

bool ForgeBlock(std::string& bytes) {
  const size_t lane = At(bytes, kLanes);
  const size_t words = At(bytes, kWords) + At(bytes, lane + 24) * sizeof(uint32_t);
  const auto offset_bits = static_cast<uint32_t>(At(bytes, lane + 72) & 0xffff);
  uint32_t first = 0, word = 0;
  bool forged = false;
  for (size_t at = words; at + 4 <= bytes.size() && !forged; at += 4) {
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    const uint32_t mask = (1u << offset_bits) - 1;
    const bool allocates = word >> 31 == 0 && word >> offset_bits != 0x7fffffffu >> offset_bits;
    if (allocates && first != 0 && (word & mask) != (first & mask)) {
      word = (word & ~mask) | (first & mask);
      std::memcpy(bytes.data() + at, &word, sizeof(word));
      forged = true;
    }
    first = allocates ? word : 0;
  }
  return forged;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (bytes.size() < 256) return 2;
  const bool forged = argc == 3 ? ForgeLoop(bytes) : ForgeBlock(bytes);
  std::memset(bytes.data() + kChecksum, 0, 8);
  const uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  std::memcpy(bytes.data() + kChecksum, &checksum, sizeof(checksum));
  std::ofstream(argv[1], std::ios::binary) << bytes;
  return forged ? 0 : 1;
}
