// The allocator that the program would use without us: the next definition in the loader's order
// (glibc's, or jemalloc's when the program brings it).
#ifndef REPRISE_INTERPOSE_PROCESS_REAL_H_
#define REPRISE_INTERPOSE_PROCESS_REAL_H_

#include <pthread.h>
#include <spawn.h>
#include <stddef.h>

namespace reprise::interpose {

struct Real {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
  size_t (*malloc_usable_size)(void*);
  int (*pthread_create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
};

extern __attribute__((visibility("hidden"))) Real real;

// Looks all of them up. The look-up itself may allocate: it must run while hooks are served from
// the side heap.
void FindReal();

// The next definition of `name` after this library; null when there is none.
void* NextSymbol(const char* name);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_REAL_H_
