// A block of which some pages are replaced by a shared mapping, freed, and asked for again with
// calloc: it is zero, whatever lies there.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kBytes = 512 << 10;
constexpr size_t kShared = 64 << 10;

}  // namespace

int main() {
  const int file = memfd_create("shared", 0);
  if (file < 0 || ftruncate(file, kShared) != 0) return 77;
  size_t wrong = 0;
  void* before = std::malloc(100);
  for (int round = 0; round < 5; ++round) {
    auto* block = static_cast<unsigned char*>(std::calloc(1, kBytes));
    for (size_t i = 0; i < kBytes; ++i) wrong += block[i] != 0;
    const uintptr_t page = (reinterpret_cast<uintptr_t>(block) + kBytes / 2) & ~uintptr_t{4095};
    if (mmap(reinterpret_cast<void*>(page), kShared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             file, 0) == MAP_FAILED) {
      return 2;
    }
    std::memset(block, 0x55, kBytes);
    std::free(block);
  }
  std::free(before);
  std::printf("wrong: %zu\n", wrong);
  return 0;
}
