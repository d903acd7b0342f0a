// Android's malloc text: one call per line, in the order in which the calls ended.
//   TID: malloc PTR SIZE | calloc PTR COUNT SIZE | memalign PTR ALIGNMENT SIZE |
//        realloc NEW OLD SIZE | free PTR | thread_done PTR
// Pointers are hexadecimal, all else decimal. Newer files add two timestamps to each line; they
// are ignored. Blank lines and lines that begin with '#' are skipped.
#ifndef REPRISE_TRACE_FORMATS_ANDROID_H_
#define REPRISE_TRACE_FORMATS_ANDROID_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "trace/event.h"
#include "trace/mapped_file.h"
#include "trace/recording.h"

namespace reprise::trace {

// Streams the events of the text, whose file is called `path`, as ReadTrace does. Every TID is one
// thread; the first one counts as the main thread, the parent of all others. There are no sites. A
// call that returned null did nothing; freeing null is no event; realloc of null allocates, to size
// 0 frees. Errors: InvalidArgument "FILE:LINE: expected ..., found ...".
absl::Status ReadAndroid(const MappedFile& file, const std::string& path, Recording& recording,
                         absl::FunctionRef<void(const Event&)> on_event);

// Writes events as such text. Addresses are made up: every block has its own. Free of a realloc and
// its allocation become one line when nothing came between them.
class AndroidWriter {
 public:
  // `write` takes each line, its newline included.
  explicit AndroidWriter(absl::FunctionRef<void(const std::string&)> write) : write_(write) {}
  void Add(const Event& event);
  void Finish();

 private:
  void WriteFree(const Event& event);

  absl::FunctionRef<void(const std::string&)> write_;
  Event pending_;  // a free that may be a realloc's
  bool has_pending_ = false;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_FORMATS_ANDROID_H_
