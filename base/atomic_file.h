// Output files that appear under their names only when they are whole, in folders that others may
// write to, too (/tmp).
//
// A symbolic link at the end of an output's path is followed when it is the caller's own, so that
// the link stays. Another user's is refused: what it leads to is that user's choice.
#ifndef REPRISE_BASE_ATOMIC_FILE_H_
#define REPRISE_BASE_ATOMIC_FILE_H_

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/standard_stream.h"

namespace reprise::base {

// One output file. It is written under a random name beside the output, readable by the caller
// only, and renamed at the end. Then it has the mode of the file that it replaces (without set-id
// bits), and its owner and group where the system permits; a new one has 0666 less the umask. What
// is there and no regular file (a device, a pipe), and what somebody has open already (/dev/stdout,
// /dev/fd/N, /proc/…; kStandardStream), is written to at once. Another user's pipe is refused. Not
// for several threads at once.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();  // without Finish: removes what was written
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Readable by the owner only (0600), whatever was there before, and the caller owns it. To be
  // called before the first secret is written.
  void KeepPrivate() { private_ = true; }

  // Whether it is written to at once, so that an attempt leaves traces.
  bool direct() const { return direct_; }

  bool ok() const { return problem_.empty(); }
  // One line, "PATH: errno text", of the first thing that went wrong.
  const std::string& problem() const { return problem_; }

  // Small pieces are gathered; one of 64 KiB or more goes to the system in one piece.
  void Write(std::string_view bytes);

  // Gives the whole file its name. False: something went wrong since the beginning, and what was
  // there under the name is still there.
  bool Finish();

 private:
  void Open();
  void Flush();
  void WriteThrough(std::string_view bytes);
  bool TakeModeAndOwner();
  void Fail(int error);

  std::string path_;       // as the caller names it
  std::string name_;       // in the folder
  std::string temporary_;  // in the folder; empty: there is none
  std::string gathered_;
  std::string problem_;
  int folder_ = -1;
  int file_ = -1;
  bool direct_ = false;
  bool private_ = false;
  bool replaces_ = false;
  mode_t mode_ = 0;  // of what is replaced
  uid_t owner_ = 0;
  gid_t group_ = 0;
};

// Opens the folder `path` for output, and makes it and its parents where they are missing. Returns
// its descriptor, which the caller closes; -1: `problem` says why, one line that begins with the
// path. Links as above. kStandardStream is none.
int OpenOutputFolder(const std::string& path, std::string* problem);

// Whether nobody but the caller and the superuser can put anything else in the place of the folder
// `path` or of one above it; no part of it is a link. `path` is absolute.
bool IsOutOfReach(const std::string& path);

}  // namespace reprise::base

#endif  // REPRISE_BASE_ATOMIC_FILE_H_
