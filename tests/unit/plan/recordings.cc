#include "tests/unit/plan/recordings.h"

#include <algorithm>
#include <bit>
#include <set>
#include <tuple>
#include <vector>

namespace reprise::replay {

trace::Recording RandomRecording(const RecordingShape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto chance = [&random](double share) {
    return std::uniform_real_distribution<double>(0, 1)(random) < share;
  };
  // Of a number that is drawn.
  const auto size_of = [&shape](uint64_t number) {
    if (!shape.magnitudes) return number % shape.most_bytes;
    return number % std::max<uint64_t>(
                        1, shape.most_bytes >> (number >> 40) % std::bit_width(shape.most_bytes));
  };
  trace::Recording recording;
  recording.process.place = seed | 1;
  recording.process.executable = "/made/up";
  recording.process.build_id = "0123456789abcdef";
  recording.modules.push_back({"/made/up", "0123456789abcdef", kModuleBase});
  for (uint32_t i = 0; i < shape.sites; ++i) {
    recording.sites.push_back({0, 16 * (i + uint64_t{1}), i % 7 + 1});
  }
  for (uint32_t i = 0; i < shape.threads; ++i) {
    recording.threads.push_back({i + uint64_t{1}, i == 0 ? trace::kNone : 0, {}, 0, 0});
  }
  std::vector<uint32_t> live;
  uint64_t event = 0;
  uint64_t phase = 0;
  while (recording.allocations.size() < shape.allocations) {
    const uint64_t now = recording.allocations.size() * shape.phases / shape.allocations;
    if (now != phase) {
      for (const uint32_t index : live) {
        trace::Allocation& allocation = recording.allocations[index];
        if (chance(shape.never_freed)) continue;
        allocation.death = event++;
        allocation.free_thread = allocation.thread;
      }
      live.clear();
      phase = now;
    }
    const bool free_one = !live.empty() && chance(live.size() < 100 ? 0.45 : 0.55);
    if (free_one) {
      // Mostly the youngest.
      const size_t back =
          std::min<size_t>(live.size() - 1, std::geometric_distribution<>(0.3)(random));
      const size_t index = live.size() - 1 - back;
      trace::Allocation& allocation = recording.allocations[live[index]];
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
      if (chance(shape.never_freed)) continue;
      allocation.death = event++;
      allocation.free_thread = allocation.thread;
      if (shape.reallocs > 0 && chance(shape.reallocs)) {
        trace::Allocation longer{.birth = event++,
                                 .kind = trace::AllocationKind::kRealloc,
                                 .size = allocation.size + random() % (allocation.size + 100),
                                 .site = allocation.site,
                                 .thread = allocation.thread};
        longer.previous = static_cast<uint32_t>(&allocation - recording.allocations.data());
        live.push_back(static_cast<uint32_t>(recording.allocations.size()));
        recording.allocations.push_back(longer);
        continue;
      }
      if (chance(shape.remote_frees)) allocation.free_thread = random() % shape.threads;
      continue;
    }
    trace::Allocation allocation;
    allocation.birth = event++;
    const uint64_t in_phase = (shape.threads - phase + shape.phases - 1) / shape.phases;
    allocation.thread = static_cast<uint32_t>(phase + random() % in_phase * shape.phases);
    allocation.site = static_cast<uint32_t>(random() % shape.sites);
    // A site mostly asks for one size.
    const uint64_t own = shape.magnitudes ? (allocation.site + 1) * 0x9e3779b97f4a7c15
                                          : allocation.site * uint64_t{37} + 5;
    allocation.size = size_of(chance(shape.own_size) ? own : random());
    if (chance(shape.aligned)) {
      allocation.kind = trace::AllocationKind::kAligned;
      allocation.log2_alignment =
          static_cast<uint8_t>(6 + random() % (shape.most_log2_alignment - 5));
    }
    if (chance(shape.usable_asked)) {
      // As glibc answers.
      recording.usable_answers.emplace_back(
          static_cast<uint32_t>(recording.allocations.size()),
          std::max<uint64_t>(24, ((allocation.size + 23) & ~uint64_t{15}) - 8));
    }
    live.push_back(static_cast<uint32_t>(recording.allocations.size()));
    recording.allocations.push_back(allocation);
  }
  recording.events = event;
  return recording;
}

namespace {

// What one thread does: allocations that are born and die at these times.
struct Plot {
  uint64_t birth;
  uint64_t death;  // kNever
  uint64_t size;
  uint32_t site;
  uint32_t free_thread;
};

constexpr uint64_t kPeriod = 1 << 20;

std::vector<Plot> PlotOf(const LoopShape& shape, uint32_t thread, std::mt19937_64& random) {
  const auto chance = [&random](double share) {
    return std::uniform_real_distribution<double>(0, 1)(random) < share;
  };
  std::vector<Plot> plot;
  const auto any = [&](uint64_t birth, uint64_t death) {
    plot.push_back(
        {birth, death, 1 + random() % 500, static_cast<uint32_t>(random() % shape.sites), thread});
  };
  const uint64_t begin = kPeriod, end = begin + shape.iterations * kPeriod;
  for (uint32_t k = 0; k < shape.prefix; ++k) {
    const uint64_t birth = random() % kPeriod;
    any(birth, chance(0.3) ? end + random() % kPeriod : birth + 1 + random() % (begin - birth));
    any(end + random() % kPeriod, chance(0.3) ? trace::kNever : end + kPeriod + random() % kPeriod);
  }
  for (uint32_t k = 0; k < shape.body; ++k) {
    const uint64_t at = random() % kPeriod;
    const bool carried = chance(shape.carried);
    const uint64_t life = carried
                              ? kPeriod - at + random() % (kPeriod * shape.longest - kPeriod + at)
                              : 1 + random() % (kPeriod - at);
    any(begin + at, begin + at + life);
    const Plot first = plot.back();
    const bool remote = !carried && chance(shape.remote_frees);
    if (remote) plot.back().free_thread = (thread + 1) % shape.threads;
    for (uint32_t pass = 1; pass < shape.iterations; ++pass) {
      Plot again = plot.back();
      again.birth = first.birth + pass * kPeriod;
      again.death = first.death + pass * kPeriod;
      plot.push_back(again);
    }
  }
  return plot;
}

}  // namespace

trace::Recording LoopRecording(const LoopShape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  trace::Recording recording;
  recording.process.place = seed | 1;
  recording.process.executable = "/made/up";
  recording.modules.push_back({"/made/up", "", kModuleBase});
  for (uint32_t i = 0; i < shape.sites; ++i) {
    recording.sites.push_back({0, 16 * (i + uint64_t{1}), i % 7 + 1});
  }
  // Time, death before birth, thread, index in the thread's plot.
  std::vector<std::tuple<uint64_t, bool, uint32_t, uint32_t>> events;
  std::vector<std::vector<Plot>> plots;
  for (uint32_t i = 0; i < shape.threads; ++i) {
    recording.threads.push_back({i + uint64_t{1}, i == 0 ? trace::kNone : 0, {}, 0, 0});
    plots.push_back(PlotOf(shape, i, random));
    for (uint32_t k = 0; k < plots[i].size(); ++k) {
      events.emplace_back(plots[i][k].birth, true, i, k);
      if (plots[i][k].death != trace::kNever) events.emplace_back(plots[i][k].death, false, i, k);
    }
  }
  std::sort(events.begin(), events.end());
  std::vector<std::vector<uint32_t>> index(shape.threads);
  for (uint32_t i = 0; i < shape.threads; ++i) index[i].resize(plots[i].size());
  uint32_t iteration = 0;
  for (const auto& [time, birth, thread, k] : events) {
    for (; iteration < shape.iterations && time >= (iteration + 1) * kPeriod; ++iteration) {
      for (uint32_t i = 0; i < shape.threads; ++i) recording.marks.push_back({recording.events, i});
    }
    const Plot& it = plots[thread][k];
    if (!birth) {
      trace::Allocation& dying = recording.allocations[index[thread][k]];
      dying.death = recording.events++;
      dying.free_thread = it.free_thread;
      continue;
    }
    index[thread][k] = static_cast<uint32_t>(recording.allocations.size());
    trace::Allocation born;
    born.birth = recording.events++;
    born.size = it.size;
    born.site = it.site;
    born.thread = thread;
    recording.allocations.push_back(born);
  }
  return recording;
}

void ShuffleFrees(trace::Recording& recording, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<uint64_t> marked;
  for (const trace::Mark& mark : recording.marks) marked.insert(mark.event);
  std::vector<uint32_t> dies_at(recording.events, trace::kNone);
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const uint64_t death = recording.allocations[i].death;
    if (death != trace::kNever) dies_at[death] = i;
  }
  for (size_t first = 0, end; first < dies_at.size(); first = end) {
    end = first + 1;
    if (dies_at[first] == trace::kNone) continue;
    while (end < dies_at.size() && dies_at[end] != trace::kNone && !marked.contains(end)) ++end;
    std::shuffle(dies_at.begin() + first, dies_at.begin() + end, random);
    for (size_t event = first; event < end; ++event) {
      recording.allocations[dies_at[event]].death = event;
    }
  }
}

trace::Recording RecordingOf(const std::vector<Made>& blocks) {
  trace::Recording recording;
  recording.modules.push_back({"/made/up", "", kModuleBase});
  recording.threads = {{1, trace::kNone, {}, 0, 0}};
  for (const Made& made : blocks) {
    trace::Allocation allocation{.birth = made.birth, .death = made.death, .size = made.size};
    allocation.log2_alignment = made.log2_alignment;
    allocation.site = static_cast<uint32_t>(recording.sites.size());
    allocation.free_thread = 0;
    recording.sites.push_back({0, 16 * (allocation.site + uint64_t{1}), 1});
    recording.allocations.push_back(allocation);
    recording.events += 2;
  }
  return recording;
}

}  // namespace reprise::replay
