#include "planner/graph/conflict.h"

#include <algorithm>
#include <utility>

namespace reprise::planner::graph {
namespace {

int64_t AlignUp(const Block& block, int64_t offset) {
  const int64_t past = (offset - block.remainder) & (block.alignment - 1);
  return past == 0 ? offset : offset + block.alignment - past;
}

bool Test(const uint64_t* row, uint32_t bit) { return (row[bit / 64] >> (bit % 64)) & 1; }

Block MakeBlock(const PreparedGraph& flow, std::span<const uint32_t> storages, uint32_t index,
                std::vector<Member>& members) {
  Block block;
  block.first = static_cast<uint32_t>(members.size());
  for (const uint32_t s : storages) {
    const Storage& storage = flow.storages[s];
    // The common alignment keeps itself.
    if (storage.alignment > std::max(block.alignment, flow.alignment)) {
      block.alignment = storage.alignment;
      block.remainder = (storage.alignment - block.size % storage.alignment) % storage.alignment;
    }
    if (storage.offset != kFree) block.fixed = storage.offset - block.size;
    if (storage.bytes > 0) members.push_back({s, index, block.size, storage.bytes});
    block.size += storage.bytes;
  }
  block.count = static_cast<uint32_t>(members.size()) - block.first;
  return block;
}

}  // namespace

ConflictProblem MakeConflictProblem(const PreparedGraph& flow, const PairSet& unsafe) {
  ConflictProblem problem;
  problem.unsafe = &unsafe;
  std::vector<uint8_t> grouped(flow.storages.size(), 0);
  for (const auto& group : flow.groups) {
    for (const uint32_t storage : group) grouped[storage] = 1;
    problem.blocks.push_back(
        MakeBlock(flow, group, static_cast<uint32_t>(problem.blocks.size()), problem.members));
  }
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    if (grouped[s] || flow.storages[s].bytes == 0) continue;
    problem.blocks.push_back(MakeBlock(
        flow, std::span(&s, 1), static_cast<uint32_t>(problem.blocks.size()), problem.members));
  }
  return problem;
}

bool InConflict(const ConflictProblem& problem, uint32_t a, uint32_t b) {
  for (const Member& x : problem.MembersOf(a)) {
    for (const Member& y : problem.MembersOf(b)) {
      if (problem.unsafe->Contains(x.storage, y.storage)) return true;
    }
  }
  return false;
}

int64_t MakespanOf(const ConflictProblem& problem, const BlockOffsets& offsets) {
  int64_t makespan = 0;
  for (uint32_t b = 0; b < problem.size(); ++b) {
    makespan = std::max(makespan, offsets[b] + problem.blocks[b].size);
  }
  return makespan;
}

void Shelf::Insert(uint32_t storage, int64_t offset, int64_t end) {
  if (chunks_.empty()) chunks_.emplace_back();
  auto at = std::partition_point(chunks_.begin() + 1, chunks_.end(),
                                 [&](const Chunk& chunk) { return chunk.offset[0] <= offset; }) -
            1;
  if (at->count == kMost) {
    at = chunks_.insert(at + 1, Chunk{}) - 1;
    Chunk& full = *at;
    Chunk& next = *(at + 1);
    next.count = kMost / 2;
    full.count -= next.count;
    std::copy_n(full.storage + full.count, next.count, next.storage);
    std::copy_n(full.offset + full.count, next.count, next.offset);
    std::copy_n(full.end + full.count, next.count, next.end);
    if (next.offset[0] <= offset) ++at;
  }
  Chunk& chunk = *at;
  const auto place =
      std::upper_bound(chunk.offset, chunk.offset + chunk.count, offset) - chunk.offset;
  const auto shift = [&](auto* array, auto value) {
    std::copy_backward(array + place, array + chunk.count, array + chunk.count + 1);
    array[place] = value;
  };
  shift(chunk.storage, storage);
  shift(chunk.offset, offset);
  shift(chunk.end, end);
  ++chunk.count;
}

void Shelf::Place(uint32_t block, int64_t offset) {
  for (const Member& member : problem_.MembersOf(block)) {
    Insert(member.storage, offset + member.relative, offset + member.relative + member.size);
  }
}

int64_t Shelf::FirstFit(uint32_t block, int64_t from, int64_t highest) const {
  const Block& b = problem_.blocks[block];
  if (b.count == 0) return AlignUp(b, from);
  if (b.count > 1 || b.alignment > 1) return FirstFitOfGroup(block, from, highest);
  const Member& member = problem_.members[b.first];
  const uint64_t* const row = problem_.unsafe->Row(member.storage).data();
  int64_t at = from;
  for (const Chunk& chunk : chunks_) {
    for (uint32_t i = 0; i < chunk.count; ++i) {
      const bool conflict = Test(row, chunk.storage[i]);
      if (conflict & (chunk.offset[i] >= at + member.size)) return at;
      at = std::max(at, conflict ? chunk.end[i] : at);
    }
    if (at > highest) return at;
  }
  return at;
}

// Each member leaps over what is in its way, and all others with it, until none is in the way. What
// a member has passed it never meets again, because offsets only grow.
int64_t Shelf::FirstFitOfGroup(uint32_t block, int64_t from, int64_t highest) const {
  const Block& b = problem_.blocks[block];
  struct Cursor {
    size_t chunk = 0;
    uint32_t index = 0;
  };
  std::vector<Cursor> cursors(b.count);
  int64_t at = AlignUp(b, from);
  for (bool moved = true; moved && at <= highest;) {
    moved = false;
    for (uint32_t m = 0; m < b.count && at <= highest; ++m) {
      const Member& member = problem_.members[b.first + m];
      const uint64_t* const row = problem_.unsafe->Row(member.storage).data();
      Cursor& cursor = cursors[m];
      bool passed = false;
      while (!passed && cursor.chunk < chunks_.size()) {
        const Chunk& chunk = chunks_[cursor.chunk];
        for (; cursor.index < chunk.count; ++cursor.index) {
          if (chunk.offset[cursor.index] >= at + member.relative + member.size) {
            passed = true;
            break;
          }
          if (chunk.end[cursor.index] > at + member.relative &&
              Test(row, chunk.storage[cursor.index])) {
            at = AlignUp(b, chunk.end[cursor.index] - member.relative);
            moved = true;
          }
        }
        if (!passed) cursor = {cursor.chunk + 1, 0};
      }
    }
  }
  return at;
}

int64_t Shelf::BestFit(uint32_t block, int64_t from, int64_t limit) const {
  const Block& b = problem_.blocks[block];
  // Half-open intervals of offsets at which the block may not lie.
  std::vector<std::pair<int64_t, int64_t>> avoid;
  for (const Member& member : problem_.MembersOf(block)) {
    const uint64_t* const row = problem_.unsafe->Row(member.storage).data();
    for (const Chunk& chunk : chunks_) {
      for (uint32_t i = 0; i < chunk.count; ++i) {
        if (!Test(row, chunk.storage[i])) continue;
        const int64_t start = chunk.offset[i] - member.size + 1 - member.relative;
        const int64_t end = chunk.end[i] - member.relative;
        if (end > from) avoid.emplace_back(start, end);
      }
    }
  }
  // One member's are in order already.
  if (b.count > 1) std::sort(avoid.begin(), avoid.end());
  int64_t best = INT64_MAX;
  int64_t best_gap = INT64_MAX;
  int64_t at = from;  // offsets from here to the next interval are free
  const auto consider = [&](int64_t end) {
    const int64_t offset = AlignUp(b, at);
    if (offset >= end || end - at >= best_gap) return;
    if (limit != INT64_MAX && offset > limit - b.size) return;
    best = offset;
    best_gap = end - at;
  };
  for (const auto& [start, end] : avoid) {
    if (start > at) consider(start);
    at = std::max(at, end);
  }
  // Above everything there is no end; below a limit there is.
  if (limit == INT64_MAX) {
    if (best == INT64_MAX) best = AlignUp(b, at);
  } else if (at <= limit - b.size) {
    consider(limit - b.size + 1);
  }
  return best;
}

BlockOffsets PlaceBlocks(const ConflictProblem& problem, std::span<const uint32_t> order,
                         FitKind fit, int64_t limit, const std::function<bool()>& stop) {
  Shelf shelf(problem);
  BlockOffsets offsets(problem.size(), kFree);
  const auto place = [&](uint32_t block, int64_t offset) {
    offsets[block] = offset;
    shelf.Place(block, offset);
  };
  for (uint32_t b = 0; b < problem.size(); ++b) {
    if (problem.blocks[b].fixed != kFree) place(b, problem.blocks[b].fixed);
  }
  uint32_t steps = 0;
  for (const uint32_t block : order) {
    if (offsets[block] != kFree) continue;
    if ((++steps & 63) == 0 && stop()) return {};
    const int64_t size = problem.blocks[block].size;
    const int64_t highest = limit == INT64_MAX ? INT64_MAX : limit - size - 1;
    const int64_t offset = fit == FitKind::kFirst ? shelf.FirstFit(block, 0, highest)
                                                  : shelf.BestFit(block, 0, INT64_MAX);
    if (offset > highest) return {};
    place(block, offset);
  }
  return offsets;
}

BlockOffsets PlaceInObjects(const ConflictProblem& problem, std::span<const uint32_t> order,
                            FitKind fit, const std::function<bool()>& stop) {
  struct Object {
    int64_t offset;
    int64_t end;
    uint32_t head;  // the storage that spans it, or kNone
    Shelf shelf;
  };
  std::vector<Object> objects;
  BlockOffsets offsets(problem.size(), kFree);
  int64_t end = 0;
  // Given offsets know nothing of objects: all of them make one.
  Shelf given(problem);
  for (uint32_t b = 0; b < problem.size(); ++b) {
    if (problem.blocks[b].fixed == kFree) continue;
    offsets[b] = problem.blocks[b].fixed;
    given.Place(b, offsets[b]);
    end = std::max(end, offsets[b] + problem.blocks[b].size);
  }
  if (end > 0) objects.push_back({0, end, kNone, std::move(given)});
  uint32_t steps = 0;
  for (const uint32_t block : order) {
    if (offsets[block] != kFree) continue;
    if ((++steps & 63) == 0 && stop()) return {};
    const Block& b = problem.blocks[block];
    const uint32_t alone = b.count == 1 ? problem.members[b.first].storage : kNone;
    const uint64_t* const row = alone == kNone ? nullptr : problem.unsafe->Row(alone).data();
    for (Object& object : objects) {
      if (alone != kNone && object.head != kNone && Test(row, object.head)) continue;
      if (object.end - object.offset < b.size) continue;
      int64_t offset;
      if (fit == FitKind::kFirst) {
        offset = object.shelf.FirstFit(block, object.offset, object.end - b.size);
        if (offset > object.end - b.size) continue;
      } else {
        offset = object.shelf.BestFit(block, object.offset, object.end);
        if (offset == INT64_MAX) continue;
      }
      offsets[block] = offset;
      object.shelf.Place(block, offset);
      break;
    }
    if (offsets[block] != kFree) continue;
    offsets[block] = AlignUp(b, end);
    end = offsets[block] + b.size;
    objects.push_back({offsets[block], end, alone, Shelf(problem)});
    objects.back().shelf.Place(block, offsets[block]);
  }
  return offsets;
}

}  // namespace reprise::planner::graph
