// What librandom_walk.so puts in the place of libc's malloc, one line for each function.
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "random_walk/preload/heap.h"

namespace heap = reprise::random_walk::heap;

namespace {

void* or_out_of_memory(void* block) {
  if (__builtin_expect(block == nullptr, 0)) errno = ENOMEM;
  return block;
}

bool is_alignment(size_t alignment) { return alignment != 0 && (alignment & (alignment - 1)) == 0; }

}  // namespace

#define EXPORT __attribute__((visibility("default")))

extern "C" {

EXPORT void* malloc(size_t bytes) noexcept { return or_out_of_memory(heap::allocate(bytes)); }

EXPORT void free(void* block) noexcept {
  const int kept = errno;
  heap::release(block);
  errno = kept;
}

EXPORT void* calloc(size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return or_out_of_memory(nullptr);
  return or_out_of_memory(heap::allocate_zeroed(bytes));
}

EXPORT void* realloc(void* block, size_t bytes) noexcept {
  if (block == nullptr) return malloc(bytes);
  if (bytes == 0) {
    free(block);
    return nullptr;
  }
  return or_out_of_memory(heap::reallocate(block, bytes));
}

EXPORT void* reallocarray(void* block, size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return or_out_of_memory(nullptr);
  return realloc(block, bytes);
}

EXPORT void* memalign(size_t alignment, size_t bytes) noexcept {
  if (!is_alignment(alignment)) {
    errno = EINVAL;
    return nullptr;
  }
  return or_out_of_memory(heap::allocate_aligned(alignment, bytes));
}

EXPORT void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return memalign(alignment, bytes);
}

EXPORT int posix_memalign(void** result, size_t alignment, size_t bytes) noexcept {
  if (!is_alignment(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int kept = errno;
  void* block = heap::allocate_aligned(alignment, bytes);
  errno = kept;
  if (block == nullptr) return ENOMEM;
  *result = block;
  return 0;
}

EXPORT void* valloc(size_t bytes) noexcept { return memalign(4096, bytes); }

EXPORT void* pvalloc(size_t bytes) noexcept {
  if (bytes > SIZE_MAX - 4095) return or_out_of_memory(nullptr);
  return memalign(4096, (bytes + 4095) / 4096 * 4096);
}

EXPORT size_t malloc_usable_size(void* block) noexcept { return heap::usable_bytes(block); }

}  // extern "C"
