// Instances as CSV, in the format of minimalloc (https://github.com/google/minimalloc).
#ifndef REPRISE_TRACE_FORMATS_CSV_H_
#define REPRISE_TRACE_FORMATS_CSV_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trace/recording.h"

namespace reprise::trace {

// Part of a buffer's lifetime in which only a part of it is in use. Half-open.
struct CsvGap {
  int64_t lower = 0;
  int64_t upper = 0;
  // Bytes from the buffer's offset that stay in use; empty (0, 0) when nothing does. Half-open.
  int64_t window_lower = 0;
  int64_t window_upper = 0;
};

struct CsvBuffer {
  std::string id;     // unique in the instance; any text
  int64_t lower = 0;  // live in [lower, upper)
  int64_t upper = 0;
  int64_t size = 0;               // bytes; one of 0 costs nothing
  int64_t alignment = 1;          // a power of two, below 2^56
  std::optional<int64_t> offset;  // of the `offset` column: given in an instance, planned in a plan
  std::vector<int64_t> slot_offsets;  // all of that column, where it has several (ReadCsv: slots)
  std::vector<CsvGap> gaps;           // ascending, disjoint, inside the lifetime
  int64_t line = 0;                   // in the file, from 1
};

// Also what is needed to write the same rows again.
struct CsvInstance {
  std::vector<CsvBuffer> buffers;  // in the order of the rows
  bool has_alignments = false;     // there is such a column
  bool has_offsets = false;
  bool has_gaps = false;
  std::string header;      // the line of the column names
  std::string rows;        // the line of each buffer, ended by a newline
  int offset_column = -1;  // -1: none
  std::string ignored;     // columns that are not known, for one warning; empty: none
};

// Reads columns by name, in any order and case: id (or buffer, buffer_id), lower (start, begin),
// upper, size; optional alignment, offset (empty: free) and gaps ("LOWER-UPPER" or
// "LOWER-UPPER@FROM:TO", separated by spaces). Other columns are refused, also minimalloc's `hint`,
// or with `ignore_unknown` left aside and listed. A column named `end` instead of `upper` holds the
// last instant at which the buffer lives, as in minimalloc, so upper = end + 1, for gaps too. With
// `slots` an offset may be several, separated by spaces, as in plans of periodic instances. Lines
// may end in CR LF; blank lines and lines that begin with '#' are skipped; fields may be quoted.
// Numbers are decimal, not negative, and fit int64, as does the sum of all sizes; sizes and
// alignments are below 2^56, as in a trace.
// Errors: InvalidArgument "FILE:LINE: expected ..., found ..."; opening as MappedFile::Open.
absl::StatusOr<CsvInstance> ReadCsv(const std::string& path, bool ignore_unknown = false,
                                    bool slots = false);
absl::StatusOr<CsvInstance> ParseCsv(absl::string_view text, const std::string& name,
                                     bool ignore_unknown = false, bool slots = false);

// The rows of `instance` as they were read with one `offset` per buffer, in instance order: in a
// last column, or in the place of the offsets that were given. With `first`, one more than rows,
// those of row r are [first[r], first[r + 1]), separated by spaces. The text of a whole file.
std::string FormatCsv(const CsvInstance& instance, const std::vector<int64_t>& offsets,
                      const std::vector<uint32_t>& first = {});

// When most is in use, gaps considered.
struct CsvPeak {
  int64_t load = 0;    // the highest sum of sizes in use at one time
  uint64_t event = 0;  // of ToRecording: the last one at the first instant at which that is in use
};
CsvPeak Peak(const CsvInstance& instance);

// A recording with the same births and deaths in the same order (at one instant, deaths first), in
// one thread. Gaps are not kept. The n-th allocation is the n-th birth. With `names` also the
// buffers' names and times; site n is row n then.
Recording ToRecording(const CsvInstance& instance, bool names = false);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_FORMATS_CSV_H_
