// A temporary file that no folder shows, so that nothing is left of it when its process is killed.
#ifndef REPRISE_TRACE_UNNAMED_FILE_H_
#define REPRISE_TRACE_UNNAMED_FILE_H_

#include <string>
#include <string_view>

#include "base/atomic_file.h"

namespace reprise::trace {

// Made by the first piece that is large enough to leave memory. Not for several threads at once.
class UnnamedFile {
 public:
  // It takes the disk of `folder`.
  explicit UnnamedFile(std::string folder) : folder_(std::move(folder)) {}
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  void Write(std::string_view bytes);

  // Writes all of it to `file`. False: a part could not be kept, or not be read.
  bool CopyTo(base::AtomicFile& file);

 private:
  void Flush();

  const std::string folder_;
  std::string gathered_;
  int file_ = -1;
  bool failed_ = false;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_UNNAMED_FILE_H_
