#include "trace/mapped_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reprise::trace {
namespace {

constexpr uint64_t kPageBytes = 4096;

absl::Status ReadAll(int descriptor, const std::string& path, std::string& content) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got == 0) return absl::OkStatus();
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, path);
    content.append(buffer, static_cast<size_t>(got));
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
  if (S_ISREG(status.st_mode) && status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
      result = FileError(errno, path);
    } else {
      file.bytes_ = {static_cast<const uint8_t*>(address), size};
      file.mapped_ = true;
      CoverHoles(descriptor, static_cast<uint8_t*>(address), size);
    }
  } else {
    result = ReadAll(descriptor, path, file.content_);
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
    : bytes_(other.bytes_), mapped_(other.mapped_), content_(std::move(other.content_)) {
  if (!mapped_) {
    bytes_ = {reinterpret_cast<const uint8_t*>(content_.data()), content_.size()};
  }
  other.mapped_ = false;
  other.bytes_ = {};
}

MappedFile::~MappedFile() {
  if (mapped_) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
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
