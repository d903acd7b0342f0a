// memalign, aligned_alloc, posix_memalign, valloc and pvalloc: alignments and sizes of every kind,
// odd ones too, answered as glibc answers them.
#include <errno.h>
#include <malloc.h>

#include "tests/programs/block.h"

namespace {

bool IsAligned(const void* pointer, size_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

void Check(void* pointer, size_t alignment, size_t size) {
  Require(pointer != nullptr && IsAligned(pointer, alignment), "alignment");
  Require(malloc_usable_size(pointer) >= size, "usable size");
  memset(pointer, 0x5a, size);
}

int Posix(size_t alignment, size_t size) {
  void* pointer = &pointer;
  errno = 77;
  const int result = posix_memalign(&pointer, alignment, size);
  if (result == 0) {
    Require(errno == 77, "posix_memalign leaves errno alone");
    Check(pointer, alignment, size);
    free(pointer);
  } else {
    Require(pointer == &pointer, "posix_memalign leaves the result alone when it fails");
  }
  return result;
}

}  // namespace

int main() {
  // Kept out of the compiler's sight: it knows which of these are wrong.
  volatile size_t odd = 24, zero = 0, not_power = 3, huge = SIZE_MAX - 100;
  for (size_t alignment = 8; alignment <= (1 << 21); alignment *= 2) {
    for (size_t size = 0; size < 70000; size = size * 3 + 1) {
      void* first = Use(memalign(alignment, size));
      void* second = Use(aligned_alloc(alignment, size));
      Check(first, alignment, size);
      Check(second, alignment, size);
      free(first);
      // An aligned block that is resized need not stay aligned, but keeps its bytes.
      auto* moved = static_cast<unsigned char*>(Use(realloc(second, size + 5000)));
      for (size_t i = 0; i < size; ++i) Require(moved[i] == 0x5a, "realloc of an aligned block");
      free(moved);
      Require(Posix(alignment, size) == 0, "posix_memalign");
    }
  }
  printf("posix_memalign: %d %d %d %d\n", Posix(odd, 10), Posix(zero, 10), Posix(4, 10),
         Posix(64, huge) == ENOMEM);

  void* rounded = Use(memalign(odd, 100));  // glibc rounds up to 32
  printf("memalign of 24: %d\n", IsAligned(rounded, 32));
  free(rounded);
  void* tiny = Use(memalign(not_power, 100));
  printf("memalign of 3: %d\n", IsAligned(tiny, 16));
  free(tiny);
  void* none = Use(memalign(zero, 100));
  printf("memalign of 0: %d\n", IsAligned(none, 16));
  free(none);
  errno = 0;
  printf("memalign too large: %d", Use(memalign(64, huge)) == nullptr);
  printf(" %s\n", strerrorname_np(errno));
  for (unsigned bit = 62; bit < 64; ++bit) {
    const size_t above = (size_t{1} << bit) + zero + 1;
    errno = 0;
    Require(Use(memalign(above, 100)) == nullptr, "memalign beyond all memory");
    printf("memalign above 2^%u: %s\n", bit, strerrorname_np(errno));
  }
  errno = 0;
  printf("aligned_alloc too large: %d", Use(aligned_alloc(64, huge)) == nullptr);
  printf(" %s\n", strerrorname_np(errno));

  void* page = Use(valloc(100));
  Check(page, 4096, 100);
  free(page);
  page = Use(pvalloc(100));
  Check(page, 4096, 4096);
  free(page);
  page = Use(pvalloc(zero));
  Require(page != nullptr, "pvalloc of 0");
  free(page);
  errno = 0;
  printf("pvalloc too large: %d", Use(pvalloc(huge)) == nullptr);
  printf(" %s\n", strerrorname_np(errno));
  return 0;
}
