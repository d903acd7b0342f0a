// The part of a problem that decides: the sections of high load, and the jobs that live there.
#ifndef REPRISE_PLANNER_SEARCH_KERNEL_H_
#define REPRISE_PLANNER_SEARCH_KERNEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/core/problem.h"
#include "planner/search/valley_search.h"

namespace reprise::planner {

// The jobs that see a high load, as a problem of their own with all its sections. Its sizes are in
// `scale` units of the whole problem.
struct Kernel {
  std::unique_ptr<Instance> instance;
  Problem problem;
  int64_t scale = 1;
  std::vector<uint32_t> jobs;  // of the whole problem, by job of the kernel
};

// `jobs` as a problem of their own; each must be live in some section. Not `constrained`: without
// gaps and given addresses, sizes rounded up to the alignments.
Kernel MakeKernel(const Problem& problem, std::vector<uint32_t> jobs, bool constrained = true);

// Kernels of those that see 99 % of the max load to those that see half of it, without repetitions
// and small enough for valley search.
std::vector<Kernel> MakeKernels(const Problem& problem);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_KERNEL_H_
