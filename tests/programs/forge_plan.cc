// forge_plan PLAN: makes the second block of a plan's first lane lie where the first one is, and
// the checksum right, as somebody would who wants two live blocks to share an address.
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

namespace {

constexpr size_t kChecksum = 16, kLanes = 104, kWords = 120;  // bytes into the header

uint64_t At(const std::string& bytes, size_t offset) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (bytes.size() < 256) return 2;
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
  std::memset(bytes.data() + kChecksum, 0, 8);
  const uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  std::memcpy(bytes.data() + kChecksum, &checksum, sizeof(checksum));
  std::ofstream(argv[1], std::ios::binary) << bytes;
  return forged ? 0 : 1;
}
