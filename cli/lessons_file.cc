#include "cli/lessons_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "replay/plan_encoder.h"

namespace reprise::cli {
namespace {

using nlohmann::json;

uint64_t Hexadecimal(const json& text) {
  uint64_t number = 0;
  if (!absl::SimpleHexAtoi(text.get<std::string>(), &number)) {
    throw json::other_error::create(500, "no hexadecimal number", &text);
  }
  return number;
}

trace::Site SiteOf(const json& entry) {
  trace::Site site;
  site.module = entry.value("module", trace::kNone);
  site.offset = entry.at("offset").get<uint64_t>();
  site.depth = entry.at("depth").get<uint32_t>();
  return site;
}

// What the statistics of an image teach. Throws what nlohmann_json throws when they are not as
// AddFindings writes them.
replay::Lessons LessonsOf(const json& image) {
  replay::Lessons lessons;
  for (const json& lane : image.at("lanes")) {
    if (!lane.contains("thread")) continue;  // what no lane served
    lessons.annex_bytes[Hexadecimal(lane.at("thread"))] = lane.at("annex_bytes").get<uint64_t>();
  }
  for (const json& entry : image.at("blockers")) {
    replay::Squatter squatter;
    squatter.lane = Hexadecimal(entry.at("thread"));
    squatter.allocation = entry.at("allocation").get<uint64_t>();
    squatter.shape = entry.at("shape").get<uint64_t>();
    const json& freed = entry.at("freed_before_allocation");
    if (!freed.is_null()) squatter.freed_before = freed.get<uint64_t>();
    lessons.squatters.push_back(squatter);
  }
  for (const json& entry : image.at("missed_sites")) {
    // In a lane that follows its stream it is the squatters that must be learned.
    if (!entry.at("ran_free").get<bool>() || entry.at("blocked").get<uint64_t>() == 0) continue;
    lessons.kinds.push_back({Hexadecimal(entry.at("thread")), entry.at("shape").get<uint64_t>(),
                             SiteOf(entry), entry.at("blocked").get<uint64_t>()});
  }
  return lessons;
}

absl::Status AboutAnother(const std::string& path, const trace::Recording& recording,
                          uint64_t events) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": expected statistics of a replay of this recording, of ", recording.events,
      " events, found those of another one", events > 0 ? absl::StrCat(", of ", events) : ""));
}

}  // namespace

absl::StatusOr<LessonsFiles> LessonsFiles::Read(const std::vector<std::string>& paths) {
  LessonsFiles read;
  for (const std::string& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) return SystemError(errno, path);
    File file;
    file.path = path;
    try {
      const json stats = json::parse(stream);
      for (const json& image : stats.at("images")) {
        const json& recording = image.at("recording");
        file.images.push_back({Hexadecimal(recording.at("hash")),
                               recording.at("events").get<uint64_t>(), LessonsOf(image)});
      }
    } catch (const json::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": expected what `reprise replay --stats` writes, found: ", error.what()));
    }
    read.files_.push_back(std::move(file));
  }
  return read;
}

absl::StatusOr<replay::Learned> LessonsFiles::For(const trace::Recording& recording, bool alone) {
  replay::Lessons all;
  if (files_.empty()) return replay::Learned();
  const uint64_t hash = replay::HashRecording(recording);
  const bool must = alone || recording.process.start_order == 0;
  for (File& file : files_) {
    bool found = false;
    for (const Image& image : file.images) {
      if (image.recording != hash) continue;
      found = true;
      const replay::Lessons& more = image.lessons;
      all.squatters.insert(all.squatters.end(), more.squatters.begin(), more.squatters.end());
      all.kinds.insert(all.kinds.end(), more.kinds.begin(), more.kinds.end());
      for (const auto& [lane, bytes] : more.annex_bytes) {
        all.annex_bytes[lane] = std::max(all.annex_bytes[lane], bytes);
      }
    }
    if (!found && must) {
      return AboutAnother(file.path, recording, file.images.empty() ? 0 : file.images[0].events);
    }
    file.used = file.used || found;
  }
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
