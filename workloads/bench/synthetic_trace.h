// Synthetic malloc traces of any length, for planners that must not know them beforehand.
#ifndef REPRISE_WORKLOADS_BENCH_SYNTHETIC_TRACE_H_
#define REPRISE_WORKLOADS_BENCH_SYNTHETIC_TRACE_H_

#include <cstdint>
#include <vector>

namespace workloads {

struct SyntheticBuffer {
  int64_t lower;  // index of the allocation
  int64_t upper;  // index of the first allocation after the free
  int64_t size;   // bytes, a multiple of 16
};

// Kind 1: a program in phases. Lifetimes follow a Pareto distribution, and at the end of each of a
// hundred phases every fifth of the live blocks dies. Most sizes are small, one in 20 is a buffer.
// Kind 2: a program that keeps things. 6 % of the blocks live for a random part of the rest of the
// run, the other lifetimes and the sizes have heavier tails, and there are no phases.
// The same arguments give the same trace on every machine.
std::vector<SyntheticBuffer> SyntheticTrace(int kind, int64_t buffers, uint64_t seed);

}  // namespace workloads

#endif  // REPRISE_WORKLOADS_BENCH_SYNTHETIC_TRACE_H_
