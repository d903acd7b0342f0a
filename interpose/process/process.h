// The state of the process image that the library is in: its mode, its session, its entry in the
// process tree. What changes it stands in interpose/startup.cc.
#ifndef REPRISE_INTERPOSE_PROCESS_PROCESS_H_
#define REPRISE_INTERPOSE_PROCESS_PROCESS_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "interpose/process/preloadable.h"
#include "interpose/process/session.h"

namespace reprise::interpose {

enum class Mode : int {
  kUnstarted = 0,  // no hook has been called yet
  kStarting,       // Start() is running; hooks are served from the side heap
  kPlain,          // hooks pass everything on
  kReplayChild,    // forked from a replayed process: the same, but for what it inherited
  kRecord,         // hooks pass on and record
  kRecordStacks,   // the same, with call stacks
  kReplay,         // hooks serve from the arena
  kReplayRecord,   // both
};

inline constexpr uint64_t kKnownPages = 256;

// What hooks look at first, and usually all of the process that they look at: a line, and another
// for the pages of code. The kernel wipes this in a forked child, where the mode is then 0.
struct alignas(4096) FastState {
  // Pages of code whose modules the spool knows, each at its number modulo this. Atomic.
  uint64_t known_pages[kKnownPages];
  uint64_t mode;  // atomic; the mode as a number once it is decided, 0 before
  // Recording: the newest epoch (epochs.h), and from which size on allocations are looked at.
  uint64_t newest_epoch;  // atomic; the first is 1
  uint64_t note_from;     // atomic
  // Of the program's allocator (real.h), once there is a mode.
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  char rest_of_the_page[4096 - (7 + kKnownPages) * sizeof(uint64_t)];
};

struct Process {
  Mode mode;
  bool reserved;               // kReserved is ours
  bool given_back;             // of that only what is in use is still mapped (give_back.h)
  const SessionFile* session;  // null in kPlain without a session
  Registry* registry;
  uint32_t entries;             // of the registry, that are mapped
  uint32_t* taken;              // atomic, one for each plan of the session; null without plans
  ImageEntry* image;            // our entry, or our parent's: see IsOwnImage
  uint32_t image_number;        // its index: 0 is the program that was started
  char executable[kPathBytes];  // behind its zero the name it was started by (ProgramName)
  bool behind;                  // another malloc stands in front of ours
  FileIdentity loader;          // the dynamic linker, which loads our library; (0, 0): not known
};

// Hidden, so that no table of addresses is read to find them.
extern __attribute__((visibility("hidden"))) FastState fast_state;
extern __attribute__((visibility("hidden"))) Process process;

// Sets the mode in which hooks go on, and passes the program's allocator on to them.
void SetMode(Mode mode);

// Whether this is a forked child whose state has not been renewed yet.
inline bool Forked() {
  return __builtin_expect(__atomic_load_n(&fast_state.mode, __ATOMIC_RELAXED) == 0, 0);
}

// Where and how to map what lies at `begin` when our range is reserved, and anywhere when it is
// not. What was given back may be somebody else's by now.
inline long PlaceFor(uint64_t begin) { return process.reserved ? static_cast<long>(begin) : 0; }
inline int FlagsToPlace() {
  if (!process.reserved) return 0;
  return process.given_back ? MAP_FIXED_NOREPLACE : MAP_FIXED;
}

// Whether Process::image is the calling process's: not in a child of vfork, nor in one of fork that
// has not been noticed or has no entry.
bool IsOwnImage();

// What the program was started as, without its folder: a script's or a link's name, else that of
// the executable.
const char* ProgramName();

// Leaves one line for the launcher to print, unless there is one already.
void ReportToLauncher(const char* message);

// Says that a library was loaded without RTLD_DEEPBIND, which the program had asked for.
void ReportNotDeepBound(const char* library);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_PROCESS_H_
