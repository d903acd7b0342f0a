#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/core/check_periodic.h"
#include "planner/solve.h"
#include "planner/solve_unchecked.h"

namespace reprise::planner {
namespace {

// What messages call a slot: its buffer, and which of several slots it is.
BufferName SlotName(const std::vector<uint32_t>& first_slot, const BufferName& name) {
  return [&first_slot, &name](uint32_t slot) {
    const auto after = std::upper_bound(first_slot.begin(), first_slot.end(), slot);
    const auto buffer = static_cast<uint32_t>(after - first_slot.begin() - 1);
    const uint32_t slots = first_slot[buffer + 1] - first_slot[buffer];
    if (slots == 1) return NameOf(buffer, name);
    return absl::StrCat(NameOf(buffer, name), " in slot ", slot - first_slot[buffer], " of ",
                        slots);
  };
}

}  // namespace

absl::StatusOr<PeriodicPlan> SolvePeriodic(const Instance& instance, int64_t period,
                                           const Options& options) {
  if (absl::Status status = ValidatePeriodic(instance, period, options.name); !status.ok()) {
    return status;
  }
  const auto start = std::chrono::steady_clock::now();
  PeriodicPlan periodic;
  periodic.first_slot = FirstSlots(instance, period);
  Options of_slots = options;
  of_slots.name = SlotName(periodic.first_slot, options.name);
  absl::StatusOr<Plan> plan = SolveUnchecked(Reduce(instance, period), of_slots);
  if (!plan.ok()) return plan.status();
  periodic.plan = *std::move(plan);
  periodic.plan.max_load = PeriodicMaxLoad(instance, period);
  const CheckResult check = CheckPeriodic(instance, period, periodic.plan.offsets, 1);
  if (!check.valid || check.makespan != periodic.plan.makespan ||
      check.max_load != periodic.plan.max_load) {
    return absl::InternalError(absl::StrCat(
        "strategy '", periodic.plan.strategy, "' made an invalid plan: ",
        check.violations.empty()
            ? absl::StrCat("makespan ", check.makespan, " is not ", periodic.plan.makespan,
                           " or max load ", check.max_load, " not ", periodic.plan.max_load)
            : DescribePeriodic(check.violations[0], instance, period, periodic.plan.offsets,
                               options.name)));
  }
  periodic.plan.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return periodic;
}

}  // namespace reprise::planner
