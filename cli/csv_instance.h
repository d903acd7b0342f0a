// From an instance file to the planner's instance.
#ifndef REPRISE_CLI_CSV_INSTANCE_H_
#define REPRISE_CLI_CSV_INSTANCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/core/instance.h"
#include "trace/formats/csv.h"

namespace reprise::cli {

// The instance that a CSV file states; buffers in the order of its rows, without those of size 0:
// these take no memory. An `offset` column holds offsets that must be kept when `keep_offsets`,
// else it is ignored.
inline planner::Instance ToInstance(const trace::CsvInstance& csv, bool keep_offsets) {
  planner::Instance instance;
  instance.buffers.reserve(csv.buffers.size());
  for (const trace::CsvBuffer& b : csv.buffers) {
    if (b.size == 0) continue;
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

// Where the rows of size 0 lie: at the offset that is given, else at the first one that is aligned.
struct EmptyRow {
  size_t row = 0;
  int64_t offset = 0;
};
inline std::vector<EmptyRow> EmptyRows(const trace::CsvInstance& csv, int64_t start_address) {
  std::vector<EmptyRow> rows;
  for (size_t row = 0; row < csv.buffers.size(); ++row) {
    const trace::CsvBuffer& b = csv.buffers[row];
    if (b.size > 0) continue;
    const int64_t aligned = planner::RoundUp(start_address, b.alignment) - start_address;
    rows.push_back({row, b.offset.value_or(aligned)});
  }
  return rows;
}

// The offsets of all rows from those of ToInstance's buffers.
inline std::vector<int64_t> OffsetsOfRows(const std::vector<int64_t>& offsets,
                                          const std::vector<EmptyRow>& empty) {
  std::vector<int64_t> all;
  all.reserve(offsets.size() + empty.size());
  auto next = offsets.begin();
  for (const EmptyRow& it : empty) {
    const auto between = static_cast<std::ptrdiff_t>(it.row - all.size());
    all.insert(all.end(), next, next + between);
    next += between;
    all.push_back(it.offset);
  }
  all.insert(all.end(), next, offsets.end());
  return all;
}

// What messages call the buffers that ToInstance makes of the file at `path`. It is read again:
// nothing that is kept for messages costs anything before there is one.
inline planner::BufferName NamesIn(const std::string& path) {
  return [path](uint32_t buffer) {
    const absl::StatusOr<trace::CsvInstance> csv = trace::ReadCsv(path, /*ignore_unknown=*/true);
    if (csv.ok()) {
      uint32_t index = 0;
      for (const trace::CsvBuffer& row : csv->buffers) {
        if (row.size == 0 || index++ != buffer) continue;
        return absl::StrCat("buffer '", row.id, "' in line ", row.line);
      }
    }
    return absl::StrCat("buffer ", buffer);
  };
}

}  // namespace reprise::cli

#endif  // REPRISE_CLI_CSV_INSTANCE_H_
