// Whether libreprise.so can be loaded into a program, by what its file says. Hook-safe and safe in
// a vfork child; the launcher asks the same.
#ifndef REPRISE_INTERPOSE_PROCESS_PRELOADABLE_H_
#define REPRISE_INTERPOSE_PROCESS_PRELOADABLE_H_

#include <stdint.h>

namespace reprise::interpose {

enum class Obstacle : uint8_t {
  kNone,          // or nothing is known against it: it may be run and not read, say
  kAbsent,        // no such file, or none that can be executed
  kNoFormat,      // neither ELF nor a script that names its interpreter: execve refuses it
  kTooDeep,       // scripts of scripts, deeper than the kernel follows them
  kSetuid,        // or setgid: the loader ignores the preload
  kCapabilities,  // has file capabilities: the same
  kStatic,        // has no loader
  kOtherClass,    // 32-bit
  kOtherMachine,  // for another processor
  kOtherLibrary,  // its loader is none of glibc
  kOldLibrary,    // its glibc lacks a version of symbols that libreprise.so needs
  kOutOfReach,    // libreprise.so cannot be opened here (chroot)
};

// A file, whatever its name. Both 0: not known.
struct FileIdentity {
  uint64_t device, inode;
};
FileIdentity IdentityOf(const char* path);

struct ProgramCheck {
  Obstacle obstacle;
  char file[256];  // where it was found: an interpreter of the script; empty: in the program itself
  char loader[256];  // kOtherLibrary, kOldLibrary
  char version[32];  // kOldLibrary: the first one that is missing
};

// What execvp runs when execve knows no format of a file.
inline constexpr char kShell[] = "/bin/sh";

// Looks at the program `path`, and if it is a script at its interpreter. `library` is
// libreprise.so. A loader that is `known` to load it is not looked into.
void CheckProgram(const char* path, const char* library, FileIdentity known, ProgramCheck* check);

// The same for execvp: looks at kShell where the program has no format.
void CheckCommand(const char* path, const char* library, FileIdentity known, ProgramCheck* check);

// Whether a loader would try to load the library and fail, and with it the program or its output.
constexpr bool FailsWithPreload(Obstacle obstacle) { return obstacle >= Obstacle::kOtherClass; }

// Whether the program starts, and without our library in any case.
constexpr bool RunsUnseen(Obstacle obstacle) { return obstacle >= Obstacle::kSetuid; }

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_PRELOADABLE_H_
