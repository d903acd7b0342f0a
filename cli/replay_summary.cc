#include "cli/replay_summary.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/shell_text.h"
#include "base/text.h"
#include "cli/command.h"

namespace reprise::cli {
namespace {

constexpr size_t kMostImages = 3;
constexpr size_t kMostKinds = 3;
constexpr uint64_t kWorthAKind = 100;  // one of so many that went astray

std::string Thread(const Findings& findings, size_t lane) {
  if (findings.lanes[lane].path == 1) return "the main thread";
  return absl::StrCat("thread ", lane);
}

std::string Describe(const Requested& request) {
  return absl::StrCat(request.bytes(), " bytes from ", request.where);
}

// The lane that is worth telling about: the one whose requests were missed most.
const LaneFindings* WorstLane(const Findings& findings, size_t* index) {
  std::vector<uint64_t> misses(findings.lanes.size());
  for (const MissedKind& missed : findings.missed) misses[missed.lane] += missed.misses();
  const LaneFindings* worst = nullptr;
  for (size_t i = 0; i < findings.lanes.size(); ++i) {
    if (!findings.lanes[i].divergence) continue;
    if (worst != nullptr && misses[i] <= misses[*index]) continue;
    worst = &findings.lanes[i];
    *index = i;
  }
  return worst;
}

void Divergences(const Findings& findings, std::vector<std::string>& lines) {
  size_t index = 0;
  const LaneFindings* lane = WorstLane(findings, &index);
  if (lane == nullptr) return;
  const Divergence& first = *lane->divergence;
  // What is left to differ is how deep the stack was.
  const bool deeper = first.expected.shape == first.seen.shape &&
                      first.expected.site.module == first.seen.site.module &&
                      first.expected.site.offset == first.seen.site.offset;
  lines.push_back(
      absl::StrFormat("  %s first differed at its allocation %d: expected %s, found %s",
                      Thread(findings, index), first.allocation,
                      first.expected.shape == 0 ? std::string("the end") : Describe(first.expected),
                      deeper ? "the same by way of other callers" : Describe(first.seen)));
}

// Misses whose lines would be the same: of other callers, or in other threads.
struct MissedThere {
  MissedKind sum;  // its lane and what was in the way: of the most frequent
  std::set<size_t> lanes;
};

// The most frequent first.
std::vector<MissedThere> ByPlace(const std::vector<MissedKind>& missed) {
  std::vector<MissedThere> places;
  std::map<std::string, size_t> number;
  for (const MissedKind& kind : missed) {
    const auto [found, fresh] = number.emplace(Describe(kind.request), places.size());
    if (fresh) places.push_back({kind, {}});
    MissedThere& place = places[found->second];
    place.lanes.insert(kind.lane);
    if (fresh) continue;
    place.sum.unexpected += kind.unexpected;
    place.sum.blocked += kind.blocked;
    if (place.sum.in_the_way.empty()) place.sum.in_the_way = kind.in_the_way;
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.sum.misses() > b.sum.misses(); });
  return places;
}

void Kinds(const Findings& findings, uint64_t least, std::vector<std::string>& lines) {
  const std::vector<MissedThere> places = ByPlace(findings.missed);
  for (size_t i = 0; i < std::min(kMostKinds, places.size()); ++i) {
    const MissedKind& missed = places[i].sum;
    if (missed.misses() < least) return;
    std::string where;  // a name is only needed where there are several
    if (findings.lanes.size() > 1) {
      const size_t threads = places[i].lanes.size();
      where = threads > 1 ? absl::StrCat(" in ", base::Counted(threads, "thread"))
                          : absl::StrCat(" in ", Thread(findings, missed.lane));
    }
    std::string line = absl::StrFormat("  missed %s%s: %s", base::Counted(missed.misses(), "time"),
                                       where, Describe(missed.request));
    if (missed.blocked <= missed.unexpected) {
      line += "; the plan expects fewer of them, or elsewhere";
    } else if (missed.in_the_way.empty()) {
      line += "; blocks that the plan does not have were in the way";
    } else {
      absl::StrAppend(&line, "; in the way were blocks from ", missed.in_the_way);
    }
    lines.push_back(std::move(line));
  }
}

void Overstays(const Findings& findings, uint64_t least, std::vector<std::string>& lines) {
  struct Kept {
    std::string what;
    uint64_t blocks, blocked;
  };
  std::vector<Kept> kinds;
  std::map<std::string, size_t> number;
  for (const Overstay& overstay : findings.overstays) {
    const std::string what = Describe(overstay.request);
    const auto [found, fresh] = number.emplace(what, kinds.size());
    if (fresh) kinds.push_back({what, 0, 0});
    ++kinds[found->second].blocks;
    kinds[found->second].blocked += overstay.blocked;
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kept& a, const Kept& b) { return a.blocked > b.blocked; });
  for (size_t i = 0; i < std::min(kMostKinds, kinds.size()); ++i) {
    const Kept& kept = kinds[i];
    if (kept.blocked < least) return;
    const std::string blocks =
        kept.blocks > 1 ? absl::StrCat(base::Counted(kept.blocks, "block"), " of ") : "";
    lines.push_back(absl::StrFormat("  kept longer than recorded: %s%s, in the way of %s", blocks,
                                    kept.what, base::Counted(kept.blocked, "request")));
  }
}

// The variable that would keep a program from making up its hashes anew in every run; null: none.
const char* LooseSeed(const std::string& executable, bool keep_aslr) {
  const std::string name = FileName(executable);
  if (absl::StartsWith(name, "perl")) {
    return std::getenv("PERL_HASH_SEED") == nullptr && keep_aslr ? "PERL_HASH_SEED" : nullptr;
  }
  if (!absl::StartsWith(name, "python")) return nullptr;
  const char* seed = std::getenv("PYTHONHASHSEED");
  uint64_t number = 0;
  const bool loose = seed != nullptr && *seed != 0 ? !absl::SimpleAtoi(seed, &number) : keep_aslr;
  return loose ? "PYTHONHASHSEED" : nullptr;
}

// What would have made the difference, as far as it can be told.
void AdviceByCause(const SummarizedImage& image, const RunFacts& facts,
                   std::vector<std::string>& lines) {
  const Findings& findings = image.findings;
  const std::string& recorded = findings.recorded;
  if (!recorded.empty() && FileName(recorded) != FileName(image.executable)) {
    lines.push_back(absl::StrCat("  try a recording of ", FileName(image.executable),
                                 ": the plan is for another program, ", FileName(recorded)));
    return;
  }
  if (!findings.missing_modules.empty()) {
    const size_t others = findings.missing_modules.size() - 1;
    lines.push_back(
        absl::StrCat("  try a recording of this build: ", FileName(findings.missing_modules[0]),
                     others > 0 ? absl::StrCat(" and ", others, " more") : "",
                     " is another build than the recorded one, or was not loaded"));
    return;
  }
  if (2 * image.boxless >= image.astray) {
    lines.push_back(
        "  try plan --lanes thread: threads that do the same again then have the same addresses, "
        "and it takes more memory");
    if (image.boxless == image.astray) return;
  }
  if (const char* seed = LooseSeed(image.executable, facts.keep_aslr); seed != nullptr) {
    lines.push_back(absl::StrCat("  try ", seed, "=0, in the recording and in replay"));
  }
  const bool longer =
      std::any_of(findings.lanes.begin(), findings.lanes.end(), [](const LaneFindings& lane) {
        return lane.divergence && lane.divergence->expected.shape == 0;
      });
  const bool threads = findings.lanes.size() > 1 || image.laneless > 0;
  if (image.same_command && threads) {
    lines.push_back(
        "  program and arguments are the recorded ones: threads may have taken their work in "
        "another order, or the environment or the input is another");
  } else if (longer) {
    lines.push_back("  try a longer recording: the run asked for more than was recorded");
  } else if (image.same_command) {
    lines.push_back(
        "  try the environment and the input that were recorded: the arguments are the same");
  } else {
    lines.push_back("  try the arguments, the environment and the input that were recorded");
  }
  // Where blocks lie decides in what order a program goes through its hash tables, and then more.
  if (!longer) {
    lines.push_back(
        "  try a recording made in replay: replay PLAN --record TRACE, then reprise plan TRACE");
  }
  const bool learns = !findings.overstays.empty() ||
                      std::any_of(findings.missed.begin(), findings.missed.end(),
                                  [](const MissedKind& missed) { return missed.blocked > 0; });
  if (!learns || image.learned) return;
  const bool kept = !facts.stats.empty() && !facts.stats.starts_with("/proc/");  // of --runs
  lines.push_back(!kept ? "  try a plan that learns from this: replay with --stats FILE, then "
                          "reprise plan TRACE --learn FILE"
                        : absl::StrCat("  try a plan that learns from this: reprise plan TRACE "
                                       "--learn ",
                                       base::ShellQuoted(facts.stats)));
}

// Of all images, each line once.
void Advice(const std::vector<SummarizedImage>& images, const RunFacts& facts,
            std::vector<std::string>& lines) {
  std::vector<std::string> advice;
  for (const SummarizedImage& image : images) AdviceByCause(image, facts, advice);
  for (size_t i = 0; i < advice.size(); ++i) {
    if (std::find(advice.begin(), advice.begin() + static_cast<ptrdiff_t>(i), advice[i]) ==
        advice.begin() + static_cast<ptrdiff_t>(i)) {
      lines.push_back(advice[i]);
    }
  }
}

}  // namespace

bool WorthSaying(uint64_t allocations, uint64_t astray) {
  return astray > 100 && astray * 100 > allocations;
}

std::string SlightLine(uint64_t allocations, uint64_t astray) {
  if (astray == 0) return {};
  if (astray == allocations) {
    return absl::StrFormat("all of %s went elsewhere than planned",
                           base::Counted(allocations, "allocation"));
  }
  return absl::StrFormat(
      "addresses as planned but for %d of %s (%.3g %%), which went elsewhere than planned", astray,
      base::Counted(allocations, "allocation"),
      100.0 * static_cast<double>(astray) / static_cast<double>(allocations));
}

std::vector<std::string> SummaryLines(std::vector<SummarizedImage> images, const RunFacts& facts) {
  std::vector<std::string> lines;
  std::stable_sort(images.begin(), images.end(),
                   [](const auto& a, const auto& b) { return a.astray > b.astray; });
  if (images.size() > kMostImages) images.resize(kMostImages);
  for (const SummarizedImage& image : images) {
    lines.push_back(absl::StrFormat(
        "%s: %d of %s (%.1f %%) went elsewhere than planned", image.executable, image.astray,
        base::Counted(image.allocations, "allocation"),
        100.0 * static_cast<double>(image.astray) / static_cast<double>(image.allocations)));
    const uint64_t least = std::max<uint64_t>(2, image.astray / kWorthAKind);
    Divergences(image.findings, lines);
    if (image.laneless >= least) {
      lines.push_back(absl::StrFormat(
          "  %d of them in threads that have no lane in the plan, or not at the same time",
          image.laneless));
    }
    if (image.boxless >= least) {
      lines.push_back(absl::StrFormat(
          "  %d of them in threads that the plan leaves to the shared heap, to save memory",
          image.boxless));
    }
    Kinds(image.findings, least, lines);
    Overstays(image.findings, least, lines);
  }
  if (!lines.empty()) Advice(images, facts, lines);
  return lines;
}

}  // namespace reprise::cli
