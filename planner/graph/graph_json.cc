#include "planner/graph/graph_json.h"

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reprise::planner::graph {
namespace {

using nlohmann::json;

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

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  void Refuse(const std::string& where, const std::string& expected, const std::string& found) {
    if (!ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(name_, ": ", where, ": expected ", expected, ", found ", found));
  }

  // The root, or an empty object.
  json Parse(std::string_view text) {
    json root = json::object();
    try {
      root = json::parse(text);
    } catch (const json::parse_error& error) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(name_, ":byte ", error.byte, ": expected JSON, found what is none"));
    } catch (const json::exception&) {
      // A number that no double can hold.
      status_ = absl::InvalidArgumentError(
          absl::StrCat(name_, ": expected numbers below 2^63, found a larger one"));
    }
    if (!root.is_object()) {
      Refuse("the whole", "an object", Found(root));
      root = json::object();
    }
    return root;
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

  int64_t Number(const json& value, const std::string& where, int64_t least) {
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                          : value.is_number_integer();
    if (fits && value.get<int64_t>() >= least) return value.get<int64_t>();
    Refuse(where,
           least == INT64_MIN ? "a whole number"
                              : absl::StrCat("a whole number from ", least, " to 2^63 - 1"),
           Found(value));
    return 0;
  }

 private:
  std::string name_;
  absl::Status status_;
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
    tensor.bytes = reader.Number(*given, where + ".bytes", 0);
  } else {
    reader.Refuse(where + ".bytes", "a whole number", "none");
  }
  if (const json* given = Given(value, "alignment")) {
    const int64_t alignment = reader.Number(*given, where + ".alignment", INT64_MIN);
    if (alignment <= 0 || (alignment & (alignment - 1)) != 0) {
      reader.Refuse(where + ".alignment", "a power of two", Found(*given));
    }
    tensor.alignment = alignment;
  }
  if (const json* given = Given(value, "offset")) {
    tensor.offset = reader.Number(*given, where + ".offset", 0);
  }
  if (const json* given = Given(value, "persistent")) {
    if (!given->is_boolean()) {
      return reader.Refuse(where + ".persistent", "true or false", Found(*given));
    }
    tensor.persistent = given->get<bool>();
  }
}

void ReadTensors(const json& list, const Names& nodes, Reader& reader, Graph& graph, Names& names) {
  graph.tensors.resize(list.size());
  for (size_t i = 0; i < list.size() && reader.ok(); ++i) {
    const std::string where = At("tensors", i);
    if (!reader.Object(list[i], where)) return;
    graph.tensors[i].id = reader.NewId(list[i], where, names);
    ReadTensor(list[i], where, nodes, reader, graph.tensors[i]);
  }
  // Once all names are known.
  for (size_t i = 0; i < list.size() && reader.ok(); ++i) {
    if (const json* given = Given(list[i], "alias_of")) {
      graph.tensors[i].alias_of =
          reader.Known(*given, At("tensors", i) + ".alias_of", "tensor", names);
    }
  }
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

absl::StatusOr<Graph> ParseGraph(std::string_view text, const std::string& name) {
  Reader reader(name);
  const json root = reader.Parse(text);
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
  if (!reader.ok()) return reader.status();
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
    absl::StrAppend(&text, i > 0 ? ",\n" : "\n", "{\"id\": ", ToJson(graph.tensors[i].id),
                    ", \"offset\": ", plan.offsets[i], "}");
  }
  text += "\n]\n}\n";
  return text;
}

absl::StatusOr<Placement> ParsePlan(std::string_view text, const std::string& name,
                                    const Graph& graph) {
  Reader reader(name);
  const json root = reader.Parse(text);
  Placement plan;
  plan.order = ReadOrder(reader.List(root, "order", true), NamesOf(graph.nodes), reader);
  plan.offsets.assign(graph.tensors.size(), kFree);
  const Names names = NamesOf(graph.tensors);
  const json& list = reader.List(root, "tensors", true);
  for (size_t i = 0; i < list.size() && reader.ok(); ++i) {
    const std::string where = At("tensors", i);
    if (!reader.Object(list[i], where)) break;
    const json* id = Given(list[i], "id");
    const json* offset = Given(list[i], "offset");
    if (id == nullptr) reader.Refuse(where + ".id", "the id of a tensor", "none");
    if (offset == nullptr) reader.Refuse(where + ".offset", "a whole number", "none");
    if (!reader.ok()) break;
    const uint32_t tensor = reader.Known(*id, where + ".id", "tensor", names);
    const int64_t value = reader.Number(*offset, where + ".offset", 0);
    if (!reader.ok()) break;
    if (plan.offsets[tensor] != kFree) {
      reader.Refuse(where + ".id", "each tensor once", Quoted(graph.tensors[tensor].id) + " again");
    }
    plan.offsets[tensor] = value;
  }
  for (size_t i = 0; i < plan.offsets.size() && reader.ok(); ++i) {
    if (plan.offsets[i] == kFree) {
      reader.Refuse("tensors", "an offset for every tensor",
                    "none for " + Quoted(graph.tensors[i].id));
    }
  }
  if (!reader.ok()) return reader.status();
  return plan;
}

}  // namespace reprise::planner::graph
