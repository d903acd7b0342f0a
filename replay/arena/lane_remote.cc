// Blocks of a lane that other threads free: a list that they add to without a lock, and that the
// owner takes in when it next looks.
#include "base/fetch.h"
#include "replay/arena/lane.h"

namespace reprise::replay {
namespace {

// What a remotely freed block's first word is set to once it has been taken in, so that a block
// that was freed twice ends the walk instead of closing a circle.
void* const kTaken = reinterpret_cast<void*>(~uint64_t{0});

}  // namespace

void Lane::FreeRemotely(void* pointer) {
  if (reinterpret_cast<uint64_t>(pointer) % kGranule != 0) {
    CountInvalidFree();
    return;
  }
  FetchToWrite(&remote_);
  // In its second word the block has the one that was freed some frees before it, for Drain to
  // fetch ahead.
  void* head = __atomic_load_n(&remote_, __ATOMIC_RELAXED);
  const uint64_t number = __atomic_load_n(&recents_, __ATOMIC_RELAXED);
  void** recent = &recent_[number % kRecent];
  static_cast<void**>(pointer)[1] = __atomic_load_n(recent, __ATOMIC_RELAXED);
  do {
    *static_cast<void**>(pointer) = head;
  } while (!__atomic_compare_exchange_n(&remote_, &head, pointer, /*weak=*/true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
  __atomic_store_n(recent, pointer, __ATOMIC_RELAXED);
  __atomic_store_n(&recents_, number + 1, __ATOMIC_RELAXED);
}

// The blocks are in the caches of other processors: one after the other they would take most of
// what the program takes. What is fetched ahead need not be there any more.
void Lane::Drain() {
  void* at = __atomic_exchange_n(&remote_, nullptr, __ATOMIC_ACQUIRE);
  if (at == nullptr) return;
  for (void*& recent : recent_) {
    FetchToWrite(__atomic_load_n(&recent, __ATOMIC_RELAXED));
  }
  while (at != nullptr) {
    const uint64_t granule = GranuleOf(at);
    // A block that its owner freed as well, and that has been written to since, leads anywhere.
    if (!IsAGranule(at)) return CountInvalidFree();
    FetchToWrite(static_cast<void**>(at)[1]);
    void* next = *static_cast<void**>(at);
    if (next == kTaken) return;
    *static_cast<void**>(at) = kTaken;
    if (running_free_ || granule >= box_granules_) {
      const bool quickly = running_free_ && FreeKeptQuickly(at);
      if (!quickly && !FreeLate(granule)) CountInvalidFree();
    } else if (late_count_ != 0 && late_.BeginsAt(granule)) {
      RemoveLate(granule, LateLength(granule));
      awaited_ -= awaited_ > 0 ? 1 : 0;
    } else if (!early_.Has(granule) && IsDrain(*cursor_) && cursor_[1] == granule) {
      PassFree(granule, cursor_ + 2);
    } else if (!early_.Has(granule) && IsPlannedLive(granule)) {
      FreeEarly(granule);
    } else {
      CountInvalidFree();
    }
    at = next;
  }
}

}  // namespace reprise::replay
