// Names of functions as people read them: short, and without what every allocation passes through.
// Thread-safe; no function fails.
#ifndef REPRISE_TRACE_FUNCTION_NAMES_H_
#define REPRISE_TRACE_FUNCTION_NAMES_H_

#include <string>
#include <string_view>

namespace reprise::trace {

// A demangled name without its return type, its template arguments and its parameters:
// "std::vector<…>::push_back(…)". What is not understood stays as it is.
std::string ShortName(std::string_view function);

// Whether a demangled name is of code that only carries a request to malloc: operator new, the
// allocators of the C++ and Rust libraries, and what std keeps to itself (std::_…, std::…::_M_…).
bool CarriesRequests(std::string_view function);

// Whether a function only calls the program's own first function: _start, start_thread …
bool StartsProgram(std::string_view function);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_FUNCTION_NAMES_H_
