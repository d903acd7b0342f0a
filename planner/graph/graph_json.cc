#include "planner/graph/graph_json.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_fields.h"
#include "base/text.h"
#include "planner/graph/json_document.h"

namespace reprise::planner::graph {
namespace {

using nlohmann::json;

constexpr std::string_view kGraphFields[] = {"nodes", "tensors", "groups", "order", "loop"};
constexpr std::string_view kLoopFields[] = {"body", "carried"};
constexpr std::string_view kNodeFields[] = {"id", "stream", "order"};
constexpr std::string_view kTensorFields[] = {"id",        "producer", "consumers", "bytes",
                                              "alignment", "offset",   "alias_of",  "alias_offset",
                                              "in_place",  "output",   "persistent"};
constexpr std::string_view kPlanFields[] = {
    "makespan", "max_load", "lower_bound", "unsafe_pairs", "order_changed", "order", "tensors"};
constexpr std::string_view kPlaceFields[] = {"id", "offset"};
constexpr std::string_view kLoopPlaceFields[] = {"id", "offset", "offsets"};

// Sizes, alignments and given offsets stay below 2^56, offsets of plans below 2^62.
constexpr int kSizeBits = 56;
constexpr int kOffsetBits = 62;

// What a value is, for messages; long ones are cut.
std::string Found(const json& value) {
  constexpr size_t kMost = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

struct IdHash {
  size_t operator()(const Id& id) const {
    return std::hash<std::string>()(id.text) * 2 + (id.number ? 1 : 0);
  }
};

using Names = std::unordered_map<Id, uint32_t, IdHash>;

// Reads fields; after the first that is wrong `status` is not OK and what is read is of no meaning.
class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  bool ok() const { return status_.ok(); }

  void Refuse(const std::string& where, const std::string& expected, const std::string& found) {
    if (!ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(name_, ": ", where, ": expected ", expected, ", found ", found));
  }

  // The root, or an empty object.
  json Parse(std::string_view text) {
    absl::StatusOr<json> root = ParseJson(text, name_);
    if (!root.ok()) {
      status_ = root.status();
    } else if (root->is_object()) {
      return *std::move(root);
    } else {
      Refuse("the whole", "an object", Found(*root));
    }
    return json::object();
  }

  // Notes the fields of `object` that are not known. `where` is empty for the root.
  void Expect(const json& object, const std::string& where,
              std::span<const std::string_view> known) {
    for (const auto& [name, value] : object.items()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      if (!seen_.insert(absl::StrCat(where.substr(0, where.find('[')), ".", name)).second) continue;
      if (++unknown_count_ > kMostShown) continue;
      std::string shown = absl::StrCat("'", base::Printable(name.substr(0, kLongestShown)), "'");
      if (!where.empty()) absl::StrAppend(&shown, " in ", where);
      unknown_.push_back(shown);
      std::string nearest = base::DidYouMean(name, known);
      const std::string_view of_tensor = base::NearestName(name, kTensorFields);
      if (nearest.empty() && !of_tensor.empty()) {
        nearest = absl::StrCat(" (tensors have a field '", std::string(of_tensor), "')");
      }
      hints_.push_back(std::move(nearest));
    }
  }

  // What came of it all. Unknown fields come first: they may be why others are missing.
  absl::Status Finish(std::vector<std::string>* ignored) {
    if (unknown_.empty() || (!status_.ok() && ignored != nullptr)) return status_;
    if (unknown_count_ > kMostShown) {
      unknown_.push_back(absl::StrCat(unknown_count_ - kMostShown, " more"));
      hints_.emplace_back();
    }
    if (ignored != nullptr) {
      ignored->insert(ignored->end(), unknown_.begin(), unknown_.end());
      return absl::OkStatus();
    }
    for (size_t i = 0; i < unknown_.size(); ++i) unknown_[i] += hints_[i];
    return absl::InvalidArgumentError(absl::StrCat(name_, ": expected known fields, found ",
                                                   absl::StrJoin(unknown_, ", "),
                                                   "; --ignore-unknown ignores unknown fields"));
  }

  // The list in field `key`; an empty one where it may be absent.
  const json& List(const json& object, const char* key, bool required) {
    static const json empty = json::array();
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) {
      if (required) Refuse(key, "a list", "none");
      return empty;
    }
    if (found->is_array()) return *found;
    Refuse(key, "a list", Found(*found));
    return empty;
  }

  bool Object(const json& value, const std::string& where) {
    if (!value.is_object()) Refuse(where, "an object", Found(value));
    return ok();
  }

  bool ToId(const json& value, const std::string& where, Id& id) {
    if (value.is_string()) {
      id = {value.get<std::string>(), false};
    } else if (value.is_number_integer()) {
      id = {value.dump(), true};
    } else {
      Refuse(where, "an id (text or a whole number)", Found(value));
    }
    return ok();
  }

  // An id of its own.
  Id NewId(const json& object, const std::string& where, Names& names) {
    Id id;
    const auto found = object.find("id");
    if (found == object.end()) {
      Refuse(where + ".id", "an id (text or a whole number)", "none");
    } else if (ToId(*found, where + ".id", id)) {
      const auto added = names.emplace(id, static_cast<uint32_t>(names.size()));
      if (!added.second) Refuse(where + ".id", "an id of its own", Quoted(id) + " again");
    }
    return id;
  }

  // The index of what an id names.
  uint32_t Known(const json& value, const std::string& where, const char* what,
                 const Names& names) {
    Id id;
    if (!ToId(value, where, id)) return 0;
    const auto found = names.find(id);
    if (found != names.end()) return found->second;
    Refuse(where, absl::StrCat("the id of a ", what), Quoted(id));
    return 0;
  }

  // From `least` to 2^`bits` - 1.
  int64_t Number(const json& value, const std::string& where, int64_t least, int bits = 63) {
    const bool fits =
        value.is_number_unsigned() ? value.get<uint64_t>() >> bits == 0 : value.is_number_integer();
    if (fits && value.get<int64_t>() >= least) return value.get<int64_t>();
    const std::string range = least == INT64_MIN
                                  ? bits < 63 ? absl::StrCat(" below 2^", bits) : std::string()
                                  : absl::StrCat(" from ", least, " to 2^", bits, " - 1");
    Refuse(where, "a whole number" + range, Found(value));
    return 0;
  }

  // Of `object`; false where it may be absent.
  bool Flag(const json& object, const std::string& where, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return false;
    if (found->is_boolean()) return found->get<bool>();
    Refuse(absl::StrCat(where, ".", key), "true or false", Found(*found));
    return false;
  }

 private:
  static constexpr size_t kMostShown = 8;
  static constexpr size_t kLongestShown = 60;

  std::string name_;
  absl::Status status_;
  std::set<std::string> seen_;        // unknown fields, with the kind of object
  std::vector<std::string> unknown_;  // the first of them, for messages
  std::vector<std::string> hints_;    // per unknown_
  size_t unknown_count_ = 0;
};

// The value of a field that is there and not null.
const json* Given(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string At(const char* list, size_t index) { return absl::StrCat(list, "[", index, "]"); }

void ReadNodes(const json& list, Reader& reader, Graph& graph, Names& names) {
  Names streams;
  for (size_t i = 0; i < list.size() && reader.ok(); ++i) {
    const json& value = list[i];
    const std::string where = At("nodes", i);
    if (!reader.Object(value, where)) return;
    reader.Expect(value, where, kNodeFields);
    Node node;
    node.id = reader.NewId(value, where, names);
    Id stream{"0", true};
    if (const json* given = Given(value, "stream")) {
      reader.ToId(*given, where + ".stream", stream);
    }
    const auto added = streams.emplace(stream, static_cast<uint32_t>(streams.size()));
    node.stream = added.first->second;
    if (added.second) graph.streams.push_back(stream);
    if (const json* given = Given(value, "order")) {
      node.order = reader.Number(*given, where + ".order", INT64_MIN);
    }
    graph.nodes.push_back(std::move(node));
  }
}

void ReadTensor(const json& value, const std::string& where, const Names& nodes, Reader& reader,
                Tensor& tensor) {
  if (const json* given = Given(value, "producer")) {
    tensor.producer = reader.Known(*given, where + ".producer", "node", nodes);
  }
  const auto consumers = value.find("consumers");
  if (consumers != value.end() && !consumers->is_null()) {
    if (!consumers->is_array()) {
      return reader.Refuse(where + ".consumers", "a list", Found(*consumers));
    }
    for (size_t i = 0; i < consumers->size() && reader.ok(); ++i) {
      tensor.consumers.push_back(
          reader.Known((*consumers)[i], where + At(".consumers", i), "node", nodes));
    }
  }
  if (const json* given = Given(value, "bytes")) {
    tensor.bytes = reader.Number(*given, where + ".bytes", 0, kSizeBits);
  } else {
    reader.Refuse(where + ".bytes", "a whole number", "none");
  }
  if (const json* given = Given(value, "alignment")) {
    tensor.alignment = reader.Number(*given, where + ".alignment", INT64_MIN, kSizeBits);
    if (tensor.alignment <= 0 || (tensor.alignment & (tensor.alignment - 1)) != 0) {
      reader.Refuse(absl::StrCat(where, ".alignment of tensor ", Quoted(tensor.id)),
                    "a power of two", Found(*given));
    }
  }
  if (const json* given = Given(value, "offset")) {
    tensor.offset = reader.Number(*given, where + ".offset", 0, kSizeBits);
  }
  tensor.output = reader.Flag(value, where, "output");
  tensor.persistent = reader.Flag(value, where, "persistent");
}

// Once all names are known.
void ReadAlias(const json& value, const std::string& where, const Names& names, Reader& reader,
               Tensor& tensor) {
  const json* target = Given(value, "alias_of");
  const json* offset = Given(value, "alias_offset");
  const json* in_place = Given(value, "in_place");
  const bool write = reader.Flag(value, where, "in_place");
  if (target == nullptr) {
    if (offset != nullptr || write) {
      reader.Refuse(where + ".alias_of",
                    "the id of a tensor, as there is an alias_offset or in_place", "none");
    }
    return;
  }
  tensor.alias_of = reader.Known(*target, where + ".alias_of", "tensor", names);
  if (offset != nullptr) {
    tensor.alias_offset = reader.Number(*offset, where + ".alias_offset", 0, kSizeBits);
  }
  if (in_place != nullptr) tensor.alias = write ? Alias::kWrite : Alias::kView;
}

// Parts that state no offset, and together are as large as what is made of them, lie one behind the
// other.
void LayOutParts(const json& list, Graph& graph) {
  std::map<uint32_t, std::vector<uint32_t>> parts;  // by target
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.alias_of == kNone || tensor.alias == Alias::kWrite) continue;
    const uint32_t maker = graph.tensors[tensor.alias_of].producer;
    if (maker == kNone || maker == tensor.producer) continue;
    const auto& readers = tensor.consumers;
    if (std::find(readers.begin(), readers.end(), maker) == readers.end()) continue;
    parts[tensor.alias_of].push_back(t);
  }
  for (const auto& [target, members] : parts) {
    int64_t sum = 0;
    const int64_t most = graph.tensors[target].bytes;
    bool all = members.size() > 1;
    for (const uint32_t t : members) {
      all = all && Given(list[t], "alias_offset") == nullptr && graph.tensors[t].bytes > 0 &&
            graph.tensors[t].bytes <= most - sum;
      if (all) sum += graph.tensors[t].bytes;
    }
    if (!all || sum != most) continue;
    int64_t at = 0;
    for (const uint32_t t : members) {
      graph.tensors[t].alias_offset = at;
      at += graph.tensors[t].bytes;
    }
  }
}

void ReadTensors(const json& list, const Names& nodes, Reader& reader, Graph& graph, Names& names) {
  graph.tensors.resize(list.size());
  for (size_t i = 0; i < list.size() && reader.ok(); ++i) {
    const std::string where = At("tensors", i);
    if (!reader.Object(list[i], where)) return;
    reader.Expect(list[i], where, kTensorFields);
    graph.tensors[i].id = reader.NewId(list[i], where, names);
    ReadTensor(list[i], where, nodes, reader, graph.tensors[i]);
  }
  bool stated = false;
  for (size_t i = 0; i < list.size() && reader.ok(); ++i) {
    ReadAlias(list[i], At("tensors", i), names, reader, graph.tensors[i]);
    stated |= Given(list[i], "in_place") != nullptr || Given(list[i], "alias_offset") != nullptr;
  }
  if (!reader.ok()) return;
  for (Tensor& tensor : graph.tensors) {
    const bool open = tensor.alias_of != kNone && tensor.alias == Alias::kNotStated;
    if (stated && open) tensor.alias = Alias::kView;
  }
  LayOutParts(list, graph);
}

Loop ReadLoop(const json& value, const Names& nodes, const Names& tensors, Reader& reader) {
  Loop loop;
  if (!reader.Object(value, "loop")) return loop;
  reader.Expect(value, "loop", kLoopFields);
  if (Given(value, "body") == nullptr) reader.Refuse("loop.body", "a list", "none");
  const json& body = reader.List(value, "body", false);
  for (size_t i = 0; i < body.size() && reader.ok(); ++i) {
    loop.body.push_back(reader.Known(body[i], At("loop.body", i), "node", nodes));
  }
  const json& carried = reader.List(value, "carried", false);
  for (size_t i = 0; i < carried.size() && reader.ok(); ++i) {
    const std::string where = At("loop.carried", i);
    if (!carried[i].is_array() || carried[i].size() != 2) {
      const bool list = carried[i].is_array();
      reader.Refuse(where, "a list of two tensors",
                    list ? absl::StrCat("a list of ", carried[i].size()) : Found(carried[i]));
      break;
    }
    const uint32_t from = reader.Known(carried[i][0], where + "[0]", "tensor", tensors);
    const uint32_t to = reader.Known(carried[i][1], where + "[1]", "tensor", tensors);
    loop.carried.emplace_back(from, to);
  }
  return loop;
}

// The offsets of a tensor in turn.
std::vector<int64_t> ReadSlots(const json& list, const std::string& where, Reader& reader) {
  std::vector<int64_t> slots;
  if (!list.is_array() || list.empty()) {
    reader.Refuse(where, "a list of offsets", Found(list));
    return slots;
  }
  for (size_t i = 0; i < list.size() && reader.ok(); ++i) {
    slots.push_back(reader.Number(list[i], where + At("", i), 0, kOffsetBits));
  }
  return slots;
}

std::vector<uint32_t> ReadOrder(const json& list, const Names& nodes, Reader& reader) {
  std::vector<uint32_t> order;
  for (size_t i = 0; i < list.size() && reader.ok(); ++i) {
    order.push_back(reader.Known(list[i], At("order", i), "node", nodes));
  }
  return order;
}

std::string ToJson(const Id& id) {
  return id.number ? id.text : json(id.text).dump(-1, ' ', false, json::error_handler_t::replace);
}

Names NamesOf(const auto& things) {
  Names names;
  for (const auto& thing : things) names.emplace(thing.id, static_cast<uint32_t>(names.size()));
  return names;
}

}  // namespace

absl::StatusOr<Graph> ParseGraph(std::string_view text, const std::string& name,
                                 std::vector<std::string>* ignored) {
  Reader reader(name);
  const json root = reader.Parse(text);
  const std::string_view own = base::OwnJson(root);
  if (!own.empty() && !root.contains("tensors")) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected a graph, found ", std::string(own)));
  }
  reader.Expect(root, "", kGraphFields);
  Graph graph;
  Names nodes, tensors;
  ReadNodes(reader.List(root, "nodes", true), reader, graph, nodes);
  ReadTensors(reader.List(root, "tensors", true), nodes, reader, graph, tensors);
  const json& groups = reader.List(root, "groups", false);
  for (size_t g = 0; g < groups.size() && reader.ok(); ++g) {
    if (!groups[g].is_array()) {
      reader.Refuse(At("groups", g), "a list", Found(groups[g]));
      break;
    }
    std::vector<uint32_t>& group = graph.groups.emplace_back();
    for (size_t i = 0; i < groups[g].size() && reader.ok(); ++i) {
      group.push_back(reader.Known(groups[g][i], At("groups", g) + At("", i), "tensor", tensors));
    }
  }
  graph.order = ReadOrder(reader.List(root, "order", false), nodes, reader);
  if (const json* loop = Given(root, "loop")) {
    graph.loop = ReadLoop(*loop, nodes, tensors, reader);
  }
  if (absl::Status status = reader.Finish(ignored); !status.ok()) return status;
  return graph;
}

std::string FormatPlan(const Graph& graph, const Placement& plan, const Figures& figures) {
  std::string text = "{\n";
  for (const auto& [name, value] : figures)
    absl::StrAppend(&text, "\"", name, "\": ", value, ",\n");
  text += "\"order\": [";
  for (size_t i = 0; i < plan.order.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", ToJson(graph.nodes[plan.order[i]].id));
  }
  text += "],\n\"tensors\": [";
  for (size_t i = 0; i < plan.offsets.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ",\n" : "\n", "{\"id\": ", ToJson(graph.tensors[i].id));
    if (i < plan.slots.size() && plan.slots[i].size() > 1) {
      absl::StrAppend(&text, ", \"offsets\": [", absl::StrJoin(plan.slots[i], ", "), "]}");
    } else {
      absl::StrAppend(&text, ", \"offset\": ", plan.offsets[i], "}");
    }
  }
  text += "\n]\n}\n";
  return text;
}

absl::StatusOr<Placement> ParsePlan(std::string_view text, const std::string& name,
                                    const Graph& graph, std::vector<std::string>* ignored) {
  Reader reader(name);
  const json root = reader.Parse(text);
  reader.Expect(root, "", kPlanFields);
  Placement plan;
  plan.order = ReadOrder(reader.List(root, "order", true), NamesOf(graph.nodes), reader);
  plan.offsets.assign(graph.tensors.size(), kFree);
  const Names names = NamesOf(graph.tensors);
  if (graph.loop) plan.slots.resize(graph.tensors.size());
  const json& list = reader.List(root, "tensors", true);
  for (size_t i = 0; i < list.size() && reader.ok(); ++i) {
    const std::string where = At("tensors", i);
    if (!reader.Object(list[i], where)) break;
    if (graph.loop) {
      reader.Expect(list[i], where, kLoopPlaceFields);
    } else {
      reader.Expect(list[i], where, kPlaceFields);
    }
    const json* id = Given(list[i], "id");
    const json* offset = Given(list[i], "offset");
    const json* offsets = graph.loop ? Given(list[i], "offsets") : nullptr;
    if (id == nullptr) reader.Refuse(where + ".id", "the id of a tensor", "none");
    if (offset == nullptr && offsets == nullptr) {
      reader.Refuse(where + ".offset", "a whole number", "none");
    }
    if (offset != nullptr && offsets != nullptr) {
      reader.Refuse(where, "an offset or offsets", "both");
    }
    if (!reader.ok()) break;
    const uint32_t tensor = reader.Known(*id, where + ".id", "tensor", names);
    std::vector<int64_t> slots =
        offsets != nullptr
            ? ReadSlots(*offsets, where + ".offsets", reader)
            : std::vector<int64_t>{reader.Number(*offset, where + ".offset", 0, kOffsetBits)};
    if (!reader.ok()) break;
    const int64_t value = slots.front();
    if (plan.offsets[tensor] != kFree) {
      reader.Refuse(where + ".id", "each tensor once", Quoted(graph.tensors[tensor].id) + " again");
    }
    plan.offsets[tensor] = value;
    if (graph.loop) plan.slots[tensor] = std::move(slots);
  }
  for (size_t i = 0; i < plan.offsets.size() && reader.ok(); ++i) {
    if (plan.offsets[i] == kFree) {
      reader.Refuse("tensors", "an offset for every tensor",
                    "none for " + Quoted(graph.tensors[i].id));
    }
  }
  if (absl::Status status = reader.Finish(ignored); !status.ok()) return status;
  return plan;
}

}  // namespace reprise::planner::graph
