// What `reprise info` found, as text on standard output.
#ifndef REPRISE_CLI_INFO_TEXT_H_
#define REPRISE_CLI_INFO_TEXT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/instance_file.h"
#include "cli/periodic_csv.h"
#include "trace/formats/csv.h"
#include "trace/marks.h"
#include "trace/recording.h"
#include "trace/statistics.h"

namespace reprise::cli {

// What is said of one trace or instance.
struct ExaminedImage {
  std::string path;
  trace::Recording recording;  // without its allocations
  trace::Statistics statistics;
  bool is_instance = false;
  InstanceFile file;                    // of an instance
  std::vector<uint32_t> top_buffers{};  // rows of an instance: live at the peak, largest first
  int64_t period = 0;                   // of a periodic instance
  LoopSummary loop{};
  nlohmann::ordered_json loops = nlohmann::ordered_json::array();  // cli/loops.h
  std::vector<trace::MarkedThread> marks{};
};

// In recordings of more events no loops are looked for.
inline constexpr uint64_t kMostEventsForLoops = 2'000'000;

// The instant of the highest load.
int64_t PeakTime(const ExaminedImage& image);
// How many buffers state their offset.
int64_t FixedOffsets(const trace::CsvInstance& instance);

void PrintExamined(const ExaminedImage& image);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_INFO_TEXT_H_
