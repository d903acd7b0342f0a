// The second pass over a spool: the segments of all threads become one stream of events, by epoch.
#ifndef REPRISE_TRACE_SPOOL_MERGE_H_
#define REPRISE_TRACE_SPOOL_MERGE_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "trace/event.h"
#include "trace/ledger.h"
#include "trace/mapped_file.h"
#include "trace/module_map.h"
#include "trace/recording.h"
#include "trace/spool_event.h"
#include "trace/spool_index.h"

namespace reprise::trace {

// Performs one event after another on the ledger.
class SpoolInterpreter {
 public:
  // What the arguments refer to outlives it.
  SpoolInterpreter(Recording& recording, std::vector<LoadedModule> modules, uint64_t stack_base,
                   SpoolIndex& index, absl::FunctionRef<void(const Event&)> on_event)
      : recording_(recording),
        index_(index),
        modules_(recording, std::move(modules), stack_base),
        ledger_(recording, on_event) {}

  void Perform(const SpoolEvent& event, uint32_t thread);
  ModuleMap& modules() { return modules_; }
  const Ledger& ledger() const { return ledger_; }

 private:
  void Allocate(const SpoolEvent& event, uint32_t thread, AllocationKind kind);
  std::vector<uint64_t>& OpenReallocs(uint32_t thread);

  Recording& recording_;
  SpoolIndex& index_;
  uint64_t bytes_left_ = INT64_MAX;  // that all allocations together may still ask for
  ModuleMap modules_;
  Ledger ledger_;
  std::vector<std::vector<uint64_t>> open_reallocs_;  // per thread: blocks freed by reallocs
};

class SpoolMerge {
 public:
  // Adds what has been indexed since, by epoch. `file`: where it is mapped; else null.
  void Add(std::vector<SpoolSegment> segments, const MappedFile* file);

  // Performs the events of all epochs up to `last`.
  void Run(SpoolInterpreter& interpreter, uint64_t last);

  size_t open_segments() const { return segments_.size() + queue_.size(); }

 private:
  // Walks one segment.
  class Cursor {
   public:
    Cursor(SpoolSegment segment, const MappedFile* file);
    const SpoolEvent& event() const { return event_; }
    uint32_t thread() const { return segment_.thread; }
    bool done() const { return done_; }
    void Advance();
    void Release();  // its bytes

   private:
    SpoolSegment segment_;
    const MappedFile* file_;
    const char* at_;
    SpoolEvent event_;
    bool done_ = false;
  };
  struct Waiting {
    SpoolSegment segment;
    const MappedFile* file;
    uint64_t number;
  };
  // Epoch of the next event, of the segment's beginning, number, index into cursors_. Segments
  // share an epoch only where a hole parts them: then their own order is the true one.
  using Entry = std::tuple<uint64_t, uint64_t, uint64_t, uint32_t>;
  struct Later {
    bool operator()(const Waiting& a, const Waiting& b) const {
      return std::tuple(a.segment.epoch, a.number) > std::tuple(b.segment.epoch, b.number);
    }
  };
  void Begin(Waiting waiting);

  std::priority_queue<Waiting, std::vector<Waiting>, Later> segments_;  // not begun
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<Cursor> cursors_;
  std::vector<uint32_t> unused_;  // of cursors_
  uint64_t numbers_ = 0;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_MERGE_H_
