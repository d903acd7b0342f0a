// Compares allocators: each performs the same recording in a process of its own, and so does a
// plan.
#ifndef REPRISE_REPLAY_COMPARE_COMPARE_H_
#define REPRISE_REPLAY_COMPARE_COMPARE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "replay/compare/player/compile_script.h"
#include "trace/recording.h"
#include "trace/statistics.h"

namespace reprise::replay {

// An allocator that can be preloaded.
struct Allocator {
  std::string name;
  // Sonames or paths to preload; the first one that the dynamic linker finds and that really serves
  // malloc is taken. Empty: the C library's own allocator, without a preload.
  std::vector<std::string> libraries;
  bool nothing = false;  // no allocator at all: what the player itself costs
};

// "glibc,jemalloc,NAME=/path/to.so" to allocators. Known names: glibc, jemalloc, mimalloc,
// tcmalloc, and nothing. InvalidArgument for an unknown name.
absl::StatusOr<std::vector<Allocator>> ParseAllocators(std::string_view list);

inline constexpr std::string_view kUsualAllocators = "glibc,jemalloc,mimalloc,tcmalloc";

// What one allocator needed for a recording. Bytes and seconds.
struct Measurement {
  std::string allocator;
  std::string version;  // as the library itself tells it; may be empty
  std::string object;   // path of the object that malloc was found to come from
  // Symbol and path of the object that the process really got it from, for all that is called.
  std::vector<std::pair<std::string, std::string>> provenance{};
  // The most that was resident, less what was before the first operation. The kernel counts in
  // batches per CPU: a few hundred KiB are noise.
  int64_t peak_rss = 0;
  int64_t peak_rss_absolute = 0;  // of the whole process, without the script and its tables
  // Pages that ever held a byte of a live block; once observed, the most at one time that did and
  // had not been given back to the system, with less than 1 % too much.
  int64_t footprint = 0;
  int64_t address_span = 0;          // highest minus lowest address ever live, whole pages
  int64_t fragmentation = 0;         // footprint minus max load
  double fragmentation_percent = 0;  // of the max load
  // What the footprint is made of, when the load is at its maximum: requested_at_peak + internal +
  // external. Internal: usable minus requested; external: footprint minus usable. -1: not observed,
  // or the allocator does not tell usable sizes.
  int64_t requested_at_peak = -1;
  int64_t internal_fragmentation = -1;
  int64_t external_fragmentation = -1;
  double seconds = 0;       // summed over threads, without waiting for the recorded order
  double cpu_seconds = 0;   // of the process, waiting included
  double wall_seconds = 0;  // waiting included
  double wait_seconds = 0;  // summed over threads
  int64_t waits = 0;        // hand-overs between threads that did not come at once
  int64_t page_faults = 0;
  int64_t operations = 0;       // calls to the allocator
  int64_t failures = 0;         // allocations that were refused
  int64_t threads = 0;          // of the player
  int64_t threads_at_once = 0;  // the most recorded threads that are alive together
  int64_t threads_shared = 0;   // recorded threads without a player thread of their own
};

struct CompareOptions {
  std::string player{};  // path of reprise-player; empty: FindPlayer()
  Order order = Order::kRecorded;
  bool touch = true;
  // What blocks count as rounded up to in the max load, and are in a plan: bytes.
  uint64_t alignment = trace::kBlockAlignment;
  // Bytes, what fragmentation is above; that of the recording unless said. Gaps may lower it.
  std::optional<int64_t> max_load{};
};

// Bytes that held a live block and were found to be given back to the system.
struct Returned {
  uint64_t allocations = 0;  // that there were before it was found
  uint64_t begin = 0;        // an address, or a place in a map
  uint64_t bytes = 0;
};

// What a run looked like from inside, in the recorded order. Watching it takes time and memory, so
// it is a run of its own beside the measured ones.
struct Observation {
  std::vector<uint64_t> addresses;  // per allocation; 0: refused. Of a plan: real ones, too
  std::vector<uint64_t> events;     // event indices at which was sampled: after the event
  std::vector<int64_t> resident;    // bytes per sample: of the process' own, above the start
  std::vector<int64_t> usable;      // bytes per sample, over live blocks; -1: not known
  std::vector<int64_t> footprint;   // bytes per sample: as Measurement::footprint, at that time
  int64_t most_held = 0;            // Measurement::footprint
  std::vector<Returned> returned;   // in order
};

// At most `count` + 2 event indices, ascending: evenly spread, and `peak_event`.
std::vector<uint64_t> SampleEvents(const trace::Recording& recording, size_t count,
                                   uint64_t peak_event);

// The player of this installation, looked up beside the running executable and in libexec.
absl::StatusOr<std::string> FindPlayer();

// Reduces `allocator.libraries` to the one that the dynamic linker finds here. NotFound when there
// is none. Asked once, it need not be asked for every recording.
absl::Status Choose(Allocator& allocator, const CompareOptions& options);

// Bytes: trace::Statistics::max_load, blocks rounded up to `alignment`.
int64_t MaxLoad(const trace::Recording& recording, uint64_t alignment = trace::kBlockAlignment);

// Performs `recording` under `allocator`. Errors: NotFound when none of its libraries can be
// preloaded here; Aborted when the player fails under it (a crash), Unavailable when the system
// refuses what it needs, and what Lower returns.
absl::StatusOr<Measurement> MeasureAllocator(const trace::Recording& recording,
                                             const Allocator& allocator,
                                             const CompareOptions& options);

// The same for a plan: blocks lie at `offsets` (bytes, one per allocation, Placement::kUnplanned
// where the plan has none) of an arena of `arena_bytes`; unplanned ones go to the C library.
absl::StatusOr<Measurement> MeasurePlan(const trace::Recording& recording,
                                        std::vector<int64_t> offsets, int64_t arena_bytes,
                                        const CompareOptions& options);

// Performs `recording` once more and looks on. Errors as MeasureAllocator and MeasurePlan;
// FailedPrecondition when options.order is not kRecorded.
absl::StatusOr<Observation> ObserveAllocator(const trace::Recording& recording,
                                             const Allocator& allocator,
                                             const CompareOptions& options,
                                             std::vector<uint64_t> sample_events);
absl::StatusOr<Observation> ObservePlan(const trace::Recording& recording,
                                        std::vector<int64_t> offsets, int64_t arena_bytes,
                                        const CompareOptions& options,
                                        std::vector<uint64_t> sample_events);

// Fills in what only an observation knows: the footprint.
void TakeFootprint(Measurement& measurement, const Observation& observation, int64_t max_load);
// And what it is made of at `peak_event`.
void Decompose(Measurement& measurement, const Observation& observation, uint64_t peak_event,
               int64_t requested_at_peak);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_COMPARE_H_
