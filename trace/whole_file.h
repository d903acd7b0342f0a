// Files that appear under their names only when they are whole.
#ifndef REPRISE_TRACE_WHOLE_FILE_H_
#define REPRISE_TRACE_WHOLE_FILE_H_

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace reprise::trace {

// Names of what somebody has open already, whatever it is.
inline bool NamesDescriptor(const std::string& path) {
  return path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
}

// The file that shall appear when `path` is written: the one behind it when `path` is a link, so
// that the link stays.
inline std::string BehindLinks(std::string path) {
  constexpr int kMostLinks = 40;  // as the kernel follows
  for (int i = 0; i < kMostLinks && !NamesDescriptor(path); ++i) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  return path;
}

// Where to write what shall appear as `path`: beside it. What is there and no regular file (a
// device, a pipe) is never replaced or removed, but written to, and so is what somebody has open:
// then it is that file itself.
inline std::string TemporaryFor(const std::string& path) {
  const std::string file = BehindLinks(path);
  std::error_code error;
  const bool direct = NamesDescriptor(file) || (std::filesystem::exists(file, error) &&
                                                !std::filesystem::is_regular_file(file, error));
  return direct ? file : file + "." + std::to_string(getpid()) + ".tmp";
}

// Gives the whole file its name; 0 or errno.
inline int Publish(const std::string& temporary, const std::string& path) {
  const std::string file = BehindLinks(path);
  return temporary == file || std::rename(temporary.c_str(), file.c_str()) == 0 ? 0 : errno;
}

// Removes what did not become whole.
inline void Discard(const std::string& temporary, const std::string& path) {
  if (temporary != BehindLinks(path)) unlink(temporary.c_str());
}

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_WHOLE_FILE_H_
