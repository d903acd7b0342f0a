// What can be said of a recording in numbers, computed from its stream of events.
#ifndef REPRISE_TRACE_STATISTICS_H_
#define REPRISE_TRACE_STATISTICS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "trace/event.h"
#include "trace/formats/csv.h"
#include "trace/recording.h"

namespace reprise::trace {

// Every block of a recording counts as rounded up to this many bytes.
inline constexpr uint64_t kBlockAlignment = 16;

// `size` rounded up to a multiple of `alignment` (a power of two), one multiple at least unless
// sizes count as given (alignment 1). Saturates rather than wraps.
uint64_t BlockBytes(uint64_t size, uint64_t alignment = kBlockAlignment);

// Counts by powers of two: entry 0 counts the value 0, entry n the values of [2^(n-1), 2^n).
using Histogram = std::array<uint64_t, 65>;

// What the load consisted of at its peak, by place and callers: sites that differ only in their
// stack depth count as one.
struct SitePeak {
  uint32_t site = kNone;  // one of those sites
  uint64_t bytes = 0;     // rounded as for max_load
  uint64_t blocks = 0;
};

struct Statistics {
  uint64_t buffers = 0;             // allocations
  uint64_t frees = 0;               // that matched one
  uint64_t max_load = 0;            // bytes: highest sum of live blocks, each rounded up
  uint64_t requested_max_load = 0;  // bytes: the same of the sizes as requested
  uint64_t sum_bytes = 0;           // requested, over all allocations
  uint64_t peak_event = 0;          // index of the event that first reached max_load
  uint64_t never_freed_bytes = 0;   // requested
  Histogram sizes{};                // bytes requested
  Histogram lifetimes{};            // of blocks that were freed: in events; of an instance's
                                    // buffers: in its unit of time
  std::vector<SitePeak> top_sites;  // at peak_event, most bytes first
};

// Takes the events of one recording in order. Memory: proportional to the sites.
class StatisticsBuilder {
 public:
  // Blocks count as rounded up to `alignment` bytes.
  explicit StatisticsBuilder(uint64_t alignment = kBlockAlignment) : alignment_(alignment) {}

  void Add(const Event& event);

  // At most `count` entries in top_sites; `sites` are those of the recording.
  Statistics Finish(const std::vector<Site>& sites, size_t count) const;

 private:
  struct SiteLoad {
    uint64_t bytes = 0, blocks = 0;            // now
    uint64_t peak_bytes = 0, peak_blocks = 0;  // at peak number `peak`
    uint64_t peak = 0;
  };
  SiteLoad& Load(uint32_t site);

  uint64_t alignment_;
  Statistics statistics_;
  uint64_t load_ = 0;
  uint64_t requested_load_ = 0;
  uint64_t peaks_ = 0;           // how often the load reached a new maximum
  std::vector<SiteLoad> sites_;  // entry 0: without a site; entry n: site n - 1
};

// The statistics of a recording that is in memory.
Statistics ComputeStatistics(const Recording& recording, size_t top_sites);

// Those of an instance, whose ToRecording is `recording`: sizes count as they are given, and at the
// peak only what is in use, gaps considered.
Statistics ComputeStatistics(const CsvInstance& instance, const Recording& recording);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_STATISTICS_H_
