// `reprise diff`: what grew from one recording, or one plan, to another.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "replay/plan_file.h"
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
  std::string kind;           // "recordings" or "plans"
  std::vector<Row> totals{};  // bytes, and counts where the name says so
  std::vector<Row> sites{};   // bytes live at the peak
  std::vector<Row> threads{};
};

// One side, once read: by names, which may fit the other side's.
struct Side {
  trace::Recording tables;
  trace::Statistics statistics;
  std::map<std::string, std::pair<int64_t, int64_t>> sites;    // name → bytes at the peak, blocks
  std::map<std::string, std::pair<int64_t, int64_t>> threads;  // name → most live, blocks
};

std::string Base(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// A site by what survives another build: function and module. Without a name, module and offset.
std::string NameOf(const trace::Recording& recording, uint32_t index,
                   trace::Symbolizer& symbolizer) {
  if (index == trace::kNone) return "(unknown)";
  const trace::Site& site = recording.sites[index];
  if (site.module == trace::kNone) return absl::StrFormat("%#x", site.offset);
  const trace::Module& module = recording.modules[site.module];
  const trace::Symbol symbol = symbolizer.Find(module, site.offset);
  if (symbol.function.empty()) return absl::StrFormat("%s+%#x", Base(module.path), site.offset);
  return absl::StrCat(symbol.function, " (", Base(module.path), ")");
}

std::string NameOfThread(const trace::Recording& recording, uint32_t index) {
  if (index == 0) return "main";
  return absl::StrFormat("thread %016x", recording.threads[index].path);
}

absl::StatusOr<Side> ReadSide(const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> paths = trace::FindTraces(path);
  if (!paths.ok()) return paths.status();
  if (paths->size() != 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": holds ", paths->size(), " traces; compare them one by one"));
  }
  Side side;
  trace::StatisticsBuilder statistics;
  struct ThreadLoad {
    int64_t live = 0, most = 0, blocks = 0;
  };
  std::vector<ThreadLoad> loads;
  std::map<uint64_t, uint32_t> owner;  // of live blocks: freed by whomever
  trace::Recording first;
  absl::Status status = trace::ReadTrace(paths->front(), first, [&](const trace::Event& event) {
    statistics.Add(event);
    const auto bytes = static_cast<int64_t>(trace::BlockBytes(event.size));
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
  side.statistics = statistics.Finish(first.sites, 0);
  trace::SiteAccountsBuilder accounts(side.tables, side.statistics.peak_event);
  status = trace::ReadTrace(paths->front(), side.tables,
                            [&](const trace::Event& event) { accounts.Add(event); });
  if (!status.ok()) return status;
  trace::Symbolizer symbolizer;
  for (const trace::SiteAccount& it : accounts.Finish()) {
    auto& [bytes, blocks] = side.sites[NameOf(side.tables, it.site, symbolizer)];
    bytes += static_cast<int64_t>(it.peak_bytes);
    blocks += static_cast<int64_t>(it.peak_blocks);
  }
  for (uint32_t i = 0; i < loads.size(); ++i) {
    auto& [bytes, blocks] = side.threads[NameOfThread(side.tables, i)];
    bytes += loads[i].most;
    blocks += loads[i].blocks;
  }
  return side;
}

using Table = std::map<std::string, std::pair<int64_t, int64_t>>;

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

absl::StatusOr<Difference> DiffRecordings(const DiffOptions& options) {
  const absl::StatusOr<Side> first = ReadSide(options.first);
  if (!first.ok()) return first.status();
  const absl::StatusOr<Side> second = ReadSide(options.second);
  if (!second.ok()) return second.status();
  const auto total = [&](const char* name, uint64_t trace::Statistics::*field) {
    return Row{.name = name,
               .first = static_cast<int64_t>(first->statistics.*field),
               .second = static_cast<int64_t>(second->statistics.*field)};
  };
  Difference difference{.kind = "recordings"};
  difference.totals = {total("max_load", &trace::Statistics::max_load),
                       total("requested_max_load", &trace::Statistics::requested_max_load),
                       total("sum_bytes", &trace::Statistics::sum_bytes),
                       total("never_freed_bytes", &trace::Statistics::never_freed_bytes),
                       total("buffers", &trace::Statistics::buffers)};
  difference.sites = Merge(first->sites, second->sites);
  difference.threads = Merge(first->threads, second->threads);
  return difference;
}

absl::StatusOr<Difference> DiffPlans(const replay::PlanFile& first,
                                     const replay::PlanFile& second) {
  const auto lanes_of = [](const replay::PlanFile& plan) {
    Table lanes;
    const auto* table = plan.table<replay::PlanLane>(plan.header().lanes);
    for (uint64_t i = 0; i < plan.header().lanes.count; ++i) {
      auto& [bytes, blocks] =
          lanes[table[i].path == 0 ? std::string("all threads")
                                   : absl::StrFormat("thread %016x", table[i].path)];
      bytes += static_cast<int64_t>(table[i].box_bytes);
      blocks += static_cast<int64_t>(table[i].placements);
    }
    return lanes;
  };
  const auto total = [&](const char* name, auto value) {
    return Row{.name = name,
               .first = static_cast<int64_t>(value(first)),
               .second = static_cast<int64_t>(value(second))};
  };
  Difference difference{.kind = "plans"};
  difference.totals = {total("arena_bytes", [](const auto& it) { return it.header().arena_bytes; }),
                       total("max_load", [](const auto& it) { return it.header().max_load; }),
                       total("file_bytes", [](const auto& it) { return it.header().file_bytes; }),
                       total("lanes", [](const auto& it) { return it.header().lanes.count; }),
                       total("keys", [](const auto& it) { return it.header().keys.count; })};
  difference.threads = Merge(lanes_of(first), lanes_of(second));
  return difference;
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
  absl::PrintF("\n%-52s %12s %12s %13s\n", title, "first", "second", "change");
  for (const Row& it : rows) {
    const auto human = [](int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); };
    const std::string change =
        absl::StrCat(it.change() < 0 ? "-" : "+", human(std::abs(it.change())));
    absl::PrintF("%-52s %12s %12s %13s\n", it.name, human(it.first), human(it.second), change);
  }
  if (all > rows.size()) absl::PrintF("  … and %d more that changed less\n", all - rows.size());
}

void Print(const Difference& difference, const DiffOptions& options) {
  absl::PrintF("%-52s %12s %12s %13s\n", difference.kind, "first", "second", "change");
  for (const Row& it : difference.totals) {
    const std::string percent =
        it.first > 0 ? absl::StrFormat("%+.1f %%", 100.0 * static_cast<double>(it.change()) /
                                                       static_cast<double>(it.first))
                     : "";
    absl::PrintF("%-52s %12d %12d %13s\n", it.name, it.first, it.second, percent);
  }
  PrintRows("call sites, live at the peak", difference.sites, options.rows);
  PrintRows(difference.kind == "plans" ? "lanes" : "threads, most live at one time",
            difference.threads, options.rows);
}

absl::StatusOr<Difference> Diff(const DiffOptions& options) {
  // A plan says so in its first bytes; what is no plan is read as a trace, and complains as one.
  const auto plan_at = [](const std::string& path) {
    const absl::StatusOr<std::vector<std::string>> paths = replay::FindPlans(path);
    if (!paths.ok() || paths->size() != 1) {
      return absl::StatusOr<replay::PlanFile>(absl::InvalidArgumentError("no plan"));
    }
    return replay::PlanFile::Read(paths->front());
  };
  const absl::StatusOr<replay::PlanFile> first = plan_at(options.first);
  const absl::StatusOr<replay::PlanFile> second = plan_at(options.second);
  if (first.ok() && second.ok()) return DiffPlans(*first, *second);
  if (first.ok() || second.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(first.ok() ? options.second : options.first, ": expected a plan, as ",
                     first.ok() ? options.first : options.second, " is one, found something else"));
  }
  return DiffRecordings(options);
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
  json["sites"] = ToJson(difference->sites);
  json["threads"] = ToJson(difference->threads);
  PrintJson(json);
  return kDone;
}

}  // namespace

void AddDiff(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("diff", "Say what grew between two recordings or plans");
  auto options = std::make_shared<DiffOptions>();
  command->add_option("first", options->first, "a trace or a plan")->required();
  command->add_option("second", options->second, "another one of the same kind")->required();
  command->add_option("--rows", options->rows, "show so many call sites and threads")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([&run, options] { run = [options] { return RunDiff(*options); }; });
}

}  // namespace reprise::cli
