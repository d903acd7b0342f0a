#include "trace/mapped_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reprise::trace {
namespace {

constexpr uint64_t kPageBytes = 4096;

// The mappings that may lose their pages. A handler may look at them at any time.
struct Guarded {
  std::atomic<bool> taken = false;
  std::atomic<uintptr_t> begin = 0, end = 0;  // 0, 0: none
  std::atomic<bool> lost = false;
};
constexpr int kMostGuarded = 256;
std::array<Guarded, kMostGuarded> guarded;
struct sigaction earlier;  // what SIGBUS did before

// A page beyond the end of its file: from there on the mapping reads as zeros.
void OnBusError(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Guarded& it : guarded) {
    const uintptr_t end = it.end.load();
    if (address < it.begin.load() || address >= end) continue;
    const uintptr_t page = address & ~uintptr_t{kPageBytes - 1};
    it.lost.store(true);
    const void* zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (zeros != MAP_FAILED) return;
  }
  if ((earlier.sa_flags & SA_SIGINFO) != 0 && earlier.sa_sigaction != nullptr) {
    earlier.sa_sigaction(number, info, context);
  } else {
    sigaction(SIGBUS, &earlier, nullptr);  // and the access is tried again
  }
}

void InstallHandler() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &earlier) == 0;
  }();
  static_cast<void>(installed);
}

// An entry for a mapping that is about to be made; -1 when all are taken.
int TakeGuard() {
  InstallHandler();
  for (int i = 0; i < kMostGuarded; ++i) {
    if (!guarded[i].taken.exchange(true)) return i;
  }
  return -1;
}

void Guard(int entry, const void* address, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  guarded[entry].lost.store(false);
  guarded[entry].begin.store(begin);
  guarded[entry].end.store((begin + size + kPageBytes - 1) & ~uintptr_t{kPageBytes - 1});
}

void DropGuard(int entry) {
  guarded[entry].end.store(0);
  guarded[entry].begin.store(0);
  guarded[entry].taken.store(false);
}

absl::Status ReadAll(int descriptor, const std::string& path, bool regular, std::string& content) {
  constexpr size_t kMost = size_t{256} << 20;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got == 0) return absl::OkStatus();
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, path);
    content.append(buffer, static_cast<size_t>(got));
    if (!regular && content.size() > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected at most 256 MiB, as it is no regular file, found more"));
    }
  }
}

// Reading a hole of a file in memory takes a page of that file system, and is a SIGBUS when it is
// full: zeros of our own stand in for the holes.
void CoverHoles(int descriptor, uint8_t* address, uint64_t size) {
  struct statfs system;
  if (fstatfs(descriptor, &system) != 0 || system.f_type != TMPFS_MAGIC) return;
  for (uint64_t at = 0; at < size;) {
    const off_t hole = lseek(descriptor, static_cast<off_t>(at), SEEK_HOLE);
    if (hole < 0 || static_cast<uint64_t>(hole) >= size) return;
    const off_t data = lseek(descriptor, hole, SEEK_DATA);
    const uint64_t begin = (hole + kPageBytes - 1) & ~(kPageBytes - 1);
    at = data < 0 ? size : static_cast<uint64_t>(data);
    const uint64_t end = data < 0 ? size : at & ~(kPageBytes - 1);
    if (begin < end) {
      mmap(address + begin, end - begin, PROT_READ,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
  }
}

}  // namespace

absl::Status FileError(int error, const std::string& path) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return FileError(errno, path);
  struct stat status;
  if (fstat(descriptor, &status) != 0) {
    const int error = errno;
    close(descriptor);
    return FileError(error, path);
  }
  MappedFile file;
  absl::Status result = absl::OkStatus();
  const bool regular = S_ISREG(status.st_mode) && status.st_size > 0;
  const int guard = regular ? TakeGuard() : -1;
  if (guard >= 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
      result = FileError(errno, path);
      DropGuard(guard);
    } else {
      Guard(guard, address, size);
      file.bytes_ = {static_cast<const uint8_t*>(address), size};
      file.mapped_ = true;
      file.guard_ = guard;
      CoverHoles(descriptor, static_cast<uint8_t*>(address), size);
    }
  } else {
    result = ReadAll(descriptor, path, regular, file.content_);
    file.bytes_ = {reinterpret_cast<const uint8_t*>(file.content_.data()), file.content_.size()};
  }
  close(descriptor);
  if (!result.ok()) return result;
  return file;
}

MappedFile MappedFile::FromBytes(std::string bytes) {
  MappedFile file;
  file.content_ = std::move(bytes);
  file.bytes_ = {reinterpret_cast<const uint8_t*>(file.content_.data()), file.content_.size()};
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(other.bytes_),
      mapped_(other.mapped_),
      guard_(other.guard_),
      content_(std::move(other.content_)) {
  if (!mapped_) {
    bytes_ = {reinterpret_cast<const uint8_t*>(content_.data()), content_.size()};
  }
  other.mapped_ = false;
  other.bytes_ = {};
}

MappedFile::~MappedFile() {
  if (!mapped_) return;
  DropGuard(guard_);
  munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

absl::Status MappedFile::Whole(const std::string& path) const {
  if (!mapped_ || !guarded[guard_].lost.load()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": cut short while it was read"));
}

void MappedFile::Fetch() const {
  constexpr uint64_t kAtOnce = 128 << 10;  // Linux takes no more of a request than it reads ahead
  for (uint64_t at = 0; mapped_ && at < bytes_.size(); at += kAtOnce) {
    madvise(const_cast<uint8_t*>(bytes_.data()) + at,
            std::min<uint64_t>(kAtOnce, bytes_.size() - at), MADV_WILLNEED);
  }
}

void MappedFile::Release(uint64_t offset, uint64_t size) const {
  if (!mapped_ || offset >= bytes_.size()) return;
  const uint64_t begin = offset & ~(kPageBytes - 1);
  const uint64_t end = std::min<uint64_t>(offset + size, bytes_.size());
  madvise(const_cast<uint8_t*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace reprise::trace
