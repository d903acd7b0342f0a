// Memory for the command's large arrays. Recordings and plans of millions of blocks are read in all
// orders, and a page of 4 KiB for each access costs the processor as much as the access; so does
// getting them from the system one by one. Large arrays are advised to use huge pages.
#include "cli/large_arrays.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/page.h"

namespace {

constexpr size_t kLarge = 4 << 20;
constexpr size_t kPage = reprise::base::kPageBytes;

void* Get(size_t bytes, size_t alignment) {
  void* memory = nullptr;
  while (posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) != 0) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
  if (bytes >= kLarge) {
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) & -kPage;
    const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) & -kPage;
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
  return memory;
}

}  // namespace

namespace reprise::cli {

void ReturnLargeArrays() {
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, 2 * kLarge);
}

}  // namespace reprise::cli

// Of each form there is one more without exceptions, as of delete: a library that asks for memory
// that way must not get it from elsewhere than where it is given back.
void* operator new(size_t bytes) { return Get(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Get(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return Get(bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  try {
    return Get(bytes, static_cast<size_t>(alignment));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
