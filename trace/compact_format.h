// The compact trace: what a spool becomes after the run. docs/reference/trace_format.md says what
// every byte means; this header names the parts. All fixed-width integers are little-endian.
//
// Layout: FileHeader | chunks, each a ChunkHeader and a zstd frame. A chunk stands for itself: it
// has its own checksum and is found again after damage by its sync marker.
#ifndef REPRISE_TRACE_COMPACT_FORMAT_H_
#define REPRISE_TRACE_COMPACT_FORMAT_H_

#include <bit>
#include <cstdint>

namespace reprise::trace {

static_assert(std::endian::native == std::endian::little,
              "the compact format is read and written by plain copies");

inline constexpr uint64_t kCompactMagic = 0x0a45434152545052;  // "RPTRACE\n"
inline constexpr uint32_t kCompactVersion = 2;                 // version 1 had no stacks
inline constexpr uint32_t kCompactByteOrder = 0x01020304;
inline constexpr uint64_t kChunkSync = 0xc3a59b17e84d02f6;

// No chunk is larger, raw or compressed; a header that claims more is damaged.
inline constexpr uint32_t kMaxChunkBytes = 4 << 20;

// A chunk of events or definitions is closed when it has grown beyond this.
inline constexpr uint32_t kChunkTarget = 1 << 20;
// One of events is not larger.
inline constexpr uint32_t kMaxEventBytes = kChunkTarget + 4096;

struct FileHeader {
  uint64_t magic = kCompactMagic;
  uint32_t version = kCompactVersion;
  uint32_t byte_order = kCompactByteOrder;
  uint64_t reserved = 0;
  uint64_t checksum = 0;  // XXH3 (64 bits) over the bytes before it
};
static_assert(sizeof(FileHeader) == 32);

enum class ChunkType : uint32_t {
  kProcess = 1,
  kModules = 2,
  kThreads = 3,
  kSites = 4,
  kEvents = 5,
  kDamage = 6,
  kEnd = 7,
  kStacks = 8,
  kThreadNames = 9,
  kMarks = 10,
};

struct ChunkHeader {
  uint64_t sync = kChunkSync;
  uint32_t type = 0;
  uint32_t number = 0;            // of the chunk in the file, from 0: tells that chunks are missing
  uint32_t raw_bytes = 0;         // of the payload before compression
  uint32_t payload_bytes = 0;     // that follow this header
  uint64_t payload_checksum = 0;  // XXH3 (64 bits) over the payload
  uint64_t header_checksum = 0;   // XXH3 (64 bits) over the bytes before it
};
static_assert(sizeof(ChunkHeader) == 40);

// Fields of the kProcess and kEnd chunks: (tag, length, value) triples of varints; a tag that is
// not known is skipped.
enum class ProcessTag : uint64_t {
  kPlace = 1,
  kParentPlace = 2,
  kStartOrder = 3,
  kExecutable = 4,
  kBuildId = 5,
  kCommand = 6,
  kUnpreloadable = 7,
  kComplete = 8,
  kEnvironment = 9,
  kPeakRss = 10,
  kStartedAs = 11,
};
enum class EndTag : uint64_t {
  kEvents = 1,
  kAllocations = 2,
  kUnmatchedFrees = 3,
  kImpliedFrees = 4,
  kLostEvents = 5,
};

// Tokens of a kEvents chunk: a varint whose low bits say what it is.
//   ......1  free of the block allocated (token >> 1) + 1 allocations ago
//   .....00  allocation at call site token >> 2; a varint follows: size
//   .....10  token >> 2 is an EventCode, with varints after it
enum class EventCode : uint64_t {
  kThread = 0,         // what follows happens in thread: index
  kPrevious = 1,       // the next allocation replaces the block that many allocations ago; 0: none
  kUnmatchedFree = 2,  // nothing follows
  kImpliedFree = 3,    // of the block that many allocations ago
  kUsable = 4,         // the block that many allocations ago, the answer
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_COMPACT_FORMAT_H_
