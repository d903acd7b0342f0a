// The spool: what a recorded process writes, straight into an mmap-ed sparse file, so that nothing
// is lost when it is killed. A spool is raw and fast; `reprise` epochs it into a compact trace.
// Plain data only: this header is used inside the recorded process. Byte order: the machine's.
//
// Layout: SpoolHeader (one page) | module records | chunks of kSpoolChunkBytes each | at
// copies_offset: copies of chunks.
// A chunk: SpoolChunk, then events in program order of the thread named by the latest kThread event
// before them (a chunk always begins with one, and is passed on to another thread when its thread
// ends). Word 0 of an event is never zero; while the others are being written it is a kSpoolSkip. A
// zero word is room that was never written: readers pass over it, word by word, to the chunk's end.
//
// Fresh pages of a file are what recording costs most. So whoever started the process copies sealed
// chunks to the file's end (spool_drain.h) while it runs and gives them back to be written again;
// the process never waits for that and takes a new chunk when none came back. A chunk that was
// given back is known by its serial number: it counts no more when there is a copy with the same
// number.
//
// Word 0: bits 0..3 kind, bits 4..19 see there, bits 20..63 address >> kSpoolAddressShift.
//
// The global order is told by epochs. An epoch is a number that one thread took from a counter of
// the process, from 1 on; its events since, up to its next epoch, lie in the global order where
// that number does, and among themselves in the order of memory. Nobody else has the same number. A
// thread takes a new one when it begins a chunk, and otherwise by the rules in
// interpose/record/epochs.h.
#ifndef REPRISE_TRACE_SPOOL_FORMAT_H_
#define REPRISE_TRACE_SPOOL_FORMAT_H_

#include <stdint.h>

namespace reprise::trace {

inline constexpr uint64_t kSpoolMagic = 0x314c4f4f50535052;  // "RPSPOOL1" in little-endian bytes
inline constexpr uint32_t kSpoolVersion = 6;
inline constexpr uint32_t kSpoolByteOrder = 0x01020304;
inline constexpr uint64_t kSpoolHeaderBytes = 4096;
inline constexpr uint64_t kSpoolModuleBytes = 1 << 20;  // room for module records
inline constexpr uint32_t kSpoolMostModules = 512;      // of them
inline constexpr uint64_t kSpoolChunkBytes = 64 << 10;
inline constexpr uint64_t kSpoolChunksOffset = kSpoolHeaderBytes + kSpoolModuleBytes;
inline constexpr uint32_t kSpoolRing = 64;                // chunks under way to a copy, and back
inline constexpr uint32_t kSpoolChunkMagic = 0x4b4e4843;  // "CHNK"
#if defined(__aarch64__)
inline constexpr int kSpoolAddressShift = 4;  // 48-bit addresses, blocks 16-byte aligned
#else
inline constexpr int kSpoolAddressShift = 3;  // 47-bit addresses, blocks 8-byte aligned
#endif

enum SpoolEventKind : uint64_t {
  kSpoolMalloc = 1,         // 3 words: word 0, site word, size word
  kSpoolCalloc = 2,         // 3 words
  kSpoolAligned = 3,        // 3 words
  kSpoolReallocAlloc = 4,   // 3 words; follows its kSpoolReallocFree in the same thread
  kSpoolFree = 5,           // 1 word
  kSpoolReallocFree = 6,    // 1 word: the old block, written before the call
  kSpoolReallocFailed = 7,  // 1 word: the old block lives on; revokes the kSpoolReallocFree
  kSpoolUsable = 8,         // 2 words: word 0, the answer of malloc_usable_size
  kSpoolThread = 9,         // 4 words: word 0, thread id | parent id << 32, path, epoch
  kSpoolEpoch = 10,         // 2 words: word 0, epoch: the thread's next events lie there
  // Bits 20..63 say how many words to pass over, this one included. Bit 4 set: nothing is there.
  // Clear: an event was being written there; lost when the same thread wrote others after it.
  // Bits 4 and 5 set: a mark (marks.h), which readers may pass over as well.
  kSpoolSkip = 11,
  kSpoolSmallMalloc = 12,  // 2 words: word 0 with the size in bits 4..19, site word
  // A call stack: bits 4..19 say how many addresses follow, a word each, bits 20..63 its number.
  // The first is the return address of the call that allocates, the others are those above it.
  kSpoolStack = 13,
  kSpoolSmallUsable = 14,   // 1 word: word 0 with the answer in bits 4..19
  kSpoolSmallRealloc = 15,  // 2 words: a kSpoolReallocAlloc with the size in bits 4..19, site word
};

inline constexpr uint64_t kSpoolWaste = 1 << 4;
inline constexpr uint64_t kSpoolMark = kSpoolSkip | kSpoolWaste | 1 << 5 | 1 << 20;  // 1 word

// Site word: return address in bits 0..46, stack depth in 16-byte units modulo 2^17 in bits 47..63.
inline constexpr int kSpoolSiteBits = 47;
// In a recording with call stacks the number of one, counted from SpoolHeader::stack_base, takes
// the place of the return address.
inline constexpr uint64_t kSpoolStackCount = (1 << 16) - 1;
inline constexpr uint64_t kSpoolMostStacks = 1 << 21;
// Sizes below this fit in word 0.
inline constexpr uint64_t kSpoolSmallSizes = 1 << 16;
// Size word: bytes requested in bits 0..55, log2 of the alignment in bits 56..63 (0: the usual
// one).
inline constexpr int kSpoolSizeBits = 56;

// At SpoolHeader::module_bytes_used and below; 8-byte aligned; `path` then `build_id` (raw bytes)
// follow. `bytes` is written last.
struct SpoolModule {
  uint32_t bytes;  // of this record, padding included; 0: not written yet
  uint16_t path_bytes;
  uint16_t build_id_bytes;
  uint64_t base;        // load address
  uint64_t begin, end;  // the half-open range of its addresses
  uint64_t epoch;       // from when on: a later module may take the addresses of an earlier one
};

// SpoolModule::base of records that are no modules, with an empty range; their text takes the
// path's place. Of the first two: words, each ended by a zero byte, cut after 65,000 bytes.
inline constexpr uint64_t kSpoolCommand = 1;      // the command line
inline constexpr uint64_t kSpoolEnvironment = 2;  // NAME=value
inline constexpr uint64_t kSpoolThreadName = 3;   // of the thread whose path `begin` and `end` are

struct SpoolHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t byte_order;
  uint32_t address_shift;
  uint32_t pid;
  uint64_t start_time;  // of the process, clock ticks since boot: tells a reused pid apart
  uint64_t place;       // recording.h, Process
  uint64_t parent_place;
  uint32_t start_order;
  uint32_t complete;           // 1: the process said goodbye; nothing follows
  uint64_t copies_offset;      // bytes from the start of the file
  uint64_t module_bytes_used;  // atomic
  uint64_t chunks_used;        // atomic: chunks [0, chunks_used) may hold events
  uint64_t lost_events;        // atomic
  uint64_t unpreloadable;      // atomic
  uint32_t threads;            // atomic: thread ids given out; the main thread is 0
  // The path, zero-terminated; cut when longer. Then, where there is room, the name that it was
  // started by, zero-terminated; else zeros.
  char executable[1024];
  uint64_t stack_base;  // an address where no code is; 0: without call stacks
  uint64_t peak_rss;    // bytes (VmHWM), when the process said goodbye; 0: not known

  // Two rings of chunk numbers; each count only grows and is stored after what it counts. Written
  // by the process under its lock:
  alignas(64) uint64_t sealed_count;  // chunks that were sealed and may be copied
  uint64_t returned_count;            // of those in `drained`, how many were taken from it
  uint64_t rewritten_count;           // chunks that were begun anew
  uint32_t sealed[kSpoolRing];
  // Written by whoever copies:
  alignas(64) uint64_t copies;  // at copies_offset, kSpoolChunkBytes each
  uint64_t copied_count;        // of those in `sealed`, how many were looked at
  uint64_t drained_count;       // chunks that were copied and may be written again
  uint32_t drained[kSpoolRing];
};
static_assert(sizeof(SpoolHeader) <= kSpoolHeaderBytes);

// A copy has the number and the serial number of its original.
struct SpoolChunk {
  uint32_t magic;     // kSpoolChunkMagic; 0: never used
  uint32_t index;     // its own number
  uint64_t bytes;     // of events, set when sealed; 0: still written to
  uint64_t checksum;  // XXH3 (64 bits) over those bytes; 0: none (a copy always has one)
  uint64_t serial;    // another one each time that the chunk is written anew; never 0
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_FORMAT_H_
