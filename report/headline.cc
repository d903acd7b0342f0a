#include "report/headline.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"
#include "report/model.h"

namespace reprise::report {
namespace {

using nlohmann::ordered_json;

std::string Bytes(const ordered_json& bytes) { return base::HumanBytes(bytes.get<double>()); }

// "33.0 %": how much more than the max load it needs.
std::string Above(const ordered_json& contender, double max_load) {
  const double footprint = contender["footprint"].get<double>();
  if (!IsWasteful(static_cast<int64_t>(footprint), static_cast<uint64_t>(max_load))) {
    return "no more";
  }
  return absl::StrFormat("%.1f %% more", 100 * (footprint / max_load - 1));
}

bool IsPlan(const ordered_json& contender) { return contender.value("plan", false); }

// Of allocators, or of plans: the one that needs most; null: there is none.
const ordered_json* Highest(const ordered_json& contenders, bool plans) {
  const ordered_json* highest = nullptr;
  for (const ordered_json& it : contenders) {
    if (IsPlan(it) != plans) continue;
    if (highest == nullptr || it["footprint"] > (*highest)["footprint"]) highest = &it;
  }
  return highest;
}

// The call site, or the buffer, that holds most back where `label` puts the blocks; where there is
// no such map, in the first one.
std::string Holder(const ordered_json& facts, const std::string& label) {
  const ordered_json* found = nullptr;
  for (const ordered_json& pins : facts["pins"]) {
    if (found == nullptr || pins["map"] == label) found = &pins;
  }
  if (found == nullptr) return "";
  const ordered_json& site = (*found)["sites"].front();
  const std::string map = (*found)["map"];
  return absl::StrCat(map == label ? " " : absl::StrCat(" Under ", map, ", "),
                      Bytes(site["hostage_bytes"]), " are held back by ", Bytes(site["bytes"]),
                      " of ", site["label"].get<std::string>(), ".");
}

}  // namespace

std::string Headline(const ordered_json& facts) {
  const double max_load = facts["max_load"].get<double>();
  if (max_load <= 0) return "Nothing was allocated.";
  const ordered_json* const allocator = Highest(facts["contenders"], false);
  const ordered_json* const plan = Highest(facts["contenders"], true);
  const std::string least = absl::StrCat("the least possible, ", Bytes(facts["max_load"]));
  if (allocator == nullptr && plan == nullptr) {
    std::string text = absl::StrCat("At its peak ", facts["name"].get<std::string>(), " holds ",
                                    Bytes(facts["max_load"]));
    const ordered_json& sites = facts["sites"];
    if (sites.empty() || !sites[0]["known"].get<bool>()) return text + ".";
    return absl::StrCat(text, ", of which ", Bytes(sites[0]["peak_bytes"]), " are of ",
                        sites[0]["label"].get<std::string>(), ".");
  }
  if (allocator == nullptr) {
    const std::string label = (*plan)["label"];
    return absl::StrCat("The plan needs ", Above(*plan, max_load), " than ", least, ".",
                        Holder(facts, label));
  }
  const std::string label = (*allocator)["label"];
  std::string text = absl::StrCat(label, " needs ", Above(*allocator, max_load), " than ", least);
  if (plan != nullptr) absl::StrAppend(&text, "; the plan needs ", Above(*plan, max_load));
  return absl::StrCat(text, ".", Holder(facts, label));
}

}  // namespace reprise::report
