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

uint32_t known_usable[1 << kKnownUsableBits];

__attribute__((noinline)) uint64_t NewEpoch() {
  for (;;) {
    // A handler that comes in between takes an epoch of its own, and so is noticed.
    __atomic_store_n(&this_thread.epoch, 0, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const uint64_t epoch = TakeEpoch();
    const Room room = {this_thread.life, this_thread.limit};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    char* at = Reserve(16);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(at + 16 > room.limit || this_thread.life != room.life, 0)) {
      if (!FindRoom(room, at, 16)) return 0;
      continue;
    }
    StoreEvent<2>(at, trace::kSpoolEpoch, epoch);
    uint64_t none = 0;
    if (__atomic_compare_exchange_n(&this_thread.epoch, &none, epoch, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      BeginEpoch(epoch, at + 16);
      return epoch;
    }
    Waste(at, at + 16);
    return none;
  }
}

uint64_t WriteStack(uint32_t number, const uint64_t* addresses, uint32_t count) {
  const uint64_t words = uint64_t{count} + 1;
  for (;;) {
    uint64_t epoch = this_thread.epoch;
    if (epoch <= ModulesEpoch() && (epoch = NewEpoch()) == 0) return 0;
    const Room room = {this_thread.life, this_thread.limit};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    char* at = Reserve(words * 8);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (at + words * 8 > room.limit || this_thread.life != room.life) {
      if (FindRoom(room, at, words * 8)) continue;
      return 0;
    }
    if (this_thread.epoch != epoch) {
      // A handler took an epoch in between, and its events stand in front of ours.
      Waste(at, at + words * 8);
      continue;
    }
    Store(at, SkipWord(words));
    for (uint32_t i = 0; i < count; ++i) Store(at + 8 + uint64_t{i} * 8, addresses[i]);
    Store(at, trace::kSpoolStack | uint64_t{count} << 4 | uint64_t{number} << 20);
    return epoch;
  }
}

// Before the first event of a thread, of so many words; `site`: SiteWord, which some of them have.
__attribute__((noinline, cold)) void NameThread(uint64_t site) {
  NameUnknownThread(site & ((uint64_t{1} << trace::kSpoolSiteBits) - 1));
}
template <int Words>
inline void NameThreadOf(uint64_t word1) {
  if (__builtin_expect(this_thread.path == 0, 0)) NameThread(Words > 1 ? word1 : 0);
}

// As FindRoom(), for an event, which is lost where there is none.
template <int Words>
bool FindEventRoom(const Room& before, char* at, uint64_t word1) {
  NameThreadOf<Words>(word1);
  if (FindRoom(before, at, Words * 8)) return true;
  Lose(1);
  return false;
}

// Writes an event into `epoch`, into which it may go. False: it did not fit, or a handler took a
// epoch in between, whose events stand in front of ours. Then there is `room` and `at` to make up
// for. `flags`: of the block's slot from now on, or kKeepFlags.
constexpr uint64_t kKeepFlags = kSlotEpoch;
template <int Words>
inline bool WriteInto(uint64_t epoch, uint64_t word0, uint64_t word1, uint64_t word2,
                      uint64_t flags, Room& room, char*& at) {
  room = {this_thread.life, this_thread.limit};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  at = Reserve(Words * 8);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (__builtin_expect(at + Words * 8 > room.limit || this_thread.life != room.life ||
                           this_thread.epoch != epoch,
                       0)) {
    return false;
  }
  // In an epoch that was begun quietly there is no need.
  if (epoch != this_thread.quiet_epoch || flags == kSlotLarge) {
    NoteEpoch(epoch, word0, flags == kKeepFlags ? SlotFlags(word0) : flags);
  }
  StoreEvent<Words>(at, word0, word1, word2);
  return true;
}

// Writes an event for which the thread needs a new epoch.
template <int Words>
__attribute__((noinline)) void WriteInNewEpoch(uint64_t word0, uint64_t word1, uint64_t word2,
                                               uint64_t flags) {
  NameThreadOf<Words>(word1);
  for (;;) {
    // Taken after the block was touched before, so it need not be looked at again.
    const uint64_t epoch = NewEpoch();
    Room room;
    char* at;
    if (epoch == 0) return Lose(1);
    if (WriteInto<Words>(epoch, word0, word1, word2, flags, room, at)) return;
    if (!FindEventRoom<Words>(room, at, word1)) return;
  }
}

template <int Words>
__attribute__((noinline, cold)) void WriteWithRoom(uint64_t word0, uint64_t word1, uint64_t word2,
                                                   uint64_t flags, Room room, char* at);

template <int Words>
inline void WriteNoted(uint64_t word0, uint64_t word1, uint64_t word2, uint64_t flags) {
  const uint64_t epoch = this_thread.epoch;
  if (__builtin_expect(!MayStay(epoch, NewestEpoch(), word0, (flags & kSlotLarge) != 0), 0)) {
    WriteInNewEpoch<Words>(word0, word1, word2, flags);
    return;
  }
  Room room;
  char* at;
  if (__builtin_expect(!WriteInto<Words>(epoch, word0, word1, word2, flags, room, at), 0)) {
    WriteWithRoom<Words>(word0, word1, word2, flags, room, at);
  }
}

template <int Words>
void WriteWithRoom(uint64_t word0, uint64_t word1, uint64_t word2, uint64_t flags, Room room,
                   char* at) {
  if (FindEventRoom<Words>(room, at, word1)) WriteNoted<Words>(word0, word1, word2, flags);
}

template <int Words>
__attribute__((noinline)) void WriteInEpoch(uint64_t word0, uint64_t word1, uint64_t word2,
                                            uint64_t size) {
  if (Words > 1 && NoteFrom() == kNoteAll) ForgetAsked(AddressOf(word0));
  WriteNoted<Words>(word0, word1, word2, SizeFlags(size));
}

template <int Words>
__attribute__((noinline, cold)) void WriteElsewhere(uint64_t word0, uint64_t word1, uint64_t word2,
                                                    uint64_t size, Room before, char* at) {
  if (FindEventRoom<Words>(before, at, word1)) WriteInEpoch<Words>(word0, word1, word2, size);
}

__attribute__((noinline)) void WriteFreeInEpoch(void* pointer) {
  WriteNoted<1>(Word0(trace::kSpoolFree, pointer), 0, 0, 0);
  fast_state.free(pointer);
}

__attribute__((noinline, cold)) void WriteFreeElsewhere(void* pointer, Room before, char* at) {
  if (FindEventRoom<1>(before, at, 0)) return WriteFreeInEpoch(pointer);
  fast_state.free(pointer);
}

template <SpoolEventKind kind>
__attribute__((noinline)) void* WriteSmallInEpoch(void* pointer, size_t size, uint64_t site) {
  WriteNoted<2>(SmallWord0(kind, pointer, size), site, 0, SizeFlags(size));
  return pointer;
}

template <SpoolEventKind kind>
__attribute__((noinline, cold)) void* WriteSmallElsewhere(void* pointer, size_t size, uint64_t site,
                                                          Room before, char* at) {
  return FindEventRoom<2>(before, at, site) ? WriteSmallInEpoch<kind>(pointer, size, site)
                                            : pointer;
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

#define REPRISE_WRITE_SIZED(kind)                                                 \
  template void* WriteSmallInEpoch<kind>(void*, size_t, uint64_t);                \
  template void* WriteSmallElsewhere<kind>(void*, size_t, uint64_t, Room, char*); \
  template void* WriteWatched<kind>(void*, size_t, uint64_t);
REPRISE_WRITE_SIZED(trace::kSpoolSmallMalloc)
REPRISE_WRITE_SIZED(trace::kSpoolSmallRealloc)
template void WriteInEpoch<1>(uint64_t, uint64_t, uint64_t, uint64_t);
template void WriteInEpoch<2>(uint64_t, uint64_t, uint64_t, uint64_t);
template void WriteInEpoch<3>(uint64_t, uint64_t, uint64_t, uint64_t);
template void WriteElsewhere<1>(uint64_t, uint64_t, uint64_t, uint64_t, Room, char*);
template void WriteElsewhere<2>(uint64_t, uint64_t, uint64_t, uint64_t, Room, char*);
template void WriteElsewhere<3>(uint64_t, uint64_t, uint64_t, uint64_t, Room, char*);

void WriteUsableSize(const void* pointer, size_t answer) {
  if (NoteFrom() != kNoteAll) __atomic_store_n(&fast_state.note_from, kNoteAll, __ATOMIC_RELAXED);
  if (answer < trace::kSpoolSmallSizes) {
    WriteNoted<1>(Word0(trace::kSpoolSmallUsable, pointer) | answer << 4, 0, 0, kKeepFlags);
  } else {
    WriteNoted<2>(Word0(trace::kSpoolUsable, pointer), answer, 0, kKeepFlags);
  }
  SetAsked(reinterpret_cast<uint64_t>(pointer));
}

// It names no block; a block with such an address does not exist, so its slot says nothing.
__attribute__((noinline, cold)) void WriteMark() { WriteInEpoch<1>(trace::kSpoolMark, 0, 0, 0); }

void StopRecordingAfterFork() {
  ForgetSpool();
  ForgetModuleRecords();
  ForgetEpochs();
  memset(known_usable, 0, sizeof(known_usable));
  this_thread.epoch = 0;
}

bool StartRecording() {
  const SpoolFile file = OpenSpool();
  SpoolHeader* header = file.header;
  if (header == nullptr) return false;
  StartChunks(file);
  fast_state.note_from = kNoteNone;
  // No other thread has an epoch yet.
  this_thread.taken_epoch = 0;
  this_thread.epochs_in_a_row = kMostBehind;
  if (process.session->stack_frames != 0) header->stack_base = kStackMap.begin;
  if ((process.session->flags & kSessionCommand) != 0) {
    WriteText(trace::kSpoolCommand, "/proc/self/cmdline");
    WriteText(trace::kSpoolEnvironment, "/proc/self/environ");
  }
  __atomic_store_n(&header->magic, trace::kSpoolMagic, __ATOMIC_RELEASE);
  return true;
}

__attribute__((hot)) void EndRecording() {
  if (spool.header == nullptr) return;
  spool.header->peak_rss = process.image->peak_rss;
  __atomic_store_n(&spool.header->complete, 1, __ATOMIC_RELEASE);
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
