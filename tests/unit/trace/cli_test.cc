// `reprise info` and `reprise convert` as a script sees them: JSON fields, exit codes, one line for
// each error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/trace/random_recording.h"
#include "tests/unit/trace/vectors.h"
#include "trace/reader.h"
#include "trace/statistics.h"
#include "trace/trace_writer.h"

namespace reprise::trace {
namespace {

struct Result {
  int code = -1;
  std::string output, errors;
};

Result Reprise(const std::string& arguments) {
  const std::string errors = TestPath("stderr");
  std::FILE* pipe =
      popen((std::string(REPRISE_COMMAND) + " " + arguments + " 2>" + errors).c_str(), "r");
  Result result;
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    result.output.append(buffer, got);
  }
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.errors = ReadFile(errors);
  return result;
}

nlohmann::json Info(const std::string& path) {
  const Result result = Reprise("info --json " + path);
  EXPECT_EQ(result.code, 0) << result.errors;
  return nlohmann::json::parse(result.output, nullptr, false);
}

TEST(TraceCommands, InfoHasItsFields) {
  const Recording recording = RandomRecording(5, 1000);
  const std::string path = TestPath("a.trace");
  ASSERT_TRUE(WriteRecording(recording, path).ok());
  const nlohmann::json json = Info(path);
  const Statistics statistics = ComputeStatistics(recording, 0);
  EXPECT_EQ(json["events"], recording.events);
  EXPECT_EQ(json["lost_events"], 0);
  EXPECT_EQ(json["threads"], 4);
  EXPECT_EQ(json["buffers"], recording.allocations.size());
  EXPECT_EQ(json["max_load"], statistics.max_load);
  EXPECT_EQ(json["requested_max_load"], statistics.requested_max_load);
  EXPECT_EQ(json["sum_bytes"], statistics.sum_bytes);
  EXPECT_EQ(json["unpreloadable"], 2);
  const Result table = Reprise("info " + path);
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.output, testing::HasSubstr("max load"));
}

TEST(TraceCommands, InfoOfAFolderSums) {
  const std::string folder = TestPath("folder");
  std::filesystem::create_directory(folder);
  ASSERT_TRUE(WriteRecording(RandomRecording(1, 100), folder + "/1.trace").ok());
  EXPECT_EQ(Info(folder)["images"].size(), 1);
  ASSERT_TRUE(WriteRecording(RandomRecording(2, 200), folder + "/2.trace").ok());
  const nlohmann::json json = Info(folder);
  ASSERT_EQ(json["images"].size(), 2);
  for (const char* field : {"events", "buffers", "max_load", "sum_bytes", "unpreloadable"}) {
    EXPECT_EQ(json[field].get<uint64_t>(),
              json["images"][0][field].get<uint64_t>() + json["images"][1][field].get<uint64_t>());
  }
}

TEST(TraceCommands, InfoOfAnInstance) {
  const std::string path = TestPath("a.csv");
  WriteFile(path, "id,lower,upper,size\na,0,3,4\nb,3,9,5\nc,0,9,10\n");
  const nlohmann::json json = Info(path);
  EXPECT_EQ(json["buffers"], 3);
  EXPECT_EQ(json["max_load"], 15);
  EXPECT_EQ(json["sum_bytes"], 19);
}

TEST(TraceCommands, ATraceWithoutAReadableEventIsBadInput) {
  const std::string path = TestPath("a.trace");
  std::string bytes = DocumentVector("trace");
  bytes[0x1a8] ^= 1;  // in the only chunk of events
  WriteFile(path, bytes);
  const Result result = Reprise("info --json " + path);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, testing::HasSubstr("damaged at offset 380, 74 bytes skipped"));
  EXPECT_THAT(result.errors, testing::HasSubstr("expected events, found none that can be read"));
}

TEST(TraceCommands, BadInputs) {
  std::string newer = VectorSpool().Bytes();
  newer[8] = static_cast<char>(kSpoolVersion + 1);
  struct Case {
    std::string content;
    std::string name;
    const char* message;
  };
  const Case cases[] = {
      {"", "a.trace", "expected a trace, found an empty file"},
      {"rubbish", "a.trace", "expected a trace, found something else"},
      {DocumentVector("trace").substr(0, 20), "a.trace",
       "offset 20: expected a header of 32 bytes"},
      {newer, "a.spool", "offset 8: expected spool version 6, found 7"},
      {"", "a.csv", "a.csv:1: expected a header"},
      {"id,lower,upper,size\na,2,2,1\n", "b.csv", "b.csv:2: expected lower < upper"},
      {"id,lower,upper,size,align\na,1,2,1,8\n", "c.csv", "(did you mean 'alignment'?)"},
      {"1: malloc\n", "a.txt", "a.txt:1: expected malloc PTR SIZE"},
  };
  for (const Case& one : cases) {
    WriteFile(TestPath(one.name), one.content);
    const Result result = Reprise("info " + TestPath(one.name));
    EXPECT_EQ(result.code, 3) << one.message;
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(result.errors, testing::HasSubstr(one.message));
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1);
  }
  EXPECT_EQ(Reprise("info " + TestPath("missing")).code, 4);
  EXPECT_EQ(Reprise("info").code, 2);
  EXPECT_EQ(Reprise("info /tmp --no-such-option").code, 2);
}

TEST(TraceCommands, ConvertKeepsTheProblem) {
  const std::string trace = TestPath("a.trace");
  ASSERT_TRUE(WriteRecording(RandomRecording(9, 2000), trace).ok());
  const nlohmann::json original = Info(trace);
  for (const char* name : {"b.txt", "b.csv", "b.trace"}) {
    ASSERT_EQ(Reprise("convert " + trace + " " + TestPath(name)).code, 0) << name;
    const nlohmann::json json = Info(TestPath(name));
    EXPECT_EQ(json["buffers"], original["buffers"]) << name;
    EXPECT_EQ(json["max_load"], original["max_load"]) << name;
  }
  EXPECT_EQ(Reprise("convert " + TestPath("b.csv") + " " + TestPath("c.trace")).code, 0);
  EXPECT_EQ(Info(TestPath("c.trace"))["max_load"], original["max_load"]);
  // Onto itself: the input is read to its end before it is replaced.
  EXPECT_EQ(Reprise("convert " + TestPath("b.txt") + " " + TestPath("b.txt")).code, 0);
  EXPECT_EQ(Info(TestPath("b.txt"))["max_load"], original["max_load"]);
}

TEST(TraceCommands, ConvertRefuses) {
  const std::string trace = TestPath("a.trace");
  ASSERT_TRUE(WriteRecording(RandomRecording(9, 20), trace).ok());
  EXPECT_EQ(Reprise("convert " + trace + " " + TestPath("b.unknown")).code, 2);
  EXPECT_EQ(Reprise("convert " + trace + " " + TestPath("b") + " --to morse").code, 2);
  EXPECT_EQ(Reprise("convert " + trace + " /nonexistent/b.csv").code, 4);
  WriteFile(TestPath("rubbish"), "rubbish");
  EXPECT_EQ(Reprise("convert " + TestPath("rubbish") + " " + TestPath("b.csv")).code, 3);
  EXPECT_EQ(Reprise("convert " + trace + " " + TestPath("b.csv") + " --from csv").code, 3);
  EXPECT_FALSE(std::filesystem::exists(TestPath("b.csv")));
}

// Gaps lower the load: info says what a plan must have.
TEST(TraceCommands, InfoOfAnInstanceConsidersGaps) {
  const std::string path = TestPath("gaps.csv");
  WriteFile(path, "id,lower,upper,size,gaps\na,0,10,64,2-8\nb,3,7,60,\n");
  const nlohmann::json json = Info(path);
  EXPECT_EQ(json["max_load"], 64);
  EXPECT_EQ(json["peak_event"], 0);
}

// What CSV can hold is not lost between two of them: names, gaps, sizes as they are given.
TEST(TraceCommands, ConvertKeepsAnInstance) {
  const std::string text =
      "id,lower,upper,size,alignment,gaps,note\n\"a, b\",0,10,60,1,2-8@8:16,x\nb,3,7,9,64,,\n";
  WriteFile(TestPath("a.csv"), text);
  const std::string words = "convert " + TestPath("a.csv") + " " + TestPath("b.csv");
  EXPECT_EQ(Reprise(words).code, 3);
  const Result result = Reprise(words + " --ignore-unknown");
  ASSERT_EQ(result.code, 0);
  EXPECT_THAT(result.errors, testing::HasSubstr("a.csv: not known and left aside: 'note'"));
  EXPECT_EQ(ReadFile(TestPath("b.csv")), text);
}

// Names come from files: none may break a line, or order a terminal about.
TEST(TraceCommands, NamesAreShownOnOneLine) {
  Recording recording = RandomRecording(5, 1000);
  for (Module& module : recording.modules) module.path = "/tmp/two\nlines\x1b[31m";
  recording.process.executable = "/tmp/two\nlines";
  const std::string trace = TestPath("a.trace");
  const std::string empty = TestPath("b.trace");
  const std::string summary = TestPath("c.heaptrack.txt");
  ASSERT_TRUE(WriteRecording(recording, trace).ok());
  ASSERT_TRUE(WriteRecording(RandomRecording(5, 1), empty).ok());
  ASSERT_EQ(Reprise("convert " + trace + " " + summary).code, 0);
  for (const std::string& text :
       {Reprise("info " + trace).output, Reprise("diff " + trace + " " + empty).output,
        ReadFile(summary)}) {
    EXPECT_THAT(text, testing::HasSubstr("two?lines"));
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("two\nlines")));
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("\x1b")));
  }
}

TEST(TraceCommands, ConvertAnonymizes) {
  const std::string trace = TestPath("a.trace");
  WriteFile(trace, DocumentVector("trace"));
  ASSERT_EQ(Reprise("convert --anonymize " + trace + " " + TestPath("b.trace")).code, 0);
  const auto recording = LoadRecording(TestPath("b.trace"));
  ASSERT_TRUE(recording.ok());
  EXPECT_EQ(recording->modules[0].path, "module 0");
  EXPECT_EQ(recording->process.executable, "");
  // Hashes of names could be tried out.
  EXPECT_EQ(recording->process.place, 0u);
  EXPECT_EQ(recording->process.parent_place, 0u);
}

}  // namespace
}  // namespace reprise::trace
