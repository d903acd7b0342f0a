// A malloc on RW_malloc. Hook-safe: no C++ runtime, no lock, no allocation from itself.
//
//   up to 28,672 bytes     runs of 16-byte units
//   up to 1 MiB            runs of 4 KiB units
//   above                  mappings of their own, with a page in front that says how long they are
//
// A thread takes up to 8 runs of a small size at once (the requests of a warp) and keeps some that
// it frees, up to 8 KiB each. Functions return null when memory is out; they leave errno alone.
#ifndef REPRISE_RANDOM_WALK_PRELOAD_HEAP_H_
#define REPRISE_RANDOM_WALK_PRELOAD_HEAP_H_

#include <stddef.h>

namespace reprise::random_walk::heap {

// Aligned to 16 bytes.
void* allocate(size_t bytes);
// `alignment`: a power of 2.
void* allocate_aligned(size_t alignment, size_t bytes);
void* allocate_zeroed(size_t bytes);
// As realloc; `block` is not null and `bytes` not 0. Null: out of memory, the block is as before.
void* reallocate(void* block, size_t bytes);
void release(void* block);
// Bytes that may be used; at least what was requested.
size_t usable_bytes(const void* block);

}  // namespace reprise::random_walk::heap

#endif  // REPRISE_RANDOM_WALK_PRELOAD_HEAP_H_
