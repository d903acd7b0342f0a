#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace reprise::base {
namespace {

constexpr size_t kAtOnce = 64 << 10;  // bytes that are written in one piece
constexpr mode_t kPermissions = 0777;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Reset(-1); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

// Names of what somebody has open already, whatever it is.
bool NamesDescriptor(const std::string& path) {
  return path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
}

struct Place {
  Descriptor folder;
  std::string name;  // in the folder, no link; empty: `path` names a descriptor
  std::string path;
};

// Opens the folder in which `path` lies, seen from `from`. 0 or errno.
int OpenFolderOf(int from, const std::string& path, Place& place) {
  const size_t slash = path.rfind('/');
  std::string folder(1, slash == 0 ? '/' : '.');
  if (slash != std::string::npos && slash > 0) folder = path.substr(0, slash);
  const int fd = openat(from, folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  place.folder.Reset(fd);
  place.name = slash == std::string::npos ? path : path.substr(slash + 1);
  return 0;
}

// What the link is, in a folder; false with errno: it is none, or cannot be read.
bool ReadLink(const Place& place, struct stat* info, std::string* target) {
  const Descriptor link(
      openat(place.folder.get(), place.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (link.get() < 0 || fstat(link.get(), info) != 0) return false;
  errno = EINVAL;
  if (!S_ISLNK(info->st_mode)) return false;
  char text[4096];
  const ssize_t bytes = readlinkat(link.get(), "", text, sizeof(text));
  if (bytes < 0) return false;
  target->assign(text, static_cast<size_t>(bytes));
  return true;
}

// Finds where `path` leads, through links of the caller's. Empty, or what is wrong.
std::string Resolve(const std::string& path, Place& place) {
  constexpr int kMostLinks = 40;  // as the kernel follows
  const auto refuse = [&path](const std::string& what) { return path + ": " + what; };
  place.path = path;
  if (NamesDescriptor(path)) return {};
  if (int error = OpenFolderOf(AT_FDCWD, path, place)) return refuse(std::strerror(error));
  for (int i = 0; i < kMostLinks; ++i) {
    if (place.name.empty()) return refuse(std::strerror(EISDIR));
    struct stat info {};
    std::string target;
    if (!ReadLink(place, &info, &target)) return {};
    if (info.st_uid != geteuid()) {
      return refuse("a symbolic link of another user, which is not followed");
    }
    place.path = target;
    if (NamesDescriptor(target)) {
      place.name.clear();
      return {};
    }
    const Descriptor from(place.folder.Release());
    if (int error = OpenFolderOf(from.get(), target, place)) return refuse(std::strerror(error));
  }
  return refuse(std::strerror(ELOOP));
}

// A name for a temporary file that nobody can predict; empty, with errno: the system has none.
std::string TemporaryName(const std::string& name) {
  constexpr size_t kLongest = 200;  // with what is added, below NAME_MAX
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number)) return {};
  char ending[32];
  std::snprintf(ending, sizeof(ending), ".%016llx.tmp", static_cast<unsigned long long>(number));
  return name.substr(0, kLongest).append(ending);
}

mode_t Umask() {
  const mode_t mask = umask(077);  // for the moment
  umask(mask);
  return mask;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) { Open(); }

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlinkat(folder_, temporary_.c_str(), 0);
  if (folder_ >= 0) close(folder_);
}

void AtomicFile::Fail(int error) {
  if (ok()) problem_ = path_ + ": " + std::strerror(error);
}

void AtomicFile::Open() {
  // Opened once more, it would be written from its beginning, over what comes out otherwise.
  if (IsStandardOutput(path_)) {
    path_ = "standard output";
    direct_ = true;
    file_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (file_ < 0) Fail(errno);
    return;
  }
  Place place;
  problem_ = Resolve(path_, place);
  if (!ok()) return;
  direct_ = place.name.empty();
  if (direct_) {
    file_ = open(place.path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (file_ < 0) Fail(errno);
    return;
  }
  folder_ = place.folder.Release();
  name_ = place.name;
  struct stat info {};
  replaces_ = fstatat(folder_, name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (replaces_ && !S_ISREG(info.st_mode)) {
    direct_ = true;
    if (S_ISFIFO(info.st_mode) && info.st_uid != geteuid() && info.st_uid != 0) {
      problem_ = path_ + ": a pipe of another user, which is not written to";
      return;
    }
    file_ = openat(folder_, name_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file_ < 0) Fail(errno);
    return;
  }
  mode_ = info.st_mode & kPermissions;
  owner_ = info.st_uid;
  group_ = info.st_gid;
  temporary_ = TemporaryName(name_);
  if (temporary_.empty()) return Fail(errno);
  file_ = openat(folder_, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                 0600);
  if (file_ >= 0) return;
  Fail(errno);
  temporary_.clear();
}

void AtomicFile::WriteThrough(std::string_view bytes) {
  while (ok() && !bytes.empty()) {
    const ssize_t put = write(file_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Fail(errno);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

void AtomicFile::Flush() {
  WriteThrough(gathered_);
  gathered_.clear();
}

void AtomicFile::Write(std::string_view bytes) {
  if (!ok()) return;
  if (gathered_.size() + bytes.size() >= kAtOnce) Flush();
  if (bytes.size() >= kAtOnce) return WriteThrough(bytes);
  gathered_.append(bytes);
}

// Of what it replaces, or of a new file. The mode comes last: until then nobody else may read it.
bool AtomicFile::TakeModeAndOwner() {
  if (private_) return true;  // as it was made
  if (!replaces_) return fchmod(file_, 0666 & ~Umask()) == 0;
  struct stat info {};
  if (fstat(file_, &info) != 0) return false;
  mode_t mode = mode_;
  if (info.st_gid != group_ && fchown(file_, static_cast<uid_t>(-1), group_) != 0) {
    // Another group gets no more than everybody.
    mode = (mode & ~mode_t{070}) | (mode & 070 & (mode & 07) << 3);
  }
  if (info.st_uid != owner_ && fchown(file_, owner_, static_cast<gid_t>(-1)) != 0) {
    // Only the superuser may give files away: then it is the caller's.
  }
  return fchmod(file_, mode) == 0;
}

bool AtomicFile::Finish() {
  if (ok()) Flush();
  if (ok() && !direct_ && !TakeModeAndOwner()) Fail(errno);
  if (file_ >= 0 && close(std::exchange(file_, -1)) != 0) Fail(errno);
  if (!ok()) return false;
  if (direct_) return true;
  if (renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0) Fail(errno);
  if (ok()) temporary_.clear();
  return ok();
}

int OpenOutputFolder(const std::string& path, std::string* problem) {
  if (path == kStandardStream) {
    *problem = path + ": expected a folder, found standard output";
    return -1;
  }
  std::string plain = path;
  while (plain.size() > 1 && plain.back() == '/') plain.pop_back();
  std::error_code error;
  const std::string parent = std::filesystem::path(plain).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  Place place;
  if (plain == "/" || plain.ends_with("/..") || plain.ends_with("/.") || plain == "." ||
      plain == "..") {
    place.folder.Reset(openat(AT_FDCWD, plain.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    place.name.assign(1, '.');
  } else {
    *problem = Resolve(plain, place);
    if (!problem->empty()) return -1;
  }
  if (place.name.empty()) {
    *problem = path + ": " + std::strerror(ENOTDIR);
    return -1;
  }
  if (mkdirat(place.folder.get(), place.name.c_str(), kPermissions) != 0 && errno != EEXIST) {
    *problem = path + ": " + std::strerror(errno);
    return -1;
  }
  const int fd = openat(place.folder.get(), place.name.c_str(),
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) *problem = path + ": " + std::strerror(errno);
  return fd;
}

bool IsOutOfReach(const std::string& path) {
  std::filesystem::path folder = path;
  if (!folder.is_absolute()) return false;
  while (true) {
    struct stat info {};
    if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return false;
    if (info.st_uid != geteuid() && info.st_uid != 0) return false;
    const bool shared = (info.st_mode & 022) != 0;
    if (shared && (info.st_mode & S_ISVTX) == 0) return false;
    if (folder == folder.parent_path()) return true;
    folder = folder.parent_path();
  }
}

}  // namespace reprise::base
