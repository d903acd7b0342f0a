// Blocks that other threads free: a list without a lock, which the owner takes in when it next
// looks, linked through the blocks. An owner that will not look again closes it.
//
// Thread-safety: Push and Any may be called from any thread, the others by the owner. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_REMOTE_FREES_H_
#define REPRISE_REPLAY_ARENA_REMOTE_FREES_H_

#include <stdint.h>

namespace reprise::replay {

class RemoteFrees {
 public:
  // False: the list is closed, and nothing has happened. A block has 16 bytes or more.
  bool Push(void* block) {
    void* head = __atomic_load_n(&head_, __ATOMIC_RELAXED);
    do {
      if (head == Closed()) return false;
      *static_cast<void**>(block) = head;
    } while (!__atomic_compare_exchange_n(&head_, &head, block, /*weak=*/true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
    return true;
  }

  bool Any() const {
    const void* head = __atomic_load_n(&head_, __ATOMIC_RELAXED);
    return head != nullptr && head != Closed();
  }

  // Takes all blocks: the first, to be passed to Next; null: there is none.
  void* TakeAll() { return Take(nullptr); }
  void* Close() { return Take(Closed()); }
  void Open() { __atomic_store_n(&head_, nullptr, __ATOMIC_RELEASE); }

  // The block behind one that was taken. A block that was freed twice ends the list instead of
  // closing a circle: each is to be asked about once.
  static void* Next(void* block) {
    void* next = *static_cast<void**>(block);
    *static_cast<void**>(block) = Closed();
    return next == Closed() ? nullptr : next;
  }

 private:
  static void* Closed() { return reinterpret_cast<void*>(~uint64_t{0}); }
  void* Take(void* left) {
    if (left == nullptr && !Any()) return nullptr;
    void* head = __atomic_exchange_n(&head_, left, __ATOMIC_ACQ_REL);
    return head == Closed() ? nullptr : head;
  }

  void* head_ = nullptr;  // atomic
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_REMOTE_FREES_H_
