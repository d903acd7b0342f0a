#include "interpose/fallback.h"

#include <errno.h>
#include <limits.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>

#include "interpose/address_map.h"
#include "interpose/modules.h"
#include "interpose/system_call.h"
#include "interpose/thread_state.h"
#include "replay/arena/mutex.h"

namespace reprise::interpose {
namespace {

enum ArenaState : int { kNotMade = 0, kMade, kRefused };

constinit replay::Mutex arena_lock;
int arena_state;
mi_arena_id_t arena_id;
void* freed_later;  // atomic: list of blocks, linked through their first words

bool MakeArena() {
  int state = __atomic_load_n(&arena_state, __ATOMIC_ACQUIRE);
  if (state != kNotMade) return state == kMade;
  const SignalBlock block;
  arena_lock.Lock();
  state = arena_state;
  if (state == kNotMade) {
    // Exclusive: mimalloc's own mappings lie at random addresses, these blocks must not. Not
    // committed: mimalloc makes what it needs of our reservation writable, and gives back what
    // threads have left. A core file has no more than that.
    state = mi_manage_os_memory_ex(reinterpret_cast<void*>(kFallback.begin), kFallback.bytes,
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
  if (self.heap == nullptr && MakeArena()) self.heap = mi_heap_new_in_arena(arena_id);
  if (__atomic_load_n(&freed_later, __ATOMIC_RELAXED) != nullptr) FreeWhatWasLeft();
  void* pointer = nullptr;
  if (self.heap != nullptr) {
    // mimalloc aligns to 16 only from 16 bytes on.
    if (size < 16) size = 16;
    if (alignment <= 16) {
      pointer = zero ? mi_heap_zalloc(self.heap, size) : mi_heap_malloc(self.heap, size);
    } else {
      // mimalloc 2.0.9 takes blocks whose size is a power of two for naturally aligned, which they
      // need not be: any other size goes another way there.
      if ((size & (size - 1)) == 0) size += 16;
      pointer = zero ? mi_heap_zalloc_aligned(self.heap, size, alignment)
                     : mi_heap_malloc_aligned(self.heap, size, alignment);
    }
  }
  errno = pointer != nullptr ? before : ENOMEM;
  return pointer;
}

void FallbackFreeLater(void* pointer) {
  self.resting = nullptr;
  void* head = __atomic_load_n(&freed_later, __ATOMIC_RELAXED);
  do {
    *static_cast<void**>(pointer) = head;
  } while (!__atomic_compare_exchange_n(&freed_later, &head, pointer, /*weak=*/true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

size_t FallbackUsable(const void* pointer) { return mi_usable_size(pointer); }

void FallbackLeave() { self.heap = nullptr; }

// mimalloc keeps the thread's heap under a key of its own, whose destructor would tidy up at the
// thread's end.
void FallbackForget() {
  self.heap = nullptr;
  const void* heap = mi_heap_get_default();
  for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; ++key) {
    if (pthread_getspecific(key) == heap) pthread_setspecific(key, nullptr);
  }
}

void DropFallbackCode() { DropCleanPages(reinterpret_cast<const void*>(&mi_free)); }

}  // namespace reprise::interpose
