// The program to be started: where it is, and whether a library can be preloaded into it.
#ifndef REPRISE_CLI_PROGRAM_H_
#define REPRISE_CLI_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"

namespace reprise::cli {

// The path of `name`, looked for in PATH as execvp does. NotFound when there is none;
// PermissionDenied when what there is cannot be executed.
absl::StatusOr<std::string> FindProgram(const std::string& name);

// The same, when a library can be preloaded into it (CheckPreloadable).
absl::StatusOr<std::string> FindPreloadable(const std::string& name);

// libreprise.so, which lies beside this program: bin/reprise and lib/libreprise.so, in the build
// tree and where it is installed.
absl::StatusOr<std::string> FindLibrary();

// OK when the library at `library` can be preloaded into the program at `path`: a 64-bit ELF file
// that a glibc loads which is no older than the library's, without setuid, setgid or file
// capabilities, or a script whose interpreter is one. What is neither, an empty file say, is run by
// /bin/sh, as env does. Otherwise FailedPrecondition with a message that says why not.
absl::Status CheckPreloadable(const std::string& path, const std::string& library);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_PROGRAM_H_
