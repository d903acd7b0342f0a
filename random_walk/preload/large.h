// Blocks with a mapping of their own. The page in front of the block describes the mapping.
#ifndef REPRISE_RANDOM_WALK_PRELOAD_LARGE_H_
#define REPRISE_RANDOM_WALK_PRELOAD_LARGE_H_

#include <stddef.h>
#include <stdint.h>

namespace reprise::random_walk::large {

inline constexpr size_t kPage = 4096;

// Zeroed. `alignment`: a power of 2. Null: out of memory.
void* allocate(size_t alignment, size_t bytes);
void* reallocate(void* block, size_t bytes);
// What is no block of this kind is left alone.
void release(void* block);
size_t usable_bytes(const void* block);

}  // namespace reprise::random_walk::large

#endif  // REPRISE_RANDOM_WALK_PRELOAD_LARGE_H_
