// Words of a command line that somebody may copy.
#ifndef REPRISE_BASE_SHELL_TEXT_H_
#define REPRISE_BASE_SHELL_TEXT_H_

#include <string>
#include <string_view>

namespace reprise::base {

// `word` as a shell reads it, on one line and safe to print. What Printable would replace stands as
// an escape sequence of bash, zsh and ksh ($'\n').
std::string ShellQuoted(std::string_view word);

}  // namespace reprise::base

#endif  // REPRISE_BASE_SHELL_TEXT_H_
