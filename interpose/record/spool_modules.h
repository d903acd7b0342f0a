// The module area of the spool: which executables and libraries the return addresses of events lie
// in, written before the first event that names one.
#ifndef REPRISE_INTERPOSE_RECORD_SPOOL_MODULES_H_
#define REPRISE_INTERPOSE_RECORD_SPOOL_MODULES_H_

#include <stdint.h>

#include "interpose/process/process.h"

namespace reprise::interpose {

void LearnModule(uint64_t address);

// Where the page of an address stands when its module is known.
inline uint64_t* KnownPage(uint64_t address) {
  return &fast_state.known_pages[(address >> 12) % kKnownPages];
}

// Makes sure that the module of a return address is in the spool before the event that names it.
inline void NoteModule(uint64_t address) {
  if (__builtin_expect(__atomic_load_n(KnownPage(address), __ATOMIC_ACQUIRE) != address >> 12, 0)) {
    LearnModule(address);
  }
}

// A module may have left its addresses: look afresh at the next one.
void ForgetModules();

// In a forked child: its spool names none yet.
void ForgetModuleRecords();

// Appends what the system tells of the process in the file `path`, with signals blocked or before
// there are events. `kind`: trace::kSpoolCommand or kSpoolEnvironment.
void WriteText(uint64_t kind, const char* path);

// Appends the name that a thread was given; `path` is the thread's. After 1,000 names no more.
void WriteThreadName(uint64_t path, const char* name);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORD_SPOOL_MODULES_H_
