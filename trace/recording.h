// A recording in memory: who allocated what, when it died, and where in the program that happened.
// The time of a recording is its event index: the position of a malloc or free in the global order.
#ifndef REPRISE_TRACE_RECORDING_H_
#define REPRISE_TRACE_RECORDING_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise::trace {

// Marks an index that names nothing, and an allocation that was never freed.
inline constexpr uint32_t kNone = UINT32_MAX;
inline constexpr uint64_t kNever = UINT64_MAX;

// An executable or shared library of the recorded process.
struct Module {
  std::string path;
  std::string build_id;  // lower-case hexadecimal; empty when it has none
  uint64_t base = 0;     // load address in the recorded run; informative only
};

// A place in the code: a return address.
struct Frame {
  uint32_t module = kNone;  // index into Recording::modules; kNone: outside every known module
  uint64_t offset = 0;      // bytes from the module's load address; absolute when module is kNone
  bool operator==(const Frame&) const = default;
};

// A call site: the return address of the allocating call, as module + offset, and how deep the
// stack was there, in 16-byte units. Together they name the call path (Mytkowicz et al., Inferred
// Call Path Profiling, 2009).
struct Site {
  uint32_t module = kNone;  // index into Recording::modules; kNone: outside every known module
  uint64_t offset = 0;      // bytes from the module's load address; absolute when module is kNone
  uint32_t depth = 0;       // 16-byte units from the thread's stack base, modulo 2^17; 0: not known
  uint32_t stack = kNone;   // index into Recording::stacks; kNone: its callers were not recorded
};

// What tells sites apart for a reader, whom the stack depth tells nothing: module, offset, stack.
using SitePlace = std::tuple<uint32_t, uint64_t, uint32_t>;
inline SitePlace PlaceOf(const Site& site) { return {site.module, site.offset, site.stack}; }

// The place of an allocation without a site: no address is as high.
inline SitePlace PlaceOfNone() { return {kNone, UINT64_MAX, kNone}; }

// A thread, named by how it came to be, so that the same thread has the same name in the next run.
struct Thread {
  uint64_t path = 0;         // see interpose/process/session.h; kMainThreadPath for the main thread
  uint32_t parent = kNone;   // index into Recording::threads
  std::string name{};        // what pthread_setname_np gave it last; empty: nothing
  uint64_t first_event = 0;  // half-open range of event indices in which the thread had events
  uint64_t end_event = 0;
};

// An iteration of the program's began here, as it said itself (interpose/marks.h).
struct Mark {
  uint64_t event = 0;   // index of the event that follows; Recording::events at the end
  uint32_t thread = 0;  // that called; index into Recording::threads
  bool operator==(const Mark&) const = default;
};

// Adds a mark; a recording has so many at most, and no more are kept.
inline constexpr size_t kMostMarks = 1 << 20;
inline void AddMark(std::vector<Mark>& list, const Mark& mark) {
  if (list.size() < kMostMarks) list.push_back(mark);
}

enum class AllocationKind : uint8_t { kMalloc, kCalloc, kAligned, kRealloc };

// One successful allocation.
struct Allocation {
  // Packed, because a recording may have millions of these.
  uint64_t birth : 56 = 0;  // event index
  AllocationKind kind : 2 = AllocationKind::kMalloc;
  uint8_t log2_alignment : 6 = 0;  // of aligned requests; 0: the allocator's usual 16 bytes
  uint64_t death = kNever;         // event index of its free; kNever: still live at the end
  uint64_t size = 0;               // bytes requested; 0 is possible
  uint32_t site = kNone;           // index into Recording::sites
  uint32_t thread = 0;             // allocating thread
  uint32_t free_thread = kNone;    // thread that freed it; kNone when death is kNever
  // kRealloc: the allocation it replaced, which died at an earlier event of the same thread (the
  // one before, unless another thread or a signal handler came between); kNone when not known.
  uint32_t previous = kNone;
};
static_assert(sizeof(Allocation) == 40);

// What is known of the process image that was recorded.
struct Process {
  uint64_t place = 0;         // its place in the process tree (interpose/process/session.h)
  uint64_t parent_place = 0;  // 0 for the program that was started
  uint32_t start_order = 0;   // 0 for the program that was started
  std::string executable;     // path
  std::string started_as{};   // the name given to exec, a link's or a script's; empty: not known
  std::string build_id;       // of the executable
  // Only with --with-command: words, each ended by a zero byte.
  std::string command;
  std::string environment;     // NAME=value
  uint64_t unpreloadable = 0;  // children it started that could not be preloaded
  uint64_t peak_rss = 0;       // bytes, the recorder's included; 0: not known
  bool complete = false;       // the image ended in the ordinary way, with its end mark
};

// What people call the image: what was started, else its executable without the folder.
inline std::string ProgramName(const Process& process) {
  if (!process.started_as.empty()) return process.started_as;
  return process.executable.substr(process.executable.rfind('/') + 1);
}

// The words of Process::command or Process::environment.
inline std::vector<std::string> SplitWords(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size(); at += words.back().size() + 1) {
    words.push_back(text.substr(at, text.find('\0', at) - at));
  }
  return words;
}

// A stretch of a damaged file that could not be read.
struct Damage {
  uint64_t offset = 0;  // bytes from the start of the file
  uint64_t bytes = 0;   // skipped
  std::string reason;
};

// Adds a stretch; beyond 10,000 of them the last one stands for all that follow.
inline void AddDamage(std::vector<Damage>& list, Damage damage) {
  constexpr size_t kMost = 10'000;
  if (list.size() < kMost) return list.push_back(std::move(damage));
  list.back().bytes += damage.bytes;
  list.back().reason = "here and in more places behind it";
}

struct Recording {
  Process process;
  std::vector<Module> modules;
  std::vector<Site> sites;
  // The callers of sites, the nearest first, without the site itself. Each list stands there once.
  std::vector<std::vector<Frame>> stacks;
  std::vector<Thread> threads;
  std::vector<Allocation> allocations;  // by birth, ascending
  // (index into allocations, bytes): what malloc_usable_size answered where the program asked.
  std::vector<std::pair<uint32_t, uint64_t>> usable_answers;
  std::vector<Mark> marks;       // by event, ascending
  uint64_t events = 0;           // allocations, frees and unmatched frees; a realloc is two events
  uint64_t unmatched_frees = 0;  // frees of addresses that were never seen allocated
  // Frees that nobody recorded but that must have been, because the address was allocated again.
  // Each stands in `events` just before that allocation.
  uint64_t implied_frees = 0;
  uint64_t lost_events = 0;  // events that the recorder or a damaged file lost
  std::vector<Damage> damage;

  // Of an instance only (formats/csv.h), else empty: its buffers have names and its events times.
  std::vector<std::string> buffer_names;  // per site: each buffer has a site of its own
  std::vector<uint64_t> instants;         // per event: time since `first_instant`
  int64_t first_instant = 0;
};

// When an event happened, since the first: in events of a recording, in an instance's own unit.
// `recording.events` stands for the end.
inline uint64_t TimeOf(const Recording& recording, uint64_t event) {
  const std::vector<uint64_t>& instants = recording.instants;
  if (instants.empty()) return event;
  return event < instants.size() ? instants[event] : instants.back();
}

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_RECORDING_H_
