// The player's script: a recording lowered to what every thread must do, in one flat file that the
// player maps and reads without allocating. Plain data, the machine's byte order: it lives for one
// comparison and never leaves the machine.
//
// Layout: ScriptHeader | ScriptThread[threads] | 64-bit words, the operations of the threads.
//
// An operation is a word: bits 0..3 kind, bits 4..31 a slot or a thread, bits 32..63 a value.
// Blocks are named by slots, which are used again; a slot passes only between operations that are
// ordered. kExtended is followed by a word with the size. With kScriptPlan, an operation that
// allocates is followed by its offset in the arena (-1: not planned), and a kRealloc after that by
// the size of the block it replaces.
#ifndef REPRISE_REPLAY_COMPARE_PLAYER_SCRIPT_H_
#define REPRISE_REPLAY_COMPARE_PLAYER_SCRIPT_H_

#include <stdint.h>

namespace reprise::replay {

inline constexpr uint64_t kScriptMagic = 0x31524559414c5052;  // "RPLAYER1" in little-endian bytes

enum ScriptKind : uint64_t {
  kScriptMalloc = 1,    // slot, bytes
  kScriptCalloc = 2,    // slot, bytes
  kScriptRealloc = 3,   // slot (holds the old block, then the new one), bytes
  kScriptFree = 4,      // slot
  kScriptExtended = 5,  // slot, kind | log2 of the alignment << 8; the next word is the size
  kScriptSignal = 6,   // thread, value: my progress is now `value`, and that thread may wait for it
  kScriptWait = 7,     // thread, value: until that thread's progress is at least `value`
  kScriptStart = 8,    // thread
  kScriptJoin = 9,     // thread: until it is gone, its caches with it
  kScriptSample = 10,  // value: number of the sample; only with kScriptObserve
};

inline constexpr uint32_t kMostSlots = 1 << 28;

constexpr uint64_t ScriptWord(ScriptKind kind, uint32_t slot_or_thread, uint32_t value) {
  return kind | uint64_t{slot_or_thread} << 4 | uint64_t{value} << 32;
}
constexpr ScriptKind KindOf(uint64_t word) { return static_cast<ScriptKind>(word & 15); }
constexpr uint32_t SlotOf(uint64_t word) { return static_cast<uint32_t>(word) >> 4; }
constexpr uint32_t ValueOf(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

enum ScriptFlags : uint32_t {
  kScriptPlan = 1,     // blocks are served from an arena at given offsets
  kScriptNothing = 2,  // every block is the same one: what the player itself costs
  kScriptTouch = 4,    // the first byte of every page of a block is written
  kScriptObserve = 8,  // write down where blocks lie and how memory grows; costs time
};

struct ScriptHeader {
  uint64_t magic;
  uint32_t threads;
  uint32_t slots;
  uint64_t words;        // in the whole file
  uint64_t arena_bytes;  // with kScriptPlan
  uint32_t flags;
  uint32_t granule;  // with kScriptPlan: its blocks are rounded up to multiples of so many bytes
  uint64_t samples;  // with kScriptObserve
  uint64_t allocations;  // with kScriptObserve
};

// With kScriptObserve the player writes a second file: ObservedSample[samples], then the address of
// each allocation in the order in which they come (0: refused), 64 bits each, then ObservedReturn[]
// up to its end.
struct ObservedSample {
  static constexpr uint64_t kUnknown = UINT64_MAX;
  uint64_t resident;  // bytes of memory of the process' own, less what was there at the start
  uint64_t usable;    // bytes: what malloc_usable_size says, summed over live blocks; or kUnknown
  uint64_t pages;     // that hold or held a byte of a live block, and were not given back
};
// Pages that held a live block and that the system has taken back. It is asked at each sample, and
// before the pages held become more than ever by 1/128.
struct ObservedReturn {
  uint64_t allocations;  // that there were before it was seen
  uint64_t page;         // the number of the first
  uint64_t pages;
};

// Thread 0 is the player's own main thread; the others are started by kScriptStart.
struct ScriptThread {
  uint64_t begin, end;  // half-open range of words, counted from the start of the file
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_PLAYER_SCRIPT_H_
