#include "report/classes.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace reprise::report {
namespace {

// A number for each quarter of an octave.
uint64_t Quarter(uint64_t value) {
  const auto octave = static_cast<uint64_t>(std::bit_width(value));
  return octave < 3 ? value : octave * 4 + (value >> (octave - 3) & 3);
}

// Adds `from` to the class below it.
void Merge(std::vector<Weighed>& classes, size_t from) {
  classes[from - 1].value = classes[from].value;
  classes[from - 1].weight += classes[from].weight;
  classes.erase(classes.begin() + static_cast<std::ptrdiff_t>(from));
}

template <typename Value>
std::vector<Weighed> Weigh(const Subject& subject, Value value) {
  std::vector<Weighed> values;
  const trace::Recording& recording = subject.recording;
  values.reserve(recording.allocations.size());
  for (const trace::Allocation& it : recording.allocations) {
    const uint64_t end = it.death == trace::kNever ? recording.events : it.death;
    const uint64_t lifetime = trace::TimeOf(recording, end) - trace::TimeOf(recording, it.birth);
    values.push_back(
        {value(it.size, lifetime), static_cast<double>(it.size) * static_cast<double>(lifetime)});
  }
  return values;
}

}  // namespace

size_t ClassOf(const Bounds& bounds, uint64_t value) {
  const auto found = std::lower_bound(bounds.begin(), bounds.end(), value);
  return found == bounds.end() ? bounds.size() - 1 : static_cast<size_t>(found - bounds.begin());
}

Bounds ChooseBounds(std::vector<Weighed> values, const std::function<std::string(uint64_t)>& text) {
  std::sort(values.begin(), values.end(),
            [](const Weighed& a, const Weighed& b) { return a.value < b.value; });
  // Equal values are one class, then those of one quarter of an octave.
  std::vector<Weighed> classes, quarters;
  for (const Weighed& it : values) {
    if (classes.empty() || classes.back().value != it.value) classes.push_back({it.value, 0});
    classes.back().weight += it.weight;
  }
  for (const Weighed& it : classes) {
    if (quarters.empty() || Quarter(quarters.back().value) != Quarter(it.value)) {
      quarters.push_back({it.value, 0});
    }
    quarters.back() = {it.value, quarters.back().weight + it.weight};
  }
  if (classes.size() > kMostClasses) classes = std::move(quarters);
  while (classes.size() > kMostClasses) {
    size_t least = 1;
    for (size_t i = 2; i < classes.size(); ++i) {
      const auto together = [&](size_t k) { return classes[k - 1].weight + classes[k].weight; };
      if (together(i) < together(least)) least = i;
    }
    Merge(classes, least);
  }
  for (size_t i = classes.size(); i-- > 1;) {
    if (text(classes[i - 1].value) == text(classes[i].value)) Merge(classes, i);
  }
  Bounds bounds;
  for (const Weighed& it : classes) bounds.push_back(it.value);
  if (bounds.empty()) bounds.push_back(0);
  return bounds;
}

Bounds SizeBounds(const Subject& subject) {
  return ChooseBounds(Weigh(subject, [](uint64_t size, uint64_t) { return size; }),
                      [](uint64_t size) { return base::HumanBytes(static_cast<double>(size)); });
}

Bounds AgeBounds(const Subject& subject) {
  return ChooseBounds(Weigh(subject, [](uint64_t, uint64_t lifetime) { return lifetime; }),
                      [](uint64_t lifetime) { return absl::StrCat(lifetime); });
}

}  // namespace reprise::report
