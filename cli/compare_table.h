// What a comparison says: as JSON, and as a table for people.
#ifndef REPRISE_CLI_COMPARE_TABLE_H_
#define REPRISE_CLI_COMPARE_TABLE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "replay/compare/compare.h"
#include "replay/compare/fragmentation_holders.h"

namespace reprise::cli {

// An allocator without a result, and why: not installed, or it failed.
struct Missing {
  std::string allocator;
  absl::Status why;
};

// What one allocator, or the plan, came to with one recording.
struct Result {
  replay::Measurement median{};  // field by field, over the runs
  // Of measured seconds and peak RSS: lowest and highest run.
  double least_seconds = 0, most_seconds = 0;
  int64_t least_peak_rss = 0, most_peak_rss = 0;
  int64_t runs = 0;
  replay::Observation observation{};  // without addresses; empty when nobody looked on
  nlohmann::ordered_json pins{};      // DescribePins; null when nobody asked
};

// The median of each field, and the spread. Requires at least one run, all of the same allocator.
Result Summarize(const std::vector<replay::Measurement>& runs);

// One recording, or the sum over all images of a directory.
struct Comparison {
  std::string trace{};
  int64_t max_load = 0;            // bytes
  int64_t requested_max_load = 0;  // bytes
  std::vector<uint64_t> events{};  // at which `live` was read
  std::vector<int64_t> live{};     // bytes
  std::vector<Result> results{};
  nlohmann::ordered_json what_if{};  // DescribeWhatIf; null when nobody asked
};

// Who pins the memory, with the names of the call sites.
nlohmann::ordered_json DescribePins(const trace::Recording& recording, const replay::Pins& pins);

// What if the blocks of the sites that hold most at the peak were treated otherwise.
nlohmann::ordered_json DescribeWhatIf(const trace::Recording& recording);

// Over all images, of the allocators that have a result for each of them. Without series.
Comparison Sum(const std::vector<Comparison>& images);

nlohmann::ordered_json ToJson(const Comparison& comparison);
nlohmann::ordered_json ToJson(const std::vector<Missing>& missing);

// 80 columns wide, with a verdict.
void PrintTable(const Comparison& comparison);

// What DescribePins found, under a table: of each recording, or of those `images` of a folder that
// hold most for nothing.
void PrintPins(const std::vector<Comparison>& images);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_COMPARE_TABLE_H_
