#include "base/json_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"

namespace reprise::base {
namespace {

using nlohmann::json;

bool IsCount(const json& value) { return value.is_number_unsigned(); }

bool Fits(const json& value, JsonKind kind) {
  uint64_t number = 0;
  switch (kind) {
    case JsonKind::kCount:
      return IsCount(value);
    case JsonKind::kBytes:
      return IsCount(value) && value.get<uint64_t>() <= INT64_MAX;
    case JsonKind::kNumber:
      return value.is_number();
    case JsonKind::kNumbers:
      return value.is_array() && std::all_of(value.begin(), value.end(),
                                             [](const json& one) { return one.is_number(); });
    case JsonKind::kCountOrNull:
      return value.is_null() || IsCount(value);
    case JsonKind::kText:
      return value.is_string();
    case JsonKind::kHexadecimal:
      return value.is_string() && absl::SimpleHexAtoi(value.get_ref<const std::string&>(), &number);
    case JsonKind::kFlag:
      return value.is_boolean();
    case JsonKind::kObject:
      return value.is_object();
    case JsonKind::kObjects:
      return value.is_array();
    case JsonKind::kAny:
      return true;
  }
  return false;
}

const char* Describe(JsonKind kind) {
  switch (kind) {
    case JsonKind::kCount:
      return "a whole number from 0 to 2^64 - 1";
    case JsonKind::kBytes:
      return "a whole number from 0 to 2^63 - 1";
    case JsonKind::kNumber:
      return "a number";
    case JsonKind::kNumbers:
      return "a list of numbers";
    case JsonKind::kCountOrNull:
      return "a whole number from 0 to 2^64 - 1, or null";
    case JsonKind::kText:
      return "text";
    case JsonKind::kHexadecimal:
      return "a hexadecimal number of at most 64 bits, as text";
    case JsonKind::kFlag:
      return "true or false";
    case JsonKind::kObject:
      return "an object";
    case JsonKind::kObjects:
      return "a list";
    case JsonKind::kAny:
      break;
  }
  return "anything";
}

// Checks the objects of a document.
class Checker {
 public:
  Checker(const std::string& name, std::string_view what, UnknownNames& unknown)
      : name_(name), what_(what), unknown_(unknown) {}

  absl::Status Check(const json& object, std::span<const JsonField> fields,
                     const std::string& where) {
    if (!object.is_object()) return Wrong(where, "an object", &object);
    std::vector<std::string_view> known;
    known.reserve(fields.size());
    for (const JsonField& field : fields) known.push_back(field.name);
    for (const auto& [key, value] : object.items()) {
      const std::string found = unknown_.Note(key, known);
      if (!found.empty()) return Wrong(where, "no other fields than it has", found);
    }
    for (const JsonField& field : fields) {
      if (absl::Status status = CheckField(object, field, where); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckField(const json& object, const JsonField& field, const std::string& where) {
    const std::string place =
        absl::StrCat(where, where.empty() ? "" : ".", std::string(field.name));
    const auto found = object.find(std::string(field.name));
    if (found == object.end()) {
      return field.required ? Wrong(place, Describe(field.kind), nullptr) : absl::OkStatus();
    }
    if (!Fits(*found, field.kind)) return Wrong(place, Describe(field.kind), &*found);
    if (field.kind == JsonKind::kObject) return Check(*found, field.fields, place);
    if (field.kind != JsonKind::kObjects) return absl::OkStatus();
    for (size_t i = 0; i < found->size(); ++i) {
      absl::Status status = Check((*found)[i], field.fields, absl::StrCat(place, "[", i, "]"));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Wrong(const std::string& where, const char* expected, const json* value) const {
    return Wrong(where, expected, FoundJson(value));
  }
  absl::Status Wrong(const std::string& where, const char* expected,
                     const std::string& found) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": expected ", std::string(what_), ": ",
                                                   where.empty() ? "start" : where, ": expected ",
                                                   expected, ", found ", found));
  }

  const std::string& name_;
  std::string_view what_;
  UnknownNames& unknown_;
};

}  // namespace

absl::Status CheckJsonFields(const json& object, std::span<const JsonField> fields,
                             const std::string& name, const std::string& where,
                             std::string_view what, UnknownNames& unknown) {
  return Checker(name, what, unknown).Check(object, fields, where);
}

std::string_view OwnJson(const json& document) {
  static constexpr struct {
    std::string_view first, second, what;
  } kKinds[] = {
      {"program", "results", "what `reprise compare --live --json` prints"},
      {"max_load", "results", "what `reprise compare --json` prints"},
      {"served", "images", "what `reprise replay --stats` writes"},
      {"valid", "violations", "what `reprise check --json` prints"},
      {"kind", "max_load", "what `reprise diff --json` prints"},
      {"makespan", "strategy", "what `reprise plan --json` prints"},
      {"events", "lost_events", "what `reprise info --json` prints"},
      {"buffers", "max_load", "what `reprise info --json` prints"},
  };
  if (!document.is_object()) return {};
  for (const auto& kind : kKinds) {
    if (document.contains(kind.first) && document.contains(kind.second)) return kind.what;
  }
  return {};
}

}  // namespace reprise::base
