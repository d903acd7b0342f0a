#include "cli/spool_drainer.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "interpose/process/images.h"

namespace reprise::cli {

using interpose::ImageEntry;

namespace {

// A program wakes us when it seals a chunk; this long is waited for one that cannot (it was stopped
// between sealing and saying so).
constexpr timespec kPatience = {0, 200'000'000};

// So much memory all compactions may take, and so many may be under way; the others are left for
// the end.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;
constexpr size_t kMostCompactions = 16;

bool HasProcessors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) > 1;
}

// As the recorder names it.
std::string SpoolPath(const std::string& output, uint32_t number, const ImageEntry& image) {
  // The program may write over it meanwhile: its end need not be there.
  const std::string_view text(image.executable, sizeof(image.executable));
  const std::string_view path = text.substr(0, text.find('\0'));
  std::string_view started = text.substr(std::min(path.size() + 1, text.size()));
  started = started.substr(0, started.find('\0'));
  std::string name(started.empty() ? path : started);
  name.erase(0, name.rfind('/') + 1);
  return absl::StrFormat("%s/%05d-%s.spool", output, number, name.substr(0, 64));
}

}  // namespace

SpoolDrainer::SpoolDrainer(interpose::Registry* registry, std::string output)
    : registry_(registry), output_(std::move(output)), compacts_(HasProcessors()) {
  // Signals are the main thread's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { Main(); });
  } catch (const std::system_error&) {
    // The system gives no more threads.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SpoolDrainer::~SpoolDrainer() { Stop(); }

BegunCompactions SpoolDrainer::Stop() {
  if (!thread_.joinable()) return {};
  stop_ = true;
  __atomic_store_n(&registry_->drain_asleep, 0, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &registry_->drain_asleep, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  thread_.join();
  return std::move(compactions_);
}

void SpoolDrainer::Main() {
  while (!stop_) {
    if (DrainAll() > 0 || CompactSome()) continue;
    // Whoever seals after this line sees it, or we see what was sealed.
    __atomic_store_n(&registry_->drain_asleep, 1, __ATOMIC_SEQ_CST);
    if (DrainAll() > 0 || stop_) continue;
    syscall(SYS_futex, &registry_->drain_asleep, FUTEX_WAIT, 1, &kPatience, nullptr, 0);
  }
  __atomic_store_n(&registry_->drain_asleep, 0, __ATOMIC_SEQ_CST);
}

void SpoolDrainer::FindImages() {
  const uint32_t count = std::min(__atomic_load_n(&registry_->images, __ATOMIC_ACQUIRE),
                                  interpose::ImagesUnderLimit());
  for (; seen_ < count; ++seen_) unsealed_.push_back(seen_);
  std::erase_if(unsealed_, [this](uint32_t number) {
    const ImageEntry& image = registry_->image[number];
    if (__atomic_load_n(&image.seals, __ATOMIC_ACQUIRE) == 0) return false;
    std::string path = SpoolPath(output_, number, image);
    absl::StatusOr<trace::SpoolDrain> drain = trace::SpoolDrain::Open(path);
    if (drain.ok()) open_.push_back({number, std::move(path), *std::move(drain)});
    return true;
  });
}

uint64_t SpoolDrainer::DrainAll() {
  FindImages();
  uint64_t copied = 0;
  for (Image& image : open_) {
    const uint64_t before = image.copied;
    image.copied += image.drain.Run();
    copied += image.copied - before;
    constexpr uint64_t kEnough = trace::SpoolFollower::kChunksBehind;
    if (compacts_ && before <= kEnough && image.copied > kEnough) BeginCompaction(image);
  }
  std::erase_if(open_, [](const Image& image) { return image.drain.Finished(); });
  return copied;
}

void SpoolDrainer::BeginCompaction(const Image& image) {
  if (compactions_.size() >= kMostCompactions) return;
  BegunCompaction begun;
  begun.load = std::make_unique<LoadMeter>();
  absl::StatusOr<std::unique_ptr<trace::SpoolCompaction>> compaction = trace::SpoolCompaction::Open(
      image.path, [load = begun.load.get()](const trace::Event& event) { load->Add(event); });
  if (!compaction.ok()) return;
  begun.compaction = *std::move(compaction);
  compactions_.emplace(image.number, std::move(begun));
}

// A few chunks of each. False: there is nothing to do for now.
bool SpoolDrainer::CompactSome() {
  bool did = false;
  uint64_t bytes = 0;
  std::erase_if(compactions_, [&](auto& entry) {
    trace::SpoolCompaction& compaction = *entry.second.compaction;
    try {
      const trace::SpoolFollower::Outcome outcome = compaction.Step();
      did |= outcome == trace::SpoolFollower::Outcome::kHandedOut;
      bytes += compaction.bytes();
      return outcome == trace::SpoolFollower::Outcome::kGaveUp || bytes > kMostBytes;
    } catch (const std::bad_alloc&) {
      return true;
    }
  });
  return did;
}

}  // namespace reprise::cli
