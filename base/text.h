// Text for people: safe to print, with the nearest known name where one was not understood.
// Thread-safe; no function fails.
#ifndef REPRISE_BASE_TEXT_H_
#define REPRISE_BASE_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reprise::base {

// `text` as one line that no terminal or page can take for an order: '?' stands for each control
// character (C0, DEL and C1, encoded as UTF-8 or not), line and paragraph separator, bidirectional
// control, and each byte that is no part of valid UTF-8. The result is valid UTF-8.
std::string Printable(std::string_view text);

// The name of `known` that `name` was probably meant to be: case, '-' and '_' do not count, and one
// is a beginning of the other (3 characters at least), or at most 1/3 of the longer one's
// characters are wrong, missing, added or swapped with a neighbour. The nearest one wins, then the
// first one; empty when none is near.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> known);

// " (did you mean 'alignment'?)", or nothing when no name is near. To be put behind a message.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> known);

// The columns that printable text takes, one for each code point.
size_t Width(std::string_view text);

// `text`, which is printable, in at most `columns` columns (code points): an ellipsis stands for
// its middle where it is longer.
std::string Shortened(std::string_view text, size_t columns);

// "1 block", "3 blocks"; "1 process", "2 processes".
std::string Counted(uint64_t count, std::string_view noun);

// What stands behind the last '/' of a path.
std::string FileName(std::string_view path);

// 1234567 as "1.2 MiB".
std::string HumanBytes(double bytes);

}  // namespace reprise::base

#endif  // REPRISE_BASE_TEXT_H_
