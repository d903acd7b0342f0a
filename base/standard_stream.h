// The path that stands for standard input or standard output.
#ifndef REPRISE_BASE_STANDARD_STREAM_H_
#define REPRISE_BASE_STANDARD_STREAM_H_

#include <string>

namespace reprise::base {

inline constexpr char kStandardStream[] = "-";

// Whether what is written to that path comes out of standard output: `-`, or any name of the file
// that it is (/dev/stdout). /dev/null is no such name.
bool IsStandardOutput(const std::string& path);

}  // namespace reprise::base

#endif  // REPRISE_BASE_STANDARD_STREAM_H_
