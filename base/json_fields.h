// Which fields a JSON object may have, and what is in them. What passes can be read without another
// look at types.
#ifndef REPRISE_BASE_JSON_FIELDS_H_
#define REPRISE_BASE_JSON_FIELDS_H_

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/unknown_names.h"

namespace reprise::base {

enum class JsonKind {
  kCount,        // a whole number from 0 to 2^64 - 1
  kBytes,        // a whole number from 0 to 2^63 - 1
  kNumber,       // any number
  kNumbers,      // a list of them
  kCountOrNull,  // a kCount, or null
  kText,
  kHexadecimal,  // text: 64 bits
  kFlag,
  kObject,   // with the fields that are listed
  kObjects,  // a list of such objects
  kAny,      // nobody looks
};

struct JsonField {
  std::string_view name;
  JsonKind kind = JsonKind::kNumber;
  bool required = false;
  std::span<const JsonField> fields{};  // of kObject and kObjects
};

// InvalidArgument "NAME: results[2].footprint: expected a number, found ..." when `object` is none,
// lacks a field or has another than these. `where`: of the object in the document, may be empty;
// `what`: "what `reprise ...` writes", for messages.
absl::Status CheckJsonFields(const nlohmann::json& object, std::span<const JsonField> fields,
                             const std::string& name, const std::string& where,
                             std::string_view what, UnknownNames& unknown);

// What of reprise's own output a document is, by its fields: "what `reprise ...` prints". Empty:
// none that is known. Commands that take one kind name another one that they are given.
std::string_view OwnJson(const nlohmann::json& document);

}  // namespace reprise::base

#endif  // REPRISE_BASE_JSON_FIELDS_H_
