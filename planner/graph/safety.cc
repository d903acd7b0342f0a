#include "planner/graph/safety.h"

#include <algorithm>
#include <array>
#include <bit>

namespace reprise::planner::graph {
namespace {

// Every node's place in its own stream, from 1, and the last node of every stream before it in
// `sequence`: what the streams add to the graph's edges.
struct StreamOrder {
  std::vector<uint32_t> place;
  std::vector<uint32_t> previous;  // kNone: the first of its stream
  std::vector<uint32_t> length;    // per stream
};

StreamOrder OrderStreams(const PreparedGraph& flow) {
  StreamOrder order;
  order.place.resize(flow.nodes);
  order.previous.resize(flow.nodes);
  order.length.assign(flow.streams, 0);
  std::vector<uint32_t> last(flow.streams, kNone);
  for (const uint32_t node : flow.sequence) {
    const uint32_t stream = flow.stream[node];
    order.place[node] = ++order.length[stream];
    order.previous[node] = last[stream];
    last[stream] = node;
  }
  return order;
}

// A storage's last consumer in each stream that has one (MaxNodes, EndTime).
void LastInStreams(const PreparedGraph& flow, const StreamOrder& order, uint32_t storage,
                   std::vector<uint32_t>& last) {
  last.clear();
  for (const uint32_t node : flow.ends[storage]) {
    const auto same = std::find_if(last.begin(), last.end(), [&](uint32_t other) {
      return flow.stream[other] == flow.stream[node];
    });
    if (same == last.end()) {
      last.push_back(node);
    } else if (order.place[*same] < order.place[node]) {
      *same = node;
    }
  }
}

// In place: 64 x 64 bits, row r's bit c becomes row c's bit r.
void Transpose(std::array<uint64_t, 64>& rows) {
  uint64_t mask = 0x00000000ffffffff;
  for (int width = 32; width > 0; width /= 2, mask ^= mask << width) {
    for (int r = 0; r < 64; r = ((r | width) + 1) & ~width) {
      const uint64_t swapped = ((rows[r] >> width) ^ rows[r | width]) & mask;
      rows[r] ^= swapped << width;
      rows[r | width] ^= swapped;
    }
  }
}

// From the relation "a precedes b" to "neither precedes the other", in place, block by block.
void ToUnsafe(const PreparedGraph& flow, PairSet& precedes) {
  const uint32_t n = precedes.size();
  std::vector<uint64_t> occupied(precedes.words(), 0);
  for (uint32_t s = 0; s < n; ++s) {
    if (flow.storages[s].bytes > 0) occupied[s / 64] |= uint64_t{1} << (s % 64);
  }
  std::array<uint64_t, 64> upper, lower;
  const auto load = [&](uint32_t row, uint32_t column, std::array<uint64_t, 64>& block) {
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t r = row * 64 + i;
      block[i] = r < n ? precedes.Row(r)[column] : 0;
    }
  };
  const auto store = [&](uint32_t row, uint32_t column, const std::array<uint64_t, 64>& block) {
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t r = row * 64 + i;
      if (r >= n) break;
      uint64_t unsafe = ~block[i] & occupied[column];
      if (row == column) unsafe &= ~(uint64_t{1} << i);
      precedes.Row(r)[column] = (occupied[row] >> i) & 1 ? unsafe : 0;
    }
  };
  for (uint32_t row = 0; row < precedes.words(); ++row) {
    for (uint32_t column = row; column < precedes.words(); ++column) {
      load(row, column, upper);
      load(column, row, lower);
      Transpose(lower);
      for (int i = 0; i < 64; ++i) upper[i] |= lower[i];
      store(row, column, upper);
      Transpose(upper);
      store(column, row, upper);
    }
  }
}

void And(std::span<uint64_t> row, std::span<const uint64_t> other) {
  for (size_t w = 0; w < row.size(); ++w) row[w] &= other[w];
}

void Or(std::span<uint64_t> row, std::span<const uint64_t> other) {
  for (size_t w = 0; w < row.size(); ++w) row[w] |= other[w];
}

void Set(std::span<uint64_t> row, uint32_t bit) { row[bit / 64] |= uint64_t{1} << (bit % 64); }
void Clear(std::span<uint64_t> row, uint32_t bit) { row[bit / 64] &= ~(uint64_t{1} << (bit % 64)); }
bool Test(std::span<const uint64_t> row, uint32_t bit) { return (row[bit / 64] >> (bit % 64)) & 1; }

// The storages that can have a predecessor: of one that is never used, all of them are successors.
std::vector<uint64_t> Starting(const PreparedGraph& flow) {
  std::vector<uint64_t> starting((flow.storages.size() + 63) / 64, 0);
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    if (!flow.starts[s].empty() && !flow.storages[s].persistent) Set(starting, s);
  }
  return starting;
}

}  // namespace

int64_t PairSet::Pairs() const {
  int64_t bits = 0;
  for (const uint64_t word : bits_) bits += std::popcount(word);
  return bits / 2;
}

PairSet UnsafePairsByAncestors(const PreparedGraph& flow) {
  const StreamOrder order = OrderStreams(flow);
  const uint32_t n = static_cast<uint32_t>(flow.storages.size());
  // A column per storage for its first start, and columns behind them for further ones.
  std::vector<std::pair<uint32_t, uint32_t>> further;  // storage, column
  std::vector<std::vector<uint32_t>> columns(flow.nodes);
  uint32_t width = n;
  for (uint32_t s = 0; s < n; ++s) {
    const auto starts = flow.starts[s];
    for (size_t i = 0; i < starts.size(); ++i) {
      columns[starts[i]].push_back(i == 0 ? s : width);
      if (i > 0) further.emplace_back(s, width++);
    }
  }
  // Row of a node: the starts at its strict descendants. From the last node to the first.
  const size_t words = (width + 63) / 64;
  std::vector<uint64_t> bits(words * flow.nodes, 0);
  const auto row = [&](uint32_t node) {
    return std::span<uint64_t>(bits.data() + words * node, words);
  };
  for (size_t i = flow.sequence.size(); i-- > 0;) {
    const uint32_t node = flow.sequence[i];
    const auto pass = [&](uint32_t to) {
      Or(row(to), row(node));
      for (const uint32_t column : columns[node]) Set(row(to), column);
    };
    for (const uint32_t to : flow.predecessors[node]) pass(to);
    if (order.previous[node] != kNone) pass(order.previous[node]);
  }
  for (uint32_t node = 0; node < flow.nodes; ++node) {
    for (const auto& [storage, column] : further) {
      if (!Test(row(node), column)) Clear(row(node), storage);
    }
  }

  PairSet precedes(n);
  const std::vector<uint64_t> starting = Starting(flow);
  std::vector<uint32_t> last;
  for (uint32_t s = 0; s < n; ++s) {
    if (flow.storages[s].persistent || flow.storages[s].output) continue;  // precedes nothing
    LastInStreams(flow, order, s, last);
    const std::span<uint64_t> result = precedes.Row(s);
    std::copy(starting.begin(), starting.end(), result.begin());
    for (const uint32_t node : last) And(result, row(node).first(result.size()));
  }
  ToUnsafe(flow, precedes);
  return precedes;
}

PairSet UnsafePairsByStreams(const PreparedGraph& flow) {
  const StreamOrder order = OrderStreams(flow);
  const uint32_t n = static_cast<uint32_t>(flow.storages.size());
  const uint32_t streams = flow.streams;
  // MaxAncId: per node and stream a place in the stream, 0 for none.
  std::vector<uint32_t> reached(size_t{flow.nodes} * streams, 0);
  for (const uint32_t node : flow.sequence) {
    uint32_t* const mine = reached.data() + size_t{node} * streams;
    const auto take = [&](uint32_t from) {
      const uint32_t* const theirs = reached.data() + size_t{from} * streams;
      for (uint32_t s = 0; s < streams; ++s) mine[s] = std::max(mine[s], theirs[s]);
      mine[flow.stream[from]] = std::max(mine[flow.stream[from]], order.place[from]);
    };
    for (const uint32_t from : flow.predecessors[node]) take(from);
    if (order.previous[node] != kNone) take(order.previous[node]);
  }

  // Per stream: the storages that end in it by place, and all storages by what of the stream all
  // their starts wait for. What waits for as much as a storage's end is a successor, as far as this
  // stream goes; a set of them grows while the places are gone through from the last.
  struct End {
    uint32_t stream;
    uint32_t place;
    uint32_t storage;
  };
  std::vector<End> ends;
  std::vector<uint32_t> last;
  PairSet precedes(n);
  const std::vector<uint64_t> starting = Starting(flow);
  for (uint32_t s = 0; s < n; ++s) {
    if (flow.storages[s].persistent || flow.storages[s].output) continue;  // precedes nothing
    std::copy(starting.begin(), starting.end(), precedes.Row(s).begin());
    LastInStreams(flow, order, s, last);
    for (const uint32_t node : last) ends.push_back({flow.stream[node], order.place[node], s});
  }
  std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) {
    return a.stream != b.stream ? a.stream < b.stream : a.place > b.place;
  });
  std::vector<std::vector<uint32_t>> waiting;  // by place in the stream
  std::vector<uint64_t> successors(precedes.words());
  size_t at = 0;
  for (uint32_t stream = 0; stream < streams; ++stream) {
    waiting.assign(order.length[stream] + 1, {});
    for (uint32_t s = 0; s < n; ++s) {
      uint32_t least = order.length[stream];
      for (const uint32_t node : flow.starts[s]) {
        least = std::min(least, reached[size_t{node} * streams + stream]);
      }
      if (least > 0 && !flow.starts[s].empty()) waiting[least].push_back(s);
    }
    std::fill(successors.begin(), successors.end(), 0);
    uint32_t place = order.length[stream] + 1;
    for (; at < ends.size() && ends[at].stream == stream; ++at) {
      while (place > ends[at].place) {
        for (const uint32_t s : waiting[--place]) Set(successors, s);
      }
      And(precedes.Row(ends[at].storage), successors);
    }
  }
  ToUnsafe(flow, precedes);
  return precedes;
}

}  // namespace reprise::planner::graph
