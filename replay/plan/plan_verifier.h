// Whether a plan means what a plan must mean, so that a process that follows it without a look at
// what lives is right to do so. A checksum says only that a file is what somebody wrote.
#ifndef REPRISE_REPLAY_PLAN_PLAN_VERIFIER_H_
#define REPRISE_REPLAY_PLAN_PLAN_VERIFIER_H_

#include <string>

#include "absl/status/status.h"
#include "replay/plan/plan_file.h"

namespace reprise::replay {

// Reads the tables as docs/reference/plan_format.md says, in code that shares nothing with the
// encoder:
// - every key and module is in its table; keys have lengths that their shapes need; what is never
//   used is empty;
// - the words of each lane are whole, end with its last word, and each allocation lies in the box,
//   as aligned as it asks for, where no block of the lane is live;
// - a free names a live block, a drain its length as well, and where pages are idle nothing is
// live;
// - a pass through a loop leaves the same blocks live, and so does each of its periods, which have
//   the same words;
// - placements are just the stream's blocks, sorted, the samples are theirs, and the places of a
//   ring are ones that its blocks may have;
// - the parts that lanes have of a table are disjoint, so that all of this takes linear time.
// That boxes of different lanes may overlap is not for the plan to rule out: the arena looks.
// DataLoss, one line: `path`, the lane and word, what was expected and found. ResourceExhausted:
// there are no addresses for it: 3 bits per 16 bytes of the longest box, touched where it has
// blocks.
absl::Status VerifyPlan(const PlanFile& plan, const std::string& path);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_PLAN_VERIFIER_H_
