// malloc and free that are looked up in libc itself, by a version of theirs or by none, and a
// failing posix_memalign, which leaves errno as glibc does.
#include <dlfcn.h>
#include <errno.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

int main() {
  void* libc = dlopen("libc.so.6", RTLD_LAZY);
#if defined(__x86_64__)
  const char* version = "GLIBC_2.2.5";
#else
  const char* version = "GLIBC_2.17";
#endif
  using Free = void (*)(void*);
  using Malloc = void* (*)(size_t);
  const auto versioned_free = reinterpret_cast<Free>(dlvsym(libc, "free", version));
  const auto versioned_malloc = reinterpret_cast<Malloc>(dlvsym(libc, "malloc", version));
  const auto plain_free = reinterpret_cast<Free>(dlsym(libc, "free"));
  if (versioned_free == nullptr || versioned_malloc == nullptr || plain_free == nullptr) return 2;
  for (size_t size = 1; size < 3000; ++size) {
    void* block = std::malloc(size);
    std::memset(block, 1, size);
    versioned_free(block);
    block = versioned_malloc(size);
    std::memset(block, 1, size);
    (size % 2 != 0 ? plain_free : std::free)(block);
  }
  std::printf("same: %d\n", versioned_free == plain_free);
  std::printf("next: %d, none: %d\n", dlvsym(RTLD_NEXT, "free", version) != nullptr,
              dlvsym(libc, "free", "GLIBC_9.9") != nullptr);
  // Compilers believe that the function itself does not touch errno.
  int (*volatile allocate)(void**, size_t, size_t) = posix_memalign;
  const size_t requests[][2] = {
      {64, size_t{1} << 62}, {3, 8}, {size_t{1} << 62, 8}, {64, 100}, {4096, SIZE_MAX}};
  for (const auto& [alignment, size] : requests) {
    void* pointer = nullptr;
    errno = EAGAIN;
    const int result = allocate(&pointer, alignment, size);
    std::printf("%d, errno %d, %s\n", result, errno, pointer != nullptr ? "a block" : "none");
    std::free(pointer);
  }
  return 0;
}
