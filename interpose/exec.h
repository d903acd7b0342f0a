// Programs that this one starts: those that cannot be preloaded are counted, so that nobody takes a
// recording for complete that is not. Some loaders ignore the preload; others, of another C
// library, would end the program.
#ifndef REPRISE_INTERPOSE_EXEC_H_
#define REPRISE_INTERPOSE_EXEC_H_

#include <stddef.h>

namespace reprise::interpose {

// Before an exec or spawn of `path`, looked for in PATH when `search` and it has no slash. Counts
// it when our library cannot be loaded into it (preloadable.h). False: not even the attempt may be
// made; it must be started WithoutPreload. Safe in a vfork child.
bool NoteStart(const char* path, bool search);

// The environment without our library in LD_PRELOAD, made in `room`, which is as long as
// BytesWithoutPreload says and aligned for pointers.
size_t BytesWithoutPreload(char* const environment[]);
char* const* WithoutPreload(char* const environment[], void* room);

// Before and after an exec in the calling process, and before _exit: the image ends, unless the
// exec fails.
void BeforeExec();
void ExecFailed();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_EXEC_H_
