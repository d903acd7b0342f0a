// An allocator that may be used in a signal handler, which glibc's may not. The program that links
// it has it below the recorder, so that what breaks under signals is the recorder's fault.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

namespace {

constexpr size_t kBytes = size_t{8} << 30;
char* begin = nullptr;
uint64_t used = 0;

// Nothing is used again: 8 GiB of addresses outlast the test.
void* Take(size_t alignment, size_t size) {
  char* base = __atomic_load_n(&begin, __ATOMIC_ACQUIRE);
  if (base == nullptr) {
    void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char* expected = nullptr;
    base = static_cast<char*>(mapped);
    if (!__atomic_compare_exchange_n(&begin, &expected, base, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      munmap(mapped, kBytes);
      base = expected;
    }
  }
  if (alignment < 16) alignment = 16;
  const uint64_t need = ((size + 15) & ~size_t{15}) + 16 + alignment;
  const uint64_t at = __atomic_fetch_add(&used, need, __ATOMIC_RELAXED);
  if (at + need > kBytes) {
    errno = ENOMEM;
    return nullptr;
  }
  const uint64_t block = (reinterpret_cast<uint64_t>(base) + at + 16 + alignment - 1) & -alignment;
  *reinterpret_cast<size_t*>(block - 16) = size;
  return reinterpret_cast<void*>(block);
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT void* malloc(size_t size) { return Take(16, size); }
// The same by a name that no recorder knows (foreign_free.cc).
EXPORT void* private_malloc(size_t size) { return Take(16, size); }
EXPORT void* calloc(size_t count, size_t size) { return Take(16, count * size); }
EXPORT void* memalign(size_t alignment, size_t size) { return Take(alignment, size); }
EXPORT void* aligned_alloc(size_t alignment, size_t size) { return Take(alignment, size); }
EXPORT void* valloc(size_t size) { return Take(4096, size); }
EXPORT void* pvalloc(size_t size) { return Take(4096, (size + 4095) & ~size_t{4095}); }
EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
  *out = Take(alignment, size);
  return *out != nullptr ? 0 : ENOMEM;
}
EXPORT void free(void*) {}
EXPORT size_t malloc_usable_size(void* pointer) {
  return pointer != nullptr ? reinterpret_cast<size_t*>(pointer)[-2] : 0;
}
EXPORT void* realloc(void* pointer, size_t size) {
  void* fresh = Take(16, size);
  const size_t before = malloc_usable_size(pointer);
  if (fresh != nullptr && pointer != nullptr) {
    memcpy(fresh, pointer, before < size ? before : size);
  }
  return fresh;
}
