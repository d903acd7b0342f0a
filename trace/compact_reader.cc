#include "trace/compact_reader.h"

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trace/chunk.h"
#include "trace/compact_definitions.h"
#include "trace/compact_format.h"
#include "trace/ledger.h"
#include "trace/limits.h"
#include "trace/varint.h"

namespace reprise::trace {
namespace {

absl::Status CheckHeader(const MappedFile& file, const std::string& path,
                         std::vector<Damage>& damage) {
  FileHeader header;
  const auto bytes = file.bytes();
  if (bytes.size() < sizeof(header.magic) ||
      std::memcmp(bytes.data(), &kCompactMagic, sizeof(kCompactMagic)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": offset 0: expected a trace"));
  }
  if (bytes.size() < sizeof(header)) {
    return absl::DataLossError(absl::StrCat(path, ": offset ", bytes.size(),
                                            ": expected a header of ", sizeof(header),
                                            " bytes, found the end of the file"));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.checksum != XXH3_64bits(&header, offsetof(FileHeader, checksum))) {
    AddDamage(damage, {0, sizeof(header), "the checksum of the file header does not match"});
    return absl::OkStatus();
  }
  if (header.byte_order != kCompactByteOrder) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": offset 12: expected byte order 01020304, found another"));
  }
  if (header.version == 0 || header.version > kCompactVersion) {
    return absl::UnimplementedError(absl::StrCat(path, ": offset 8: expected trace version ",
                                                 kCompactVersion, ", found ", header.version));
  }
  return absl::OkStatus();
}

constexpr uint64_t kMostTag = 31;

// The (tag, length, value) fields of a chunk, but for those of later revisions.
std::map<uint64_t, std::string> ReadFields(const std::string& raw) {
  std::map<uint64_t, std::string> fields;
  ByteReader reader(raw);
  while (!reader.empty()) {
    const uint64_t tag = reader.Varint();
    std::string value = reader.Text();
    if (reader.ok() && tag <= kMostTag) fields[tag] = std::move(value);
  }
  return fields;
}

template <typename Tag>
uint64_t Number(const std::map<uint64_t, std::string>& fields, Tag tag) {
  const auto found = fields.find(static_cast<uint64_t>(tag));
  return found == fields.end() ? 0 : ByteReader(found->second).Varint();
}

template <typename Tag>
std::string Text(const std::map<uint64_t, std::string>& fields, Tag tag) {
  const auto found = fields.find(static_cast<uint64_t>(tag));
  return found == fields.end() ? std::string() : found->second;
}

Process ReadProcessChunk(const std::string& raw) {
  const std::map<uint64_t, std::string> fields = ReadFields(raw);
  Process process;
  process.place = Number(fields, ProcessTag::kPlace);
  process.parent_place = Number(fields, ProcessTag::kParentPlace);
  process.start_order = static_cast<uint32_t>(Number(fields, ProcessTag::kStartOrder));
  process.executable = Text(fields, ProcessTag::kExecutable);
  process.build_id = Text(fields, ProcessTag::kBuildId);
  process.started_as = Text(fields, ProcessTag::kStartedAs);
  process.command = Text(fields, ProcessTag::kCommand);
  process.environment = Text(fields, ProcessTag::kEnvironment);
  process.unpreloadable = Number(fields, ProcessTag::kUnpreloadable);
  process.complete = Number(fields, ProcessTag::kComplete) != 0;
  process.peak_rss = Number(fields, ProcessTag::kPeakRss);
  return process;
}

// The ordinals or events of a file, of which some may be lost, as those of the recording: without
// holes.
class Renumbering {
 public:
  // [first, end) is lost; called in rising order.
  void Lose(uint64_t first, uint64_t end) {
    lost_ += end - first;
    gaps_.push_back({first, end, lost_});
  }

  // kNever: a lost one.
  uint64_t operator()(uint64_t ordinal) const {
    if (gaps_.empty() || ordinal < gaps_.front().first) return ordinal;
    const auto after =
        std::upper_bound(gaps_.begin(), gaps_.end(), ordinal,
                         [](uint64_t value, const Gap& gap) { return value < gap.first; });
    return ordinal < after[-1].end ? kNever : ordinal - after[-1].lost;
  }

 private:
  struct Gap {
    uint64_t first, end;  // half-open
    uint64_t lost;        // in this one and those before it
  };
  std::vector<Gap> gaps_;
  uint64_t lost_ = 0;
};

// What a Ledger does, for a recording that is kept whole: the allocations themselves tell which
// blocks live, so a free costs one access to memory and there is no table.
class WholeRecording {
 public:
  WholeRecording(Recording& recording, const Renumbering& ours)
      : recording_(recording), ours_(ours) {}

  void Allocate(uint64_t, const Event& block) {
    const uint64_t now = Now(block.thread);
    const uint64_t ordinal = count_++;
    if (ordinal >= kNone) return;
    Allocation& allocation = recording_.allocations.emplace_back();
    allocation.birth = now;
    allocation.kind = block.allocation_kind;
    allocation.log2_alignment = block.log2_alignment & 63;
    allocation.size = block.size;
    allocation.site = block.site;
    allocation.thread = block.thread;
    if (block.previous < ordinal) allocation.previous = static_cast<uint32_t>(block.previous);
  }

  uint64_t Free(uint64_t key, uint32_t thread, EventKind kind) {
    const uint64_t now = Now(thread);
    const uint64_t ordinal = Live(key);
    if (ordinal == kNever) {
      ++recording_.unmatched_frees;
      return kNever;
    }
    if (kind == EventKind::kImpliedFree) ++recording_.implied_frees;
    recording_.allocations[ordinal].death = now;
    recording_.allocations[ordinal].free_thread = thread;
    return ordinal;
  }

  void Usable(uint64_t key, uint32_t, uint64_t answer) {
    const uint64_t ordinal = Live(key);
    if (ordinal == kNever) return;
    recording_.usable_answers.emplace_back(static_cast<uint32_t>(ordinal), answer);
  }

  bool too_many() const { return count_ > kNone; }

 private:
  uint64_t Live(uint64_t key) const {
    const uint64_t ordinal = ours_(key);
    const bool live =
        ordinal < recording_.allocations.size() && recording_.allocations[ordinal].death == kNever;
    return live ? ordinal : kNever;
  }

  uint64_t Now(uint32_t thread) {
    const uint64_t now = recording_.events++;
    Thread& active = recording_.threads[thread];
    if (active.end_event == 0) active.first_event = now;
    active.end_event = now + 1;
    return now;
  }

  Recording& recording_;
  const Renumbering& ours_;
  uint64_t count_ = 0;
};

// `Books` is a Ledger or a WholeRecording.
template <typename Books>
class CompactReader {
 public:
  CompactReader(Recording& recording, uint64_t file_bytes, Renumbering& ours, Books& books)
      : recording_(recording),
        definitions_left_(MostDefinitionBytes(file_bytes)),
        ours_(ours),
        books_(books),
        definitions_(recording) {}

  // False: the chunk is not what its type says, or holds more than it may (limits.h).
  bool Read(const Chunk& chunk) {
    ByteReader reader(chunk.raw);
    if (CompactDefinitions::Are(chunk.type) || chunk.type == ChunkType::kMarks) {
      if (chunk.raw.size() > definitions_left_) return false;
      definitions_left_ -= chunk.raw.size();
    }
    switch (chunk.type) {
      case ChunkType::kProcess:
        recording_.process = ReadProcessChunk(chunk.raw);
        return true;
      case ChunkType::kEvents:
        return chunk.raw.size() <= kMaxEventBytes && ReadEvents(reader);
      case ChunkType::kDamage:
        return ReadDamage(reader);
      case ChunkType::kEnd:
        return ReadEnd(chunk.raw);
      case ChunkType::kMarks:
        return ReadMarks(reader);
      default:  // those of a later revision are passed over
        return !CompactDefinitions::Are(chunk.type) || definitions_.Read(chunk.type, reader);
    }
  }

  bool ended() const { return ended_; }

 private:
  static constexpr uint64_t kMostOrdinals = uint64_t{1} << 62;

  bool ReadEvents(ByteReader& reader) {
    const uint64_t index = reader.Varint();
    uint64_t ordinal = reader.Varint();
    uint32_t thread = definitions_.Thread(reader.Varint());
    if (!reader.ok() || thread == kNone || index < file_index_ || ordinal < next_ordinal_ ||
        ordinal > kMostOrdinals) {
      return false;
    }
    recording_.lost_events += index - file_index_;
    if (index != file_index_) events_.Lose(file_index_, index);
    file_index_ = index;
    if (ordinal != next_ordinal_) ours_.Lose(next_ordinal_, ordinal);
    next_ordinal_ = ordinal;
    last_freed_.clear();
    uint64_t previous = kNever;
    bool previous_given = false;
    while (!reader.empty()) {
      const uint64_t token = reader.Varint();
      if ((token & 1) != 0) {
        Free(ordinal - (token >> 1) - 1, thread, EventKind::kFree);
      } else if ((token & 3) == 0) {
        const CompactCallSite* call = definitions_.CallSite(token >> 2);
        Event block;
        block.thread = thread;
        if (call != nullptr) {
          block.site = call->site;
          block.allocation_kind = call->kind;
          block.log2_alignment = call->log2_alignment;
        }
        block.size = reader.Varint();
        if (!reader.ok() || block.size > kMaxSize || block.size > bytes_left_) return false;
        bytes_left_ -= block.size;
        if (block.allocation_kind == AllocationKind::kRealloc) {
          block.previous = previous_given ? previous : LastFreed(thread);
          LastFreed(thread) = kNever;
        }
        previous_given = false;
        books_.Allocate(ordinal++, block);
        next_ordinal_ = ordinal;
        ++file_index_;
      } else if (!ReadCode(token >> 2, reader, ordinal, thread, previous, previous_given)) {
        return false;
      }
      if (!reader.ok()) return false;
    }
    return true;
  }

  bool ReadCode(uint64_t code, ByteReader& reader, uint64_t ordinal, uint32_t& thread,
                uint64_t& previous, bool& previous_given) {
    switch (static_cast<EventCode>(code)) {
      case EventCode::kThread:
        thread = definitions_.Thread(reader.Varint());
        return reader.ok() && thread != kNone;
      case EventCode::kPrevious: {
        const uint64_t distance = reader.Varint();
        previous = distance == 0 ? kNever : ours_(ordinal - distance);
        previous_given = true;
        return reader.ok();
      }
      case EventCode::kUnmatchedFree:
        Free(kNever, thread, EventKind::kFree);
        return true;
      case EventCode::kImpliedFree: {
        const uint64_t distance = reader.Varint();
        if (reader.ok()) Free(ordinal - distance, thread, EventKind::kImpliedFree);
        return reader.ok();
      }
      case EventCode::kUsable: {
        const uint64_t distance = reader.Varint();
        const uint64_t answer = reader.Varint();
        if (!reader.ok() || answer > kMaxSize) return false;
        books_.Usable(ordinal - distance, thread, answer);
        return true;
      }
    }
    return false;
  }

  void Free(uint64_t ordinal, uint32_t thread, EventKind kind) {
    ++file_index_;
    const uint64_t freed = books_.Free(ordinal, thread, kind);
    if (kind == EventKind::kFree) LastFreed(thread) = freed;
  }

  uint64_t& LastFreed(uint32_t thread) {
    if (last_freed_.size() <= thread) last_freed_.resize(thread + 1, kNever);
    return last_freed_[thread];
  }

  // They stand behind the events that they lie between; one among lost events is lost.
  bool ReadMarks(ByteReader& reader) {
    uint64_t first, end;
    if (!CompactDefinitions::ReadRange(reader, first, end)) return false;
    uint64_t event = 0;
    for (uint64_t number = first; number < end; ++number) {
      const uint64_t distance = reader.Varint();
      const uint32_t thread = definitions_.Thread(reader.Varint());
      if (!reader.ok() || thread == kNone || distance > UINT64_MAX - event) return false;
      event += distance;
      const uint64_t ours = event > file_index_ ? kNever : events_(event);
      const std::vector<Mark>& marks = recording_.marks;
      if (!marks.empty() && ours < marks.back().event) return false;
      if (ours != kNever) AddMark(recording_.marks, {ours, thread});
    }
    return reader.empty();
  }

  bool ReadDamage(ByteReader& reader) {
    const uint64_t count = reader.Varint();
    for (uint64_t i = 0; i < count && reader.ok(); ++i) {
      Damage damage;
      damage.offset = reader.Varint();
      damage.bytes = reader.Varint();
      damage.reason = absl::StrCat("in the original: ", reader.Text().substr(0, kMostReasonBytes));
      if (reader.ok()) AddDamage(recording_.damage, std::move(damage));
    }
    return reader.ok() && reader.empty();
  }

  bool ReadEnd(const std::string& raw) {
    const std::map<uint64_t, std::string> fields = ReadFields(raw);
    const uint64_t events = Number(fields, EndTag::kEvents);
    recording_.lost_events += Number(fields, EndTag::kLostEvents);
    ended_ = true;
    if (events < file_index_) return false;
    recording_.lost_events += events - file_index_;
    return true;
  }

  Recording& recording_;
  uint64_t definitions_left_;        // bytes
  uint64_t bytes_left_ = INT64_MAX;  // that all allocations together may still ask for
  Renumbering& ours_;
  Renumbering events_;
  Books& books_;
  CompactDefinitions definitions_;
  std::vector<uint64_t> last_freed_;
  uint64_t next_ordinal_ = 0;
  uint64_t file_index_ = 0;  // events of the file so far, lost ones included
  bool ended_ = false;
};

template <typename Books>
absl::Status ReadChunks(const MappedFile& file, const std::string& path, Recording& recording,
                        Renumbering& ours, Books& books) {
  absl::Status header = CheckHeader(file, path, recording.damage);
  if (!header.ok()) return header;
  CompactReader<Books> reader(recording, file.bytes().size(), ours, books);
  ChunkScanner scanner(file.bytes(), sizeof(FileHeader), recording.damage);
  Chunk chunk;
  while (scanner.Next(chunk)) {
    if (!reader.Read(chunk)) {
      AddDamage(recording.damage, {chunk.offset, chunk.bytes,
                                   "a chunk does not hold what it should, or more than it may"});
    }
    file.Release(chunk.offset, chunk.bytes);
  }
  if (!reader.ended()) {
    AddDamage(recording.damage, {file.bytes().size(), 0, "the end mark is missing"});
  }
  return absl::OkStatus();
}

// How many allocations the file's end mark tells of, for making room; 0 when that is not to be had
// or not to be believed.
uint64_t CountAllocations(const MappedFile& file) {
  const auto bytes = file.bytes();
  uint64_t raw_bytes = 0;
  for (uint64_t at = sizeof(FileHeader); at + sizeof(ChunkHeader) <= bytes.size();) {
    ChunkHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    if (header.sync != kChunkSync) return 0;
    if (header.type == static_cast<uint32_t>(ChunkType::kEnd)) {
      std::vector<Damage> damage;
      Chunk chunk;
      if (!ChunkScanner(bytes, at, damage).Next(chunk) || chunk.offset != at) return 0;
      constexpr uint64_t kMostPerByte = 64;  // more are rare
      const uint64_t count = Number(ReadFields(chunk.raw), EndTag::kAllocations);
      const bool possible = count <= raw_bytes / 2;  // one takes two bytes at least
      return possible ? std::min(count, kMostPerByte * bytes.size()) : 0;
    }
    raw_bytes += std::min(header.raw_bytes, kMaxEventBytes);
    at += sizeof(header) + header.payload_bytes;
  }
  return 0;
}

}  // namespace

absl::Status ReadCompact(const MappedFile& file, const std::string& path, Recording& recording,
                         absl::FunctionRef<void(const Event&)> on_event) {
  Renumbering ours;
  Ledger ledger(recording, on_event);
  return ReadChunks(file, path, recording, ours, ledger);
}

absl::Status TooManyAllocations(const std::string& path) {
  return absl::OutOfRangeError(
      absl::StrCat(path, ": expected at most ", kNone, " allocations, found more"));
}

absl::Status LoadCompact(const MappedFile& file, const std::string& path, Recording& recording) {
  recording.allocations.reserve(CountAllocations(file));
  Renumbering ours;
  WholeRecording books(recording, ours);
  absl::Status status = ReadChunks(file, path, recording, ours, books);
  return status.ok() && books.too_many() ? TooManyAllocations(path) : status;
}

absl::StatusOr<Process> ReadCompactProcess(const MappedFile& file, const std::string& path) {
  std::vector<Damage> damage;
  absl::Status header = CheckHeader(file, path, damage);
  if (!header.ok()) return header;
  ChunkScanner scanner(file.bytes(), sizeof(FileHeader), damage);
  Chunk chunk;
  while (scanner.Next(chunk)) {
    if (chunk.type == ChunkType::kProcess) return ReadProcessChunk(chunk.raw);
  }
  return absl::DataLossError(
      absl::StrCat(path, ": expected a chunk that describes the process, found none"));
}

}  // namespace reprise::trace
