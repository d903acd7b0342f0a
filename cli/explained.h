// How much of a program's memory its recording explains, and what would explain more.
#ifndef REPRISE_CLI_EXPLAINED_H_
#define REPRISE_CLI_EXPLAINED_H_

#include <cstdint>
#include <string>

#include "trace/event.h"

namespace reprise::cli {

// Of a peak RSS that is known: percent. More than 100 where blocks were never written to.
double ExplainedPercent(uint64_t max_load, uint64_t peak_rss);

// What makes the runtime that `executable` (a path) belongs to take its memory from malloc, or that
// nothing does; empty: not a runtime that is known.
std::string RuntimeAdvice(const std::string& executable);

// The max load of a stream of events, and nothing else.
class LoadMeter {
 public:
  void Add(const trace::Event& event);
  uint64_t max_load() const { return most_; }  // bytes, as trace::Statistics::max_load

 private:
  uint64_t live_ = 0, most_ = 0;
};

}  // namespace reprise::cli

#endif  // REPRISE_CLI_EXPLAINED_H_
