// Plans that are damaged but have a right checksum: refused, or served without harm.
#include "replay/plan/plan_verifier.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "replay/plan/plan_builder.h"
#include "replay/plan/range_set.h"
#include "replay/plan/stream.h"
#include "tests/unit/effort.h"
#include "tests/unit/plan/recordings.h"

namespace reprise::replay {
namespace {

TEST(RangeSetTest, AgreesWithATableOfNumbers) {
  std::mt19937_64 random(7);
  for (const uint64_t size : {1, 63, 64, 65, 5'000, 300'000}) {
    absl::StatusOr<RangeSet> set = RangeSet::Make(size);
    ASSERT_TRUE(set.ok());
    std::vector<bool> taken(size);
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (int step = 0; step < 4'000; ++step) {
      if (!ranges.empty() && random() % 3 == 0) {
        std::swap(ranges[random() % ranges.size()], ranges.back());
        const auto [begin, end] = ranges.back();
        ranges.pop_back();
        set->Remove(begin, end);
        std::fill(taken.begin() + begin, taken.begin() + end, false);
        continue;
      }
      const uint64_t begin = random() % size;
      const uint64_t most = size - begin;
      const uint64_t length = 1 + random() % std::min<uint64_t>(most, uint64_t{1} << random() % 19);
      const auto first = taken.begin() + begin;
      const bool free = std::find(first, first + length, true) == first + length;
      ASSERT_EQ(set->IsFree(begin, begin + length), free) << begin << " " << length;
      uint64_t next = 0;  // the nearest end behind it
      for (const auto& [from, end] : ranges) {
        if (end > begin && (next == 0 || end < next)) next = end;
      }
      ASSERT_EQ(set->EndOf(begin), next) << begin;
      if (!free) continue;
      ASSERT_TRUE(set->Add(begin, begin + length));
      std::fill(first, first + length, true);
      ranges.emplace_back(begin, begin + length);
    }
  }
}

// A file in memory, whose checksum is made right.
class File {
 public:
  explicit File(std::string bytes) : bytes_(std::move(bytes)) {
    descriptor_ = memfd_create("plan", MFD_CLOEXEC);
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::string& bytes() { return bytes_; }
  PlanHeader header() const {
    PlanHeader header;
    std::memcpy(&header, bytes_.data(), sizeof(header));
    return header;
  }
  absl::StatusOr<PlanFile> Read() {
    PlanHeader sealed = header();
    sealed.checksum = 0;
    std::memcpy(bytes_.data(), &sealed, sizeof(sealed));
    sealed.checksum = XXH3_64bits(bytes_.data(), bytes_.size());
    std::memcpy(bytes_.data(), &sealed, sizeof(sealed));
    if (pwrite(descriptor_, bytes_.data(), bytes_.size(), 0) !=
        static_cast<ssize_t>(bytes_.size())) {
      return absl::UnavailableError("memfd");
    }
    return PlanFile::Read("a.plan", descriptor_);
  }
  absl::Status Verify() {
    absl::StatusOr<PlanFile> plan = Read();
    return plan.ok() ? VerifyPlan(*plan, "a.plan") : plan.status();
  }

 private:
  std::string bytes_;
  int descriptor_;
};

std::string PlanBytes(const trace::Recording& recording, LaneMode mode) {
  planner::Options options;
  options.iterations = 1;  // not seconds: the same plan on every machine
  options.threads = 1;
  absl::StatusOr<BuiltPlan> built = BuildPlan(recording, options, mode);
  EXPECT_TRUE(built.ok()) << built.status();
  return std::move(built->bytes);
}

std::string PlanBytes(const RecordingShape& shape, uint64_t seed) {
  return PlanBytes(RandomRecording(shape, seed), LaneMode::kThread);
}

// Its threads have large blocks one after the other: one box is all that may be.
std::string BuildWithoutSomeBoxes(RecordingShape shape, uint64_t seed) {
  shape.threads = 3;
  trace::Recording recording = RandomRecording(shape, seed);
  for (trace::Thread& thread : recording.threads) {
    thread.first_event = 0;
    thread.end_event = recording.events + 6;
  }
  for (uint32_t thread = 0; thread < shape.threads; ++thread) {
    trace::Allocation large = recording.allocations.front();
    large.birth = recording.events++;
    large.death = recording.events++;
    large.size = 64 << 20;
    large.thread = large.free_thread = thread;
    recording.allocations.push_back(large);
  }
  return PlanBytes(recording, LaneMode::kAuto);
}

int64_t WithoutBoxes(const PlanFile& plan) {
  const auto* lanes = plan.table<PlanLane>(plan.header().lanes);
  return std::count_if(lanes, lanes + plan.header().lanes.count,
                       [](const PlanLane& lane) { return lane.box_bytes == 0; });
}

// What a process that follows a plan does, as simply as can be: live blocks by offset, at least as
// long as each is said to be usable; through each loop three times. Empty, or which promise is
// broken.
std::string Serve(const PlanFile& plan) {
  const auto* keys = plan.table<PlanKey>(plan.header().keys);
  const auto* lanes = plan.table<PlanLane>(plan.header().lanes);
  for (uint64_t number = 0; number < plan.header().lanes.count; ++number) {
    const PlanLane& lane = lanes[number];
    const auto* at = plan.table<uint32_t>(plan.header().words) + lane.first_word;
    const auto* end = at + lane.words;
    const auto* first = at;
    const auto* loop = plan.table<PlanLoop>(plan.header().loops) + lane.first_loop;
    const auto* last_loop = loop + lane.loops;
    int passes = 1;
    std::map<uint64_t, uint64_t> live;  // where blocks begin, and end; bytes
    if (lane.box_bytes == 0) {  // nothing is served: it is looked at whether it begins with a key
      const Word word = DecodeWord(at, lane.offset_bits);
      if (word.kind != Word::kAllocation || word.length >= lane.words) return "no first allocation";
      if (word.key >= plan.header().keys.count) return "no such key";
      continue;
    }
    for (Word word{}; word = DecodeWord(at, lane.offset_bits), word.kind != Word::kEnded;
         at += word.length) {
      const uint64_t begin = word.granule * kGranule;
      if (at >= end) return "it leaves the words";
      if (word.kind == Word::kAllocation) {
        if (word.key >= plan.header().keys.count) return "no such key";
        const PlanKey& key = keys[word.key];
        const uint64_t until = begin + std::max<uint64_t>(key.usable, 8 * ShapeUnits(key.shape));
        if (until > lane.box_bytes) return "outside the box";
        if ((lane.box_offset + begin) % (ShapeStep(key.shape) * kGranule) != 0) return "alignment";
        const auto next = live.lower_bound(begin);
        if (next != live.end() && next->first < until) return "overlaps the next one";
        if (next != live.begin() && std::prev(next)->second > begin) return "overlaps one before";
        live[begin] = until;
      } else if (word.kind == Word::kFree || word.kind == Word::kRemoteFree) {
        if (live.erase(begin) != 1) return "frees what is not live";
      } else if (word.kind == Word::kIdlePages) {
        const uint64_t from = word.granule * kBoxAlignment;
        const uint64_t to = from + uint64_t{word.key} * kBoxAlignment;
        if (to > lane.box_bytes) return "idle outside the box";
        const auto next = live.lower_bound(from);
        if (next != live.end() && next->first < to) return "gives pages of a live block back";
        if (next != live.begin() && std::prev(next)->second > from) return "gives live pages back";
      } else if (word.kind == Word::kLoopEnd) {
        if (loop == last_loop) return "ends a loop that is none";
        if (passes++ < 3) {
          at = first + loop->first_word - word.length;
        } else {
          passes = 1;
          ++loop;
        }
      }
    }
    if (at + 1 != end) return "it ends early";
  }
  return {};
}

TEST(PlanVerifierTest, TakesEveryPlanThatIsMade) {
  for (uint64_t seed = 1; seed <= Rounds(24); ++seed) {
    RecordingShape shape;
    shape.allocations = seed % 8 == 0 ? 60'000 : 3'000;
    shape.threads = seed % 5 + 1;
    shape.phases = std::min<uint32_t>(shape.threads, seed % 3 + 1);
    shape.sites = seed % 7 == 0 ? 9'000 : 20;
    shape.most_bytes = seed % 6 == 0 ? 3 << 20 : 400;
    shape.magnitudes = seed % 2 == 0;
    shape.remote_frees = 0.1 * static_cast<double>(seed % 3);
    shape.reallocs = 0.1;
    shape.most_log2_alignment = seed % 4 == 0 ? 23 : 12;
    File file(PlanBytes(shape, seed));
    EXPECT_TRUE(file.Verify().ok()) << seed << ": " << file.Verify();
  }
}

// Of small plans every word is changed in several ways, and the checksum made right: what is still
// taken for a plan keeps all promises.
TEST(PlanVerifierTest, AChangedWordIsRefusedOrDoesNoHarm) {
  int refused = 0, taken = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    RecordingShape shape;
    shape.allocations = seed == 4 ? 250 : 60;
    shape.threads = seed % 3 + 1;
    shape.sites = 12;
    shape.remote_frees = 0.3;
    shape.aligned = 0.1;
    const LoopShape loop{.prefix = 5, .body = 12, .carried = 0.3, .longest = 2};
    File file(seed == 6   ? PlanBytes(LoopRecording(loop, seed), LaneMode::kThread)
              : seed == 5 ? BuildWithoutSomeBoxes(shape, seed)
                          : PlanBytes(shape, seed));
    EXPECT_EQ(file.header().loops.count, seed == 6 ? 1 : 0);
    const std::string right = file.bytes();
    ASSERT_TRUE(file.Verify().ok()) << file.Verify();
    EXPECT_EQ(WithoutBoxes(*file.Read()) > 0, seed == 5);
    for (size_t at = 0; at + sizeof(uint32_t) <= right.size(); at += sizeof(uint32_t)) {
      uint32_t word;
      std::memcpy(&word, right.data() + at, sizeof(word));
      // Padding: all alike.
      if (word == 0 && at % 64 != 0) continue;
      for (const uint32_t changed :
           {word + 1, word - 1, word ^ 1u << 31, word ^ 1u << 16, 0u, 0xffffffffu, 0xfffffffcu}) {
        file.bytes() = right;
        std::memcpy(file.bytes().data() + at, &changed, sizeof(changed));
        const absl::StatusOr<PlanFile> plan = file.Read();
        if (!plan.ok() || !VerifyPlan(*plan, "a.plan").ok()) {
          ++refused;
          continue;
        }
        ++taken;
        ASSERT_EQ(Serve(*plan), "")
            << "seed " << seed << ", byte " << at << ": " << word << " to " << changed;
      }
    }
  }
  // Names, build ids and what only statistics read may be changed.
  EXPECT_GT(refused, taken);
  EXPECT_GT(taken, 0);
}

// Two changes at a time, of a block's allocation and of its free, are what a forger would make.
TEST(PlanVerifierTest, ConsistentForgeriesAreRefused) {
  RecordingShape shape;
  shape.allocations = 200;
  shape.never_freed = 0.2;
  File file(PlanBytes(shape, 5));
  ASSERT_TRUE(file.Verify().ok());
  const std::string right = file.bytes();
  const PlanHeader header = file.header();
  PlanLane lane;
  std::memcpy(&lane, right.data() + header.lanes.offset, sizeof(lane));
  int forged = 0;
  std::mt19937_64 random(3);
  for (int attempt = 0; attempt < 3'000; ++attempt) {
    file.bytes() = right;
    auto* words = reinterpret_cast<uint32_t*>(file.bytes().data() + header.words.offset);
    std::vector<uint32_t*> allocations;
    const uint32_t* end = words + lane.first_word;
    for (Word word{}; word = DecodeWord(end, lane.offset_bits), word.kind != Word::kEnded;
         end += word.length) {
      if (word.kind == Word::kAllocation && word.length == 1) {
        allocations.push_back(words + (end - words));
      }
    }
    uint32_t* allocation = allocations[random() % allocations.size()];
    const uint32_t granule = DecodeWord(allocation, lane.offset_bits).granule;
    const auto by = 1 + static_cast<uint32_t>(random() % 3);
    *allocation += by;
    for (uint32_t* at = allocation + 1; at < end; at += DecodeWord(at, lane.offset_bits).length) {
      const Word word = DecodeWord(at, lane.offset_bits);
      if (word.kind != Word::kFree || word.granule != granule) continue;
      *at += by;
      break;
    }
    const absl::StatusOr<PlanFile> plan = file.Read();
    ASSERT_TRUE(plan.ok()) << plan.status();
    if (VerifyPlan(*plan, "a.plan").ok()) {
      ASSERT_EQ(Serve(*plan), "");
    } else {
      ++forged;
    }
  }
  EXPECT_GT(forged, 1'000);
}

// A loop that begins or ends elsewhere, with a table and words that fit each other: a pass would
// leave other blocks live than it began with.
TEST(PlanVerifierTest, AForgedLoopTableIsRefused) {
  int refused = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const LoopShape shape{.prefix = 10, .body = 150, .carried = 0.2};
    File file(PlanBytes(LoopRecording(shape, seed), LaneMode::kThread));
    const std::string right = file.bytes();
    const PlanHeader header = file.header();
    ASSERT_EQ(header.loops.count, 1);
    ASSERT_TRUE(file.Verify().ok()) << file.Verify();
    auto* loop = reinterpret_cast<PlanLoop*>(file.bytes().data() + header.loops.offset);
    const auto expect_refused = [&](auto forge) {
      forge(*loop);
      const absl::StatusOr<PlanFile> plan = file.Read();
      if (!plan.ok() || !VerifyPlan(*plan, "a.plan").ok()) {
        ++refused;
      } else {
        EXPECT_EQ(Serve(*plan), "");
      }
      file.bytes() = right;
    };
    for (uint32_t by = 1; by < 20; ++by) {
      expect_refused([&](PlanLoop& it) {
        it.first_word += by;
        it.period_words = it.words -= by;
      });
      expect_refused([&](PlanLoop& it) {
        it.first_word -= by;
        it.period_words = it.words += by;
      });
      expect_refused([&](PlanLoop& it) { it.words -= by; });
      expect_refused([&](PlanLoop& it) { it.blocks += by; });
    }
    expect_refused([](PlanLoop& it) { it.period_words = 1; });
    expect_refused([](PlanLoop& it) { it.iterations = 0; });
    expect_refused([](PlanLoop& it) { it.passes = 0; });
  }
  EXPECT_GT(refused, 3 * (4 * 19 + 3) - 12);
}

TEST(PlanVerifierTest, SaysWhere) {
  File file(PlanBytes({}, 1));
  auto* words = reinterpret_cast<uint32_t*>(file.bytes().data() + file.header().words.offset);
  words[0] = kTurn;
  EXPECT_THAT(std::string(file.Verify().message()),
              testing::HasSubstr("a.plan: damaged: lane 0, word "));
}

// Many lanes that all name the same words would take time without end.
TEST(PlanVerifierTest, LanesMayNotShareTheirWords) {
  RecordingShape shape;
  shape.threads = 2;
  File file(PlanBytes(shape, 2));
  const PlanHeader header = file.header();
  PlanLane lanes[2];
  std::memcpy(lanes, file.bytes().data() + header.lanes.offset, sizeof(lanes));
  lanes[1] = lanes[0];
  std::memcpy(file.bytes().data() + header.lanes.offset, lanes, sizeof(lanes));
  EXPECT_THAT(std::string(file.Verify().message()), testing::HasSubstr("one after the other"));
}

}  // namespace
}  // namespace reprise::replay
