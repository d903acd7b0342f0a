// A preload that does what every tracer by LD_PRELOAD must do at the least, and nothing else: the
// malloc family is called here, and passed on to whom it would have reached.
#include <dlfcn.h>
#include <stddef.h>

// A pointer leads to the next definition, and until the first call to what looks that up.
#define PASS_ON(result, name, parameters, ...)                                     \
  static result First_##name parameters;                                           \
  static result(*next_##name) parameters = First_##name;                           \
  static result First_##name parameters {                                          \
    next_##name = reinterpret_cast<result(*) parameters>(dlsym(RTLD_NEXT, #name)); \
    return next_##name(__VA_ARGS__);                                               \
  }                                                                                \
  extern "C" result name parameters { return next_##name(__VA_ARGS__); }

PASS_ON(void*, malloc, (size_t size), size)
PASS_ON(void, free, (void* pointer), pointer)
PASS_ON(void*, calloc, (size_t count, size_t size), count, size)
PASS_ON(void*, realloc, (void* pointer, size_t size), pointer, size)
PASS_ON(void*, reallocarray, (void* pointer, size_t count, size_t size), pointer, count, size)
PASS_ON(void*, memalign, (size_t alignment, size_t size), alignment, size)
PASS_ON(void*, aligned_alloc, (size_t alignment, size_t size), alignment, size)
PASS_ON(int, posix_memalign, (void** out, size_t alignment, size_t size), out, alignment, size)
PASS_ON(void*, valloc, (size_t size), size)
PASS_ON(void*, pvalloc, (size_t size), size)
PASS_ON(size_t, malloc_usable_size, (void* pointer), pointer)
