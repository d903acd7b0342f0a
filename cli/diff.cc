// `reprise diff`: what grew from one recording, or one plan, to another.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/instance_file.h"
#include "replay/plan/plan_file.h"
#include "trace/call_sites.h"
#include "trace/format.h"
#include "trace/reader.h"
#include "trace/site_accounts.h"
#include "trace/statistics.h"
#include "trace/symbols.h"

namespace reprise::cli {
namespace {

using nlohmann::ordered_json;

struct DiffOptions {
  std::string first, second;
  int64_t rows = 15;
  bool json = false;
};

// One thing that has a value on either side.
struct Row {
  std::string name;
  int64_t first = 0, second = 0;                // bytes
  int64_t first_blocks = 0, second_blocks = 0;  // 0 where blocks are not counted
  int64_t change() const { return second - first; }
};

// What grew most comes first, what shrank most last.
void Sort(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.change() != b.change() ? a.change() > b.change() : a.name < b.name;
  });
}

struct Difference {
  std::string kind;           // "recordings", "plans" or "instances"
  std::vector<Row> totals{};  // bytes, and counts where the name says so; summed over the images
  std::vector<Row> images{};  // max loads
  std::vector<Row> sites{};   // bytes live at the peak
  std::vector<Row> threads{};
  std::vector<Row> buffers{};  // of instances: sizes
  std::vector<Row> offsets{};  // of instances where both give them
};

using Table = std::map<std::string, std::pair<int64_t, int64_t>>;

// A process image of one side: a trace or a plan.
struct Image {
  std::string file;    // without its folder and extension
  uint64_t place = 0;  // in the process tree
  int64_t max_load = 0;
  int64_t blocks = 0;
};

// One side, once read: by names, which may fit the other side's.
struct Side {
  std::vector<Row> totals;  // only `first` is used
  std::vector<Image> images;
  Table sites;    // name → bytes at the peak, blocks
  Table threads;  // name → most live, blocks
};

std::string Base(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Adds `value` to the total of that name.
void AddTotal(Side& side, const char* name, uint64_t value) {
  const auto found = std::find_if(side.totals.begin(), side.totals.end(),
                                  [&](const Row& row) { return row.name == name; });
  Row& row = found != side.totals.end() ? *found : side.totals.emplace_back(Row{.name = name});
  row.first += static_cast<int64_t>(value);
}

void AddTo(Table& table, const std::string& name, uint64_t bytes, uint64_t blocks) {
  auto& [all_bytes, all_blocks] = table[name];
  all_bytes += static_cast<int64_t>(bytes);
  all_blocks += static_cast<int64_t>(blocks);
}

std::string Stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

// What an image is called but for its number: "00012-cc1plus" is a cc1plus.
std::string ProgramOf(const std::string& file) {
  const size_t dash = file.find('-');
  const bool numbered =
      dash != std::string::npos && file.find_first_not_of("0123456789") == dash && dash > 0;
  return numbered ? file.substr(dash + 1) : file;
}

// A site by what survives another build: function and module. Without a name, module and offset.
std::string NameOfSite(const trace::Recording& recording, uint32_t index,
                       trace::Symbolizer& symbolizer) {
  if (index == trace::kNone) return "(unknown)";
  const trace::Site& site = recording.sites[index];
  if (site.module == trace::kNone) return absl::StrFormat("%#x", site.offset);
  const trace::Module& module = recording.modules[site.module];
  const trace::CallSiteText text = trace::DescribeCallSite(recording, index, &symbolizer);
  if (text.function == text.address) return text.address;
  return absl::StrCat(text.function, " (", Base(module.path), ")");
}

std::string NameOfThread(const trace::Recording& recording, uint32_t index) {
  if (index == 0) return "main";
  const trace::Thread& thread = recording.threads[index];
  return absl::StrFormat("thread %016x%s%s", thread.path, thread.name.empty() ? "" : " ",
                         thread.name);
}

// Reads the trace at `path` into `side`; threads of one of several processes bear its name, too.
absl::Status ReadImage(const std::string& path, bool several, Side& side) {
  trace::StatisticsBuilder builder;
  struct ThreadLoad {
    uint64_t live = 0, most = 0, blocks = 0;
  };
  std::vector<ThreadLoad> loads;
  absl::flat_hash_map<uint64_t, uint32_t> owner;  // of live blocks: freed by whomever
  trace::Recording first;
  absl::Status status = trace::ReadTrace(path, first, [&](const trace::Event& event) {
    builder.Add(event);
    const uint64_t bytes = trace::BlockBytes(event.size);
    if (event.kind == trace::EventKind::kAllocate) {
      if (loads.size() <= event.thread) loads.resize(event.thread + 1);
      ThreadLoad& load = loads[event.thread];
      load.most = std::max(load.most, load.live += bytes);
      ++load.blocks;
      owner.emplace(event.block, event.thread);
    } else if (event.kind == trace::EventKind::kFree ||
               event.kind == trace::EventKind::kImpliedFree) {
      const auto found = owner.find(event.block);
      if (found == owner.end()) return;
      loads[found->second].live -= bytes;
      owner.erase(found);
    }
  });
  if (!status.ok()) return status;
  const trace::Statistics statistics = builder.Finish(first.sites, 0);
  trace::Recording tables;
  trace::SiteAccountsBuilder accounts(tables, statistics.peak_event);
  status = trace::ReadTrace(path, tables, [&](const trace::Event& event) { accounts.Add(event); });
  if (!status.ok()) return status;
  NoteDamage(path, tables);
  AddTotal(side, "max_load", statistics.max_load);
  AddTotal(side, "requested_max_load", statistics.requested_max_load);
  AddTotal(side, "sum_bytes", statistics.sum_bytes);
  AddTotal(side, "never_freed_bytes", statistics.never_freed_bytes);
  AddTotal(side, "buffers", statistics.buffers);
  side.images.push_back({.file = Stem(path),
                         .place = tables.process.place,
                         .max_load = static_cast<int64_t>(statistics.max_load),
                         .blocks = static_cast<int64_t>(statistics.buffers)});
  trace::Symbolizer symbolizer;
  for (const trace::SiteAccount& it : accounts.Finish()) {
    AddTo(side.sites, NameOfSite(tables, it.site, symbolizer), it.peak_bytes, it.peak_blocks);
  }
  const std::string process =
      several ? absl::StrCat(trace::ProgramName(tables.process), ": ") : std::string();
  for (uint32_t i = 0; i < loads.size(); ++i) {
    AddTo(side.threads, absl::StrCat(process, NameOfThread(tables, i)), loads[i].most,
          loads[i].blocks);
  }
  return absl::OkStatus();
}

absl::StatusOr<Side> ReadTraces(const std::vector<std::string>& paths, bool several) {
  Side side;
  for (const std::string& path : paths) {
    if (absl::Status status = ReadImage(path, several, side); !status.ok()) return status;
  }
  return side;
}

std::vector<Row> Merge(const Table& first, const Table& second) {
  std::map<std::string, Row> rows;
  for (const auto& [name, value] : first) {
    Row& row = rows[name];
    row.first = value.first;
    row.first_blocks = value.second;
  }
  for (const auto& [name, value] : second) {
    Row& row = rows[name];
    row.second = value.first;
    row.second_blocks = value.second;
  }
  std::vector<Row> list;
  for (auto& [name, row] : rows) {
    if (row.first == 0 && row.second == 0) continue;
    row.name = name;
    list.push_back(std::move(row));
  }
  Sort(list);
  return list;
}

// The images that stand for each other: of the same place in the process tree, or else of the same
// program, in the order in which they were started. Two that are alone are compared whatever they
// are.
std::vector<Row> MergeImages(const std::vector<Image>& first, const std::vector<Image>& second) {
  std::vector<const Image*> partner(first.size());
  std::vector<bool> taken(second.size());
  const auto match = [&](const auto& fits) {
    for (size_t i = 0; i < first.size(); ++i) {
      for (size_t k = 0; k < second.size() && partner[i] == nullptr; ++k) {
        if (taken[k] || !fits(first[i], second[k])) continue;
        partner[i] = &second[k];
        taken[k] = true;
      }
    }
  };
  match([](const Image& a, const Image& b) { return a.place != 0 && a.place == b.place; });
  match([](const Image& a, const Image& b) { return ProgramOf(a.file) == ProgramOf(b.file); });
  const bool alone = first.size() == 1 && second.size() == 1;
  if (alone) match([](const Image&, const Image&) { return true; });
  std::vector<Row> rows;
  for (size_t i = 0; i < first.size(); ++i) {
    Row row = {.name = first[i].file, .first = first[i].max_load, .first_blocks = first[i].blocks};
    if (partner[i] != nullptr) {
      if (partner[i]->file != row.name) absl::StrAppend(&row.name, " / ", partner[i]->file);
      row.second = partner[i]->max_load;
      row.second_blocks = partner[i]->blocks;
    }
    rows.push_back(std::move(row));
  }
  for (size_t k = 0; k < second.size(); ++k) {
    if (taken[k]) continue;
    rows.push_back(
        {.name = second[k].file, .second = second[k].max_load, .second_blocks = second[k].blocks});
  }
  Sort(rows);
  return rows;
}

Difference Compare(const char* kind, const Side& first, const Side& second) {
  Difference difference{.kind = kind, .totals = first.totals};
  for (size_t i = 0; i < difference.totals.size(); ++i) {
    difference.totals[i].second = second.totals[i].first;
  }
  difference.images = MergeImages(first.images, second.images);
  difference.sites = Merge(first.sites, second.sites);
  difference.threads = Merge(first.threads, second.threads);
  return difference;
}

absl::StatusOr<Difference> DiffRecordings(const DiffOptions& options) {
  const absl::StatusOr<std::vector<std::string>> before = trace::FindTraces(options.first);
  if (!before.ok()) return before.status();
  const absl::StatusOr<std::vector<std::string>> after = trace::FindTraces(options.second);
  if (!after.ok()) return after.status();
  const bool several = before->size() > 1 || after->size() > 1;
  const absl::StatusOr<Side> first = ReadTraces(*before, several);
  if (!first.ok()) return first.status();
  const absl::StatusOr<Side> second = ReadTraces(*after, several);
  if (!second.ok()) return second.status();
  return Compare("recordings", *first, *second);
}

absl::StatusOr<Side> ReadPlans(const std::vector<std::string>& paths) {
  Side side;
  for (const std::string& path : paths) {
    const absl::StatusOr<replay::PlanFile> plan = replay::PlanFile::Read(path);
    if (!plan.ok()) return plan.status();
    const replay::PlanHeader& header = plan->header();
    const std::string process =
        paths.size() > 1 ? absl::StrCat(ProgramOf(Stem(path)), ": ") : std::string();
    const auto* table = plan->table<replay::PlanLane>(header.lanes);
    uint64_t blocks = 0, lanes = 0;
    for (uint64_t i = 0; i < header.lanes.count; ++i) {
      if (table[i].box_bytes == 0) continue;
      ++lanes;
      const std::string lane = table[i].path == 0 ? std::string("all threads")
                                                  : absl::StrFormat("thread %016x", table[i].path);
      AddTo(side.threads, absl::StrCat(process, lane), table[i].box_bytes, table[i].blocks);
      blocks += table[i].blocks;
    }
    AddTotal(side, "arena_bytes", header.arena_bytes);
    AddTotal(side, "max_load", header.max_load);
    AddTotal(side, "file_bytes", header.file_bytes);
    AddTotal(side, "lanes", lanes);
    AddTotal(side, "keys", header.keys.count);
    side.images.push_back({.file = Stem(path),
                           .place = header.place,
                           .max_load = static_cast<int64_t>(header.max_load),
                           .blocks = static_cast<int64_t>(blocks)});
  }
  return side;
}

// An instance: CSV, a graph, a Mondrian file.
absl::StatusOr<InstanceFile> ReadSide(const std::string& path, Side& side) {
  absl::StatusOr<InstanceFile> file = ReadInstance(path, /*ignore_unknown=*/false);
  if (!file.ok()) return file.status();
  const trace::CsvInstance& instance = file->instance;
  const trace::Statistics statistics =
      trace::ComputeStatistics(instance, trace::ToRecording(instance));
  AddTotal(side, "max_load", statistics.max_load);
  AddTotal(side, "sum_bytes", statistics.sum_bytes);
  AddTotal(side, "buffers", instance.buffers.size());
  int64_t makespan = 0;
  bool placed = true;
  for (const trace::CsvBuffer& it : instance.buffers) {
    placed &= it.offset.has_value();
    makespan = std::max(makespan, it.offset.value_or(0) + it.size);
    AddTo(side.sites, it.id, static_cast<uint64_t>(it.size), 1);
  }
  if (placed) AddTotal(side, "makespan", static_cast<uint64_t>(makespan));
  return file;
}

// Buffers stand for each other by their names.
absl::StatusOr<Difference> DiffInstances(const DiffOptions& options) {
  Side before, after;
  const absl::StatusOr<InstanceFile> first = ReadSide(options.first, before);
  if (!first.ok()) return first.status();
  const absl::StatusOr<InstanceFile> second = ReadSide(options.second, after);
  if (!second.ok()) return second.status();
  if (before.totals.size() != after.totals.size()) {  // one has no makespan
    before.totals.resize(std::min(before.totals.size(), after.totals.size()));
    after.totals.resize(before.totals.size());
  }
  Difference difference{.kind = "instances", .totals = before.totals};
  for (size_t i = 0; i < difference.totals.size(); ++i) {
    difference.totals[i].second = after.totals[i].first;
  }
  difference.buffers = Merge(before.sites, after.sites);
  std::map<std::string, int64_t> offsets;
  for (const trace::CsvBuffer& it : first->instance.buffers) {
    if (it.offset) offsets[it.id] = *it.offset;
  }
  for (const trace::CsvBuffer& it : second->instance.buffers) {
    const auto found = offsets.find(it.id);
    if (found == offsets.end() || !it.offset) continue;
    difference.offsets.push_back({.name = it.id, .first = found->second, .second = *it.offset});
  }
  Sort(difference.offsets);
  return difference;
}

// Whether the path is a file of an instance. What cannot be told is read as a trace, and complains.
bool IsInstance(const std::string& path) {
  if (trace::IsFolder(path)) return false;
  const absl::StatusOr<trace::Format> format = trace::DetectFormat(path);
  return format.ok() && (*format == trace::Format::kCsv || *format == trace::Format::kJson);
}

ordered_json ToJson(const std::vector<Row>& rows) {
  ordered_json list = ordered_json::array();
  for (const Row& it : rows) {
    list.push_back({{"name", it.name},
                    {"first", it.first},
                    {"second", it.second},
                    {"change", it.change()},
                    {"first_blocks", it.first_blocks},
                    {"second_blocks", it.second_blocks}});
  }
  return list;
}

// A name as wide as the numbers beside it leave room for.
std::string NameColumn(const std::string& name) {
  constexpr size_t kNumbers = 40, kLeast = 20;
  const size_t width = std::max(Columns(), kNumbers + kLeast) - kNumbers;
  std::string column = base::Shortened(name, width);
  const size_t used = base::Width(column);
  if (used < width) column.append(width - used, ' ');
  return column;
}

void PrintRows(const char* title, std::vector<Row> rows, int64_t most) {
  std::erase_if(rows, [](const Row& row) {
    return row.change() == 0 && row.first_blocks == row.second_blocks;
  });
  if (rows.empty()) return;
  // The ends of the list are what people look for.
  const size_t all = rows.size();
  if (static_cast<int64_t>(all) > most) {
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return std::abs(a.change()) > std::abs(b.change());
    });
    rows.resize(static_cast<size_t>(most));
    Sort(rows);
  }
  absl::PrintF("\n%s %12s %12s %13s\n", NameColumn(title), "first", "second", "change");
  for (const Row& it : rows) {
    const auto human = [](int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); };
    const std::string change =
        absl::StrCat(it.change() < 0 ? "-" : "+", human(std::abs(it.change())));
    absl::PrintF("%s %12s %12s %13s\n", NameColumn(Printable(it.name)), human(it.first),
                 human(it.second), change);
  }
  if (all > rows.size()) absl::PrintF("  … and %d more that changed less\n", all - rows.size());
}

void Print(const Difference& difference, const DiffOptions& options) {
  const std::string sum = difference.images.size() > 1 ? ", all images" : "";
  absl::PrintF("%s %12s %12s %13s\n", NameColumn(difference.kind + sum), "first", "second",
               "change");
  for (const Row& it : difference.totals) {
    const std::string percent =
        it.first > 0 ? absl::StrFormat("%+.1f %%", 100.0 * static_cast<double>(it.change()) /
                                                       static_cast<double>(it.first))
                     : "";
    absl::PrintF("%s %12d %12d %13s\n", NameColumn(it.name), it.first, it.second, percent);
  }
  if (difference.images.size() > 1) {
    PrintRows("process images, max load", difference.images, options.rows);
  }
  PrintRows("buffers, size", difference.buffers, options.rows);
  PrintRows("buffers, offset", difference.offsets, options.rows);
  PrintRows("call sites, live at the peak", difference.sites, options.rows);
  PrintRows(difference.kind == "plans" ? "lanes" : "threads, most live at one time",
            difference.threads, options.rows);
}

absl::StatusOr<Difference> Diff(const DiffOptions& options) {
  // A plan says so in its first bytes; what is no plan is read as a trace, and complains as one.
  const auto plans_at = [](const std::string& path) {
    absl::StatusOr<std::vector<std::string>> paths = replay::FindPlans(path);
    if (!paths.ok()) return std::vector<std::string>();
    const absl::StatusOr<trace::MappedFile> file = trace::MappedFile::Open(paths->front());
    return file.ok() && replay::IsPlan(*file) ? *std::move(paths) : std::vector<std::string>();
  };
  std::vector<std::string> first = plans_at(options.first);
  std::vector<std::string> second = plans_at(options.second);
  // A folder may hold both.
  const auto traces_at = [](const std::string& path, const std::vector<std::string>& plans) {
    return trace::IsFolder(path) ? trace::FindTraces(path).ok() : plans.empty();
  };
  if (traces_at(options.first, first) && traces_at(options.second, second)) {
    first.clear();
    second.clear();
  }
  if (IsInstance(options.first) && IsInstance(options.second)) return DiffInstances(options);
  if (IsInstance(options.first) || IsInstance(options.second)) {
    return absl::InvalidArgumentError(absl::StrCat(
        IsInstance(options.first) ? options.second : options.first, ": expected an instance, as ",
        IsInstance(options.first) ? options.first : options.second,
        " is one, found something else"));
  }
  if (first.empty() && second.empty()) return DiffRecordings(options);
  if (first.empty() || second.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        first.empty() ? options.first : options.second, ": expected a plan, as ",
        first.empty() ? options.second : options.first, " is one, found something else"));
  }
  const absl::StatusOr<Side> before = ReadPlans(first);
  if (!before.ok()) return before.status();
  const absl::StatusOr<Side> after = ReadPlans(second);
  if (!after.ok()) return after.status();
  return Compare("plans", *before, *after);
}

int RunDiff(const DiffOptions& options) {
  const absl::StatusOr<Difference> difference = Diff(options);
  if (!difference.ok()) return Fail(difference.status());
  if (!options.json) {
    Print(*difference, options);
    return kDone;
  }
  ordered_json json = {{"kind", difference->kind}};
  for (const Row& it : difference->totals) {
    json[it.name] = {{"first", it.first}, {"second", it.second}, {"change", it.change()}};
  }
  json["images"] = ToJson(difference->images);
  json["sites"] = ToJson(difference->sites);
  json["threads"] = ToJson(difference->threads);
  if (difference->kind == "instances") {
    json["buffer_sizes"] = ToJson(difference->buffers);
    json["buffer_offsets"] = ToJson(difference->offsets);
  }
  PrintJson(json);
  return kDone;
}

}  // namespace

void AddDiff(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("diff", "Say what grew between two recordings or plans");
  auto options = std::make_shared<DiffOptions>();
  command
      ->add_option("first", options->first, "a trace or a plan, a folder of them, or an instance")
      ->required();
  command->add_option("second", options->second, "another one of the same kind")->required();
  command->add_option("--rows", options->rows, "show so many call sites and threads")
      ->check(WholeNumber(1, 1000000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([&run, options] { run = [options] { return RunDiff(*options); }; });
}

}  // namespace reprise::cli
