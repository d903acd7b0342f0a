#include "interpose/record/spool_chunks.h"

#include <linux/futex.h>
#include <string.h>

#include "base/system_call.h"
#include "interpose/process/address_map.h"
#include "interpose/process/shared_page.h"
#include "interpose/process/threads.h"
#include "interpose/process/unwind.h"

namespace reprise::interpose {

using trace::kSpoolChunkBytes;
using trace::kSpoolChunkMagic;
using trace::kSpoolChunksOffset;
using trace::kSpoolRing;
using trace::SpoolChunk;
using trace::SpoolHeader;

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
constexpr uint32_t kStarvedEvents = 4096;  // lost before the disk is asked again

// What a thread that ended left of its chunk.
struct Remainder {
  uint64_t index;
  uint64_t used;  // bytes of events
};

struct Chunks {
  uint64_t count;    // that fit
  bool in_place;     // SpoolFile's
  uint64_t serials;  // given out
  // Chunks that were given back, the latest last: it is the one most likely to be in a cache still.
  uint32_t spare_count;
  uint32_t spare[kSpoolRing];
  uint32_t resident_count;
  bool resident[kResidentChunks];
  uint32_t remainder_count;
  Remainder remainders[kMaxRemainders];
};

constinit Chunks chunks{};

char* ChunkAt(uint64_t index) {
  return reinterpret_cast<char*>(spool.header) + kSpoolChunksOffset + index * kSpoolChunkBytes;
}

// The chunk with the thread's limit; null when it had none.
char* ChunkBelow(char* limit) {
  return limit != nullptr ? ChunkAt((limit - 1 - ChunkAt(0)) / kSpoolChunkBytes) : nullptr;
}

// Begins the thread's chunk with its name and a new epoch. There is room.
void WriteThreadEvent() {
  char* at = Reserve(32);
  this_thread.epoch = TakeEpoch();
  BeginEpoch(this_thread.epoch, at + 32);
  if (uint64_t none = kNoteNone; this_thread.id != 0) {
    __atomic_compare_exchange_n(&fast_state.note_from, &none, kNoteLarge, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
  }
  StoreEvent<4>(at, trace::kSpoolThread,
                this_thread.id | static_cast<uint64_t>(this_thread.parent) << 32, this_thread.path,
                this_thread.epoch);
}

// The thread has no chunk any more. A hook that has looked whether the thread is quiet notices.
void ForgetChunk() {
  this_thread.chunk = nullptr;
  this_thread.life = 0;
  this_thread.quiet_epoch = 0;
  this_thread.cursor = this_thread.limit = nullptr;
}

// Leaves a chunk, which the launcher may copy, in memory or not. Whoever looks into it afterwards
// gets it back into memory, and its neighbours too.
void KeepResident(SpoolChunk* chunk, uint32_t index) {
  if (index < kResidentChunks && chunks.resident_count < kMostResident) {
    chunks.resident[index] = true;
    ++chunks.resident_count;
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
  while (header->returned_count != count && chunks.spare_count < kSpoolRing) {
    const uint32_t index = header->drained[header->returned_count++ % kSpoolRing];
    if (index < header->chunks_used) chunks.spare[chunks.spare_count++] = index;
  }
  if (chunks.spare_count == 0) return nullptr;
  const uint32_t index = chunks.spare[--chunks.spare_count];
  auto* chunk = reinterpret_cast<SpoolChunk*>(ChunkAt(index));
  bool ready = false;
  if (index < kResidentChunks && chunks.resident[index]) {
    chunks.resident[index] = false;
    --chunks.resident_count;
    ready = chunks.in_place;
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
  if (index >= chunks.count || !Populate(ChunkAt(index), step)) return nullptr;
  auto* chunk = reinterpret_cast<SpoolChunk*>(ChunkAt(index));
  chunk->index = static_cast<uint32_t>(index);
  return chunk;
}

void BeginLife(SpoolChunk* chunk) {
  __atomic_store_n(&chunk->serial, ++chunks.serials, __ATOMIC_RELEASE);
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
  if (chunks.remainder_count > 0) {
    const Remainder& remainder = chunks.remainders[--chunks.remainder_count];
    used = remainder.used;
    if (step > used + kFirstStep) step = used + kFirstStep;
    if (!Populate(ChunkAt(remainder.index), sizeof(SpoolChunk) + step)) return false;
    chunk = reinterpret_cast<SpoolChunk*>(ChunkAt(remainder.index));
  } else if (chunk = TakeDrained(); chunk != nullptr) {
    BeginLife(chunk);
  } else {
    // A thread with a few events costs a few pages; one that filled a chunk will fill another.
    if (!this_thread.has_written) step = kFirstStep - sizeof(SpoolChunk);
    chunk = TakeFresh(sizeof(SpoolChunk) + step);
    if (chunk == nullptr) return false;
    BeginLife(chunk);
  }
  this_thread.has_written = 1;
  this_thread.chunk = chunk;
  this_thread.life = chunk->serial;
  this_thread.cursor = reinterpret_cast<char*>(chunk + 1) + used;
  this_thread.limit = reinterpret_cast<char*>(chunk + 1) + step;
  WriteThreadEvent();
  return true;
}

// Marks the part of the reservation [at, at + bytes) that lies before `end`.
void WasteBefore(const char* end, char* at, uint64_t bytes) {
  Waste(at, at + bytes < end ? at + bytes : end);
}

// Makes more of the thread's chunk usable; false when there is no more of it, or no memory.
bool Grow() {
  const uint64_t left =
      reinterpret_cast<char*>(this_thread.chunk) + kSpoolChunkBytes - this_thread.limit;
  const uint64_t step = left < kStep ? left : kStep;
  if (step == 0 || !Populate(this_thread.limit, step)) return false;
  this_thread.limit += step;
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
  if (before.life != this_thread.life) {
    char* const old = ChunkBelow(before.limit);
    char* const now = reinterpret_cast<char*>(this_thread.chunk);
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
  if (this_thread.chunk != nullptr && at + bytes <= this_thread.limit) {
    Waste(at, at + bytes);
    return true;
  }
  if (this_thread.path == 0) NameUnknownThread(0);
  spool.lock.Lock();
  bool room = this_thread.chunk != nullptr && Grow();
  if (this_thread.chunk != nullptr) WasteBefore(this_thread.limit, at, bytes);
  if (!room) {
    if (this_thread.chunk != nullptr) Seal(this_thread.chunk, this_thread.limit);
    ForgetChunk();
    room = TakeChunk();
  }
  spool.lock.Unlock();
  // Asking again for every event would make a program on a full disk crawl.
  if (!room) this_thread.starved = kStarvedEvents;
  return room;
}

}  // namespace

REPRISE_SHARED_PAGE constinit Spool spool{};

bool FindRoom(const Room& before, char* at, uint64_t bytes) {
  if (this_thread.starved > 0 && this_thread.chunk == nullptr) {
    --this_thread.starved;
    this_thread.cursor = nullptr;
    return false;
  }
  return MakeRoom(before, at, bytes);
}

void ReleaseChunk() {
  if (spool.header == nullptr) return;
  const SignalBlock block;
  spool.lock.Lock();
  if (this_thread.chunk == nullptr) return spool.lock.Unlock();
  const uint64_t used = this_thread.cursor - reinterpret_cast<char*>(this_thread.chunk + 1);
  const bool full = used + sizeof(SpoolChunk) + 4096 > kSpoolChunkBytes;
  if (full || chunks.remainder_count == kMaxRemainders) {
    Seal(this_thread.chunk,
         this_thread.cursor < this_thread.limit ? this_thread.cursor : this_thread.limit);
  } else {
    chunks.remainders[chunks.remainder_count++] = {this_thread.chunk->index, used};
  }
  ForgetChunk();
  spool.lock.Unlock();
}

void StartChunks(const SpoolFile& file) {
  spool.header = file.header;
  chunks.in_place = file.in_place;
  chunks.count = (file.bytes - kSpoolChunksOffset) / kSpoolChunkBytes;
}

uint64_t ShrinkSpool(uint64_t address_limit) {
  if (spool.header == nullptr) return 0;
  const SignalBlock block;
  spool.lock.Lock();
  uint64_t count = (SpoolBytes(address_limit) - kSpoolChunksOffset) / kSpoolChunkBytes;
  if (count < spool.header->chunks_used) count = spool.header->chunks_used;
  if (count < chunks.count) chunks.count = count;
  spool.lock.Unlock();
  return kSpoolChunksOffset + chunks.count * kSpoolChunkBytes;
}

void ForgetSpool() {
  memset(static_cast<void*>(&spool), 0, sizeof(spool));
  memset(static_cast<void*>(&chunks), 0, sizeof(chunks));
  this_thread.has_written = 0;
  ForgetChunk();
}

}  // namespace reprise::interpose
