// What runs the strategies (planner/strategy.cc), each in a file of its own.
#ifndef REPRISE_PLANNER_CORE_RUNS_H_
#define REPRISE_PLANNER_CORE_RUNS_H_

#include <string>

#include "planner/core/search.h"

namespace reprise::planner {

// A strategy offers packings to search.incumbent. Constructive ones offer one; improving ones go on
// until Done(), OutOfTime() or the iterations are spent. All return soon after Cancelled(), and
// soon after OutOfTime() where a sweep can take their place, then perhaps without having offered
// anything. `name`: of the strategy, which may select an order.
void RunAuto(Search& search, const std::string& name);
void RunBump(Search& search, const std::string& name);
void RunSweepBestFit(Search& search, const std::string& name);
void RunFirstFitInOrder(Search& search, const std::string& name);
void RunBestFitInOrder(Search& search, const std::string& name);
void RunPeakSweep(Search& search, const std::string& name);
void RunGergov(Search& search, const std::string& name);
void RunHillClimb(Search& search, const std::string& name);
void RunSomasManyFirst(Search& search, const std::string& name);
void RunSomasManyBest(Search& search, const std::string& name);
void RunMincostFlow(Search& search, const std::string& name);
void RunMip(Search& search, const std::string& name);  // where CBC was found
void RunExactSearch(Search& search, const std::string& name);
void RunIdealloc(Search& search, const std::string& name);
void RunSampledOrders(Search& search, const std::string& name);
void RunKernelFirst(Search& search, const std::string& name);
void RunValleySearch(Search& search, const std::string& name);
void RunEjectionSearch(Search& search, const std::string& name);
void RunBeamSearch(Search& search, const std::string& name);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_RUNS_H_
