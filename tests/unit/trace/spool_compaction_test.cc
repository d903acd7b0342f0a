// A spool that is compacted while its process writes to it gives the same bytes as one that is
// compacted afterwards, or the attempt is given up.
#include "trace/spool_compaction.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <vector>

#include "tests/unit/trace/spool_builder.h"
#include "trace/spool_drain.h"
#include "trace/trace_writer.h"

namespace reprise::trace {
namespace {

constexpr uint64_t kChunks = 400;  // that have room in their places
constexpr uint64_t kWords = (kSpoolChunkBytes - sizeof(SpoolChunk)) / 8;

// Writes a spool as interpose/record/spool_chunks.cc does, all threads from this one.
class Process {
 public:
  explicit Process(const std::string& path) {
    SpoolBuilder builder;
    builder.Module("/bin/example", "ab", 0x1000, 0x8000, 0);
    builder.header.complete = 0;
    builder.header.copies_offset = kSpoolChunksOffset + kChunks * kSpoolChunkBytes;
    builder.Write(path);
    std::filesystem::resize_file(path, builder.header.copies_offset);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    bytes_ = static_cast<char*>(
        mmap(nullptr, builder.header.copies_offset, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    header_ = reinterpret_cast<SpoolHeader*>(bytes_);
  }
  ~Process() { munmap(bytes_, header_->copies_offset); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Write(uint32_t thread, const std::vector<uint64_t>& words) {
    if (threads_.size() <= thread) threads_.resize(thread + 1);
    if (threads_[thread].at + words.size() + 2 > threads_[thread].end) TakeChunk(thread);
    if (thread != latest_) Append(thread, {kSpoolEpoch, ++epoch_});
    latest_ = thread;
    Append(thread, words);
  }

  // Into the thread's latest epoch, however old that is.
  void WriteLate(uint32_t thread, const std::vector<uint64_t>& words) { Append(thread, words); }

  // `events` allocations and frees, of which some are of reallocs that fail, by turns of `threads`.
  void Work(uint64_t events, const std::vector<uint32_t>& threads) {
    for (uint64_t i = 0; i < events; ++i) {
      const uint32_t thread = threads[i / 40 % threads.size()];
      if (i % 8 == 0) Write(thread, wasted_);  // chunks are soon full
      const uint64_t pick = random_() % 100;
      if (pick < 45 || live_.empty()) {
        live_.push_back(next_ += 2);
        Write(thread, {kSpoolSmallMalloc | pick << 4 | next_ << 20, 0x1000 + pick * 8});
      } else if (pick < 55) {
        const uint64_t block = live_[random_() % live_.size()];
        Write(thread, {kSpoolReallocFree | block << 20, kSpoolReallocFailed | block << 20});
      } else {
        std::swap(live_[random_() % live_.size()], live_.back());
        Write(thread, {kSpoolFree | live_.back() << 20});
        live_.pop_back();
      }
    }
  }

  SpoolHeader* header() { return header_; }
  uint64_t NewEpoch() { return ++epoch_; }
  char* module_area() { return bytes_ + kSpoolHeaderBytes; }

 private:
  struct Thread {
    SpoolChunk* chunk = nullptr;
    uint64_t at = 0, end = 0;  // words
  };

  void Append(uint32_t thread, const std::vector<uint64_t>& words) {
    Thread& it = threads_[thread];
    if (it.at + words.size() > it.end) TakeChunk(thread);
    std::memcpy(reinterpret_cast<uint64_t*>(it.chunk + 1) + it.at, words.data(), words.size() * 8);
    it.at += words.size();
  }

  void TakeChunk(uint32_t thread) {
    Thread& it = threads_[thread];
    if (it.chunk != nullptr) {
      if (const uint64_t left = it.end - it.at; left > 0) {
        reinterpret_cast<uint64_t*>(it.chunk + 1)[it.at] = kSpoolSkip | kSpoolWaste | left << 20;
        it.at = it.end;
      }
      it.chunk->bytes = kWords * 8;
      header_->sealed[header_->sealed_count++ % kSpoolRing] = it.chunk->index;
    }
    uint64_t index = header_->chunks_used;
    if (header_->returned_count != header_->drained_count) {
      index = header_->drained[header_->returned_count++ % kSpoolRing];
      ++header_->rewritten_count;
    } else {
      ++header_->chunks_used;
    }
    auto* chunk =
        reinterpret_cast<SpoolChunk*>(bytes_ + kSpoolChunksOffset + index * kSpoolChunkBytes);
    std::memset(static_cast<void*>(chunk + 1), 0, kWords * 8);
    *chunk = {.magic = kSpoolChunkMagic,
              .index = static_cast<uint32_t>(index),
              .bytes = 0,
              .checksum = 0,
              .serial = ++serials_};
    it = {chunk, 0, kWords};
    latest_ = thread;
    Append(thread, {kSpoolThread, thread, uint64_t{thread} + 1, ++epoch_});
  }

  char* bytes_ = nullptr;
  SpoolHeader* header_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<uint64_t> live_;  // blocks
  uint64_t next_ = 0x100;       // block
  uint64_t epoch_ = 0, serials_ = 0;
  uint32_t latest_ = 0;
  const std::vector<uint64_t> wasted_ = [] {
    std::vector<uint64_t> words(120);
    words[0] = kSpoolSkip | kSpoolWaste | words.size() << 20;
    return words;
  }();
  std::mt19937_64 random_{20};
};

class SpoolCompactionTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = TestPath("a.spool");
    process_ = std::make_unique<Process>(path_);
    process_->Work(1, {0});
    auto drain = SpoolDrain::Open(path_);
    ASSERT_TRUE(drain.ok()) << drain.status();
    drain_ = std::make_unique<SpoolDrain>(*std::move(drain));
    auto compaction = SpoolCompaction::Open(path_, [this](const Event&) { ++handed_out_; });
    ASSERT_TRUE(compaction.ok()) << compaction.status();
    compaction_ = *std::move(compaction);
  }

  // Some rounds of work, after each of which the launcher gets its turn. False: it gave up.
  bool Run(int rounds, const std::vector<uint32_t>& threads) {
    for (int i = 0; i < rounds; ++i) {
      process_->Work(2'000, threads);
      drain_->Run();
      SpoolFollower::Outcome outcome;
      do {
        outcome = compaction_->Step();
      } while (outcome == SpoolFollower::Outcome::kHandedOut);
      if (outcome == SpoolFollower::Outcome::kGaveUp) return false;
    }
    return true;
  }

  void ExpectSameBytes() {
    EXPECT_GT(handed_out_, 10'000);
    const std::string during = TestPath("during.trace"), after = TestPath("after.trace");
    const auto finished = compaction_->Finish(during);
    ASSERT_TRUE(finished.ok()) << finished.status();
    const auto compacted = Compact(path_, after);
    ASSERT_TRUE(compacted.ok()) << compacted.status();
    EXPECT_EQ(finished->events, compacted->events);
    EXPECT_EQ(finished->damage.size(), 0);
    EXPECT_TRUE(ReadFile(during) == ReadFile(after));
  }

  void ExpectAborted() {
    EXPECT_GT(handed_out_, 10'000);
    const std::string during = TestPath("during.trace");
    EXPECT_EQ(compaction_->Finish(during).status().code(), absl::StatusCode::kAborted);
    EXPECT_FALSE(std::filesystem::exists(during));
    EXPECT_TRUE(Compact(path_, during).ok());
  }

  std::string path_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<SpoolDrain> drain_;
  std::unique_ptr<SpoolCompaction> compaction_;
  uint64_t handed_out_ = 0;
};

TEST_F(SpoolCompactionTest, OneThreadGivesTheSameBytes) {
  ASSERT_TRUE(Run(60, {0}));
  ExpectSameBytes();
}

TEST_F(SpoolCompactionTest, ThreadsThatFreeEachOthersBlocksGiveTheSameBytes) {
  ASSERT_TRUE(Run(60, {0, 1, 2}));
  ExpectSameBytes();
}

TEST_F(SpoolCompactionTest, AThreadThatIdlesHoldsNothingBack) {
  process_->Work(200, {0, 1, 2});
  ASSERT_TRUE(Run(50, {0, 2}));
  ASSERT_TRUE(Run(1, {0, 1, 2}));
  ASSERT_TRUE(Run(20, {0, 2}));
  ExpectSameBytes();
}

TEST_F(SpoolCompactionTest, AThreadThatBeginsLateGivesTheSameBytes) {
  ASSERT_TRUE(Run(50, {0}));
  ASSERT_TRUE(Run(10, {0, 1}));
  ExpectSameBytes();
}

TEST_F(SpoolCompactionTest, ALibraryLoadedMeanwhileGivesTheSameBytes) {
  ASSERT_TRUE(Run(50, {0}));
  SpoolBuilder builder;
  builder.Module("/lib/new.so", "cd", 0x1000, 0x1100, process_->NewEpoch());
  const std::string record =
      builder.Bytes().substr(kSpoolHeaderBytes, builder.header.module_bytes_used);
  std::memcpy(process_->module_area() + process_->header()->module_bytes_used, record.data(),
              record.size());
  process_->header()->module_bytes_used += record.size();
  process_->Work(40, {1});
  ASSERT_TRUE(Run(50, {0, 1}));
  ExpectSameBytes();
}

TEST_F(SpoolCompactionTest, AProcessKilledInTheMiddleOfAnEventGivesTheSameBytes) {
  ASSERT_TRUE(Run(60, {0, 1}));
  process_->Write(1, {kSpoolSkip | 3 << 20});
  ExpectSameBytes();
}

TEST_F(SpoolCompactionTest, WhatIsNotCopiedIsReadWhereItLies) {
  ASSERT_TRUE(Run(50, {0, 1}));
  process_->Work(60'000, {0, 1});  // the ring is full: most chunks are never offered
  drain_->Run();
  ASSERT_TRUE(Run(5, {0, 1}));
  ExpectSameBytes();
}

// A hook was stopped between looking for its epoch and writing its event.
TEST_F(SpoolCompactionTest, AnEventOfAnOldEpochEndsIt) {
  process_->Work(200, {0, 1});
  ASSERT_TRUE(Run(60, {0}));
  process_->WriteLate(1, {kSpoolFree | 0x50 << 20});
  ExpectAborted();
}

TEST_F(SpoolCompactionTest, AThreadWithAnEarlierNumberEndsIt) {
  ASSERT_TRUE(Run(50, {0, 2}));
  process_->Work(40, {1});
  ExpectAborted();
}

TEST_F(SpoolCompactionTest, AnotherFileInItsPlaceEndsIt) {
  ASSERT_TRUE(Run(50, {0}));
  std::filesystem::copy_file(path_, path_ + ".copy");
  std::filesystem::rename(path_ + ".copy", path_);
  ExpectAborted();
}

TEST_F(SpoolCompactionTest, NothingIsLeftOfOneThatIsNotFinished) {
  ASSERT_TRUE(Run(60, {0}));
  compaction_.reset();
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_EQ(entry.path(), path_);
  }
}

}  // namespace
}  // namespace reprise::trace
