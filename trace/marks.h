// How far apart the marks of a recording's threads are.
#ifndef REPRISE_TRACE_MARKS_H_
#define REPRISE_TRACE_MARKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/event.h"
#include "trace/recording.h"

namespace reprise::trace {

// The marks of one thread. The distances are medians over its pairs of neighbours; 0 with one mark.
struct MarkedThread {
  uint32_t thread = 0;  // index into Recording::threads
  uint64_t marks = 0;
  uint64_t events = 0;  // of the thread between two marks
  uint64_t bytes = 0;   // that it allocates there
};

// Memory: 16 bytes per mark and per thread.
class MarkCounter {
 public:
  // `marks` must outlive it.
  explicit MarkCounter(const std::vector<Mark>& marks) : marks_(marks) {}

  // Takes every event of the recording, in order.
  void Add(const Event& event);

  // Of the threads that have marks, by thread.
  std::vector<MarkedThread> Finish();

 private:
  struct Thread {
    uint64_t events = 0, bytes = 0;  // since the latest mark
    std::vector<uint64_t> event_distances, byte_distances;
    uint64_t marks = 0;
  };
  Thread& At(uint32_t thread);
  void Pass(uint64_t event);

  const std::vector<Mark>& marks_;
  size_t next_ = 0;
  std::vector<Thread> threads_;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_MARKS_H_
