#include "cli/report_input.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/csv_instance.h"
#include "cli/instance_file.h"
#include "cli/machine_memory.h"
#include "planner/core/check.h"
#include "replay/compare/compare.h"
#include "replay/plan/plan_builder.h"
#include "replay/plan/plan_file.h"
#include "trace/format.h"
#include "trace/reader.h"

namespace reprise::cli {
namespace {

// The rows of an instance in the order of its recording's allocations: the n-th is the n-th birth.
std::vector<uint32_t> RowsByBirth(const trace::Recording& recording) {
  std::vector<uint32_t> rows;
  rows.reserve(recording.allocations.size());
  for (const trace::Allocation& it : recording.allocations) rows.push_back(it.site);
  return rows;
}

// A map with the blocks of an instance at the offsets of its rows; kNowhere: not in the map.
HeapMap MapOfRows(const Subject& subject, const std::string& name,
                  const std::vector<int64_t>& offsets) {
  HeapMap map{.name = name, .kind = "plan"};
  for (const uint32_t row : RowsByBirth(subject.recording)) {
    map.offsets.push_back(offsets[row]);
    if (offsets[row] == HeapMap::kNowhere) continue;
    map.height = std::max(map.height, offsets[row] + subject.instance.buffers[row].size);
  }
  return map;
}

// Aborted unless the independent checker accepts the plan.
absl::Status CheckPlan(const Subject& subject, const planner::Instance& instance,
                       const std::vector<int64_t>& offsets, const std::string& plan_path,
                       const planner::BufferName& name) {
  const planner::CheckResult result = planner::Check(instance, offsets, /*most=*/1);
  if (result.valid) return absl::OkStatus();
  return NotValid(plan_path, subject.path,
                  planner::Describe(result.violations.front(), instance, offsets, name));
}

// The plan at `path` of an instance, which has these offsets for its rows.
absl::StatusOr<HeapMap> MapOfCsvPlan(const Subject& subject, const std::string& path,
                                     const std::vector<int64_t>& rows) {
  planner::Instance instance = ToInstance(subject.instance, /*keep_offsets=*/true);
  instance.alignments.clear();  // they hold for addresses: for offsets from a start not known here
  std::vector<int64_t> offsets;
  std::vector<uint32_t> rows_of;
  for (uint32_t row = 0; row < rows.size(); ++row) {
    if (subject.instance.buffers[row].size == 0) continue;  // as ToInstance does
    offsets.push_back(rows[row]);
    rows_of.push_back(row);
  }
  const auto name = [&](uint32_t buffer) {
    return absl::StrCat("buffer '", subject.instance.buffers[rows_of[buffer]].id, "'");
  };
  absl::Status status = CheckPlan(subject, instance, offsets, path, name);
  if (!status.ok()) return status;
  return MapOfRows(subject, FileName(path), rows);
}

absl::StatusOr<HeapMap> LoadCsvPlan(const Subject& subject, const std::string& path) {
  const absl::StatusOr<std::vector<int64_t>> rows =
      PlannedOffsets(subject.instance, path, subject.ignore_unknown);
  if (!rows.ok()) return rows.status();
  return MapOfCsvPlan(subject, path, *rows);
}

// The offsets that an instance gives, kNowhere for those that it leaves to the planner.
std::vector<int64_t> GivenOffsets(const trace::CsvInstance& instance) {
  std::vector<int64_t> offsets;
  offsets.reserve(instance.buffers.size());
  for (const trace::CsvBuffer& it : instance.buffers) {
    offsets.push_back(it.offset.value_or(HeapMap::kNowhere));
  }
  return offsets;
}

// ReadInstance has checked the plan.
absl::StatusOr<HeapMap> LoadGraphPlan(const Subject& subject, const std::string& path) {
  const absl::StatusOr<InstanceFile> planned =
      ReadInstance(subject.path, subject.ignore_unknown, path);
  if (!planned.ok()) return planned.status();
  if (planned->operators != subject.operators) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--plan: ", path, " has another order of execution than the first plan; one page has one"));
  }
  return MapOfRows(subject, FileName(path), GivenOffsets(planned->instance));
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
    images.push_back({path, trace::ProgramName(tables.process),
                      absl::StrJoin(trace::SplitWords(tables.process.command), " "),
                      statistics.Finish(tables.sites, 0).max_load});
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
    absl::StrAppend(&others, " and ", Counted(images.size() - kMostNamed - 1, "smaller one"));
  }
  absl::FPrintF(stderr,
                "reprise: %s: this is about %s, the largest of %d process images; name the "
                "file of another one to see it: %s\n",
                Printable(folder), Printable(describe(images.front())), images.size(),
                Printable(others));
}

}  // namespace

absl::StatusOr<Subject> LoadSubject(const std::string& path, bool ignore_unknown,
                                    const std::string& graph_plan) {
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
  if (*format == trace::Format::kCsv || *format == trace::Format::kJson) {
    absl::StatusOr<InstanceFile> file = ReadInstance(subject.path, ignore_unknown, graph_plan);
    if (!file.ok()) return file.status();
    subject.is_instance = true;
    subject.is_graph = file->is_graph;
    subject.alignment = 1;
    subject.operators = std::move(file->operators);
    subject.instance = std::move(file->instance);
    subject.recording = trace::ToRecording(subject.instance, /*names=*/true);
    subject.statistics = trace::ComputeStatistics(subject.instance, subject.recording);
  } else {
    absl::StatusOr<trace::Recording> recording = trace::LoadRecording(subject.path);
    if (!recording.ok()) return recording.status();
    subject.recording = *std::move(recording);
    NoteDamage(subject.path, subject.recording);
    subject.statistics = trace::ComputeStatistics(subject.recording, 0);
  }
  subject.name = trace::ProgramName(subject.recording.process);
  if (subject.name.empty()) subject.name = FileName(subject.path);
  return subject;
}

absl::StatusOr<HeapMap> LoadPlanMap(const Subject& subject, const std::string& path) {
  if (subject.is_graph) return LoadGraphPlan(subject, path);
  if (subject.is_instance) return LoadCsvPlan(subject, path);
  const std::string file_path = replay::PlanFor(path, subject.path);
  const absl::StatusOr<replay::PlanFile> file = replay::PlanFile::Read(file_path);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::vector<int64_t>> offsets = replay::PlanOffsets(*file, subject.recording);
  if (!offsets.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file_path, ": ", offsets.status().message()));
  }
  planner::Instance instance = replay::WholeInstance(subject.recording);
  std::vector<int64_t> planned = *offsets;
  replay::KeepPlanned(instance, planned);
  absl::Status status = CheckPlan(subject, instance, planned, file_path, /*name=*/{});
  if (!status.ok()) return status;
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

absl::StatusOr<HeapMap> LoadGivenMap(const Subject& subject) {
  const std::vector<int64_t> rows = GivenOffsets(subject.instance);
  const bool all = std::find(rows.begin(), rows.end(), HeapMap::kNowhere) == rows.end();
  if (all) return MapOfCsvPlan(subject, subject.path, rows);
  return MapOfRows(subject, "fixed offsets", rows);
}

absl::StatusOr<HeapMap> RunAllocatorMap(const Subject& subject, const std::string& name,
                                        bool touch) {
  if (touch) {
    absl::Status fits = FitsInMemory(subject.path, subject.statistics.max_load);
    if (!fits.ok()) return fits;
  }
  constexpr size_t kLooks = 100;  // at what was given back meanwhile
  replay::CompareOptions options;
  options.touch = touch;
  absl::StatusOr<std::vector<replay::Allocator>> allocators = replay::ParseAllocators(name);
  if (!allocators.ok()) return absl::FailedPreconditionError(allocators.status().message());
  const absl::StatusOr<replay::Observation> seen = replay::ObserveAllocator(
      subject.recording, allocators->front(), options,
      replay::SampleEvents(subject.recording, kLooks, subject.statistics.peak_event));
  if (!seen.ok()) return seen.status();
  HeapMap map = report::CompactAddresses(subject.recording, *seen);
  map.name = allocators->front().name;
  return map;
}

}  // namespace reprise::cli
