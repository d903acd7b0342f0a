#include "trace/reader.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "trace/android.h"
#include "trace/compact_reader.h"
#include "trace/format.h"
#include "trace/spool_reader.h"

namespace reprise::trace {
namespace {

absl::Status NotATrace(const MappedFile& file, const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": offset 0: expected a trace, found ",
                   file.bytes().empty() ? "an empty file" : "something else"));
}

}  // namespace

absl::Status ReadTrace(const MappedFile& file, const std::string& path, Recording& recording,
                       absl::FunctionRef<void(const Event&)> on_event) {
  switch (DetectFormat(file, path)) {
    case Format::kSpool:
      return ReadSpool(file, path, recording, on_event);
    case Format::kCompact:
      return ReadCompact(file, path, recording, on_event);
    case Format::kAndroid:
      return ReadAndroid(file, path, recording, on_event);
    default:
      return NotATrace(file, path);
  }
}

absl::Status ReadTrace(const std::string& path, Recording& recording,
                       absl::FunctionRef<void(const Event&)> on_event) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return ReadTrace(*file, path, recording, on_event);
}

absl::StatusOr<Process> ReadProcess(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  switch (DetectFormat(*file, path)) {
    case Format::kSpool:
      return ReadSpoolProcess(*file, path);
    case Format::kCompact:
      return ReadCompactProcess(*file, path);
    case Format::kAndroid:
      return Process{};
    default:
      return NotATrace(*file, path);
  }
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
    recording.allocations.reserve(CountAllocations(*file));
  }
  bool too_many = false;
  const absl::Status status = ReadTrace(*file, path, recording, [&](const Event& event) {
    too_many |= event.block >= kNone;
    AppendEvent(recording, event);
  });
  if (!status.ok()) return status;
  if (too_many) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": more than ", kNone, " allocations do not fit in memory"));
  }
  return recording;
}

absl::StatusOr<std::vector<std::string>> FindTraces(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (!fs::exists(path, error)) return FileError(ENOENT, path);
    return std::vector<std::string>{path};
  }
  std::vector<std::string> found;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const fs::path& file = it->path();
    if (file.extension() == ".trace") found.push_back(file.string());
    if (file.extension() == ".spool" && !fs::exists(fs::path(file).replace_extension(".trace"))) {
      found.push_back(file.string());
    }
  }
  if (error) return FileError(error.value(), path);
  if (found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected *.trace or *.spool files, found none"));
  }
  std::sort(found.begin(), found.end());
  return found;
}

void ForEachEvent(const Recording& recording, absl::FunctionRef<void(const Event&)> on_event) {
  // What happens at each event index: an allocation's birth, or its death.
  struct Step {
    uint64_t index;
    uint32_t allocation;
    bool death;
  };
  std::vector<Step> steps;
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& allocation = recording.allocations[i];
    steps.push_back({allocation.birth, i, false});
    if (allocation.death != kNever) steps.push_back({allocation.death, i, true});
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.index < b.index; });
  std::vector<std::pair<uint32_t, uint64_t>> answers = recording.usable_answers;
  std::stable_sort(answers.begin(), answers.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t next_answer = 0;
  uint64_t index = 0;
  const auto unmatched_until = [&](uint64_t end) {
    for (; index < end; ++index) {
      Event event;
      event.kind = EventKind::kUnmatchedFree;
      event.index = index;
      on_event(event);
    }
  };
  for (const Step& step : steps) {
    unmatched_until(step.index);
    const Allocation& allocation = recording.allocations[step.allocation];
    Event event;
    event.kind = step.death ? EventKind::kFree : EventKind::kAllocate;
    event.allocation_kind = allocation.kind;
    event.log2_alignment = allocation.log2_alignment;
    const bool freed_elsewhere = step.death && allocation.free_thread != kNone;
    event.thread = freed_elsewhere ? allocation.free_thread : allocation.thread;
    event.site = allocation.site;
    event.index = index++;
    event.block = step.allocation;
    event.size = allocation.size;
    event.birth = allocation.birth;
    if (!step.death && allocation.previous != kNone) event.previous = allocation.previous;
    on_event(event);
    for (; !step.death && next_answer < answers.size() &&
           answers[next_answer].first == step.allocation;
         ++next_answer) {
      event.kind = EventKind::kUsable;
      event.usable = answers[next_answer].second;
      event.index = index;
      on_event(event);
    }
  }
  unmatched_until(recording.events);
}

}  // namespace reprise::trace
