// The executables and libraries that are loaded into the process.
#ifndef REPRISE_INTERPOSE_PROCESS_MODULES_H_
#define REPRISE_INTERPOSE_PROCESS_MODULES_H_

#include <stddef.h>
#include <stdint.h>

namespace reprise::interpose {

struct LoadedModule {
  uint64_t base;   // load address: what offsets count from
  uint64_t begin;  // of its mapped addresses
  uint64_t end;
  const char* path;
  const unsigned char* build_id;  // null when it has none
  size_t build_id_bytes;
};

// Another after each ForgetModules() (spool_modules.h), which makes all that is known of modules
// obsolete.
extern __attribute__((visibility("hidden"))) uint32_t module_generation;

// The module that holds `address`; false when there is none. Takes no loader lock.
bool FindModule(uint64_t address, LoadedModule* module);

// The address of the function that the module which holds `address` defines by this name, of any
// version; null when there is none. Asks no dynamic linker.
void* SymbolOf(uint64_t address, const char* name);

// Calls `visit` for every loaded module. Takes the loader's lock: only while the library starts.
void ForEachModule(void (*visit)(const LoadedModule& module, void* context), void* context);

// Whether a loaded module calls one of these functions, of at most 32, of another one. Only while
// the library starts.
bool AnyModuleCalls(const char* const* names, size_t count);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_MODULES_H_
