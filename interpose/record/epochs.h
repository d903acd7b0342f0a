// Where an event lies in the global order (trace/spool_format.h), mostly without an atomic
// operation, which would cost more than all else that is done for an event.
//
// A thread may stay in its turn when nobody took another since: whatever touched the block before
// did so in an older one. Otherwise it may stay when the block's slot says that the block was last
// touched in a turn that is not newer than its own. A slot names one block; where it names another,
// nothing is known, and the thread takes a new turn. Plain loads and stores are enough: whoever
// touches a block next has synchronised with the one before, by the allocator or by the program, so
// it sees that one's store, or that of another block, or the newer number of turns.
//
// Most of the time one thread does all the work. When it has taken kMostBehind turns in a row,
// every other thread is so far behind that it takes a new turn before its next event, which is then
// behind all of this one's. Until that happens the thread is *quiet*: it notes nothing, and its
// turn may be as long as its chunk. So is the only thread of a process, from the beginning.
//
// So the events of a block stand in their true order, whatever threads they come from. Between
// blocks the order may be wrong by what fits into a turn, kTurnBytes of events for each of
// kMostBehind turns. That would shift the load by little but for large blocks; those always take
// the newest turn.
#ifndef REPRISE_INTERPOSE_RECORD_EPOCHS_H_
#define REPRISE_INTERPOSE_RECORD_EPOCHS_H_

#include <stdint.h>

#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"
#include "trace/spool_format.h"

namespace reprise::interpose {

inline constexpr uint64_t kTurnBytes = 1024;  // of events, about 64
inline constexpr uint64_t kMostBehind = 4;    // turns
inline constexpr uint64_t kLargeBlock = 4096;

// A slot: the block's address as in word 0 of an event, flags, the turn's low bits.
inline constexpr uint64_t kSlotAddress = ~uint64_t{0} << 20;
inline constexpr uint64_t kSlotLarge = 1 << 19;  // the block is large
inline constexpr uint64_t kSlotTurn = kSlotLarge - 1;
inline constexpr uint64_t kTurnSlots = 1 << 16;

// Room that is hardly touched while the process has one thread.
extern __attribute__((visibility("hidden"))) uint64_t turn_slots[kTurnSlots];

// Pulse::note_from. A new block must not be taken for one that was there before and was small, or
// whose usable size is recorded.
inline constexpr uint64_t kNoteNone = trace::kSpoolSmallSizes;  // the process has one thread
inline constexpr uint64_t kNoteLarge = kLargeBlock;             // it has others
inline constexpr uint64_t kNoteAll = 0;                         // it asks for usable sizes

inline uint64_t NewestTurn() { return __atomic_load_n(&pulse.newest_turn, __ATOMIC_RELAXED); }
inline uint64_t NoteFrom() { return __atomic_load_n(&pulse.note_from, __ATOMIC_RELAXED); }

// When recording begins, and again in a forked child: what its parent knew of blocks is not true of
// those that take their places.
void ForgetTurns();

// The turn of the spool's latest module: an event that names one must have a newer turn.
extern __attribute__((visibility("hidden"))) uint64_t modules_turn;
inline uint64_t ModulesTurn() { return __atomic_load_n(&modules_turn, __ATOMIC_RELAXED); }

// Takes a new turn. Whoever does that under a signal handler ends the row of the hook below.
inline uint64_t TakeTurn() {
  const uint64_t turn = __atomic_add_fetch(&pulse.newest_turn, 1, __ATOMIC_RELAXED);
  self.turns_in_a_row = turn == self.taken_turn + 1 ? self.turns_in_a_row + 1 : 1;
  self.taken_turn = turn;
  return turn;
}

// The thread's next events lie in a turn, which is written up to `end`.
inline void BeginTurn(uint64_t turn, char* end) {
  self.turn_end = end + kTurnBytes;
  // Of a turn that a handler took in between the number is another, and this one never newest.
  self.quiet_turn = self.turns_in_a_row >= kMostBehind ? turn : 0;
}

// Blocks that lie together have slots that lie together, and heaps with the same low bits of their
// addresses have different ones.
inline uint64_t* TurnSlot(uint64_t word0) {
  const uint64_t page = word0 >> 36;
  return &turn_slots[((word0 >> 21) + (page * 0x9e3779b1) * 8) % kTurnSlots];
}

// Whether an event of the block that `word0` names may be written in the thread's turn.
inline bool MayStay(uint64_t turn, uint64_t newest, uint64_t word0, bool large) {
  if (newest == self.quiet_turn) return true;
  if (__builtin_expect(self.cursor >= self.turn_end || turn <= ModulesTurn(), 0)) return false;
  if (turn == newest) return true;
  if (large || newest - turn >= kMostBehind) return false;
  const uint64_t seen = __atomic_load_n(TurnSlot(word0), __ATOMIC_RELAXED);
  if (((seen ^ word0) & kSlotAddress) != 0 || (seen & kSlotLarge) != 0) return false;
  return ((turn - seen) & kSlotTurn) <= kSlotTurn / 2;
}

// What is known of the block that `word0` names: flags of its slot.
inline uint64_t SlotFlags(uint64_t word0) {
  const uint64_t seen = __atomic_load_n(TurnSlot(word0), __ATOMIC_RELAXED);
  return ((seen ^ word0) & kSlotAddress) == 0 ? seen & kSlotLarge : 0;
}

// Of the allocation of a block.
inline uint64_t SizeFlags(uint64_t size) { return size >= kLargeBlock ? kSlotLarge : 0; }

inline void NoteTurn(uint64_t turn, uint64_t word0, uint64_t flags) {
  __atomic_store_n(TurnSlot(word0), (word0 & kSlotAddress) | flags | (turn & kSlotTurn),
                   __ATOMIC_RELAXED);
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORD_EPOCHS_H_
