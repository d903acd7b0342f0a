#include "trace/unnamed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace reprise::trace {
namespace {

constexpr size_t kAtOnce = 1 << 20;  // bytes

}  // namespace

UnnamedFile::~UnnamedFile() {
  if (file_ >= 0) close(file_);
}

void UnnamedFile::Write(std::string_view bytes) {
  gathered_.append(bytes);
  if (gathered_.size() >= kAtOnce) Flush();
}

void UnnamedFile::Flush() {
  if (file_ < 0 && !failed_) {
    std::string name = folder_ + "/.reprise-XXXXXX";
    file_ = mkostemp(name.data(), O_CLOEXEC);
    failed_ = file_ < 0 || unlink(name.c_str()) != 0;
  }
  for (size_t done = 0; done < gathered_.size() && !failed_;) {
    const ssize_t put = write(file_, gathered_.data() + done, gathered_.size() - done);
    if (put > 0) done += static_cast<size_t>(put);
    failed_ = put == 0 || (put < 0 && errno != EINTR);
  }
  gathered_.clear();
}

bool UnnamedFile::CopyTo(base::AtomicFile& file) {
  std::string bytes(kAtOnce, '\0');
  for (off_t at = 0; file_ >= 0 && !failed_;) {
    const ssize_t got = pread(file_, bytes.data(), bytes.size(), at);
    if (got == 0) break;
    if (got > 0) {
      file.Write(std::string_view(bytes).substr(0, static_cast<size_t>(got)));
      at += got;
    }
    failed_ = got < 0 && errno != EINTR;
  }
  file.Write(gathered_);
  return !failed_;
}

}  // namespace reprise::trace
