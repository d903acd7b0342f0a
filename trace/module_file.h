// The file of an executable or a library that a trace names. A trace may name any file.
#ifndef REPRISE_TRACE_MODULE_FILE_H_
#define REPRISE_TRACE_MODULE_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace reprise::trace {

// A build id as traces and plans have it: 2 to 64 hexadecimal digits, lower case, an even number.
// Anything else may be no part of a file's name.
bool IsBuildId(const std::string& text);

// Which file it is, and in which state: device, inode, size and time of the last change. Empty: no
// regular file is at `path`, or the path is relative.
std::string FileIdentity(const std::string& path);

struct ModuleFile {
  int descriptor;           // the caller closes it
  bool has_packed_symbols;  // a section that reading symbols unpacks, to an unknown size
};

// Opens a module's file. Taken are only absolute paths of regular files that begin as 64-bit ELF
// files of this byte order do, whose section table lies in the file, whose compressed sections
// claim at most 64 times their size, and which name no other file for their debug information.
// Nothing else is read, and no device or pipe is opened. Errors, one line that begins with the
// path: NotFound, InvalidArgument.
absl::StatusOr<ModuleFile> OpenModuleFile(const std::string& path);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_MODULE_FILE_H_
