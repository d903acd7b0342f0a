// Every truncation and every single-bit flip of small files of both formats: the reader says what
// it finds or refuses, and never crashes. Run under the sanitizers this is the reader's main test.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/unit/trace/random_recording.h"
#include "tests/unit/trace/spool_builder.h"
#include "tests/unit/trace/vectors.h"
#include "trace/reader.h"
#include "trace/trace_writer.h"

namespace reprise::trace {
namespace {

// What reading gives: events read, and whether anything was found wrong.
struct Outcome {
  bool refused = false;
  bool damaged = false;
  uint64_t events = 0;
};

Outcome Read(const std::string& bytes) {
  Recording recording;
  Outcome outcome;
  uint64_t next = 0;
  const absl::Status status =
      ReadTrace(MappedFile::FromBytes(bytes), "test", recording, [&](const Event& event) {
        if (event.kind == EventKind::kUsable) return;
        EXPECT_EQ(event.index, next);
        ++next;
        EXPECT_LT(event.thread, recording.threads.size());
        if (event.site != kNone) {
          EXPECT_LT(event.site, recording.sites.size());
          const uint32_t module = recording.sites[event.site].module;
          EXPECT_TRUE(module == kNone || module < recording.modules.size());
        }
      });
  EXPECT_EQ(recording.events, next);
  uint64_t latest = 0;
  for (const Mark& mark : recording.marks) {
    EXPECT_LT(mark.thread, recording.threads.size());
    EXPECT_GE(mark.event, latest);
    latest = mark.event;
  }
  EXPECT_LE(latest, recording.events);
  outcome.refused = !status.ok();
  outcome.damaged = !recording.damage.empty();
  outcome.events = recording.events;
  return outcome;
}

std::string SmallTrace() {
  const std::string path = TestPath("small.trace");
  EXPECT_TRUE(WriteRecording(RandomRecording(3, 60), path).ok());
  return ReadFile(path);
}

SpoolBuilder SmallSpool() {
  SpoolBuilder spool;
  spool.Module("/bin/example", "\x01\x02", 0x1000, 0x9000, 0);
  spool.Thread(0, 0, 0, 1, 0);
  spool.Thread(1, 1, 0, 99, 0);
  for (uint64_t epoch = 1; epoch < 10; epoch += 6) {
    spool.Allocate(0, epoch, 0x1000, 10, kSpoolMalloc, SiteWord(0x1234, 3));
    spool.Allocate(1, epoch + 2, 0x2000, 20, kSpoolCalloc, SiteWord(0x1235, 4));
    spool.Free(1, epoch + 1, 0x1000, kSpoolReallocFree);
    spool.Words(1, {kSpoolMark});
    spool.Allocate(1, epoch + 3, 0x3000, 30, kSpoolReallocAlloc);
    spool.Usable(1, epoch + 4, 0x3000, 40);
    spool.Free(0, epoch + 5, 0x3000);
  }
  spool.Seal(0);
  return spool;
}

TEST(TraceDamage, EveryTruncationOfATrace) {
  for (const std::string& bytes : {SmallTrace(), DocumentVector("trace")}) {
    const uint64_t events = Read(bytes).events;
    ASSERT_FALSE(Read(bytes).damaged);
    for (size_t size = 0; size < bytes.size(); ++size) {
      const Outcome outcome = Read(bytes.substr(0, size));
      EXPECT_TRUE(outcome.refused || outcome.damaged) << size;
      EXPECT_LE(outcome.events, events) << size;
    }
  }
}

TEST(TraceDamage, EveryBitOfATrace) {
  for (std::string bytes : {SmallTrace(), DocumentVector("trace")}) {
    const uint64_t events = Read(bytes).events;
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
      const Outcome outcome = Read(bytes);
      EXPECT_TRUE(outcome.refused || outcome.damaged) << bit;
      EXPECT_LE(outcome.events, events) << bit;
      bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    }
  }
}

// The room for module records is empty for the greater part: one length stands for many.
void TruncateEverywhere(const SpoolBuilder& spool) {
  const std::string bytes = spool.Bytes();
  const uint64_t events = Read(bytes).events;
  const auto check = [&](size_t size) {
    const Outcome outcome = Read(bytes.substr(0, size));
    EXPECT_LE(outcome.events, events) << size;
    EXPECT_TRUE(outcome.refused || outcome.damaged || size > SpoolBuilder::ChunkOffset(1)) << size;
  };
  for (size_t size = 0; size < sizeof(SpoolHeader) + 16; ++size) check(size);
  for (size_t size = kSpoolHeaderBytes; size < kSpoolHeaderBytes + 100; ++size) check(size);
  for (size_t size = kSpoolHeaderBytes; size < kSpoolChunksOffset; size += 65521) check(size);
  for (const uint32_t chunk : {0, 1}) {
    const size_t begin = SpoolBuilder::ChunkOffset(chunk);
    for (size_t size = begin; size < begin + 400 && size < bytes.size(); ++size) check(size);
  }
}

TEST(TraceDamage, EveryTruncationOfASpool) {
  TruncateEverywhere(SmallSpool());
  TruncateEverywhere(VectorSpool());
}

void FlipEverywhere(const SpoolBuilder& spool) {
  const std::string path = TestPath("small.spool");
  spool.Write(path);
  const std::string bytes = spool.Bytes();
  // Flipped in place in a mapped file: copying a megabyte for each bit would take minutes.
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  const auto put = [&](size_t at, char byte) {
    std::fseek(file, static_cast<long>(at), SEEK_SET);
    std::fputc(byte, file);
    std::fflush(file);
  };
  const auto flip_all = [&](size_t begin, size_t end) {
    for (size_t bit = begin * 8; bit < end * 8 && bit / 8 < bytes.size(); ++bit) {
      put(bit / 8, static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8));
      LoadRecording(path).IgnoreError();
      put(bit / 8, bytes[bit / 8]);
    }
  };
  flip_all(0, sizeof(SpoolHeader));
  flip_all(kSpoolHeaderBytes, kSpoolHeaderBytes + 100);
  for (const uint32_t chunk : {0, 1}) {
    const size_t begin = SpoolBuilder::ChunkOffset(chunk);
    flip_all(begin, begin + sizeof(SpoolChunk) + spool.EventBytes(chunk) + 32);
  }
  std::fclose(file);
}

TEST(TraceDamage, EveryBitOfASpool) {
  FlipEverywhere(SmallSpool());
  FlipEverywhere(VectorSpool());
}

// In a sealed chunk no flip goes unnoticed.
TEST(TraceDamage, SealedChunksNoticeEveryBit) {
  const SpoolBuilder spool = SmallSpool();
  std::string bytes = spool.Bytes();
  const size_t begin = SpoolBuilder::ChunkOffset(0) + sizeof(SpoolChunk);
  for (size_t bit = begin * 8; bit < (begin + spool.EventBytes(0)) * 8; bit += 3) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_TRUE(Read(bytes).damaged) << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

// kill -9 in the middle of an event: what was published before is all there.
TEST(TraceDamage, AKilledWriterLosesOnlyTheEventItWasWriting) {
  SpoolBuilder spool;
  spool.header.complete = 0;
  spool.Thread(0, 0, 0, 1, 0);
  spool.Allocate(0, 1, 0x1000, 10);
  // Word 0 says "pass over" until the others are there; those may look like events.
  for (uint64_t low = 0; low < 16; ++low) {
    for (const uint64_t size : {uint64_t{20}, low, low | uint64_t{6} << 56}) {
      SpoolBuilder killed = spool;
      killed.Words(0, {kSpoolSkip | uint64_t{3} << 20, 0x1230 | low, size});
      killed.Words(0, std::vector<uint64_t>(100));
      const Outcome outcome = Read(killed.Bytes());
      EXPECT_FALSE(outcome.refused);
      EXPECT_FALSE(outcome.damaged);
      EXPECT_EQ(outcome.events, 1);
    }
  }
}

}  // namespace
}  // namespace reprise::trace
