#include "trace/marks.h"

#include <algorithm>

namespace reprise::trace {
namespace {

uint64_t Median(std::vector<uint64_t>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

MarkCounter::Thread& MarkCounter::At(uint32_t thread) {
  if (threads_.size() <= thread) threads_.resize(thread + 1);
  return threads_[thread];
}

// Takes the marks that stand before an event.
void MarkCounter::Pass(uint64_t event) {
  for (; next_ < marks_.size() && marks_[next_].event <= event; ++next_) {
    Thread& thread = At(marks_[next_].thread);
    if (thread.marks++ > 0) {
      thread.event_distances.push_back(thread.events);
      thread.byte_distances.push_back(thread.bytes);
    }
    thread.events = thread.bytes = 0;
  }
}

void MarkCounter::Add(const Event& event) {
  if (event.kind == EventKind::kUsable) return;
  Pass(event.index);
  Thread& thread = At(event.thread);
  ++thread.events;
  if (event.kind == EventKind::kAllocate) thread.bytes += event.size;
}

std::vector<MarkedThread> MarkCounter::Finish() {
  Pass(UINT64_MAX);
  std::vector<MarkedThread> found;
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    if (thread.marks == 0) continue;
    found.push_back(
        {i, thread.marks, Median(thread.event_distances), Median(thread.byte_distances)});
  }
  return found;
}

}  // namespace reprise::trace
