#include "replay/plan/repeats.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace reprise::replay {
namespace {

constexpr size_t kWindows[] = {4, 32, 256, 2048};  // symbols
constexpr size_t kPeriodsPerWindow = 8;
constexpr size_t kShortestStretch = 4;  // windows in a row at one distance that count as votes

// Hashes of windows, from the hashes of all prefixes.
class WindowHashes {
 public:
  WindowHashes(const std::vector<uint64_t>& prefixes, size_t window)
      : prefixes_(prefixes), window_(window) {
    for (size_t i = 0; i < window; ++i) power_ *= kBase;
  }
  uint64_t At(size_t begin) const {
    const uint64_t hash = prefixes_[begin + window_] - prefixes_[begin] * power_;
    return (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9;
  }

  static std::vector<uint64_t> Prefixes(std::span<const uint64_t> symbols) {
    std::vector<uint64_t> prefixes(symbols.size() + 1);
    for (size_t i = 0; i < symbols.size(); ++i) prefixes[i + 1] = prefixes[i] * kBase + symbols[i];
    return prefixes;
  }

 private:
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15;
  const std::vector<uint64_t>& prefixes_;
  size_t window_;
  uint64_t power_ = 1;
};

// Adds the periods that most windows of one length vote for. `latest` is room for a table.
void AddPeriods(const std::vector<uint64_t>& prefixes, size_t window, std::vector<uint32_t>& latest,
                absl::flat_hash_set<size_t>& periods) {
  const size_t count = prefixes.size() - 1;
  if (count < 2 * window) return;
  const WindowHashes hashes(prefixes, window);
  // A period is at most half of the sequence: the table is at most half full when one comes again.
  const int bits = std::bit_width(count);
  latest.assign(size_t{1} << bits, 0);  // 1 + where a hash was seen last
  absl::flat_hash_map<size_t, uint64_t> votes;
  size_t distance = 0, stretch = 0;
  const auto count_stretch = [&] {
    if (distance != 0 && stretch >= kShortestStretch) votes[distance] += stretch;
  };
  for (size_t i = 0; i + window <= count; ++i) {
    uint32_t& seen = latest[hashes.At(i) >> (64 - bits)];
    const size_t here = seen == 0 ? 0 : i + 1 - seen;
    seen = static_cast<uint32_t>(i + 1);
    if (here == distance) {
      ++stretch;
      continue;
    }
    count_stretch();
    distance = here;
    stretch = 1;
  }
  count_stretch();
  std::vector<std::pair<uint64_t, size_t>> most;
  most.reserve(votes.size());
  for (const auto& [period, times] : votes) most.emplace_back(times, period);
  const size_t kept = std::min(most.size(), kPeriodsPerWindow);
  std::partial_sort(most.begin(), most.begin() + static_cast<std::ptrdiff_t>(kept), most.end(),
                    [](const auto& a, const auto& b) {
                      return a.first != b.first ? a.first > b.first : a.second < b.second;
                    });
  for (size_t i = 0; i < kept; ++i) periods.insert(most[i].second);
}

// Adds every repeat of one period.
void AddRepeats(std::span<const uint64_t> symbols, size_t period, size_t least,
                std::vector<Repeat>& repeats) {
  const size_t last = symbols.size() - period;
  for (size_t i = 0; i < last;) {
    if (symbols[i] != symbols[i + period]) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < last && symbols[i] == symbols[i + period]) ++i;
    if (i - begin >= period && i + period - begin >= least) {
      repeats.push_back({begin, i + period, period});
    }
  }
}

void SortRepeats(std::vector<Repeat>& repeats) {
  std::sort(repeats.begin(), repeats.end(), [](const Repeat& a, const Repeat& b) {
    const size_t longer = a.end - a.begin, other = b.end - b.begin;
    if (longer != other) return longer > other;
    return a.period != b.period ? a.period < b.period : a.begin < b.begin;
  });
}

// The distances of neighbours, and of those with a few between them, that are there most often; of
// those that are there as often the latest, as a program settles after its beginning.
std::vector<size_t> PeriodsOf(std::span<const uint32_t> starts) {
  constexpr size_t kMostApart = 8, kMostPeriods = 32;
  struct Votes {
    uint64_t times = 0;
    size_t latest = 0;
  };
  absl::flat_hash_map<size_t, Votes> votes;
  for (size_t i = 0; i < starts.size(); ++i) {
    for (size_t apart = 1; apart <= std::min(kMostApart, i); ++apart) {
      Votes& it = votes[starts[i] - starts[i - apart]];
      ++it.times;
      it.latest = i;
    }
  }
  votes.erase(0);
  std::vector<size_t> periods;
  periods.reserve(votes.size());
  for (const auto& [period, it] : votes) periods.push_back(period);
  std::sort(periods.begin(), periods.end(), [&](size_t a, size_t b) {
    const Votes &first = votes[a], &second = votes[b];
    if (first.times != second.times) return first.times > second.times;
    return first.latest != second.latest ? first.latest > second.latest : a < b;
  });
  if (periods.size() > kMostPeriods) periods.resize(kMostPeriods);
  return periods;
}

}  // namespace

std::vector<Repeat> FindRepeats(std::span<const uint64_t> symbols, size_t least) {
  std::vector<Repeat> repeats;
  if (symbols.size() < 2 || symbols.size() >= UINT32_MAX) return repeats;
  absl::flat_hash_set<size_t> periods;
  {
    const std::vector<uint64_t> prefixes = WindowHashes::Prefixes(symbols);
    std::vector<uint32_t> latest;
    for (const size_t window : kWindows) AddPeriods(prefixes, window, latest, periods);
  }
  for (const size_t period : periods) {
    if (period <= symbols.size() / 2) AddRepeats(symbols, period, least, repeats);
  }
  SortRepeats(repeats);
  return repeats;
}

std::vector<Repeat> FindRepeatsFrom(std::span<const uint64_t> symbols,
                                    std::span<const uint32_t> starts) {
  std::vector<Repeat> repeats;
  for (const size_t period : PeriodsOf(starts)) {
    if (period <= symbols.size() / 2) AddRepeats(symbols, period, 2 * period, repeats);
  }
  for (Repeat& repeat : repeats) {
    const auto first = std::lower_bound(starts.begin(), starts.end(), repeat.begin);
    repeat.begin = first == starts.end() ? repeat.end : *first;
  }
  std::erase_if(repeats, [](const Repeat& it) {
    return it.begin >= it.end || it.end - it.begin < 2 * it.period;
  });
  SortRepeats(repeats);
  return repeats;
}

}  // namespace reprise::replay
