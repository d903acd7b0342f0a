#include "cli/standard_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cli/command.h"

namespace reprise::cli {
namespace {

int first_error = 0;

ssize_t Write(void* /*cookie*/, const char* bytes, size_t count) {
  for (size_t done = 0; done < count;) {
    const ssize_t put = write(STDOUT_FILENO, bytes + done, count - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      if (first_error == 0) first_error = errno;
      return 0;  // as fopencookie(3) wants it
    }
    done += static_cast<size_t>(put);
  }
  return static_cast<ssize_t>(count);
}

}  // namespace

void OpenStandardOutput() {
  FILE* stream = fopencookie(nullptr, "w",
                             {.read = nullptr, .write = Write, .seek = nullptr, .close = nullptr});
  if (stream == nullptr) return;
  std::setvbuf(stream, nullptr, isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF, BUFSIZ);
  stdout = stream;
}

absl::Status FlushStandardOutput() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (flushed && first_error == 0) return absl::OkStatus();
  return SystemError(first_error != 0 ? first_error : errno, "cannot write to standard output");
}

}  // namespace reprise::cli
