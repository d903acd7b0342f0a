#include "trace/mondrian.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "trace/mapped_file.h"

namespace reprise::trace {
namespace {

using nlohmann::json;

// What there is, short enough for a message.
std::string Found(const json* value) {
  if (value == nullptr) return "nothing";
  const std::string text = value->dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 40 ? text : absl::StrCat(text.substr(0, 37), "...");
}

absl::Status Expected(const std::string& name, const std::string& where,
                      const std::string& expected, const json* value) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", where, ": expected ", expected, ", found ", Found(value)));
}

const json* Member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// The viewer reads `name`, its documentation says `title`.
std::string NameOf(const json& segment) {
  for (const char* key : {"name", "title"}) {
    const json* value = Member(segment, key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
  }
  return {};
}

absl::StatusOr<const json*> ChooseSegment(const json& document, const std::string& name,
                                          const std::string& wanted, size_t& index) {
  if (!document.is_object()) return Expected(name, "start", "an object", &document);
  const json* version = Member(document, "schema_version");
  if (version == nullptr || *version != 1) return Expected(name, "schema_version", "1", version);
  const json* segments = Member(document, "segments");
  if (segments == nullptr || !segments->is_array() || segments->empty()) {
    return Expected(name, "segments", "at least one segment", segments);
  }
  std::string names;
  for (size_t i = 0; i < segments->size(); ++i) {
    if (!(*segments)[i].is_object()) {
      return Expected(name, absl::StrCat("segments[", i, "]"), "an object", &(*segments)[i]);
    }
    const std::string here = NameOf((*segments)[i]);
    if (segments->size() == 1 || (!wanted.empty() && here == wanted)) {
      index = i;
      return &(*segments)[i];
    }
    absl::StrAppend(&names, i > 0 ? ", " : "", here);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(name, ": several segments; choose one of ", names));
}

}  // namespace

absl::StatusOr<CsvInstance> ParseMondrian(const std::string& text, const std::string& name,
                                          const std::string& wanted) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": offset ", error.byte, ": expected JSON, found none"));
  }
  size_t index = 0;
  const absl::StatusOr<const json*> segment = ChooseSegment(document, name, wanted, index);
  if (!segment.ok()) return segment.status();
  const std::string where = absl::StrCat("segments[", index, "].allocations");
  const json* allocations = Member(**segment, "allocations");
  if (allocations == nullptr || !allocations->is_array()) {
    return Expected(name, where, "an array", allocations);
  }
  CsvInstance instance;
  instance.has_offsets = true;
  instance.header = "id,lower,upper,size,offset";
  instance.offset_column = 4;
  std::map<std::string, int> names;
  int64_t sum = 0;
  for (size_t i = 0; i < allocations->size(); ++i) {
    const json& entry = (*allocations)[i];
    const std::string here = absl::StrCat(where, "[", i, "]");
    if (!entry.is_object()) return Expected(name, here, "an object", &entry);
    CsvBuffer buffer;
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
        return Expected(name, absl::StrCat(here, ".", key), "a whole number below 2^63", value);
      }
      *into = value->get<int64_t>();
    }
    if (buffer.lower >= buffer.upper) {
      return Expected(name, here, "alive_from < alive_till", &entry);
    }
    if (buffer.size == 0) return Expected(name, here, "a size above 0", &entry);
    if (buffer.size > INT64_MAX - sum || offset > INT64_MAX - buffer.size) {
      return Expected(name, here, "sizes and ends below 2^63", &entry);
    }
    sum += buffer.size;
    buffer.offset = offset;
    const json* origin = Member(entry, "origin");
    buffer.id =
        origin != nullptr && origin->is_string() ? origin->get<std::string>() : absl::StrCat(i);
    const int times = ++names[buffer.id];
    if (times > 1) {
      // A name made up this way may be another one's own.
      std::string unique = absl::StrCat(buffer.id, "#", times);
      while (++names[unique] > 1) unique += "#";
      buffer.id = unique;
    }
    buffer.line = static_cast<int64_t>(i) + 1;
    instance.buffers.push_back(std::move(buffer));
  }
  return instance;
}

absl::StatusOr<CsvInstance> ReadMondrian(const std::string& path, const std::string& segment) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bytes = file->bytes();
  return ParseMondrian(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), path,
                       segment);
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
