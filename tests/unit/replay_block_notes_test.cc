// Notes of how long blocks are: of more lengths than codes of one byte.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "replay/arena/block_notes.h"
#include "replay/plan_format.h"

namespace reprise::replay {
namespace {

TEST(BlockNotesTest, TellsWhatIsUsableInLiveBlocksOfAnyLength) {
  constexpr uint64_t kGranules = 1 << 16;
  constexpr uint32_t kKeys = 900;
  std::vector<PlanKey> keys;
  for (uint32_t key = 0; key < kKeys; ++key) {
    const uint64_t usable = 8 * (1 + key * 7919 % kKeys);
    keys.push_back({PlainShape(usable), 0, kNoModule, 0, usable});
  }
  std::vector<char> memory(BlockNotes::MemoryFor(kGranules, kKeys));
  BlockNotes notes;
  notes.Attach(memory.data(), kKeys);
  notes.Start(keys.data(), kKeys);
  std::map<uint64_t, uint32_t> live;  // key, by granule
  std::mt19937_64 random(1);
  uint64_t asked = 0;
  uint64_t known = 0;
  for (int round = 0; round < 100000; ++round) {
    const auto key = static_cast<uint32_t>(random() % kKeys);
    const uint64_t granules = (keys[key].usable + kGranule - 1) / kGranule;
    const uint64_t granule = random() % (kGranules - granules);
    // Whatever was there dies.
    auto at = live.lower_bound(granule);
    while (at != live.end() && at->first < granule + granules) at = live.erase(at);
    if (at != live.begin()) {
      --at;
      if (at->first + (keys[at->second].usable + kGranule - 1) / kGranule > granule) live.erase(at);
    }
    notes.Note(granule, key);
    live[granule] = key;
    const auto other = live.lower_bound(random() % (granule + 1));
    const uint64_t usable = notes.UsableAt(other->first);
    ++asked;
    known += usable != 0 ? 1 : 0;
    if (usable != 0) {
      ASSERT_EQ(usable, keys[other->second].usable);
    }
  }
  EXPECT_GT(known, asked - asked / 100);
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
  notes.Start(keys.data(), keys.size());
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
