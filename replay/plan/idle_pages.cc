#include "replay/plan/idle_pages.h"

#include <algorithm>
#include <climits>
#include <cstddef>

#include "replay/plan/stream.h"

namespace reprise::replay {
namespace {

constexpr int kIdleTurns = 16;
constexpr uint32_t kFewestPages = 16;
constexpr int kUnused = -1;

struct IdleRun {
  uint32_t turn;  // the kTurn word behind which it is told
  uint32_t first_page;
  uint32_t pages;
};

// How many turns come before a word. They are about kTurnWords apart.
uint32_t TurnsBefore(const std::vector<uint32_t>& turns, uint32_t word) {
  size_t turn = std::min<size_t>(word / kTurnWords, turns.size());
  while (turn > 0 && turns[turn - 1] >= word) --turn;
  while (turn < turns.size() && turns[turn] < word) ++turn;
  return static_cast<uint32_t>(turn);
}

std::vector<IdleRun> FindRuns(const std::vector<uint32_t>& turns, const std::vector<PlanKey>& keys,
                              uint64_t box_bytes, const std::vector<PlanBlock>& placements) {
  constexpr uint64_t kPageGranules = kBoxAlignment / kGranule;
  // Blocks come by birth, so a page is idle from the latest death in it so far to the next birth.
  std::vector<int> busy_until(box_bytes / kBoxAlignment, kUnused);  // turns
  std::vector<IdleRun> single;
  for (const PlanBlock& block : placements) {
    const auto born = static_cast<int>(TurnsBefore(turns, block.birth));
    const int dies =
        block.death == kNeverDies ? INT_MAX : static_cast<int>(TurnsBefore(turns, block.death));
    const uint64_t last = block.offset + BlockGranules(keys[block.key]) - 1;
    for (uint64_t page = block.offset / kPageGranules; page <= last / kPageGranules; ++page) {
      int& until = busy_until[page];
      if (until != kUnused && until != INT_MAX && born - until > kIdleTurns) {
        single.push_back({static_cast<uint32_t>(until), static_cast<uint32_t>(page), 1});
      }
      until = std::max(until, dies);
    }
  }
  for (size_t page = 0; page < busy_until.size(); ++page) {
    const int until = busy_until[page];
    if (until != kUnused && until != INT_MAX &&
        static_cast<int>(turns.size()) - until > kIdleTurns) {
      single.push_back({static_cast<uint32_t>(until), static_cast<uint32_t>(page), 1});
    }
  }
  std::sort(single.begin(), single.end(), [](const IdleRun& a, const IdleRun& b) {
    return a.turn != b.turn ? a.turn < b.turn : a.first_page < b.first_page;
  });
  std::vector<IdleRun> runs;
  for (const IdleRun& page : single) {
    if (!runs.empty() && runs.back().turn == page.turn &&
        runs.back().first_page + runs.back().pages == page.first_page) {
      ++runs.back().pages;
    } else {
      runs.push_back(page);
    }
  }
  std::erase_if(runs, [](const IdleRun& run) { return run.pages < kFewestPages; });
  return runs;
}

}  // namespace

void AddIdlePages(std::vector<uint32_t>& words, const std::vector<uint32_t>& turns,
                  const std::vector<PlanKey>& keys, uint64_t box_bytes,
                  std::vector<PlanBlock>& placements) {
  const std::vector<IdleRun> runs = FindRuns(turns, keys, box_bytes, placements);
  if (runs.empty()) return;
  std::vector<uint32_t> longer;
  longer.reserve(words.size() + 3 * runs.size());
  std::vector<uint32_t> added(turns.size() + 1, 0);  // words, before each turn and after the last
  size_t next = 0;
  size_t copied = 0;
  for (size_t turn = 0; turn < turns.size(); ++turn) {
    const size_t end = turns[turn] + 1;
    longer.insert(longer.end(), words.begin() + static_cast<std::ptrdiff_t>(copied),
                  words.begin() + static_cast<std::ptrdiff_t>(end));
    copied = end;
    for (; next < runs.size() && runs[next].turn == turn; ++next) {
      longer.insert(longer.end(), {kIdle, runs[next].first_page, runs[next].pages});
    }
    added[turn + 1] = static_cast<uint32_t>(3 * next);
  }
  longer.insert(longer.end(), words.begin() + static_cast<std::ptrdiff_t>(copied), words.end());
  words.swap(longer);
  for (PlanBlock& block : placements) {
    if (block.death != kNeverDies) block.death += added[TurnsBefore(turns, block.death)];
    block.birth += added[TurnsBefore(turns, block.birth)];
  }
}

}  // namespace reprise::replay
