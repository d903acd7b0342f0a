#include "trace/formats/android.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trace/ledger.h"

namespace reprise::trace {
namespace {

constexpr uint64_t kMostBytes = INT64_MAX;
constexpr size_t kTimestamps = 2;

enum class Call { kMalloc, kCalloc, kMemalign, kRealloc, kFree, kThreadDone };
struct CallForm {
  std::string_view name;
  Call call;
  size_t pointers;  // how many pointers come first,
  size_t numbers;   // and how many numbers after them
  const char* form;
};
constexpr CallForm kCalls[] = {
    {"malloc", Call::kMalloc, 1, 1, "malloc PTR SIZE"},
    {"calloc", Call::kCalloc, 1, 2, "calloc PTR COUNT SIZE"},
    {"memalign", Call::kMemalign, 1, 2, "memalign PTR ALIGNMENT SIZE"},
    {"realloc", Call::kRealloc, 2, 1, "realloc NEW OLD SIZE"},
    {"free", Call::kFree, 1, 0, "free PTR"},
    {"thread_done", Call::kThreadDone, 1, 0, "thread_done PTR"},
};

std::vector<std::string_view> SplitWords(std::string_view line) {
  std::vector<std::string_view> words;
  size_t at = 0;
  while ((at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

bool ParseNumber(std::string_view text, int base, uint64_t& value) {
  if (base == 16 && (text.rfind("0x", 0) == 0 || text.rfind("0X", 0) == 0)) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::string QuoteWords(std::string_view text) {
  constexpr size_t kLongest = 60;
  while (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return absl::StrCat("'", std::string(text.substr(0, kLongest)), "'");
}

class AndroidReader {
 public:
  AndroidReader(const std::string& path, Recording& recording,
                absl::FunctionRef<void(const Event&)> on_event)
      : path_(path), recording_(recording), ledger_(recording, on_event) {
    recording.process.complete = true;
  }

  absl::Status Line(std::string_view line) {
    ++line_;
    const std::vector<std::string_view> words = SplitWords(line);
    if (words.empty() || words[0][0] == '#') return absl::OkStatus();
    uint64_t tid = 0;
    if (words.size() < 2 || words[0].back() != ':' ||
        !ParseNumber(words[0].substr(0, words[0].size() - 1), 10, tid)) {
      return Expected("TID: CALL ...", QuoteWords(line));
    }
    const CallForm* form = nullptr;
    for (const CallForm& candidate : kCalls) {
      if (candidate.name == words[1]) form = &candidate;
    }
    if (form == nullptr) {
      return Expected("malloc, calloc, memalign, realloc, free or thread_done",
                      QuoteWords(words[1]));
    }
    const size_t count = form->pointers + form->numbers;
    const size_t found = words.size() - 2;
    uint64_t values[3 + kTimestamps] = {};
    bool good = found == count || found == count + kTimestamps;
    for (size_t i = 0; good && i < found; ++i) {
      good = ParseNumber(words[2 + i], i < form->pointers ? 16 : 10, values[i]);
    }
    if (!good) return Expected(form->form, QuoteWords(line));
    return Perform(form->call, tid, values);
  }

  absl::Status Finish() {
    if (recording_.threads.empty()) {
      line_ = std::max<int64_t>(line_, 1);
      return Expected("TID: CALL ...", "no line at all");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Expected(const std::string& expected, const std::string& found) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", line_, ": expected ", expected, ", found ", found));
  }

  uint32_t ThreadIndex(uint64_t tid) {
    const auto [found, added] =
        threads_.emplace(tid, static_cast<uint32_t>(recording_.threads.size()));
    if (added) {
      Thread thread;
      thread.path = recording_.threads.size() + 1;
      thread.parent = recording_.threads.empty() ? kNone : 0;
      recording_.threads.push_back(thread);
    }
    return found->second;
  }

  absl::Status Allocate(uint64_t pointer, Event block) {
    if (block.size > kMaxSize) {
      return Expected("a size below 2^56", absl::StrCat(block.size));
    }
    if (pointer == 0) return absl::OkStatus();
    if (block.size > kMostBytes - sum_) {
      return Expected("sizes whose sum is below 2^63", absl::StrCat(block.size, " more"));
    }
    sum_ += block.size;
    ledger_.Allocate(pointer, block);
    return absl::OkStatus();
  }

  absl::Status Perform(Call call, uint64_t tid, const uint64_t values[3]) {
    Event block;
    block.thread = ThreadIndex(tid);
    switch (call) {
      case Call::kMalloc:
        block.size = values[1];
        return Allocate(values[0], block);
      case Call::kCalloc:
        block.allocation_kind = AllocationKind::kCalloc;
        if (__builtin_mul_overflow(values[1], values[2], &block.size)) {
          return Expected("COUNT times SIZE below 2^56",
                          absl::StrCat(values[1], " times ", values[2]));
        }
        return Allocate(values[0], block);
      case Call::kMemalign:
        if (!std::has_single_bit(values[1]) || values[1] > kMaxSize) {
          return Expected("an alignment that is a power of two below 2^56",
                          absl::StrCat(values[1]));
        }
        block.allocation_kind = AllocationKind::kAligned;
        block.log2_alignment = static_cast<uint8_t>(std::countr_zero(values[1]));
        block.size = values[2];
        return Allocate(values[0], block);
      case Call::kRealloc:
        block.size = values[2];
        if (block.size > kMaxSize) return Allocate(values[0], block);
        // A realloc that failed leaves the old block; one to size 0 may answer null and frees it.
        if (values[1] != 0 && (values[0] != 0 || values[2] == 0)) {
          block.previous = ledger_.Free(values[1], block.thread);
        }
        if (values[1] != 0) block.allocation_kind = AllocationKind::kRealloc;
        return Allocate(values[0], block);
      case Call::kFree:
        if (values[0] != 0) ledger_.Free(values[0], block.thread);
        return absl::OkStatus();
      case Call::kThreadDone:  // its last frees may still follow
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  const std::string& path_;
  Recording& recording_;
  Ledger ledger_;
  absl::flat_hash_map<uint64_t, uint32_t> threads_;  // by TID
  uint64_t sum_ = 0;                                 // of all sizes, bytes
  int64_t line_ = 0;
};

// Made-up address of a block, and TID of a thread.
uint64_t Pointer(uint64_t block) { return (block + 1) << 4; }
uint64_t Tid(uint32_t thread) { return uint64_t{thread} + 1; }

}  // namespace

absl::Status ReadAndroid(const MappedFile& file, const std::string& path, Recording& recording,
                         absl::FunctionRef<void(const Event&)> on_event) {
  AndroidReader reader(path, recording, on_event);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  constexpr uint64_t kReleaseBytes = 16 << 20;
  uint64_t released = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const absl::Status status = reader.Line(text.substr(begin, end - begin));
    if (!status.ok()) return status;
    begin = end + 1;
    if (begin - released > kReleaseBytes) {
      file.Release(released, kReleaseBytes);
      released += kReleaseBytes;
    }
  }
  return reader.Finish();
}

void AndroidWriter::WriteFree(const Event& event) {
  write_(absl::StrFormat("%u: free %#x\n", Tid(event.thread), Pointer(event.block)));
}

void AndroidWriter::Add(const Event& event) {
  if (event.kind == EventKind::kUsable) return;
  const bool continues = has_pending_ && event.kind == EventKind::kAllocate &&
                         event.allocation_kind == AllocationKind::kRealloc &&
                         event.previous == pending_.block && event.thread == pending_.thread;
  if (has_pending_ && !continues) WriteFree(pending_);
  has_pending_ = false;
  const uint64_t tid = Tid(event.thread);
  const uint64_t pointer = Pointer(event.block);
  switch (event.kind) {
    case EventKind::kAllocate:
      if (continues) {
        write_(absl::StrFormat("%u: realloc %#x %#x %u\n", tid, pointer, Pointer(event.previous),
                               event.size));
      } else if (event.log2_alignment != 0) {
        write_(absl::StrFormat("%u: memalign %#x %u %u\n", tid, pointer,
                               uint64_t{1} << (event.log2_alignment & 63), event.size));
      } else if (event.allocation_kind == AllocationKind::kCalloc) {
        write_(absl::StrFormat("%u: calloc %#x 1 %u\n", tid, pointer, event.size));
      } else {
        write_(absl::StrFormat("%u: malloc %#x %u\n", tid, pointer, event.size));
      }
      return;
    case EventKind::kFree:
    case EventKind::kImpliedFree:
      pending_ = event;
      has_pending_ = true;
      return;
    case EventKind::kUnmatchedFree:
      // An address that no block has: they are multiples of 16.
      write_(absl::StrFormat("%u: free 0x8\n", tid));
      return;
    case EventKind::kUsable:
      return;
  }
}

void AndroidWriter::Finish() {
  if (has_pending_) WriteFree(pending_);
  has_pending_ = false;
}

}  // namespace reprise::trace
