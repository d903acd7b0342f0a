#include "cli/set_aside.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "cli/command.h"

namespace reprise::cli {

absl::StatusOr<OutputFolder> OpenFolder(const std::string& path) {
  std::string problem;
  const int descriptor = base::OpenOutputFolder(path, &problem);
  if (descriptor < 0) return absl::UnavailableError(problem);
  std::error_code error;
  const std::filesystem::path there =
      std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", descriptor), error);
  if (!error) return OutputFolder{there.string(), descriptor};
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  if (!error) return OutputFolder{canonical.string(), descriptor};
  close(descriptor);
  return SystemError(error.value(), path);
}

absl::Status LockFolder(const OutputFolder& folder) {
  if (flock(folder.descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::UnavailableError(
        absl::StrCat(folder.path, ": another recording or plan is being written there"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SetAside(const OutputFolder& folder,
                                     const std::vector<std::string>& names) {
  constexpr int kMostFolders = 100'000;
  if (names.empty()) return std::string();
  std::string old;
  for (int number = 1; number <= kMostFolders; ++number) {
    old = number == 1 ? folder.path + ".old" : absl::StrCat(folder.path, ".old.", number);
    if (mkdir(old.c_str(), 0777) == 0) break;
    if (errno != EEXIST) return SystemError(errno, old);
    old.clear();
  }
  if (old.empty()) return SystemError(EEXIST, folder.path + ".old");
  const int to = open(old.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (to < 0) return SystemError(errno, old);
  const absl::Cleanup close_folder = [to] { close(to); };
  for (const std::string& name : names) {
    if (renameat(folder.descriptor, name.c_str(), to, name.c_str()) != 0) {
      return SystemError(errno, absl::StrCat(folder.path, "/", name));
    }
  }
  return old;
}

}  // namespace reprise::cli
