#include "trace/reader.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/standard_stream.h"
#include "base/text.h"
#include "trace/compact_reader.h"
#include "trace/format.h"
#include "trace/formats/android.h"
#include "trace/spool_reader.h"

namespace reprise::trace {
namespace {

absl::Status NotATrace(const MappedFile& file, const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": offset 0: expected a trace, found ",
                   file.bytes().empty() ? "an empty file" : "something else"));
}

// A damaged file of which nothing is left holds no recording. One without events and without damage
// is that of a program that never allocated.
absl::Status SomethingLeft(const Recording& recording, const std::string& path) {
  if (recording.events > 0 || recording.damage.empty()) return absl::OkStatus();
  const Damage& first = recording.damage.front();
  return absl::DataLossError(absl::StrCat(
      path, ": damaged at offset ", first.offset, ", ", base::Counted(first.bytes, "byte"),
      " skipped: ", first.reason, ": expected events, found none that can be read"));
}

absl::StatusOr<Process> ReadProcess(const MappedFile& file, const std::string& path) {
  switch (DetectFormat(file, path)) {
    case Format::kSpool:
      return ReadSpoolProcess(file, path);
    case Format::kCompact:
      return ReadCompactProcess(file, path);
    case Format::kAndroid:
      return Process{};
    default:
      return NotATrace(file, path);
  }
}

}  // namespace

absl::Status ReadTrace(const MappedFile& file, const std::string& path, Recording& recording,
                       absl::FunctionRef<void(const Event&)> on_event) {
  absl::Status read;
  switch (DetectFormat(file, path)) {
    case Format::kSpool:
      read = ReadSpool(file, path, recording, on_event);
      break;
    case Format::kCompact:
      read = ReadCompact(file, path, recording, on_event);
      break;
    case Format::kAndroid:
      read = ReadAndroid(file, path, recording, on_event);
      break;
    default:
      return NotATrace(file, path);
  }
  return read.ok() ? SomethingLeft(recording, path) : read;
}

absl::Status ReadTrace(const std::string& path, Recording& recording,
                       absl::FunctionRef<void(const Event&)> on_event) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  absl::Status read = ReadTrace(*file, path, recording, on_event);
  absl::Status whole = file->Whole(path);
  return whole.ok() ? read : whole;
}

absl::StatusOr<Process> ReadProcess(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<Process> process = ReadProcess(*file, path);
  absl::Status whole = file->Whole(path);
  return whole.ok() ? process : whole;
}

void AppendEvent(Recording& recording, const Event& event) {
  if (event.kind == EventKind::kUnmatchedFree || event.block >= kNone) return;
  const auto block = static_cast<uint32_t>(event.block);
  switch (event.kind) {
    case EventKind::kAllocate: {
      Allocation& allocation = recording.allocations.emplace_back();
      allocation.birth = event.index;
      allocation.size = event.size;
      allocation.site = event.site;
      allocation.thread = event.thread;
      if (event.previous < block) allocation.previous = static_cast<uint32_t>(event.previous);
      allocation.kind = event.allocation_kind;
      allocation.log2_alignment = event.log2_alignment & 63;
      return;
    }
    case EventKind::kFree:
    case EventKind::kImpliedFree:
      recording.allocations[block].death = event.index;
      recording.allocations[block].free_thread = event.thread;
      return;
    case EventKind::kUsable:
      recording.usable_answers.emplace_back(block, event.usable);
      return;
    case EventKind::kUnmatchedFree:
      return;
  }
}

absl::StatusOr<Recording> LoadRecording(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  Recording recording;
  if (DetectFormat(*file, path) == Format::kCompact) {
    absl::Status status = LoadCompact(*file, path, recording);
    if (status.ok()) status = SomethingLeft(recording, path);
    if (absl::Status whole = file->Whole(path); !whole.ok()) return whole;
    if (!status.ok()) return status;
    return recording;
  }
  bool too_many = false;
  const absl::Status status = ReadTrace(*file, path, recording, [&](const Event& event) {
    too_many |= event.block >= kNone;
    AppendEvent(recording, event);
  });
  if (absl::Status whole = file->Whole(path); !whole.ok()) return whole;
  if (!status.ok()) return status;
  if (too_many) return TooManyAllocations(path);
  return recording;
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return path != base::kStandardStream && std::filesystem::is_directory(path, error);
}

absl::StatusOr<std::vector<std::string>> FindTraces(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!IsFolder(path)) {
    const bool there = path == base::kStandardStream || fs::exists(path, error);
    if (!there) return FileError(error ? error.value() : ENOENT, path);
    return std::vector<std::string>{path};
  }
  std::vector<std::string> found;
  bool is_plans = false;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const fs::path& file = it->path();
    std::error_code gone;  // since it was listed
    if (!fs::is_regular_file(file, gone)) continue;
    is_plans |= file.extension() == ".plan";
    if (file.extension() == ".trace") found.push_back(file.string());
    if (file.extension() == ".spool" && SpoolHasBegun(file) &&
        !fs::exists(fs::path(file).replace_extension(".trace"))) {
      found.push_back(file.string());
    }
  }
  if (error) return FileError(error.value(), path);
  if (found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected *.trace or *.spool files, found ",
                     is_plans ? "plans: name the recording they were made of" : "none"));
  }
  std::sort(found.begin(), found.end());
  return found;
}

void ForEachEvent(const Recording& recording, absl::FunctionRef<void(const Event&)> on_event) {
  const std::vector<Allocation>& allocations = recording.allocations;
  // Births come in order; who dies at an event is looked up.
  uint64_t events = recording.events;
  for (const Allocation& it : allocations) {
    events = std::max(events, (it.death != kNever ? it.death : it.birth) + 1);
  }
  std::vector<uint32_t> dying(events, kNone);
  for (uint32_t i = 0; i < allocations.size(); ++i) {
    if (allocations[i].death != kNever) dying[allocations[i].death] = i;
  }
  std::vector<std::pair<uint32_t, uint64_t>> answers = recording.usable_answers;
  std::stable_sort(answers.begin(), answers.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t next_answer = 0;
  const auto event_of = [&](EventKind kind, uint32_t block, uint64_t index) {
    const Allocation& it = allocations[block];
    Event event;
    event.kind = kind;
    event.allocation_kind = it.kind;
    event.log2_alignment = it.log2_alignment;
    const bool freed_elsewhere = kind == EventKind::kFree && it.free_thread != kNone;
    event.thread = freed_elsewhere ? it.free_thread : it.thread;
    event.site = it.site;
    event.index = index;
    event.block = block;
    event.size = it.size;
    event.birth = it.birth;
    if (kind == EventKind::kAllocate && it.previous != kNone) event.previous = it.previous;
    return event;
  };
  uint32_t next = 0;  // allocation
  for (uint64_t index = 0; index < events; ++index) {
    if (next < allocations.size() && allocations[next].birth == index) {
      Event event = event_of(EventKind::kAllocate, next, index);
      on_event(event);
      event.kind = EventKind::kUsable;
      event.index = index + 1;
      for (; next_answer < answers.size() && answers[next_answer].first == next; ++next_answer) {
        event.usable = answers[next_answer].second;
        on_event(event);
      }
      ++next;
    } else if (dying[index] != kNone) {
      on_event(event_of(EventKind::kFree, dying[index], index));
    } else {
      Event event;
      event.kind = EventKind::kUnmatchedFree;
      event.index = index;
      on_event(event);
    }
  }
}

}  // namespace reprise::trace
