// The plans that `reprise replay` offers to the processes it starts.
#ifndef REPRISE_CLI_PLAN_OFFER_H_
#define REPRISE_CLI_PLAN_OFFER_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launch.h"
#include "replay/plan/plan_file.h"

namespace reprise::cli {

// What the launcher knows of the plans it offers.
struct Offer {
  std::vector<interpose::PlanEntry> entries;  // sorted by place, then by name
  std::vector<replay::PlanHeader> headers;    // one for each entry
  std::vector<int> files;  // some of them, open: they may be replaced while the program runs; or -1
};

// Reads and verifies a plan, or those of a folder, once for all processes. Errors: what is no plan
// that can be replayed.
absl::StatusOr<Offer> OfferPlans(const std::string& path);

// The plans that were taken, each read again once, when it is needed for the first time. Of one
// whose file is another by now there is nothing, and a line says so.
class TakenPlans {
 public:
  explicit TakenPlans(const Offer& offer) : offer_(offer) {}
  const replay::PlanFile* Get(size_t number);

 private:
  const Offer& offer_;
  std::map<size_t, std::optional<replay::PlanFile>> plans_;
};

}  // namespace reprise::cli

#endif  // REPRISE_CLI_PLAN_OFFER_H_
