#include "replay/plan/plan_file.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/standard_stream.h"
#include "base/text.h"
#include "replay/plan/plan_encoder.h"
#include "replay/plan/stream.h"
#include "trace/reader.h"
#include "trace/statistics.h"

namespace reprise::replay {
namespace {

namespace fs = std::filesystem;

absl::Status Refuse(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// Whether [first, first + count) lies in [0, all).
bool Within(uint64_t first, uint64_t count, uint64_t all) {
  return first <= all && count <= all - first;
}

// Whether the loops of a lane lie in it, one after the other, each with its end behind whole
// periods.
bool LoopsLieIn(const PlanFile& plan, const PlanLane& lane, const uint32_t* words) {
  if (lane.loops > kMostLaneLoops ||
      !Within(lane.first_loop, lane.loops, plan.header().loops.count)) {
    return false;
  }
  const auto* loops = plan.table<PlanLoop>(plan.header().loops) + lane.first_loop;
  uint64_t behind = 0;
  for (uint32_t i = 0; i < lane.loops; ++i) {
    const PlanLoop& loop = loops[i];
    const uint64_t end = uint64_t{loop.first_word} + loop.words;
    if (loop.first_word < behind || end + 1 >= lane.words || words[end] != kLoop ||
        loop.period_words == 0 || loop.words == 0 || loop.words % loop.period_words != 0 ||
        loop.passes == 0) {
      return false;
    }
    behind = end + 1;
  }
  return true;
}

// A checksum can be right for nonsense, too. Nobody who follows the tables looks again whether what
// they name is there.
bool TablesLieIn(const PlanFile& plan, uint64_t file_bytes) {
  const PlanHeader& header = plan.header();
  const auto fits = [&](const PlanTable& table, uint64_t entry_bytes) {
    return table.offset % alignof(uint64_t) == 0 && table.offset <= file_bytes &&
           table.count <= (file_bytes - table.offset) / entry_bytes;
  };
  const auto text = [&](uint32_t offset, uint32_t bytes) {
    return Within(offset, bytes, header.strings.count);
  };
  if (!fits(header.modules, sizeof(PlanModule)) || !fits(header.keys, sizeof(PlanKey)) ||
      !fits(header.lanes, sizeof(PlanLane)) || !fits(header.words, sizeof(uint32_t)) ||
      !fits(header.dense, sizeof(uint32_t)) || !fits(header.loops, sizeof(PlanLoop)) ||
      !fits(header.strings, 1) || !text(header.executable_offset, header.executable_bytes) ||
      !text(header.build_id_offset, header.build_id_bytes)) {
    return false;
  }
  const auto* modules = plan.table<PlanModule>(header.modules);
  for (uint64_t i = 0; i < header.modules.count; ++i) {
    if (!text(modules[i].path_offset, modules[i].path_bytes) ||
        !text(modules[i].build_id_offset, modules[i].build_id_bytes)) {
      return false;
    }
  }
  const auto* dense = plan.table<uint32_t>(header.dense);
  for (uint64_t i = 0; i < header.dense.count; ++i) {
    if (dense[i] >= header.arena_bytes / kHugePage) return false;
  }
  const auto* lanes = plan.table<PlanLane>(header.lanes);
  for (uint64_t i = 0; i < header.lanes.count; ++i) {
    const PlanLane& lane = lanes[i];
    if (header.words.count < kWordsAhead || lane.offset_bits >= 32 ||
        lane.box_offset % kBoxAlignment != 0 || lane.box_bytes % kBoxAlignment != 0 ||
        !Within(lane.box_offset, lane.box_bytes, header.arena_bytes) ||
        !Within(lane.first_word, lane.words, header.words.count - kWordsAhead)) {
      return false;
    }
    // A lane that is followed to its end stops there, and each code that its words may have is a
    // key's.
    const uint32_t* words = plan.table<uint32_t>(header.words) + lane.first_word;
    if (lane.words == 0 || words[lane.words - 1] != kEnd ||
        header.keys.count >> (31 - lane.offset_bits) == 0 || !LoopsLieIn(plan, lane, words)) {
      return false;
    }
  }
  return true;
}

// Of a whole file with the field that holds it zero.
uint64_t Checksum(PlanHeader header, std::span<const uint8_t> bytes) {
  header.checksum = 0;
  XXH3_state_t* state = XXH3_createState();
  const absl::Cleanup free_state = [state] { XXH3_freeState(state); };
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, &header, sizeof(header));
  XXH3_64bits_update(state, bytes.data() + sizeof(header), bytes.size() - sizeof(header));
  return XXH3_64bits_digest(state);
}

// The allocation words of a lane, in order, those of a loop as often as the recording has them:
// offsets from the arena's start. No more than `most`, which a recording has.
std::vector<int64_t> LaneOffsets(const PlanFile& plan, const PlanLane& lane, size_t most) {
  std::vector<int64_t> offsets;
  const uint32_t* first = plan.table<uint32_t>(plan.header().words) + lane.first_word;
  const uint32_t* end = first + lane.words;
  const auto* loop = plan.table<PlanLoop>(plan.header().loops) + lane.first_loop;
  const auto* last_loop = loop + lane.loops;
  size_t body = 0;  // the first of its allocations
  for (const uint32_t* at = first; at < end && offsets.size() < most;) {
    if (loop < last_loop && at == first + loop->first_word) body = offsets.size();
    const Word word = DecodeWord(at, lane.offset_bits);
    if (word.kind == Word::kEnded) break;
    if (word.kind == Word::kAllocation) {
      offsets.push_back(static_cast<int64_t>(lane.box_offset + word.granule * kGranule));
    }
    if (word.kind == Word::kLoopEnd && loop < last_loop) {
      const size_t once = offsets.size() - body;
      for (size_t pass = 1; pass < loop->passes && offsets.size() < most; ++pass) {
        for (size_t k = 0; k < once; ++k) offsets.push_back(offsets[body + k]);
      }
      ++loop;
    }
    at += word.length;
  }
  return offsets;
}

}  // namespace

std::vector<PlanBlock> PlanFile::Blocks(const PlanLane& lane) const {
  std::vector<PlanBlock> blocks;
  absl::flat_hash_map<uint32_t, size_t> live;  // by offset
  blocks.reserve(lane.blocks);
  const uint32_t* words = table<uint32_t>(header().words) + lane.first_word;
  for (uint32_t at = 0; at < lane.words;) {
    const Word word = DecodeWord(words + at, lane.offset_bits);
    if (word.kind == Word::kEnded) break;
    if (word.kind == Word::kAllocation) {
      live[word.granule] = blocks.size();
      blocks.push_back({word.granule, at, kNeverDies, word.key});
    } else if (word.kind == Word::kFree || word.kind == Word::kRemoteFree) {
      const auto block = live.find(word.granule);
      if (block != live.end()) blocks[block->second].death = at;
    }
    at += word.length;
  }
  return blocks;
}

std::vector<PlannedLoop> PlanFile::Loops(const PlanLane& lane) const {
  std::vector<PlannedLoop> found;
  const uint32_t* words = table<uint32_t>(header().words) + lane.first_word;
  const auto* loop = table<PlanLoop>(header().loops) + lane.first_loop;
  const auto* last = loop + lane.loops;
  uint64_t allocations = 0, begin = 0;
  for (uint32_t at = 0; at < lane.words && loop < last;) {
    if (at == loop->first_word) begin = allocations;
    const Word word = DecodeWord(words + at, lane.offset_bits);
    if (word.kind == Word::kEnded) break;
    if (word.kind == Word::kAllocation) ++allocations;
    if (word.kind == Word::kLoopEnd) {
      allocations = begin + (allocations - begin) * loop->passes;
      const uint64_t iterations = uint64_t{loop->iterations} * loop->passes;
      found.push_back({begin, allocations, std::max<uint64_t>(iterations, 1)});
      ++loop;
    }
    at += word.length;
  }
  return found;
}

absl::StatusOr<PlanFile> PlanFile::Read(const std::string& path, int descriptor) {
  const std::string source = descriptor < 0 ? path : absl::StrCat("/proc/self/fd/", descriptor);
  if (trace::IsFolder(source)) return Refuse(path, "expected a plan file, found a directory");
  absl::StatusOr<trace::MappedFile> file = trace::MappedFile::Open(source);
  if (!file.ok()) return absl::UnavailableError(file.status().message());
  absl::StatusOr<PlanFile> plan = Parse(*std::move(file), path);
  if (plan.ok()) {
    if (absl::Status whole = plan->file_.Whole(path); !whole.ok()) return whole;
  }
  return plan;
}

absl::StatusOr<PlanFile> PlanFile::Parse(trace::MappedFile file, const std::string& path) {
  PlanFile plan(std::move(file));
  const std::span<const uint8_t> bytes = plan.file_.bytes();
  PlanHeader header{};
  if (!bytes.empty()) {
    std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof(header)));
  }
  if (!IsPlan(plan.file_)) {
    return Refuse(path, bytes.empty() ? "expected a plan file, found an empty file"
                                      : "expected a plan file, found something else");
  }
  if (bytes.size() >= 16 && header.version != kPlanVersion) {
    return absl::UnimplementedError(absl::StrCat(
        path, ": expected a plan of version ", kPlanVersion, ", found version ", header.version,
        header.version > kPlanVersion ? ": made by a newer reprise"
                                      : ": made by an older reprise; plan the recording again"));
  }
  if (bytes.size() < sizeof(header) || header.file_bytes != bytes.size()) {
    return absl::DataLossError(absl::StrCat(path, ": cut short: expected ", header.file_bytes,
                                            " bytes, found ", bytes.size()));
  }
  plan.file_.Fetch();
  if (Checksum(header, bytes) != header.checksum || header.byte_order != kPlanByteOrder) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: its checksum is wrong"));
  }
  if (!TablesLieIn(plan, header.file_bytes)) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: its tables do not lie in it"));
  }
  return plan;
}

// What is written at once lies in the page cache in one piece.
absl::Status WritePlanFile(const std::string& path, const std::string& bytes) {
  base::AtomicFile file(path);
  for (size_t at = 0; at < bytes.size(); at += kPlanStretch) {
    file.Write(std::string_view(bytes).substr(at, kPlanStretch));
  }
  return file.Finish() ? absl::OkStatus() : absl::UnavailableError(file.problem());
}

absl::StatusOr<std::vector<int64_t>> PlanOffsets(const PlanFile& plan,
                                                 const trace::Recording& recording) {
  const PlanHeader& header = plan.header();
  const auto* lanes = plan.table<PlanLane>(header.lanes);
  absl::flat_hash_map<uint64_t, std::vector<int64_t>> by_path;
  absl::flat_hash_map<uint64_t, uint64_t> box_end;
  uint64_t planned = 0;
  for (uint64_t i = 0; i < header.lanes.count; ++i) {
    if (lanes[i].box_bytes == 0) continue;
    std::vector<int64_t> offsets = LaneOffsets(plan, lanes[i], recording.allocations.size());
    planned += offsets.size();
    by_path[lanes[i].path] = std::move(offsets);
    box_end[lanes[i].path] = lanes[i].box_offset + lanes[i].box_bytes;
  }
  const bool whole = header.lanes.count == 1 && lanes[0].path == 0;
  const bool as_many = planned == recording.allocations.size() && header.events == recording.events;
  const absl::Status another = absl::InvalidArgumentError(
      as_many ? "the plan was made for another recording, of as many events"
              : absl::StrCat("the plan was made for another recording: it holds ",
                             base::Counted(planned, "allocation"), " of ",
                             base::Counted(header.events, "event"), ", the recording ",
                             recording.allocations.size(), " of ", recording.events));
  if (header.recording != HashRecording(recording)) return another;
  absl::flat_hash_map<uint64_t, size_t> next;
  std::vector<int64_t> offsets;
  offsets.reserve(recording.allocations.size());
  for (const trace::Allocation& allocation : recording.allocations) {
    const uint64_t path = whole ? lanes[0].path : recording.threads[allocation.thread].path;
    const auto lane = by_path.find(path);
    if (lane == by_path.end()) {
      offsets.push_back(kUnplanned);
      continue;
    }
    if (next[path] >= lane->second.size()) return another;
    const int64_t offset = lane->second[next[path]++];
    if (!Within(static_cast<uint64_t>(offset), trace::BlockBytes(allocation.size), box_end[path])) {
      return absl::InvalidArgumentError(absl::StrCat("allocation ", offsets.size(), " at ", offset,
                                                     " does not lie in the box of its lane"));
    }
    offsets.push_back(offset);
    --planned;
  }
  if (planned != 0) return another;
  return offsets;
}

absl::StatusOr<std::vector<std::string>> FindPlans(const std::string& path) {
  if (!trace::IsFolder(path)) return std::vector<std::string>{path};
  std::error_code error;
  std::vector<std::string> plans;
  bool is_recording = false;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    std::error_code gone;
    is_recording |= entry.path().extension() == ".trace";
    if (entry.path().extension() == ".plan" && entry.is_regular_file(gone)) {
      plans.push_back(entry.path().string());
    }
  }
  if (plans.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected a folder of plans, found ",
        is_recording ? "a recording: `reprise plan` makes plans of it" : "no *.plan file in it"));
  }
  std::sort(plans.begin(), plans.end());
  return plans;
}

bool IsPlan(const trace::MappedFile& file) {
  uint64_t magic = 0;
  if (file.bytes().size() < sizeof(magic)) return false;
  std::memcpy(&magic, file.bytes().data(), sizeof(magic));
  return magic == kPlanMagic;
}

absl::Status CanBeReplayed(const std::string& path) {
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  const bool none = path != base::kStandardStream &&
                    (!fs::exists(found) || fs::is_directory(found) || fs::is_regular_file(found));
  if (none) return absl::OkStatus();
  return Refuse(path, "expected a plan file, which each process maps, found a pipe or device");
}

std::string PlanFor(const std::string& plan, const std::string& trace) {
  if (!trace::IsFolder(plan)) return plan;
  return (fs::path(plan) / (fs::path(trace).stem().string() + ".plan")).string();
}

}  // namespace reprise::replay
