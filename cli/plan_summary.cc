#include "cli/plan_summary.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/loops.h"

namespace reprise::cli {

using nlohmann::ordered_json;

namespace {

// "10752 (10.5 KiB)": what a person copies, and what one reads.
std::string Exactly(const ordered_json& bytes) {
  const auto value = bytes.get<int64_t>();
  const std::string human = HumanBytes(static_cast<double>(value));
  return value < 1024 ? human : absl::StrCat(value, " (", human, ")");
}

// Max load, and what the plan needs.
void PrintBytes(const ordered_json& plan, FILE* stream) {
  const auto usable = plan.value("usable_size_bytes", int64_t{0});
  absl::FPrintF(stream, "  max load  %s%s\n", Exactly(plan["max_load"]),
                usable > 0 ? " with usable sizes" : "");
  if (usable > 0) {
    absl::FPrintF(stream,
                  "  sizes     as malloc_usable_size told the program: %d bytes more than "
                  "requested at the max load\n",
                  usable);
  }
  const bool held = plan.contains("estimated_held_bytes");
  absl::FPrintF(stream, "  %s  %s%s, %.3f %% above the max load%s\n",
                held ? "held    " : "makespan", Exactly(plan["makespan"]),
                held ? " in replay, estimated" : "", plan["fragmentation_percent"].get<double>(),
                plan["proven_optimal"].get<bool>() ? " (optimal)" : "");
}

// Of recordings: the boxes, and what lies outside of them.
void PrintLanes(const ordered_json& plan, FILE* stream) {
  absl::FPrintF(stream, "  arena     %s in %s", Exactly(plan["arena_bytes"]),
                Counted(plan["lanes"].get<uint64_t>(), "lane"));
  if (const auto threads = plan["threads"].get<uint64_t>(); threads > 1) {
    absl::FPrintF(stream, " of %s", Counted(threads, "thread"));
  }
  absl::FPrintF(stream, "\n");
  const auto unplanned = plan["unplanned_buffers"].get<int64_t>();
  if (unplanned == 0) return;
  absl::FPrintF(stream,
                "  unplanned %d of %s: the shared heap serves them, and their addresses may\n"
                "            differ from run to run; with --lanes thread every thread has a "
                "lane\n",
                unplanned, Counted(plan["buffers"].get<uint64_t>(), "allocation"));
}

}  // namespace

ordered_json PlanSummary(int64_t buffers, int64_t max_load, int64_t lower_bound, int64_t makespan,
                         const std::string& strategy, bool proven, double seconds, uint64_t seed) {
  return {{"buffers", buffers},
          {"max_load", max_load},
          {"lower_bound", lower_bound},
          {"makespan", makespan},
          {"fragmentation", makespan - max_load},
          {"fragmentation_percent", Percent(makespan - max_load, max_load)},
          {"strategy", strategy},
          {"proven_optimal", proven},
          {"seconds", seconds},
          {"seed", seed}};
}

ordered_json SumOfPlans(const std::vector<ordered_json>& images, uint64_t seed) {
  int64_t buffers = 0, max_load = 0, lower_bound = 0, makespan = 0, arena = 0, lanes = 0,
          threads = 0, reallocs = 0, in_place = 0, learned = 0, usable = 0, unplanned = 0;
  double seconds = 0;
  bool proven = true, held = false;
  double overhead = 0;
  for (const ordered_json& image : images) {
    buffers += image["buffers"].get<int64_t>();
    max_load += image["max_load"].get<int64_t>();
    lower_bound += image["lower_bound"].get<int64_t>();
    makespan += image["makespan"].get<int64_t>();
    usable += image["usable_size_bytes"].get<int64_t>();
    arena += image["arena_bytes"].get<int64_t>();
    lanes += image["lanes"].get<int64_t>();
    threads += image["threads"].get<int64_t>();
    unplanned += image["unplanned_buffers"].get<int64_t>();
    reallocs += image["reallocs"].get<int64_t>();
    in_place += image["reallocs_in_place"].get<int64_t>();
    learned += image["learned"].get<int64_t>();
    overhead += image["lane_overhead_percent"].get<double>() * image["max_load"].get<double>();
    seconds += image["seconds"].get<double>();
    held = held || image.contains("estimated_held_bytes");
    proven = proven && image["proven_optimal"].get<bool>();
  }
  ordered_json json = PlanSummary(buffers, max_load, lower_bound, makespan,
                                  images.empty() ? "" : images[0]["strategy"].get<std::string>(),
                                  proven, seconds, seed);
  json["usable_size_bytes"] = usable;
  if (held) json["estimated_held_bytes"] = makespan;
  json["arena_bytes"] = arena;
  json["lanes"] = lanes;
  json["threads"] = threads;
  json["unplanned_buffers"] = unplanned;
  json["lane_overhead_percent"] = max_load > 0 ? overhead / static_cast<double>(max_load) : 0.0;
  json["reallocs"] = reallocs;
  json["reallocs_in_place"] = in_place;
  json["learned"] = learned;
  json["images"] = images;
  return json;
}

void PrintPlan(const ordered_json& plan, const std::string& output, FILE* stream) {
  absl::FPrintF(stream, "%s\n  buffers   %d\n", Printable(output), plan["buffers"].get<int64_t>());
  PrintBytes(plan, stream);
  if (plan.contains("lanes")) PrintLanes(plan, stream);
  if (plan.contains("period")) {
    absl::FPrintF(stream, "  period    %d, %s\n", plan["period"].get<int64_t>(),
                  Counted(plan["slots"].get<uint64_t>(), "slot"));
  }
  if (plan.value("reallocs", int64_t{0}) > 0) {
    absl::FPrintF(stream, "  reallocs  %d of %d in place\n",
                  plan["reallocs_in_place"].get<int64_t>(), plan["reallocs"].get<int64_t>());
  }
  if (plan.contains("loops")) {
    for (const std::string& line : LoopLines(plan["loops"])) {
      absl::FPrintF(stream, "  loop      %s\n", line);
    }
  }
  if (plan.value("learned", int64_t{0}) > 0) {
    absl::FPrintF(stream, "  learned   %d lifetimes\n", plan["learned"].get<int64_t>());
  }
  absl::FPrintF(stream, "  found by  %s in %.3f s\n", plan["strategy"].get<std::string>(),
                plan["seconds"].get<double>());
  if (plan.value("flat", false)) {
    absl::FPrintF(stream,
                  "  stopped   before the budget: within 0.1 %% of the bound, and no better for as "
                  "long again\n");
  }
}

}  // namespace reprise::cli
