// The part of the recorder that runs for every event, inlined into the hooks.
//
// One allocation, walked through: the hook calls the real malloc, reserves 16 bytes of the thread's
// chunk with one instruction that no signal handler can tear, stores the site, and last the word
// that makes the event valid. As long as one thread does all the work that is all: the order of the
// events is their order in memory. Otherwise it is also looked whether the event may be written in
// the thread's epoch (epochs.h). No lock, no branch that is usually taken, and seldom an atomic
// operation.
//
// An allocation is written after it returns and a free before it is passed on, so that the reuse of
// an address by another thread never appears before the free that allowed it.
#ifndef REPRISE_INTERPOSE_RECORD_RECORD_EVENT_H_
#define REPRISE_INTERPOSE_RECORD_RECORD_EVENT_H_

#include <stddef.h>
#include <stdint.h>

#include "interpose/process/thread_state.h"
#include "interpose/record/epochs.h"
#include "interpose/record/usable_size_filter.h"
#include "trace/spool_format.h"

namespace reprise::interpose {

// Where a thread's chunk stood before a reservation.
struct Room {
  uint64_t life;
  char* limit;
};

// Takes `bytes` of the thread's chunk; the caller looks whether they fit.
inline char* Reserve(uint64_t bytes) {
#if defined(__x86_64__)
  uint64_t taken = bytes;
  asm volatile("xaddq %0, %1" : "+r"(taken), "+m"(this_thread.cursor)::"memory", "cc");
  return reinterpret_cast<char*>(taken);
#else
  return __atomic_fetch_add(&this_thread.cursor, bytes, __ATOMIC_RELAXED);
#endif
}

inline uint64_t Word0(uint64_t kind, const void* pointer) {
  // Blocks are aligned to 1 << kSpoolAddressShift; of others' addresses readers look at no more.
  return kind | reinterpret_cast<uint64_t>(pointer) << (20 - trace::kSpoolAddressShift);
}

// Of an allocation whose size, below kSpoolSmallSizes, stands in the word.
inline uint64_t SmallWord0(uint64_t kind, const void* pointer, size_t size) {
  return Word0(kind, pointer) | size << 4;
}

inline uint64_t AddressOf(uint64_t word0) { return (word0 >> 20) << trace::kSpoolAddressShift; }

inline void Store(void* at, uint64_t word) {
  __atomic_store_n(static_cast<uint64_t*>(at), word, __ATOMIC_RELEASE);
}

inline uint64_t SkipWord(uint64_t words) { return trace::kSpoolSkip | words << 20; }

// Marks room that was reserved and will not be used, so that readers need not wonder.
inline void Waste(char* begin, const char* end) {
  if (begin < end) Store(begin, SkipWord((end - begin) / 8) | trace::kSpoolWaste);
}

// Writes an event of several words so that a kill at any instruction leaves something readable: the
// first word says "skip these" until the others are there.
template <int Words>
inline void StoreEvent(char* at, uint64_t word0, uint64_t word1, uint64_t word2 = 0,
                       uint64_t word3 = 0) {
  if (Words > 1) {
    Store(at, SkipWord(Words));
    Store(at + 8, word1);
    if (Words > 2) Store(at + 16, word2);
    if (Words > 3) Store(at + 24, word3);
  }
  Store(at, word0);
}

// The ways that are not the usual one (recorder.cc). The first is that of threads that work at the
// same time, the second is taken when the reservation [at, at + Words * 8) did not fit.
template <int Words>
void WriteInEpoch(uint64_t word0, uint64_t word1, uint64_t word2, uint64_t size);
template <int Words>
void WriteElsewhere(uint64_t word0, uint64_t word1, uint64_t word2, uint64_t size, Room before,
                    char* at);
// Of a free, which they pass on.
void WriteFreeInEpoch(void* pointer);
void WriteFreeElsewhere(void* pointer, Room before, char* at);
// Of an allocation whose size stands in word 0; they return `pointer`, so that a hook ends in them.
template <trace::SpoolEventKind kind>
void* WriteSmallInEpoch(void* pointer, size_t size, uint64_t site);
template <trace::SpoolEventKind kind>
void* WriteSmallElsewhere(void* pointer, size_t size, uint64_t site, Room before, char* at);
// Of an allocation of FastState::note_from or more, whether or not it is small.
template <trace::SpoolEventKind kind>
void* WriteWatched(void* pointer, size_t size, uint64_t site);

// After the reservation [at, at + bytes) did not fit: makes room. False: there is none.
bool FindRoom(const Room& before, char* at, uint64_t bytes);

// Takes a new epoch for the thread, and says so in its chunk. Returns it, or a newer one that a
// signal handler took meanwhile; 0 when there is no room, and then none for an event behind it.
uint64_t NewEpoch();

// Writes one event; with several words it is the allocation of a block of `size`.
template <int Words>
inline void WriteEvent(uint64_t word0, uint64_t word1 = 0, uint64_t word2 = 0, uint64_t size = 0) {
  const uint64_t epoch = this_thread.quiet_epoch;
  if (__builtin_expect(epoch != NewestEpoch(), 0)) {
    WriteInEpoch<Words>(word0, word1, word2, size);
    return;
  }
  // Read before the reservation: a handler that makes room in between must be noticed. It then
  // takes an epoch as well.
  const Room room = {this_thread.life, this_thread.limit};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  char* at = Reserve(Words * 8);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (__builtin_expect(at + Words * 8 > room.limit || this_thread.quiet_epoch != epoch, 0)) {
    WriteElsewhere<Words>(word0, word1, word2, size, room, at);
    return;
  }
  if (Words > 1) {
    const uint64_t note_from = NoteFrom();
    if (__builtin_expect(size >= note_from && note_from != kNoteNone, 0)) {
      if (size >= kLargeBlock) NoteEpoch(epoch, word0, kSlotLarge);
      if (note_from == kNoteAll) ForgetAsked(AddressOf(word0));
    }
  }
  StoreEvent<Words>(at, word0, word1, word2);
}

// Writes the free of a block and passes it on, in a jump on every way.
inline void WriteFree(void* pointer) {
  const uint64_t epoch = this_thread.quiet_epoch;
  if (__builtin_expect(epoch != NewestEpoch(), 0)) return WriteFreeInEpoch(pointer);
  // As in WriteEvent.
  const Room room = {this_thread.life, this_thread.limit};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  char* at = Reserve(8);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (__builtin_expect(at + 8 > room.limit || this_thread.quiet_epoch != epoch, 0)) {
    return WriteFreeElsewhere(pointer, room, at);
  }
  Store(at, Word0(trace::kSpoolFree, pointer));
  fast_state.free(pointer);
}

// Writes the allocation of a block; `kind` is that of small ones. Returns `pointer`.
template <trace::SpoolEventKind kind>
inline void* WriteSized(void* pointer, size_t size, uint64_t site) {
  if (__builtin_expect(size >= NoteFrom(), 0)) return WriteWatched<kind>(pointer, size, site);
  const uint64_t epoch = this_thread.quiet_epoch;
  if (__builtin_expect(epoch != NewestEpoch(), 0)) {
    return WriteSmallInEpoch<kind>(pointer, size, site);
  }
  // As in WriteEvent.
  const Room room = {this_thread.life, this_thread.limit};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  char* at = Reserve(16);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (__builtin_expect(at + 16 > room.limit || this_thread.quiet_epoch != epoch, 0)) {
    return WriteSmallElsewhere<kind>(pointer, size, site, room, at);
  }
  StoreEvent<2>(at, SmallWord0(kind, pointer, size), site);
  return pointer;
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORD_RECORD_EVENT_H_
