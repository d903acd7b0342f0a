#include "planner/graph/memory_model.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace reprise::planner::graph {
namespace {

Lists Invert(const Lists& lists, uint32_t count) {
  Lists inverse;
  inverse.first.assign(count + 1, 0);
  for (const uint32_t item : lists.items) ++inverse.first[item + 1];
  for (uint32_t i = 0; i < count; ++i) inverse.first[i + 1] += inverse.first[i];
  inverse.items.resize(lists.items.size());
  std::vector<uint32_t> at(inverse.first.begin(), inverse.first.end() - 1);
  for (uint32_t owner = 0; owner < lists.size(); ++owner) {
    for (const uint32_t item : lists[owner]) inverse.items[at[item]++] = owner;
  }
  return inverse;
}

}  // namespace

MemoryModel MakeMemoryModel(const PreparedGraph& flow, bool backwards) {
  return MakeMemoryModel(flow, backwards, flow.successors);
}

MemoryModel MakeMemoryModel(const PreparedGraph& flow, bool backwards, const Lists& successors) {
  MemoryModel model;
  model.nodes = flow.nodes;
  model.backwards = backwards;
  model.successors = successors;
  model.predecessors = Invert(successors, flow.nodes);
  if (backwards) std::swap(model.successors, model.predecessors);
  int64_t at_the_beginning = 0;
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    const Storage& storage = flow.storages[s];
    if (storage.bytes == 0) continue;
    if (storage.persistent) {
      model.initial += storage.bytes;
      at_the_beginning += storage.bytes;
      continue;
    }
    if (flow.starts[s].empty()) at_the_beginning += storage.bytes;
    if (flow.ends[s].empty()) continue;  // never used
    model.bytes.push_back(storage.bytes);
    // What is needed until the end has no end.
    const std::span<const uint32_t> starts = flow.starts[s];
    const std::span<const uint32_t> ends =
        storage.output ? std::span<const uint32_t>() : flow.ends[s];
    model.openers.Add(backwards ? ends : starts);
    model.closers.Add(backwards ? starts : ends);
    if ((backwards ? ends : starts).empty()) model.initial += storage.bytes;
  }
  model.floor = at_the_beginning;
  model.opens = Invert(model.openers, model.nodes);
  model.closes = Invert(model.closers, model.nodes);
  return model;
}

int64_t PeakOf(const MemoryModel& model, std::span<const uint32_t> order) {
  std::vector<uint8_t> open(model.bytes.size(), 0);
  std::vector<uint32_t> left(model.bytes.size());
  for (uint32_t s = 0; s < left.size(); ++s) {
    left[s] = static_cast<uint32_t>(model.closers[s].size());
  }
  int64_t load = model.initial;
  int64_t peak = std::max(load, model.floor);
  for (const uint32_t node : order) {
    for (const uint32_t s : model.opens[node]) {
      if (!open[s]) load += model.bytes[s];
      open[s] = 1;
    }
    peak = std::max(peak, load);
    for (const uint32_t s : model.closes[node]) {
      if (--left[s] == 0) load -= model.bytes[s];
    }
  }
  return peak;
}

// While a node runs, a storage must be open that one of its starts leads to the node (or is it) and
// that the node leads to one of its ends (or is it).
int64_t OrderBound(const PreparedGraph& flow) {
  const uint32_t n = flow.nodes;
  const size_t words = (size_t{n} + 63) / 64;
  std::vector<uint64_t> below(words * n, 0), above(words * n, 0);  // with the node itself
  const auto reach = [&](std::vector<uint64_t>& bits, const Lists& next, uint32_t node) {
    uint64_t* const mine = bits.data() + words * node;
    mine[node / 64] |= uint64_t{1} << (node % 64);
    for (const uint32_t other : next[node]) {
      const uint64_t* const theirs = bits.data() + words * other;
      for (size_t w = 0; w < words; ++w) mine[w] |= theirs[w];
    }
  };
  for (size_t i = n; i-- > 0;) reach(below, flow.successors, flow.sequence[i]);
  for (size_t i = 0; i < n; ++i) reach(above, flow.predecessors, flow.sequence[i]);
  std::vector<int64_t> load(n, 0);
  std::vector<uint64_t> open(words), needed(words);
  int64_t always = 0, at_the_beginning = 0;
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    const int64_t bytes = flow.storages[s].bytes;
    if (bytes == 0) continue;
    if (flow.storages[s].persistent) {
      always += bytes;
      continue;
    }
    if (flow.starts[s].empty()) at_the_beginning += bytes;
    std::fill(open.begin(), open.end(), flow.starts[s].empty() ? ~uint64_t{0} : 0);
    std::fill(needed.begin(), needed.end(), flow.storages[s].output ? ~uint64_t{0} : 0);
    for (const uint32_t node : flow.starts[s]) {
      for (size_t w = 0; w < words; ++w) open[w] |= below[words * node + w];
    }
    for (const uint32_t node : flow.ends[s]) {
      for (size_t w = 0; w < words; ++w) needed[w] |= above[words * node + w];
    }
    for (size_t w = 0; w < words; ++w) {
      for (uint64_t bits = open[w] & needed[w]; bits != 0; bits &= bits - 1) {
        const size_t node = w * 64 + static_cast<size_t>(std::countr_zero(bits));
        if (node < n) load[node] += bytes;
      }
    }
  }
  int64_t bound = at_the_beginning;
  for (const int64_t bytes : load) bound = std::max(bound, bytes);
  return bound + always;
}

}  // namespace reprise::planner::graph
