#include "replay/plan/plan_encoder.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "replay/plan/idle_pages.h"
#include "replay/plan/loops.h"
#include "replay/plan/plan_format.h"
#include "replay/plan/stream.h"

namespace reprise::replay {
namespace {

using trace::Allocation;
using trace::kNone;
using trace::Recording;

constexpr int kWordBits = 31;  // of an allocation word, its leading zero aside
constexpr uint64_t kTableAlignment = 64;
constexpr uint64_t kTurnOver = 64;      // arenas that pass in long blocks
constexpr uint64_t kSparseShare = 128;  // of a huge page, in which no short block ever lies

// The keys of a recording, the most frequent first, and which one each allocation has.
struct Keys {
  std::vector<PlanKey> keys;
  // Per allocation: its key, and when its word is written the index of its placement instead.
  std::vector<uint32_t> of;
};

// Codes of all ones say "far", whatever their width, so these indices name no key.
bool IsReserved(uint64_t index) { return index != 0 && (index & (index + 1)) == 0; }

// For each site the first one that replay does not tell from it: it sees no call stacks.
std::vector<uint32_t> WithoutStacks(const std::vector<trace::Site>& sites) {
  std::vector<uint32_t> same(sites.size());
  absl::flat_hash_map<std::tuple<uint32_t, uint64_t, uint32_t>, uint32_t> first;
  for (uint32_t i = 0; i < sites.size(); ++i) {
    same[i] = first.try_emplace({sites[i].module, sites[i].offset, sites[i].depth % kDepths}, i)
                  .first->second;
  }
  return same;
}

Keys FindKeys(const Recording& recording, const BlockBytes& block_bytes) {
  absl::flat_hash_map<uint32_t, uint64_t> answers;
  for (const auto& [allocation, answer] : recording.usable_answers) {
    // Some allocators answer what was asked for, which may be nothing.
    const uint64_t told = std::max<uint64_t>(answer, recording.allocations[allocation].size);
    answers[allocation] = 8 * ShapeUnits(Shape(told, 4));
  }
  const auto usable = [&](uint32_t allocation) {
    const auto found = answers.find(allocation);
    return found == answers.end() ? block_bytes[allocation] : found->second;
  };
  const std::vector<uint32_t> same = WithoutStacks(recording.sites);
  absl::flat_hash_map<std::tuple<uint64_t, uint32_t, uint64_t>, uint32_t> index;
  std::vector<PlanKey> found;
  std::vector<uint64_t> count;
  Keys result;
  result.of.reserve(recording.allocations.size());
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& allocation = recording.allocations[i];
    const uint64_t shape = Shape(allocation.size, allocation.log2_alignment);
    const uint64_t told = usable(i);
    const uint32_t site = allocation.site == kNone ? kNone : same[allocation.site];
    const auto [entry, fresh] =
        index.try_emplace(std::make_tuple(shape, site, told), static_cast<uint32_t>(found.size()));
    if (fresh) {
      PlanKey key{shape, 0, kNoModule, 0, told};
      if (site != kNone) {
        const trace::Site& where = recording.sites[site];
        key.site_offset = where.offset;
        key.module = where.module == kNone ? kNoModule : where.module;
        key.depth = where.depth % kDepths;
      }
      found.push_back(key);
      count.push_back(0);
    }
    ++count[entry->second];
    result.of.push_back(entry->second);
  }
  std::vector<uint32_t> order(found.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return count[a] > count[b]; });
  std::vector<uint32_t> place(found.size());
  for (const uint32_t key : order) {
    while (IsReserved(result.keys.size())) result.keys.push_back({0, 0, kNoModule, 0, 0});
    place[key] = static_cast<uint32_t>(result.keys.size());
    result.keys.push_back(found[key]);
  }
  // Up to a reserved index, so that every code, far ones included, names an entry.
  result.keys.resize(std::bit_ceil(result.keys.size() + 1), {0, 0, kNoModule, 0, 0});
  for (uint32_t& key : result.of) key = place[key];
  return result;
}

// What happens at one event: an allocation is born or dies.
struct Step {
  static constexpr uint32_t kFreeFlag = 1u << 31;
  uint32_t allocation = kNone;  // with kFreeFlag
};

std::vector<Step> StepsOf(const Recording& recording) {
  std::vector<Step> steps(recording.events);
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& allocation = recording.allocations[i];
    steps[allocation.birth].allocation = i;
    if (allocation.death != trace::kNever) steps[allocation.death].allocation = i | Step::kFreeFlag;
  }
  return steps;
}

// PlanHeader::dense. A program touches all of its short blocks, but perhaps little of a long one.
std::vector<uint32_t> DensePages(const BlockBytes& block_bytes, const std::vector<int64_t>& offsets,
                                 uint64_t arena_bytes) {
  constexpr uint64_t kPage = kBoxAlignment;
  constexpr uint64_t kPages = kHugePage / kPage;
  std::vector<bool> holds_short(arena_bytes / kHugePage * kPages);
  uint64_t long_bytes = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const uint64_t bytes = block_bytes[i];
    if (bytes >= kLongBlock) {
      long_bytes += bytes;
      continue;
    }
    const auto begin = static_cast<uint64_t>(offsets[i]);
    const uint64_t end = std::min<uint64_t>((begin + bytes - 1) / kPage + 1, holds_short.size());
    for (uint64_t page = begin / kPage; page < end; ++page) holds_short[page] = true;
  }
  const bool turns_over = long_bytes / kTurnOver > arena_bytes;
  std::vector<uint32_t> dense;
  for (auto page = holds_short.begin(); page != holds_short.end(); page += kPages) {
    const auto sparse = static_cast<uint64_t>(std::count(page, page + kPages, false));
    if (!turns_over && sparse > kPages / kSparseShare) continue;
    dense.push_back(static_cast<uint32_t>((page - holds_short.begin()) / kPages));
  }
  return dense;
}

// Some hints need a look at every page of every block: few of them may claim many pages. So many
// are looked at in all, which takes a second; then there are no more such hints.
class PageWork {
 public:
  bool Take(uint64_t pages) {
    if (pages > left_) return false;
    left_ -= pages;
    return true;
  }

 private:
  uint64_t left_ = uint64_t{1} << 30;
};

class LaneEncoder {
 public:
  LaneEncoder(const Recording& recording, Keys& keys, const std::vector<int64_t>& offsets,
              const EncodedLane& lane)
      : recording_(recording), keys_(keys), offsets_(offsets), lane_(lane) {}

  // First pass: what the words will have to hold.
  void Measure(uint32_t allocation) {
    if (!HasRoom(allocations_)) return;
    ++allocations_;
    if (IsTold(keys_.of[allocation])) {
      ++told_;
      return;
    }
    const int offset_bits = std::bit_width(Granule(allocation));
    // A code of k bits holds keys below 2^k - 1.
    const int key_bits = std::bit_width(uint64_t{keys_.of[allocation]} + 1);
    ++sizes_[offset_bits * kMostBits + key_bits];
  }

  // Between the passes: splits a word so that as few allocations as possible are far.
  void ChooseSplit() {
    const int most_key_bits = std::bit_width(keys_.keys.size() - 1);
    uint64_t best = UINT64_MAX;
    for (int bits = kWordBits - most_key_bits; bits < kWordBits; ++bits) {
      uint64_t far = 0;
      for (const auto& [size, count] : sizes_) {
        if (size / kMostBits > bits || size % kMostBits > kWordBits - bits) far += count;
      }
      if (far < best) {
        best = far;
        offset_bits_ = bits;
      }
    }
    placements_.reserve(allocations_);
    words_.reserve(2 * allocations_ + 2 * best + (kToldLength - 1) * told_ + 16);
  }

  void Allocate(uint32_t allocation) {
    if (!HasRoom(placements_.size())) return;
    Turn();
    const uint64_t granule = Granule(allocation);
    const uint32_t key = keys_.of[allocation];
    Use(granule, BlockGranules(keys_.keys[key]));
    const uint32_t far_code = (1u << (kWordBits - offset_bits_)) - 1;
    const auto birth = static_cast<uint32_t>(words_.size());
    if (IsTold(key)) {
      Tell(far_code << offset_bits_ | kTold, key, static_cast<uint32_t>(granule));
    } else if (granule >> offset_bits_ == 0 && key < far_code) {
      words_.push_back(key << offset_bits_ | static_cast<uint32_t>(granule));
    } else {
      words_.push_back(far_code << offset_bits_);
      words_.push_back(key);
      words_.push_back(static_cast<uint32_t>(granule));
    }
    keys_.of[allocation] = static_cast<uint32_t>(placements_.size());
    placements_.push_back({static_cast<uint32_t>(granule), birth, kNeverDies, key});
  }

  void Free(uint32_t allocation) {
    if (lane_.box_bytes == 0) return;
    Turn();
    const bool own =
        lane_.thread == kNone || recording_.allocations[allocation].free_thread == lane_.thread;
    PlanBlock& placement = placements_[keys_.of[allocation]];
    placement.death = static_cast<uint32_t>(words_.size());
    const uint32_t granule = placement.offset;
    if (own) {
      words_.push_back(kFreeBit | granule);
    } else {
      words_.push_back(kDrain);
      words_.push_back(granule);
    }
  }

  // What follows, up to EndLoop, is one pass through a loop, with these steps. Its pages are told
  // as used beforehand: words about that are not to be followed twice.
  void BeginLoop(std::span<const uint32_t> steps) {
    for (const uint32_t step : steps) {
      if ((step & kStepFrees) != 0) continue;
      Use(Granule(step), BlockGranules(keys_.keys[keys_.of[step]]));
    }
    TellIdlePages(steps);
    // Copies of a short body are to have the same words.
    has_turns_ = steps.size() >= kTurnWords / 4;
    PlanLoop loop{};
    loop.first_word = static_cast<uint32_t>(words_.size());
    loop.blocks = static_cast<uint32_t>(placements_.size());
    loops_.push_back(loop);
  }
  void EndLoop(const Loop& found) {
    PlanLoop& loop = loops_.back();
    loop.words = static_cast<uint32_t>(words_.size()) - loop.first_word;
    loop.period_words = loop.words / found.copies;
    loop.iterations = found.unrolled * found.copies;
    loop.blocks = static_cast<uint32_t>(placements_.size()) - loop.blocks;
    loop.passes = found.passes;
    loop.carried = found.carried;
    loop.carried_bytes = found.carried_bytes;
    words_.push_back(kLoop);
    has_turns_ = true;
  }

  // A hint that memory for this Free, if its block is born, will be needed soon.
  void WillFree(uint32_t allocation) const {
    const uint32_t placement = keys_.of[allocation];
    if (placement < placements_.size()) __builtin_prefetch(&placements_[placement], 1);
  }

  // At the end; what is taken is no longer held here.
  std::vector<uint32_t> TakeWords(PageWork& work) {
    words_.push_back(kEnd);
    // A lane that is not for replay has nothing to give back.
    // What a loop leaves idle comes to be used again soon.
    if (lane_.path != 0 && lane_.box_bytes > 0 && loops_.empty() && work.Take(PagesToLookAt())) {
      AddIdlePages(words_, turns_, keys_.keys, lane_.box_bytes, placements_);
    }
    std::vector<uint32_t>().swap(next_unused_);
    return std::move(words_);
  }
  uint64_t blocks() const { return lane_.box_bytes > 0 ? placements_.size() : 0; }
  const std::vector<PlanLoop>& loops() const { return loops_; }

  int offset_bits() const { return offset_bits_; }
  uint64_t words() const { return words_.size(); }

 private:
  // Of a lane without a box only the first allocation is written, with offset 0.
  bool HasRoom(uint64_t allocations) const { return lane_.box_bytes > 0 || allocations == 0; }

  uint64_t Granule(uint32_t allocation) const {
    if (lane_.box_bytes == 0) return 0;
    return (static_cast<uint64_t>(offsets_[allocation]) - lane_.box_offset) / kGranule;
  }

  uint64_t PagesToLookAt() const {
    uint64_t granules = lane_.box_bytes / kGranule;
    for (const PlanBlock& block : placements_) granules += BlockGranules(keys_.keys[block.key]);
    return granules / (kBoxAlignment / kGranule) + placements_.size();
  }

  bool IsTold(uint32_t key) const { return replay::IsTold(key, keys_.keys[key]); }

  void Tell(uint32_t word, uint32_t key, uint32_t granule) {
    const PlanKey& told = keys_.keys[key];
    for (const uint64_t next :
         {uint64_t{word}, uint64_t{key}, uint64_t{granule}, told.shape, told.site_offset,
          uint64_t{told.module} << kDepthBits | told.depth}) {
      words_.push_back(static_cast<uint32_t>(next));
    }
  }

  void Turn() {
    if (words_.size() < next_turn_ || !has_turns_) return;
    turns_.push_back(static_cast<uint32_t>(words_.size()));
    words_.push_back(kTurn);
    while (next_turn_ <= words_.size()) next_turn_ += kTurnWords;
  }

  // Pages that are idle as long as the lane stays in a loop.
  void TellIdlePages(std::span<const uint32_t> body) {
    constexpr uint64_t kPageGranules = kBoxAlignment / kGranule;
    constexpr uint64_t kFewest = 16;
    if (next_unused_.empty()) return;
    const uint64_t pages = next_unused_.size() - 1;
    std::vector<bool> busy(pages);
    const auto use = [&](uint64_t granule, uint32_t key) {
      const uint64_t last = granule + BlockGranules(keys_.keys[key]) - 1;
      for (uint64_t page = granule / kPageGranules; page <= last / kPageGranules; ++page) {
        busy[page] = true;
      }
    };
    for (const PlanBlock& block : placements_) {
      if (block.death == kNeverDies) use(block.offset, block.key);
    }
    for (const uint32_t step : body) {
      if ((step & kStepFrees) == 0) use(Granule(step), keys_.of[step]);
    }
    const auto is_idle = [&](uint64_t page) { return !busy[page] && next_unused_[page] != page; };
    for (uint64_t page = 0; page < pages; ++page) {
      const uint64_t first = page;
      while (page < pages && is_idle(page)) ++page;
      if (page - first < kFewest) continue;
      for (const uint64_t word : {uint64_t{kIdle}, first, page - first}) {
        words_.push_back(static_cast<uint32_t>(word));
      }
    }
  }

  // A block is born. How many pages of the box have been used is told in steps, a little ahead.
  void Use(uint64_t granule, uint64_t granules) {
    constexpr uint64_t kSteps = 64;
    constexpr uint64_t kLeastStep = 4;  // pages
    constexpr uint64_t kPageGranules = kBoxAlignment / kGranule;
    if (lane_.path == 0 || lane_.box_bytes == 0) return;
    const uint64_t pages = lane_.box_bytes / kBoxAlignment;
    if (next_unused_.empty()) {
      next_unused_.resize(pages + 1);
      std::iota(next_unused_.begin(), next_unused_.end(), 0);
    }
    const uint64_t end = (granule + granules - 1) / kPageGranules + 1;
    for (uint64_t page = NextUnused(granule / kPageGranules); page < end; page = NextUnused(page)) {
      next_unused_[page] = static_cast<uint32_t>(page + 1);
      ++used_pages_;
    }
    if (used_pages_ <= told_pages_) return;
    const uint64_t step = std::max(kLeastStep, pages / kSteps);
    told_pages_ = std::min(pages, (used_pages_ + step - 1) / step * step);
    words_.push_back(kUsed);
    words_.push_back(static_cast<uint32_t>(told_pages_));
  }
  // The first page from this one on that was not used: links are shortened on the way.
  uint64_t NextUnused(uint64_t page) {
    while (next_unused_[page] != page) {
      next_unused_[page] = next_unused_[next_unused_[page]];
      page = next_unused_[page];
    }
    return page;
  }

  const Recording& recording_;
  Keys& keys_;
  const std::vector<int64_t>& offsets_;
  const EncodedLane& lane_;
  // How many allocations have an offset and a key of so many bits. A lane may have one allocation,
  // and a program a million lanes.
  static constexpr int kMostBits = 64;
  absl::flat_hash_map<int, uint64_t> sizes_;
  uint64_t allocations_ = 0;
  uint64_t told_ = 0;  // of these, with keys that are
  int offset_bits_ = 16;
  size_t next_turn_ = kTurnWords - kTurnWords / 8;  // near the end of each stretch
  std::vector<uint32_t> words_;
  std::vector<uint32_t> turns_;  // the kTurn words among them
  std::vector<PlanBlock> placements_;
  std::vector<uint32_t> next_unused_;  // per page of the box: itself, or one behind it; the end
  uint64_t used_pages_ = 0;
  uint64_t told_pages_ = 0;
  bool has_turns_ = true;
  std::vector<PlanLoop> loops_;
};

// The file, table by table.
class File {
 public:
  File() : bytes_(sizeof(PlanHeader), '\0') {}

  // Makes room for so many bytes more.
  void Reserve(size_t bytes) { bytes_.reserve(bytes_.size() + bytes); }

  // What is added next begins with a stretch, or with a huge piece.
  void BeginPiece(uint64_t bytes) { Align(bytes); }

  template <typename T>
  PlanTable Add(const std::vector<T>& entries) {
    Align();
    const PlanTable table{bytes_.size(), entries.size()};
    bytes_.append(reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(T));
    return table;
  }

  // Tables may grow piece by piece, when nothing else is added in between.
  template <typename T>
  void Extend(PlanTable& table, const std::vector<T>& entries) {
    if (table.count == 0) {
      Align();
      table.offset = bytes_.size();
    }
    table.count += entries.size();
    bytes_.append(reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(T));
  }

  uint32_t AddString(std::string_view text, uint32_t* length) {
    const auto offset = static_cast<uint32_t>(strings_.size());
    strings_.insert(strings_.end(), text.begin(), text.end());
    *length = static_cast<uint32_t>(text.size());
    return offset;
  }

  // The entries of a table that was added before.
  template <typename T>
  void Replace(const PlanTable& table, const std::vector<T>& entries) {
    if (table.count > 0) {
      std::memcpy(bytes_.data() + table.offset, entries.data(), table.count * sizeof(T));
    }
  }

  std::string Finish(PlanHeader header) {
    header.strings = Add(strings_);
    Align();
    header.file_bytes = bytes_.size();
    header.checksum = 0;
    std::memcpy(bytes_.data(), &header, sizeof(header));
    header.checksum = XXH3_64bits(bytes_.data(), bytes_.size());
    std::memcpy(bytes_.data(), &header, sizeof(header));
    return std::move(bytes_);
  }

 private:
  void Align(uint64_t to = kTableAlignment) { bytes_.resize((bytes_.size() + to - 1) & ~(to - 1)); }

  std::string bytes_;
  std::vector<char> strings_;
};

void EncodeSteps(const ShortLane& lane, LaneEncoder& encoder) {
  size_t at = 0;
  const auto encode = [&](size_t end) {
    for (; at < end; ++at) {
      const uint32_t allocation = lane.steps[at] & ~kStepFrees;
      allocation == lane.steps[at] ? encoder.Allocate(allocation) : encoder.Free(allocation);
    }
  };
  for (const ShortLane::Body& body : lane.bodies) {
    encode(body.begin);
    encoder.BeginLoop({lane.steps.data() + body.begin, body.end - body.begin});
    encode(body.end);
    encoder.EndLoop(body.loop);
  }
  encode(lane.steps.size());
}

// The lanes' encoders, after all events of the recording. They keep their placements in keys.of.
std::vector<LaneEncoder> EncodeLanes(const Recording& recording, Keys& keys,
                                     const std::vector<int64_t>& offsets,
                                     const std::vector<EncodedLane>& lanes) {
  std::vector<LaneEncoder> encoders;
  std::vector<uint32_t> lane_of(recording.threads.size(), kNone);
  encoders.reserve(lanes.size());
  for (uint32_t i = 0; i < lanes.size(); ++i) {
    encoders.emplace_back(recording, keys, offsets, lanes[i]);
    if (lanes[i].thread != kNone) lane_of[lanes[i].thread] = i;
  }
  // Lanes with loops have their own steps.
  std::vector<bool> has_loops(lanes.size());
  for (size_t i = 0; i < lanes.size(); ++i) has_loops[i] = lanes[i].loops != nullptr;
  const bool whole = lanes.size() == 1 && lanes[0].thread == kNone;
  const auto encoder_of = [&](uint32_t allocation) -> LaneEncoder* {
    if (whole) return &encoders[0];
    const uint32_t lane = lane_of[recording.allocations[allocation].thread];
    return lane != kNone ? &encoders[lane] : nullptr;
  };
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    if (LaneEncoder* encoder = encoder_of(i)) encoder->Measure(i);
  }
  for (LaneEncoder& encoder : encoders) encoder.ChooseSplit();
  if (std::find(has_loops.begin(), has_loops.end(), true) != has_loops.end()) {
    std::vector<uint32_t> stands_for(recording.allocations.size());
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (!has_loops[i]) continue;
      EncodeSteps(Shorten(*lanes[i].loops, /*with_copies=*/true, stands_for), encoders[i]);
      if (lanes[i].thread != kNone) lane_of[lanes[i].thread] = kNone;
    }
    if (whole) return encoders;
  }
  const std::vector<Step> steps = StepsOf(recording);
  for (size_t s = 0; s < steps.size(); ++s) {
    const Step& step = steps[s];
    constexpr size_t kAhead = 16;
    if (steps.size() - s > 2 * kAhead) {
      const uint32_t far = steps[s + 2 * kAhead].allocation;
      const uint32_t near = steps[s + kAhead].allocation;
      if (far != kNone) __builtin_prefetch(&keys.of[far & ~Step::kFreeFlag]);
      if (near != kNone && (near & Step::kFreeFlag) != 0) {
        const uint32_t freed = near & ~Step::kFreeFlag;
        if (LaneEncoder* encoder = encoder_of(freed)) encoder->WillFree(freed);
      }
    }
    if (step.allocation == kNone) continue;  // a free of something never seen allocated
    const uint32_t allocation = step.allocation & ~Step::kFreeFlag;
    LaneEncoder* encoder = encoder_of(allocation);
    if (encoder == nullptr) continue;
    if (allocation == step.allocation) {
      encoder->Allocate(allocation);
    } else {
      encoder->Free(allocation);
    }
  }
  return encoders;
}

// The header but for what its parts say, with the strings that it names.
PlanHeader Describe(const Recording& recording, uint64_t arena_bytes, uint64_t max_load, File& file,
                    std::vector<PlanModule>& modules) {
  PlanHeader header{};
  header.magic = kPlanMagic;
  header.version = kPlanVersion;
  header.byte_order = kPlanByteOrder;
  header.place = recording.process.place;
  header.flags = recording.process.start_order == 0 ? kPlanRoot : 0;
  header.arena_bytes = arena_bytes;
  header.max_load = max_load;
  header.events = recording.events;
  header.recording = HashRecording(recording);
  for (const trace::Module& module : recording.modules) {
    PlanModule entry{};
    entry.path_offset = file.AddString(module.path, &entry.path_bytes);
    entry.build_id_offset = file.AddString(module.build_id, &entry.build_id_bytes);
    modules.push_back(entry);
  }
  header.executable_offset = file.AddString(recording.process.executable, &header.executable_bytes);
  header.build_id_offset = file.AddString(recording.process.build_id, &header.build_id_bytes);
  return header;
}

// The loops of all lanes; tells the lanes which are theirs.
std::vector<PlanLoop> AllLoops(const std::vector<LaneEncoder>& encoders,
                               std::vector<PlanLane>& entries) {
  std::vector<PlanLoop> loops;
  for (size_t i = 0; i < encoders.size(); ++i) {
    entries[i].first_loop = loops.size();
    entries[i].loops = static_cast<uint32_t>(encoders[i].loops().size());
    loops.insert(loops.end(), encoders[i].loops().begin(), encoders[i].loops().end());
  }
  return loops;
}

// The lanes' streams, one behind the other.
void AddWords(const std::vector<EncodedLane>& lanes, std::vector<LaneEncoder>& encoders, File& file,
              PlanHeader& header, std::vector<PlanLane>& entries) {
  PageWork work;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const std::vector<uint32_t> words = encoders[i].TakeWords(work);
    if (words.size() >= kTurnWords) {
      file.Extend(header.words, std::vector<uint32_t>(-header.words.count % kTurnWords, kEnd));
    }
    PlanLane& entry = entries[i];
    entry.path = lanes[i].path;
    entry.box_offset = lanes[i].box_offset;
    entry.box_bytes = lanes[i].box_bytes;
    entry.first_word = header.words.count;
    entry.words = words.size();
    entry.blocks = encoders[i].blocks();
    entry.offset_bits = static_cast<uint32_t>(encoders[i].offset_bits());
    file.Extend(header.words, words);
  }
  file.Extend(header.words, std::vector<uint32_t>(kWordsAhead, kEnd));
}

}  // namespace

uint64_t HashRecording(const Recording& recording) {
  return XXH3_64bits_withSeed(recording.allocations.data(),
                              recording.allocations.size() * sizeof(Allocation), recording.events);
}

std::string EncodePlan(const Recording& recording, const BlockBytes& block_bytes,
                       const std::vector<int64_t>& offsets, const std::vector<EncodedLane>& lanes,
                       uint64_t arena_bytes, uint64_t max_load) {
  Keys keys = FindKeys(recording, block_bytes);
  std::vector<LaneEncoder> encoders = EncodeLanes(recording, keys, offsets, lanes);

  File file;
  std::vector<PlanModule> modules;
  PlanHeader header = Describe(recording, arena_bytes, max_load, file, modules);
  // What a run reads again and again lies in the first page.
  std::vector<PlanLane> entries(lanes.size());
  const std::vector<PlanLoop> loops = AllLoops(encoders, entries);
  header.lanes = file.Add(entries);
  header.loops = file.Add(loops);
  header.modules = file.Add(modules);
  header.keys = file.Add(keys.keys);
  // What is free in the box of a lane that leaves its plan is used by others, in small pieces.
  if (recording.threads.size() == 1)
    header.dense = file.Add(DensePages(block_bytes, offsets, arena_bytes));
  // About what follows: growing would hold all of it twice.
  file.Reserve(recording.allocations.size() * 3 * sizeof(uint32_t));
  constexpr size_t kLongRecording = 4096;  // allocations
  uint64_t most_words = 0;
  for (const LaneEncoder& encoder : encoders) most_words = std::max(most_words, encoder.words());
  if (most_words >= kManyWords) header.flags |= kPlanHugeWords;
  const uint64_t piece = most_words >= kManyWords ? kPlanHugePiece : kPlanStretch;
  if (recording.allocations.size() >= kLongRecording) file.BeginPiece(piece);
  AddWords(lanes, encoders, file, header, entries);
  file.Replace(header.lanes, entries);
  return file.Finish(header);
}

}  // namespace reprise::replay
