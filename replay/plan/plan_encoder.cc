#include "replay/plan/plan_encoder.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "replay/plan/lane_encoder.h"
#include "replay/plan/loops.h"
#include "replay/plan/plan_format.h"
#include "replay/plan/plan_keys.h"

namespace reprise::replay {
namespace {

using trace::Allocation;
using trace::Recording;

constexpr uint64_t kTableAlignment = 64;
constexpr uint64_t kTurnOver = 64;      // arenas that pass in long blocks
constexpr uint64_t kSparseShare = 128;  // of a huge page, in which no short block ever lies

// What happens at one event: an allocation is born or dies.
struct Step {
  static constexpr uint32_t kFreeFlag = 1u << 31;
  uint32_t allocation = trace::kNone;  // with kFreeFlag
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
  std::vector<uint32_t> lane_of(recording.threads.size(), trace::kNone);
  encoders.reserve(lanes.size());
  for (uint32_t i = 0; i < lanes.size(); ++i) {
    encoders.emplace_back(recording, keys, offsets, lanes[i]);
    if (lanes[i].thread != trace::kNone) lane_of[lanes[i].thread] = i;
  }
  // Lanes with loops have their own steps.
  std::vector<bool> has_loops(lanes.size());
  for (size_t i = 0; i < lanes.size(); ++i) has_loops[i] = lanes[i].loops != nullptr;
  const bool whole = lanes.size() == 1 && lanes[0].thread == trace::kNone;
  const auto encoder_of = [&](uint32_t allocation) -> LaneEncoder* {
    if (whole) return &encoders[0];
    const uint32_t lane = lane_of[recording.allocations[allocation].thread];
    return lane != trace::kNone ? &encoders[lane] : nullptr;
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
      if (lanes[i].thread != trace::kNone) lane_of[lanes[i].thread] = trace::kNone;
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
      if (far != trace::kNone) __builtin_prefetch(&keys.of[far & ~Step::kFreeFlag]);
      if (near != trace::kNone && (near & Step::kFreeFlag) != 0) {
        const uint32_t freed = near & ~Step::kFreeFlag;
        if (LaneEncoder* encoder = encoder_of(freed)) encoder->WillFree(freed);
      }
    }
    if (step.allocation == trace::kNone) continue;  // a free of something never seen allocated
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
                       uint64_t arena_bytes, uint64_t max_load, uint64_t flags) {
  Keys keys = FindKeys(recording, block_bytes);
  std::vector<LaneEncoder> encoders = EncodeLanes(recording, keys, offsets, lanes);

  File file;
  std::vector<PlanModule> modules;
  PlanHeader header = Describe(recording, arena_bytes, max_load, file, modules);
  header.flags |= flags;
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
  if (recording.allocations.size() >= kLongRecording) file.BeginPiece(kPlanStretch);
  AddWords(lanes, encoders, file, header, entries);
  file.Replace(header.lanes, entries);
  return file.Finish(header);
}

}  // namespace reprise::replay
