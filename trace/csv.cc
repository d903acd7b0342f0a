#include "trace/csv.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "trace/mapped_file.h"

namespace reprise::trace {
namespace {

enum Column { kId, kLower, kUpper, kSize, kAlignment, kOffset, kGaps, kColumns };
constexpr std::array<const char*, kColumns> kColumnNames = {"id",        "lower",  "upper", "size",
                                                            "alignment", "offset", "gaps"};

struct Alias {
  const char* name;
  Column column;
};
constexpr Alias kAliases[] = {{"id", kId},         {"buffer", kId},           {"buffer_id", kId},
                              {"lower", kLower},   {"start", kLower},         {"begin", kLower},
                              {"upper", kUpper},   {"end", kUpper},           {"size", kSize},
                              {"offset", kOffset}, {"alignment", kAlignment}, {"gaps", kGaps}};

// The fields, without the quotes and the space around them. False: a quote is not closed.
bool SplitFields(const std::string& line, std::vector<std::string>& fields) {
  fields.assign(1, "");
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        fields.back() += line[i++];
      else
        quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  for (std::string& field : fields) absl::StripAsciiWhitespace(&field);
  return !quoted;
}

bool ParseNumber(const std::string& text, int64_t& value) {
  if (text.empty() || !absl::ascii_isdigit(text[0])) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string Quote(const std::string& text) {
  constexpr size_t kLongest = 60;
  return absl::StrCat("'", text.substr(0, kLongest), text.size() > kLongest ? "..." : "", "'");
}

class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) { columns_.fill(-1); }

  absl::Status Line(std::string line) {
    ++line_;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line_ == 1 && line.rfind("\xef\xbb\xbf", 0) == 0) line.erase(0, 3);
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] == '#') return absl::OkStatus();
    if (!have_header_) return Header(std::move(line));
    return Row(std::move(line));
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

  absl::Status Header(std::string line) {
    std::vector<std::string> fields;
    if (!SplitFields(line, fields)) return Expected("closed quotes", Quote(line));
    field_count_ = fields.size();
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string name = absl::AsciiStrToLower(fields[i]);
      for (const Alias& alias : kAliases) {
        if (name != alias.name) continue;
        if (columns_[alias.column] >= 0) {
          return Expected(absl::StrCat("one column for ", kColumnNames[alias.column]),
                          absl::StrCat("another, ", Quote(fields[i])));
        }
        columns_[alias.column] = static_cast<int>(i);
        if (name == "end") last_instant_ = 1;
      }
    }
    for (const Column required : {kId, kLower, kUpper, kSize}) {
      if (columns_[required] < 0) {
        return Expected(absl::StrCat("a header with the column ", kColumnNames[required]),
                        Quote(line));
      }
    }
    have_header_ = true;
    instance_.has_alignments = columns_[kAlignment] >= 0;
    instance_.has_offsets = columns_[kOffset] >= 0;
    instance_.has_gaps = columns_[kGaps] >= 0;
    instance_.offset_column = columns_[kOffset];
    instance_.header = std::move(line);
    return absl::OkStatus();
  }

  absl::Status Row(std::string line) {
    std::vector<std::string> fields;
    if (!SplitFields(line, fields)) return Expected("closed quotes", Quote(line));
    // Commas too many at the end are of no harm, but must not come before an offset.
    while (fields.size() > field_count_ && fields.back().empty()) {
      fields.pop_back();
      line.erase(line.rfind(','));
    }
    if (fields.size() != field_count_) {
      return Expected(absl::StrCat(field_count_, " fields"), absl::StrCat(fields.size()));
    }
    CsvBuffer buffer;
    buffer.line = line_;
    buffer.id = fields[columns_[kId]];
    if (buffer.id.empty()) return Expected("an id", "an empty field");
    const auto [earlier, added] = lines_of_ids_.emplace(buffer.id, line_);
    if (!added) {
      return Expected("an id of its own",
                      absl::StrCat(Quote(buffer.id), " as in line ", earlier->second));
    }
    absl::Status status = Number(fields, kLower, buffer.lower);
    if (status.ok()) status = Number(fields, kUpper, buffer.upper);
    if (status.ok()) status = Number(fields, kSize, buffer.size);
    if (!status.ok()) return status;
    if (buffer.upper > INT64_MAX - last_instant_) {
      return Expected("an end below 2^63 - 1", fields[columns_[kUpper]]);
    }
    buffer.upper += last_instant_;
    if (buffer.lower >= buffer.upper) {
      return Expected(last_instant_ != 0 ? "start <= end" : "lower < upper",
                      absl::StrCat(fields[columns_[kLower]], " and ", fields[columns_[kUpper]]));
    }
    if (buffer.size == 0) return Expected("a size above 0", "0");
    if (buffer.size > INT64_MAX - sum_) {
      return Expected("sizes whose sum is below 2^63", absl::StrCat(buffer.size, " more"));
    }
    sum_ += buffer.size;
    status = Options(fields, buffer);
    if (!status.ok()) return status;
    instance_.buffers.push_back(std::move(buffer));
    instance_.rows.push_back(std::move(line));
    return absl::OkStatus();
  }

  absl::Status Number(const std::vector<std::string>& fields, Column column, int64_t& value) const {
    const std::string& text = fields[columns_[column]];
    if (ParseNumber(text, value)) return absl::OkStatus();
    return Expected(absl::StrCat("a whole number from 0 to 2^63 - 1 for ", kColumnNames[column]),
                    text.empty() ? "an empty field" : Quote(text));
  }

  absl::Status Options(const std::vector<std::string>& fields, CsvBuffer& buffer) const {
    if (instance_.has_alignments && !fields[columns_[kAlignment]].empty()) {
      absl::Status status = Number(fields, kAlignment, buffer.alignment);
      if (!status.ok()) return status;
      if (!std::has_single_bit(static_cast<uint64_t>(buffer.alignment))) {
        return Expected("a power of two for alignment", absl::StrCat(buffer.alignment));
      }
    }
    if (instance_.has_offsets && !fields[columns_[kOffset]].empty()) {
      int64_t offset = 0;
      absl::Status status = Number(fields, kOffset, offset);
      if (!status.ok()) return status;
      if (offset > INT64_MAX - buffer.size) {
        return Expected("offset + size below 2^63", absl::StrCat(offset));
      }
      buffer.offset = offset;
    }
    if (!instance_.has_gaps) return absl::OkStatus();
    for (const std::string& text : std::vector<std::string>(
             absl::StrSplit(fields[columns_[kGaps]], ' ', absl::SkipEmpty()))) {
      absl::Status status = AddGap(text, buffer);
      if (!status.ok()) return status;
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
  CsvInstance instance_;
  std::array<int, kColumns> columns_;  // which field; -1: none
  absl::flat_hash_map<std::string, int64_t> lines_of_ids_;
  size_t field_count_ = 0;
  int64_t last_instant_ = 0;  // 1: the upper column is inclusive
  int64_t line_ = 0;
  int64_t sum_ = 0;
  bool have_header_ = false;
};

// A line with the text of one field replaced, whatever its quotes.
std::string ReplaceField(const std::string& line, int field, const std::string& text) {
  bool quoted = false;
  int at = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (line[i] != ',' || quoted)) continue;
    if (at++ == field) return line.substr(0, begin) + text + line.substr(i);
    begin = i + 1;
  }
  return line;
}

}  // namespace

absl::StatusOr<CsvInstance> ParseCsv(const std::string& text, const std::string& name) {
  Parser parser(name);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    absl::Status status = parser.Line(text.substr(begin, end - begin));
    if (!status.ok()) return status;
    begin = end + 1;
  }
  return parser.Finish();
}

absl::StatusOr<CsvInstance> ReadCsv(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bytes = file->bytes();
  return ParseCsv(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), path);
}

std::string FormatCsv(const CsvInstance& instance, const std::vector<int64_t>& offsets) {
  std::string text;
  const bool append = instance.offset_column < 0;
  absl::StrAppend(&text, instance.header, append ? ",offset" : "", "\n");
  for (size_t i = 0; i < instance.rows.size(); ++i) {
    const std::string offset = absl::StrCat(offsets[i]);
    if (append)
      absl::StrAppend(&text, instance.rows[i], ",", offset, "\n");
    else
      absl::StrAppend(&text, ReplaceField(instance.rows[i], instance.offset_column, offset), "\n");
  }
  return text;
}

int64_t MaxLoad(const CsvInstance& instance) {
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
  int64_t highest = 0;
  for (const auto& [instant, bytes] : changes) highest = std::max(highest, load += bytes);
  return highest;
}

Recording ToRecording(const CsvInstance& instance) {
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
  recording.threads.push_back({1, kNone, 0, steps.size()});
  std::vector<uint32_t> allocation_of_row(instance.buffers.size());
  for (const Step& step : steps) {
    const uint64_t index = recording.events++;
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
    recording.allocations.push_back(allocation);
  }
  return recording;
}

}  // namespace reprise::trace
