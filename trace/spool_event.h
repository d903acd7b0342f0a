// One event of a spool (spool_format.h), decoded.
#ifndef REPRISE_TRACE_SPOOL_EVENT_H_
#define REPRISE_TRACE_SPOOL_EVENT_H_

#include <cstdint>
#include <cstring>
#include <span>

#include "trace/event.h"
#include "trace/spool_format.h"

namespace reprise::trace {

struct SpoolEvent {
  uint64_t kind = 0;
  uint64_t address =
      0;               // in units of the block alignment; names the block. kSpoolStack: its number
  uint64_t epoch = 0;  // also after kSpoolEpoch and kSpoolThread: the one that begins there
  uint64_t words[2] = {};    // of kinds with three words at most: those after word 0
  uint64_t bytes = 0;        // that it takes
  const char* at = nullptr;  // word 0
  bool flag = false;         // kSpoolWaste
  bool mark = false;         // kSpoolMark

  // kSpoolThread: thread id | parent id << 32, path.
  uint64_t Word(int number) const {
    uint64_t word;
    std::memcpy(&word, at + 8 * number, sizeof(word));
    return word;
  }
  // kSpoolStack: its addresses.
  std::span<const uint64_t> stack() const {
    return {reinterpret_cast<const uint64_t*>(at) + 1, bytes / 8 - 1};
  }
};

// Zero words of a chunk still written to may become non-zero at any time; word 0 comes last.
inline uint64_t LoadSpoolWord(const char* at) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(at), __ATOMIC_ACQUIRE);
}

// Decodes the event at `at`, which must end before `end`; event.epoch is that of what lies before
// it in the segment. False: there is none (word 0 is zero), or it is malformed (`malformed` is
// set). Both are 8-byte aligned but for the end of a file that was cut.
inline bool DecodeSpoolEvent(const char* at, const char* end, SpoolEvent& event, bool& malformed) {
  static constexpr uint8_t kBytes[16] = {0, 24, 24, 24, 24, 8, 8, 8, 16, 32, 16, 8, 16, 8, 8, 16};
  const auto left = static_cast<uint64_t>(end - at);
  if (left < 8) return false;
  const uint64_t word = LoadSpoolWord(at);
  if (word == 0) return false;
  event.at = at;
  event.kind = word & 15;
  event.address = word >> 20;
  event.bytes = kBytes[event.kind];
  if (event.kind == kSpoolStack) event.bytes = 8 + ((word >> 4) & kSpoolStackCount) * 8;
  // Carries a length in place of an address.
  if (event.kind == kSpoolSkip) event.bytes = (word >> 20) * 8;
  malformed = event.bytes == 0 || event.bytes > left;
  if (malformed) return false;
  const uint64_t small = (word >> 4) & (kSpoolSmallSizes - 1);
  switch (event.kind) {
    case kSpoolSmallMalloc:
    case kSpoolSmallRealloc:
      event.kind = event.kind == kSpoolSmallMalloc ? kSpoolMalloc : kSpoolReallocAlloc;
      event.words[0] = event.Word(1);
      event.words[1] = small;
      return true;
    case kSpoolMalloc:
    case kSpoolCalloc:
    case kSpoolAligned:
    case kSpoolReallocAlloc:
      event.words[0] = event.Word(1);
      event.words[1] = event.Word(2);
      malformed = event.words[1] >> kSpoolSizeBits >= kSizeBits;
      return !malformed;
    case kSpoolSmallUsable:
    case kSpoolUsable:
      event.words[0] = event.kind == kSpoolUsable ? event.Word(1) : small;
      event.kind = kSpoolUsable;
      malformed = event.words[0] > kMaxSize;
      return !malformed;
    case kSpoolEpoch:
      event.epoch = event.Word(1);
      return true;
    case kSpoolThread:
      event.epoch = event.Word(3);
      return true;
    case kSpoolSkip:
      event.flag = (word & kSpoolWaste) != 0;
      event.mark = word == kSpoolMark;
      return true;
    default:
      return true;
  }
}

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_EVENT_H_
