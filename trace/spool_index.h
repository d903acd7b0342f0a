// The first pass over the chunks of a spool: where each thread's events lie, and what about them is
// out of the ordinary. The second pass (spool_merge.h) merges by epoch.
#ifndef REPRISE_TRACE_SPOOL_INDEX_H_
#define REPRISE_TRACE_SPOOL_INDEX_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "trace/mapped_file.h"
#include "trace/recording.h"
#include "trace/spool_event.h"
#include "trace/spool_format.h"

namespace reprise::trace {

// Of a thread: reallocs nest only where signal handlers do.
inline constexpr size_t kMostOpenReallocs = 16;

// Bytes of a spool in memory.
struct SpoolBytes {
  const char* data = nullptr;
  uint64_t size = 0;
  uint64_t position = 0;                  // of them, bytes from the start of the file
  std::shared_ptr<const char[]> owner{};  // null: somebody else's
};

// Events of one thread that lie one after another in one chunk.
struct SpoolSegment {
  uint32_t thread = 0;  // index into Recording::threads
  const char* begin = nullptr;
  const char* end = nullptr;
  uint64_t epoch = 0;                     // at its beginning
  uint64_t position = 0;                  // of it, bytes from the start of the file
  std::shared_ptr<const char[]> owner{};  // of the bytes
};

// How far into one life of a chunk (SpoolChunk::serial) its events are known.
struct SpoolReach {
  uint64_t serial = 0;
  uint64_t bytes = 0;   // of the chunk, its header included
  uint64_t epoch = 0;   // there
  uint32_t thread = 0;  // there: its id in the spool
};

class SpoolIndex {
 public:
  explicit SpoolIndex(Recording& recording) : recording_(recording) {}

  // Goes through every chunk that is not known yet; fills in damage and lost_events.
  void AddAll(const MappedFile& file, const SpoolHeader& header);

  // A whole chunk that stands at copy number `copy`, or what `reach` does not cover of it.
  void AddCopy(const SpoolBytes& chunk, uint64_t copy);

  // Events of chunk `index`, which is not copied: they follow what `Reach` says, to where the next
  // ones follow, which is `after`.
  void AddPart(const SpoolBytes& events, uint32_t index, const SpoolReach& after);

  // What is known of the life `serial` of a chunk in its place.
  SpoolReach Reach(uint32_t index, uint64_t serial) const;

  // The copy of that life is known, or will be added later.
  void ExpectCopy(uint32_t index, uint64_t serial) { copied_[index] = serial; }
  bool HasCopy(uint32_t index, uint64_t serial) const;

  // After chunks were added: numbers their threads and pairs failed reallocs. The segments then
  // stand in segments().
  void Settle();

  // Since the last call, by epoch.
  std::vector<SpoolSegment> TakeSegments();

  // Whether the free at this place, of a realloc that failed, is void. Every place counts once.
  bool Revoked(const char* free) { return !revoked_.empty() && revoked_.erase(free) > 0; }

  // Everything before that epoch was handed out, and all threads up to now.
  void SetHandedOut(uint64_t end_epoch) { handed_out_ = end_epoch; }

  // Whether what was handed out before would have been other, had what was added since been known.
  bool late() const { return late_; }

 private:
  // A realloc whose outcome stands in another segment of the thread.
  struct OpenRealloc {
    uint32_t thread;
    uint64_t address;
    uint64_t epoch;  // in one, the order is that of memory
    uint64_t position;
    const char* at;
    auto operator<=>(const OpenRealloc&) const = default;
  };
  // Where a walk through a chunk stands.
  struct Walk {
    const SpoolBytes* bytes = nullptr;
    const char* at = nullptr;
    bool in_segment = false;
    bool malformed = false;
    uint64_t epoch = 0;
    uint64_t half_written = 0;
    std::vector<OpenRealloc> open{};
    uint64_t PositionOf(const char* place) const {
      return bytes->position + static_cast<uint64_t>(place - bytes->data);
    }
  };

  void AddDamage(uint64_t offset, uint64_t bytes, std::string reason);
  void VisitCopies(const MappedFile& file, const SpoolHeader& header);
  bool VisitChunk(const SpoolBytes& chunk, uint64_t number);
  void VisitEvents(const SpoolBytes& chunk, uint64_t begin, uint64_t end, bool sealed, bool trusted,
                   const SpoolReach* reach);
  void VisitRun(Walk& walk, const char* end, bool trusted);
  void OpenSegment(Walk& walk, uint32_t thread);
  void CloseSegment(Walk& walk);
  void FollowRealloc(const SpoolEvent& event, uint64_t position, uint32_t thread,
                     std::vector<OpenRealloc>& open);
  uint32_t ThreadIndex(const SpoolEvent& event);
  void PairFailures();
  void NumberThreads();

  Recording& recording_;
  std::vector<SpoolSegment> segments_;
  // The frees of reallocs that failed: the block lives on.
  absl::flat_hash_set<const char*> revoked_;
  std::vector<bool> copies_known_;                   // by number
  absl::flat_hash_map<uint32_t, uint64_t> copied_;   // chunk -> serial number of its latest copy
  absl::flat_hash_map<uint32_t, SpoolReach> reach_;  // chunk -> what is known of its latest life
  std::map<uint32_t, uint32_t> thread_of_id_;  // id in the spool -> index in recording.threads
  std::vector<uint32_t> parent_id_;
  size_t numbered_ = 0;      // threads that have their final numbers
  uint64_t handed_out_ = 0;  // the epoch before which everything was
  bool late_ = false;
  std::vector<OpenRealloc> open_, failures_;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_INDEX_H_
