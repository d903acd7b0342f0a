// Classes of sizes and of lifetimes, chosen from what there is, so that the colours of a map tell
// its blocks apart.
#ifndef REPRISE_REPORT_CLASSES_H_
#define REPRISE_REPORT_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/subject.h"

namespace reprise::report {

inline constexpr size_t kMostClasses = 8;

// The highest value of each class, ascending; the last one is the highest of all.
using Bounds = std::vector<uint64_t>;

// The class of a value, which is at most the last bound.
size_t ClassOf(const Bounds& bounds, uint64_t value);

// At most kMostClasses classes. Up to so many different values are a class each. Of more, those
// within a factor of 1.25 are together, and then the neighbours with the least `weight`. Classes
// whose bounds have the same `text` are one.
struct Weighed {
  uint64_t value = 0;
  double weight = 0;
};
Bounds ChooseBounds(std::vector<Weighed> values, const std::function<std::string(uint64_t)>& text);

// Of a subject's blocks, weighed by what they cover of a map.
Bounds SizeBounds(const Subject& subject);
Bounds AgeBounds(const Subject& subject);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_CLASSES_H_
