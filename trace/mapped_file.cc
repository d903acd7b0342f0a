#include "trace/mapped_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
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
#include <map>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/page.h"
#include "base/standard_stream.h"

namespace reprise::trace {
namespace {

constexpr uint64_t kPageBytes = base::kPageBytes;

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

// Reads to the end. `regular`: without a limit.
absl::StatusOr<std::string> ReadAll(int descriptor, const std::string& path, bool regular) {
  constexpr size_t kMost = size_t{256} << 20;
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got == 0) return content;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {  // whoever has the other descriptor made it non-blocking
      pollfd wait = {descriptor, POLLIN, 0};
      poll(&wait, 1, -1);
      continue;
    }
    if (got < 0) return FileError(errno, path);
    content.append(buffer, static_cast<size_t>(got));
    if (!regular && content.size() > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected at most 256 MiB, as it is no regular file, found more"));
    }
  }
}

// What was read and cannot be read again, by device and inode.
struct Kept {
  std::mutex lock;
  std::map<std::pair<dev_t, ino_t>, std::shared_ptr<const std::string>> contents;
};
Kept& kept() {
  static Kept all;
  return all;
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
  const bool standard_input = path == base::kStandardStream;
  struct stat status;
  const int known = standard_input ? fstat(STDIN_FILENO, &status) : stat(path.c_str(), &status);
  // Opening a named pipe again would wait for another writer.
  if (known == 0 && (standard_input || !S_ISREG(status.st_mode))) {
    const std::scoped_lock lock(kept().lock);
    const auto found = kept().contents.find({status.st_dev, status.st_ino});
    if (found != kept().contents.end()) return Holding(found->second);
  }
  const int descriptor = standard_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                        : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return FileError(errno, path);
  const absl::Cleanup close_descriptor = [descriptor] { close(descriptor); };
  if (fstat(descriptor, &status) != 0) return FileError(errno, path);
  const bool regular = S_ISREG(status.st_mode);
  // Of standard input somebody may have read the beginning.
  const bool from_start = !standard_input || lseek(descriptor, 0, SEEK_CUR) == 0;
  if (regular && from_start) return Map(descriptor, path, static_cast<size_t>(status.st_size));
  absl::StatusOr<std::string> bytes = ReadAll(descriptor, path, regular);
  if (!bytes.ok()) return bytes.status();
  auto content = std::make_shared<const std::string>(*std::move(bytes));
  const std::scoped_lock lock(kept().lock);
  kept().contents.emplace(std::pair(status.st_dev, status.st_ino), content);
  return Holding(std::move(content));
}

// Where there is nothing to map, or too much is mapped already, the file is read.
absl::StatusOr<MappedFile> MappedFile::Map(int descriptor, const std::string& path, size_t size) {
  const int guard = size > 0 ? TakeGuard() : -1;
  if (guard < 0) {
    absl::StatusOr<std::string> bytes = ReadAll(descriptor, path, /*regular=*/true);
    if (!bytes.ok()) return bytes.status();
    return FromBytes(*std::move(bytes));
  }
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    DropGuard(guard);
    return FileError(error, path);
  }
  Guard(guard, address, size);
  CoverHoles(descriptor, static_cast<uint8_t*>(address), size);
  MappedFile file;
  file.bytes_ = {static_cast<const uint8_t*>(address), size};
  file.mapped_ = true;
  file.guard_ = guard;
  return file;
}

MappedFile MappedFile::Holding(std::shared_ptr<const std::string> content) {
  MappedFile file;
  file.bytes_ = {reinterpret_cast<const uint8_t*>(content->data()), content->size()};
  file.content_ = std::move(content);
  return file;
}

MappedFile MappedFile::FromBytes(std::string bytes) {
  return Holding(std::make_shared<const std::string>(std::move(bytes)));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(other.bytes_),
      mapped_(other.mapped_),
      guard_(other.guard_),
      content_(std::move(other.content_)) {
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
