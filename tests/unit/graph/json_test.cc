// Graphs and plans as JSON: what is read, and what every mistake is called.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "planner/graph/graph_json.h"
#include "planner/graph/prepared_graph.h"
#include "tests/unit/effort.h"

namespace reprise::planner::graph {
namespace {

absl::Status Refusal(const std::string& text) {
  const absl::StatusOr<Graph> graph = ParseGraph(text, "g");
  return graph.ok() ? PrepareGraph(*graph).status() : graph.status();
}

constexpr char kExample[] = R"({"nodes":[{"id":"n1","stream":0,"order":1},{"id":2,"stream":"x"},
  {"id":"n3","order":2}],
  "tensors":[{"id":"a","producer":"n1","consumers":[2,"n3"],"bytes":512,"alignment":64,
              "offset":null,"alias_of":null,"persistent":false},
             {"id":7,"bytes":8,"persistent":true,"alias_of":null,"offset":128,"output":false},
             {"id":"v","producer":"n3","bytes":16,"alias_of":"a","alias_offset":32,
              "in_place":false,"output":true}],
  "groups":[["a"]], "order":["n1",2,"n3"]})";

TEST(GraphJson, ReadsEveryField) {
  const absl::StatusOr<Graph> graph = ParseGraph(kExample, "g");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes.size(), 3);
  EXPECT_EQ(graph->nodes[1].id, (Id{"2", true}));
  EXPECT_EQ(graph->streams.size(), 2);
  EXPECT_EQ(graph->nodes[1].stream, 1);
  EXPECT_EQ(graph->nodes[2].order, 2);
  EXPECT_FALSE(graph->nodes[1].order.has_value());
  EXPECT_EQ(graph->tensors[0].consumers, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(graph->tensors[0].alignment, 64);
  EXPECT_EQ(graph->tensors[1].producer, kNone);
  EXPECT_EQ(graph->tensors[1].offset, 128);
  EXPECT_TRUE(graph->tensors[1].persistent);
  EXPECT_EQ(graph->tensors[2].alias_of, 0);
  EXPECT_EQ(graph->tensors[2].alias_offset, 32);
  EXPECT_EQ(graph->tensors[2].alias, Alias::kView);
  EXPECT_TRUE(graph->tensors[2].output);
  EXPECT_FALSE(graph->tensors[1].output);
  EXPECT_EQ(graph->groups, (std::vector<std::vector<uint32_t>>{{0}}));
  EXPECT_EQ(graph->order, (std::vector<uint32_t>{0, 1, 2}));
  const absl::StatusOr<PreparedGraph> flow = PrepareGraph(*graph);
  ASSERT_TRUE(flow.ok()) << flow.status();
  EXPECT_EQ(flow->storages.size(), 2);
}

TEST(GraphJson, EveryMistakeHasItsLine) {
  const auto nodes = [](const std::string& list) {
    return R"({"tensors":[],"nodes":[)" + list + "]}";
  };
  const auto tensors = [](const std::string& list, const std::string& more = "") {
    return R"({"nodes":[{"id":"n"},{"id":"m"},{"id":"o"}],"tensors":[)" + list + "]" + more + "}";
  };
  const std::string two = R"({"id":"a","producer":"n","consumers":["m"],"bytes":4},
                             {"id":"b","producer":"m","consumers":["o"],"bytes":4})";
  const std::pair<std::string, std::string> rows[] = {
      {"", "line 1, column 1: expected a value, found end of input"},
      {"{", "line 1, column 2: expected a string, found end of input"},
      {"[1,2]", "the whole: expected an object, found a list"},
      {"{}", "nodes: expected a list, found none"},
      {R"({"nodes":3})", "nodes: expected a list, found 3"},
      {R"({"nodes":[]})", "tensors: expected a list, found none"},
      {nodes("3"), "nodes[0]: expected an object, found 3"},
      {nodes("{}"), "nodes[0].id: expected an id (text or a whole number), found none"},
      {nodes(R"({"id":1.5})"), "nodes[0].id: expected an id (text or a whole number), found 1.5"},
      {nodes(R"({"id":1},{"id":1})"), "nodes[1].id: expected an id of its own, found 1 again"},
      {nodes(R"({"id":1,"stream":[]})"), "nodes[0].stream: expected an id"},
      {nodes(R"({"id":1,"order":"x"})"), "nodes[0].order: expected a whole number, found \"x\""},
      {nodes(R"({"id":"p","order":1},{"id":"q","order":1})"),
       "nodes 'p' and 'q': expected an order of its own for each node of stream 0, found 1"},
      {nodes(R"({"id":"p","order":1},{"id":"q"})"), "node 'q': expected an order"},
      {tensors(R"({"bytes":1})"), "tensors[0].id: expected an id"},
      {tensors(R"({"id":"a"})"), "tensors[0].bytes: expected a whole number, found none"},
      {tensors(R"({"id":"a","bytes":-1})"), "tensors[0].bytes: expected a whole number from 0"},
      {tensors(R"({"id":"a","bytes":1.5})"), "found 1.5"},
      {tensors(R"({"id":"a","bytes":99999999999999999999})"), "tensors[0].bytes: expected"},
      {tensors(R"({"id":"a","bytes":1e999})"),
       "tensors[0].bytes: expected a number below 2^63, found 1e999"},
      {tensors(R"({"id":"a","bytes":1,"consumers":["n",-1e999]})"),
       "tensors[0].consumers[1]: expected a number below 2^63, found -1e999"},
      {tensors(R"({"id":"a","bytes":9223372036854775807})"),
       "tensors[0].bytes: expected a whole number from 0 to 2^56 - 1"},
      {tensors(R"({"id":"a","bytes":72057594037927936})"),
       "tensors[0].bytes: expected a whole number from 0 to 2^56 - 1"},
      {tensors(R"({"id":"a","bytes":72057594037927935})"), ""},
      {tensors(R"({"id":"a","bytes":1,"alignment":72057594037927936})"),
       "tensors[0].alignment: expected a whole number below 2^56"},
      {tensors(R"({"id":"a","bytes":1,"offset":72057594037927936})"),
       "tensors[0].offset: expected"},
      {tensors(R"({"id":"a","bytes":1,"bytes":2})"),
       "tensors[0].bytes: expected each field once, found it again"},
      {tensors(R"({"id":"a","bytes":1,"in_place":1})"), "tensors[0].in_place: expected true or"},
      {tensors(R"({"id":"a","bytes":1,"in_place":true})"), "tensors[0].alias_of: expected the id"},
      {tensors(R"({"id":"a","bytes":1,"alias_offset":4})"), "tensors[0].alias_of: expected the id"},
      {tensors(two + R"(,{"id":"v","bytes":2,"alias_of":"a","alias_offset":3})"),
       "tensor 'v': expected bytes inside its target 'a' of 4, found 2 at 3"},
      {tensors(two + R"(,{"id":"v","bytes":5,"alias_of":"a","in_place":false})"),
       "tensor 'v': expected bytes inside its target"},
      {tensors(two + R"(,{"id":"v","bytes":2,"alias_of":"a","alias_offset":2,"alignment":4})"),
       "tensor 'v': expected a place in its storage that keeps its alignment of 4, found 2"},
      {tensors(two + R"(,{"id":"v","bytes":4,"alias_of":"a","in_place":true})"),
       "tensor 'v': expected a producer, which writes it in place"},
      {tensors(R"({"id":"a","bytes":1,"output":"yes"})"), "tensors[0].output: expected true or"},
      {tensors(R"({"id":"a","bytes":1,"align":64,"persistant":true})"),
       "expected known fields, found 'align' in tensors[0] (did you mean 'alignment'?), "
       "'persistant' in tensors[0] (did you mean 'persistent'?); --ignore-unknown"},
      {tensors(R"({"id":"a","byte":1})"), "found 'byte' in tensors[0] (did you mean 'bytes'?)"},
      {nodes(R"({"id":1,"steam":2})"), "found 'steam' in nodes[0] (did you mean 'stream'?)"},
      {R"({"nodes":[],"tensors":[],"loops":{},"group":[]})",
       "found 'group' (did you mean 'groups'?), 'loops' (did you mean 'loop'?)"},
      {tensors(R"({"id":"a","bytes":1,"producer":"x"})"),
       "tensors[0].producer: expected the id of a node, found 'x'"},
      {tensors(R"({"id":"a","bytes":1,"consumers":["n",4]})"),
       "tensors[0].consumers[1]: expected the id of a node, found 4"},
      {tensors(R"({"id":"a","bytes":1,"consumers":"n"})"), "tensors[0].consumers: expected a list"},
      {tensors(R"({"id":"a","bytes":1,"alignment":12})"),
       "tensors[0].alignment of tensor 'a': expected a power of two, found 12"},
      {tensors(R"({"id":"a","bytes":1,"alignment":0})"), "expected a power of two, found 0"},
      {tensors(R"({"id":"a","bytes":1,"offset":-8})"), "tensors[0].offset: expected"},
      {tensors(R"({"id":"a","bytes":1,"offset":8,"alignment":16})"),
       "tensor 'a': expected an offset that is a multiple of 16"},
      {tensors(R"({"id":"a","bytes":1,"persistent":1})"), "expected true or false, found 1"},
      {tensors(R"({"id":"a","bytes":1,"alias_of":"q"})"),
       "tensors[0].alias_of: expected the id of a tensor, found 'q'"},
      {tensors(R"({"id":"a","bytes":1,"alias_of":"a"})"), "found a cycle"},
      {tensors(R"({"id":"a","bytes":1,"alias_of":"b"},{"id":"b","bytes":1,"alias_of":"a"})"),
       "found a cycle"},
      {tensors(R"({"id":"a","bytes":1,"producer":"n","consumers":["m"]},
                  {"id":"b","bytes":1,"producer":"m","consumers":["n"]})"),
       "nodes: expected no cycle of tensors, found 'n' -> 'm' -> 'n'"},
      {R"({"nodes":[{"id":"n","order":2},{"id":"m","order":1}],"tensors":[
          {"id":"a","bytes":1,"producer":"n","consumers":["m"]}]})",
       "expected no cycle of tensors and orders in streams"},
      {tensors(two, R"(,"groups":[["a","b"],["b"]])"),
       "groups[1]: expected memory that is in one group once, found tensor 'b' of groups[0]"},
      {tensors(two, R"(,"groups":[["a","a"]])"), "found tensor 'a' of groups[0]"},
      {tensors(two, R"(,"groups":["a"])"), "groups[0]: expected a list"},
      {tensors(two, R"(,"groups":[["z"]])"), "groups[0][0]: expected the id of a tensor"},
      {tensors(R"({"id":"a","bytes":6},{"id":"b","bytes":8,"alignment":4})",
               R"(,"groups":[["b","a"]])"),
       ""},
      {tensors(R"({"id":"a","bytes":6,"alignment":4},{"id":"b","bytes":8,"alignment":4})",
               R"(,"groups":[["a","b"]])"),
       ""},
      {tensors(R"({"id":"a","bytes":8,"alignment":8},{"id":"b","bytes":4,"alignment":4},
                  {"id":"c","bytes":8,"alignment":8})",
               R"(,"groups":[["a","b","c"]])"),
       "groups[0]: expected alignments that one place can keep, found tensor 'c' aligned to 8"},
      {tensors(two + R"(,{"id":"v","producer":"m","bytes":9,"alias_of":"a"})",
               R"(,"groups":[["a","b"]])"),
       "groups[0]: expected members without a larger alias, found tensor 'a' with bytes 0 to 4 of "
       "a "
       "storage of 9"},
      {tensors(two + R"(,{"id":"v","producer":"m","bytes":9,"alias_of":"a"})",
               R"(,"groups":[["b","a"]])"),
       ""},
      {tensors(R"({"id":"a","bytes":6,"offset":0},{"id":"b","bytes":8,"offset":8})",
               R"(,"groups":[["a","b"]])"),
       "groups[0]: expected offsets that lie side by side, found tensor 'b' at 8"},
      {tensors(two, R"(,"order":["n","m"])"), "order: expected every node, found no node 'o'"},
      {tensors(two, R"(,"order":["n","m","o","n"])"), "order[3]: expected each node once"},
      {tensors(two, R"(,"order":["n","m","x"])"), "order[2]: expected the id of a node, found 'x'"},
      {tensors(two, R"(,"order":["m","n","o"])"), "order: expected 'n' before 'm'"},
  };
  for (const auto& [text, message] : rows) {
    const absl::Status status = Refusal(text);
    if (message.empty()) {
      EXPECT_TRUE(status.ok()) << status << " for " << text;
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(message), std::string::npos)
        << text << "\n  said " << status.message() << "\n  not  " << message;
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
}

TEST(GraphJson, PlansComeBack) {
  const absl::StatusOr<Graph> graph = ParseGraph(kExample, "g");
  ASSERT_TRUE(graph.ok());
  const Placement plan{{64, 128, 96}, {0, 1, 2}};
  const std::string text = FormatPlan(*graph, plan, {{"makespan", "576"}});
  const absl::StatusOr<Placement> back = ParsePlan(text, "p", *graph);
  ASSERT_TRUE(back.ok()) << back.status() << text;
  EXPECT_EQ(back->offsets, plan.offsets);
  EXPECT_EQ(back->order, plan.order);
  const std::pair<const char*, const char*> rows[] = {
      {"{}", "order: expected a list, found none"},
      {R"({"order":[],"tensors":[{"id":"a","offset":0}]})", "expected an offset for every tensor"},
      {R"({"order":[],"tensors":[{"id":"b","offset":0}]})", "expected the id of a tensor"},
      {R"({"order":[],"tensors":[{"id":"a","offset":-1}]})", "tensors[0].offset: expected"},
      {R"({"order":[],"tensors":[{"id":"a","offset":1},{"id":"a","offset":1}]})", "'a' again"},
      {R"({"order":[9],"tensors":[]})", "order[0]: expected the id of a node"},
  };
  for (const auto& [bad, message] : rows) {
    const absl::Status status = ParsePlan(bad, "p", *graph).status();
    EXPECT_NE(status.message().find(message), std::string::npos) << bad << status;
  }
}

TEST(GraphJson, UnknownFieldsAreListedWhereTheyAreIgnored) {
  std::vector<std::string> ignored;
  const std::string text =
      R"({"nodes":[{"id":1,"x":2},{"id":2,"x":3}],"tensors":[],"repeat":[[]]})";
  const absl::StatusOr<Graph> graph = ParseGraph(text, "g", &ignored);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes.size(), 2);
  EXPECT_EQ(ignored, (std::vector<std::string>{"'repeat'", "'x' in nodes[0]"}));
}

TEST(GraphJson, DeepTextIsRefused) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string text = R"({"nodes":)";
    for (int i = 0; i < 80'000; ++i) text += open;
    const absl::Status status = Refusal(text);
    EXPECT_NE(status.message().find("at most 32 lists and objects"), std::string::npos) << status;
  }
}

TEST(GraphJson, NoMessageHasAControlCharacter) {
  const std::string bad = "\\u001b[2J\\u0085\\u202e\\u007f";
  for (const char* text : {R"({"nodes":[{"id":"@"},{"id":"@"}],"tensors":[]})",
                           R"({"nodes":[{"@":"x"}],"tensors":[]})",
                           R"({"nodes":[],"tensors":[{"id":"@","bytes":1,"alignment":3}]})",
                           R"({"nodes":[],"tensors":[],"order":["@"]})"}) {
    const std::string hostile = absl::StrReplaceAll(text, {{"@", bad}});
    const std::string message(Refusal(hostile).message());
    EXPECT_EQ(message, base::Printable(message));
    EXPECT_NE(message.find("?[2J"), std::string::npos) << message;
  }
}

// Any text is a graph or a message; mutations of a good one reach deep.
TEST(GraphJson, MutationsDoNotCrash) {
  const std::string good = kExample;
  uint64_t state = 1;
  for (int i = 0; i < Rounds(30'000); ++i) {
    std::string text = good;
    for (int change = 0; change < 1 + i % 3; ++change) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const size_t at = (state >> 33) % text.size();
      const char with = "{}[]\",:0159-.enul a"[(state >> 20) % 19];
      if ((state >> 50) % 3 == 0) {
        text.erase(at, 1);
      } else {
        text[at] = with;
      }
    }
    Refusal(text).IgnoreError();
  }
}

}  // namespace
}  // namespace reprise::planner::graph
