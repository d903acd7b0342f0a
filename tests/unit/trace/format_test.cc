// docs/reference/trace_format.md tells the truth: its test vectors are read, and made, by this
// code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/trace/random_recording.h"
#include "tests/unit/trace/vectors.h"
#include "trace/chunk.h"
#include "trace/reader.h"
#include "trace/trace_writer.h"

namespace reprise::trace {
namespace {

Recording Load(const std::string& vector) {
  Recording recording;
  const absl::Status status =
      ReadTrace(MappedFile::FromBytes(DocumentVector(vector)), vector, recording,
                [&](const Event& event) { AppendEvent(recording, event); });
  EXPECT_TRUE(status.ok()) << status;
  return recording;
}

std::vector<Chunk> Chunks(const std::string& bytes) {
  std::vector<Damage> damage;
  ChunkScanner scanner({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                       sizeof(FileHeader), damage);
  std::vector<Chunk> chunks;
  for (Chunk chunk; scanner.Next(chunk);) chunks.push_back(chunk);
  EXPECT_TRUE(damage.empty());
  return chunks;
}

TEST(TraceFormatDocument, VectorsTellTheirStory) {
  for (const char* vector : {"spool", "trace"}) {
    SCOPED_TRACE(vector);
    const Recording recording = Load(vector);
    EXPECT_TRUE(recording.damage.empty());
    EXPECT_EQ(recording.events, 6);
    EXPECT_EQ(recording.unmatched_frees, 1);
    EXPECT_EQ(recording.process.build_id, "abcd");
    ASSERT_EQ(recording.threads.size(), 2);
    EXPECT_EQ(recording.threads[1].path, 0x1122334455667788);
    ASSERT_EQ(recording.allocations.size(), 3);
    EXPECT_EQ(recording.allocations[0].size, 100);
    EXPECT_EQ(recording.allocations[0].death, 2);
    EXPECT_EQ(recording.allocations[1].size, 40);
    EXPECT_EQ(recording.allocations[1].kind, AllocationKind::kCalloc);
    EXPECT_EQ(recording.allocations[1].death, 3);
    EXPECT_EQ(recording.allocations[2].size, 200);
    EXPECT_EQ(recording.allocations[2].previous, 0);
    EXPECT_EQ(recording.allocations[2].death, kNever);
    ASSERT_EQ(recording.sites.size(), 3);
    EXPECT_EQ(recording.sites[1].offset, 0x1300);
    EXPECT_EQ(recording.sites[1].depth, 9);
    EXPECT_EQ(recording.sites[1].stack, kNone);
    EXPECT_EQ(recording.sites[0].offset, 0x1234);
    EXPECT_EQ(recording.sites[0].depth, 3);
    EXPECT_EQ(recording.sites[0].stack, 0);
    EXPECT_THAT(recording.stacks, testing::ElementsAre(testing::ElementsAre(Frame{0, 0x1400})));
    EXPECT_THAT(recording.usable_answers, testing::ElementsAre(testing::Pair(2, 216)));
  }
  ExpectSame(Load("trace"), Load("spool"));
}

TEST(TraceFormatDocument, SpoolVectorIsWhatTheHeaderDescribes) {
  EXPECT_EQ(DocumentVector("spool"), VectorSpool().Bytes());
}

// The compressed bytes depend on the version of zstd, the content does not.
TEST(TraceFormatDocument, SpoolVectorBecomesTheTraceVector) {
  const std::string from = TestPath("vector.spool");
  const std::string to = TestPath("vector.trace");
  WriteFile(from, DocumentVector("spool"));
  ASSERT_TRUE(Compact(from, to).ok());
  const std::vector<Chunk> expected = Chunks(DocumentVector("trace"));
  const std::vector<Chunk> actual = Chunks(ReadFile(to));
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].type, expected[i].type);
    EXPECT_EQ(actual[i].raw, expected[i].raw) << i;
  }
  EXPECT_EQ(ReadFile(to).substr(0, sizeof(FileHeader)),
            DocumentVector("trace").substr(0, sizeof(FileHeader)));
}

}  // namespace
}  // namespace reprise::trace
