// Telling formats apart by their content.
#ifndef REPRISE_TRACE_FORMAT_H_
#define REPRISE_TRACE_FORMAT_H_

#include <string>

#include "absl/status/statusor.h"
#include "trace/mapped_file.h"

namespace reprise::trace {

enum class Format {
  kUnknown,
  kSpool,
  kCompact,
  kAndroid,  // android.h
  kCsv,      // csv.h
  kJson,     // an object or an array, of whatever meaning
};

// Looks at the first bytes, for text at the first line that says something; where that does not
// tell, a name in .csv or .json does. Errors as MappedFile::Open.
absl::StatusOr<Format> DetectFormat(const std::string& path);
Format DetectFormat(const MappedFile& file, const std::string& path);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_FORMAT_H_
