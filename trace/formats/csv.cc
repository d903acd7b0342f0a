#include "trace/formats/csv.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/unknown_names.h"
#include "trace/event.h"
#include "trace/mapped_file.h"

namespace reprise::trace {
namespace {

enum Column { kId, kLower, kUpper, kSize, kAlignment, kOffset, kGaps, kColumns };
constexpr std::array<const char*, kColumns> kColumnNames = {"id",        "lower",  "upper", "size",
                                                            "alignment", "offset", "gaps"};

struct Alias {
  std::string_view name;
  Column column;
};
constexpr Alias kAliases[] = {{"id", kId},         {"buffer", kId},           {"buffer_id", kId},
                              {"lower", kLower},   {"start", kLower},         {"begin", kLower},
                              {"upper", kUpper},   {"end", kUpper},           {"size", kSize},
                              {"offset", kOffset}, {"alignment", kAlignment}, {"gaps", kGaps}};

std::vector<std::string_view> KnownNames() {
  std::vector<std::string_view> names;
  for (const Alias& alias : kAliases) names.push_back(alias.name);
  return names;
}

// The fields of a line, without the quotes and the space around them.
class Fields {
 public:
  // False: a quote is not closed.
  bool Split(absl::string_view line) {
    fields_.clear();
    if (line.find('"') == absl::string_view::npos) {
      for (size_t begin = 0; begin <= line.size();) {
        const size_t end = std::min(line.find(',', begin), line.size());
        fields_.push_back(absl::StripAsciiWhitespace(line.substr(begin, end - begin)));
        begin = end + 1;
      }
      return true;
    }
    unquoted_.clear();
    unquoted_.reserve(line.size());  // or the fields would move
    bool quoted = false;
    size_t begin = 0;
    const auto end_field = [&] {
      const absl::string_view field = absl::string_view(unquoted_).substr(begin);
      fields_.push_back(absl::StripAsciiWhitespace(field));
      begin = unquoted_.size();
    };
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '"') {
        if (quoted && i + 1 < line.size() && line[i + 1] == '"')
          unquoted_ += line[i++];
        else
          quoted = !quoted;
      } else if (line[i] == ',' && !quoted) {
        end_field();
      } else {
        unquoted_ += line[i];
      }
    }
    end_field();
    return !quoted;
  }

  size_t size() const { return fields_.size(); }
  absl::string_view operator[](size_t field) const { return fields_[field]; }
  void DropLast() { fields_.pop_back(); }

 private:
  std::vector<absl::string_view> fields_;  // of the line, or of unquoted_
  std::string unquoted_;
};

bool ParseNumber(absl::string_view text, int64_t& value) {
  if (text.empty() || !absl::ascii_isdigit(text[0])) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string Quote(absl::string_view text) {
  constexpr size_t kLongest = 60;
  return absl::StrCat("'", text.substr(0, kLongest), text.size() > kLongest ? "..." : "", "'");
}

class Parser {
 public:
  // Of a text with about so many lines and bytes.
  Parser(const std::string& name, bool ignore_unknown, bool slots, size_t lines, size_t bytes)
      : name_(name), unknown_(ignore_unknown), slots_(slots) {
    columns_.fill(-1);
    instance_.buffers.reserve(lines);
    instance_.rows.reserve(bytes);
  }

  absl::Status Line(absl::string_view line) {
    ++line_;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line_ == 1 && absl::StartsWith(line, "\xef\xbb\xbf")) line.remove_prefix(3);
    const size_t first = line.find_first_not_of(" \t");
    if (first == absl::string_view::npos || line[first] == '#') return absl::OkStatus();
    if (!have_header_) return Header(line);
    return Row(line);
  }

  absl::StatusOr<CsvInstance> Finish() {
    if (!have_header_) {
      line_ = std::max<int64_t>(line_, 1);
      return Expected("a header with the columns id, lower, upper and size", "no line at all");
    }
    return std::move(instance_);
  }

 private:
  absl::Status Expected(const std::string& expected, const std::string& found) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", line_, ": expected ", expected, ", found ", found));
  }

  absl::Status Header(absl::string_view line) {
    Fields fields;
    if (!fields.Split(line)) return Expected("closed quotes", Quote(line));
    field_count_ = fields.size();
    std::string unknown;  // the first one; what is missing is said before it
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string name = absl::AsciiStrToLower(fields[i]);
      const auto* alias = std::find_if(std::begin(kAliases), std::end(kAliases),
                                       [&](const Alias& it) { return it.name == name; });
      if (alias == std::end(kAliases)) {
        if (unknown.empty()) unknown = unknown_.Note(name, KnownNames());
        continue;
      }
      if (columns_[alias->column] >= 0) {
        return Expected(absl::StrCat("one column for ", kColumnNames[alias->column]),
                        absl::StrCat("another, ", Quote(fields[i])));
      }
      columns_[alias->column] = static_cast<int>(i);
      if (name == "end") last_instant_ = 1;
    }
    for (const Column required : {kId, kLower, kUpper, kSize}) {
      if (columns_[required] < 0) {
        return Expected(absl::StrCat("a header with the column ", kColumnNames[required]),
                        Quote(line));
      }
    }
    if (!unknown.empty()) {
      return Expected(absl::StrCat("the columns ", absl::StrJoin(kColumnNames, ", "),
                                   " (--ignore-unknown leaves others aside)"),
                      unknown);
    }
    have_header_ = true;
    instance_.ignored = unknown_.Ignored();
    instance_.has_alignments = columns_[kAlignment] >= 0;
    instance_.has_offsets = columns_[kOffset] >= 0;
    instance_.has_gaps = columns_[kGaps] >= 0;
    instance_.offset_column = columns_[kOffset];
    instance_.header = std::string(line);
    return absl::OkStatus();
  }

  absl::Status Row(absl::string_view line) {
    Fields& fields = fields_;
    if (!fields.Split(line)) return Expected("closed quotes", Quote(line));
    // Commas too many at the end are of no harm, but must not come before an offset.
    while (fields.size() > field_count_ && fields[fields.size() - 1].empty()) {
      fields.DropLast();
      line = line.substr(0, line.rfind(','));
    }
    if (fields.size() != field_count_) {
      return Expected(absl::StrCat(field_count_, " fields"), absl::StrCat(fields.size()));
    }
    CsvBuffer buffer;
    buffer.line = line_;
    buffer.id = std::string(fields[columns_[kId]]);
    if (buffer.id.empty()) return Expected("an id", "an empty field");
    absl::Status status = NoteId(buffer);
    if (status.ok()) status = Number(fields, kLower, buffer.lower);
    if (status.ok()) status = Number(fields, kUpper, buffer.upper);
    if (status.ok()) status = Number(fields, kSize, buffer.size);
    if (!status.ok()) return status;
    if (buffer.upper > INT64_MAX - last_instant_) {
      return Expected("an end below 2^63 - 1", std::string(fields[columns_[kUpper]]));
    }
    buffer.upper += last_instant_;
    if (buffer.lower >= buffer.upper) {
      return Expected(last_instant_ != 0 ? "start <= end" : "lower < upper",
                      absl::StrCat(fields[columns_[kLower]], " and ", fields[columns_[kUpper]]));
    }
    if (static_cast<uint64_t>(buffer.size) > kMaxSize) {
      return Expected("a size below 2^56", absl::StrCat(buffer.size));
    }
    if (buffer.size > INT64_MAX - sum_) {
      return Expected("sizes whose sum is below 2^63", absl::StrCat(buffer.size, " more"));
    }
    sum_ += buffer.size;
    status = Options(fields, buffer);
    if (!status.ok()) return status;
    instance_.buffers.push_back(std::move(buffer));
    instance_.rows.append(line.data(), line.size());
    instance_.rows += '\n';
    return absl::OkStatus();
  }

  // Ids are unique. Numbers that rise are without being looked up.
  absl::Status NoteId(const CsvBuffer& buffer) {
    int64_t number = 0;
    const bool plain = ParseNumber(buffer.id, number) && (buffer.id[0] != '0' || number == 0) &&
                       buffer.id.size() < 20;
    if (ids_rise_ && plain && number > last_id_) {
      last_id_ = number;
      return absl::OkStatus();
    }
    if (ids_rise_) {
      for (const CsvBuffer& earlier : instance_.buffers) {
        lines_of_ids_.emplace(earlier.id, earlier.line);
      }
      ids_rise_ = false;
    }
    const auto [earlier, added] = lines_of_ids_.emplace(buffer.id, line_);
    if (added) return absl::OkStatus();
    return Expected("an id of its own",
                    absl::StrCat(Quote(buffer.id), " as in line ", earlier->second));
  }

  absl::Status Number(const Fields& fields, Column column, int64_t& value) const {
    const absl::string_view text = fields[columns_[column]];
    if (ParseNumber(text, value)) return absl::OkStatus();
    return Expected(absl::StrCat("a whole number from 0 to 2^63 - 1 for ", kColumnNames[column]),
                    text.empty() ? "an empty field" : Quote(text));
  }

  absl::Status Options(const Fields& fields, CsvBuffer& buffer) const {
    if (instance_.has_alignments && !fields[columns_[kAlignment]].empty()) {
      absl::Status status = Number(fields, kAlignment, buffer.alignment);
      if (!status.ok()) return status;
      const auto alignment = static_cast<uint64_t>(buffer.alignment);
      if (!std::has_single_bit(alignment) || alignment > kMaxSize) {
        return Expected("a power of two below 2^56 for alignment", absl::StrCat(alignment));
      }
    }
    if (instance_.has_offsets && !fields[columns_[kOffset]].empty()) {
      absl::Status status = Offsets(fields, buffer);
      if (!status.ok()) return status;
    }
    if (!instance_.has_gaps) return absl::OkStatus();
    for (const std::string& text : std::vector<std::string>(
             absl::StrSplit(fields[columns_[kGaps]], ' ', absl::SkipEmpty()))) {
      absl::Status status = AddGap(text, buffer);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // One, or those of a buffer's slots.
  absl::Status Offsets(const Fields& fields, CsvBuffer& buffer) const {
    const absl::string_view field = fields[columns_[kOffset]];
    const std::vector<absl::string_view> texts =
        slots_ ? std::vector<absl::string_view>(absl::StrSplit(field, ' ', absl::SkipEmpty()))
               : std::vector<absl::string_view>{field};
    for (const absl::string_view text : texts) {
      int64_t offset = 0;
      if (!ParseNumber(text, offset)) {
        const bool several = !slots_ && text.find(' ') != absl::string_view::npos;
        return Expected(absl::StrCat("a whole number from 0 to 2^63 - 1 for offset",
                                     several ? " (plans made with --period have several)" : ""),
                        Quote(text));
      }
      if (offset > INT64_MAX - buffer.size) {
        return Expected("offset + size below 2^63", absl::StrCat(offset));
      }
      if (!buffer.offset) buffer.offset = offset;
      if (texts.size() > 1) buffer.slot_offsets.push_back(offset);
    }
    return absl::OkStatus();
  }

  absl::Status AddGap(const std::string& text, CsvBuffer& buffer) const {
    const std::vector<std::string> parts = absl::StrSplit(text, '@');
    const std::vector<std::string> times = absl::StrSplit(parts[0], '-');
    CsvGap gap;
    bool good = parts.size() <= 2 && times.size() == 2 && ParseNumber(times[0], gap.lower) &&
                ParseNumber(times[1], gap.upper) && gap.upper <= INT64_MAX - last_instant_;
    if (good && parts.size() == 2) {
      const std::vector<std::string> window = absl::StrSplit(parts[1], ':');
      good = window.size() == 2 && ParseNumber(window[0], gap.window_lower) &&
             ParseNumber(window[1], gap.window_upper);
    }
    if (!good) return Expected("a gap LOWER-UPPER or LOWER-UPPER@FROM:TO", Quote(text));
    gap.upper += last_instant_;
    const int64_t earliest = buffer.gaps.empty() ? buffer.lower : buffer.gaps.back().upper;
    if (gap.lower < earliest || gap.lower >= gap.upper || gap.upper > buffer.upper) {
      return Expected("gaps in ascending order inside the lifetime", Quote(text));
    }
    if (gap.window_lower > gap.window_upper || gap.window_upper > buffer.size) {
      return Expected("a window inside the buffer", Quote(text));
    }
    if (gap.window_lower == gap.window_upper) gap.window_lower = gap.window_upper = 0;
    buffer.gaps.push_back(gap);
    return absl::OkStatus();
  }

  const std::string& name_;
  base::UnknownNames unknown_;
  bool slots_;  // an offset may be several
  CsvInstance instance_;
  std::array<int, kColumns> columns_;  // which field; -1: none
  Fields fields_;
  bool ids_rise_ = true;  // all of them are numbers, each above the one before
  int64_t last_id_ = -1;
  absl::flat_hash_map<std::string, int64_t> lines_of_ids_;  // once they do not
  size_t field_count_ = 0;
  int64_t last_instant_ = 0;  // 1: the upper column is inclusive
  int64_t line_ = 0;
  int64_t sum_ = 0;
  bool have_header_ = false;
};

// A line with the text of one field replaced, whatever its quotes.
std::string ReplaceField(absl::string_view line, int field, absl::string_view text) {
  bool quoted = false;
  int at = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (line[i] != ',' || quoted)) continue;
    if (at++ == field) return absl::StrCat(line.substr(0, begin), text, line.substr(i));
    begin = i + 1;
  }
  return std::string(line);
}

}  // namespace

absl::StatusOr<CsvInstance> ParseCsv(absl::string_view text, const std::string& name,
                                     bool ignore_unknown, bool slots) {
  Parser parser(name, ignore_unknown, slots, std::count(text.begin(), text.end(), '\n'),
                text.size());
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    absl::Status status = parser.Line(text.substr(begin, end - begin));
    if (!status.ok()) return status;
    begin = end + 1;
  }
  return parser.Finish();
}

absl::StatusOr<CsvInstance> ReadCsv(const std::string& path, bool ignore_unknown, bool slots) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bytes = file->bytes();
  absl::StatusOr<CsvInstance> instance = ParseCsv(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, ignore_unknown, slots);
  if (absl::Status whole = file->Whole(path); !whole.ok()) return whole;
  return instance;
}

std::string FormatCsv(const CsvInstance& instance, const std::vector<int64_t>& offsets,
                      const std::vector<uint32_t>& first) {
  std::string text;
  constexpr size_t kOffsetBytes = 10;  // most are shorter
  text.reserve(instance.header.size() + instance.rows.size() + kOffsetBytes * offsets.size());
  const bool append = instance.offset_column < 0;
  absl::StrAppend(&text, instance.header, append ? ",offset" : "", "\n");
  size_t begin = 0;
  const size_t count = first.empty() ? offsets.size() : first.size() - 1;
  std::string given;
  for (size_t r = 0; r < count; ++r) {
    const size_t from = first.empty() ? r : first[r];
    const size_t to = first.empty() ? r + 1 : first[r + 1];
    given.clear();
    for (size_t i = from; i < to; ++i) absl::StrAppend(&given, i > from ? " " : "", offsets[i]);
    const size_t end = instance.rows.find('\n', begin);
    const auto row = absl::string_view(instance.rows).substr(begin, end - begin);
    if (append) {
      absl::StrAppend(&text, row, ",", given, "\n");
    } else {
      absl::StrAppend(&text, ReplaceField(row, instance.offset_column, given), "\n");
    }
    begin = end + 1;
  }
  return text;
}

CsvPeak Peak(const CsvInstance& instance) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // instant, bytes; releases sort first
  for (const CsvBuffer& buffer : instance.buffers) {
    changes.emplace_back(buffer.lower, buffer.size);
    changes.emplace_back(buffer.upper, -buffer.size);
    for (const CsvGap& gap : buffer.gaps) {
      const int64_t unused = buffer.size - (gap.window_upper - gap.window_lower);
      changes.emplace_back(gap.lower, -unused);
      changes.emplace_back(gap.upper, unused);
    }
  }
  std::sort(changes.begin(), changes.end());
  int64_t load = 0;
  int64_t when = 0;
  CsvPeak peak;
  for (const auto& [instant, bytes] : changes) {
    load += bytes;
    if (load <= peak.load) continue;
    peak.load = load;
    when = instant;
  }
  uint64_t events = 0;
  for (const CsvBuffer& buffer : instance.buffers) {
    events += (buffer.lower <= when ? 1 : 0) + (buffer.upper <= when ? 1 : 0);
  }
  if (events > 0) peak.event = events - 1;
  return peak;
}

Recording ToRecording(const CsvInstance& instance, bool names) {
  struct Step {
    int64_t instant;
    bool birth;  // deaths first
    uint32_t row;
    bool operator<(const Step& other) const {
      return std::tie(instant, birth, row) < std::tie(other.instant, other.birth, other.row);
    }
  };
  std::vector<Step> steps;
  for (uint32_t row = 0; row < instance.buffers.size(); ++row) {
    steps.push_back({instance.buffers[row].lower, true, row});
    steps.push_back({instance.buffers[row].upper, false, row});
  }
  std::sort(steps.begin(), steps.end());
  Recording recording;
  recording.process.complete = true;
  recording.threads.push_back({.path = 1, .end_event = steps.size()});
  std::vector<uint32_t> allocation_of_row(instance.buffers.size());
  for (const Step& step : steps) {
    const uint64_t index = recording.events++;
    if (names) {
      recording.instants.push_back(static_cast<uint64_t>(step.instant - steps.front().instant));
    }
    if (!step.birth) {
      Allocation& allocation = recording.allocations[allocation_of_row[step.row]];
      allocation.death = index;
      allocation.free_thread = 0;
      continue;
    }
    const CsvBuffer& buffer = instance.buffers[step.row];
    allocation_of_row[step.row] = static_cast<uint32_t>(recording.allocations.size());
    Allocation allocation;
    allocation.birth = index;
    allocation.size = static_cast<uint64_t>(buffer.size);
    if (buffer.alignment > 1) {
      allocation.kind = AllocationKind::kAligned;
      allocation.log2_alignment =
          static_cast<uint8_t>(std::countr_zero(static_cast<uint64_t>(buffer.alignment)));
    }
    if (names) allocation.site = step.row;
    recording.allocations.push_back(allocation);
  }
  if (names) {
    recording.first_instant = steps.empty() ? 0 : steps.front().instant;
    for (uint32_t row = 0; row < instance.buffers.size(); ++row) {
      recording.sites.push_back({.module = kNone, .offset = row});
      recording.buffer_names.push_back(instance.buffers[row].id);
    }
  }
  return recording;
}

}  // namespace reprise::trace
