#include "base/standard_stream.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace reprise::base {

bool IsStandardOutput(const std::string& path) {
  if (path == kStandardStream) return true;
  struct stat named {
  }, output{};
  if (stat(path.c_str(), &named) != 0 || fstat(STDOUT_FILENO, &output) != 0) return false;
  const bool nothing = S_ISCHR(named.st_mode) && named.st_rdev == makedev(1, 3);
  return !nothing && named.st_dev == output.st_dev && named.st_ino == output.st_ino;
}

}  // namespace reprise::base
