// How a warp finds one page for each lane in need: the algorithms of "Dynamic Memory Management in
// Massively Parallel Systems: A Case on GPUs" (Pham et al.), section 3.1 and 4.
//
// A PageWalk is the state of one search; each call of step() is one step in the paper's sense: a
// probe of every lane in need. So a simulation can let many warps advance in turns. After
// `pool.probes` steps a search reads the whole bitmap once. What it does not find then is not
// there: a page is reported missing only if every bit was seen set after the search began.
//
// Lock-free: a step never waits for another warp. Searches of all kinds may share a pool.
#ifndef REPRISE_RANDOM_WALK_PAGE_WALK_H_
#define REPRISE_RANDOM_WALK_PAGE_WALK_H_

#include "random_walk/pool_view.h"

namespace reprise::random_walk {

enum class Algorithm {
  kRandomWalk,          // RW, Algorithm 1: draw a page, take it if it is free
  kBitmap,              // RW-BM, Algorithm 2: draw a word, take one of its free pages
  kCollective,          // CoRW, Algorithm 3: the lanes share what their words hold, under LockMap
  kCollectiveLockFree,  // CoRW without LockMap: only the words whose pages are wanted are written
};

template <class Warp>
struct PageWalk {
  LaneMask need = 0;  // lanes without a page
  unsigned steps = 0;
  typename Warp::template Lanes<uint32_t> page;      // kNoPage where there is none
  typename Warp::template Lanes<unsigned> steps_of;  // steps until the lane had its page
};

template <class Warp>
REPRISE_LANE inline void begin(Warp& warp, PageWalk<Warp>& walk, LaneMask need) {
  walk.need = need;
  walk.steps = 0;
  warp.each(Warp::kAll, [&](unsigned lane) {
    walk.page[lane] = kNoPage;
    walk.steps_of[lane] = 0;
  });
}

// Notes that the lanes of `found` have their pages.
template <class Warp>
REPRISE_LANE inline void settle(Warp& warp, PageWalk<Warp>& walk, LaneMask found) {
  warp.each(found, [&](unsigned lane) { walk.steps_of[lane] = walk.steps; });
  walk.need &= ~found;
}

template <class Warp, class Word>
REPRISE_LANE inline void step_random_walk(Warp& warp, const PoolView<Word>& pool,
                                          PageWalk<Warp>& walk) {
  const LaneMask found = warp.ballot(walk.need, [&](unsigned lane) {
    const uint32_t page = warp.draw(lane, pool.pages);
    Word* word = &pool.used[page / kWordBits<Word>];
    const Word bit = static_cast<Word>(Word{1} << page % kWordBits<Word>);
    if ((Warp::load(word) & bit) != 0 || (Warp::fetch_or(word, bit) & bit) != 0) return false;
    walk.page[lane] = page;
    return true;
  });
  settle(warp, walk, found);
}

template <class Warp, class Word>
REPRISE_LANE inline void step_bitmap(Warp& warp, const PoolView<Word>& pool, PageWalk<Warp>& walk) {
  const LaneMask found = warp.ballot(walk.need, [&](unsigned lane) {
    const uint32_t index = warp.draw(lane, pool.words);
    Word* word = &pool.used[index];
    Word used = Warp::load(word);
    // A bit that another one took first costs no step: the atomic OR has read the word again.
    // At most one turn per bit, unless pages are freed meanwhile.
    for (unsigned turn = 0; turn < kWordBits<Word> && used != static_cast<Word>(~Word{0}); ++turn) {
      const unsigned bit = low_zeros(static_cast<Word>(~used));
      used = Warp::fetch_or(word, static_cast<Word>(Word{1} << bit));
      if ((used >> bit & 1) != 0) continue;
      walk.page[lane] = index * kWordBits<Word> + bit;
      return true;
    }
    return false;
  });
  settle(warp, walk, found);
}

// The words that the lanes of a warp look at together, and what was taken of them.
template <class Warp, class Word>
struct Shared {
  typename Warp::template Lanes<uint32_t> index;
  typename Warp::template Lanes<Word> free;        // free pages that the lane has to give
  typename Warp::template Lanes<Word> taken;       // those that are given
  typename Warp::template Lanes<Word> lost;        // those of them that another warp took first
  typename Warp::template Lanes<unsigned> before;  // free pages of lower lanes
};

// The page for lane in need number `rank` is the free page number `rank` of all lanes: the lane
// that gives it is found by a binary search over the sums. (The paper's loop over needMask and
// hasMask gives one page per lane and round; this gives all pages of the round at once.)
template <class Warp, class Word>
REPRISE_LANE inline LaneMask receive_pages(Warp& warp, PageWalk<Warp>& walk,
                                           const Shared<Warp, Word>& shared, unsigned supply) {
  typename Warp::template Lanes<unsigned> rank, source;
  warp.each(Warp::kAll, [&](unsigned lane) {
    rank[lane] = count_bits(walk.need & low_bits<LaneMask>(lane));
    source[lane] = 0;
  });
  for (unsigned half = 16; half > 0; half /= 2) {
    if (half >= Warp::kLanes) continue;
    typename Warp::template Lanes<unsigned> next;
    warp.each(Warp::kAll, [&](unsigned lane) { next[lane] = source[lane] + half; });
    const auto sum = warp.shuffle(shared.before, next);
    warp.each(Warp::kAll, [&](unsigned lane) {
      if (next[lane] < Warp::kLanes && sum[lane] <= rank[lane]) source[lane] = next[lane];
    });
  }
  const auto index = warp.shuffle(shared.index, source);
  const auto taken = warp.shuffle(shared.taken, source);
  const auto lost = warp.shuffle(shared.lost, source);
  const auto before = warp.shuffle(shared.before, source);
  return warp.ballot(walk.need, [&](unsigned lane) {
    if (rank[lane] >= supply) return false;
    const unsigned bit = nth_set_bit(taken[lane], rank[lane] - before[lane]);
    if ((lost[lane] >> bit & 1) != 0) return false;
    walk.page[lane] = index[lane] * kWordBits<Word> + bit;
    return true;
  });
}

// Gives the free pages of shared.free to the lanes in need. Returns the lanes that have one now.
// Bits are taken by an atomic OR, so concurrent frees are never overwritten, and whoever else takes
// pages of these words, with or without LockMap, is noticed.
template <class Warp, class Word>
REPRISE_LANE inline LaneMask share_pages(Warp& warp, const PoolView<Word>& pool,
                                         PageWalk<Warp>& walk, Shared<Warp, Word>& shared) {
  const unsigned wanted = count_bits(walk.need);
  typename Warp::template Lanes<unsigned> count;
  warp.each(Warp::kAll, [&](unsigned lane) { count[lane] = count_bits(shared.free[lane]); });
  shared.before = warp.sum_before(Warp::kAll, count);
  const unsigned total =
      warp.read(shared.before, Warp::kLanes - 1) + warp.read(count, Warp::kLanes - 1);
  if (total == 0) return 0;
  warp.each(Warp::kAll, [&](unsigned lane) {
    const unsigned below = shared.before[lane];
    const Word taken = lowest_set_bits(shared.free[lane], below < wanted ? wanted - below : 0U);
    shared.taken[lane] = taken;
    shared.lost[lane] =
        taken == 0
            ? Word{0}
            : static_cast<Word>(taken & Warp::fetch_or(&pool.used[shared.index[lane]], taken));
  });
  return receive_pages(warp, walk, shared, total < wanted ? total : wanted);
}

// A word that is locked counts as full.
template <bool kLockMap, class Warp, class Word>
REPRISE_LANE inline void step_collective(Warp& warp, const PoolView<Word>& pool,
                                         PageWalk<Warp>& walk) {
  Shared<Warp, Word> shared;
  LaneMask locked = 0;
  warp.each(Warp::kAll, [&](unsigned lane) { shared.index[lane] = warp.draw(lane, pool.words); });
  if constexpr (kLockMap) {
    locked = warp.ballot(Warp::kAll, [&](unsigned lane) {
      const uint32_t index = shared.index[lane], bit = 1U << index % 32;
      return (Warp::fetch_or(&pool.locks[index / 32], bit) & bit) == 0;
    });
  }
  warp.each(kLockMap ? locked : Warp::kAll, [&](unsigned lane) {
    shared.free[lane] = static_cast<Word>(~Warp::load(&pool.used[shared.index[lane]]));
  });
  const LaneMask found = share_pages(warp, pool, walk, shared);
  if constexpr (kLockMap) {
    warp.each(locked, [&](unsigned lane) {
      const uint32_t index = shared.index[lane];
      Warp::fetch_and(&pool.locks[index / 32], ~(1U << index % 32));
    });
  }
  settle(warp, walk, found);
  // The warp works as one: a lane with a page goes on as long as the others.
  warp.each(Warp::kAll, [&](unsigned lane) {
    if (walk.page[lane] != kNoPage) walk.steps_of[lane] = walk.steps;
  });
}

template <Algorithm kAlgorithm, class Warp, class Word>
REPRISE_LANE inline void step(Warp& warp, const PoolView<Word>& pool, PageWalk<Warp>& walk) {
  ++walk.steps;
  if constexpr (kAlgorithm == Algorithm::kRandomWalk) {
    step_random_walk(warp, pool, walk);
  } else if constexpr (kAlgorithm == Algorithm::kBitmap) {
    step_bitmap(warp, pool, walk);
  } else {
    step_collective<kAlgorithm == Algorithm::kCollective>(warp, pool, walk);
  }
}

// Reads the whole bitmap once, from a random word on, the lanes side by side. Words that are locked
// are read too: taking their pages is safe.
template <class Warp, class Word>
REPRISE_LANE inline void scan_for_pages(Warp& warp, const PoolView<Word>& pool,
                                        PageWalk<Warp>& walk) {
  const uint32_t start = warp.draw_uniform(pool.words);
  for (uint32_t done = 0; done < pool.words && walk.need != 0; done += Warp::kLanes) {
    ++walk.steps;
    LaneMask found = 0, tried = 0;
    // Again while other warps take what was seen free here: each of these turns has lost a page.
    for (unsigned turn = 0; turn < kWordBits<Word> * Warp::kLanes; ++turn) {
      Shared<Warp, Word> shared;
      tried = warp.ballot(Warp::kAll, [&](unsigned lane) {
        if (done + lane >= pool.words) return false;
        const uint64_t index = uint64_t{start} + done + lane;
        shared.index[lane] = static_cast<uint32_t>(index < pool.words ? index : index - pool.words);
        shared.free[lane] = static_cast<Word>(~Warp::load(&pool.used[shared.index[lane]]));
        return shared.free[lane] != 0;
      });
      if (tried == 0) break;
      found = share_pages(warp, pool, walk, shared);
      settle(warp, walk, found);
      if (walk.need == 0) break;
    }
  }
}

// One page for each lane of `need`. walk.page says which; kNoPage: out of memory.
template <Algorithm kAlgorithm, class Warp, class Word>
REPRISE_LANE inline void find_pages(Warp& warp, const PoolView<Word>& pool, LaneMask need,
                                    PageWalk<Warp>& walk) {
  begin(warp, walk, need);
  while (walk.need != 0 && walk.steps < pool.probes) step<kAlgorithm>(warp, pool, walk);
  if (walk.need != 0) scan_for_pages(warp, pool, walk);
}

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_PAGE_WALK_H_
