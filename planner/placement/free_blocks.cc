#include "planner/placement/free_blocks.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace reprise::planner {

FreeBlocks::FreeBlocks(bool scored) : scored_(scored), bins_(kBins, kNone) {}

int FreeBlocks::BinOf(int64_t size) {
  const uint64_t value = static_cast<uint64_t>(size);
  if (value < kPerDoubling) return static_cast<int>(value);
  const int doubling = std::bit_width(value) - 6;  // value >> doubling is in [32, 64)
  return (doubling + 1) * kPerDoubling + static_cast<int>((value >> doubling) - kPerDoubling);
}

int FreeBlocks::NextBin(int bin) const {
  std::size_t word = bin / 64;
  const uint64_t rest = used_[word] >> (bin % 64);
  if (rest != 0) return bin + std::countr_zero(rest);
  if (word + 1 >= used_.size()) return -1;
  const uint64_t words = used_words_ >> (word + 1);
  if (words == 0) return -1;
  word += 1 + std::countr_zero(words);
  return static_cast<int>(word * 64) + std::countr_zero(used_[word]);
}

void FreeBlocks::PutIntoBin(uint32_t block) {
  const int bin = BinOf(blocks_[block].size);
  const uint32_t first = bins_[bin];
  blocks_[block].bin_before = kNone;
  blocks_[block].bin_after = first;
  if (first != kNone) blocks_[first].bin_before = block;
  bins_[bin] = block;
  used_[bin / 64] |= uint64_t{1} << (bin % 64);
  used_words_ |= uint64_t{1} << (bin / 64);
}

void FreeBlocks::DropFromBin(uint32_t block) {
  const Block& b = blocks_[block];
  if (b.bin_after != kNone) blocks_[b.bin_after].bin_before = b.bin_before;
  if (b.bin_before != kNone) {
    blocks_[b.bin_before].bin_after = b.bin_after;
  } else {
    const int bin = BinOf(b.size);
    bins_[bin] = b.bin_after;
    if (b.bin_after == kNone) {
      used_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
      if (used_[bin / 64] == 0) used_words_ &= ~(uint64_t{1} << (bin / 64));
    }
  }
  blocks_[block].bin_before = kTaken;
}

uint32_t FreeBlocks::FindFree(int64_t size) const {
  for (int bin = NextBin(BinOf(size)); bin >= 0; bin = bin + 1 < kBins ? NextBin(bin + 1) : -1) {
    uint32_t best = kNone;
    int depth = 0;
    for (uint32_t b = bins_[bin]; b != kNone && depth < kDepth; b = blocks_[b].bin_after, ++depth) {
      const Block& block = blocks_[b];
      if (block.size < size) continue;
      if (best == kNone || block.size < blocks_[best].size ||
          (block.size == blocks_[best].size && block.address < blocks_[best].address)) {
        best = b;
      }
    }
    if (best != kNone) return best;
  }
  return kNone;
}

uint32_t FreeBlocks::NewBlock() {
  if (unused_ != kNone) {
    const uint32_t block = unused_;
    unused_ = blocks_[block].after;
    return block;
  }
  blocks_.emplace_back();
  if (scored_) notes_.emplace_back();
  return static_cast<uint32_t>(blocks_.size() - 1);
}

// Takes [address, address + size) out of a free block.
uint32_t FreeBlocks::Carve(uint32_t block, int64_t address, int64_t size) {
  DropFromBin(block);
  const int64_t front = address - blocks_[block].address;
  if (front > 0) {
    const uint32_t head = NewBlock();
    Block& b = blocks_[block];
    blocks_[head] = {b.address, front, b.before, block, kTaken, kNone};
    if (b.before != kNone) blocks_[b.before].after = head;
    b.before = head;
    b.address = address;
    b.size -= front;
    if (scored_) notes_[head] = notes_[block];
    PutIntoBin(head);
  }
  const int64_t rest = blocks_[block].size - size;
  if (rest > 0) {
    const uint32_t tail = NewBlock();
    Block& b = blocks_[block];
    blocks_[tail] = {address + size, rest, block, b.after, kTaken, kNone};
    if (b.after != kNone) blocks_[b.after].before = tail;
    if (last_ == block) last_ = tail;
    b.after = tail;
    b.size = size;
    if (scored_) notes_[tail] = notes_[block];
    PutIntoBin(tail);
  }
  return block;
}

uint32_t FreeBlocks::Append(int64_t address, int64_t size) {
  if (last_ != kNone && blocks_[last_].free()) {
    // The free block below the top grows with it.
    const uint32_t block = last_;
    DropFromBin(block);
    top_ = address + size;
    blocks_[block].size = top_ - blocks_[block].address;
    PutIntoBin(block);
    return Carve(block, address, size);
  }
  const auto append = [&](int64_t from, int64_t units) {
    const uint32_t block = NewBlock();
    blocks_[block] = {from, units, last_, kNone, kTaken, kNone};
    if (last_ != kNone) blocks_[last_].after = block;
    last_ = block;
    if (scored_) notes_[block] = {};
    return block;
  };
  if (address > top_) PutIntoBin(append(top_, address - top_));
  top_ = address + size;
  return append(address, size);
}

uint32_t FreeBlocks::Take(int64_t size) {
  const uint32_t found = FindFree(size);
  return found != kNone ? Carve(found, blocks_[found].address, size) : TakeFromTop(size);
}

void FreeBlocks::Annotate(uint32_t handle, const Note& note) {
  const uint32_t since = note.since == Note::kNever ? note.since : notes_[handle].since;
  notes_[handle] = note;
  notes_[handle].since = since;
}

std::vector<FreeBlocks::Element> FreeBlocks::Elements() const {
  std::vector<Element> elements;
  for (uint32_t b = last_; b != kNone; b = blocks_[b].before) {
    elements.push_back({b, blocks_[b].free(), blocks_[b].address, blocks_[b].size, notes_[b]});
  }
  std::reverse(elements.begin(), elements.end());
  return elements;
}

uint32_t FreeBlocks::TakeAt(int64_t address, int64_t size) {
  for (int bin = NextBin(BinOf(size)); bin >= 0; bin = bin + 1 < kBins ? NextBin(bin + 1) : -1) {
    for (uint32_t b = bins_[bin]; b != kNone; b = blocks_[b].bin_after) {
      const Block& block = blocks_[b];
      if (block.address <= address && address + size <= block.address + block.size) {
        return Carve(b, address, size);
      }
    }
  }
  return Append(address, size);
}

void FreeBlocks::Free(uint32_t handle, uint32_t now) {
  if (scored_) notes_[handle].since = now;
  const auto absorb = [&](uint32_t low, uint32_t high) {
    Block& block = blocks_[low];
    block.size += blocks_[high].size;
    block.after = blocks_[high].after;
    if (block.after != kNone) blocks_[block.after].before = low;
    if (last_ == high) last_ = low;
    if (scored_) notes_[low].since = std::max(notes_[low].since, notes_[high].since);
    blocks_[high].after = unused_;
    unused_ = high;
  };
  const uint32_t after = blocks_[handle].after;
  if (after != kNone && blocks_[after].free()) {
    DropFromBin(after);
    absorb(handle, after);
  }
  const uint32_t before = blocks_[handle].before;
  if (before != kNone && blocks_[before].free()) {
    DropFromBin(before);
    absorb(before, handle);
    handle = before;
  }
  PutIntoBin(handle);
}

}  // namespace reprise::planner
