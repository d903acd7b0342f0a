#include "replay/plan_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "replay/arena/stream.h"
#include "trace/whole_file.h"

namespace reprise::replay {
namespace {

namespace fs = std::filesystem;

absl::Status SystemError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
}

absl::Status Refuse(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// The allocation words of a lane, in order: offsets from the arena's start.
std::vector<int64_t> LaneOffsets(const PlanFile& plan, const PlanLane& lane) {
  std::vector<int64_t> offsets;
  const uint32_t* at = plan.table<uint32_t>(plan.header().words) + lane.first_word;
  const uint32_t* end = at + lane.words;
  while (at < end) {
    const Word word = DecodeWord(at, lane.offset_bits);
    if (word.kind == Word::kEnded) break;
    if (word.kind == Word::kAllocation) {
      offsets.push_back(static_cast<int64_t>(lane.box_offset + word.granule * kGranule));
    }
    at += word.length;
  }
  return offsets;
}

}  // namespace

absl::StatusOr<PlanFile> PlanFile::Read(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError(path);
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError(path);
  if (!S_ISREG(info.st_mode))
    return Refuse(path, "expected a plan file, found a directory or device");
  std::vector<char> bytes(static_cast<size_t>(info.st_size));
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = read(fd, bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path);
    if (got == 0) bytes.resize(at);
    at += static_cast<size_t>(got);
  }
  PlanHeader header{};
  if (!bytes.empty()) {
    std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof(header)));
  }
  if (bytes.size() < sizeof(header.magic) || header.magic != kPlanMagic) {
    return Refuse(path, bytes.empty() ? "expected a plan file, found an empty file"
                                      : "expected a plan file, found something else");
  }
  if (bytes.size() >= 16 && header.version != kPlanVersion) {
    return absl::UnimplementedError(absl::StrCat(
        path, ": expected a plan of version ", kPlanVersion, ", found version ", header.version,
        header.version > kPlanVersion ? ": made by a newer reprise"
                                      : ": made by an older reprise; plan the recording again"));
  }
  if (bytes.size() < sizeof(header) || header.file_bytes != bytes.size()) {
    return absl::DataLossError(absl::StrCat(path, ": cut short: expected ", header.file_bytes,
                                            " bytes, found ", bytes.size()));
  }
  const uint64_t expected = header.checksum;
  header.checksum = 0;
  std::memcpy(bytes.data(), &header, sizeof(header));
  const uint64_t found = XXH3_64bits(bytes.data(), bytes.size());
  if (found != expected || header.byte_order != kPlanByteOrder) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: its checksum is wrong"));
  }
  header.checksum = expected;
  std::memcpy(bytes.data(), &header, sizeof(header));
  return PlanFile(std::move(bytes));
}

absl::Status WritePlanFile(const std::string& path, const std::string& bytes) {
  const std::string temporary = trace::TemporaryFor(path);
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return SystemError(path);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t put = write(fd, bytes.data() + at, bytes.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const absl::Status status = SystemError(path);
      close(fd);
      trace::Discard(temporary, path);
      return status;
    }
    at += static_cast<size_t>(put);
  }
  if (close(fd) != 0 || trace::Publish(temporary, path) != 0) {
    const absl::Status status = SystemError(path);
    trace::Discard(temporary, path);
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> PlanOffsets(const PlanFile& plan,
                                                 const trace::Recording& recording) {
  const PlanHeader& header = plan.header();
  const auto* lanes = plan.table<PlanLane>(header.lanes);
  absl::flat_hash_map<uint64_t, std::vector<int64_t>> by_path;
  uint64_t planned = 0;
  for (uint64_t i = 0; i < header.lanes.count; ++i) {
    std::vector<int64_t> offsets = LaneOffsets(plan, lanes[i]);
    planned += offsets.size();
    by_path[lanes[i].path] = std::move(offsets);
  }
  const absl::Status another = absl::InvalidArgumentError(
      absl::StrCat("the plan was made for another recording: it holds ", planned,
                   " allocations, the recording ", recording.allocations.size()));
  if (planned != recording.allocations.size()) return another;
  const bool whole = header.lanes.count == 1;
  absl::flat_hash_map<uint64_t, size_t> next;
  std::vector<int64_t> offsets;
  offsets.reserve(planned);
  for (const trace::Allocation& allocation : recording.allocations) {
    const uint64_t path = whole ? lanes[0].path : recording.threads[allocation.thread].path;
    const auto lane = by_path.find(path);
    if (lane == by_path.end() || next[path] >= lane->second.size()) return another;
    offsets.push_back(lane->second[next[path]++]);
  }
  return offsets;
}

absl::StatusOr<std::vector<std::string>> FindPlans(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> plans;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".plan") plans.push_back(entry.path().string());
  }
  if (plans.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a folder of plans, found no *.plan file in it"));
  }
  std::sort(plans.begin(), plans.end());
  return plans;
}

std::string PlanFor(const std::string& plan, const std::string& trace) {
  std::error_code error;
  if (!fs::is_directory(plan, error)) return plan;
  return (fs::path(plan) / (fs::path(trace).stem().string() + ".plan")).string();
}

}  // namespace reprise::replay
