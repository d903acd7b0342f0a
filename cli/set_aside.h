// Files of an earlier command that are in the way of new ones.
#ifndef REPRISE_CLI_SET_ASIDE_H_
#define REPRISE_CLI_SET_ASIDE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reprise::cli {

// A folder that a command writes several files into.
struct OutputFolder {
  std::string path;  // absolute
  int descriptor;    // open until the process ends
};

// Opens it, and makes it where it is missing. Unavailable, with the reason, when that fails, or
// when the path ends in a symbolic link of another user.
absl::StatusOr<OutputFolder> OpenFolder(const std::string& path);

// Until this process ends, no other command writes into the folder: they would take each other's
// files for their own. Unavailable when one does. Nothing happens on a file system without locks.
absl::Status LockFolder(const OutputFolder& folder);

// Moves entries of the folder, by their names in it, into a new folder beside it, PATH.old or
// PATH.old.2, PATH.old.3 …, whichever is free: nothing is removed or overwritten. Without names it
// does nothing. Returns the new folder's path.
absl::StatusOr<std::string> SetAside(const OutputFolder& folder,
                                     const std::vector<std::string>& names);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_SET_ASIDE_H_
