// Recordings as the files of other programs: what their viewers show of a heap.
#ifndef REPRISE_TRACE_FORMATS_EXPORT_H_
#define REPRISE_TRACE_FORMATS_EXPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "trace/recording.h"
#include "trace/site_accounts.h"
#include "trace/statistics.h"
#include "trace/symbols.h"

namespace reprise::trace {

// One corner of a load curve.
struct LoadPoint {
  uint64_t event = 0;
  uint64_t bytes = 0;  // requested, live
  uint64_t blocks = 0;
};

// Thins a curve while it comes in: memory stays below twice `count` points, and of the points that
// are left out none was higher than its neighbours.
class LoadPoints {
 public:
  explicit LoadPoints(size_t count) : count_(count) {}
  void Add(const LoadPoint& point);
  const std::vector<LoadPoint>& points() const { return points_; }

 private:
  size_t count_;
  uint64_t stretch_ = 1;  // events per point
  std::vector<LoadPoint> points_;
};

// A caller as the formats below show it.
struct NamedFrame {
  Frame frame;
  Symbol symbol{};
};

// Everything that the formats below tell. `symbols` and `callers` belong to `accounts`, entry by
// entry; without call stacks nobody has callers.
struct Profile {
  const Recording* recording = nullptr;  // its tables; allocations are not looked at
  Statistics statistics{};
  std::vector<SiteAccount> accounts{};
  std::vector<Symbol> symbols{};
  std::vector<std::vector<NamedFrame>> callers{};  // the nearest first
  std::vector<LoadPoint> load{};
};

using WriteText = absl::FunctionRef<void(const std::string&)>;

// Chrome's trace events, which Perfetto opens: counters of live bytes and blocks. One event of the
// recording is a microsecond.
void WritePerfetto(const Profile& profile, WriteText write);

// "program;module;function (file:line) BYTES" per site: bytes live at the peak, as flame graph
// scripts read it; with call stacks the callers in place of the module, the farthest first. Sites
// that held nothing then are left out.
void WriteCollapsed(const Profile& profile, WriteText write);

// speedscope's JSON: the same as two sampled profiles, bytes at the peak and bytes in all.
void WriteSpeedscope(const Profile& profile, WriteText write);

// DHAT's JSON, version 2, for dh_view.html of Valgrind. Time is in events.
void WriteDhat(const Profile& profile, WriteText write);

// A summary in text, as heaptrack_print makes it: most calls, peak consumers, short-lived blocks,
// what was never freed.
void WriteSummary(const Profile& profile, WriteText write);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_FORMATS_EXPORT_H_
