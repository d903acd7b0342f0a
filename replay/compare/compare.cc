#include "replay/compare/compare.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "replay/compare/player/process.h"
#include "replay/compare/player/script.h"
#include "trace/reader.h"

namespace reprise::replay {
namespace {

const std::vector<Allocator>& KnownAllocators() {
  static const auto* const known = new std::vector<Allocator>{
      {"glibc", {}},
      {"jemalloc", {"libjemalloc.so.2"}},
      // Debian and Ubuntu name the minor version, upstream the major.
      {"mimalloc",
       {"libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so.2.1", "libmimalloc.so.2.2",
        "libmimalloc.so.3", "libmimalloc.so"}},
      {"tcmalloc", {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}},
      {"nothing", {}, true},
  };
  return *known;
}

constexpr uint64_t kPageSize = 4096;

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

absl::Status WithContext(const absl::Status& status, const std::string& context) {
  return absl::Status(status.code(), absl::StrCat(context, ": ", std::string(status.message())));
}

int64_t Number(const Answers& answers, const std::string& name) {
  int64_t value = 0;
  const auto found = answers.find(name);
  if (found == answers.end() || !absl::SimpleAtoi(found->second, &value)) return 0;
  return value;
}

std::string Text(const Answers& answers, const std::string& name) {
  const auto found = answers.find(name);
  return found == answers.end() ? std::string() : found->second;
}

// Whether the library that was asked for is the one that serves malloc: a soname and the file
// behind it may differ in the digits at the end.
bool Serves(const Answers& answers, const std::string& library) {
  const std::string asked = BaseName(library);
  const std::string stem = asked.substr(0, asked.find(".so"));
  return BaseName(Text(answers, "library")).starts_with(stem) && Number(answers, "mixed") == 0;
}

void SetFragmentation(Measurement& it, int64_t max_load) {
  it.fragmentation = it.footprint - max_load;
  if (max_load <= 0) return;
  it.fragmentation_percent =
      100.0 * static_cast<double>(it.fragmentation) / static_cast<double>(max_load);
}

absl::StatusOr<Measurement> Measure(const std::string& name, const std::string& library,
                                    const Script& script, const std::string& player,
                                    int64_t max_load) {
  absl::StatusOr<Answers> answers = RunPlayer(player, library, script.words);
  if (!answers.ok()) return WithContext(answers.status(), name);
  if (!library.empty() && !Serves(*answers, library)) {
    return absl::AbortedError(
        absl::StrCat(name, ": malloc came from ", Text(*answers, "library"), ", not ", library));
  }
  Measurement result;
  result.allocator = name;
  result.version = Text(*answers, "version");
  result.object = Text(*answers, "library");
  result.peak_rss = Number(*answers, "peak_rss");
  result.peak_rss_absolute = Number(*answers, "peak_rss_absolute");
  result.footprint = Number(*answers, "footprint");
  result.address_span = Number(*answers, "address_span");
  SetFragmentation(result, max_load);
  const auto seconds = [&answers](const char* field) {
    return 1e-9 * static_cast<double>(Number(*answers, field));
  };
  result.seconds = seconds("busy_nanoseconds");
  result.cpu_seconds = seconds("cpu_nanoseconds");
  result.wall_seconds = seconds("wall_nanoseconds");
  result.wait_seconds = seconds("wait_nanoseconds");
  result.waits = Number(*answers, "waits");
  result.page_faults = Number(*answers, "page_faults");
  result.operations = Number(*answers, "operations");
  result.failures = Number(*answers, "failures");
  for (const auto& [key, value] : *answers) {
    constexpr std::string_view kSymbol = "symbol.";
    if (std::string_view(key).starts_with(kSymbol)) {
      result.provenance.emplace_back(key.substr(kSymbol.size()), value);
    }
  }
  result.threads = script.threads;
  result.threads_at_once = script.threads_at_once;
  result.threads_shared = script.shared;
  return result;
}

absl::StatusOr<Observation> Observe(const std::string& name, const std::string& preload,
                                    const Script& script, const std::string& player,
                                    size_t allocations, std::vector<uint64_t> sample_events) {
  const size_t samples = sample_events.size();
  constexpr size_t kSampleWords = sizeof(ObservedSample) / sizeof(uint64_t);
  absl::StatusOr<Observed> observed =
      Observed::Create((samples * kSampleWords + allocations) * sizeof(uint64_t));
  if (!observed.ok()) return observed.status();
  const absl::StatusOr<Answers> answers = RunPlayer(player, preload, script.words, &*observed);
  if (!answers.ok()) return WithContext(answers.status(), name);
  if (!preload.empty() && !Serves(*answers, preload)) {
    return absl::AbortedError(
        absl::StrCat(name, ": malloc came from ", Text(*answers, "library"), ", not ", preload));
  }
  Observation result;
  result.events = std::move(sample_events);
  const auto* table = reinterpret_cast<const ObservedSample*>(observed->words());
  for (size_t i = 0; i < samples; ++i) {
    result.resident.push_back(static_cast<int64_t>(table[i].resident));
    result.usable.push_back(static_cast<int64_t>(table[i].usable));  // kUnknown becomes -1
    result.footprint.push_back(static_cast<int64_t>(table[i].pages * kPageSize));
  }
  result.most_held = Number(*answers, "footprint");
  for (const ObservedReturn& it : observed->returned()) {
    result.returned.push_back({it.allocations, it.page * kPageSize, it.pages * kPageSize});
  }
  const uint64_t* addresses = observed->words() + samples * kSampleWords;
  if (allocations > 0) result.addresses.assign(addresses, addresses + allocations);
  return result;
}

absl::StatusOr<std::string> PlayerPath(const CompareOptions& options) {
  if (!options.player.empty()) return options.player;
  return FindPlayer();
}

}  // namespace

absl::StatusOr<std::vector<Allocator>> ParseAllocators(std::string_view list) {
  std::vector<Allocator> allocators;
  const std::vector<std::string> words = absl::StrSplit(std::string(list), ',', absl::SkipEmpty());
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      if (equals == 0 || equals + 1 == word.size()) {
        return absl::InvalidArgumentError(absl::StrCat("expected NAME=LIBRARY.so, found ", word));
      }
      const std::string library = word.substr(equals + 1);
      // Without a slash the loader looks for it.
      std::error_code error;
      const bool there = std::filesystem::is_regular_file(library, error);
      if (library.find('/') != std::string::npos && !there) {
        return absl::InvalidArgumentError(absl::StrCat("expected NAME=LIBRARY.so, found ", word,
                                                       ": ",
                                                       error ? error.message() : "not a file"));
      }
      allocators.push_back({word.substr(0, equals), {library}});
      continue;
    }
    const auto& known = KnownAllocators();
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const Allocator& it) { return it.name == word; });
    if (found == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown allocator ", word, " (", std::string(kUsualAllocators), " or NAME=LIBRARY.so)"));
    }
    allocators.push_back(*found);
  }
  if (allocators.empty()) return absl::InvalidArgumentError("no allocator to compare");
  return allocators;
}

absl::StatusOr<std::string> FindPlayer() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::UnavailableError(absl::StrCat("/proc/self/exe: ", error.message()));
  const std::filesystem::path here = self.parent_path();
  for (const std::filesystem::path& path :
       {here / "../" REPRISE_LIBEXECDIR "/reprise/reprise-player", here / "reprise-player"}) {
    if (std::filesystem::exists(path, error)) return path.lexically_normal().string();
  }
  return absl::NotFoundError(absl::StrCat("reprise-player is not beside ", self.string()));
}

absl::Status Choose(Allocator& allocator, const CompareOptions& options) {
  if (allocator.libraries.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> player = PlayerPath(options);
  if (!player.ok()) return player.status();
  for (const std::string& library : allocator.libraries) {
    absl::StatusOr<Answers> answers = RunPlayer(*player, library, {});
    if (!answers.ok()) return WithContext(answers.status(), allocator.name);
    if (!Serves(*answers, library)) continue;
    allocator.libraries = {std::string(library)};
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(allocator.name,
                                          " is not installed, or is no allocator (tried ",
                                          absl::StrJoin(allocator.libraries, ", "), ")"));
}

int64_t MaxLoad(const trace::Recording& recording, uint64_t alignment) {
  trace::StatisticsBuilder builder(alignment);
  trace::ForEachEvent(recording, [&](const trace::Event& event) { builder.Add(event); });
  return static_cast<int64_t>(builder.Finish(recording.sites, 0).max_load);
}

static int64_t NeededLoad(const trace::Recording& recording, const CompareOptions& options) {
  return options.max_load ? *options.max_load : MaxLoad(recording, options.alignment);
}

absl::StatusOr<Measurement> MeasureAllocator(const trace::Recording& recording,
                                             const Allocator& allocator,
                                             const CompareOptions& options) {
  absl::StatusOr<std::string> player = PlayerPath(options);
  if (!player.ok()) return player.status();
  Allocator chosen = allocator;
  if (absl::Status status = Choose(chosen, options); !status.ok()) return status;
  absl::StatusOr<Script> script = Lower(
      recording, {.order = options.order, .touch = options.touch, .nothing = allocator.nothing});
  if (!script.ok()) return script.status();
  const std::string library = chosen.libraries.empty() ? "" : chosen.libraries.front();
  return Measure(allocator.name, library, *script, *player, NeededLoad(recording, options));
}

absl::StatusOr<Measurement> MeasurePlan(const trace::Recording& recording,
                                        std::vector<int64_t> offsets, int64_t arena_bytes,
                                        const CompareOptions& options) {
  absl::StatusOr<std::string> player = PlayerPath(options);
  if (!player.ok()) return player.status();
  const Placement placement = {std::move(offsets), arena_bytes, options.alignment};
  absl::StatusOr<Script> script =
      Lower(recording, {.touch = options.touch, .placement = &placement});
  if (!script.ok()) return script.status();
  absl::StatusOr<Measurement> result =
      Measure("plan", "", *script, *player, NeededLoad(recording, options));
  if (result.ok()) result->version.clear();  // that of the fallback says nothing of the plan
  return result;
}

std::vector<uint64_t> SampleEvents(const trace::Recording& recording, size_t count,
                                   uint64_t peak_event) {
  std::vector<uint64_t> events;
  if (recording.events == 0) return events;
  const uint64_t last = recording.events - 1;
  for (size_t i = 0; i <= count; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(std::max<size_t>(count, 1));
    events.push_back(static_cast<uint64_t>(share * static_cast<double>(last)));
  }
  events.push_back(peak_event);
  std::sort(events.begin(), events.end());
  events.erase(std::unique(events.begin(), events.end()), events.end());
  return events;
}

absl::StatusOr<Observation> ObserveAllocator(const trace::Recording& recording,
                                             const Allocator& allocator,
                                             const CompareOptions& options,
                                             std::vector<uint64_t> sample_events) {
  absl::StatusOr<std::string> player = PlayerPath(options);
  if (!player.ok()) return player.status();
  Allocator chosen = allocator;
  if (absl::Status status = Choose(chosen, options); !status.ok()) return status;
  absl::StatusOr<Script> script = Lower(recording, {.order = options.order,
                                                    .touch = options.touch,
                                                    .observe = true,
                                                    .sample_events = sample_events});
  if (!script.ok()) return script.status();
  const std::string preload = chosen.libraries.empty() ? "" : chosen.libraries.front();
  return Observe(allocator.name, preload, *script, *player, recording.allocations.size(),
                 std::move(sample_events));
}

absl::StatusOr<Observation> ObservePlan(const trace::Recording& recording,
                                        std::vector<int64_t> offsets, int64_t arena_bytes,
                                        const CompareOptions& options,
                                        std::vector<uint64_t> sample_events) {
  absl::StatusOr<std::string> player = PlayerPath(options);
  if (!player.ok()) return player.status();
  const Placement placement = {std::move(offsets), arena_bytes, options.alignment};
  absl::StatusOr<Script> script = Lower(recording, {.touch = options.touch,
                                                    .placement = &placement,
                                                    .observe = true,
                                                    .sample_events = sample_events});
  if (!script.ok()) return script.status();
  return Observe("plan", "", *script, *player, recording.allocations.size(),
                 std::move(sample_events));
}

void TakeFootprint(Measurement& measurement, const Observation& observation, int64_t max_load) {
  measurement.footprint = observation.most_held;
  SetFragmentation(measurement, max_load);
}

void Decompose(Measurement& measurement, const Observation& observation, uint64_t peak_event,
               int64_t requested_at_peak) {
  const auto found =
      std::lower_bound(observation.events.begin(), observation.events.end(), peak_event);
  if (found == observation.events.end() || *found != peak_event) return;
  const int64_t usable =
      observation.usable[static_cast<size_t>(found - observation.events.begin())];
  measurement.requested_at_peak = requested_at_peak;
  if (usable < 0) return;
  // What is usable but was never touched belongs to no page of the footprint.
  const int64_t total = measurement.footprint - requested_at_peak;
  measurement.internal_fragmentation = std::min(usable - requested_at_peak, total);
  measurement.external_fragmentation = total - measurement.internal_fragmentation;
}

}  // namespace reprise::replay
