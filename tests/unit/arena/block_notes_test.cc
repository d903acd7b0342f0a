// Notes of blocks: of more lengths than codes of one byte.
#include "replay/arena/block_notes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "replay/plan/plan_format.h"

namespace reprise::replay {
namespace {

uint64_t Granules(const PlanKey& key) { return (key.usable + kGranule - 1) / kGranule; }

TEST(BlockNotesTest, TellsWhatIsLiveAndWhatIsUsableInIt) {
  constexpr uint64_t kEnd = 1 << 16;
  constexpr uint32_t kKeys = 900;
  std::vector<PlanKey> keys;
  for (uint32_t key = 0; key < kKeys; ++key) {
    const uint64_t usable = 8 * (1 + key * 7919 % kKeys);
    keys.push_back({PlainShape(usable), 0, kNoModule, 0, usable});
  }
  std::vector<char> memory(BlockNotes::MemoryFor(kEnd, kKeys));
  BlockNotes notes;
  notes.Attach(memory.data(), kKeys);
  notes.Start(keys.data(), kKeys, [](const PlanKey*) {});
  std::map<uint64_t, uint32_t> live;  // key, by granule
  std::mt19937_64 random(1);
  uint64_t unknown = 0;
  for (int round = 0; round < 100000; ++round) {
    const auto key = static_cast<uint32_t>(random() % kKeys);
    const uint64_t granules = Granules(keys[key]);
    const uint64_t granule = random() % (kEnd - granules);
    // Whatever was there dies.
    auto at = live.lower_bound(granule);
    if (at != live.begin() &&
        std::prev(at)->first + Granules(keys[std::prev(at)->second]) > granule) {
      --at;
    }
    while (at != live.end() && at->first < granule + granules) {
      notes.Forget(at->first);
      at = live.erase(at);
    }
    notes.Note(granule, key);
    live[granule] = key;
    for (uint64_t near = granule; near < granule + 8 && near < kEnd; ++near) {
      const auto found = live.find(near);
      if (found == live.end()) {
        ASSERT_FALSE(notes.Has(near));
        ASSERT_EQ(notes.UsableAt(near), 0);
      } else if (notes.Has(near)) {
        ASSERT_EQ(notes.UsableAt(near), keys[found->second].usable);
      } else {
        ++unknown;
      }
    }
  }
  EXPECT_LT(unknown, 2000);  // of the one length of a granule whose key comes late
  notes.Clear(kEnd);
  for (uint64_t granule = 0; granule < kEnd; ++granule) ASSERT_FALSE(notes.Has(granule));
}

// A length that comes late and has no room for a longer code is not known, and no other either.
TEST(BlockNotesTest, WithoutACodeNothingIsKnown) {
  std::vector<PlanKey> keys;
  for (uint64_t key = 0; key < 2000; ++key) {
    const uint64_t usable = 64 + 8 * key;
    keys.push_back({PlainShape(usable), 0, kNoModule, 0, usable});
  }
  keys.insert(keys.begin() + 300, {PlainShape(16), 0, kNoModule, 0, 16});
  keys.push_back(keys[0]);
  std::vector<char> memory(BlockNotes::MemoryFor(256, keys.size()));
  BlockNotes notes;
  notes.Attach(memory.data(), keys.size());
  notes.Start(keys.data(), keys.size(), [](const PlanKey*) {});
  notes.Note(0, 300);
  EXPECT_EQ(notes.UsableAt(0), 0);
  notes.Note(0, 301);
  EXPECT_EQ(notes.UsableAt(0), keys[301].usable);
  notes.Note(0, static_cast<uint32_t>(keys.size() - 2));
  EXPECT_EQ(notes.UsableAt(0), 0);
  notes.Note(0, static_cast<uint32_t>(keys.size() - 1));  // the length of the first key
  EXPECT_EQ(notes.UsableAt(0), keys[0].usable);
}

}  // namespace
}  // namespace reprise::replay
