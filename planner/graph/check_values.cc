#include "planner/graph/check_values.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace reprise::planner::graph {
namespace {

constexpr Sharing::Kind kNew = Sharing::kNew;
constexpr Sharing::Kind kWindow = Sharing::kWindow;
constexpr Sharing::Kind kOverwrite = Sharing::kOverwrite;

// Aliases as a forest, walked depth first: all that a tensor leads to have times within its own.
struct Forest {
  std::vector<std::vector<uint32_t>> aliases;
  std::vector<uint32_t> walk;  // a tensor before its aliases
  std::vector<size_t> enter, leave;

  explicit Forest(const Graph& graph)
      : aliases(graph.tensors.size()), enter(graph.tensors.size()), leave(graph.tensors.size()) {
    for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
      if (graph.tensors[t].alias_of != kNone) aliases[graph.tensors[t].alias_of].push_back(t);
    }
    size_t time = 0;
    std::vector<std::pair<uint32_t, size_t>> path;  // tensors, and how many aliases are done
    for (uint32_t root = 0; root < graph.tensors.size(); ++root) {
      if (graph.tensors[root].alias_of != kNone) continue;
      path.emplace_back(root, 0);
      while (!path.empty()) {
        auto& [t, done] = path.back();
        if (done == 0) {
          enter[t] = time++;
          walk.push_back(t);
        }
        if (done < aliases[t].size()) {
          const uint32_t next = aliases[t][done++];
          path.emplace_back(next, 0);
        } else {
          leave[t] = time++;
          path.pop_back();
        }
      }
    }
  }

  bool Leads(uint32_t from, uint32_t to) const {
    return enter[from] <= enter[to] && leave[to] <= leave[from];
  }
};

// Aliases that whoever makes their target reads, or reads an alias of.
std::vector<bool> Ingredients(const Graph& graph, const Forest& forest) {
  std::vector<std::vector<uint32_t>> makes(graph.nodes.size());
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const uint32_t producer = graph.tensors[t].producer;
    if (producer != kNone && !forest.aliases[t].empty()) makes[producer].push_back(t);
  }
  std::vector<bool> ingredient(graph.tensors.size(), false);
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].alias_of == kNone) continue;
    for (const uint32_t node : graph.tensors[t].consumers) {
      for (const uint32_t made : makes[node]) {
        if (made == t || !forest.Leads(made, t)) continue;
        const auto& below = forest.aliases[made];
        const auto behind = std::upper_bound(
            below.begin(), below.end(), forest.enter[t],
            [&](size_t time, uint32_t alias) { return time < forest.enter[alias]; });
        ingredient[*std::prev(behind)] = true;
      }
    }
  }
  return ingredient;
}

class ValueChecker {
 public:
  ValueChecker(const Graph& graph, const Sharing& sharing, const Timeline& timeline,
               const ValueReport& report)
      : graph_(graph), sharing_(sharing), timeline_(timeline), report_(report) {}

  void Run() {
    std::unordered_map<uint32_t, std::vector<uint32_t>> shared;  // by base: what was written there
    for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
      const uint32_t target = graph_.tensors[t].alias_of;
      if (target == kNone) continue;
      shared[sharing_.base[t]];
      if (sharing_.kind[t] == kWindow) windows_[sharing_.origin[t]].push_back(t);
      const bool either =
          sharing_.kind[t] == kOverwrite && graph_.tensors[t].alias == Alias::kNotStated;
      if (either) also_[target].push_back(graph_.tensors[t].producer);
      if (sharing_.kind[t] == kOverwrite && sharing_.since[target] != kNone) {
        CheckUser(target, sharing_.since[target], t);
      }
    }
    std::vector<uint32_t> bases;
    for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
      const auto found = shared.find(sharing_.base[t]);
      if (found == shared.end()) continue;
      if (sharing_.base[t] == t) bases.push_back(t);
      if (sharing_.kind[t] != kWindow) found->second.push_back(t);
    }
    for (const uint32_t base : bases) {
      CheckMemory(base, shared[base]);
      if (full_) return;
    }
  }

 private:
  // Bytes up to where the next ones begin.
  struct Bytes {
    std::vector<uint32_t> values;  // tensors whose value is there
    uint32_t writer = kNone;       // the tensor that was written last
  };
  using Memory = std::map<int64_t, Bytes>;

  // Runs the writes of one memory in their order.
  void CheckMemory(uint32_t base, std::vector<uint32_t>& written) {
    const auto step = [&](uint32_t t) {
      const uint32_t producer = graph_.tensors[t].producer;
      return producer == kNone ? -1 : timeline_.step(producer);
    };
    // What a node writes into its own result comes behind that.
    std::stable_sort(written.begin(), written.end(), [&](uint32_t a, uint32_t b) {
      return step(a) != step(b) ? step(a) < step(b) : sharing_.rank[a] < sharing_.rank[b];
    });
    int64_t end = sharing_.bytes[base];
    for (const uint32_t t : written) end = std::max(end, sharing_.start[t] + sharing_.bytes[t]);
    Memory memory;
    memory[0] = {};
    memory[end] = {};
    for (const uint32_t t : written) {
      ForBytes(memory, t, [&](Bytes& bytes) {
        if (!Spares(t, bytes.values)) {
          CheckWriters(bytes.writer, t);
          for (const uint32_t value : bytes.values) CheckOverwritten(value, t);
          bytes.values.clear();
          bytes.writer = t;
        }
        bytes.values.push_back(t);
      });
      const auto windows = windows_.find(t);
      if (windows == windows_.end()) continue;
      for (const uint32_t window : windows->second) {
        ForBytes(memory, window, [&](Bytes& bytes) { bytes.values.push_back(window); });
      }
    }
  }

  template <typename Action>
  void ForBytes(Memory& memory, uint32_t t, Action action) {
    if (sharing_.bytes[t] == 0) return;
    const auto cut = [&](int64_t at) {
      const auto behind = memory.upper_bound(at);
      const auto piece = std::prev(behind);
      return piece->first == at ? piece : memory.emplace_hint(behind, at, piece->second);
    };
    auto piece = cut(sharing_.start[t]);
    const auto last = cut(sharing_.start[t] + sharing_.bytes[t]);
    for (; piece != last && !full_; ++piece) action(piece->second);
  }

  // Who makes a tensor of others that lie in it does not write what it reads there.
  bool Spares(uint32_t t, const std::vector<uint32_t>& values) {
    const uint32_t producer = graph_.tensors[t].producer;
    if (sharing_.kind[t] != kNew || producer == kNone) return false;
    for (const uint32_t value : values) {
      const Tensor& tensor = graph_.tensors[value];
      // What lies in a later overwrite is not yet there.
      if (!sharing_.Leads(value, t) || sharing_.overwrite[value] != sharing_.overwrite[t]) continue;
      if (tensor.alias != Alias::kNotStated && tensor.producer != producer &&
          Reads(producer, value)) {
        return true;
      }
    }
    return false;
  }

  bool Reads(uint32_t node, uint32_t t) {
    std::vector<uint32_t>& readers = readers_[t];
    if (readers.empty()) {
      readers = graph_.tensors[t].consumers;
      std::sort(readers.begin(), readers.end());
    }
    return std::binary_search(readers.begin(), readers.end(), node);
  }

  // One node may write bytes twice only into what it has made itself.
  void CheckWriters(uint32_t before, uint32_t by) {
    const uint32_t producer = graph_.tensors[by].producer;
    if (before == kNone || producer == kNone || graph_.tensors[before].producer != producer ||
        sharing_.Leads(by, before)) {
      return;
    }
    Report(before, by,
           absl::StrCat("tensors ", Quoted(graph_.tensors[before].id), " and ",
                        Quoted(graph_.tensors[by].id), ": node ", Quoted(graph_.nodes[producer].id),
                        " writes the same bytes as both"));
  }

  void CheckOverwritten(uint32_t value, uint32_t by) {
    if (!pairs_.emplace(value, by).second) return;
    const Tensor& tensor = graph_.tensors[value];
    const Tensor& writer = graph_.tensors[by];
    if (writer.producer == kNone) {
      return Report(value, by,
                    absl::StrCat("tensors ", Quoted(tensor.id), " and ", Quoted(writer.id),
                                 " are there from the start, on the same bytes"));
    }
    if (tensor.persistent || tensor.output) {
      return Report(value, by,
                    absl::StrCat("tensor ", Quoted(tensor.id), " is needed at the end, but node ",
                                 Quoted(graph_.nodes[writer.producer].id),
                                 " overwrites it with tensor ", Quoted(writer.id)));
    }
    if (tensor.producer != kNone) CheckUser(value, tensor.producer, by);
    for (const uint32_t reader : tensor.consumers) CheckUser(value, reader, by);
    const auto also = also_.find(value);
    if (also == also_.end()) return;
    for (const uint32_t reader : also->second) CheckUser(value, reader, by);
  }

  // Whether a user of a value has ended when that is overwritten.
  void CheckUser(uint32_t value, uint32_t user, uint32_t by) {
    const uint32_t writer = graph_.tensors[by].producer;
    if (full_ || user == writer || timeline_.Precedes(user, writer)) return;
    Report(value, by,
           absl::StrCat("tensor ", Quoted(graph_.tensors[value].id), ": node ",
                        Quoted(graph_.nodes[writer].id), " may overwrite it with tensor ",
                        Quoted(graph_.tensors[by].id), " before node ",
                        Quoted(graph_.nodes[user].id), " has used it"));
  }

  void Report(uint32_t first, uint32_t second, const std::string& message) {
    if (!full_) full_ = !report_(first, second, message);
  }

  const Graph& graph_;
  const Sharing& sharing_;
  const Timeline& timeline_;
  const ValueReport& report_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> windows_;  // by origin
  std::unordered_map<uint32_t, std::vector<uint32_t>> also_;     // by tensor: further users
  std::unordered_map<uint32_t, std::vector<uint32_t>> readers_;  // by tensor, sorted
  std::set<std::pair<uint32_t, uint32_t>> pairs_;                // that were checked
  bool full_ = false;
};

}  // namespace

Sharing::Sharing(const Graph& graph)
    : base(graph.tensors.size()),
      start(graph.tensors.size(), 0),
      bytes(graph.tensors.size()),
      kind(graph.tensors.size(), kNew),
      origin(graph.tensors.size()),
      since(graph.tensors.size()),
      overwrite(graph.tensors.size(), kNone),
      rank(graph.tensors.size()),
      last(graph.tensors.size()) {
  const Forest forest(graph);
  const std::vector<bool> ingredient = Ingredients(graph, forest);
  for (const uint32_t t : forest.walk) {
    const Tensor& tensor = graph.tensors[t];
    const uint32_t target = tensor.alias_of;
    base[t] = origin[t] = t;
    rank[t] = forest.enter[t];
    last[t] = forest.leave[t];
    bytes[t] = tensor.bytes;
    since[t] = tensor.producer;
    if (target == kNone) continue;
    base[t] = base[target];
    start[t] = start[target] + tensor.alias_offset;
    if (tensor.bytes == 0) bytes[t] = std::max<int64_t>(0, bytes[target] - tensor.alias_offset);
    if (tensor.alias == Alias::kWrite) {
      kind[t] = kOverwrite;
    } else if (ingredient[t] && tensor.producer != since[target]) {
      kind[t] = kNew;
    } else if (tensor.alias == Alias::kView || tensor.producer == kNone) {
      kind[t] = kWindow;
      origin[t] = origin[target];
      if (tensor.producer == kNone) since[t] = since[target];
    } else {
      kind[t] = kOverwrite;
    }
    overwrite[t] = kind[t] == kOverwrite ? t : overwrite[target];
  }
}

std::vector<std::pair<uint32_t, uint32_t>> DataDependencies(const Graph& graph,
                                                            const Sharing& sharing) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  const auto add = [&](uint32_t maker, uint32_t reader) {
    if (maker != kNone && reader != kNone && maker != reader) pairs.emplace_back(maker, reader);
  };
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    for (const uint32_t reader : tensor.consumers) add(sharing.since[t], reader);
    if (sharing.kind[t] == Sharing::kWindow) add(sharing.since[tensor.alias_of], tensor.producer);
  }
  return pairs;
}

Timeline::Timeline(const Graph& graph, const std::vector<uint32_t>& order,
                   const std::vector<std::pair<uint32_t, uint32_t>>& dependencies)
    : streams_(graph.streams.size()), step_(graph.nodes.size()) {
  for (size_t i = 0; i < order.size(); ++i) step_[order[i]] = static_cast<int64_t>(i);
  if (streams_ <= 1) return;
  place_.resize(graph.nodes.size());
  std::vector<uint32_t> length(streams_, 0), last(streams_, kNone);
  for (const Node& node : graph.nodes) stream_.push_back(node.stream);
  for (const uint32_t node : order) place_[node] = ++length[stream_[node]];
  clock_.assign(graph.nodes.size() * streams_, 0);
  std::vector<std::vector<uint32_t>> makers(graph.nodes.size());
  for (const auto& [maker, reader] : dependencies) makers[reader].push_back(maker);
  for (const uint32_t node : order) {
    uint32_t& previous = last[stream_[node]];
    if (previous != kNone) makers[node].push_back(previous);
    previous = node;
    uint32_t* const mine = &clock_[size_t{node} * streams_];
    for (const uint32_t maker : makers[node]) {
      const uint32_t* const theirs = &clock_[size_t{maker} * streams_];
      for (size_t s = 0; s < streams_; ++s) mine[s] = std::max(mine[s], theirs[s]);
      mine[stream_[maker]] = std::max(mine[stream_[maker]], place_[maker]);
    }
    std::vector<uint32_t>().swap(makers[node]);
  }
}

void CheckValues(const Graph& graph, const Sharing& sharing, const Timeline& timeline,
                 const ValueReport& report) {
  ValueChecker(graph, sharing, timeline, report).Run();
}

}  // namespace reprise::planner::graph
