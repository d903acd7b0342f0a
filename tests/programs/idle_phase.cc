// idle_phase: a phase that needs much memory, and a long one that needs little. Its blocks grow by
// realloc and hold patterns, which are verified; then it says on standard error how much memory is
// resident.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

constexpr int kBlocks = 16000;
constexpr size_t kBytes = 1000;

long ResidentKiB() {
  char text[128] = {};
  const int fd = open("/proc/self/statm", O_RDONLY);
  if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) return 0;
  close(fd);
  const char* second = strchr(text, ' ');
  return second != nullptr ? strtol(second, nullptr, 10) * 4 : 0;
}

}  // namespace

int main() {
  static unsigned char* blocks[kBlocks];
  int broken = 0;
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = static_cast<unsigned char*>(malloc(kBytes));
    memset(blocks[i], i & 255, kBytes);
  }
  for (int i = 0; i < kBlocks; ++i) {
    for (size_t at = 0; at < kBytes; ++at) broken += blocks[i][at] != (i & 255) ? 1 : 0;
    free(blocks[i]);
  }
  size_t size = 16;
  auto* grows = static_cast<unsigned char*>(calloc(1, size));
  for (int i = 0; i < 400'000; ++i) {
    auto* brief = static_cast<unsigned char*>(malloc(64));
    memset(brief, 1, 64);
    asm volatile("" : : "g"(brief) : "memory");  // or the compiler leaves it out
    if (i % 1000 == 0) {
      grows = static_cast<unsigned char*>(realloc(grows, size + 16));
      memset(grows + size, static_cast<int>(size / 16), 16);
      size += 16;
    }
    free(brief);
  }
  for (size_t at = 0; at < size; ++at) broken += grows[at] != (at / 16 & 255) ? 1 : 0;
  free(grows);
  printf("%d broken\n", broken);
  fprintf(stderr, "%ld KiB resident\n", ResidentKiB());
  return broken == 0 ? 0 : 1;
}
