// Names for call sites: function, file and line, looked up in the modules' symbol tables and debug
// information by build id, after the fact and in another process than the recorded one.
#ifndef REPRISE_TRACE_SYMBOLS_H_
#define REPRISE_TRACE_SYMBOLS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trace/recording.h"

namespace reprise::trace {

// What is known of a call site. Empty fields: not known.
struct Symbol {
  std::string function;  // demangled; of the innermost inlined call that does more than carry
                         // requests to malloc (function_names.h)
  std::string file;      // as the debug information names it
  int line = 0;          // 0: not known
};

// From now on debug information that is not installed may be asked for from the servers that
// $DEBUGINFOD_URLS names: they learn the build ids of the modules. Without this nobody is asked.
void AllowDebuginfod();

// Looks names up and remembers them, also on disk: in $XDG_CACHE_HOME/reprise/symbols (or
// ~/.cache/…), a file per build id, so that a large program is read once. It holds for the file
// that the names were read from, and its debug information, as they were then. Debug information
// that is installed apart
// (/usr/lib/debug/.build-id) is found. A module whose file has another build id than was recorded,
// or is none that OpenModuleFile takes (module_file.h), has no names. Not for several threads at
// once.
class Symbolizer {
 public:
  // `cache`: folder for what was found; empty: nothing is kept on disk.
  explicit Symbolizer(std::string cache = DefaultCache());
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  static std::string DefaultCache();

  // The call that returns to `offset` bytes from the load address of `module`.
  Symbol Find(const Module& module, uint64_t offset);

  // Why modules that were asked for have no names, one line each: the file is gone, is another, or
  // is none that is read.
  std::vector<std::string> Complaints() const;

 private:
  struct LoadedModule;
  LoadedModule& Load(const Module& module);

  std::string cache_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<LoadedModule>> modules_;
};

// "function (file:line)", "function (module)", or "module+0x12ab" where no name is known; of an
// instance the buffer's name. Functions as ShortName has them, or their `whole` names.
std::string DescribeSite(const Recording& recording, uint32_t site, const Symbol& symbol,
                         bool whole = false);

// The same for a place in the code.
std::string DescribeFrame(const Recording& recording, const Frame& frame, const Symbol& symbol,
                          bool whole = false);

// The name of a place in the code; empty outside every module.
Symbol FindSymbol(const Recording& recording, const Frame& frame, Symbolizer& symbolizer);

// The callers of a site, the nearest first; none when they were not recorded.
const std::vector<Frame>& CallersOf(const Recording& recording, uint32_t site);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SYMBOLS_H_
