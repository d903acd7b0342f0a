// Lowers a recording to the player's script.
#ifndef REPRISE_REPLAY_COMPARE_PLAYER_COMPILE_SCRIPT_H_
#define REPRISE_REPLAY_COMPARE_PLAYER_COMPILE_SCRIPT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trace/recording.h"
#include "trace/statistics.h"

namespace reprise::replay {

enum class Order {
  // The global order of the recording: one thread at a time, handing over wherever the recording
  // changes threads. What is live at any moment is what was live then, so that memory can be
  // measured against the recording's max load, and twice the same.
  kRecorded,
  // Only what must be: a block is freed after it was allocated. Threads run at once and contend,
  // but a producer may run ahead of its consumer, and more may be live than ever was.
  kDependencies,
};

// Where a plan puts the allocations of a recording.
struct Placement {
  static constexpr int64_t kUnplanned = -1;
  std::vector<int64_t> offsets;  // bytes from the arena's start, one per allocation; or kUnplanned
  int64_t arena_bytes = 0;       // every planned block ends at or below it
  uint64_t granule = trace::kBlockAlignment;  // what the plan rounds sizes up to, bytes
};

struct LowerOptions {
  Order order = Order::kRecorded;
  bool touch = true;                     // write to every page of a block
  bool nothing = false;                  // the script for what the player itself costs
  const Placement* placement = nullptr;  // not null: serve from a plan; requires kRecorded
  // Write down where each block lies, and how memory stands after each of `sample_events` (event
  // indices, ascending). Requires kRecorded.
  bool observe = false;
  std::vector<uint64_t> sample_events{};
  // More threads than this are never alive at once: recorded threads beyond it share.
  uint32_t most_threads = 512;
};

struct Script {
  std::vector<uint64_t> words;   // the file (replay/compare/player/script.h)
  uint32_t threads = 0;          // of the player
  uint32_t threads_at_once = 0;  // the most recorded threads that are alive together
  uint32_t shared = 0;           // recorded threads that had to share another one's player thread
};

// A thread is alive from its first allocation or free to its last, thread 0 always. A realloc whose
// old block is known is performed as one, at the event of the new block.
// Errors: InvalidArgument for a recording that contradicts itself (two things at one event, a death
// before the birth, a thread that does not exist), or a placement that does not fit it;
// ResourceExhausted for more live blocks or hand-overs than a script can name.
absl::StatusOr<Script> Lower(const trace::Recording& recording, const LowerOptions& options);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_PLAYER_COMPILE_SCRIPT_H_
