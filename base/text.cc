#include "base/text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::base {
namespace {

// One character of UTF-8: its code point and its length in bytes; length 0 when `text` does not
// begin with a valid one. Surrogates, overlong forms and what is above U+10FFFF are not valid.
struct Character {
  uint32_t code = 0;
  size_t length = 0;
};

Character Decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  size_t length = 0;
  uint32_t code = 0;
  uint32_t least = 0;
  if ((lead & 0xe0) == 0xc0) {
    length = 2, code = lead & 0x1f, least = 0x80;
  } else if ((lead & 0xf0) == 0xe0) {
    length = 3, code = lead & 0x0f, least = 0x800;
  } else if ((lead & 0xf8) == 0xf0) {
    length = 4, code = lead & 0x07, least = 0x10000;
  }
  if (length == 0 || text.size() < length) return {};
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least || code > 0x10ffff || surrogate) return {};
  return {code, length};
}

bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ||  // C0, DEL, C1
         code == 0x2028 || code == 0x2029 ||              // line and paragraph separator
         code == 0x061c || code == 0x200e || code == 0x200f ||
         (code >= 0x202a && code <= 0x202e) ||  // bidirectional controls
         (code >= 0x2066 && code <= 0x2069);
}

// Lower case, without '-' and '_'.
std::string Folded(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    if (c == '-' || c == '_') continue;
    folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return folded;
}

// Damerau and Levenshtein, restricted: the least number of insertions, deletions, substitutions and
// swaps of neighbours, where no part is edited twice.
size_t EditDistance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> before(width), last(width), row(width);
  for (size_t j = 0; j < width; ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j < width; ++j) {
      const size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const Character character = Decode(text);
    const size_t length = std::max<size_t>(character.length, 1);
    if (character.length == 0 || IsControl(character.code)) {
      printable += '?';
    } else {
      printable += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return printable;
}

std::string_view NearestName(std::string_view name, std::span<const std::string_view> known) {
  constexpr size_t kLongestName = 64;  // the distance takes the product of the lengths
  constexpr size_t kLeastPrefix = 3;
  const std::string wanted = Folded(name.substr(0, kLongestName + 1));
  std::string_view nearest;
  size_t least = SIZE_MAX;
  if (wanted.size() > kLongestName) return nearest;
  for (const std::string_view candidate : known) {
    const std::string folded = Folded(candidate);
    const size_t distance = EditDistance(wanted, folded);
    const bool prefix = std::min(wanted.size(), folded.size()) >= kLeastPrefix &&
                        (folded.starts_with(wanted) || wanted.starts_with(folded));
    const bool near = prefix || distance * 3 <= std::max(wanted.size(), folded.size());
    if (near && distance < least) {
      nearest = candidate;
      least = distance;
    }
  }
  return nearest;
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view nearest = NearestName(name, known);
  return nearest.empty() ? std::string() : " (did you mean '" + std::string(nearest) + "'?)";
}

size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string Shortened(std::string_view text, size_t columns) {
  constexpr std::string_view kEllipsis = "…";
  std::vector<size_t> begins;  // of each character
  for (size_t i = 0; i < text.size(); i += std::max<size_t>(Decode(text.substr(i)).length, 1)) {
    begins.push_back(i);
  }
  if (begins.size() <= columns || columns == 0) return std::string(text);
  const size_t front = columns / 2, back = columns - 1 - front;
  std::string shortened(text.substr(0, begins[front]));
  shortened += kEllipsis;
  if (back > 0) shortened += text.substr(begins[begins.size() - back]);
  return shortened;
}

std::string Counted(uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " " + std::string(noun);
  if (count != 1) text += noun.ends_with('s') ? "es" : "s";
  return text;
}

std::string FileName(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string HumanBytes(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text;
}

}  // namespace reprise::base
