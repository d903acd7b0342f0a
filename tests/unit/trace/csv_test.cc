// Instances as CSV: everything that minimalloc's files may hold, and one precise line for each way
// in which a file can be wrong.
#include "trace/formats/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trace/format.h"
#include "trace/statistics.h"

namespace reprise::trace {
namespace {

CsvInstance Parse(const std::string& text, bool ignore_unknown = false) {
  auto instance = ParseCsv(text, "f.csv", ignore_unknown);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return instance.ok() ? *std::move(instance) : CsvInstance{};
}

// "id[lower,upper)size" per buffer.
std::vector<std::string> Story(const CsvInstance& instance) {
  std::vector<std::string> story;
  for (const CsvBuffer& b : instance.buffers) {
    story.push_back(b.id + "[" + std::to_string(b.lower) + "," + std::to_string(b.upper) + ")" +
                    std::to_string(b.size));
  }
  return story;
}

TEST(TraceCsv, ColumnsInAnyOrder) {
  EXPECT_THAT(Story(Parse("id,lower,upper,size\nb1,0,3,4\nb2,3,9,5\n")),
              testing::ElementsAre("b1[0,3)4", "b2[3,9)5"));
  EXPECT_THAT(Story(Parse("size,gaps,upper,lower,ID\n4,,3,0,b1\n")),
              testing::ElementsAre("b1[0,3)4"));
  EXPECT_THAT(Story(Parse("id,lower,upper,size\n")), testing::IsEmpty());
}

// minimalloc's older names; its `end` is the last instant, not the first one after.
TEST(TraceCsv, EndIsInclusive) {
  EXPECT_THAT(Story(Parse("buffer_id,start,end,size\n1,5,5,4\n")), testing::ElementsAre("1[5,6)4"));
  EXPECT_THAT(Story(Parse("buffer,begin,end,size\n1,5,7,4\n")), testing::ElementsAre("1[5,8)4"));
  EXPECT_THAT(Story(Parse("id,start,upper,size\n1,5,7,4\n")), testing::ElementsAre("1[5,7)4"));
}

TEST(TraceCsv, LineEndsBlanksCommentsQuotes) {
  EXPECT_THAT(Story(Parse("\xef\xbb\xbf# made by hand\r\n\r\nid, lower ,upper,size\r\n"
                          "\"a, \"\"b\"\"\", 1,2 ,3\r\n  \r\n# more\r\nc,2,3,4")),
              testing::ElementsAre("a, \"b\"[1,2)3", "c[2,3)4"));
}

TEST(TraceCsv, OptionalColumns) {
  const CsvInstance instance = Parse(
      "id,lower,upper,size,alignment,offset,gaps\n"
      "a,0,100,64,32,128,10-20 30-40@8:16\n"
      "b,0,100,64,,,\n");
  EXPECT_EQ(instance.buffers[0].alignment, 32);
  EXPECT_EQ(instance.buffers[0].offset, 128);
  ASSERT_EQ(instance.buffers[0].gaps.size(), 2);
  EXPECT_EQ(instance.buffers[0].gaps[0].upper, 20);
  EXPECT_EQ(instance.buffers[0].gaps[0].window_upper, 0);
  EXPECT_EQ(instance.buffers[0].gaps[1].window_lower, 8);
  EXPECT_EQ(instance.buffers[0].gaps[1].window_upper, 16);
  EXPECT_EQ(instance.buffers[1].alignment, 1);
  EXPECT_EQ(instance.buffers[1].offset, std::nullopt);
  EXPECT_EQ(Parse("id,lower,end,size,gaps\na,0,9,8,2-3\n").buffers[0].gaps[0].upper, 4);
}

TEST(TraceCsv, WrongInputsAreNamed) {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"", "f.csv:1: expected a header with the columns id, lower, upper and size, found no line"},
      {"# only\n\n", "f.csv:2: expected a header"},
      {"id,lower,size\n1,2,3\n", "f.csv:1: expected a header with the column upper, found"},
      {"lower,upper,size\n1,2,3\n", "f.csv:1: expected a header with the column id, found"},
      {"id,lower,start,upper,size\n", "f.csv:1: expected one column for lower, found another"},
      {"id,lower,upper,size\na,1,2\n", "f.csv:2: expected 4 fields, found 3"},
      {"id,lower,upper,size\na,1,2,3,4\n", "f.csv:2: expected 4 fields, found 5"},
      {"id,lower,upper,size\n\"a,1,2,0\n", "f.csv:2: expected closed quotes"},
      {"id,lower,upper,size\n\na,2,2,1\n", "f.csv:3: expected lower < upper, found 2 and 2"},
      {"id,lower,upper,size\na,3,2,1\n", "f.csv:2: expected lower < upper, found 3 and 2"},
      {"id,start,end,size\na,3,2,1\n", "f.csv:2: expected start <= end, found 3 and 2"},
      {"id,lower,upper,size\na,1,2,3\nb,1,2,3\na,5,6,7\n",
       "f.csv:4: expected an id of its own, found 'a' as in line 2"},
      {"id,lower,upper,size\na,-1,2,3\n",
       "f.csv:2: expected a whole number from 0 to 2^63 - 1 for "
       "lower, found '-1'"},
      {"id,lower,upper,size\na,1,2,-3\n", "for size, found '-3'"},
      {"id,lower,upper,size\na,1,2,9223372036854775808\n", "for size, found '9223372036854775808'"},
      {"id,lower,upper,size\na,1,2,1e3\n", "for size, found '1e3'"},
      {"id,lower,upper,size\na,1,2,0x10\n", "for size, found '0x10'"},
      {"id,lower,upper,size\na,1,,3\n", "for upper, found an empty field"},
      {"id,lower,upper,size\n,1,2,3\n", "f.csv:2: expected an id, found an empty field"},
      {"id,start,end,size\na,1,9223372036854775807,3\n", "f.csv:2: expected an end below 2^63 - 1"},
      {"id,lower,upper,size\na,1,2,72057594037927936\n",
       "f.csv:2: expected a size below 2^56, found 72057594037927936"},
      {"id,lower,upper,size,alignment\na,1,2,3,0\n", "f.csv:2: expected a power of two"},
      {"id,lower,upper,size,alignment\na,1,2,3,24\n",
       "f.csv:2: expected a power of two below 2^56 for alignment, found 24"},
      {"id,lower,upper,size,alignment\na,1,2,3,72057594037927936\n", "found 72057594037927936"},
      {"id,lower,upper,size,align\na,1,2,3,24\n", "found 'align' (did you mean 'alignment'?)"},
      {"id,lower,upper,sise\na,1,2,3\n", "expected a header with the column size"},
      {"id,lower,upper,size,ofset,gap\na,1,2,3,,\n", "found 'ofset' (did you mean 'offset'?)"},
      {"id,lower,upper,size,hint\na,1,2,3,24\n",
       "f.csv:1: expected the columns id, lower, upper, size, alignment, offset, gaps"},
      {"id,lower,upper,size,memory,apart\na,1,2,3,m,\n", "found 'memory'"},
      {"id,lower,upper,size,offset\na,1,2,3,-4\n", "for offset, found '-4'"},
      {"id,lower,upper,size,offset\na,1,2,3,9223372036854775807\n", "expected offset + size below"},
      {"id,lower,upper,size,gaps\na,1,9,3,4\n", "f.csv:2: expected a gap LOWER-UPPER"},
      {"id,lower,upper,size,gaps\na,1,9,3,4-12\n", "expected gaps in ascending order inside"},
      {"id,lower,upper,size,gaps\na,1,9,3,4-6 5-7\n", "expected gaps in ascending order inside"},
      {"id,lower,upper,size,gaps\na,1,9,3,4-6@1:4\n", "expected a window inside the buffer"},
      {"\x7f\x45\x4c\x46,\x01\n", "f.csv:1: expected a header"},
  };
  for (const Case& one : cases) {
    const auto instance = ParseCsv(one.text, "f.csv");
    ASSERT_FALSE(instance.ok()) << one.text;
    EXPECT_EQ(instance.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(instance.status().message()), testing::HasSubstr(one.message))
        << one.text;
  }
}

TEST(TraceCsv, UnknownColumnsAreLeftAsideOnRequest) {
  const CsvInstance instance =
      Parse("id,lower,upper,size,align,hint,note\x1b\na,0,3,4,64,8,x\n", true);
  EXPECT_THAT(Story(instance), testing::ElementsAre("a[0,3)4"));
  EXPECT_EQ(instance.buffers[0].alignment, 1);
  EXPECT_EQ(instance.ignored, "'align', 'hint', 'note?'");
  EXPECT_EQ(Parse("id,lower,upper,size\na,0,3,4\n", true).ignored, "");
}

TEST(TraceCsv, ASizeOfZeroCostsNothing) {
  const CsvInstance instance = Parse("id,lower,upper,size,gaps\na,0,3,0,1-2\nb,0,3,4,\nc,0,3,0,\n");
  EXPECT_EQ(instance.buffers[0].size, 0);
  EXPECT_EQ(Peak(instance).load, 4);
  const Statistics statistics = ComputeStatistics(instance, ToRecording(instance));
  EXPECT_EQ(statistics.max_load, 4u);
  EXPECT_EQ(statistics.buffers, 3u);
}

TEST(TraceCsv, OffsetsAreWrittenBesideTheOriginalColumns) {
  EXPECT_EQ(FormatCsv(Parse("size,x,id,lower,upper\n4,\"a,b\",b1,0,3\n5,,b2,3,9\n", true), {8, 0}),
            "size,x,id,lower,upper,offset\n4,\"a,b\",b1,0,3,8\n5,,b2,3,9,0\n");
  EXPECT_EQ(FormatCsv(Parse("id,lower,upper,size\na,1,2,3,,\n"), {8}),
            "id,lower,upper,size,offset\na,1,2,3,8\n");
  EXPECT_EQ(FormatCsv(Parse("id,offset,lower,upper,size\na,,0,3,4\nb,7,0,3,4\n"), {8, 7}),
            "id,offset,lower,upper,size\na,8,0,3,4\nb,7,0,3,4\n");
}

TEST(TraceCsv, MaxLoad) {
  EXPECT_EQ(Peak(Parse("id,lower,upper,size\na,0,3,4\nb,3,9,5\nc,0,9,10\n")).load, 15);
  EXPECT_EQ(Peak(Parse("id,lower,upper,size,gaps\na,0,9,8,2-5@0:3\nb,2,5,5,\n")).load, 8);
}

// The event of the peak is one of the instance as a recording, although gaps are no events of it.
TEST(TraceCsv, EventOfThePeak) {
  EXPECT_EQ(Peak(Parse("id,lower,upper,size\n")).event, 0);
  EXPECT_EQ(Peak(Parse("id,lower,upper,size\na,0,3,4\nb,3,9,5\nc,0,9,10\n")).event, 3);
  EXPECT_EQ(Peak(Parse("id,lower,upper,size,gaps\na,0,9,8,2-5\nb,2,5,5,\nc,6,7,1,\n")).event, 3);
}

// At one instant deaths come before births, so that the recording has the instance's load.
TEST(TraceCsv, AsARecording) {
  const CsvInstance instance =
      Parse("id,lower,upper,size,alignment\na,5,9,4,1\nb,0,5,10,64\nc,5,6,1,1\n");
  const Recording recording = ToRecording(instance);
  ASSERT_EQ(recording.allocations.size(), 3);
  EXPECT_EQ(recording.allocations[0].size, 10);
  EXPECT_EQ(recording.allocations[0].log2_alignment, 6);
  EXPECT_EQ(recording.allocations[0].birth, 0);
  EXPECT_EQ(recording.allocations[0].death, 1);
  EXPECT_EQ(recording.allocations[1].size, 4);
  EXPECT_EQ(recording.allocations[1].death, 5);
  EXPECT_EQ(recording.events, 6);
}

TEST(TraceCsv, PublicSuitesParse) {
  const std::filesystem::path suites = "../shared/benchmarks";
  std::filesystem::path root = std::filesystem::path(REPRISE_SOURCE_DIR) / suites;
  if (!std::filesystem::exists(root)) GTEST_SKIP() << root << " is not there";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".csv") continue;
    const auto instance = ReadCsv(entry.path().string());
    ASSERT_TRUE(instance.ok()) << instance.status();
    EXPECT_GT(instance->buffers.size(), 100);
    EXPECT_EQ(*DetectFormat(entry.path().string()), Format::kCsv);
    if (entry.path().parent_path().filename() == "minimalloc") {
      EXPECT_LE(Peak(*instance).load, 1048576);
    }
  }
}

}  // namespace
}  // namespace reprise::trace
