// Where an event lies in the global order (trace/spool_format.h), mostly without an atomic
// operation, which would cost more than all else that is done for an event.
//
// A thread may stay in its epoch when nobody took another since: whatever touched the block before
// did so in an older one. Otherwise it may stay when the block's slot says that the block was last
// touched in an epoch that is not newer than its own. A slot names one block; where it names
// another, nothing is known, and the thread takes a new epoch. Plain loads and stores are enough:
// whoever touches a block next has synchronised with the one before, by the allocator or by the
// program, so it sees that one's store, or that of another block, or the newer number of epochs.
//
// Most of the time one thread does all the work. When it has taken kMostBehind epochs in a row,
// every other thread is so far behind that it takes a new epoch before its next event, which is
// then behind all of this one's. Until that happens the thread is *quiet*: it notes nothing, and
// its epoch may be as long as its chunk. So is the only thread of a process, from the beginning.
//
// So the events of a block stand in their true order, whatever threads they come from. Between
// blocks the order may be wrong by what fits into an epoch, kEpochBytes of events for each of
// kMostBehind epochs. That would shift the load by little but for large blocks; those always take
// the newest epoch.
#ifndef REPRISE_INTERPOSE_RECORD_EPOCHS_H_
#define REPRISE_INTERPOSE_RECORD_EPOCHS_H_

#include <stdint.h>

#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"
#include "trace/spool_format.h"

namespace reprise::interpose {

inline constexpr uint64_t kEpochBytes = 1024;  // of events, about 64
inline constexpr uint64_t kMostBehind = 4;     // epochs
inline constexpr uint64_t kLargeBlock = 4096;

// A slot: the block's address as in word 0 of an event, flags, the epoch's low bits.
inline constexpr uint64_t kSlotAddress = ~uint64_t{0} << 20;
inline constexpr uint64_t kSlotLarge = 1 << 19;  // the block is large
inline constexpr uint64_t kSlotEpoch = kSlotLarge - 1;
inline constexpr uint64_t kEpochSlots = 1 << 16;

// Room that is hardly touched while the process has one thread.
extern __attribute__((visibility("hidden"))) uint64_t epoch_slots[kEpochSlots];

// FastState::note_from. A new block must not be taken for one that was there before and was small,
// or whose usable size is recorded.
inline constexpr uint64_t kNoteNone = trace::kSpoolSmallSizes;  // the process has one thread
inline constexpr uint64_t kNoteLarge = kLargeBlock;             // it has others
inline constexpr uint64_t kNoteAll = 0;                         // it asks for usable sizes

inline uint64_t NewestEpoch() {
  return __atomic_load_n(&fast_state.newest_epoch, __ATOMIC_RELAXED);
}
inline uint64_t NoteFrom() { return __atomic_load_n(&fast_state.note_from, __ATOMIC_RELAXED); }

// When recording begins, and again in a forked child: what its parent knew of blocks is not true of
// those that take their places.
void ForgetEpochs();

// The epoch of the spool's latest module: an event that names one must have a newer epoch.
extern __attribute__((visibility("hidden"))) uint64_t modules_epoch;
inline uint64_t ModulesEpoch() { return __atomic_load_n(&modules_epoch, __ATOMIC_RELAXED); }

// Takes a new epoch. Whoever does that under a signal handler ends the row of the hook below.
inline uint64_t TakeEpoch() {
  const uint64_t epoch = __atomic_add_fetch(&fast_state.newest_epoch, 1, __ATOMIC_RELAXED);
  this_thread.epochs_in_a_row =
      epoch == this_thread.taken_epoch + 1 ? this_thread.epochs_in_a_row + 1 : 1;
  this_thread.taken_epoch = epoch;
  return epoch;
}

// The thread's next events lie in an epoch, which is written up to `end`.
inline void BeginEpoch(uint64_t epoch, char* end) {
  this_thread.epoch_end = end + kEpochBytes;
  // Of an epoch that a handler took in between the number is another, and this one never newest.
  this_thread.quiet_epoch = this_thread.epochs_in_a_row >= kMostBehind ? epoch : 0;
}

// Blocks that lie together have slots that lie together, and heaps with the same low bits of their
// addresses have different ones.
inline uint64_t* TurnSlot(uint64_t word0) {
  const uint64_t page = word0 >> 36;
  return &epoch_slots[((word0 >> 21) + (page * 0x9e3779b1) * 8) % kEpochSlots];
}

// Whether an event of the block that `word0` names may be written in the thread's epoch.
inline bool MayStay(uint64_t epoch, uint64_t newest, uint64_t word0, bool large) {
  if (newest == this_thread.quiet_epoch) return true;
  if (__builtin_expect(this_thread.cursor >= this_thread.epoch_end || epoch <= ModulesEpoch(), 0))
    return false;
  if (epoch == newest) return true;
  if (large || newest - epoch >= kMostBehind) return false;
  const uint64_t seen = __atomic_load_n(TurnSlot(word0), __ATOMIC_RELAXED);
  if (((seen ^ word0) & kSlotAddress) != 0 || (seen & kSlotLarge) != 0) return false;
  return ((epoch - seen) & kSlotEpoch) <= kSlotEpoch / 2;
}

// What is known of the block that `word0` names: flags of its slot.
inline uint64_t SlotFlags(uint64_t word0) {
  const uint64_t seen = __atomic_load_n(TurnSlot(word0), __ATOMIC_RELAXED);
  return ((seen ^ word0) & kSlotAddress) == 0 ? seen & kSlotLarge : 0;
}

// Of the allocation of a block.
inline uint64_t SizeFlags(uint64_t size) { return size >= kLargeBlock ? kSlotLarge : 0; }

inline void NoteEpoch(uint64_t epoch, uint64_t word0, uint64_t flags) {
  __atomic_store_n(TurnSlot(word0), (word0 & kSlotAddress) | flags | (epoch & kSlotEpoch),
                   __ATOMIC_RELAXED);
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORD_EPOCHS_H_
