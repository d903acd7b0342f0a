#include "planner/strategy.h"

#include "planner/core/runs.h"

namespace reprise::planner {

const std::vector<Strategy>& AllStrategies() {
  static const std::vector<Strategy>* const all = new std::vector<Strategy>{
      {{"auto", "the best of the others within the budget"}, RunAuto},
      {{"bump", "one buffer behind the other, nothing shared (MemoMalloc's baseline)"}, RunBump},
      {{"sweep_best_fit", "in time order, as an allocator that never splits badly: best fit"},
       RunSweepBestFit},
      {{"peak_sweep", "the peak stacked without waste, then best-fit sweeps away from it"},
       RunPeakSweep},
      {{"first_fit_by_size", "first fit, the largest first"}, RunFirstFitInOrder},
      {{"first_fit_by_area", "first fit, the largest size times lifespan first"},
       RunFirstFitInOrder},
      {{"first_fit_by_lifespan", "first fit, the longest-lived first"}, RunFirstFitInOrder},
      {{"first_fit_by_birth", "first fit in time order"}, RunFirstFitInOrder},
      {{"first_fit_by_max_load", "first fit, those that live at the peak first, then by size"},
       RunFirstFitInOrder},
      {{"first_fit_by_max_load_latest", "the same, the latest born first among equals"},
       RunFirstFitInOrder},
      {{"first_fit_by_max_load_earliest", "the same, the earliest born first among equals"},
       RunFirstFitInOrder},
      {{"first_fit_by_max_load_area", "first fit, those that live at the peak first, then by area"},
       RunFirstFitInOrder},
      {{"first_fit_by_max_load_lifespan", "first fit, the peak first, then the longest-lived"},
       RunFirstFitInOrder},
      {{"best_fit_by_size", "best fit, the largest first"}, RunBestFitInOrder},
      {{"best_fit_by_area", "best fit, the largest size times lifespan first"}, RunBestFitInOrder},
      {{"best_fit_by_lifespan", "best fit, the longest-lived first"}, RunBestFitInOrder},
      {{"best_fit_by_birth", "best fit in time order"}, RunBestFitInOrder},
      {{"best_fit_by_max_load", "best fit, those that live at the peak first, then by size"},
       RunBestFitInOrder},
      {{"best_fit_by_max_load_area", "best fit, the peak first, then by area"}, RunBestFitInOrder},
      {{"best_fit_by_max_load_lifespan", "best fit, the peak first, then the longest-lived"},
       RunBestFitInOrder},
      {{"greedy_by_breadth", "best fit by the load at birth (Pisarchyk and Lee 2020)"},
       RunBestFitInOrder},
      {{"gergov", "an infeasible packing made feasible by first fit (Gergov 1999; MemoMalloc)"},
       RunGergov},
      {{"mincost_flow", "reuse as a minimum cost flow (Lee et al. 2019; MemoMalloc)"},
       RunMincostFlow},
#ifdef REPRISE_HAVE_CBC
      {{"mip", "the integer program, by COIN-OR CBC (MemoMalloc, formulation 2.1)"}, RunMip, true},
#endif
      {{"tvm_hill_climb", "first fit; the order's entries at the peak are swapped (TVM)"},
       RunHillClimb},
      {{"somas_many_first", "many objects, first fit by size (SOMAS, algorithm 7)"},
       RunSomasManyFirst},
      {{"somas_many_best", "many objects, best fit by size (SOMAS, algorithm 7)"},
       RunSomasManyBest},
      {{"idealloc", "boxing, then first fit (Buchsbaum et al. 2003; Lamprakos et al. 2025)"},
       RunIdealloc},
      {{"sampled_orders", "random weights of max load, size and lifespan, first and best fit"},
       RunSampledOrders},
      {{"exact_search", "valley search without restarts, down from the best known (as minimalloc)"},
       RunExactSearch},
      {{"kernel_first", "valley search where the load is high, then first fit around that"},
       RunKernelFirst},
      {{"valley_search",
        "depth-first over the skyline's lowest valley, with proofs (small problems)"},
       RunValleySearch},
      {{"beam_search",
        "many partial packings side by side, those that waste least (small problems)"},
       RunBeamSearch},
      {{"ejection_search", "what reaches too high takes the place of others, and those of others"},
       RunEjectionSearch},
      {{"big_rocks_first", "the same as first_fit_by_size (idealloc, section 5.5)",
        "first_fit_by_size"},
       nullptr},
      {{"greedy_by_size", "the same as best_fit_by_size (Pisarchyk and Lee 2020; MemoMalloc)",
        "best_fit_by_size"},
       nullptr},
      {{"xla_best_fit_spatial", "the same as best_fit_by_size (XLA)", "best_fit_by_size"}, nullptr},
      {{"xla_best_fit_temporal", "the same as best_fit_by_lifespan (XLA)", "best_fit_by_lifespan"},
       nullptr},
      {{"somas_single_first", "the same as first_fit_by_size (SOMAS, algorithm 6)",
        "first_fit_by_size"},
       nullptr},
      {{"somas_single_best", "the same as best_fit_by_size (SOMAS, algorithm 6)",
        "best_fit_by_size"},
       nullptr},
  };
  return *all;
}

bool PlacesOnce(const Strategy& strategy) {
  return strategy.run == RunBump || strategy.run == RunSweepBestFit ||
         strategy.run == RunFirstFitInOrder || strategy.run == RunBestFitInOrder ||
         strategy.run == RunGergov || strategy.run == RunMincostFlow ||
         strategy.run == RunSomasManyFirst || strategy.run == RunSomasManyBest;
}

const Strategy* FindStrategy(std::string_view name) {
  for (const Strategy& strategy : AllStrategies()) {
    if (strategy.info.name != name) continue;
    return strategy.info.alias_of.empty() ? &strategy : FindStrategy(strategy.info.alias_of);
  }
  return nullptr;
}

}  // namespace reprise::planner
