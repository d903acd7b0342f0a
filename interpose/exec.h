// Programs that this one starts: those that cannot be preloaded are counted, so that nobody takes a
// recording for complete that is not. The loader says nothing about them.
#ifndef REPRISE_INTERPOSE_EXEC_H_
#define REPRISE_INTERPOSE_EXEC_H_

namespace reprise::interpose {

// Before an exec or spawn of `path`, looked for in PATH when `search` and it has no slash. Counts
// it when it is statically linked, for another architecture, or setuid. Safe in a vfork child.
void NoteStart(const char* path, bool search);

// Before and after an exec in the calling process, and before _exit: the image ends, unless the
// exec fails.
void BeforeExec();
void ExecFailed();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_EXEC_H_
