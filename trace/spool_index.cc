#include "trace/spool_index.h"

#include <xxhash.h>

#include <algorithm>
#include <compare>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "trace/event.h"

namespace reprise::trace {
namespace {

// More chunks in a row than this were never started: the count of chunks is not to be trusted.
constexpr uint64_t kMaxEmptyChunks = 64;

// Reallocs nest only where signal handlers do.
constexpr size_t kMaxOpenReallocs = 16;

constexpr uint64_t kNoNumber = UINT64_MAX;

// A realloc whose outcome stands in another segment of the thread.
struct OpenRealloc {
  uint32_t thread;
  uint64_t address;
  uint64_t epoch;  // in one, the order is that of memory
  uint64_t position;
  auto operator<=>(const OpenRealloc&) const = default;
};

// Zero words of a chunk still written to may become non-zero at any time; word 0 comes last.
uint64_t LoadWord(const MappedFile& file, uint64_t position) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(file.bytes().data() + position),
                         __ATOMIC_ACQUIRE);
}

class Indexer {
 public:
  Indexer(const MappedFile& file, const SpoolHeader& header, Recording& recording)
      : file_(file), header_(header), recording_(recording) {}

  SpoolIndex Run() {
    // Chunks that were written again since they were copied, or may be, count by their copies.
    VisitCopies();
    const uint64_t whole = WholeChunks(kSpoolChunksOffset);
    const uint64_t chunks = std::min(header_.chunks_used, whole);
    if (chunks < header_.chunks_used) {
      AddDamage(file_.bytes().size(), 0,
                absl::StrCat("the file ends before chunk ", chunks, " of ", header_.chunks_used));
    }
    uint64_t empty = 0;
    for (uint64_t chunk = 0; chunk < chunks && empty <= kMaxEmptyChunks; ++chunk) {
      const uint64_t offset = kSpoolChunksOffset + chunk * kSpoolChunkBytes;
      empty = VisitChunk(offset, chunk) ? 0 : empty + 1;
      file_.Release(offset, kSpoolChunkBytes);
    }
    if (empty > kMaxEmptyChunks) {
      AddDamage(kSpoolHeaderBytes, 0, "the header counts chunks that were never started");
    }
    Finish();
    return std::move(index_);
  }

 private:
  // How many chunks, the last perhaps cut short, lie from `offset` to the file's end.
  uint64_t WholeChunks(uint64_t offset) const {
    const uint64_t room = file_.bytes().size() > offset ? file_.bytes().size() - offset : 0;
    return room / kSpoolChunkBytes + (room % kSpoolChunkBytes != 0);
  }

  void VisitCopies() {
    const uint64_t copies = std::min(header_.copies, WholeChunks(header_.copies_offset));
    if (copies < header_.copies) {
      AddDamage(file_.bytes().size(), 0,
                absl::StrCat("the file ends before copy ", copies, " of ", header_.copies));
    }
    uint64_t empty = 0;
    for (uint64_t copy = 0; copy < copies && empty <= kMaxEmptyChunks; ++copy) {
      const uint64_t offset = header_.copies_offset + copy * kSpoolChunkBytes;
      empty = VisitChunk(offset, kNoNumber) ? 0 : empty + 1;
      file_.Release(offset, kSpoolChunkBytes);
    }
    if (empty > 0)
      AddDamage(header_.copies_offset, 0, "the header counts copies that are not there");
  }

  void AddDamage(uint64_t offset, uint64_t bytes, std::string reason) {
    trace::AddDamage(recording_.damage, {offset, bytes, std::move(reason)});
  }

  // A chunk in its place has a number; a copy tells its original's. False: it was never started.
  bool VisitChunk(uint64_t offset, uint64_t number) {
    const uint64_t size = std::min(kSpoolChunkBytes, file_.bytes().size() - offset);
    if (size < sizeof(SpoolChunk)) {
      AddDamage(offset, size, "a chunk header is cut short");
      return true;
    }
    SpoolChunk chunk;
    std::memcpy(&chunk, file_.bytes().data() + offset, sizeof(chunk));
    if (chunk.magic == 0 && chunk.bytes == 0) return false;
    uint64_t begin = offset + sizeof(SpoolChunk);
    uint64_t end = offset + size;
    std::string wrong;
    if (number != kNoNumber && chunk.serial != 0) {
      const auto copied = copied_.find(chunk.index);
      if (copied != copied_.end() && copied->second == chunk.serial) return true;
    }
    const bool is_copy = number == kNoNumber;
    if (chunk.magic != kSpoolChunkMagic || (is_copy ? chunk.bytes == 0 : chunk.index != number)) {
      wrong = "not a chunk of this spool";
    } else if (chunk.bytes > kSpoolChunkBytes - sizeof(SpoolChunk)) {
      wrong = absl::StrCat("a chunk claims ", base::Counted(chunk.bytes, "byte"));
    } else if (chunk.bytes > end - begin) {
      AddDamage(end, 0, "the file ends within a chunk");
    } else if (chunk.bytes != 0 && (chunk.checksum != 0 || is_copy) &&
               XXH3_64bits(file_.bytes().data() + begin, chunk.bytes) != chunk.checksum) {
      wrong = "the checksum of a chunk does not match";
    }
    if (chunk.bytes != 0 && chunk.bytes < end - begin) end = begin + chunk.bytes;
    // Of a chunk that cannot be trusted the events are counted, so that the loss can be told.
    VisitEvents(begin, end, chunk.bytes != 0, wrong.empty());
    if (!wrong.empty()) {
      AddDamage(offset, size, wrong);
    } else if (is_copy) {
      copied_[chunk.index] = chunk.serial;
    }
    return true;
  }

  // Where a walk through a chunk stands.
  struct Walk {
    uint64_t at = 0;
    bool in_segment = false;
    bool malformed = false;
    uint64_t epoch = 0;
    uint64_t half_written = 0;
    std::vector<OpenRealloc> open;
  };

  void VisitEvents(uint64_t begin, uint64_t end, bool sealed, bool trusted) {
    Walk walk;
    walk.at = begin;
    for (;;) {
      VisitRun(walk, end, trusted);
      if (walk.malformed || !walk.in_segment) break;
      const uint64_t next = AfterHole(walk.at, end);
      if (next == end) break;
      // Room that was taken and never written: the thread left the hook by a jump, or was cancelled
      // there, before the first word of its event.
      ++recording_.lost_events;
      const uint32_t thread = index_.segments.back().thread;
      CloseSegment(walk);
      walk.at = next;
      OpenSegment(walk, thread);
    }
    const bool in_segment = walk.in_segment;
    CloseSegment(walk);
    if (!trusted) return;
    if (walk.malformed) {
      AddDamage(walk.at, end - walk.at, in_segment ? "not an event" : "events of no known thread");
    } else if (sealed && walk.at < end) {
      AddDamage(walk.at, end - walk.at, "a sealed chunk holds an event that was never written");
    }
  }

  // Goes on to the first word that begins no event.
  void VisitRun(Walk& walk, uint64_t end, bool trusted) {
    SpoolEvent event;
    for (; DecodeSpoolEvent(file_, walk.at, end, walk.epoch, event, walk.malformed);
         walk.at += event.bytes) {
      if (!trusted) {
        if (event.kind <= kSpoolReallocFailed) ++recording_.lost_events;
        continue;
      }
      if (event.kind == kSpoolThread) {
        CloseSegment(walk);
        walk.epoch = event.epoch;
        const uint64_t at = walk.at;
        walk.at += event.bytes;
        OpenSegment(walk, ThreadIndex(event));
        walk.at = at;
        continue;
      }
      if (!walk.in_segment) {
        walk.malformed = true;
        return;
      }
      walk.epoch = event.epoch;
      if (event.kind == kSpoolSkip) {
        if (!event.flag) ++walk.half_written;
        continue;
      }
      if (event.kind == kSpoolEpoch) continue;
      // What was written half before another event was left by a jump out of its hook.
      recording_.lost_events += walk.half_written;
      walk.half_written = 0;
      FollowRealloc(event, index_.segments.back().thread, walk.open);
    }
  }

  // Where the words that are not zero go on after the zero word at `at`; `end` when they do not.
  uint64_t AfterHole(uint64_t at, uint64_t end) const {
    while (at + 8 <= end && LoadWord(file_, at) == 0) at += 8;
    return at + 8 <= end ? at : end;
  }

  void OpenSegment(Walk& walk, uint32_t thread) {
    index_.segments.push_back({thread, walk.at, 0, walk.epoch});
    walk.in_segment = true;
  }

  void CloseSegment(Walk& walk) {
    if (!walk.in_segment) return;
    index_.segments.back().end = walk.at;
    open_.insert(open_.end(), walk.open.begin(), walk.open.end());
    walk.open.clear();
    walk.in_segment = false;
  }

  // Pairs each failed realloc with the free that it revokes: the latest of that address.
  void FollowRealloc(const SpoolEvent& event, uint32_t thread, std::vector<OpenRealloc>& open) {
    if (event.kind == kSpoolReallocFree) {
      // A realloc to size 0 that answers null is followed by nothing.
      if (open.size() >= kMaxOpenReallocs) open.erase(open.begin());
      open.push_back({thread, event.address, event.epoch, event.position});
    } else if (event.kind == kSpoolReallocAlloc) {
      if (!open.empty()) open.pop_back();
    } else if (event.kind == kSpoolReallocFailed) {
      for (size_t i = open.size(); i-- > 0;) {
        if (open[i].address == event.address) {
          index_.revoked.insert(open[i].position);
          open.erase(open.begin() + static_cast<ptrdiff_t>(i));
          return;
        }
      }
      failures_.push_back({thread, event.address, event.epoch, event.position});
    }
  }

  uint32_t ThreadIndex(const SpoolEvent& event) {
    const auto id = static_cast<uint32_t>(event.words[0]);
    const auto [found, added] =
        thread_of_id_.emplace(id, static_cast<uint32_t>(recording_.threads.size()));
    if (added) {
      recording_.threads.push_back({});
      recording_.threads.back().path = event.words[1];
      parent_id_.push_back(static_cast<uint32_t>(event.words[0] >> 32));
    }
    return found->second;
  }

  void Finish() {
    // Each revokes the latest one before it of its thread and address.
    std::sort(open_.begin(), open_.end());
    for (const OpenRealloc& failure : failures_) {
      const auto after = std::lower_bound(open_.begin(), open_.end(), failure);
      if (after == open_.begin()) continue;
      const OpenRealloc& latest = after[-1];
      if (latest.thread != failure.thread || latest.address != failure.address) continue;
      index_.revoked.insert(latest.position);
    }
    // Threads get their numbers in the order of their ids, whatever chunks they wrote to first.
    std::vector<uint32_t> rank(recording_.threads.size());
    std::vector<Thread> threads(recording_.threads.size());
    uint32_t next = 0;
    for (const auto& [id, place] : thread_of_id_) rank[place] = next++;
    for (const auto& [id, place] : thread_of_id_) {
      Thread& thread = threads[rank[place]];
      thread.path = recording_.threads[place].path;
      const auto parent = thread_of_id_.find(parent_id_[place]);
      if (parent != thread_of_id_.end() && parent->first != id) {
        thread.parent = rank[parent->second];
      }
    }
    recording_.threads = std::move(threads);
    for (SpoolSegment& segment : index_.segments) segment.thread = rank[segment.thread];
    std::stable_sort(index_.segments.begin(), index_.segments.end(),
                     [](const auto& a, const auto& b) { return a.epoch < b.epoch; });
  }

  const MappedFile& file_;
  const SpoolHeader& header_;
  Recording& recording_;
  SpoolIndex index_;
  absl::flat_hash_map<uint32_t, uint64_t> copied_;  // chunk -> serial number of its latest copy
  std::map<uint32_t, uint32_t> thread_of_id_;  // id in the spool -> index in recording_.threads
  std::vector<uint32_t> parent_id_;
  std::vector<OpenRealloc> open_, failures_;
};

}  // namespace

bool DecodeSpoolEvent(const MappedFile& file, uint64_t position, uint64_t end, uint64_t epoch,
                      SpoolEvent& event, bool& malformed) {
  static constexpr uint64_t kBytes[16] = {0, 24, 24, 24, 24, 8, 8, 8, 16, 32, 16, 8, 16, 8, 8, 16};
  if (position + 8 > end) return false;
  const uint64_t word = LoadWord(file, position);
  if (word == 0) return false;
  event.kind = word & 15;
  event.bytes = kBytes[event.kind];
  event.epoch = epoch;
  if (event.kind == kSpoolSkip) {
    // Carries a length in place of an address.
    event.bytes = (word >> 20) * 8;
    event.flag = (word & kSpoolWaste) != 0;
    event.mark = word == kSpoolMark;
    malformed = event.bytes == 0 || event.bytes > end - position;
    return !malformed;
  }
  if (event.kind == kSpoolStack) event.bytes = 8 + ((word >> 4) & kSpoolStackCount) * 8;
  if (event.bytes == 0 || position + event.bytes > end) {
    malformed = true;
    return false;
  }
  event.address = word >> 20;
  event.position = position;
  if (event.kind == kSpoolStack) {
    const auto* addresses =
        reinterpret_cast<const uint64_t*>(file.bytes().data() + position + sizeof(word));
    event.stack = {addresses, event.bytes / 8 - 1};
    event.number = event.address;
    return true;
  }
  const uint8_t* words = file.bytes().data() + position + 8;
  if (position + 8 + sizeof(event.words) <= file.bytes().size()) {
    std::memcpy(event.words, words, sizeof(event.words));  // in three instructions
  } else {
    std::memcpy(event.words, words, event.bytes - 8);
  }
  if (event.kind == kSpoolSmallMalloc || event.kind == kSpoolSmallRealloc) {
    event.kind = event.kind == kSpoolSmallMalloc ? kSpoolMalloc : kSpoolReallocAlloc;
    event.words[1] = (word >> 4) & (kSpoolSmallSizes - 1);
  }
  if (event.kind == kSpoolSmallUsable) {
    event.kind = kSpoolUsable;
    event.words[0] = (word >> 4) & (kSpoolSmallSizes - 1);
  }
  const bool allocates = event.kind >= kSpoolMalloc && event.kind <= kSpoolReallocAlloc;
  if ((allocates && event.words[1] >> kSpoolSizeBits >= kSizeBits) ||
      (event.kind == kSpoolUsable && event.words[0] > kMaxSize)) {
    malformed = true;
    return false;
  }
  if (event.kind == kSpoolThread) event.epoch = event.words[2];
  if (event.kind == kSpoolEpoch) event.epoch = event.words[0];
  return true;
}

SpoolIndex IndexSpool(const MappedFile& file, const SpoolHeader& header, Recording& recording) {
  return Indexer(file, header, recording).Run();
}

}  // namespace reprise::trace
