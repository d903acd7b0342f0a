// The path that stands for standard input or standard output.
#ifndef REPRISE_BASE_STANDARD_STREAM_H_
#define REPRISE_BASE_STANDARD_STREAM_H_

namespace reprise::base {

inline constexpr char kStandardStream[] = "-";

}  // namespace reprise::base

#endif  // REPRISE_BASE_STANDARD_STREAM_H_
