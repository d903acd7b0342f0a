#include "interpose/replay/fallback.h"

#include <errno.h>
#include <limits.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>

#include "base/mutex.h"
#include "base/system_call.h"
#include "interpose/process/address_map.h"
#include "interpose/process/modules.h"
#include "interpose/process/shared_page.h"
#include "interpose/process/thread_state.h"

namespace reprise::interpose {
namespace {

enum ArenaState : int { kNotMade = 0, kMade, kRefused };

REPRISE_SHARED_PAGE constinit replay::Mutex arena_lock;
REPRISE_SHARED_PAGE int arena_state;
REPRISE_SHARED_PAGE mi_arena_id_t arena_id;
REPRISE_SHARED_PAGE void* freed_later;  // atomic: list of blocks, linked through their first words

bool MakeArena() {
  int state = __atomic_load_n(&arena_state, __ATOMIC_ACQUIRE);
  if (state != kNotMade) return state == kMade;
  const SignalBlock block;
  arena_lock.Lock();
  state = arena_state;
  if (state == kNotMade) {
    const bool sizes = MapMemory(kFallbackSizes.begin, kFallbackSizes.bytes) != nullptr;
    // Exclusive: mimalloc's own mappings lie at random addresses, these blocks must not. Not
    // committed: mimalloc makes what it needs of our reservation writable, and gives back what
    // threads have left. A core file has no more than that.
    state =
        sizes && mi_manage_os_memory_ex(reinterpret_cast<void*>(kFallback.begin), kFallback.bytes,
                                        /*is_committed=*/false,
                                        /*is_large=*/false, /*is_zero=*/true, /*numa_node=*/-1,
                                        /*exclusive=*/true, &arena_id)
            ? kMade
            : kRefused;
    __atomic_store_n(&arena_state, state, __ATOMIC_RELEASE);
  }
  arena_lock.Unlock();
  return state == kMade;
}

void FreeWhatWasLeft() {
  void* at = __atomic_exchange_n(&freed_later, nullptr, __ATOMIC_ACQUIRE);
  while (at != nullptr) {
    void* next = *static_cast<void**>(at);
    mi_free(at);
    at = next;
  }
}

}  // namespace

void* FallbackAllocate(size_t size, size_t alignment, bool zero) {
  if (size > PTRDIFF_MAX) {
    errno = ENOMEM;
    return nullptr;
  }
  const int before = errno;
  mi_heap_t*& heap = alignment <= 16 ? this_thread.heap : this_thread.aligned_heap;
  if (heap == nullptr && MakeArena()) heap = mi_heap_new_in_arena(arena_id);
  if (__atomic_load_n(&freed_later, __ATOMIC_RELAXED) != nullptr) FreeWhatWasLeft();
  void* pointer = nullptr;
  if (heap != nullptr && alignment <= 16) {
    const size_t short_size = ShortSize(size);
    if (short_size != 0) size = kShort.bytes[short_size];
    pointer = zero ? mi_heap_zalloc(heap, size) : mi_heap_malloc(heap, size);
    if (pointer != nullptr) NoteFallbackSize(pointer, short_size);
  } else if (heap != nullptr) {
    // mimalloc 2.0.9 takes blocks whose size is a power of two for naturally aligned, which they
    // need not be: any other size goes another way there.
    if (size < 16 || (size & (size - 1)) == 0) size += 16;
    pointer = zero ? mi_heap_zalloc_aligned(heap, size, alignment)
                   : mi_heap_malloc_aligned(heap, size, alignment);
    if (pointer != nullptr) NoteFallbackSize(pointer, kHasHadAligned);
  }
  errno = pointer != nullptr ? before : ENOMEM;
  return pointer;
}

void FallbackFreeLater(void* pointer) {
  this_thread.resting = nullptr;
  void* head = __atomic_load_n(&freed_later, __ATOMIC_RELAXED);
  do {
    *static_cast<void**>(pointer) = head;
  } while (!__atomic_compare_exchange_n(&freed_later, &head, pointer, /*weak=*/true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

size_t FallbackUsable(const void* pointer) { return mi_usable_size(pointer); }

// As of mimalloc 2; other versions may put blocks of several sizes side by side.
bool FallbackMakeCache() {
  constexpr int kKnownVersion = 2;
  if (this_thread.cache == nullptr && this_thread.heap != nullptr &&
      mi_version() / 100 == kKnownVersion) {
    this_thread.cache =
        static_cast<FallbackCache*>(mi_heap_zalloc(this_thread.heap, sizeof(FallbackCache)));
  }
  return this_thread.cache != nullptr;
}

void FallbackCache::Clear() {
  for (Blocks& blocks : blocks_) {
    while (void* pointer = blocks.first) {
      blocks.first = *static_cast<void**>(pointer);
      mi_free(pointer);
    }
  }
}

void FallbackLeave() {
  if (FallbackCache* cache = this_thread.cache; cache != nullptr) {
    this_thread.cache = nullptr;
    cache->Clear();
    mi_free(cache);
  }
  this_thread.heap = nullptr;
  this_thread.aligned_heap = nullptr;
}

// mimalloc keeps the thread's heap under a key of its own, whose destructor would tidy up at the
// thread's end.
void FallbackForget() {
  this_thread.heap = nullptr;
  this_thread.aligned_heap = nullptr;
  this_thread.cache = nullptr;
  const void* heap = mi_heap_get_default();
  for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; ++key) {
    if (pthread_getspecific(key) == heap) pthread_setspecific(key, nullptr);
  }
}

void DropFallbackCode() { DropCleanPages(reinterpret_cast<const void*>(&mi_free)); }
void MapFallbackCodeInPieces() { MapCodeInPieces(reinterpret_cast<const void*>(&mi_free)); }

}  // namespace reprise::interpose
