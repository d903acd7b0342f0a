#include "trace/spool_index.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace reprise::trace {
namespace {

// More chunks in a row than this were never started: the count of chunks is not to be trusted.
constexpr uint64_t kMaxEmptyChunks = 64;

constexpr uint64_t kNoNumber = UINT64_MAX;

// How many chunks, the last perhaps cut short, lie from `offset` to the file's end.
uint64_t WholeChunks(const MappedFile& file, uint64_t offset) {
  const uint64_t room = file.bytes().size() > offset ? file.bytes().size() - offset : 0;
  return room / kSpoolChunkBytes + (room % kSpoolChunkBytes != 0);
}

SpoolBytes ChunkAt(const MappedFile& file, uint64_t offset) {
  return {reinterpret_cast<const char*>(file.bytes().data()) + offset,
          std::min(kSpoolChunkBytes, file.bytes().size() - offset), offset};
}

// Where the words that are not zero go on after the zero word at `at`; `end` when they do not.
const char* AfterHole(const char* at, const char* end) {
  while (end - at >= 8 && LoadSpoolWord(at) == 0) at += 8;
  return end - at >= 8 ? at : end;
}

}  // namespace

void SpoolIndex::AddDamage(uint64_t offset, uint64_t bytes, std::string reason) {
  trace::AddDamage(recording_.damage, {offset, bytes, std::move(reason)});
  // How the rest lies in the order cannot be known.
  if (handed_out_ > 0) late_ = true;
}

void SpoolIndex::AddAll(const MappedFile& file, const SpoolHeader& header) {
  // Chunks that were written again since they were copied, or may be, count by their copies.
  VisitCopies(file, header);
  const uint64_t chunks = std::min(header.chunks_used, WholeChunks(file, kSpoolChunksOffset));
  if (chunks < header.chunks_used) {
    AddDamage(file.bytes().size(), 0,
              absl::StrCat("the file ends before chunk ", chunks, " of ", header.chunks_used));
  }
  uint64_t empty = 0;
  for (uint64_t chunk = 0; chunk < chunks && empty <= kMaxEmptyChunks; ++chunk) {
    const uint64_t offset = kSpoolChunksOffset + chunk * kSpoolChunkBytes;
    empty = VisitChunk(ChunkAt(file, offset), chunk) ? 0 : empty + 1;
    file.Release(offset, kSpoolChunkBytes);
  }
  if (empty > kMaxEmptyChunks) {
    AddDamage(kSpoolHeaderBytes, 0, "the header counts chunks that were never started");
  }
}

void SpoolIndex::VisitCopies(const MappedFile& file, const SpoolHeader& header) {
  const uint64_t copies = std::min(header.copies, WholeChunks(file, header.copies_offset));
  if (copies < header.copies) {
    AddDamage(file.bytes().size(), 0,
              absl::StrCat("the file ends before copy ", copies, " of ", header.copies));
  }
  uint64_t empty = 0;
  for (uint64_t copy = 0; copy < copies && empty <= kMaxEmptyChunks; ++copy) {
    if (copy < copies_known_.size() && copies_known_[copy]) continue;
    const uint64_t offset = header.copies_offset + copy * kSpoolChunkBytes;
    empty = VisitChunk(ChunkAt(file, offset), kNoNumber) ? 0 : empty + 1;
    file.Release(offset, kSpoolChunkBytes);
  }
  if (empty > 0) AddDamage(header.copies_offset, 0, "the header counts copies that are not there");
}

void SpoolIndex::AddCopy(const SpoolBytes& chunk, uint64_t copy) {
  if (copies_known_.size() <= copy) copies_known_.resize(copy + 1);
  copies_known_[copy] = true;
  if (!VisitChunk(chunk, kNoNumber)) late_ = true;
}

void SpoolIndex::AddPart(const SpoolBytes& events, uint32_t index, const SpoolReach& after) {
  const SpoolReach before = Reach(index, after.serial);
  VisitEvents(events, 0, events.size, false, true, before.bytes > 0 ? &before : nullptr);
  reach_[index] = after;
}

SpoolReach SpoolIndex::Reach(uint32_t index, uint64_t serial) const {
  const auto found = reach_.find(index);
  return found != reach_.end() && found->second.serial == serial ? found->second
                                                                 : SpoolReach{.serial = serial};
}

bool SpoolIndex::HasCopy(uint32_t index, uint64_t serial) const {
  const auto copied = copied_.find(index);
  return copied != copied_.end() && copied->second == serial;
}

// A chunk in its place has a number; a copy tells its original's. False: it was never started.
bool SpoolIndex::VisitChunk(const SpoolBytes& bytes, uint64_t number) {
  const uint64_t offset = bytes.position;
  if (bytes.size < sizeof(SpoolChunk)) {
    AddDamage(offset, bytes.size, "a chunk header is cut short");
    return true;
  }
  SpoolChunk chunk;
  std::memcpy(&chunk, bytes.data, sizeof(chunk));
  if (chunk.magic == 0 && chunk.bytes == 0) return false;
  const bool is_copy = number == kNoNumber;
  if (!is_copy && chunk.serial != 0 && HasCopy(chunk.index, chunk.serial)) return true;
  const uint64_t begin = sizeof(SpoolChunk);
  uint64_t end = bytes.size;
  std::string wrong;
  if (chunk.magic != kSpoolChunkMagic || (is_copy ? chunk.bytes == 0 : chunk.index != number)) {
    wrong = "not a chunk of this spool";
  } else if (chunk.bytes > kSpoolChunkBytes - sizeof(SpoolChunk)) {
    wrong = absl::StrCat("a chunk claims ", base::Counted(chunk.bytes, "byte"));
  } else if (chunk.bytes > end - begin) {
    AddDamage(offset + end, 0, "the file ends within a chunk");
  } else if (chunk.bytes != 0 && (chunk.checksum != 0 || is_copy) &&
             XXH3_64bits(bytes.data + begin, chunk.bytes) != chunk.checksum) {
    wrong = "the checksum of a chunk does not match";
  }
  if (chunk.bytes != 0 && chunk.bytes < end - begin) end = begin + chunk.bytes;
  const SpoolReach known = Reach(chunk.index, chunk.serial);
  const bool go_on = wrong.empty() && known.bytes > 0 && known.bytes <= end;
  // Of a chunk that cannot be trusted the events are counted, so that the loss can be told.
  VisitEvents(bytes, go_on ? known.bytes : begin, end, chunk.bytes != 0, wrong.empty(),
              go_on ? &known : nullptr);
  if (!wrong.empty()) {
    AddDamage(offset, bytes.size, wrong);
  } else if (is_copy) {
    uint64_t& latest = copied_[chunk.index];
    latest = copies_known_.empty() ? chunk.serial : std::max(latest, chunk.serial);
  }
  return true;
}

// `reach`: what is known of the chunk before `begin`.
void SpoolIndex::VisitEvents(const SpoolBytes& chunk, uint64_t begin, uint64_t end, bool sealed,
                             bool trusted, const SpoolReach* reach) {
  Walk walk;
  walk.bytes = &chunk;
  walk.at = chunk.data + begin;
  const char* const last = chunk.data + end;
  if (reach != nullptr) {
    const auto thread = thread_of_id_.find(reach->thread);
    walk.epoch = reach->epoch;
    if (thread != thread_of_id_.end()) OpenSegment(walk, thread->second);
  }
  for (;;) {
    VisitRun(walk, last, trusted);
    if (walk.malformed || !walk.in_segment) break;
    const char* const next = AfterHole(walk.at, last);
    if (next == last) break;
    // Room that was taken and never written: the thread left the hook by a jump, or was cancelled
    // there, before the first word of its event.
    ++recording_.lost_events;
    const uint32_t thread = segments_.back().thread;
    CloseSegment(walk);
    walk.at = next;
    OpenSegment(walk, thread);
  }
  const bool in_segment = walk.in_segment;
  CloseSegment(walk);
  if (!trusted) return;
  const auto left = static_cast<uint64_t>(last - walk.at);
  if (walk.malformed) {
    AddDamage(walk.PositionOf(walk.at), left,
              in_segment ? "not an event" : "events of no known thread");
  } else if (sealed && left > 0) {
    AddDamage(walk.PositionOf(walk.at), left,
              "a sealed chunk holds an event that was never written");
  }
}

// Goes on to the first word that begins no event.
void SpoolIndex::VisitRun(Walk& walk, const char* end, bool trusted) {
  SpoolEvent event;
  event.epoch = walk.epoch;
  for (; DecodeSpoolEvent(walk.at, end, event, walk.malformed); walk.at += event.bytes) {
    if (!trusted) {
      if (event.kind <= kSpoolReallocFailed) ++recording_.lost_events;
      continue;
    }
    if (event.kind == kSpoolThread) {
      CloseSegment(walk);
      late_ |= event.epoch < handed_out_;
      walk.epoch = event.epoch;
      walk.at += event.bytes;
      OpenSegment(walk, ThreadIndex(event));
      walk.at -= event.bytes;
      continue;
    }
    if (!walk.in_segment) {
      walk.malformed = true;
      return;
    }
    if (event.kind == kSpoolEpoch) {
      late_ |= handed_out_ > 0 && event.epoch < walk.epoch;
      walk.epoch = event.epoch;
      continue;
    }
    if (event.kind == kSpoolSkip && !event.mark) {
      if (!event.flag) ++walk.half_written;
      continue;
    }
    late_ |= event.epoch < handed_out_;
    if (event.kind == kSpoolSkip) continue;
    // What was written half before another event was left by a jump out of its hook.
    recording_.lost_events += walk.half_written;
    walk.half_written = 0;
    if (event.kind >= kSpoolReallocAlloc && event.kind <= kSpoolReallocFailed) {
      FollowRealloc(event, walk.PositionOf(walk.at), segments_.back().thread, walk.open);
    }
  }
}

void SpoolIndex::OpenSegment(Walk& walk, uint32_t thread) {
  segments_.push_back({.thread = thread,
                       .begin = walk.at,
                       .epoch = walk.epoch,
                       .position = walk.PositionOf(walk.at),
                       .owner = walk.bytes->owner});
  walk.in_segment = true;
}

void SpoolIndex::CloseSegment(Walk& walk) {
  if (!walk.in_segment) return;
  segments_.back().end = walk.at;
  open_.insert(open_.end(), walk.open.begin(), walk.open.end());
  walk.open.clear();
  walk.in_segment = false;
}

// Pairs each failed realloc with the free that it revokes: the latest of that address.
void SpoolIndex::FollowRealloc(const SpoolEvent& event, uint64_t position, uint32_t thread,
                               std::vector<OpenRealloc>& open) {
  if (event.kind == kSpoolReallocFree) {
    // A realloc to size 0 that answers null is followed by nothing.
    if (open.size() >= kMostOpenReallocs) open.erase(open.begin());
    open.push_back({thread, event.address, event.epoch, position, event.at});
  } else if (event.kind == kSpoolReallocAlloc) {
    if (!open.empty()) open.pop_back();
  } else if (event.kind == kSpoolReallocFailed) {
    for (size_t i = open.size(); i-- > 0;) {
      if (open[i].address == event.address) {
        revoked_.insert(open[i].at);
        open.erase(open.begin() + static_cast<ptrdiff_t>(i));
        return;
      }
    }
    failures_.push_back({thread, event.address, event.epoch, position, event.at});
  }
}

uint32_t SpoolIndex::ThreadIndex(const SpoolEvent& event) {
  const auto id = static_cast<uint32_t>(event.Word(1));
  const auto [found, added] =
      thread_of_id_.emplace(id, static_cast<uint32_t>(recording_.threads.size()));
  if (added) {
    recording_.threads.push_back({});
    recording_.threads.back().path = event.Word(2);
    parent_id_.push_back(static_cast<uint32_t>(event.Word(1) >> 32));
  }
  return found->second;
}

// Each failure revokes the latest realloc before it of its thread and address.
void SpoolIndex::PairFailures() {
  std::sort(open_.begin(), open_.end());
  for (const OpenRealloc& failure : failures_) {
    // That one may have been handed out, and its bytes are gone.
    if (handed_out_ > 0) late_ = true;
    const auto after = std::lower_bound(open_.begin(), open_.end(), failure);
    if (after == open_.begin()) continue;
    const OpenRealloc& latest = after[-1];
    if (latest.thread != failure.thread || latest.address != failure.address) continue;
    revoked_.insert(latest.at);
  }
  failures_.clear();
  open_.clear();
}

// Threads get their numbers in the order of their ids, whatever chunks they wrote to first.
void SpoolIndex::NumberThreads() {
  if (numbered_ == recording_.threads.size()) return;
  std::vector<uint32_t> rank(recording_.threads.size());
  std::vector<Thread> threads(recording_.threads.size());
  std::vector<uint32_t> parent_id(recording_.threads.size());
  uint32_t next = 0;
  for (const auto& [id, place] : thread_of_id_) {
    if (place < numbered_ && place != next) {
      late_ = true;
      return;
    }
    rank[place] = next++;
  }
  for (auto& [id, place] : thread_of_id_) {
    Thread& thread = threads[rank[place]];
    thread = recording_.threads[place];
    parent_id[rank[place]] = parent_id_[place];
    const auto parent = thread_of_id_.find(parent_id_[place]);
    if (place >= numbered_ && parent != thread_of_id_.end() && parent->first != id) {
      // Those before it in this loop have their final numbers.
      thread.parent = parent->first < id ? parent->second : rank[parent->second];
    }
    place = rank[place];
  }
  recording_.threads = std::move(threads);
  parent_id_ = std::move(parent_id);
  numbered_ = recording_.threads.size();
  for (SpoolSegment& segment : segments_) segment.thread = rank[segment.thread];
}

void SpoolIndex::Settle() {
  PairFailures();
  NumberThreads();
}

std::vector<SpoolSegment> SpoolIndex::TakeSegments() {
  std::stable_sort(segments_.begin(), segments_.end(),
                   [](const auto& a, const auto& b) { return a.epoch < b.epoch; });
  return std::exchange(segments_, {});
}

}  // namespace reprise::trace
