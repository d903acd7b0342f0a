#include "trace/formats/mondrian.h"

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/unknown_names.h"
#include "trace/event.h"
#include "trace/mapped_file.h"

namespace reprise::trace {
namespace {

using nlohmann::json;

absl::Status Expected(const std::string& name, const std::string& where,
                      const std::string& expected, const json* value) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", where, ": expected ", expected, ", found ", base::FoundJson(value)));
}

const json* Member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// The viewer reads `name`, its documentation says `title`.
constexpr std::string_view kSegmentFields[] = {"name", "title", "size", "allocations"};
constexpr std::string_view kDocumentFields[] = {"schema_version", "segments"};
constexpr std::string_view kAllocationFields[] = {"alive_from", "alive_till", "size", "offset",
                                                  "origin"};

std::string NameOf(const json& segment) {
  for (const char* key : {"name", "title"}) {
    const json* value = Member(segment, key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
  }
  return {};
}

// Reads one document.
class MondrianReader {
 public:
  MondrianReader(const std::string& name, const MondrianOptions& options)
      : name_(name), options_(options), unknown_(options.ignore_unknown) {}

  absl::StatusOr<CsvInstance> Read(const json& document) {
    size_t index = 0;
    const absl::StatusOr<const json*> segment = ChooseSegment(document, index);
    if (!segment.ok()) return segment.status();
    const std::string where = absl::StrCat("segments[", index, "]");
    absl::Status status = NoFieldsBut(**segment, where, kSegmentFields);
    if (!status.ok()) return status;
    const std::string list = absl::StrCat(where, ".allocations");
    const json* allocations = Member(**segment, "allocations");
    if (allocations == nullptr || !allocations->is_array()) {
      return Expected(name_, list, "an array", allocations);
    }
    instance_.has_offsets = true;
    instance_.header = "id,lower,upper,size,offset";
    instance_.offset_column = 4;
    for (size_t i = 0; i < allocations->size(); ++i) {
      status = AddBuffer((*allocations)[i], absl::StrCat(list, "[", i, "]"));
      if (!status.ok()) return status;
    }
    instance_.ignored = unknown_.Ignored();
    return std::move(instance_);
  }

 private:
  absl::Status NoFieldsBut(const json& object, const std::string& where,
                           std::span<const std::string_view> known) {
    for (const auto& [key, value] : object.items()) {
      const std::string found = unknown_.Note(key, known);
      if (found.empty()) continue;
      std::string fields;
      for (const std::string_view one : known)
        fields.append(fields.empty() ? "" : ", ").append(one);
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": ", where, ": expected the fields ", fields, ", found ", found));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const json*> ChooseSegment(const json& document, size_t& index) {
    if (!document.is_object()) return Expected(name_, "start", "an object", &document);
    const json* version = Member(document, "schema_version");
    if (version == nullptr || *version != 1) return Expected(name_, "schema_version", "1", version);
    absl::Status fields = NoFieldsBut(document, "start", kDocumentFields);
    if (!fields.ok()) return fields;
    const json* segments = Member(document, "segments");
    if (segments == nullptr || !segments->is_array() || segments->empty()) {
      return Expected(name_, "segments", "at least one segment", segments);
    }
    std::string names;
    for (size_t i = 0; i < segments->size(); ++i) {
      if (!(*segments)[i].is_object()) {
        return Expected(name_, absl::StrCat("segments[", i, "]"), "an object", &(*segments)[i]);
      }
      const std::string here = NameOf((*segments)[i]);
      if (segments->size() == 1 || (!options_.segment.empty() && here == options_.segment)) {
        index = i;
        return &(*segments)[i];
      }
      if (i < kMostNamed) absl::StrAppend(&names, i > 0 ? ", " : "", here);
    }
    if (segments->size() > kMostNamed) absl::StrAppend(&names, ", ...");
    return absl::FailedPreconditionError(
        absl::StrCat(name_, ": several segments; choose one of ", names));
  }

  absl::Status ReadNumbers(const json& entry, const std::string& here, CsvBuffer& buffer) const {
    int64_t offset = 0;
    const std::pair<const char*, int64_t*> fields[] = {{"alive_from", &buffer.lower},
                                                       {"alive_till", &buffer.upper},
                                                       {"size", &buffer.size},
                                                       {"offset", &offset}};
    for (const auto& [key, into] : fields) {
      const json* value = Member(entry, key);
      // 2^63 and more would come out negative.
      const bool whole =
          value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= INT64_MAX;
      if (!whole) {
        return Expected(name_, absl::StrCat(here, ".", key), "a whole number below 2^63", value);
      }
      *into = value->get<int64_t>();
    }
    buffer.offset = offset;
    return absl::OkStatus();
  }

  absl::Status AddBuffer(const json& entry, const std::string& here) {
    if (!entry.is_object()) return Expected(name_, here, "an object", &entry);
    absl::Status status = NoFieldsBut(entry, here, kAllocationFields);
    if (!status.ok()) return status;
    CsvBuffer buffer;
    status = ReadNumbers(entry, here, buffer);
    if (!status.ok()) return status;
    if (buffer.lower >= buffer.upper) {
      return Expected(name_, here, "alive_from < alive_till", &entry);
    }
    if (static_cast<uint64_t>(buffer.size) > kMaxSize) {
      return Expected(name_, here, "a size below 2^56", &entry);
    }
    if (buffer.size > INT64_MAX - sum_ || *buffer.offset > INT64_MAX - buffer.size) {
      return Expected(name_, here, "sizes and ends below 2^63", &entry);
    }
    sum_ += buffer.size;
    buffer.id = UniqueName(entry);
    buffer.line = static_cast<int64_t>(instance_.buffers.size()) + 1;
    instance_.buffers.push_back(std::move(buffer));
    return absl::OkStatus();
  }

  std::string UniqueName(const json& entry) {
    const json* origin = Member(entry, "origin");
    std::string name = origin != nullptr && origin->is_string()
                           ? origin->get<std::string>()
                           : absl::StrCat(instance_.buffers.size());
    const int64_t times = ++names_[name];
    if (times == 1) return name;
    // A name made up this way may be another one's own.
    std::string unique = absl::StrCat(name, "#", times);
    while (++names_[unique] > 1) unique += "#";
    return unique;
  }

  static constexpr size_t kMostNamed = 20;
  const std::string& name_;
  const MondrianOptions& options_;
  base::UnknownNames unknown_;
  CsvInstance instance_;
  std::map<std::string, int64_t> names_;  // how often each one came
  int64_t sum_ = 0;
};

}  // namespace

absl::StatusOr<CsvInstance> ParseMondrian(const std::string& text, const std::string& name,
                                          const MondrianOptions& options) {
  json document;
  const std::string wrong = base::ParseJson(text, document);
  if (!wrong.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": ", wrong));
  return MondrianReader(name, options).Read(document);
}

absl::StatusOr<CsvInstance> ReadMondrian(const std::string& path, const MondrianOptions& options) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bytes = file->bytes();
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (absl::Status whole = file->Whole(path); !whole.ok()) return whole;
  return ParseMondrian(text, path, options);
}

void WriteMondrian(const std::string& segment, int64_t segment_bytes, size_t count,
                   absl::FunctionRef<MondrianBuffer(size_t)> next,
                   absl::FunctionRef<void(const std::string&)> write) {
  const auto quoted = [](const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  write(absl::StrCat("{\"schema_version\":1,\"segments\":[{\"name\":", quoted(segment),
                     ",\"size\":", segment_bytes, ",\"allocations\":["));
  for (size_t i = 0; i < count; ++i) {
    const MondrianBuffer it = next(i);
    write(absl::StrCat(i > 0 ? ",\n" : "\n", "{\"offset\":", it.offset, ",\"size\":", it.size,
                       ",\"alive_from\":", it.lower, ",\"alive_till\":", it.upper,
                       ",\"origin\":", quoted(it.origin), "}"));
  }
  write("\n]}]}\n");
}

}  // namespace reprise::trace
