// The plan file: what replay needs, laid out so that a process maps it and follows it.
// Plain data only: this header is used inside the replayed process. Byte order: the machine's.
//
// A lane is a thread's part of the plan: one stream of 32-bit words, in the order in which the
// thread's allocations and frees happened in the recording.
//
//   allocation  bit 31 = 0 | code (31 - offset_bits bits) | offset / 16 (offset_bits bits)
//               the code is an index into the keys; all ones: far, two more words follow, the index
//               of the key and offset / 16; if the lower bits are 1 and not 0 the key is told, by
//               three more: its shape, site_offset, and module << kDepthBits | depth
//   free        bit 31 = 1 | offset / 16, of the block that dies
//   special     bit 31 = 1 | a value from kSpecial on:
//               kDrain  another thread frees a block of this lane; one more word, offset / 16
//               kTurn   the words before this one are not read again, but for those of a loop
//               kIdle   no block is planned in some pages of the box for a long time from here on;
//                       two more words, the first page and how many
//               kUsed   up to the next such word no more pages of the box have been used than so
//                       many, which one more word tells
//               kLoop   the end of a loop's body (PlanLoop): the stream goes on behind it, or again
//                       with the body's first word
//               kEnd    the lane ends
//
// Offsets are relative to the lane's box, which is a part of the arena.
#ifndef REPRISE_REPLAY_PLAN_PLAN_FORMAT_H_
#define REPRISE_REPLAY_PLAN_PLAN_FORMAT_H_

#include <stdint.h>

namespace reprise::replay {

inline constexpr uint64_t kPlanMagic = 0x314e414c50535052;  // "RPSPLAN1" in little-endian bytes
inline constexpr uint32_t kPlanVersion = 10;
inline constexpr uint32_t kPlanByteOrder = 0x01020304;
inline constexpr uint64_t kGranule = 16;  // bytes; every offset and size is a multiple
inline constexpr uint64_t kBoxAlignment = 4096;
inline constexpr uint64_t kMostArenaBytes = uint64_t{128} << 30;
// A lane that has left its plan keeps a list of the gaps of so many granules or more.
inline constexpr uint64_t kLongGapGranules = 127;
inline constexpr uint64_t kLongBlock = 256 << 10;  // bytes: of which a program may touch little
inline constexpr uint32_t kFreeBit = 1u << 31;
inline constexpr uint32_t kSpecial = 0xfffff000;
inline constexpr uint32_t kDrain = kSpecial;
inline constexpr uint32_t kUsed = 0xfffffff8;
inline constexpr uint32_t kIdle = 0xfffffffc;
inline constexpr uint32_t kLoop = 0xfffffffd;
inline constexpr uint32_t kTurn = 0xfffffffe;
inline constexpr uint32_t kEnd = 0xffffffff;
inline constexpr uint32_t kMostLaneLoops = 8;
inline constexpr uint32_t kTurnWords = 1 << 14;  // from one turn to the next
inline constexpr uint32_t kWordsAhead = 64;  // behind any word of a lane so many more can be read
// With a page that is read the system maps all of its stretch, bytes, if that is in one piece in
// the page cache. The first page, which is read all the time, is
// mapped so that it comes alone.
inline constexpr uint64_t kPlanStretch = 64 << 10;
inline constexpr uint64_t kPlanFirst = 4096;
inline constexpr uint64_t kHugePage = 2 << 20;
inline constexpr uint64_t kMostLaneGranules = (kSpecial & ~kFreeBit);  // 64 KiB below 32 GiB
inline constexpr uint32_t kNeverDies = UINT32_MAX;                     // longer than any lane
inline constexpr uint32_t kNoModule = UINT32_MAX;

// What identifies an allocation within its lane: its shape and its call site.
// Shape: the size in units of 8 bytes, rounded up, in bits 0..55, at least 1; for alignments above
// 16 also bit 63, and log2 of the alignment in bits 56..62. So the shape of a plain malloc is a
// number of units, and no size, however large, looks like a shape with an alignment. Units of 8,
// because most allocators' usable sizes are multiples of 8, and all of a plan's: what is usable in
// the block of one request of a shape is enough for every other of that shape.
constexpr uint64_t PlainShape(uint64_t size) { return (size + 7) >> 3; }  // of sizes above 0
constexpr uint64_t Shape(uint64_t size, unsigned log2_alignment) {
  const uint64_t units = size > 0 ? PlainShape(size) : 1;
  if (log2_alignment <= 4) return units;
  return units | static_cast<uint64_t>(log2_alignment) << 56 | uint64_t{1} << 63;
}

constexpr uint64_t ShapeUnits(uint64_t shape) { return shape & ((uint64_t{1} << 56) - 1); }
constexpr unsigned ShapeLog2Alignment(uint64_t shape) {
  return shape >> 63 != 0 ? static_cast<unsigned>(shape >> 56 & 127) : 4;
}

// The granules that a request of this shape needs, and that its place is a multiple of.
constexpr uint64_t ShapeGranules(uint64_t shape) { return (ShapeUnits(shape) + 1) / 2; }
constexpr uint64_t ShapeStep(uint64_t shape) {
  return (uint64_t{1} << ShapeLog2Alignment(shape)) / kGranule;
}

// Call sites are told apart by how deep the stack is, too, in units of 16 bytes, modulo kDepths:
// depths that are 64 KiB apart are the same to replay.
inline constexpr int kFrameBits = 16;
inline constexpr int kDepthBits = kFrameBits - 4;
inline constexpr uint32_t kDepths = 1 << kDepthBits;

struct PlanKey {
  uint64_t shape;
  uint64_t site_offset;  // of the return address, from the module's load address
  uint32_t module;       // index into the modules; kNoModule: site_offset is absolute
  uint32_t depth;        // trace/recording.h, Site; modulo kDepths
  uint64_t usable;       // bytes that malloc_usable_size answers; the block has at least as many
};

// Replay keeps the most frequent keys in memory. The others are told where they are asked for: a
// program may have many, most of which come a few times.
inline constexpr uint64_t kKeysInMemory = 4096;
inline constexpr uint32_t kTold = 1;        // the lower bits of a far word whose key is told
inline constexpr uint32_t kToldLength = 6;  // of such an allocation, in words
constexpr bool IsTold(uint64_t index, const PlanKey& key) {
  constexpr int kWordBits = 31;  // no word of a key looks like a free
  return index >= kKeysInMemory && key.shape != 0 && key.shape >> kWordBits == 0 &&
         key.site_offset >> kWordBits == 0 && key.module >> (kWordBits - kDepthBits) == 0;
}

// A block of a lane: where it lies and between which of its words it lives. Not in the file: what
// the stream says (PlanFile::Blocks).
struct PlanBlock {
  uint32_t offset;  // / 16, relative to the box
  uint32_t birth;   // index of its allocation word in the lane
  uint32_t death;   // index of the word that frees it; kNeverDies
  uint32_t key;
};

struct PlanLane {
  uint64_t path;        // of the thread; 0: the whole recording as one lane, not for replay
  uint64_t box_offset;  // bytes from the arena's start; a multiple of kBoxAlignment or more
  uint64_t box_bytes;   // a multiple of kBoxAlignment; 0: the thread is known, and off plan from
                        // its start. Then the words are its first allocation and kEnd
  uint64_t first_word;  // index into the words of the file
  uint64_t words;       // kEnd included
  uint64_t blocks;      // allocations among the words that are placed
  uint32_t offset_bits;
  uint32_t loops;       // that the lane has
  uint64_t first_loop;  // index into the loops of the file
};

// A part of a lane's words that may be followed as often as the program likes. What lives in the
// box is the same before and behind it: the same offsets, and as many bytes usable. The recording
// went through it several times, the file has it once. The loops of a lane are disjoint and
// ascending.
struct PlanLoop {
  uint32_t first_word;  // index in the lane
  uint32_t words;       // behind which there is the kLoop
  uint32_t
      period_words;  // after so many words the same ones come again; what lives is the same there
  uint32_t iterations;  // of the program, in all of the words; a multiple of words / period_words
  uint32_t blocks;      // allocations among the words
  uint32_t passes;      // that the recording has
  uint64_t carried;     // blocks that live over the end
  uint64_t carried_bytes;
};

struct PlanModule {
  uint32_t path_offset;  // into the strings
  uint32_t path_bytes;
  uint32_t build_id_offset;
  uint32_t build_id_bytes;  // hexadecimal
};

// A table of the file: `count` entries from byte `offset` on; a multiple of 64.
struct PlanTable {
  uint64_t offset;
  uint64_t count;
};

// What holds for the whole plan.
inline constexpr uint64_t kPlanRoot = 1;     // it was the program that was started
inline constexpr uint64_t kPlanLearned = 2;  // it was made with statistics of replays

struct PlanHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t byte_order;
  uint64_t checksum;  // XXH3 (64 bits) of the whole file with this field zero
  uint64_t file_bytes;
  uint64_t place;        // of the recorded image in the process tree
  uint64_t flags;        // kPlanRoot, kPlanLearned
  uint64_t arena_bytes;  // all boxes lie in [0, arena_bytes)
  uint64_t max_load;     // of the recording, bytes, sizes rounded up to 16
  uint64_t events;       // of the recording
  PlanTable modules;
  PlanTable keys;   // the most frequent first; entries whose index is all ones in some number
                    // of bits stay unused
  PlanTable lanes;  // in the order of their threads
  PlanTable words;
  PlanTable strings;           // bytes
  uint32_t executable_offset;  // into the strings
  uint32_t executable_bytes;
  uint32_t build_id_offset;
  uint32_t build_id_bytes;
  uint64_t recording;  // hash of its allocations: plans of one recording have the same
  // uint32_t, ascending: which huge pages of the arena become resident in any case, because short
  // blocks lie everywhere in them at one time or another, or long ones come and go all the time.
  // None in a plan with several lanes.
  PlanTable dense;
  PlanTable loops;  // those of a lane one after the other
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_PLAN_FORMAT_H_
