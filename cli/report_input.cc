#include "cli/report_input.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/machine_memory.h"
#include "replay/compare/compare.h"
#include "replay/plan/plan_file.h"
#include "trace/format.h"
#include "trace/reader.h"

namespace reprise::cli {
namespace {

absl::StatusOr<HeapMap> LoadCsvPlan(const Subject& subject, const std::string& path) {
  const absl::StatusOr<trace::CsvInstance> plan = trace::ReadCsv(path, subject.ignore_unknown);
  if (!plan.ok()) return plan.status();
  WarnOfIgnored(path, plan->ignored);
  if (!plan->has_offsets) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":1: expected a column `offset`, found none"));
  }
  absl::flat_hash_map<std::string, const trace::CsvBuffer*> by_id;
  for (const trace::CsvBuffer& buffer : plan->buffers) by_id.emplace(buffer.id, &buffer);
  // The n-th allocation of the recording is the n-th birth.
  const std::vector<trace::CsvBuffer>& buffers = subject.instance.buffers;
  std::vector<uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return buffers[a].lower < buffers[b].lower; });
  HeapMap map{.name = FileName(path), .kind = "plan"};
  for (const uint32_t row : order) {
    const auto found = by_id.find(buffers[row].id);
    if (found == by_id.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected buffer '", buffers[row].id, "', found none"));
    }
    if (!found->second->offset) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", found->second->line, ": expected an offset, found none"));
    }
    map.offsets.push_back(*found->second->offset);
    map.height = std::max(map.height, map.offsets.back() + buffers[row].size);
  }
  return map;
}

// The images of a folder, highest max load first. One that cannot be read is named and left out.
absl::StatusOr<std::vector<ImageLoad>> RankImages(const std::vector<std::string>& paths) {
  std::vector<ImageLoad> images;
  absl::Status failure;
  for (const std::string& path : paths) {
    trace::Recording tables;
    trace::StatisticsBuilder statistics;
    const absl::Status status =
        trace::ReadTrace(path, tables, [&](const trace::Event& event) { statistics.Add(event); });
    if (!status.ok()) {
      failure = status;
      absl::FPrintF(stderr, "reprise: left out: %s\n", Printable(std::string(status.message())));
      continue;
    }
    images.push_back(
        {path, FileName(tables.process.executable), statistics.Finish(tables.sites, 0).max_load});
  }
  if (images.empty()) return failure;
  std::stable_sort(images.begin(), images.end(),
                   [](const ImageLoad& a, const ImageLoad& b) { return a.max_load > b.max_load; });
  return images;
}

// A page is about one process: says which, and how to see the others.
void TellChoice(const std::string& folder, const std::vector<ImageLoad>& images) {
  constexpr size_t kMostNamed = 5;
  const auto describe = [](const ImageLoad& image) {
    return absl::StrCat(FileName(image.path), " (max load ",
                        HumanBytes(static_cast<double>(image.max_load)), ")");
  };
  std::string others;
  for (size_t i = 1; i < images.size() && i <= kMostNamed; ++i) {
    absl::StrAppend(&others, i > 1 ? ", " : "", describe(images[i]));
  }
  if (images.size() > kMostNamed + 1) {
    absl::StrAppend(&others, " and ", images.size() - kMostNamed - 1, " smaller ones");
  }
  absl::FPrintF(stderr,
                "reprise: %s: this is about %s, the largest of %d process images; name the "
                "file of another one to see it: %s\n",
                Printable(folder), Printable(describe(images.front())), images.size(),
                Printable(others));
}

}  // namespace

absl::StatusOr<Subject> LoadSubject(const std::string& path, bool ignore_unknown) {
  const absl::StatusOr<std::vector<std::string>> paths = trace::FindTraces(path);
  if (!paths.ok()) return paths.status();
  Subject subject;
  subject.ignore_unknown = ignore_unknown;
  subject.path = paths->front();
  if (paths->size() > 1) {
    absl::StatusOr<std::vector<ImageLoad>> images = RankImages(*paths);
    if (!images.ok()) return images.status();
    subject.path = images->front().path;
    if (images->size() > 1) TellChoice(path, *images);
    subject.images = *std::move(images);
  }
  const absl::StatusOr<trace::Format> format = trace::DetectFormat(subject.path);
  if (!format.ok()) return format.status();
  if (*format == trace::Format::kCsv) {
    absl::StatusOr<trace::CsvInstance> instance = trace::ReadCsv(subject.path, ignore_unknown);
    if (!instance.ok()) return instance.status();
    WarnOfIgnored(subject.path, instance->ignored);
    subject.is_instance = true;
    subject.alignment = 1;
    subject.recording = trace::ToRecording(*instance);
    subject.statistics = trace::ComputeStatistics(*instance, subject.recording);
    subject.instance = *std::move(instance);
  } else {
    absl::StatusOr<trace::Recording> recording = trace::LoadRecording(subject.path);
    if (!recording.ok()) return recording.status();
    subject.recording = *std::move(recording);
    WarnOfDamage(subject.path, subject.recording);
    subject.statistics = trace::ComputeStatistics(subject.recording, 0);
  }
  const std::string& executable = subject.recording.process.executable;
  subject.name = FileName(executable.empty() ? subject.path : executable);
  return subject;
}

absl::StatusOr<HeapMap> LoadPlanMap(const Subject& subject, const std::string& path) {
  if (subject.is_instance) return LoadCsvPlan(subject, path);
  const std::string file_path = replay::PlanFor(path, subject.path);
  const absl::StatusOr<replay::PlanFile> file = replay::PlanFile::Read(file_path);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::vector<int64_t>> offsets = replay::PlanOffsets(*file, subject.recording);
  if (!offsets.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file_path, ": ", offsets.status().message()));
  }
  HeapMap map{.name = "plan", .kind = "plan", .detail = FileName(file_path)};
  map.offsets = *std::move(offsets);
  const std::vector<trace::Allocation>& allocations = subject.recording.allocations;
  for (size_t i = 0; i < map.offsets.size(); ++i) {
    if (map.offsets[i] == HeapMap::kNowhere) continue;
    const auto bytes =
        static_cast<int64_t>(trace::BlockBytes(allocations[i].size, subject.alignment));
    map.height = std::max(map.height, map.offsets[i] + bytes);
  }
  return map;
}

absl::StatusOr<HeapMap> RunAllocatorMap(const Subject& subject, const std::string& name,
                                        bool touch) {
  if (touch) {
    absl::Status fits = FitsInMemory(subject.path, subject.statistics.max_load);
    if (!fits.ok()) return fits;
  }
  replay::CompareOptions options;
  options.touch = touch;
  absl::StatusOr<std::vector<replay::Allocator>> allocators = replay::ParseAllocators(name);
  if (!allocators.ok()) return absl::FailedPreconditionError(allocators.status().message());
  const absl::StatusOr<replay::Observation> seen =
      replay::ObserveAllocator(subject.recording, allocators->front(), options, {});
  if (!seen.ok()) return seen.status();
  HeapMap map = report::CompactAddresses(subject.recording, seen->addresses);
  map.name = allocators->front().name;
  return map;
}

}  // namespace reprise::cli
