// What takes long says on a terminal what goes on, in one line that is gone when it ends.
#ifndef REPRISE_CLI_PROGRESS_H_
#define REPRISE_CLI_PROGRESS_H_

#include <string_view>

namespace reprise::cli {

// On standard error; nothing where that is no terminal. One at a time.
class Progress {
 public:
  Progress();
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // In place of what was said before.
  void Say(std::string_view what);
  // Step `done` of `all`: says so ten times a second at most.
  void Count(std::string_view what, size_t done, size_t all);
  // Before something else is printed.
  void Clear();

 private:
  const bool terminal_;
  bool shown_ = false;
  double last_ = 0;  // seconds, of Count
};

}  // namespace reprise::cli

#endif  // REPRISE_CLI_PROGRESS_H_
