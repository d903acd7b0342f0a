// RW_malloc: runs of consecutive units for the lanes of a warp (the paper's Algorithm 5).
//
// The lanes read consecutive bitmap words, a *window*. Runs of free units that meet at word
// boundaries are joined. The requests of the warp are added up in lane order: as many of them as
// fit share one run, are taken with one atomic OR per word, and are split. Each can be freed alone.
//
// Random placement alone jams: runs that lie anywhere leave gaps that are too short for others. So
// the bitmap is divided into regions, a random walk takes a run only at its beginning (behind a
// used unit, or at the region's start), and a walk that meets free units without a beginning looks
// for it in front of them. Free memory of a region is then mostly one run at its end.
//
// A walk takes at most `pool.probes` steps. Then it reads the bitmap once and takes what fits
// anywhere; again, a few times, if other warps interfered. So no search is endless.
#ifndef REPRISE_RANDOM_WALK_RUN_WALK_H_
#define REPRISE_RANDOM_WALK_RUN_WALK_H_

#include "random_walk/pool_view.h"

namespace reprise::random_walk {

inline constexpr uint32_t kRegionWords = 1024;
inline constexpr unsigned kMostClashes = 16;  // in one window, before the walk goes elsewhere
inline constexpr unsigned kMostScans = 4;

// The longest run that a warp of these lanes can find, in units: a run may begin anywhere in the
// first word of a window. A one-lane warp finds what lies in one word, if it begins there.
template <class Warp, class Word>
inline constexpr uint32_t kLongestRun = Warp::kLanes == 1 ? 1
                                                          : (Warp::kLanes - 1) * kWordBits<Word>;

template <class Warp>
struct RunWalk {
  LaneMask need = 0;  // lanes without a run
  unsigned steps = 0;
  bool clash = false;  // another warp interfered, since this was last cleared
  // The walk's place in the bitmap, in words: it looks at `base` next, which lies in [low, high) of
  // the region that begins at `region`.
  uint32_t base = 0, region = 0, low = 0, high = 0;
  typename Warp::template Lanes<uint32_t> units;
  typename Warp::template Lanes<uint32_t> first;  // first unit of the run; kNoPage: none
};

// A window of the bitmap. Words outside of [base, end) count as used.
template <class Warp, class Word>
struct Window {
  uint32_t base = 0, end = 0;
  bool open = false;  // the unit before the window is free: the first run begins further in front
  typename Warp::template Lanes<Word> free;
};

template <class Warp, class Word>
REPRISE_LANE inline Window<Warp, Word> read_window(Warp& warp, const PoolView<Word>& pool,
                                                   uint32_t base, uint32_t begin, uint32_t end) {
  Window<Warp, Word> window;
  window.base = base;
  window.end = end;
  warp.each(Warp::kAll, [&](unsigned lane) {
    window.free[lane] =
        base + lane < end ? static_cast<Word>(~Warp::load(&pool.used[base + lane])) : Word{0};
  });
  window.open = base > begin && warp.ballot(1, [&](unsigned) {
    return Warp::load(&pool.used[base - 1]) >> (kWordBits<Word> - 1) == 0;
  }) != 0;
  return window;
}

// A run of free units in a window, from bit `from` of the word of `lane` on. Uniform.
struct FoundRun {
  bool found = false;
  unsigned lane = 0, from = 0, length = 0;
};

// The lowest run of at least `units` units that begins in the window.
template <class Warp, class Word>
REPRISE_LANE inline FoundRun find_run(Warp& warp, const Window<Warp, Word>& window,
                                      unsigned units) {
  constexpr unsigned kBits = kWordBits<Word>;
  constexpr Word kFull = static_cast<Word>(~Word{0});
  typename Warp::template Lanes<unsigned> leading, next, from, length;
  const LaneMask whole = warp.ballot(Warp::kAll, [&](unsigned lane) {
    leading[lane] = low_zeros(static_cast<Word>(~window.free[lane]));
    return window.free[lane] == kFull;
  });
  const LaneMask top =
      warp.ballot(Warp::kAll, [&](unsigned lane) { return window.free[lane] >> (kBits - 1) != 0; });
  // Behind a lane's word come `between` free words and the beginning of the next one.
  warp.each(Warp::kAll, [&](unsigned lane) {
    const unsigned between =
        lane + 1 < 32 ? low_zeros(static_cast<LaneMask>(~(whole >> (lane + 1)))) : 0;
    next[lane] = lane + 1 + between;
    length[lane] = between * kBits;
  });
  const auto beyond = warp.shuffle(leading, next);
  const LaneMask has = warp.ballot(Warp::kAll, [&](unsigned lane) {
    const Word free = window.free[lane];
    if (free == 0) return false;
    const unsigned trailing = high_zeros(static_cast<Word>(~free));
    const unsigned joined =
        trailing + length[lane] + (next[lane] < Warp::kLanes ? beyond[lane] : 0U);
    const bool continued = lane > 0 ? (top >> (lane - 1) & 1) != 0 : window.open;
    Word starts = units <= kBits ? run_starts(free, units) : Word{0};
    if (continued) starts &= static_cast<Word>(~low_bits<Word>(leading[lane]));
    if (starts != 0) {
      from[lane] = low_zeros(starts);
    } else if (trailing > 0 && joined >= units && !(continued && trailing == kBits)) {
      from[lane] = kBits - trailing;
    } else {
      return false;
    }
    length[lane] = from[lane] == kBits - trailing
                       ? joined
                       : low_zeros(static_cast<Word>(~(free >> from[lane])));
    return true;
  });
  if (has == 0) return {};
  const unsigned lane = low_zeros(has);
  return {true, lane, warp.read(from, lane), warp.read(length, lane)};
}

// Sets the bits [from, from + count) of the window. Returns false and leaves the bitmap as it was
// if one of them was set; the window is up to date then.
template <class Warp, class Word>
REPRISE_LANE inline bool take_bits(Warp& warp, const PoolView<Word>& pool,
                                   Window<Warp, Word>& window, unsigned from, unsigned count) {
  typename Warp::template Lanes<Word> mask, before;
  const LaneMask clash = warp.ballot(Warp::kAll, [&](unsigned lane) {
    mask[lane] = bits_in_word<Word>(from, count, lane);
    if (mask[lane] == 0) return false;
    before[lane] = Warp::fetch_or(&pool.used[window.base + lane], mask[lane]);
    return (before[lane] & mask[lane]) != 0;
  });
  warp.each(Warp::kAll, [&](unsigned lane) {
    if (mask[lane] == 0) return;
    if (clash == 0) {
      window.free[lane] &= static_cast<Word>(~mask[lane]);
    } else {
      window.free[lane] = static_cast<Word>(~before[lane]);
      Warp::fetch_and(&pool.used[window.base + lane],
                      static_cast<Word>(~mask[lane] | before[lane]));
    }
  });
  return clash == 0;
}

// Serves what fits into the window.
template <class Warp, class Word>
REPRISE_LANE inline void serve_window(Warp& warp, const PoolView<Word>& pool, RunWalk<Warp>& walk,
                                      Window<Warp, Word>& window) {
  LaneMask candidates = walk.need;
  unsigned clashes = 0;
  while (candidates != 0 && clashes < kMostClashes) {
    const unsigned units = warp.read(walk.units, low_zeros(candidates));
    const FoundRun run = find_run(warp, window, units);
    if (!run.found) {
      candidates &=
          ~warp.ballot(candidates, [&](unsigned lane) { return walk.units[lane] >= units; });
      continue;
    }
    const auto before = warp.sum_before(candidates, walk.units);
    const LaneMask served = warp.ballot(
        candidates, [&](unsigned lane) { return before[lane] + walk.units[lane] <= run.length; });
    const unsigned last = 31 - high_zeros(served);
    const unsigned total = warp.read(before, last) + warp.read(walk.units, last);
    const unsigned from = run.lane * kWordBits<Word> + run.from;
    if (!take_bits(warp, pool, window, from, total)) {
      ++clashes;
      walk.clash = true;
      continue;
    }
    warp.each(served, [&](unsigned lane) {
      walk.first[lane] = window.base * kWordBits<Word> + from + before[lane];
    });
    walk.need &= ~served;
    candidates &= ~served;
  }
}

// The lane in whose word a run begins that goes on behind the window; kLanes: there is none.
template <class Warp, class Word>
REPRISE_LANE inline unsigned unfinished_run(Warp& warp, const Window<Warp, Word>& window) {
  if (window.base + Warp::kLanes >= window.end) return Warp::kLanes;
  const LaneMask some_used = warp.ballot(
      Warp::kAll, [&](unsigned lane) { return window.free[lane] != static_cast<Word>(~Word{0}); });
  if (some_used == 0) return 0;
  const unsigned last = 31 - high_zeros(some_used);
  const bool at_top = warp.ballot(LaneMask{1} << last, [&](unsigned lane) {
    return window.free[lane] >> (kWordBits<Word> - 1) != 0;
  }) != 0;
  return at_top ? last : last + 1;
}

template <class Word>
REPRISE_LANE inline uint32_t region_end(const PoolView<Word>& pool, uint32_t region) {
  return pool.words - region < kRegionWords ? pool.words : region + kRegionWords;
}

template <class Warp, class Word>
REPRISE_LANE inline void enter_region(Warp& warp, const PoolView<Word>& pool, RunWalk<Warp>& walk) {
  const uint32_t regions = (pool.words + kRegionWords - 1) / kRegionWords;
  walk.region = warp.draw_uniform(regions) * kRegionWords;
  walk.low = walk.region;
  walk.high = region_end(pool, walk.region);
  walk.base = walk.low + warp.draw_uniform(walk.high - walk.low);
}

// One step: a window is read, what fits is taken, and the walk goes on to where more may be.
template <class Warp, class Word>
REPRISE_LANE inline void step_runs(Warp& warp, const PoolView<Word>& pool, RunWalk<Warp>& walk) {
  ++walk.steps;
  auto window = read_window(warp, pool, walk.base, walk.region, region_end(pool, walk.region));
  serve_window(warp, pool, walk, window);
  if (walk.need == 0) return;
  const LaneMask some_used = warp.ballot(
      Warp::kAll, [&](unsigned lane) { return window.free[lane] != static_cast<Word>(~Word{0}); });
  const unsigned unfinished = unfinished_run(warp, window);
  if (unfinished > 0 && unfinished < Warp::kLanes) {
    walk.base += unfinished;  // it begins in this word: the next step sees all that fits
    return;
  }
  // Free from the first unit on: the run begins in front. Else the free units lie behind, if any.
  if (window.open && (some_used & 1) == 0) {
    walk.high = walk.base;
  } else {
    walk.low = walk.base + 1;
  }
  if (walk.low < walk.high) {
    walk.base = walk.low + warp.draw_uniform(walk.high - walk.low);
  } else {
    enter_region(warp, pool, walk);
  }
}

// Reads words [from, to) and takes what fits anywhere. Windows may reach to `end`.
template <class Warp, class Word>
REPRISE_LANE inline void scan_words(Warp& warp, const PoolView<Word>& pool, RunWalk<Warp>& walk,
                                    uint32_t from, uint32_t to, uint32_t end) {
  for (uint32_t base = from; base < to && walk.need != 0;) {
    ++walk.steps;
    auto window = read_window(warp, pool, base, base, end);
    const LaneMask before = walk.need;
    serve_window(warp, pool, walk, window);
    if (walk.need != before) {  // the next walk begins here
      walk.base = base;
      walk.region = base / kRegionWords * kRegionWords;
    }
    const unsigned unfinished = unfinished_run(warp, window);
    base += unfinished == 0 ? Warp::kLanes : unfinished;
  }
}

template <class Warp, class Word>
REPRISE_LANE inline void scan_for_runs(Warp& warp, const PoolView<Word>& pool,
                                       RunWalk<Warp>& walk) {
  const uint32_t start = warp.draw_uniform(pool.words);
  const uint32_t overlap = pool.words - start < Warp::kLanes ? pool.words : start + Warp::kLanes;
  for (unsigned turn = 0; turn < kMostScans && walk.need != 0; ++turn) {
    walk.clash = false;
    scan_words(warp, pool, walk, start, pool.words, pool.words);
    scan_words(warp, pool, walk, 0, start, overlap);
    if (!walk.clash) break;
  }
}

// A run of walk.units[lane] units for each lane of `need`: walk.first says where it begins;
// kNoPage: out of memory, or longer than kLongestRun. The walk goes on where the last one of `walk`
// ended, if it is used again, so the runs of a thread lie side by side.
template <class Warp, class Word>
REPRISE_LANE inline void find_runs(Warp& warp, const PoolView<Word>& pool, LaneMask need,
                                   RunWalk<Warp>& walk) {
  walk.steps = 0;
  warp.each(Warp::kAll, [&](unsigned lane) { walk.first[lane] = kNoPage; });
  walk.need = warp.ballot(need, [&](unsigned lane) {
    return walk.units[lane] > 0 && walk.units[lane] <= kLongestRun<Warp, Word>;
  });
  if (walk.high == 0) {
    enter_region(warp, pool, walk);
  } else {
    walk.low = walk.region;
    walk.high = region_end(pool, walk.region);
  }
  while (walk.need != 0 && walk.steps < pool.probes) step_runs(warp, pool, walk);
  if (walk.need != 0) scan_for_runs(warp, pool, walk);
}

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_RUN_WALK_H_
