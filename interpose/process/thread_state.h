// What the library knows of the calling thread: one small block of initial-exec thread-local
// storage, so that no hook ever calls into the loader.
#ifndef REPRISE_INTERPOSE_PROCESS_THREAD_STATE_H_
#define REPRISE_INTERPOSE_PROCESS_THREAD_STATE_H_

#include <stdint.h>

#include "trace/spool_format.h"

namespace reprise::trace {
struct SpoolChunk;
}
namespace reprise::replay {
class Lane;
class LocalHeap;
}  // namespace reprise::replay

namespace reprise::interpose {

struct alignas(64) ThreadState {
  // What an event of a quiet thread (epochs.h) needs, recorded or replayed, is this line. Cursor
  // and limit both null: no chunk yet.
  char* cursor;          // where the next event goes; may run past `limit`
  char* limit;           // end of the part of the chunk that is backed by memory
  uint64_t life;         // SpoolChunk::serial of the chunk; 0: no chunk
  uint64_t quiet_epoch;  // events need not be noted as long as this is the newest epoch; 0: never
  replay::Lane* plain;   // `quiet`; null while a hook is changing the lane or the heap
  uint64_t busy;         // above all addresses in such a hook, unless it only takes from `quiet`
                         // what that expects, else 0: a signal handler must keep out of them
  uint64_t stack_base;   // stack depths count from here
  uint64_t stack_bytes;  // a frame further away is on another stack and has no depth

  replay::LocalHeap* off_plan;  // `heap`, when no lane is followed, else null

  // Recorder.
  uint64_t epoch;   // its latest; 0: it needs another before its next event
  char* epoch_end;  // of the part of the chunk that may be written in that epoch
  trace::SpoolChunk* chunk;
  uint64_t taken_epoch;      // the latest that the thread took
  uint32_t epochs_in_a_row;  // taken up to there, nobody else's in between
  uint32_t has_written;      // has had a chunk before
  uint32_t starved;          // no room was found: events to lose before it is looked for again

  // Replay.
  uint32_t lane_tried;      // the thread has asked for its lane, whether or not it got one
  replay::Lane* lane;       // null: this thread has none
  replay::Lane* quiet;      // `lane`, when it follows its stream and nothing is recorded as well,
                            // else null
  replay::LocalHeap* heap;  // the thread's; null until needed

  // Identity.
  uint64_t path;        // 0: not known yet
  uint32_t id;          // in the spool; the main thread is 0
  uint32_t parent;      // id
  uint32_t created;     // threads this one created so far
  uint8_t ended;        // the thread's exit hook has run; only destructors of others may follow
  uint8_t exit_rounds;  // how often the exit hook has stood back behind other destructors
};

extern __thread ThreadState this_thread;

// Who called a hook: the address that it returns to, and where the caller's frame ends. On x86-64
// the one lies right below the other, and one register tells both: the stack pointer, for a hook
// that has saved nothing.
class Caller {
 public:
#if defined(__x86_64__)
  Caller(uint64_t, uint64_t frame) : slot_(frame - 8) {}
  uint64_t return_address() const { return *reinterpret_cast<const uint64_t*>(slot_); }
#else
  Caller(uint64_t return_address, uint64_t frame)
      : slot_(frame - 8), return_address_(return_address) {}
  uint64_t return_address() const { return return_address_; }
#endif
  uint64_t frame() const { return slot_ + 8; }
  uint64_t slot() const { return slot_; }

 private:
  uint64_t slot_;
#if !defined(__x86_64__)
  uint64_t return_address_;
#endif
};

// The caller of the exported function that this is inlined in, looked at anew each time it is asked
// for: no register holds anything of it in between.
struct ThisCaller {
#if defined(__x86_64__)
  [[gnu::always_inline]] static const uint64_t* Slot() {
    return static_cast<const uint64_t*>(__builtin_dwarf_cfa()) - 1;
  }
  [[gnu::always_inline]] uint64_t slot() const {
    uint64_t slot;
    asm("leaq %1, %0" : "=r"(slot) : "m"(*Slot()));
    return slot;
  }
  [[gnu::always_inline]] uint64_t return_address() const { return *Slot(); }
#else
  [[gnu::always_inline]] uint64_t slot() const {
    return reinterpret_cast<uint64_t>(__builtin_dwarf_cfa()) - 8;
  }
  [[gnu::always_inline]] uint64_t return_address() const {
    return reinterpret_cast<uint64_t>(__builtin_return_address(0));
  }
#endif
  [[gnu::always_inline]] operator Caller() const {  // NOLINT: it is one
    return Caller(return_address(), slot() + 8);
  }
};

// How deep the stack is, in units of 16 bytes; 0: the frame is on another one.
inline uint64_t DepthOf(Caller caller) {
  const uint64_t below = this_thread.stack_base - caller.frame();
  return __builtin_expect(below < this_thread.stack_bytes, 1) ? below >> 4 : 0;
}

// The call site as the spool's site word: return address, which has no more bits, and stack depth.
inline uint64_t SiteWord(Caller caller) {
  return caller.return_address() | DepthOf(caller) << trace::kSpoolSiteBits;
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_THREAD_STATE_H_
