// Where the launcher keeps what the processes of a session map (interpose/process/session.h), and
// the name that LD_PRELOAD gets.
#ifndef REPRISE_CLI_SESSION_FOLDER_H_
#define REPRISE_CLI_SESSION_FOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reprise::cli {

// A folder of mode 0700 with a random name, in $TMPDIR, else in $XDG_RUNTIME_DIR when that is the
// caller's, else in /tmp. Its path has the same length in every run with the same environment, so
// that the program's stack does not move. The folder and what is in it are removed at the end, even
// when the process has no file descriptor left.
class SessionFolder {
 public:
  static absl::StatusOr<SessionFolder> Make();
  ~SessionFolder();
  SessionFolder(SessionFolder&& other) noexcept;
  SessionFolder& operator=(SessionFolder&&) = delete;
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

  const std::string& path() const { return path_; }

  // Makes a file of `size` bytes (0600): the bytes, then zeros.
  absl::Status Write(const char* name, const std::string& bytes, uint64_t size) const;
  // Opens a file of the folder; -1: there is none, or it is no regular file.
  int Open(const std::string& name, int flags) const;
  // The first bytes of a file of the folder, at most so many; empty when there is none.
  std::string Read(const std::string& name, uint64_t most_bytes) const;
  bool Has(const char* name) const;

 private:
  SessionFolder(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

// The path by which LD_PRELOAD can name `library`: its own, unless there is a space, a colon or a
// dollar sign in it. Then a link stands in, in a folder below $XDG_RUNTIME_DIR, $XDG_CACHE_HOME or
// ~/.cache that is the caller's (0700) and in the place of which nobody else can put anything. The
// link stays, because a process may live for longer than the session. Unavailable: there is no such
// folder.
absl::StatusOr<std::string> NameForPreload(const std::string& library);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_SESSION_FOLDER_H_
