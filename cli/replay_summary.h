// What `reprise replay` says at the end when much did not go as planned.
#ifndef REPRISE_CLI_REPLAY_SUMMARY_H_
#define REPRISE_CLI_REPLAY_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/replay_findings.h"

namespace reprise::cli {

// A replayed process image.
struct SummarizedImage {
  std::string executable;
  uint64_t allocations = 0;
  uint64_t astray = 0;    // of them, how many lie where the plan has nothing of their kind
  uint64_t laneless = 0;  // of these, in threads that got no lane of the plan
  uint64_t boxless = 0;   // of these, in threads whose lane has no box
  // It has the image key of the recording: executable, arguments and working directory are the
  // same.
  bool same_command = false;
  bool learned = false;  // the plan was made with --learn
  Findings findings;
};

// How the run was started.
struct RunFacts {
  bool keep_aslr = false;
  std::string stats;  // the file that was written; empty: none
};

// Whether so much of an image went astray that it is worth a word: one allocation in a hundred, and
// more than a hundred.
bool WorthSaying(uint64_t allocations, uint64_t astray);

// The one line about a run in which less than that went elsewhere; empty: nothing did.
std::string SlightLine(uint64_t allocations, uint64_t astray);

// The lines about those images that are worth it, the worst three of them, and what can be done.
// Empty when there is none. After the line about an image, those that belong to it begin with two
// spaces.
std::vector<std::string> SummaryLines(std::vector<SummarizedImage> images, const RunFacts& facts);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_REPLAY_SUMMARY_H_
