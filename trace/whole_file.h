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

// Where to write what shall appear as `path`: beside it. What is there and no regular file (a
// device, a pipe) is never replaced or removed, but written to: then it is `path` itself.
inline std::string TemporaryFor(const std::string& path) {
  std::error_code error;
  const bool direct =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  return direct ? path : path + "." + std::to_string(getpid()) + ".tmp";
}

// Gives the whole file its name; 0 or errno.
inline int Publish(const std::string& temporary, const std::string& path) {
  return temporary == path || std::rename(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
}

// Removes what did not become whole.
inline void Discard(const std::string& temporary, const std::string& path) {
  if (temporary != path) unlink(temporary.c_str());
}

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_WHOLE_FILE_H_
