#include "interpose/record/recorder.h"

#include <string.h>

#include "interpose/process/address_map.h"
#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"
#include "interpose/process/threads.h"
#include "interpose/record/epochs.h"
#include "interpose/record/spool_chunks.h"
#include "interpose/record/spool_file.h"
#include "interpose/record/spool_modules.h"

namespace reprise::interpose {

using trace::SpoolEventKind;
using trace::SpoolHeader;

uint32_t asked_blocks[1 << kAskedBits];

__attribute__((noinline)) uint64_t NewTurn() {
  for (;;) {
    // A handler that comes in between takes a turn of its own, and so is noticed.
    __atomic_store_n(&self.turn, 0, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const uint64_t turn = TakeTurn();
    const Room room = {self.life, self.limit};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    char* at = Reserve(16);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(at + 16 > room.limit || self.life != room.life, 0)) {
      if (!FindRoom(room, at, 16)) return 0;
      continue;
    }
    StoreEvent<2>(at, trace::kSpoolTurn, turn);
    uint64_t none = 0;
    if (__atomic_compare_exchange_n(&self.turn, &none, turn, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      BeginTurn(turn, at + 16);
      return turn;
    }
    Waste(at, at + 16);
    return none;
  }
}

uint64_t WriteStack(uint32_t number, const uint64_t* addresses, uint32_t count) {
  const uint64_t words = uint64_t{count} + 1;
  for (;;) {
    uint64_t turn = self.turn;
    if (turn <= ModulesTurn() && (turn = NewTurn()) == 0) return 0;
    const Room room = {self.life, self.limit};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    char* at = Reserve(words * 8);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (at + words * 8 > room.limit || self.life != room.life) {
      if (FindRoom(room, at, words * 8)) continue;
      return 0;
    }
    if (self.turn != turn) {
      // A handler took a turn in between, and its events stand in front of ours.
      Waste(at, at + words * 8);
      continue;
    }
    Store(at, SkipWord(words));
    for (uint32_t i = 0; i < count; ++i) Store(at + 8 + uint64_t{i} * 8, addresses[i]);
    Store(at, trace::kSpoolStack | uint64_t{count} << 4 | uint64_t{number} << 20);
    return turn;
  }
}

// Before the first event of a thread, of so many words; `site`: SiteWord, which some of them have.
__attribute__((noinline, cold)) void NameThread(uint64_t site) {
  NameUnknownThread(site & ((uint64_t{1} << trace::kSpoolSiteBits) - 1));
}
template <int Words>
inline void NameThreadOf(uint64_t word1) {
  if (__builtin_expect(self.path == 0, 0)) NameThread(Words > 1 ? word1 : 0);
}

// As FindRoom(), for an event, which is lost where there is none.
template <int Words>
bool FindEventRoom(const Room& before, char* at, uint64_t word1) {
  NameThreadOf<Words>(word1);
  if (FindRoom(before, at, Words * 8)) return true;
  Lose(1);
  return false;
}

// Writes an event into `turn`, into which it may go. False: it did not fit, or a handler took a
// turn in between, whose events stand in front of ours. Then there is `room` and `at` to make up
// for. `flags`: of the block's slot from now on, or kKeepFlags.
constexpr uint64_t kKeepFlags = kSlotTurn;
template <int Words>
inline bool WriteInto(uint64_t turn, uint64_t word0, uint64_t word1, uint64_t word2, uint64_t flags,
                      Room& room, char*& at) {
  room = {self.life, self.limit};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  at = Reserve(Words * 8);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (__builtin_expect(at + Words * 8 > room.limit || self.life != room.life || self.turn != turn,
                       0)) {
    return false;
  }
  // In a turn that was begun quietly there is no need.
  if (turn != self.quiet_turn || flags == kSlotLarge) {
    NoteTurn(turn, word0, flags == kKeepFlags ? SlotFlags(word0) : flags);
  }
  StoreEvent<Words>(at, word0, word1, word2);
  return true;
}

// Writes an event for which the thread needs a new turn.
template <int Words>
__attribute__((noinline)) void WriteInNewTurn(uint64_t word0, uint64_t word1, uint64_t word2,
                                              uint64_t flags) {
  NameThreadOf<Words>(word1);
  for (;;) {
    // Taken after the block was touched before, so it need not be looked at again.
    const uint64_t turn = NewTurn();
    Room room;
    char* at;
    if (turn == 0) return Lose(1);
    if (WriteInto<Words>(turn, word0, word1, word2, flags, room, at)) return;
    if (!FindEventRoom<Words>(room, at, word1)) return;
  }
}

template <int Words>
__attribute__((noinline, cold)) void WriteWithRoom(uint64_t word0, uint64_t word1, uint64_t word2,
                                                   uint64_t flags, Room room, char* at);

template <int Words>
inline void WriteNoted(uint64_t word0, uint64_t word1, uint64_t word2, uint64_t flags) {
  const uint64_t turn = self.turn;
  if (__builtin_expect(!MayStay(turn, NewestTurn(), word0, (flags & kSlotLarge) != 0), 0)) {
    WriteInNewTurn<Words>(word0, word1, word2, flags);
    return;
  }
  Room room;
  char* at;
  if (__builtin_expect(!WriteInto<Words>(turn, word0, word1, word2, flags, room, at), 0)) {
    WriteWithRoom<Words>(word0, word1, word2, flags, room, at);
  }
}

template <int Words>
void WriteWithRoom(uint64_t word0, uint64_t word1, uint64_t word2, uint64_t flags, Room room,
                   char* at) {
  if (FindEventRoom<Words>(room, at, word1)) WriteNoted<Words>(word0, word1, word2, flags);
}

template <int Words>
__attribute__((noinline)) void WriteInTurn(uint64_t word0, uint64_t word1, uint64_t word2,
                                           uint64_t size) {
  if (Words > 1 && NoteFrom() == kNoteAll) ForgetAsked(AddressOf(word0));
  WriteNoted<Words>(word0, word1, word2, SizeFlags(size));
}

template <int Words>
__attribute__((noinline, cold)) void WriteElsewhere(uint64_t word0, uint64_t word1, uint64_t word2,
                                                    uint64_t size, Room before, char* at) {
  if (FindEventRoom<Words>(before, at, word1)) WriteInTurn<Words>(word0, word1, word2, size);
}

__attribute__((noinline)) void WriteFreeInTurn(void* pointer) {
  WriteNoted<1>(Word0(trace::kSpoolFree, pointer), 0, 0, 0);
  pulse.free(pointer);
}

__attribute__((noinline, cold)) void WriteFreeElsewhere(void* pointer, Room before, char* at) {
  if (FindEventRoom<1>(before, at, 0)) return WriteFreeInTurn(pointer);
  pulse.free(pointer);
}

template <SpoolEventKind kind>
__attribute__((noinline)) void* WriteSmallInTurn(void* pointer, size_t size, uint64_t site) {
  WriteNoted<2>(SmallWord0(kind, pointer, size), site, 0, SizeFlags(size));
  return pointer;
}

template <SpoolEventKind kind>
__attribute__((noinline, cold)) void* WriteSmallElsewhere(void* pointer, size_t size, uint64_t site,
                                                          Room before, char* at) {
  return FindEventRoom<2>(before, at, site) ? WriteSmallInTurn<kind>(pointer, size, site) : pointer;
}

template <SpoolEventKind kind>
__attribute__((noinline)) void* WriteWatched(void* pointer, size_t size, uint64_t site) {
  if (size < trace::kSpoolSmallSizes) {
    WriteEvent<2>(SmallWord0(kind, pointer, size), site, 0, size);
  } else {
    constexpr SpoolEventKind kLarge =
        kind == trace::kSpoolSmallMalloc ? trace::kSpoolMalloc : trace::kSpoolReallocAlloc;
    WriteEvent<3>(Word0(kLarge, pointer), site, size, size);
  }
  return pointer;
}

void WriteAllocation(SpoolEventKind kind, void* pointer, size_t size, uint64_t site,
                     unsigned log2_alignment) {
  if (kind == trace::kSpoolMalloc) {
    WriteWatched<trace::kSpoolSmallMalloc>(pointer, size, site);
  } else if (kind == trace::kSpoolReallocAlloc) {
    WriteWatched<trace::kSpoolSmallRealloc>(pointer, size, site);
  } else {
    WriteEvent<3>(Word0(kind, pointer), site,
                  size | static_cast<uint64_t>(log2_alignment) << trace::kSpoolSizeBits, size);
  }
}

#define REPRISE_SMALL(kind)                                                       \
  template void* WriteSmallInTurn<kind>(void*, size_t, uint64_t);                 \
  template void* WriteSmallElsewhere<kind>(void*, size_t, uint64_t, Room, char*); \
  template void* WriteWatched<kind>(void*, size_t, uint64_t);
REPRISE_SMALL(trace::kSpoolSmallMalloc)
REPRISE_SMALL(trace::kSpoolSmallRealloc)
template void WriteInTurn<1>(uint64_t, uint64_t, uint64_t, uint64_t);
template void WriteInTurn<2>(uint64_t, uint64_t, uint64_t, uint64_t);
template void WriteInTurn<3>(uint64_t, uint64_t, uint64_t, uint64_t);
template void WriteElsewhere<1>(uint64_t, uint64_t, uint64_t, uint64_t, Room, char*);
template void WriteElsewhere<2>(uint64_t, uint64_t, uint64_t, uint64_t, Room, char*);
template void WriteElsewhere<3>(uint64_t, uint64_t, uint64_t, uint64_t, Room, char*);

void WriteUsable(const void* pointer, size_t answer) {
  if (NoteFrom() != kNoteAll) __atomic_store_n(&pulse.note_from, kNoteAll, __ATOMIC_RELAXED);
  if (answer < trace::kSpoolSmallSizes) {
    WriteNoted<1>(Word0(trace::kSpoolSmallUsable, pointer) | answer << 4, 0, 0, kKeepFlags);
  } else {
    WriteNoted<2>(Word0(trace::kSpoolUsable, pointer), answer, 0, kKeepFlags);
  }
  SetAsked(reinterpret_cast<uint64_t>(pointer));
}

void StopRecordingAfterFork() {
  ForgetSpool();
  ForgetModuleRecords();
  ForgetTurns();
  memset(asked_blocks, 0, sizeof(asked_blocks));
  self.turn = 0;
}

bool StartRecording() {
  const SpoolFile file = OpenSpool();
  SpoolHeader* header = file.header;
  if (header == nullptr) return false;
  StartChunks(file);
  pulse.note_from = kNoteNone;
  // No other thread has a turn yet.
  self.taken_turn = 0;
  self.turns_in_a_row = kMostBehind;
  if (process.session->stack_frames != 0) header->stack_base = kStackMap.begin;
  if ((process.session->flags & kSessionCommand) != 0) {
    WriteText(trace::kSpoolCommand, "/proc/self/cmdline");
    WriteText(trace::kSpoolEnvironment, "/proc/self/environ");
  }
  __atomic_store_n(&header->magic, trace::kSpoolMagic, __ATOMIC_RELEASE);
  return true;
}

__attribute__((hot)) void EndRecording() {
  if (spool.header != nullptr) __atomic_store_n(&spool.header->complete, 1, __ATOMIC_RELEASE);
}

void ResumeRecording() {
  if (spool.header != nullptr) __atomic_store_n(&spool.header->complete, 0, __ATOMIC_RELEASE);
}

void CountUnpreloadable() {
  if (spool.header != nullptr) {
    __atomic_fetch_add(&spool.header->unpreloadable, 1, __ATOMIC_RELAXED);
  }
}

}  // namespace reprise::interpose
