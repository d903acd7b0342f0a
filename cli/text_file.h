// A text file that appears under its name only when it is whole.
#ifndef REPRISE_CLI_TEXT_FILE_H_
#define REPRISE_CLI_TEXT_FILE_H_

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "cli/command.h"
#include "trace/whole_file.h"

namespace reprise::cli {

// It may replace the file that is being read: it is written beside it and renamed at the end. What
// is not a regular file (a pipe) is written to directly. Not for several threads at once.
class TextFile {
 public:
  explicit TextFile(const std::string& path) : path_(path) {
    temporary_ = trace::TemporaryFor(path_);
    file_ = std::fopen(temporary_.c_str(), "we");
    if (file_ == nullptr) error_ = errno;
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() {
    if (file_ != nullptr) std::fclose(file_);
    trace::Discard(temporary_, path_);
  }

  bool ok() const { return error_ == 0; }
  void Write(std::string_view text) {
    if (ok() && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) error_ = errno;
  }
  // Unavailable, with the errno text, when anything went wrong since the beginning.
  absl::Status Finish() {
    if (ok() && std::fclose(std::exchange(file_, nullptr)) != 0) error_ = errno;
    if (ok()) error_ = trace::Publish(temporary_, path_);
    return ok() ? absl::OkStatus() : SystemError(error_, path_);
  }

 private:
  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
  int error_ = 0;
};

}  // namespace reprise::cli

#endif  // REPRISE_CLI_TEXT_FILE_H_
