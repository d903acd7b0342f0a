// What glibc says and does about its heap may be asked for under any malloc.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>

int main() {
  void* block = std::malloc(100000);
  const struct mallinfo2 info = mallinfo2();
  malloc_stats();
  std::FILE* nowhere = std::fopen("/dev/null", "w");
  const bool told = nowhere != nullptr && malloc_info(0, nowhere) == 0;
  std::printf("%d %d %d\n", told, malloc_trim(0) >= 0, info.arena + info.hblkhd > 0);
  std::free(block);
  return 0;
}
