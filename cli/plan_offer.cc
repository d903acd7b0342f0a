#include "cli/plan_offer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "replay/plan/plan_verifier.h"

namespace reprise::cli {

namespace {

constexpr size_t kMostOpenPlans = 256;  // of the descriptors, which are few

// Says in an offer which file was verified.
absl::Status Identify(int file, const std::string& name, interpose::PlanEntry& entry) {
  struct stat info {};
  if (fstat(file, &info) != 0) return SystemError(errno, name);
  entry.device = info.st_dev;
  entry.inode = info.st_ino;
  entry.bytes = static_cast<uint64_t>(info.st_size);
  entry.changed = info.st_ctim.tv_sec;
  entry.changed_nanoseconds = info.st_ctim.tv_nsec;
  return absl::OkStatus();
}

struct OfferedPlan {
  interpose::PlanEntry entry;
  replay::PlanHeader header;
  int file;
};

absl::Status CheckLanes(const replay::PlanFile& plan, const std::string& name) {
  const replay::PlanTable& table = plan.header().lanes;
  const auto* lanes = plan.table<replay::PlanLane>(table);
  if (std::none_of(lanes, lanes + table.count, [](const auto& lane) { return lane.path == 0; })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name,
                   ": a plan of a program with threads that was made with --lanes none cannot be "
                   "replayed; plan it with --lanes thread"));
}

// Reads and verifies a plan once for all processes that follow it.
absl::StatusOr<OfferedPlan> ReadPlan(const std::string& name) {
  OfferedPlan offered{};
  offered.file = open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (offered.file < 0) return SystemError(errno, name);
  absl::Status status = Identify(offered.file, name, offered.entry);
  const absl::StatusOr<replay::PlanFile> plan = replay::PlanFile::Read(name, offered.file);
  if (status.ok()) status = plan.status();
  if (status.ok()) status = CheckLanes(*plan, name);
  if (status.ok()) status = replay::VerifyPlan(*plan, name);
  std::error_code error;
  const std::string absolute = fs::absolute(name, error).string();
  if (status.ok() && (error || absolute.size() >= sizeof(offered.entry.path))) {
    status = SystemError(ENAMETOOLONG, name);
  }
  if (!status.ok()) {
    close(offered.file);
    return status;
  }
  offered.header = plan->header();
  offered.entry.place = offered.header.place;
  offered.entry.root = (offered.header.flags & replay::kPlanRoot) != 0 ? 1 : 0;
  offered.entry.checksum = offered.header.checksum;
  std::strncpy(offered.entry.path, absolute.c_str(), sizeof(offered.entry.path) - 1);
  return offered;
}

std::optional<replay::PlanFile> PlanOf(const Offer& offer, size_t number) {
  const char* path = offer.entries[number].path;
  absl::StatusOr<replay::PlanFile> plan = replay::PlanFile::Read(path, offer.files[number]);
  if (plan.ok() && plan->header().checksum == offer.headers[number].checksum) {
    return *std::move(plan);
  }
  absl::FPrintF(stderr,
                "reprise: %s: changed while the program ran: what was served as planned is not "
                "counted\n",
                Printable(path));
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Offer> OfferPlans(const std::string& path) {
  if (absl::Status status = replay::CanBeReplayed(path); !status.ok()) return status;
  const absl::StatusOr<std::vector<std::string>> paths = replay::FindPlans(path);
  if (!paths.ok()) return paths.status();
  std::vector<OfferedPlan> plans;
  for (const std::string& name : *paths) {
    absl::StatusOr<OfferedPlan> plan = ReadPlan(name);
    if (!plan.ok()) return plan.status();
    if (plans.size() >= kMostOpenPlans) close(std::exchange(plan->file, -1));
    plans.push_back(*std::move(plan));
  }
  std::stable_sort(plans.begin(), plans.end(), [](const OfferedPlan& a, const OfferedPlan& b) {
    return a.entry.place < b.entry.place;
  });
  Offer offer;
  for (const OfferedPlan& plan : plans) {
    offer.entries.push_back(plan.entry);
    offer.headers.push_back(plan.header);
    offer.files.push_back(plan.file);
  }
  return offer;
}

const replay::PlanFile* TakenPlans::Get(size_t number) {
  auto plan = plans_.find(number);
  if (plan == plans_.end()) plan = plans_.emplace(number, PlanOf(offer_, number)).first;
  return plan->second ? &*plan->second : nullptr;
}

}  // namespace reprise::cli
