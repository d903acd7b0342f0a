// What went wrong in a replayed process image: its counters and notes, read with its plan, and with
// names for call sites.
#ifndef REPRISE_CLI_REPLAY_FINDINGS_H_
#define REPRISE_CLI_REPLAY_FINDINGS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "replay/plan/counters.h"
#include "replay/plan/plan_file.h"
#include "trace/recording.h"
#include "trace/symbols.h"

namespace reprise::cli {

// A kind of request.
struct Requested {
  uint64_t shape = 0;  // plan_format.h; 0: none
  trace::Site site;    // module: kNone, or an index into the plan's modules
  std::string where;   // for people: "function (file:line)"

  uint64_t bytes() const { return (shape & ((uint64_t{1} << 56) - 1)) * 8; }
};

// The first request of a lane that was not the planned one.
struct Divergence {
  uint64_t allocation = 0;  // of the lane, from 0: the one that was expected
  Requested expected;       // shape 0: no more than that
  Requested seen;
};

struct LaneFindings {
  uint64_t path = 0;  // of its thread
  std::optional<Divergence> divergence{};
  std::optional<uint64_t> off_plan_at{};  // allocation at which it left its plan
  uint64_t unnamed = 0;  // requests of which it is not known which block was in the way
};

// Requests of one kind that did not go where the plan says.
struct MissedKind {
  size_t lane = 0;
  Requested request;
  uint64_t unexpected = 0;  // the plan had no place for them
  uint64_t blocked = 0;     // all their places were taken,
  std::string in_the_way;   // mostly by such a block; empty: not known
  uint64_t misses() const { return unexpected + blocked; }
};

// A block that outlived its planned free.
struct Overstay {
  size_t lane = 0;
  uint64_t allocation = 0;  // of the lane, from 0
  Requested request;
  uint64_t blocked = 0;                    // requests that found it in their place
  std::optional<uint64_t> freed_before{};  // allocation of the lane; nothing: it was not freed
};

struct Findings {
  std::string recorded;  // the executable that the plan is for; empty: not known
  std::vector<LaneFindings> lanes;
  std::vector<MissedKind> missed;   // the most frequent first
  std::vector<Overstay> overstays;  // those that were most in the way first
  // Modules with planned call sites that the process did not have: of another build, or not loaded.
  std::vector<std::string> missing_modules;
};

// `counters`: the bytes of the image's counters file, for which `plan` was taken.
Findings FindWhatWentWrong(const std::string& counters, const replay::PlanFile& plan,
                           trace::Symbolizer& symbolizer);

// Adds to the statistics of an image what there is to say of its lanes, `missed_sites` and
// `blockers`. `image` has its `lanes`, in the plan's order, or the first of them.
void AddFindings(const Findings& findings, nlohmann::ordered_json& image);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_REPLAY_FINDINGS_H_
