#include "random_walk/preload/heap.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <initializer_list>
#include <new>

#include "random_walk/preload/large.h"
#include "random_walk/preload/zone.h"

namespace reprise::random_walk::heap {
namespace {

constexpr uint32_t kSmallUnit = 16, kPageUnit = 4096;
constexpr uint32_t kSmallMost = 28 << 10;  // bytes: what a wide warp finds, whatever is in front
constexpr uint32_t kPagesMost = 1 << 20;   // bytes
constexpr uint32_t kBatchUnits = 64;       // runs of up to so many units are taken in batches
constexpr uint32_t kKeptBytes = 4 << 10;  // of each such length, but at least 4 and at most 64 runs
constexpr uint32_t kCachedUnits = 512;    // a thread keeps runs of up to so many units
constexpr uint32_t kKeptLongUnits = 4096;   // of all that are longer than kBatchUnits together
constexpr uint32_t kMostThreads = 1 << 16;  // with a cache of their own

using Narrow = Zone::Narrow;
using Wide = Zone::Wide;

struct FreeBlock {
  FreeBlock* next;
};

// What one thread has for itself.
struct ThreadHeap {
  explicit ThreadHeap(uint64_t seed) : narrow(seed, 0), wide(seed, 1) {}

  bool busy = false;  // a signal handler interrupted the thread here
  uint32_t slot = kNoPage;
  struct Kept {
    FreeBlock* first = nullptr;
    uint32_t count = 0;
    uint32_t batch = 1;  // runs to take at once: doubles up to 8
  } kept[kCachedUnits + 1];
  uint32_t kept_long = 0;  // units
  Narrow narrow;
  Wide wide;
  RunWalk<Narrow> small_walk, page_walk;
  RunWalk<Wide> wide_walk;
};

constinit Zone small_zone, page_zone;
// The thread heaps lie in slots of a pool of their own.
constinit PoolView<uint64_t> slots;
constinit int state = 0;  // 0: nothing was done, 1: a thread starts the heap, 2: ready, 3: failed
pthread_key_t exit_key;
thread_local ThreadHeap* mine __attribute__((tls_model("initial-exec"))) = nullptr;

void leave_thread(void* heap);

// Half as much as before until the system gives it. False: not even 64 MiB are to be had.
bool reserve() {
  constexpr size_t kSlotBytes = (sizeof(ThreadHeap) + 63) / 64 * 64;
  constexpr size_t kSlotsBytes = (kSlotBytes * kMostThreads + 4095) / 4096 * 4096;
  for (uint64_t small_bytes = uint64_t{32} << 30; small_bytes >= 64 << 20; small_bytes /= 2) {
    const uint64_t page_bytes = small_bytes * 8;
    const uint64_t small_bitmap = small_bytes / kSmallUnit / 8;
    const uint64_t page_bitmap = (page_bytes / kPageUnit / 8 + 4095) / 4096 * 4096;
    const uint64_t control = 2 * small_bitmap + 2 * page_bitmap + kMostThreads / 8 + kSlotsBytes;
    const uint64_t all = small_bytes + page_bytes + control;
    void* mapping =
        mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) continue;
    auto* at = static_cast<unsigned char*>(mapping);
    auto* bits = at + small_bytes + page_bytes;
    if (mprotect(bits, control, PROT_READ | PROT_WRITE) != 0) {
      munmap(mapping, all);
      continue;
    }
    const auto next = [&bits](uint64_t bytes) {
      auto* here = reinterpret_cast<uint64_t*>(bits);
      bits += bytes;
      return here;
    };
    uint64_t* const small_used = next(small_bitmap);
    uint64_t* const small_ends = next(small_bitmap);
    uint64_t* const page_used = next(page_bitmap);
    uint64_t* const page_ends = next(page_bitmap);
    page_zone.start(at, page_used, page_ends, kPageUnit,
                    static_cast<uint32_t>(page_bytes / kPageUnit / 64));
    small_zone.start(at + page_bytes, small_used, small_ends, kSmallUnit,
                     static_cast<uint32_t>(small_bytes / kSmallUnit / 64));
    slots.used = next(kMostThreads / 8);
    slots.memory = reinterpret_cast<unsigned char*>(next(kSlotsBytes));
    slots.set_page_bytes(kSlotBytes);
    slots.pages = kMostThreads;
    slots.words = kMostThreads / 64;
    return true;
  }
  return false;
}

// True when the zones are there. Waits if another thread starts the heap at this moment.
bool started() {
  int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
  if (now == 2) return true;
  int nothing = 0;
  if (now == 0 &&
      __atomic_compare_exchange_n(&state, &nothing, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    const bool good = reserve() && pthread_key_create(&exit_key, leave_thread) == 0;
    __atomic_store_n(&state, good ? 2 : 3, __ATOMIC_RELEASE);
    return good;
  }
  while ((now = __atomic_load_n(&state, __ATOMIC_ACQUIRE)) == 1) sched_yield();
  return now == 2;
}

// A new heap. Null: there are too many threads.
ThreadHeap* claim_heap() {
  // Few threads are alive: the lowest free slot, so that few pages are touched.
  for (uint32_t word = 0; word < slots.words; ++word) {
    uint64_t used = Narrow::load(&slots.used[word]);
    while (~used != 0) {
      const unsigned bit = low_zeros(~used);
      used = Narrow::fetch_or(&slots.used[word], uint64_t{1} << bit);
      if ((used >> bit & 1) != 0) continue;
      const uint32_t slot = word * 64 + bit;
      auto* heap = new (slots.address(slot)) ThreadHeap(slot);
      heap->slot = slot;
      return heap;
    }
  }
  return nullptr;
}

// What the heap kept is for the others.
void give_up_heap(ThreadHeap& heap) {
  for (uint32_t units = 1; units <= kCachedUnits; ++units) {
    for (FreeBlock* block = heap.kept[units].first; block != nullptr;) {
      FreeBlock* next = block->next;
      small_zone.release(small_zone.unit_of(block), units);
      block = next;
    }
  }
  free_run<Narrow>(slots, heap.slot, 1);
}

void leave_thread(void* heap) {
  mine = nullptr;
  give_up_heap(*static_cast<ThreadHeap*>(heap));
}

// The thread's heap for one call; in a signal handler that has interrupted such a call, another
// one.
class Entry {
 public:
  Entry() : heap_(mine) {
    if (__builtin_expect(heap_ == nullptr, 0)) {
      heap_ = mine = claim_heap();
      if (heap_ != nullptr) pthread_setspecific(exit_key, heap_);  // may allocate
    } else if (__builtin_expect(heap_->busy, 0)) {
      heap_ = claim_heap();
      borrowed_ = true;
    }
    if (heap_ != nullptr) heap_->busy = true;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  ~Entry() {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (heap_ == nullptr) return;
    heap_->busy = false;
    if (borrowed_) give_up_heap(*heap_);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ThreadHeap* heap() const { return heap_; }

 private:
  ThreadHeap* heap_;
  bool borrowed_ = false;
};

// One run, with its end. Null: out of memory.
template <class Warp>
void* take_run(Zone& zone, Warp& warp, RunWalk<Warp>& walk, uint32_t units) {
  zone.find(warp, walk, 1, units);
  if (walk.first[0] == kNoPage) return nullptr;
  zone.set_end(walk.first[0] + units - 1);
  return zone.address(walk.first[0]);
}

void* take_small(ThreadHeap& heap, uint32_t units) {
  return units <= kLongestRun<Narrow, uint64_t>
             ? take_run(small_zone, heap.narrow, heap.small_walk, units)
             : take_run(small_zone, heap.wide, heap.wide_walk, units);
}

// Runs for the next requests of this length as well: the lanes of a warp.
void* take_batch(ThreadHeap& heap, uint32_t units) {
  ThreadHeap::Kept& kept = heap.kept[units];
  const uint32_t most = units > 8 ? kBatchUnits / units : 8;
  const uint32_t batch = kept.batch < most ? kept.batch : most;
  kept.batch = batch < 8 ? batch * 2 : 8;
  small_zone.find(heap.narrow, heap.small_walk, low_bits<LaneMask>(batch), units);
  void* result = nullptr;
  for (uint32_t lane = batch; lane-- > 0;) {
    const uint32_t unit = heap.small_walk.first[lane];
    if (unit == kNoPage) continue;
    small_zone.set_end(unit + units - 1);
    if (result != nullptr) {
      auto* block = static_cast<FreeBlock*>(result);
      block->next = kept.first;
      kept.first = block;
      ++kept.count;
    }
    result = small_zone.address(unit);
  }
  return result;
}

void* allocate_small(ThreadHeap& heap, uint32_t units) {
  if (units > kCachedUnits) return take_small(heap, units);
  ThreadHeap::Kept& kept = heap.kept[units];
  FreeBlock* block = kept.first;
  if (block == nullptr) {
    return units <= kBatchUnits ? take_batch(heap, units) : take_small(heap, units);
  }
  kept.first = block->next;
  --kept.count;
  if (units > kBatchUnits) heap.kept_long -= units;
  return block;
}

void* allocate_in_zone(ThreadHeap& heap, size_t bytes) {
  if (bytes <= kSmallMost) {
    void* block = allocate_small(heap, static_cast<uint32_t>(small_zone.units_of(bytes)));
    if (block != nullptr) return block;
  }
  return take_run(page_zone, heap.narrow, heap.page_walk,
                  static_cast<uint32_t>(page_zone.units_of(bytes)));
}

// Calls `function` with this thread's heap. Null without one.
template <class Function>
void* with_heap(Function&& function) {
  const Entry entry;
  return entry.heap() == nullptr ? nullptr : function(*entry.heap());
}

// A run that begins at a multiple of `alignment`, cut out of a longer one.
void* take_aligned(Zone& zone, ThreadHeap& heap, size_t alignment, size_t bytes) {
  const auto units = static_cast<uint32_t>(zone.units_of(bytes));
  const uint32_t longer = units + static_cast<uint32_t>(alignment / zone.unit_bytes()) - 1;
  const bool small = &zone == &small_zone;
  void* block =
      small ? take_small(heap, longer) : take_run(zone, heap.narrow, heap.page_walk, longer);
  if (block == nullptr) return nullptr;
  const uint32_t first = zone.unit_of(block);
  const auto at = reinterpret_cast<uintptr_t>(block);
  const uint32_t skipped = static_cast<uint32_t>(
      ((at + alignment - 1) / alignment * alignment - at) / zone.unit_bytes());
  if (skipped + units < longer) {
    zone.shrink(first, longer, skipped + units);
  }
  zone.release_bits(first, skipped);
  return zone.address(first + skipped);
}

bool may_keep(const ThreadHeap& heap, uint32_t units) {
  if (units > kCachedUnits) return false;
  if (units > kBatchUnits) return heap.kept_long + units <= kKeptLongUnits;
  const uint32_t most = kKeptBytes / kSmallUnit / units;
  return heap.kept[units].count < (most < 4 ? 4 : most > 64 ? 64 : most);
}

void keep_or_release(ThreadHeap& heap, void* block) {
  const uint32_t unit = small_zone.unit_of(block), units = small_zone.length(unit);
  if (may_keep(heap, units)) {
    ThreadHeap::Kept& kept = heap.kept[units];
    auto* free = static_cast<FreeBlock*>(block);
    free->next = kept.first;
    kept.first = free;
    ++kept.count;
    if (units > kBatchUnits) heap.kept_long += units;
    return;
  }
  small_zone.release(unit, units);
}

// In place where the zone allows it. Null: it does not.
void* resize(Zone& zone, void* block, size_t bytes, size_t most) {
  if (bytes > most) return nullptr;
  const uint32_t unit = zone.unit_of(block), length = zone.length(unit);
  const auto units = static_cast<uint32_t>(zone.units_of(bytes));
  if (units == length) return block;
  if (units < length) {
    zone.shrink(unit, length, units);
    return block;
  }
  return zone.extend(unit, length, units) ? block : nullptr;
}

}  // namespace

void* allocate(size_t bytes) {
  if (__builtin_expect(!started(), 0)) return large::allocate(large::kPage, bytes);
  if (bytes <= kPagesMost) {
    void* block = with_heap([&](ThreadHeap& heap) { return allocate_in_zone(heap, bytes); });
    if (block != nullptr) return block;
  }
  return large::allocate(large::kPage, bytes);
}

void* allocate_aligned(size_t alignment, size_t bytes) {
  if (alignment <= kSmallUnit) return allocate(bytes);
  if (!started() || alignment > kPagesMost / 2 || bytes > kPagesMost / 2) {
    return large::allocate(alignment, bytes);
  }
  const bool small = alignment < kPageUnit && bytes + alignment <= kSmallMost;
  void* block = with_heap([&](ThreadHeap& heap) {
    return take_aligned(small ? small_zone : page_zone, heap,
                        small || alignment > kPageUnit ? alignment : kPageUnit, bytes);
  });
  return block != nullptr ? block : large::allocate(alignment, bytes);
}

void* allocate_zeroed(size_t bytes) {
  void* block = allocate(bytes);
  if (block != nullptr && (small_zone.holds(block) || page_zone.holds(block))) {
    memset(block, 0, bytes);
  }
  return block;
}

void* reallocate(void* block, size_t bytes) {
  if (small_zone.holds(block)) {
    if (void* same = resize(small_zone, block, bytes, kSmallMost); same != nullptr) return same;
  } else if (page_zone.holds(block)) {
    if (void* same = resize(page_zone, block, bytes, kPagesMost); same != nullptr) return same;
  } else if (bytes > kPagesMost) {
    return large::reallocate(block, bytes);
  }
  void* moved = allocate(bytes);
  if (moved == nullptr) return nullptr;
  const size_t before = usable_bytes(block);
  memcpy(moved, block, before < bytes ? before : bytes);
  release(block);
  return moved;
}

void release(void* block) {
  if (small_zone.holds(block)) {
    const Entry entry;
    if (entry.heap() != nullptr) {
      keep_or_release(*entry.heap(), block);
    } else {
      const uint32_t unit = small_zone.unit_of(block);
      small_zone.release(unit, small_zone.length(unit));
    }
  } else if (page_zone.holds(block)) {
    const uint32_t unit = page_zone.unit_of(block);
    page_zone.release(unit, page_zone.length(unit));
  } else if (block != nullptr) {
    large::release(block);
  }
}

size_t usable_bytes(const void* block) {
  if (block == nullptr) return 0;
  for (const Zone* zone : {&small_zone, &page_zone}) {
    if (zone->holds(block)) return size_t{zone->length(zone->unit_of(block))} * zone->unit_bytes();
  }
  return large::usable_bytes(block);
}

}  // namespace reprise::random_walk::heap
