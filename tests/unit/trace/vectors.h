// The test vectors of docs/reference/trace_format.md.
#ifndef REPRISE_TESTS_UNIT_TRACE_VECTORS_H_
#define REPRISE_TESTS_UNIT_TRACE_VECTORS_H_

#include <string>

#include "tests/unit/trace/spool_builder.h"

namespace reprise::trace {

// The bytes of the ```hex NAME block: lines of an offset, a colon and bytes, both hexadecimal; what
// follows a ';' is a remark. Bytes that no line gives are zero.
std::string DocumentVector(const std::string& name);

// The spool that the document shows, made event by event.
SpoolBuilder VectorSpool();

}  // namespace reprise::trace

#endif  // REPRISE_TESTS_UNIT_TRACE_VECTORS_H_
