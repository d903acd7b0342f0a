#include "cli/session_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "cli/command.h"
#include "interpose/process/session.h"

namespace reprise::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kTemplate[] = "/reprise-XXXXXX";
constexpr size_t kLongestName = 32;  // of a file in the folder

// The value of a variable that names a folder by an absolute path; empty: it does not.
std::string FolderIn(const char* variable) {
  const char* value = std::getenv(variable);
  std::string path = value != nullptr && *value == '/' ? value : "";
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool IsOwn(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

std::vector<std::string> PlacesForSessions() {
  std::vector<std::string> places;
  if (std::string path = FolderIn("TMPDIR"); !path.empty()) places.push_back(path);
  if (std::string path = FolderIn("XDG_RUNTIME_DIR"); !path.empty() && IsOwn(path)) {
    places.push_back(path);
  }
  places.push_back("/tmp");
  return places;
}

// Removes the entries of a folder. Needs no descriptor but that of the folder, which it closes.
// False: there are folders among them.
bool RemoveEntries(int descriptor) {
  DIR* folder = fdopendir(descriptor);
  if (folder == nullptr) {
    close(descriptor);
    return false;
  }
  bool removed = true;
  rewinddir(folder);
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    removed &= unlinkat(dirfd(folder), name.c_str(), 0) == 0;
  }
  closedir(folder);
  return removed;
}

// A folder for links below `base`, if it is the caller's own and nobody else can replace it.
std::string PrivateFolder(const std::string& base) {
  if (base.empty()) return {};
  std::error_code error;
  fs::create_directories(base, error);
  const fs::path there = fs::canonical(base, error);
  if (error) return {};
  const std::string above = (there / "reprise").string();
  const std::string folder = above + "/preload";
  mkdir(above.c_str(), 0700);
  mkdir(folder.c_str(), 0700);
  struct stat info {};
  const bool is_private = lstat(folder.c_str(), &info) == 0 && info.st_uid == geteuid() &&
                          (info.st_mode & 077) == 0 && base::IsOutOfReach(folder);
  return is_private && access(folder.c_str(), W_OK | X_OK) == 0 ? folder : std::string();
}

bool CanBePreloaded(const std::string& path) {
  return path.find_first_of(" :$") == std::string::npos;
}

}  // namespace

absl::StatusOr<SessionFolder> SessionFolder::Make() {
  absl::Status status;
  for (const std::string& place : PlacesForSessions()) {
    std::string path = place + kTemplate;
    if (path.size() + kLongestName >= interpose::kPathBytes) {
      status.Update(SystemError(ENAMETOOLONG, place));
      continue;
    }
    if (mkdtemp(path.data()) == nullptr) {
      status.Update(SystemError(errno, place + kTemplate));
      continue;
    }
    const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor >= 0) return SessionFolder(path, descriptor);
    status.Update(SystemError(errno, path));
    rmdir(path.c_str());
  }
  return status;
}

SessionFolder::SessionFolder(SessionFolder&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

SessionFolder::~SessionFolder() {
  if (descriptor_ < 0) return;
  const bool removed = RemoveEntries(descriptor_);
  if (rmdir(path_.c_str()) == 0 || removed) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

absl::Status SessionFolder::Write(const char* name, const std::string& bytes, uint64_t size) const {
  const std::string path = absl::StrCat(path_, "/", name);
  const int fd =
      openat(descriptor_, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError(errno, path);
  const absl::Cleanup close_file = [fd] { close(fd); };
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) return SystemError(errno, path);
  const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), 0);
  if (put < 0) return SystemError(errno, path);
  if (static_cast<size_t>(put) < bytes.size()) return SystemError(ENOSPC, path);
  return absl::OkStatus();
}

int SessionFolder::Open(const std::string& name, int flags) const {
  const int fd = openat(descriptor_, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat info {};
  if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
    close(fd);
    return -1;
  }
  return fd;
}

std::string SessionFolder::Read(const std::string& name, uint64_t most_bytes) const {
  const int fd = Open(name, O_RDONLY);
  if (fd < 0) return {};
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat info {};
  if (fstat(fd, &info) != 0) return {};
  std::string bytes(std::min<uint64_t>(static_cast<uint64_t>(info.st_size), most_bytes), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

bool SessionFolder::Has(const char* name) const {
  return faccessat(descriptor_, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

absl::StatusOr<std::string> NameForPreload(const std::string& library) {
  if (CanBePreloaded(library)) return library;
  const std::string home = FolderIn("HOME");
  for (const std::string& base : {FolderIn("XDG_RUNTIME_DIR"), FolderIn("XDG_CACHE_HOME"),
                                  home.empty() ? std::string() : home + "/.cache"}) {
    const std::string folder = PrivateFolder(base);
    if (folder.empty() || !CanBePreloaded(folder)) continue;
    const std::string link = absl::StrFormat("%s/libreprise-%016x.so", folder,
                                             XXH3_64bits(library.data(), library.size()));
    std::error_code error;
    if (fs::read_symlink(link, error) == library) return link;
    const std::string temporary = absl::StrCat(link, ".", getpid());
    if (symlink(library.c_str(), temporary.c_str()) != 0) continue;
    if (rename(temporary.c_str(), link.c_str()) == 0) return link;
    unlink(temporary.c_str());
  }
  return absl::UnavailableError(absl::StrCat(
      library,
      ": LD_PRELOAD takes no path with a space, a colon or a dollar sign, and there is no private "
      "folder for a link to it: neither $XDG_RUNTIME_DIR nor $XDG_CACHE_HOME nor ~/.cache is yours "
      "and out of the reach of others"));
}

}  // namespace reprise::cli
