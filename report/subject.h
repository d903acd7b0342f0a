// What a report is about: a recording, or an instance.
#ifndef REPRISE_REPORT_SUBJECT_H_
#define REPRISE_REPORT_SUBJECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "trace/formats/csv.h"
#include "trace/recording.h"
#include "trace/statistics.h"

namespace reprise::report {

// One process image of a recording.
struct ImageLoad {
  std::string path;       // of its trace
  std::string name;       // of what was started
  std::string command;    // its words, where they were recorded
  uint64_t max_load = 0;  // bytes
};

struct Subject {
  std::string path;
  std::string name;  // for people: the program's, or the file's
  trace::Recording recording;
  trace::CsvInstance instance;  // only of an instance
  bool is_instance = false;
  bool is_graph = false;                 // an instance that was made of a dataflow graph
  std::vector<std::string> operators{};  // of a graph, in the order of execution: see InstanceFile
  bool ignore_unknown = false;           // also where its plan is read
  uint64_t alignment = trace::kBlockAlignment;  // what blocks are rounded up to, bytes
  trace::Statistics statistics;
  std::vector<ImageLoad> images{};  // of a folder with several: all, highest max load first
};

}  // namespace reprise::report

#endif  // REPRISE_REPORT_SUBJECT_H_
