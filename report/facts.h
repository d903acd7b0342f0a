// The facts of a report as the page reads them (report/page/data.js).
#ifndef REPRISE_REPORT_FACTS_H_
#define REPRISE_REPORT_FACTS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/model.h"
#include "report/subject.h"
#include "trace/call_sites.h"

namespace reprise::report {

// What the reader is told of a call site, or of a buffer.
struct SiteName {
  std::string label;  // no other row has the same
  trace::CallSiteText text;
};
std::vector<SiteName> NameSites(const trace::Recording& recording, const SiteTable& sites);

// "main thread", or its number.
std::string ThreadName(const trace::Recording& recording, size_t index);

// What the plan at `path` says of its lanes; empty for an instance.
absl::StatusOr<nlohmann::ordered_json> LaneFacts(const Subject& subject, const std::string& path);

// Who pins the memory in each map, and what could be otherwise: `pins`, `hints`.
void AddAdvice(const Subject& subject, const SiteTable& sites, const std::vector<SiteName>& names,
               const std::vector<HeapMap>& maps, nlohmann::ordered_json& facts);

// `comparison` and `replay` (measured_json.h) may be null.
nlohmann::ordered_json GatherFacts(const Subject& subject, const SiteTable& sites,
                                   const std::vector<SiteName>& names,
                                   const std::vector<HeapMap>& maps,
                                   const nlohmann::json& comparison, const nlohmann::json& replay);

// The columns of the blocks and of each map, in the order in which the page needs them: first,
// where unpacking takes a while, a preview of each map. With more than `most_blocks` the maps
// become grids of densities; the columns then hold only the blocks that fill most of the maps
// (bytes times lifetime). `facts` learns of the previews, of the grids and of the upper edge of the
// maps.
std::vector<Column> GatherColumns(const Subject& subject, const SiteTable& sites,
                                  const std::vector<HeapMap>& maps, size_t most_blocks,
                                  nlohmann::ordered_json& facts);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_FACTS_H_
