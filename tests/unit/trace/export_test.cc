// Files for other programs' viewers, and Mondrian's format in both directions.
#include "trace/formats/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "trace/formats/mondrian.h"
#include "trace/reader.h"

namespace reprise::trace {
namespace {

using nlohmann::json;

// Two sites of one function at different depth, one of another module, one block without a site.
Recording Example() {
  Recording recording;
  recording.process.executable = "/usr/bin/example";
  recording.modules = {{"/usr/bin/example", "aa", 0}, {"/lib/libother.so", "bb", 0}};
  recording.sites = {{0, 0x10, 1}, {0, 0x10, 2}, {1, 0x20, 1}};
  recording.threads = {{1, kNone, {}, 0, 8}};
  const auto add = [&](uint64_t birth, uint64_t death, uint64_t size, uint32_t site) {
    Allocation it;
    it.birth = birth, it.death = death, it.size = size, it.site = site;
    it.free_thread = death == kNever ? kNone : 0;
    recording.allocations.push_back(it);
  };
  add(0, 3, 100, 0);
  add(1, 7, 50, 1);
  add(2, 5, 1000, 2);  // the peak
  add(4, kNever, 30, 0);
  add(6, kNever, 7, kNone);
  recording.events = 8;
  return recording;
}

Profile ProfileOf(const Recording& recording) {
  Profile profile;
  profile.recording = &recording;
  profile.statistics = ComputeStatistics(recording, 0);
  SiteAccountsBuilder accounts(recording, profile.statistics.peak_event);
  LoadPoints load(100);
  uint64_t bytes = 0, blocks = 0;
  ForEachEvent(recording, [&](const Event& event) {
    accounts.Add(event);
    const bool birth = event.kind == EventKind::kAllocate;
    bytes += birth ? event.size : -event.size;
    blocks += birth ? 1 : -1;
    load.Add({event.index, bytes, blocks});
  });
  profile.accounts = accounts.Finish();
  profile.load = load.points();
  profile.symbols.resize(profile.accounts.size());
  profile.symbols[0] = {"other::make(int)", "/src/other.cc", 12};
  return profile;
}

template <typename Writer>
std::string Written(Writer writer) {
  static const Recording recording = Example();
  std::string text;
  writer(ProfileOf(recording), [&](const std::string& piece) { text += piece; });
  return text;
}

TEST(TraceExport, AccountsCountEachPlaceOnce) {
  const Recording recording = Example();
  const std::vector<SiteAccount> accounts = ProfileOf(recording).accounts;
  ASSERT_EQ(accounts.size(), 3u);
  EXPECT_EQ(accounts[0].site, 2u);
  EXPECT_EQ(accounts[0].peak_bytes, 1000u);
  const SiteAccount& both = accounts[1];
  EXPECT_EQ(both.blocks, 3u);
  EXPECT_EQ(both.bytes, 180u);
  EXPECT_EQ(both.most_bytes, 150u);
  EXPECT_EQ(both.most_blocks, 2u);
  EXPECT_EQ(both.peak_bytes, 150u);
  EXPECT_EQ(both.end_bytes, 30u);
  EXPECT_EQ(both.lifetimes, 3u + 6u + 4u);
  EXPECT_EQ(accounts[2].site, kNone);
  EXPECT_EQ(accounts[2].end_blocks, 1u);
}

TEST(TraceExport, CollapsedStacksHaveTheBytesOfThePeak) {
  EXPECT_EQ(Written(WriteCollapsed),
            "example;libother.so;other::make(int) (other.cc:12) 1000\n"
            "example;example;example+0x10 150\n");
}

// With callers a site is a line for each way that leads there.
TEST(TraceExport, CallersAreShown) {
  Recording recording = Example();
  recording.stacks = {{{0, 0x500}, {1, 0x600}}, {{0, 0x700}}};
  recording.sites[0].stack = 0;
  recording.sites[1].stack = 1;
  Profile profile = ProfileOf(recording);
  ASSERT_EQ(profile.accounts.size(), 4u);  // what differed in its depth alone is two sites now
  for (const SiteAccount& it : profile.accounts) {
    std::vector<NamedFrame>& callers = profile.callers.emplace_back();
    for (const Frame& frame : CallersOf(recording, it.site)) callers.push_back({frame});
  }
  profile.callers[1][0].symbol = {"near()", "/src/near.cc", 3};
  const auto written = [&](auto writer) {
    std::string text;
    writer(profile, [&](const std::string& piece) { text += piece; });
    return text;
  };
  EXPECT_EQ(written(WriteCollapsed),
            "example;libother.so;other::make(int) (other.cc:12) 1000\n"
            "example;libother.so+0x600;near() (near.cc:3);example+0x10 100\n"
            "example;example+0x700;example+0x10 50\n");
  const json dhat = json::parse(written(WriteDhat));
  const json& stack = dhat["pps"][1]["fs"];
  ASSERT_EQ(stack.size(), 3u);
  EXPECT_EQ(dhat["ftbl"][stack[0].get<size_t>()], "0x10: ??? (in example)");
  EXPECT_EQ(dhat["ftbl"][stack[1].get<size_t>()], "0x500: near() (near.cc:3)");
  EXPECT_EQ(dhat["ftbl"][stack[2].get<size_t>()], "0x600: ??? (in libother.so)");
  const json scope = json::parse(written(WriteSpeedscope));
  EXPECT_EQ(scope["profiles"][0]["samples"][1].size(), 4u);
  EXPECT_THAT(written(WriteSummary), testing::HasSubstr("called by near() (near.cc:3)"));
}

TEST(TraceExport, PerfettoCountsEveryEvent) {
  const json parsed = json::parse(Written(WritePerfetto));
  const json& events = parsed["traceEvents"];
  EXPECT_EQ(events.size(), 1u + 2 * 8);
  EXPECT_EQ(events[5]["ph"], "C");
  EXPECT_EQ(events[5]["ts"], 2);
  EXPECT_EQ(events[5]["args"]["bytes"], 1150);
  EXPECT_EQ(events[6]["args"]["blocks"], 3);
}

TEST(TraceExport, SpeedscopeWeighsWhatItNames) {
  const json parsed = json::parse(Written(WriteSpeedscope));
  EXPECT_EQ(parsed["$schema"], "https://www.speedscope.app/file-format-schema.json");
  for (const json& profile : parsed["profiles"]) {
    EXPECT_EQ(profile["type"], "sampled");
    EXPECT_EQ(profile["unit"], "bytes");
    ASSERT_EQ(profile["samples"].size(), profile["weights"].size());
    uint64_t sum = 0;
    for (const json& weight : profile["weights"]) sum += weight.get<uint64_t>();
    EXPECT_EQ(profile["endValue"], sum);
    for (const json& stack : profile["samples"]) {
      for (const json& frame : stack) {
        EXPECT_LT(frame.get<size_t>(), parsed["shared"]["frames"].size());
      }
    }
  }
  EXPECT_EQ(parsed["profiles"][0]["endValue"], 1150);
  EXPECT_EQ(parsed["shared"]["frames"][2]["line"], 12);
}

// The fields that dh_view.js demands of version 2 (Valgrind 3.19).
TEST(TraceExport, DhatHasWhatItsViewerDemands) {
  const json parsed = json::parse(Written(WriteDhat));
  EXPECT_EQ(parsed["dhatFileVersion"], 2);
  for (const char* field : {"mode", "verb", "bklt", "bkacc", "tu", "Mtu", "tuth", "cmd", "pid",
                            "te", "tg", "pps", "ftbl"}) {
    EXPECT_TRUE(parsed.contains(field)) << field;
  }
  EXPECT_EQ(parsed["ftbl"][0], "[root]");
  for (const json& point : parsed["pps"]) {
    for (const char* field : {"tb", "tbk", "tl", "mb", "mbk", "gb", "gbk", "eb", "ebk", "fs"}) {
      EXPECT_TRUE(point.contains(field)) << field;
    }
    EXPECT_GE(point["tb"], point["mb"]);
    EXPECT_GE(point["mb"], point["gb"]);
    for (const json& frame : point["fs"]) EXPECT_LT(frame.get<size_t>(), parsed["ftbl"].size());
  }
}

TEST(TraceExport, TheSummaryHasItsSections) {
  const std::string text = Written(WriteSummary);
  for (const char* part :
       {"MOST CALLS", "PEAK MEMORY CONSUMERS\n  1000 B in 1 block",
        "MOST TEMPORARY ALLOCATIONS\n  none", "NEVER FREED", "total memory never freed: 37 B"}) {
    EXPECT_THAT(text, testing::HasSubstr(part));
  }
}

TEST(TraceExport, ALongCurveKeepsItsPeaks) {
  LoadPoints load(50);
  for (uint64_t i = 0; i < 100'000; ++i) load.Add({i, i == 77'777 ? 1'000'000 : i % 10, 1});
  EXPECT_LE(load.points().size(), 100u);
  EXPECT_GE(load.points().size(), 25u);
  uint64_t most = 0;
  for (const LoadPoint& it : load.points()) most = std::max(most, it.bytes);
  EXPECT_EQ(most, 1'000'000u);
}

std::string Mondrian(const std::string& allocations) {
  return R"({"schema_version":1,"segments":[{"name":"s","size":64,"allocations":[)" + allocations +
         "]}]}";
}

TEST(TraceMondrian, WhatIsWrittenIsReadAgain) {
  const std::vector<MondrianBuffer> buffers = {{"a \"quoted\"\\name", 0, 3, 16, 0},
                                               {"b", 1, 9, 4096, 16}};
  std::string text;
  WriteMondrian(
      "seg", 4112, buffers.size(), [&](size_t i) { return buffers[i]; },
      [&](const std::string& piece) { text += piece; });
  const absl::StatusOr<CsvInstance> read = ParseMondrian(text, "f.json");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->buffers.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(read->buffers[i].id, buffers[i].origin);
    EXPECT_EQ(read->buffers[i].lower, buffers[i].lower);
    EXPECT_EQ(read->buffers[i].upper, buffers[i].upper);
    EXPECT_EQ(read->buffers[i].size, buffers[i].size);
    EXPECT_EQ(read->buffers[i].offset, buffers[i].offset);
  }
}

TEST(TraceMondrian, NamesBecomeUnique) {
  const std::string one = R"({"offset":0,"size":8,"alive_from":0,"alive_till":1,"origin":"x"})";
  const std::string odd = R"({"offset":0,"size":8,"alive_from":0,"alive_till":1,"origin":"x#2"})";
  const absl::StatusOr<CsvInstance> read =
      ParseMondrian(Mondrian(odd + "," + one + "," + one), "f.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->buffers[0].id, "x#2");
  EXPECT_EQ(read->buffers[1].id, "x");
  EXPECT_EQ(read->buffers[2].id, "x#2#");
}

TEST(TraceMondrian, OneOfSeveralSegmentsIsChosen) {
  const std::string text =
      R"({"schema_version":1,"segments":[{"title":"p","allocations":[]},)"
      R"({"name":"q","allocations":[{"offset":0,"size":8,"alive_from":0,"alive_till":1}]}]})";
  EXPECT_TRUE(absl::IsFailedPrecondition(ParseMondrian(text, "f").status()));
  EXPECT_EQ(ParseMondrian(text, "f", {.segment = "p"})->buffers.size(), 0u);
  EXPECT_EQ(ParseMondrian(text, "f", {.segment = "q"})->buffers[0].id, "0");
}

TEST(TraceMondrian, UnknownFieldsAreLeftAsideOnRequest) {
  const std::string text =
      Mondrian(R"({"offset":0,"size":0,"alive_from":0,"alive_till":1,"color":"red"})");
  EXPECT_TRUE(absl::IsInvalidArgument(ParseMondrian(text, "f").status()));
  const absl::StatusOr<CsvInstance> read = ParseMondrian(text, "f", {.ignore_unknown = true});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ignored, "'color'");
  EXPECT_EQ(read->buffers[0].size, 0);
}

// Whatever bytes are changed: what is read keeps the promises of an instance, or is refused.
TEST(TraceMondrian, ChangedBytesAreReadOrRefused) {
  const std::string whole =
      Mondrian(R"({"offset":0,"size":8,"alive_from":0,"alive_till":1,"origin":"x"},)"
               R"({"offset":8,"size":16,"alive_from":0,"alive_till":20,"origin":"y"})");
  std::mt19937 random(1);
  const std::string letters = "0123456789-.eE{}[]\",:xn\\ \xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % text.size();
      if (random() % 4 == 0) {
        text.erase(at, 1 + random() % 9);
        if (text.empty()) text = "x";
      } else {
        text[at] = letters[random() % letters.size()];
      }
    }
    const absl::StatusOr<CsvInstance> read = ParseMondrian(text, "f");
    if (!read.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(read.status())) << text << read.status();
      continue;
    }
    for (const CsvBuffer& it : read->buffers) {
      ASSERT_LT(it.lower, it.upper) << text;
      ASSERT_GE(it.size, 0) << text;
      ASSERT_GE(*it.offset, 0) << text;
    }
  }
}

TEST(TraceMondrian, WrongInputsAreNamed) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"{", "f: line 1, column 2: expected a string"},
      {"[]", "f: start: expected an object, found []"},
      {std::string(80'000, '['),
       "f: offset 64: expected at most 64 levels of brackets, found more"},
      {R"({"schema_version":1e999})", "f: expected numbers below 1.8e308, found '1e999'"},
      {R"({"schema_version":1,"segment":[]})", "found 'segment' (did you mean 'segments'?)"},
      {Mondrian(R"({"ofset":0,"size":8,"alive_from":0,"alive_till":1})"),
       "segments[0].allocations[0]: expected the fields alive_from, alive_till, size, offset, "
       "origin, found 'ofset' (did you mean 'offset'?)"},
      {Mondrian(R"({"offset":0,"size":72057594037927936,"alive_from":0,"alive_till":1})"),
       "a size below 2^56"},
      {"{}", "f: schema_version: expected 1, found nothing"},
      {R"({"schema_version":1,"segments":[]})", "f: segments: expected at least one segment"},
      {R"({"schema_version":1,"segments":[{}]})", "segments[0].allocations: expected an array"},
      {Mondrian("3"), "segments[0].allocations[0]: expected an object, found 3"},
      {Mondrian("{}"), "allocations[0].alive_from: expected a whole number below 2^63"},
      {Mondrian(R"({"offset":0,"size":-8,"alive_from":0,"alive_till":1})"), "size: expected"},
      {Mondrian(R"({"offset":0,"size":8.5,"alive_from":0,"alive_till":1})"), "found 8.5"},
      {Mondrian(R"({"offset":0,"size":8,"alive_from":1,"alive_till":1})"), "alive_from < "},
      {Mondrian(R"({"offset":9223372036854775807,"size":8,"alive_from":0,"alive_till":1})"),
       "ends below 2^63"},
  };
  for (const auto& it : cases) {
    const absl::Status status = ParseMondrian(it.text, "f").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << it.text;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(it.message));
  }
}

}  // namespace
}  // namespace reprise::trace
