#include "cli/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace reprise::cli {
namespace {

constexpr size_t kMostColumns = 79;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::Say(std::string_view what) {
  if (!terminal_) return;
  const std::string line = base::Printable(std::string(what.substr(0, kMostColumns)));
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::Count(std::string_view what, size_t done, size_t all) {
  if (!terminal_) return;
  const double now = Now();
  if (now - last_ < 0.1) return;
  last_ = now;
  Say(absl::StrCat(std::string(what), ": ", done, " of ", all));
}

void Progress::Clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace reprise::cli
