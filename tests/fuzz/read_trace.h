// Reads a trace of any format, and checks what every consumer relies on.
#ifndef REPRISE_TESTS_FUZZ_READ_TRACE_H_
#define REPRISE_TESTS_FUZZ_READ_TRACE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/require.h"
#include "trace/reader.h"
#include "trace/statistics.h"

namespace reprise::fuzz {

inline absl::Status ReadAnyTrace(std::string bytes, trace::Recording& recording) {
  trace::StatisticsBuilder statistics;
  uint64_t next = 0;
  uint64_t allocations = 0;
  const absl::Status status = trace::ReadTrace(
      trace::MappedFile::FromBytes(std::move(bytes)), "fuzz", recording,
      [&](const trace::Event& event) {
        Require(event.thread < recording.threads.size());
        Require(event.site == trace::kNone || event.site < recording.sites.size());
        Require(event.size <= trace::kMaxSize && event.log2_alignment < trace::kSizeBits);
        if (event.kind != trace::EventKind::kUsable) Require(event.index == next++);
        if (event.kind == trace::EventKind::kAllocate) Require(event.block == allocations++);
        Require(event.kind == trace::EventKind::kUnmatchedFree || event.block < allocations);
        statistics.Add(event);
        trace::AppendEvent(recording, event);
      });
  if (!status.ok()) RequireRefusal(status);
  Require(!status.ok() || recording.events == next);
  for (const trace::Site& site : recording.sites) {
    Require(site.module == trace::kNone || site.module < recording.modules.size());
    Require(site.stack == trace::kNone || site.stack < recording.stacks.size());
  }
  for (const std::vector<trace::Frame>& stack : recording.stacks) {
    for (const trace::Frame& frame : stack) {
      Require(frame.module == trace::kNone || frame.module < recording.modules.size());
    }
  }
  for (const trace::Thread& thread : recording.threads) {
    Require(thread.parent == trace::kNone || thread.parent < recording.threads.size());
  }
  uint64_t latest = 0;
  for (const trace::Mark& mark : recording.marks) {
    Require(mark.thread < recording.threads.size());
    Require(mark.event >= latest && mark.event <= recording.events);
    latest = mark.event;
  }
  statistics.Finish(recording.sites, 10);
  return status;
}

}  // namespace reprise::fuzz

#endif  // REPRISE_TESTS_FUZZ_READ_TRACE_H_
