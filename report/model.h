// What a report shows: the facts as JSON, and a row per block as columns of numbers.
#ifndef REPRISE_REPORT_MODEL_H_
#define REPRISE_REPORT_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "replay/compare/compare.h"
#include "trace/recording.h"
#include "trace/statistics.h"

namespace reprise::report {

// Where the blocks of a recording lie in one run or plan.
struct HeapMap {
  static constexpr int64_t kNowhere = -1;
  std::string name{};              // "plan", "glibc"
  std::string kind{};              // "plan" or "allocator"
  std::string detail{};            // version or file; may be empty
  std::vector<int64_t> offsets{};  // bytes, one per allocation; kNowhere: not in this map
  int64_t height = 0;              // bytes: every block ends at or below it
  // Of an allocator: how much of it was held at one time at most, and what was given back.
  int64_t most_held = 0;
  std::vector<replay::Returned> returned{};

  bool is_plan() const { return kind == "plan"; }
  // Bytes that it needs.
  int64_t footprint() const { return is_plan() ? height : most_held; }
};

// Whether a map of that footprint needs more than the max load by what is worth a word: 0.05 %.
inline bool IsWasteful(int64_t footprint, uint64_t max_load) {
  constexpr double kWorthAWord = 1.0005;
  return static_cast<double>(footprint) > kWorthAWord * static_cast<double>(max_load);
}

// Numbers of one kind, packed for the page: whole ones of 1 to 4 bytes, or doubles; little-endian,
// split into byte planes (all lowest bytes first), deflated, base64. `delta`: each is the
// difference to the one before.
struct Column {
  std::string name{};
  int bytes = 1;  // of a number; 8: doubles
  size_t count = 0;
  bool delta = false;
  std::string text{};
};

// As few bytes as hold them. Values are not negative but for kNowhere, which becomes the highest
// number of that many bytes (as a double: -1).
Column PackColumn(const std::string& name, const std::vector<int64_t>& values, bool delta = false);

// The same of bytes.
Column PackBytes(const std::string& name, const std::string& values);

// So many call sites have names of functions: who looks further than this?
inline constexpr size_t kMostNamedSites = 500;

// Call sites that differ only in their stack depth are one for the reader. Those that differ in
// their callers are several as far as they have names; of the others there may be very many, and
// each place is one.
struct SiteTable {
  struct Row {
    uint32_t site = trace::kNone;  // one of those sites of the recording
    bool callers = false;          // they are known, and the same for all of it
    uint64_t allocations = 0;
    uint64_t bytes = 0;       // requested, over all allocations
    uint64_t peak_bytes = 0;  // rounded, live at the peak
    uint64_t peak_blocks = 0;
    uint64_t end_bytes = 0;  // requested, never freed
  };
  std::vector<Row> rows;         // most bytes at the peak first, then most bytes
  std::vector<uint32_t> row_of;  // per site of the recording; kNone's row is the last entry
  uint32_t Of(uint32_t site) const {
    return row_of[site == trace::kNone ? row_of.size() - 1 : site];
  }
};
// Blocks count as rounded up to `alignment` bytes.
SiteTable TabulateSites(const trace::Recording& recording, uint64_t peak_event, uint64_t alignment);

// The load over the events, as corners of a curve with at most about `count` points: of every
// stretch of events the highest, so that no peak is missed.
struct LoadCurve {
  std::vector<uint64_t> events{};
  std::vector<uint64_t> live{};       // bytes, rounded up to `alignment`
  std::vector<uint64_t> requested{};  // bytes
};
LoadCurve CurveOf(const trace::Recording& recording, size_t count, uint64_t alignment);

// Addresses with the ranges left out that never held a block (whole pages): offsets and height of a
// map, and what was given back. An address of 0 stands for a block that was refused.
HeapMap CompactAddresses(const trace::Recording& recording, const replay::Observation& seen);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_MODEL_H_
