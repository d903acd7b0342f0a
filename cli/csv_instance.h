// From an instance file to the planner's instance.
#ifndef REPRISE_CLI_CSV_INSTANCE_H_
#define REPRISE_CLI_CSV_INSTANCE_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/instance.h"
#include "trace/csv.h"

namespace reprise::cli {

// The instance that a CSV file states; buffers in the order of its rows. An `offset` column holds
// offsets that must be kept when `keep_offsets`, else it is ignored.
inline planner::Instance ToInstance(const trace::CsvInstance& csv, bool keep_offsets) {
  planner::Instance instance;
  instance.buffers.reserve(csv.buffers.size());
  for (const trace::CsvBuffer& b : csv.buffers) {
    const uint32_t index = static_cast<uint32_t>(instance.buffers.size());
    instance.buffers.push_back({b.lower, b.upper, b.size});
    if (csv.has_alignments) instance.alignments.push_back(b.alignment);
    if (csv.has_offsets && keep_offsets) {
      instance.fixed_offsets.push_back(b.offset.value_or(planner::Instance::kFree));
    }
    for (const trace::CsvGap& gap : b.gaps) {
      instance.gaps.push_back({index, gap.lower, gap.upper, gap.window_lower, gap.window_upper});
    }
  }
  return instance;
}

// What messages call the buffers of the file at `path`. It is read again: nothing that is kept for
// messages costs anything before there is one.
inline planner::BufferName NamesIn(const std::string& path) {
  return [path](uint32_t buffer) {
    const absl::StatusOr<trace::CsvInstance> csv = trace::ReadCsv(path);
    if (!csv.ok() || buffer >= csv->buffers.size()) return absl::StrCat("buffer ", buffer);
    const trace::CsvBuffer& row = csv->buffers[buffer];
    return absl::StrCat("buffer '", row.id, "' in line ", row.line);
  };
}

}  // namespace reprise::cli

#endif  // REPRISE_CLI_CSV_INSTANCE_H_
