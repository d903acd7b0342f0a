#include "tests/unit/trace/random_recording.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/ledger.h"
#include "trace/reader.h"

namespace reprise::trace {
namespace {

Recording Tables() {
  Recording recording;
  recording.process = {.place = 0xfeedfacecafebeef,
                       .parent_place = 5,
                       .start_order = 3,
                       .executable = "/usr/bin/example",
                       .started_as = "link",
                       .build_id = "00ff",
                       .command = std::string("example\0a b\0", 12),
                       .environment = std::string("A=\xff\0", 5),
                       .unpreloadable = 2,
                       .peak_rss = 123'456'789,
                       .complete = true};
  recording.modules = {{"/usr/bin/example", "00ff", 0x555500000000},
                       {"/lib/with space \xff.so", "", 0x7f0000000000}};
  recording.stacks = {{}, {{0, 0x1234}}, {{1, 1}, {kNone, UINT64_MAX}, {0, 0x1234}}};
  recording.threads.resize(4);
  for (uint32_t i = 0; i < 4; ++i) {
    recording.threads[i].path = i * 0x123456789abcdef + 1;
    recording.threads[i].parent = i == 0 ? kNone : (i - 1) / 2;
    if (i == 2) recording.threads[i].name = "worker \xff";
  }
  return recording;
}

}  // namespace

Recording RandomRecording(uint64_t seed, uint64_t events) {
  std::mt19937_64 random(seed);
  const auto below = [&random](uint64_t n) { return random() % n; };
  Recording recording = Tables();
  const auto append = [&](const Event& event) { AppendEvent(recording, event); };
  Ledger ledger(recording, append);
  std::vector<uint64_t> live;
  uint64_t next_key = 1;
  const auto take = [&] {
    std::swap(live[below(live.size())], live.back());
    const uint64_t key = live.back();
    live.pop_back();
    return key;
  };
  const auto site = [&]() -> uint32_t {
    // Sites come in the order of their first use, as a reader would number them.
    const uint64_t choice = below(30);
    if (choice < recording.sites.size()) return static_cast<uint32_t>(choice);
    if (choice == 29) return kNone;
    Site added;
    added.module = below(3) == 0 ? kNone : static_cast<uint32_t>(below(2));
    added.offset = recording.sites.size() * 1000;
    added.depth = static_cast<uint32_t>(below(1 << 17));
    if (below(2) == 0) added.stack = static_cast<uint32_t>(below(recording.stacks.size()));
    recording.sites.push_back(added);
    return static_cast<uint32_t>(recording.sites.size() - 1);
  };
  uint64_t large_left = uint64_t{1} << 62;  // a recording has less than 2^63 bytes in all
  std::mt19937_64 marks(~seed);
  while (recording.events < events) {
    for (uint64_t left = marks() % 16; left < 2; ++left) {
      recording.marks.push_back({recording.events, static_cast<uint32_t>(marks() % 4)});
    }
    const auto thread = static_cast<uint32_t>(below(20) == 0 ? below(4) : 0);
    const uint64_t what = below(100);
    Event block;
    block.thread = thread;
    const uint64_t large = random() >> 8;
    const bool is_large = below(10) == 0 && large <= large_left;
    if (is_large) large_left -= large;
    block.size = is_large ? large : below(2000);
    if (what < 50 || live.empty()) {
      block.site = site();
      block.allocation_kind = static_cast<AllocationKind>(below(3));
      if (block.allocation_kind == AllocationKind::kAligned) {
        block.log2_alignment = static_cast<uint8_t>(below(20));
      }
      ledger.Allocate(next_key, block);
      live.push_back(next_key++);
    } else if (what < 85) {
      ledger.Free(take(), thread);
    } else if (what < 92) {
      block.allocation_kind = AllocationKind::kRealloc;
      block.site = site();
      const uint64_t choice = below(4);
      block.previous = ledger.Free(choice == 0 ? kNever : take(), thread);
      // Another thread comes in between now and then, or the thread itself (a signal handler).
      if (choice == 1 && !live.empty()) ledger.Free(take(), (thread + below(2)) % 4);
      ledger.Allocate(next_key, block);
      live.push_back(next_key++);
    } else if (what < 96) {
      ledger.Usable(live[below(live.size())], thread, below(5000));
    } else if (what < 98) {
      ledger.Free(kNever, thread);
    } else {
      // An address comes back without a free.
      block.site = site();
      ledger.Allocate(live[below(live.size())], block);
    }
  }
  return recording;
}

void ExpectSame(const Recording& actual, const Recording& expected) {
  EXPECT_EQ(actual.process.place, expected.process.place);
  EXPECT_EQ(actual.process.parent_place, expected.process.parent_place);
  EXPECT_EQ(actual.process.start_order, expected.process.start_order);
  EXPECT_EQ(actual.process.executable, expected.process.executable);
  EXPECT_EQ(actual.process.started_as, expected.process.started_as);
  EXPECT_EQ(actual.process.build_id, expected.process.build_id);
  EXPECT_EQ(actual.process.command, expected.process.command);
  EXPECT_EQ(actual.process.environment, expected.process.environment);
  EXPECT_EQ(actual.process.unpreloadable, expected.process.unpreloadable);
  EXPECT_EQ(actual.process.complete, expected.process.complete);
  EXPECT_EQ(actual.process.peak_rss, expected.process.peak_rss);
  EXPECT_EQ(actual.events, expected.events);
  EXPECT_EQ(actual.unmatched_frees, expected.unmatched_frees);
  EXPECT_EQ(actual.implied_frees, expected.implied_frees);
  EXPECT_EQ(actual.lost_events, expected.lost_events);
  EXPECT_EQ(actual.damage.size(), expected.damage.size());
  EXPECT_EQ(actual.usable_answers, expected.usable_answers);
  EXPECT_EQ(actual.marks, expected.marks);
  ASSERT_EQ(actual.modules.size(), expected.modules.size());
  for (size_t i = 0; i < expected.modules.size(); ++i) {
    EXPECT_EQ(actual.modules[i].path, expected.modules[i].path);
    EXPECT_EQ(actual.modules[i].build_id, expected.modules[i].build_id);
    EXPECT_EQ(actual.modules[i].base, expected.modules[i].base);
  }
  ASSERT_EQ(actual.sites.size(), expected.sites.size());
  for (size_t i = 0; i < expected.sites.size(); ++i) {
    EXPECT_EQ(actual.sites[i].module, expected.sites[i].module) << i;
    EXPECT_EQ(actual.sites[i].offset, expected.sites[i].offset) << i;
    EXPECT_EQ(actual.sites[i].depth, expected.sites[i].depth) << i;
    EXPECT_EQ(actual.sites[i].stack, expected.sites[i].stack) << i;
  }
  EXPECT_EQ(actual.stacks, expected.stacks);
  ASSERT_EQ(actual.threads.size(), expected.threads.size());
  for (size_t i = 0; i < expected.threads.size(); ++i) {
    EXPECT_EQ(actual.threads[i].path, expected.threads[i].path);
    EXPECT_EQ(actual.threads[i].parent, expected.threads[i].parent);
    EXPECT_EQ(actual.threads[i].name, expected.threads[i].name);
    EXPECT_EQ(actual.threads[i].first_event, expected.threads[i].first_event);
    EXPECT_EQ(actual.threads[i].end_event, expected.threads[i].end_event);
  }
  ASSERT_EQ(actual.allocations.size(), expected.allocations.size());
  for (size_t i = 0; i < expected.allocations.size(); ++i) {
    const Allocation& a = actual.allocations[i];
    const Allocation& b = expected.allocations[i];
    ASSERT_EQ(std::tie(a.birth, a.death, a.size, a.site, a.thread, a.free_thread, a.previous,
                       a.kind, a.log2_alignment),
              std::tie(b.birth, b.death, b.size, b.site, b.thread, b.free_thread, b.previous,
                       b.kind, b.log2_alignment))
        << "allocation " << i;
  }
}

}  // namespace reprise::trace
