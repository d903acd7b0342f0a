#include "cli/feedback_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "replay/plan/plan_encoder.h"
#include "report/measured_json.h"

namespace reprise::cli {
namespace {

using nlohmann::json;

// Types and required fields were checked (measured_json.h).
uint64_t Hexadecimal(const json& text) {
  uint64_t number = 0;
  return absl::SimpleHexAtoi(text.get_ref<const std::string&>(), &number) ? number : 0;
}

// What the statistics of an image teach.
replay::Lessons LessonsOf(const json& image) {
  replay::Lessons lessons;
  for (const json& entry : image.at("blockers")) {
    replay::Squatter squatter;
    squatter.lane = Hexadecimal(entry.at("thread"));
    squatter.allocation = entry.at("allocation").get<uint64_t>();
    squatter.shape = entry.at("shape").get<uint64_t>();
    const json& freed = entry.at("freed_before_allocation");
    if (!freed.is_null()) squatter.freed_before = freed.get<uint64_t>();
    lessons.squatters.push_back(squatter);
  }
  return lessons;
}

absl::Status AboutAnother(const std::string& path, const trace::Recording& recording,
                          uint64_t events) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected statistics of a replay of this recording, of ",
                   base::Counted(recording.events, "event"), ", found those of another one",
                   events > 0 ? absl::StrCat(", of ", events) : ""));
}

}  // namespace

absl::Status LessonsFiles::Add(std::string_view text, const std::string& path,
                               base::UnknownNames& unknown) {
  const absl::StatusOr<json> statistics = report::ParseReplayStatistics(text, path, unknown);
  if (!statistics.ok()) return statistics.status();
  File file;
  file.path = path;
  for (const json& image : statistics->at("images")) {
    const json& recording = image.at("recording");
    file.images.push_back({Hexadecimal(recording.at("hash")),
                           recording.at("events").get<uint64_t>(), LessonsOf(image)});
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::StatusOr<LessonsFiles> LessonsFiles::Read(const std::vector<std::string>& paths,
                                                base::UnknownNames& unknown) {
  LessonsFiles read;
  for (const std::string& path : paths) {
    const absl::StatusOr<std::string> text = report::ReadText(path);
    if (!text.ok()) return text.status();
    if (absl::Status status = read.Add(*text, path, unknown); !status.ok()) return status;
  }
  return read;
}

absl::StatusOr<replay::Learned> LessonsFiles::For(const trace::Recording& recording, bool alone) {
  replay::Lessons all;
  if (files_.empty()) return replay::Learned();
  const uint64_t hash = replay::HashRecording(recording);
  const bool must = alone || recording.process.start_order == 0;
  bool any = false;
  for (File& file : files_) {
    bool found = false;
    for (const Image& image : file.images) {
      if (image.recording != hash) continue;
      found = true;
      const replay::Lessons& more = image.lessons;
      all.squatters.insert(all.squatters.end(), more.squatters.begin(), more.squatters.end());
    }
    if (!found && must) {
      return AboutAnother(file.path, recording, file.images.empty() ? 0 : file.images[0].events);
    }
    file.used = file.used || found;
    any = any || found;
  }
  if (!any) return replay::Learned();
  absl::StatusOr<replay::Learned> learned = replay::Learn(recording, all);
  if (learned.ok()) return learned;
  std::vector<std::string> paths;
  for (const File& file : files_) paths.push_back(file.path);
  return absl::InvalidArgumentError(
      absl::StrCat(absl::StrJoin(paths, ", "), ": ", learned.status().message()));
}

absl::Status LessonsFiles::AllUsed() const {
  for (const File& file : files_) {
    if (file.used) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file.path,
                     ": expected statistics of replays of these recordings, found those "
                     "of another one"));
  }
  return absl::OkStatus();
}

}  // namespace reprise::cli
