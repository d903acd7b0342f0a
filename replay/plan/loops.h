// Loops in the streams of a recording's lanes.
//
// A lane's stream is what its thread allocates and frees, in order: its steps. Two allocations are
// alike when size, alignment and call site are the same; two frees when as many allocations lie
// between a block's birth and its free. Frees that follow each other may do so in any order: a hash
// table of addresses has another one each time. Where the steps repeat, and as many blocks come
// alive in a repetition as die in it, the lane has a loop: prefix, body, suffix. A run may then go
// through the body as often as it likes. (Levental, Memory Planning for Deep Neural Networks, 2022,
// has one slab for all passes of a network; this finds the passes by itself.)
//
// A block may be carried over the end of the body, into the next pass. It has the same offset as
// the block that the prefix carries into the first pass. One that lives for several iterations
// needs several places: the body then is as many iterations long, so that nothing lives longer than
// a pass.
#ifndef REPRISE_REPLAY_PLAN_LOOPS_H_
#define REPRISE_REPLAY_PLAN_LOOPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "replay/plan/block_bytes.h"
#include "trace/recording.h"

namespace reprise::replay {

// A step: the index of an allocation of the recording that is born, or with kStepFrees dies.
inline constexpr uint32_t kStepFrees = 1u << 31;

// Steps are counted from the lane's first.
struct Loop {
  uint32_t begin = 0;        // of the body
  uint32_t iteration = 0;    // steps of the shortest repeat
  uint32_t unrolled = 1;     // iterations until an offset may be used again
  uint32_t copies = 1;       // how often the plan file has these, so that a body is not too short
  uint32_t passes = 0;       // through all copies, in the recording
  uint64_t allocations = 0;  // per iteration
  uint64_t bytes = 0;        // that an iteration allocates
  uint64_t carried = 0;      // blocks that live over the end of the body
  uint64_t carried_bytes = 0;

  uint32_t period() const { return iteration * unrolled; }  // steps after which offsets repeat
  uint32_t body() const { return period() * copies; }       // steps
  uint32_t end() const { return begin + body() * passes; }
  uint64_t iterations() const { return uint64_t{unrolled} * copies * passes; }
};

enum class LoopMode {
  kAuto,   // what repeats in the lanes' streams; none without lanes
  kMarks,  // what repeats there from mark to mark (Recording::marks)
  kNone,
};

struct LaneLoops {
  std::vector<uint32_t> steps;
  std::vector<uint32_t> marks;  // each stands before that step; ascending
  std::vector<Loop> loops;      // disjoint, ascending
  // Allocations with one offset: the former dies before the latter is born.
  std::vector<std::pair<uint32_t, uint32_t>> same_offset;
  // Why a repeat that has a quarter of the steps or more, or the marks, are no loop; empty: they
  // are one, or there are none.
  std::string refused;
};

// What people are told.
struct FoundLoops {
  struct Found {
    size_t thread = 0;         // index into the recording's threads; 0 where one lane holds all
    uint64_t first_event = 0;  // of the recording, half-open: all passes
    uint64_t end_event = 0;
    Loop loop;
  };
  struct Refused {
    size_t thread = 0;
    std::string why;
  };
  std::vector<Found> loops;      // the longest first
  std::vector<Refused> refused;  // threads whose events repeat, but are no loop

  // Adds what was found in a lane.
  void Add(const trace::Recording& recording, size_t thread, const LaneLoops& lane);
  void Sort();
};

// Per thread of the recording. `by_thread` false: one lane holds all. O(n) time, about 0.3 s for a
// million events.
// With LoopMode::kMarks the body begins at a mark, and an iteration goes from one to a later one.
// Where the program goes on behind the last iteration as an iteration begins, the body begins as
// many steps behind the mark.
std::vector<LaneLoops> FindLoops(const trace::Recording& recording, const BlockBytes& block_bytes,
                                 bool by_thread, LoopMode mode = LoopMode::kAuto);

// A lane's steps with one pass through each loop.
struct ShortLane {
  std::vector<uint32_t> steps;
  struct Body {
    uint32_t begin = 0;  // among these steps
    uint32_t end = 0;
    Loop loop;
  };
  std::vector<Body> bodies;
};

// `with_copies`: the body has all of its copies, or only one. `stands_for` has an entry for each
// allocation of the recording; for each of the lane's it becomes the one among the steps that has
// its offset, mostly itself.
ShortLane Shorten(const LaneLoops& lane, bool with_copies, std::vector<uint32_t>& stands_for);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_LOOPS_H_
