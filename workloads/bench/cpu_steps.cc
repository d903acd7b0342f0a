// Experiments (a) and (d), simulated: all warps of a device advance in turns, a step at a time.
#include <algorithm>
#include <numeric>
#include <random>

#include "random_walk/formulas.h"
#include "random_walk/page_pool.h"
#include "workloads/bench/cpu_bench.h"

namespace bench {
namespace {

using namespace reprise::random_walk;
using Warp = HostWarp<32>;

struct Steps {
  double tas = 0, was = 0;
};

// N requests at once, several times with the same free pages.
template <Algorithm kAlgorithm, class Word>
Steps simulate_once(const PagePool<Word>& pool, uint32_t requests, uint64_t seed, int repeats) {
  Steps mean;
  const size_t count = requests / 32;
  std::vector<PageWalk<Warp>> walks(count);
  std::vector<Warp> warps;
  warps.reserve(count);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    warps.clear();
    for (size_t i = 0; i < count; ++i) {
      warps.emplace_back(seed * 1000003 + repeat, i);
      begin(warps[i], walks[i], Warp::kAll);
    }
    std::vector<uint32_t> left(count);
    std::iota(left.begin(), left.end(), 0U);
    while (!left.empty()) {
      size_t kept = 0;
      for (const uint32_t i : left) {
        step<kAlgorithm>(warps[i], pool.view(), walks[i]);
        if (walks[i].need != 0) left[kept++] = i;
      }
      left.resize(kept);
    }
    for (const auto& walk : walks) {
      unsigned most = 0;
      for (unsigned lane = 0; lane < 32; ++lane) {
        mean.tas += walk.steps_of[lane];
        most = std::max(most, walk.steps_of[lane]);
        free_page<Warp>(pool.view(), walk.page[lane]);
      }
      mean.was += most;
    }
  }
  mean.tas /= double(requests) * repeats;
  mean.was /= double(count) * repeats;
  return mean;
}

template <class Word>
void occupy(const PagePool<Word>& pool, uint32_t free, uint64_t seed) {
  std::vector<uint32_t> pages(pool.view().pages);
  std::iota(pages.begin(), pages.end(), 0U);
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64(seed));
  for (size_t i = free; i < pages.size(); ++i) {
    pool.view().used[pages[i] / kWordBits<Word>] |= Word{1} << pages[i] % kWordBits<Word>;
  }
}

template <Algorithm kAlgorithm, class Word>
void simulate(const char* name, uint32_t pages, uint32_t free, uint32_t n, int seeds) {
  // Few requests vary much: as many repetitions as make 2^15 of them for each seed.
  const int repeats = std::max<int>(1, static_cast<int>((1U << 15) / n));
  std::vector<double> tas, was;
  for (int seed = 1; seed <= seeds; ++seed) {
    PagePool<Word> pool({.pages = pages, .page_bytes = 1, .with_memory = false});
    occupy(pool, free, seed);
    const Steps steps = simulate_once<kAlgorithm>(pool, n, seed, repeats);
    tas.push_back(steps.tas);
    was.push_back(steps.was);
  }
  const Mean t = mean_of(tas), w = mean_of(was);
  const double total = pages, a = free, bits = kWordBits<Word>;
  double paper = 0, formula = 0, paper_bound = 0, bound = 0;  // 0: there is none
  if (kAlgorithm == Algorithm::kRandomWalk) {
    paper = formula = random_walk_tas(total, a, n);
    paper_bound = bound = random_walk_was_bound(total, a, n);
  } else if (kAlgorithm == Algorithm::kBitmap) {
    paper = bitmap_tas_paper(total, a, n, bits);
    formula = bitmap_tas(total, a, n, kWordBits<Word>);
    paper_bound = bitmap_was_bound_paper(total, a, n, bits);
    bound = bitmap_was_bound(total, a, n, kWordBits<Word>);
  }
  emit(
      R"({"kind": "steps", "algorithm": "%s", "width": %u, "pages": %u, "free": %u, "threads": %u, )"
      R"("tas": %.5f, "tas_error": %.5f, "was": %.5f, "was_error": %.5f, "tas_paper": %.5f, )"
      R"("tas_formula": %.5f, "was_bound_paper": %.5f, "was_bound": %.5f, "seeds": %d, )"
      R"("repeats": %d})",
      name, kWordBits<Word>, pages, free, n, t.value, t.error, w.value, w.error, paper, formula,
      paper_bound, bound, seeds, repeats);
}

template <class Word>
void fill_up(uint64_t pool_bytes, uint32_t unit, uint32_t bytes) {
  constexpr int kWarps = 256;
  PagePool<Word> pool({.pages = static_cast<uint32_t>(pool_bytes / unit),
                       .page_bytes = unit,
                       .with_memory = false});
  std::vector<Warp> warps;
  std::vector<RunWalk<Warp>> walks(kWarps);
  for (int i = 0; i < kWarps; ++i) warps.emplace_back(bytes, i);
  std::mt19937 random(1);
  uint64_t requested = 0, steps = 0, requests = 0;
  for (bool full = false; !full;) {
    for (int i = 0; i < kWarps && !full; ++i) {
      Warp::Lanes<uint64_t> sizes;
      for (uint64_t& size : sizes.values) size = bytes != 0 ? bytes : 4 + random() % 8189;
      rw_malloc(warps[i], pool.view(), walks[i], Warp::kAll, sizes);
      for (unsigned lane = 0; lane < 32; ++lane) {
        if (walks[i].first[lane] != kNoPage) requested += sizes[lane];
      }
      steps += walks[i].steps;
      requests += 32;
      full = walks[i].need != 0;
    }
  }
  emit(R"({"kind": "utilisation", "bytes": %u, "unit": %u, "width": %u, "pool": %llu, )"
       R"("of_requests": %.5f, "of_units": %.5f, "steps_per_warp": %.3f})",
       bytes, unit, kWordBits<Word>, static_cast<unsigned long long>(pool_bytes),
       double(requested) / double(pool_bytes),
       double(pool.statistics().used) * unit / double(pool_bytes),
       double(steps) / (double(requests) / 32));
}

}  // namespace

void simulate_steps(uint32_t pages, int seeds) {
  for (const double percent : {50.0, 10.0, 1.0, 0.5}) {
    const auto free = static_cast<uint32_t>(pages * percent / 100);
    std::vector<uint32_t> counts;
    for (uint32_t n = 32; n <= free * 0.99; n *= 2) counts.push_back(n);
    counts.push_back(static_cast<uint32_t>(free * 0.99) / 32 * 32);
    for (const uint32_t n : counts) {
      simulate<Algorithm::kRandomWalk, uint32_t>("RW", pages, free, n, seeds);
      simulate<Algorithm::kBitmap, uint32_t>("RW-BM", pages, free, n, seeds);
      simulate<Algorithm::kBitmap, uint64_t>("RW-BM", pages, free, n, seeds);
      simulate<Algorithm::kCollective, uint32_t>("CoRW", pages, free, n, seeds);
      simulate<Algorithm::kCollective, uint64_t>("CoRW", pages, free, n, seeds);
      simulate<Algorithm::kCollectiveLockFree, uint32_t>("CoRW-LF", pages, free, n, seeds);
      simulate<Algorithm::kCollectiveLockFree, uint64_t>("CoRW-LF", pages, free, n, seeds);
    }
  }
}

void simulate_utilisation(uint64_t pool_bytes) {
  for (const uint32_t bytes : {4U, 8U, 16U, 40U, 100U, 256U, 700U, 1024U, 2048U, 3000U, 4096U,
                               5000U, 6000U, 7000U, 8192U, 0U}) {
    // The smallest unit with which a run of the longest request is within a window.
    fill_up<uint64_t>(pool_bytes, bytes == 0 || bytes > 7936 ? 8 : 4, bytes);
    fill_up<uint32_t>(pool_bytes, 16, bytes);
  }
}

}  // namespace bench
