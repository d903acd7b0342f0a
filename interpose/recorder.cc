#include "interpose/recorder.h"

#include <linux/futex.h>
#include <string.h>

#include "interpose/address_map.h"
#include "interpose/modules.h"
#include "interpose/process.h"
#include "interpose/spool_file.h"
#include "interpose/system_call.h"
#include "interpose/thread_state.h"
#include "interpose/threads.h"
#include "interpose/turns.h"
#include "interpose/unwind.h"
#include "replay/arena/mutex.h"

namespace reprise::interpose {

using trace::kSpoolChunkBytes;
using trace::kSpoolChunkMagic;
using trace::kSpoolChunksOffset;
using trace::kSpoolRing;
using trace::SpoolChunk;
using trace::SpoolEventKind;
using trace::SpoolHeader;
using trace::SpoolModule;

namespace {

// Memory is made sure of in steps, so that a thread with a few events costs a few pages.
constexpr uint64_t kFirstStep = 16 << 10;
constexpr uint64_t kStep = kSpoolChunkBytes;
// Of the chunks that are sealed or were given back, so many stay in the program's memory.
constexpr uint32_t kMostResident = 32;
constexpr uint64_t kResidentChunks = 1024;  // chunks of which we know; none above stays
// To wake the launcher costs some system calls' worth of time, so it is done once for a few chunks.
constexpr uint64_t kWakeAt = 4;
constexpr uint32_t kMaxRemainders = 1024;
constexpr uint32_t kMaxModules = 512;
constexpr uint32_t kStarvedEvents = 4096;  // lost before the disk is asked again

// What a thread that ended left of its chunk.
struct Remainder {
  uint64_t index;
  uint64_t used;  // bytes of events
};

struct Spool {
  SpoolHeader* header;
  uint64_t bytes;      // of the mapping
  uint64_t chunks;     // that fit
  bool in_place;       // SpoolFile's
  replay::Mutex lock;  // slow paths only, signals blocked
  uint64_t serials;    // given out
  // Chunks that were given back, the latest last: it is the one most likely to be in a cache still.
  uint32_t spare_count;
  uint32_t spare[kSpoolRing];
  uint32_t resident_count;
  bool resident[kResidentChunks];
  uint32_t remainder_count;
  Remainder remainders[kMaxRemainders];
  // Modules whose record has been written: [begin, end), most recent use is not tracked.
  uint32_t modules;
  uint64_t module_begin[kMaxModules];
  uint64_t module_end[kMaxModules];
};

constinit Spool spool{};

char* ChunkAt(uint64_t index) {
  return reinterpret_cast<char*>(spool.header) + kSpoolChunksOffset + index * kSpoolChunkBytes;
}

// The chunk with the thread's limit; null when it had none.
char* ChunkBelow(char* limit) {
  return limit != nullptr ? ChunkAt((limit - 1 - ChunkAt(0)) / kSpoolChunkBytes) : nullptr;
}

void Lose(int64_t events) {
  __atomic_fetch_add(&spool.header->lost_events, events, __ATOMIC_RELAXED);
}

// Whoever does that under a signal handler ends the row of the hook below.
uint64_t TakeTurn() {
  const uint64_t turn = __atomic_add_fetch(&pulse.newest_turn, 1, __ATOMIC_RELAXED);
  self.turns_in_a_row = turn == self.taken_turn + 1 ? self.turns_in_a_row + 1 : 1;
  self.taken_turn = turn;
  return turn;
}

// The thread's next events lie in a turn, which is written up to `end`.
void BeginTurn(uint64_t turn, char* end) {
  self.turn_end = end + kTurnBytes;
  // Of a turn that a handler took in between the number is another, and this one never newest.
  self.quiet_turn = self.turns_in_a_row >= kMostBehind ? turn : 0;
}

// Begins the thread's chunk with its name and a new turn. There is room.
void WriteThreadEvent() {
  char* at = Reserve(32);
  self.turn = TakeTurn();
  BeginTurn(self.turn, at + 32);
  if (uint64_t none = kNoteNone; self.id != 0) {
    __atomic_compare_exchange_n(&pulse.note_from, &none, kNoteLarge, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
  }
  StoreEvent<4>(at, trace::kSpoolThread, self.id | static_cast<uint64_t>(self.parent) << 32,
                self.path, self.turn);
}

// The thread has no chunk any more. A hook that has looked whether the thread is quiet notices.
void ForgetChunk() {
  self.chunk = nullptr;
  self.life = 0;
  self.quiet_turn = 0;
  self.cursor = self.limit = nullptr;
}

// Leaves a chunk, which the launcher may copy, in memory or not. Whoever looks into it afterwards
// gets it back into memory, and its neighbours too.
void KeepResident(SpoolChunk* chunk, uint32_t index) {
  if (index < kResidentChunks && spool.resident_count < kMostResident) {
    spool.resident[index] = true;
    ++spool.resident_count;
  } else {
    Advise(chunk, kSpoolChunkBytes, MADV_DONTNEED);
  }
}

// Ends a chunk and offers it to be copied. Under the lock.
void Seal(SpoolChunk* chunk, const char* end) {
  const uint32_t index = chunk->index;
  // Only a chunk that was written to its end is sure to hold no reservation that nobody can see.
  const bool whole = reinterpret_cast<char*>(chunk) + kSpoolChunkBytes == end;
  __atomic_store_n(&chunk->bytes, end - reinterpret_cast<char*>(chunk + 1), __ATOMIC_RELEASE);
  KeepResident(chunk, index);
  SpoolHeader* header = spool.header;
  const uint64_t waiting =
      header->sealed_count - __atomic_load_n(&header->copied_count, __ATOMIC_ACQUIRE);
  if (waiting >= kSpoolRing || !whole) return;
  header->sealed[header->sealed_count % kSpoolRing] = index;
  __atomic_store_n(&header->sealed_count, header->sealed_count + 1, __ATOMIC_RELEASE);
  __atomic_fetch_add(&process.image->seals, 1, __ATOMIC_SEQ_CST);
  if (waiting + 1 < kWakeAt) return;
  uint32_t* asleep = &process.registry->drain_asleep;
  if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) != 0 &&
      __atomic_exchange_n(asleep, 0, __ATOMIC_SEQ_CST) != 0) {
    SystemCall(SYS_futex, reinterpret_cast<long>(asleep), FUTEX_WAKE, 1);
  }
}

// A chunk that was copied and may be written again; null when there is none. Under the lock.
SpoolChunk* TakeDrained() {
  SpoolHeader* header = spool.header;
  const uint64_t count = __atomic_load_n(&header->drained_count, __ATOMIC_ACQUIRE);
  while (header->returned_count != count && spool.spare_count < kSpoolRing) {
    const uint32_t index = header->drained[header->returned_count++ % kSpoolRing];
    if (index < header->chunks_used) spool.spare[spool.spare_count++] = index;
  }
  if (spool.spare_count == 0) return nullptr;
  const uint32_t index = spool.spare[--spool.spare_count];
  auto* chunk = reinterpret_cast<SpoolChunk*>(ChunkAt(index));
  bool ready = false;
  if (index < kResidentChunks && spool.resident[index]) {
    spool.resident[index] = false;
    --spool.resident_count;
    ready = spool.in_place;
  }
  if (!ready && !Populate(ChunkAt(index), kSpoolChunkBytes)) return nullptr;
  ++header->rewritten_count;
  // While the old number stands there, readers go by the copy.
  memset(static_cast<void*>(chunk + 1), 0, kSpoolChunkBytes - sizeof(SpoolChunk));
  chunk->bytes = 0;
  return chunk;
}

// The chunk after the last; null when there is no memory or disk left. Under the lock.
SpoolChunk* TakeFresh(uint64_t step) {
  const uint64_t index = spool.header->chunks_used;
  if (index >= spool.chunks || !Populate(ChunkAt(index), step)) return nullptr;
  auto* chunk = reinterpret_cast<SpoolChunk*>(ChunkAt(index));
  chunk->index = static_cast<uint32_t>(index);
  return chunk;
}

void BeginLife(SpoolChunk* chunk) {
  __atomic_store_n(&chunk->serial, ++spool.serials, __ATOMIC_RELEASE);
  if (chunk->magic != 0) return;
  __atomic_store_n(&chunk->magic, kSpoolChunkMagic, __ATOMIC_RELEASE);
  __atomic_store_n(&spool.header->chunks_used, uint64_t{chunk->index} + 1, __ATOMIC_RELEASE);
}

// Gives the thread a chunk with room for an event and starts it with the thread's name. Under the
// lock. False: there is no memory or disk left.
bool TakeChunk() {
  SpoolChunk* chunk = nullptr;
  uint64_t used = 0;
  uint64_t step = kSpoolChunkBytes - sizeof(SpoolChunk);
  if (spool.remainder_count > 0) {
    const Remainder& remainder = spool.remainders[--spool.remainder_count];
    used = remainder.used;
    if (step > used + kFirstStep) step = used + kFirstStep;
    if (!Populate(ChunkAt(remainder.index), sizeof(SpoolChunk) + step)) return false;
    chunk = reinterpret_cast<SpoolChunk*>(ChunkAt(remainder.index));
  } else if (chunk = TakeDrained(); chunk != nullptr) {
    BeginLife(chunk);
  } else {
    // A thread with a few events costs a few pages; one that filled a chunk will fill another.
    if (!self.has_written) step = kFirstStep - sizeof(SpoolChunk);
    chunk = TakeFresh(sizeof(SpoolChunk) + step);
    if (chunk == nullptr) return false;
    BeginLife(chunk);
  }
  self.has_written = 1;
  self.chunk = chunk;
  self.life = chunk->serial;
  self.cursor = reinterpret_cast<char*>(chunk + 1) + used;
  self.limit = reinterpret_cast<char*>(chunk + 1) + step;
  WriteThreadEvent();
  return true;
}

// Marks the part of the reservation [at, at + bytes) that lies before `end`.
void WasteBefore(const char* end, char* at, uint64_t bytes) {
  Waste(at, at + bytes < end ? at + bytes : end);
}

// Makes more of the thread's chunk usable; false when there is no more of it, or no memory.
bool Grow() {
  const uint64_t left = reinterpret_cast<char*>(self.chunk) + kSpoolChunkBytes - self.limit;
  const uint64_t step = left < kStep ? left : kStep;
  if (step == 0 || !Populate(self.limit, step)) return false;
  self.limit += step;
  return true;
}

// After the reservation [at, at + bytes) turned out not to fit, or to have been overtaken by a
// handler that made room: makes room for another. What was once reserved is never given out again
// in the same life of its chunk, and whoever reserved it marks it as wasted, so that it does not
// matter which of the two came first; until it is marked, the chunk is not copied. False: there is
// no room.
__attribute__((noinline, cold)) bool MakeRoom(const Room& before, char* at, uint64_t bytes) {
  const SignalBlock block;
  // Behind a chunk's end lie the reservations that did not fit, even where the next chunk begins.
  constexpr uint64_t kOvershoot = 64 + sizeof(uint64_t) * (kMostFrames + 2);
  if (before.life != self.life) {
    char* const old = ChunkBelow(before.limit);
    char* const now = reinterpret_cast<char*>(self.chunk);
    const bool in_now = now != nullptr && at >= now && at < now + kSpoolChunkBytes;
    if (old != nullptr && at >= old && at < old + kSpoolChunkBytes + kOvershoot &&
        !(in_now && now == old)) {
      // A life that ended while we held a reservation there had no room left before it.
      const auto* chunk = reinterpret_cast<SpoolChunk*>(old);
      if (chunk->serial == before.life) {
        WasteBefore(reinterpret_cast<const char*>(chunk + 1) + chunk->bytes, at, bytes);
      }
      if (now != nullptr) return true;
    } else if (now != nullptr && !in_now) {
      return true;  // reserved when there was no chunk, or behind this one's end
    }
  }
  if (self.chunk != nullptr && at + bytes <= self.limit) {
    Waste(at, at + bytes);
    return true;
  }
  if (self.path == 0) NameUnknownThread();
  spool.lock.Lock();
  bool room = self.chunk != nullptr && Grow();
  if (self.chunk != nullptr) WasteBefore(self.limit, at, bytes);
  if (!room) {
    if (self.chunk != nullptr) Seal(self.chunk, self.limit);
    ForgetChunk();
    room = TakeChunk();
  }
  spool.lock.Unlock();
  // Asking again for every event would make a program on a full disk crawl.
  if (!room) self.starved = kStarvedEvents;
  return room;
}

// Room for a record of the module area with `text_bytes` of text; null when there is none. Under
// the lock, signals blocked.
SpoolModule* BeginRecord(uint64_t text_bytes) {
  const uint64_t bytes = sizeof(SpoolModule) + text_bytes + 7;
  const uint64_t at = spool.header->module_bytes_used;
  if (at + bytes > trace::kSpoolModuleBytes) return nullptr;
  char* base = reinterpret_cast<char*>(spool.header) + trace::kSpoolHeaderBytes + at;
  if (!Populate(base, bytes)) return nullptr;
  auto* record = reinterpret_cast<SpoolModule*>(base);
  record->turn = TakeTurn();
  return record;
}

void EndRecord(SpoolModule* record) {
  const uint64_t bytes =
      (sizeof(SpoolModule) + record->path_bytes + record->build_id_bytes + 7) & ~uint64_t{7};
  __atomic_store_n(&record->bytes, static_cast<uint32_t>(bytes), __ATOMIC_RELEASE);
  __atomic_store_n(&spool.header->module_bytes_used, spool.header->module_bytes_used + bytes,
                   __ATOMIC_RELEASE);
}

// Appends the record of the module that holds `address`. Under the lock, signals blocked.
void WriteModule(uint64_t address) {
  LoadedModule module;
  if (spool.modules >= kMaxModules || !FindModule(address, &module)) return;
  const size_t path_bytes = strnlen(module.path, 4096);
  SpoolModule* record = BeginRecord(path_bytes + module.build_id_bytes);
  if (record == nullptr) return;
  record->path_bytes = static_cast<uint16_t>(path_bytes);
  record->build_id_bytes = static_cast<uint16_t>(module.build_id_bytes);
  record->base = module.base;
  record->begin = module.begin;
  record->end = module.end;
  char* text = reinterpret_cast<char*>(record + 1);
  memcpy(text, module.path, path_bytes);
  memcpy(text + path_bytes, module.build_id, module.build_id_bytes);
  EndRecord(record);
  const uint32_t count = spool.modules;
  spool.module_begin[count] = module.begin;
  spool.module_end[count] = module.end;
  __atomic_store_n(&modules_turn, record->turn, __ATOMIC_RELAXED);
  __atomic_store_n(&spool.modules, count + 1, __ATOMIC_RELEASE);
}

// Appends what the system tells of the process in a file: its command line, its environment.
void WriteText(uint64_t kind, const char* path) {
  constexpr uint64_t kMostBytes = 65000;
  const int fd = OpenFile(path, O_RDONLY);
  if (fd < 0) return;
  if (SpoolModule* record = BeginRecord(kMostBytes); record != nullptr) {
    record->base = kind;
    uint64_t used = 0;
    while (used < kMostBytes) {
      const long got = ReadFile(fd, reinterpret_cast<char*>(record + 1) + used, kMostBytes - used);
      if (got <= 0) break;
      used += static_cast<uint64_t>(got);
    }
    record->path_bytes = static_cast<uint16_t>(used);
    EndRecord(record);
  }
  CloseFile(fd);
}

}  // namespace

uint32_t module_generation = 1;
uint64_t modules_turn;
uint32_t asked_blocks[1 << kAskedBits];

bool FindRoom(const Room& before, char* at, uint64_t bytes) {
  if (self.starved > 0 && self.chunk == nullptr) {
    --self.starved;
    self.cursor = nullptr;
  } else if (MakeRoom(before, at, bytes)) {
    return true;
  }
  Lose(1);
  return false;
}

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

void CatchUp() {
  if (NewTurn() == 0) Lose(-1);  // no event yet: that one looks for room itself
}

uint64_t WriteStack(uint32_t number, const uint64_t* addresses, uint32_t count) {
  const uint64_t words = uint64_t{count} + 1;
  for (;;) {
    uint64_t turn = self.turn;
    if (turn <= ModulesTurn() && (turn = NewTurn()) == 0) {
      Lose(-1);  // a stack is no event
      return 0;
    }
    const Room room = {self.life, self.limit};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    char* at = Reserve(words * 8);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (at + words * 8 > room.limit || self.life != room.life) {
      if (FindRoom(room, at, words * 8)) continue;
      Lose(-1);
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

// Whether one of the first `count` modules holds `address`.
bool KnowsModule(uint64_t address, uint32_t count) {
  for (uint32_t i = count; i-- > 0;) {
    if (address - spool.module_begin[i] < spool.module_end[i] - spool.module_begin[i]) return true;
  }
  return false;
}

__attribute__((noinline, cold)) void LearnModule(uint64_t address) {
  const uint32_t count = __atomic_load_n(&spool.modules, __ATOMIC_ACQUIRE);
  if (!KnowsModule(address, count)) {
    const SignalBlock block;
    spool.lock.Lock();
    if (spool.modules == count) WriteModule(address);
    spool.lock.Unlock();
  }
  // Known or not: generated code lies outside every module.
  __atomic_store_n(KnownPage(address), address >> 12, __ATOMIC_RELEASE);
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
  for (;;) {
    // Taken after the block was touched before, so it need not be looked at again.
    const uint64_t turn = NewTurn();
    Room room;
    char* at;
    if (turn == 0 || WriteInto<Words>(turn, word0, word1, word2, flags, room, at)) return;
    if (!FindRoom(room, at, Words * 8)) return;
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
  if (FindRoom(room, at, Words * 8)) WriteNoted<Words>(word0, word1, word2, flags);
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
  if (FindRoom(before, at, Words * 8)) WriteInTurn<Words>(word0, word1, word2, size);
}

__attribute__((noinline)) void WriteFreeInTurn(void* pointer) {
  WriteNoted<1>(Word0(trace::kSpoolFree, pointer), 0, 0, 0);
  pulse.free(pointer);
}

__attribute__((noinline, cold)) void WriteFreeElsewhere(void* pointer, Room before, char* at) {
  if (FindRoom(before, at, 8)) return WriteFreeInTurn(pointer);
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
  return FindRoom(before, at, 16) ? WriteSmallInTurn<kind>(pointer, size, site) : pointer;
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
  memset(static_cast<void*>(&spool), 0, sizeof(spool));
  ForgetTurns();
  memset(asked_blocks, 0, sizeof(asked_blocks));
  modules_turn = 0;
  self.has_written = 0;
  self.turn = 0;
  ForgetChunk();
}

bool StartRecording() {
  const SpoolFile file = OpenSpool();
  SpoolHeader* header = file.header;
  if (header == nullptr) return false;
  spool.header = header;
  spool.bytes = file.bytes;
  spool.in_place = file.in_place;
  spool.chunks = (file.bytes - kSpoolChunksOffset) / kSpoolChunkBytes;
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

void EndRecording() {
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

void ReleaseChunk() {
  if (spool.header == nullptr) return;
  const SignalBlock block;
  spool.lock.Lock();
  if (self.chunk == nullptr) return spool.lock.Unlock();
  const uint64_t used = self.cursor - reinterpret_cast<char*>(self.chunk + 1);
  const bool full = used + sizeof(SpoolChunk) + 4096 > kSpoolChunkBytes;
  if (full || spool.remainder_count == kMaxRemainders) {
    Seal(self.chunk, self.cursor < self.limit ? self.cursor : self.limit);
  } else {
    spool.remainders[spool.remainder_count++] = {self.chunk->index, used};
  }
  ForgetChunk();
  spool.lock.Unlock();
}

void ForgetModules() {
  const SignalBlock block;
  spool.lock.Lock();
  // Only what may have gone matters, but a look-up afresh costs little and is rare.
  for (uint32_t i = 0; i < spool.modules; ++i) {
    LoadedModule module;
    if (!FindModule(spool.module_begin[i], &module) || module.begin != spool.module_begin[i]) {
      spool.module_begin[i] = spool.module_end[i] = 0;
    }
  }
  for (uint64_t& page : pulse.known_pages) __atomic_store_n(&page, 0, __ATOMIC_RELAXED);
  __atomic_fetch_add(&module_generation, 1, __ATOMIC_RELEASE);
  spool.lock.Unlock();
}

}  // namespace reprise::interpose
