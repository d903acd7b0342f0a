// Recordings made up for the tests of plans and lanes.
#ifndef REPRISE_TESTS_UNIT_PLAN_RECORDINGS_H_
#define REPRISE_TESTS_UNIT_PLAN_RECORDINGS_H_

#include <cstdint>
#include <random>
#include <vector>

#include "trace/recording.h"

namespace reprise::replay {

// Where the one module of these recordings lies.
inline constexpr uint64_t kModuleBase = 0x400000;

struct RecordingShape {
  uint32_t allocations = 1000;
  uint32_t threads = 1;
  uint32_t phases = 1;  // thread i runs in phase i % phases, which frees all but what lives forever
  uint32_t sites = 20;
  uint64_t most_bytes = 400;
  bool magnitudes = false;  // sizes of each magnitude are as many as of the others
  double own_size = 0.8;    // share of requests of the size that their site has
  double remote_frees = 0;  // share of blocks that another thread frees
  double never_freed = 0.02;
  double aligned = 0.02;  // share of requests that ask for 64 bytes of alignment or more
  uint64_t most_log2_alignment = 12;
  double reallocs = 0;         // share of blocks that a realloc frees
  double usable_asked = 0.05;  // share of blocks whose usable size was asked for
};

// A random recording: mostly short lives, some long ones. Site i is module 0, offset 16 * (i + 1).
trace::Recording RandomRecording(const RecordingShape& shape, uint64_t seed);

struct LoopShape {
  uint32_t threads = 1;
  uint32_t prefix = 50;      // allocations before the loop, and as many behind it
  uint32_t body = 40;        // allocations of an iteration
  uint32_t iterations = 10;  // of every thread
  uint32_t sites = 20;
  double carried = 0.1;     // share of the blocks of an iteration that the next ones free
  uint32_t longest = 1;     // iterations that such a block lives at most
  double remote_frees = 0;  // share of the others that another thread frees
};

// Threads that do the same again and again, with random sizes and lives, each with others, and with
// a mark where each iteration begins. Sites as above.
trace::Recording LoopRecording(const LoopShape& shape, uint64_t seed);

struct Made {
  uint64_t birth;
  uint64_t death;
  uint64_t size;
  uint8_t log2_alignment = 4;
};

// Frees that follow each other, with no mark in between, come in another order, as those of a hash
// table of addresses do.
void ShuffleFrees(trace::Recording& recording, uint64_t seed);

// One thread; each allocation comes from a call site of its own, which SiteWordOf
// (replay_served_plan.h) tells.
trace::Recording RecordingOf(const std::vector<Made>& blocks);

}  // namespace reprise::replay

#endif  // REPRISE_TESTS_UNIT_PLAN_RECORDINGS_H_
