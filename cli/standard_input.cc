#include "cli/standard_input.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "cli/command.h"

namespace reprise::cli {

absl::StatusOr<int> KeepInput() {
  if (isatty(STDIN_FILENO) == 1 || fcntl(STDIN_FILENO, F_GETFD) == -1) return -1;
  const int file = memfd_create("reprise-live-input", MFD_CLOEXEC);
  if (file == -1) return SystemError(errno, "standard input");
  char buffer[1 << 16];
  while (true) {
    const ssize_t bytes = read(STDIN_FILENO, buffer, sizeof(buffer));
    if (bytes == -1 && errno == EINTR) continue;
    if (bytes == 0) return file;
    if (bytes < 0) return SystemError(errno, "standard input");
    for (ssize_t done = 0; done < bytes;) {
      const ssize_t written = write(file, buffer + done, static_cast<size_t>(bytes - done));
      if (written <= 0) return SystemError(errno, "standard input");
      done += written;
    }
  }
}

}  // namespace reprise::cli
