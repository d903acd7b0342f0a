// What `reprise plan` says of a plan, as JSON (docs/reference/json.md) and as text.
#ifndef REPRISE_CLI_PLAN_SUMMARY_H_
#define REPRISE_CLI_PLAN_SUMMARY_H_

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace reprise::cli {

// The fields that every plan has.
nlohmann::ordered_json PlanSummary(int64_t buffers, int64_t max_load, int64_t lower_bound,
                                   int64_t makespan, const std::string& strategy, bool proven,
                                   double seconds, uint64_t seed);

// Sums over images; the images run at different times, so sums of loads are an upper bound of what
// they need together.
nlohmann::ordered_json SumOfPlans(const std::vector<nlohmann::ordered_json>& images, uint64_t seed);

// `output`: what it is called.
void PrintPlan(const nlohmann::ordered_json& plan, const std::string& output, FILE* stream);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_PLAN_SUMMARY_H_
