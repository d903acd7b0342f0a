// What `compare --json` and `replay --stats` wrote, read again: types, unknown fields, depth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/feedback_file.h"
#include "report/measured_facts.h"
#include "report/measured_json.h"

namespace reprise::report {
namespace {

constexpr char kResult[] = R"({"allocator":"a","footprint":8)";

std::string Comparison(const std::string& more) {
  return std::string(R"({"results":[)").append(kResult).append(more).append("}]}");
}

std::string Image(const std::string& lists) {
  return std::string(R"({"served":1,"recording":{"events":7,"hash":"ff"},)")
      .append(lists)
      .append("}");
}

std::string Statistics(const std::string& image) {
  return std::string(R"({"served":1,"images":[)").append(image).append("]}");
}

constexpr char kNoLists[] = R"("lanes":[],"missed_sites":[],"blockers":[])";

TEST(ComparisonReader, AFieldOfAnotherTypeIsNamed) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"",
       "f: expected what `reprise compare --json` prints: line 1, column 1: expected a value, "
       "found end of input"},
      {"[]", "start: expected an object, found []"},
      {R"({"program":["a"],"results":[]})",
       "f: expected what `reprise compare --json` prints, found what `reprise compare --live "
       "--json` prints"},
      {R"({"served":1,"images":[]})", "prints, found what `reprise replay --stats` writes"},
      {R"({"events":1,"lost_events":0,"max_load":1})", "found what `reprise info --json` prints"},
      {"{}", "results: expected a list, found nothing"},
      {R"({"results":{}})", "results: expected a list, found {}"},
      {R"({"results":[1]})", "results[0]: expected an object, found 1"},
      {R"({"results":[{"allocator":"a"}]})", "results[0].footprint: expected a number"},
      {Comparison(R"(,"version":1)"), "results[0].version: expected text, found 1"},
      {Comparison(R"(,"waits":-1)"),
       "results[0].waits: expected a whole number from 0 to 2^63 - 1"},
      {Comparison(R"(,"seconds":"1")"), "results[0].seconds: expected a number, found \"1\""},
      {Comparison(R"(,"seconds":1e999)"), "expected numbers below 1.8e308, found '1e999'"},
      {Comparison(R"(,"series":{"events":[1],"rss":["x"]})"),
       "series.rss: expected a list of numbers"},
      {Comparison(R"(,"series":{"events":[1],"rss":[]})"), "as many values in rss as in events"},
      {Comparison(R"(,"secnds":1)"), "found 'secnds' (did you mean 'seconds'?)"},
      {R"({"results":[],"images":[{"results":[{}]}]})", "images[0].results[0].allocator"},
      {R"({"results":[],"images":[]})", "images: expected one of the trace 1.trace, found none"},
      {std::string(300'000, '['), "expected at most 64 levels of brackets, found more"},
  };
  for (const auto& it : cases) {
    base::UnknownNames unknown(false);
    const absl::Status status = ParseComparison(it.text, "f", "1.trace", unknown).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << it.text;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(it.message));
  }
}

TEST(ComparisonReader, UnknownFieldsAreLeftAsideOnRequest) {
  base::UnknownNames unknown(true);
  const auto comparison = ParseComparison(Comparison(R"(,"more":[{"a":1}])"), "f", "t", unknown);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(unknown.Ignored(), "'more'");
  EXPECT_EQ(MeasuredContenders(*comparison)[0]["footprint"], 8);
  EXPECT_TRUE(MeasuredSeries(*comparison).empty());
}

TEST(StatisticsReader, AFieldOfAnotherTypeIsNamed) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"x", "f: expected what `reprise replay --stats` writes: line 1, column 1: expected JSON"},
      {"{}", "served: expected a number, found nothing"},
      {R"({"served":1})", "images: expected a list, found nothing"},
      {Statistics("{}"), "images[0].served: expected a number, found nothing"},
      {Statistics(Image(R"("lanes":[],"missed_sites":[])")), "images[0].blockers: expected a list"},
      {Statistics(Image(R"("lanes":[{"thread":"xyz"}],"missed_sites":[],"blockers":[])")),
       "images[0].lanes[0].thread: expected a hexadecimal number"},
      {Statistics(
           Image(R"("lanes":[{"thread":"11112222333344445"}],"missed_sites":[],"blockers":[])")),
       "lanes[0].thread: expected a hexadecimal number"},
      {Statistics(
           Image(R"("lanes":[],"missed_sites":[],"blockers":[{"thread":"1","allocation":-1}])")),
       "blockers[0].allocation: expected a whole number"},
      {R"({"served":1,"imags":[],"images":[]})", "found 'imags' (did you mean 'images'?)"},
  };
  for (const auto& it : cases) {
    base::UnknownNames unknown(false);
    cli::LessonsFiles files;
    const absl::Status status = files.Add(it.text, "f", unknown);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << it.text;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(it.message));
  }
}

TEST(StatisticsReader, CountersComeInTheOrderInWhichTheyAreWritten) {
  base::UnknownNames unknown(false);
  const std::string text = std::string(R"({"peak_rss":5,"served":1,"allocations":2,"images":[)")
                               .append(Image(kNoLists))
                               .append("]}");
  const auto statistics = ParseReplayStatistics(text, "f", unknown);
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  EXPECT_EQ(ReplayFacts(*statistics, "x")["counters"].dump(),
            R"({"allocations":2,"served":1,"peak_rss":5})");
}

}  // namespace
}  // namespace reprise::report
