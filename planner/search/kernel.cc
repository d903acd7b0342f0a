#include "planner/search/kernel.h"

#include <utility>

namespace reprise::planner {
namespace {

constexpr uint32_t kMostSections = 1500;
constexpr uint32_t kMostJobs = 6000;

// The jobs that live in a section of at least `share` times the max load, and those whose address
// is given: what is placed must leave room for them.
std::vector<uint32_t> JobsThatSee(const Problem& problem, double share) {
  const double least = share * static_cast<double>(problem.max_load);
  std::vector<uint32_t> before(problem.sections + 1);  // how many such sections
  for (uint32_t s = 0; s < problem.sections; ++s) {
    before[s + 1] = before[s] + (static_cast<double>(problem.load[s]) >= least ? 1 : 0);
  }
  std::vector<uint32_t> jobs;
  size_t given = 0;
  for (uint32_t j = 0; j < problem.size(); ++j) {
    const bool is_given = given < problem.fixed.size() && problem.fixed[given] == j;
    given += is_given ? 1 : 0;
    const Job& job = problem.jobs[j];
    if (before[job.lower] < before[job.upper] || (is_given && job.lower < job.upper)) {
      jobs.push_back(j);
    }
  }
  return jobs;
}

// The parts of a job's life in which it does not occupy all of itself.
void AddGaps(const Problem& whole, uint32_t job, uint32_t buffer, std::vector<Gap>& gaps) {
  int64_t from = whole.jobs[job].lower;
  for (uint32_t p = whole.first_piece[job]; p < whole.first_piece[job + 1]; ++p) {
    const Piece& piece = whole.pieces[p];
    if (from < piece.lower) gaps.push_back({buffer, from, piece.lower, 0, 0});
    if (piece.window_lower > 0 || piece.window_upper < whole.jobs[job].size) {
      gaps.push_back({buffer, piece.lower, piece.upper, piece.window_lower, piece.window_upper});
    }
    from = piece.upper;
  }
}

// Gives the jobs of a kernel what they must keep in the whole problem.
void KeepConstraints(const Problem& whole, const std::vector<uint32_t>& jobs, Instance& kernel) {
  kernel.start_address = whole.origin();
  if (!whole.fixed.empty()) {
    std::vector<int64_t> given(whole.size(), Instance::kFree);
    for (const uint32_t j : whole.fixed) given[j] = whole.fixed_address(j);
    for (const uint32_t j : jobs) kernel.fixed_offsets.push_back(given[j]);
  }
  for (uint32_t k = 0; k < jobs.size() && !whole.solid; ++k) {
    kernel.alignments.push_back(whole.alignment(jobs[k]));
    if (!whole.first_piece.empty()) AddGaps(whole, jobs[k], k, kernel.gaps);
  }
}

}  // namespace

Kernel MakeKernel(const Problem& whole, std::vector<uint32_t> jobs, bool constrained) {
  Kernel kernel;
  kernel.jobs = std::move(jobs);
  kernel.instance = std::make_unique<Instance>();
  for (const uint32_t j : kernel.jobs) {
    const Job& job = whole.jobs[j];
    const int64_t size = constrained ? job.size : RoundUp(job.size, whole.alignment(j));
    kernel.instance->buffers.push_back({job.lower, job.upper, size});
  }
  if (constrained && !whole.plain) KeepConstraints(whole, kernel.jobs, *kernel.instance);
  kernel.problem = MakeProblem(*kernel.instance);
  kernel.scale = kernel.problem.unit;
  return kernel;
}

std::vector<Kernel> MakeKernels(const Problem& problem) {
  std::vector<Kernel> kernels;
  size_t size = 0;
  for (const double share : {0.99, 0.97, 0.95, 0.92, 0.9, 0.85, 0.8, 0.7, 0.5}) {
    std::vector<uint32_t> jobs = JobsThatSee(problem, share);
    if (jobs.size() > kMostJobs || jobs.size() == problem.size()) break;
    if (jobs.size() == size) continue;
    size = jobs.size();
    Kernel kernel = MakeKernel(problem, std::move(jobs));
    if (kernel.problem.sections > kMostSections) break;
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace reprise::planner
