// Android's malloc text: what its lines mean, and what is said of those that mean nothing.
#include "trace/formats/android.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/trace/random_recording.h"
#include "trace/format.h"
#include "trace/reader.h"

namespace reprise::trace {
namespace {

absl::StatusOr<Recording> ParseAndroid(const std::string& text) {
  Recording recording;
  const absl::Status status = ReadTrace(MappedFile::FromBytes(text), "f.txt", recording,
                                        [&](const Event& event) { AppendEvent(recording, event); });
  if (!status.ok()) return status;
  return recording;
}

TEST(TraceAndroid, EveryCall) {
  const auto recording = ParseAndroid(
      "202: malloc 0xb4827400 1024\n"
      "# a remark\r\n"
      "\n"
      "202: calloc 0xb4827800 17 8\r\n"
      "303: memalign 0xb4828000 64 100 171 172\n"
      "303: realloc 0xb4829000 0xb4827400 80\n"
      "303: realloc 0xb482a000 0x0 76\n"
      "202: free 0xb482a000\n"
      "202: free 0x0\n"
      "202: realloc 0x0 0xb4829000 0\n"
      "202: realloc 0x0 0xb4828000 99\n"
      "202: malloc 0x0 12345\n"
      "202: free 0xdead0\n"
      "202: thread_done 0x0\n");
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_EQ(recording->events, 9);
  EXPECT_EQ(recording->unmatched_frees, 1);
  ASSERT_EQ(recording->threads.size(), 2);
  EXPECT_EQ(recording->threads[1].parent, 0);
  ASSERT_EQ(recording->allocations.size(), 5);
  const auto& a = recording->allocations;
  EXPECT_EQ(a[0].size, 1024);
  EXPECT_EQ(a[0].death, 3);
  EXPECT_EQ(a[0].free_thread, 1);
  EXPECT_EQ(a[1].size, 136);
  EXPECT_EQ(a[1].kind, AllocationKind::kCalloc);
  EXPECT_EQ(a[1].death, kNever);
  EXPECT_EQ(a[2].log2_alignment, 6);
  EXPECT_EQ(a[2].death, kNever);  // its realloc failed
  EXPECT_EQ(a[3].kind, AllocationKind::kRealloc);
  EXPECT_EQ(a[3].previous, 0);
  EXPECT_EQ(a[3].death, 7);  // realloc to 0 freed it
  EXPECT_EQ(a[4].size, 76);
  EXPECT_EQ(a[4].kind, AllocationKind::kMalloc);
}

TEST(TraceAndroid, WrongLinesAreNamed) {
  struct Case {
    std::string text;
    const char* message;
  };
  std::string large;
  for (int i = 1; i <= 129; ++i) large += absl::StrCat("1: malloc ", i, "0 72057594037927935\n");
  const Case cases[] = {
      {"1: malloc 0x10 1\n1: mallok 0x20 1\n",
       "f.txt:2: expected malloc, calloc, memalign, realloc"},
      {"1: malloc 0x10\n", "f.txt:1: expected malloc PTR SIZE, found '1: malloc 0x10'"},
      {"1: malloc 0x10 -1\n", "f.txt:1: expected malloc PTR SIZE"},
      {"1: malloc zzz 1\n", "f.txt:1: expected malloc PTR SIZE"},
      {"1: malloc 0x10 1 2\n", "f.txt:1: expected malloc PTR SIZE"},
      {"1: malloc 0x10 1 2 then\n", "f.txt:1: expected malloc PTR SIZE"},
      {"1: malloc 0x10 99999999999999999999\n", "f.txt:1: expected malloc PTR SIZE"},
      {"1: malloc 0x10 72057594037927936\n", "f.txt:1: expected a size below 2^56"},
      {"1: calloc 0x10 4294967296 4294967296\n", "f.txt:1: expected COUNT times SIZE below 2^56"},
      {"1: memalign 0x10 24 8\n",
       "f.txt:1: expected an alignment that is a power of two below 2^56, found 24"},
      {"1: memalign 0x10 9223372036854775808 8\n",
       "f.txt:1: expected an alignment that is a power of two below 2^56, found "
       "9223372036854775808"},
      {large, "f.txt:129: expected sizes whose sum is below 2^63, found 72057594037927935 more"},
      {"1: malloc 0x10 1\nrubbish\n", "f.txt:2: expected TID: CALL ..., found 'rubbish'"},
      {"1: malloc 0x10 1\n1:\n", "f.txt:2: expected TID: CALL ..., found '1:'"},
  };
  for (const Case& one : cases) {
    const auto recording = ParseAndroid(one.text);
    ASSERT_FALSE(recording.ok()) << one.text;
    EXPECT_EQ(recording.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(recording.status().message()), testing::StartsWith(one.message));
  }
}

// What is written as text and read again has the same births, deaths and sizes.
TEST(TraceAndroid, TextComesBack) {
  const Recording expected = RandomRecording(11, 2000);
  std::string text;
  const auto write = [&](const std::string& line) { text += line; };
  AndroidWriter writer(write);
  ForEachEvent(expected, [&](const Event& event) { writer.Add(event); });
  writer.Finish();
  const auto actual = ParseAndroid(text);
  ASSERT_TRUE(actual.ok()) << actual.status();
  EXPECT_EQ(actual->events, expected.events);
  EXPECT_EQ(actual->unmatched_frees, expected.unmatched_frees);
  ASSERT_EQ(actual->allocations.size(), expected.allocations.size());
  for (size_t i = 0; i < expected.allocations.size(); ++i) {
    EXPECT_EQ(actual->allocations[i].birth, expected.allocations[i].birth);
    EXPECT_EQ(actual->allocations[i].death, expected.allocations[i].death);
    EXPECT_EQ(actual->allocations[i].size, expected.allocations[i].size);
  }
}

TEST(TraceFormat, ContentTells) {
  const auto detect = [](const std::string& bytes, const char* name) {
    return DetectFormat(MappedFile::FromBytes(bytes), name);
  };
  EXPECT_EQ(detect("12: free 0x0\n", "x"), Format::kAndroid);
  EXPECT_EQ(detect("# hello\n\n12: free 0x0\n", "x.csv"), Format::kAndroid);
  EXPECT_EQ(detect("id,lower,upper,size\n", "x"), Format::kCsv);
  EXPECT_EQ(detect("", "x.csv"), Format::kCsv);
  EXPECT_EQ(detect("rubbish", "x.csv"), Format::kCsv);
  EXPECT_EQ(detect(" {\"nodes\": []}", "x"), Format::kJson);
  EXPECT_EQ(detect("", "x.trace"), Format::kUnknown);
  EXPECT_EQ(detect(std::string("\0,\0", 3), "x"), Format::kUnknown);
  EXPECT_EQ(DetectFormat("/nonexistent").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace reprise::trace
