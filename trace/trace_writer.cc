#include "trace/trace_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trace/chunk.h"
#include "trace/limits.h"
#include "trace/reader.h"
#include "trace/varint.h"

namespace reprise::trace {
namespace {

// What one event takes at most, with a change of the thread before it.
constexpr int kMostEventBytes = 6 * kMostVarintBytes;

char* PutCode(char* out, EventCode code) {
  return PutVarint(out, static_cast<uint64_t>(code) << 2 | 2);
}

template <typename Tag>
void AppendField(std::string& out, Tag tag, const std::string& value) {
  AppendVarint(out, static_cast<uint64_t>(tag));
  AppendText(out, value);
}

template <typename Tag>
void AppendField(std::string& out, Tag tag, uint64_t number) {
  std::string value;
  AppendVarint(value, number);
  AppendField(out, tag, value);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path) {
  auto writer = std::unique_ptr<TraceWriter>(new TraceWriter());
  if (absl::Status opened = writer->OpenFile(path); !opened.ok()) return opened;
  return writer;
}

std::unique_ptr<TraceWriter> TraceWriter::CreateUnnamed(const std::string& folder) {
  auto writer = std::unique_ptr<TraceWriter>(new TraceWriter());
  writer->unnamed_ = std::make_unique<UnnamedFile>(folder);
  writer->process_written_ = true;  // as the first chunk, at the end
  writer->chunks_ = 1;
  return writer;
}

absl::Status TraceWriter::OpenFile(const std::string& path) {
  file_ = std::make_unique<base::AtomicFile>(path);
  if (!file_->ok()) return absl::UnavailableError(file_->problem());
  file_->Write(SealFileHeader());
  return absl::OkStatus();
}

void TraceWriter::WriteChunk(ChunkType type, std::string_view raw) {
  const std::string chunk = SealChunk(type, chunks_++, raw);
  if (unnamed_ != nullptr) {
    unnamed_->Write(chunk);
  } else {
    file_->Write(chunk);
  }
}

void TraceWriter::WriteProcess(const Process& process) {
  std::string raw;
  if (!drop_names_) {  // the places are hashes of names, which can be guessed
    AppendField(raw, ProcessTag::kPlace, process.place);
    AppendField(raw, ProcessTag::kParentPlace, process.parent_place);
  }
  AppendField(raw, ProcessTag::kStartOrder, process.start_order);
  if (!drop_names_) {
    AppendField(raw, ProcessTag::kExecutable, process.executable);
    if (!process.started_as.empty()) AppendField(raw, ProcessTag::kStartedAs, process.started_as);
    AppendField(raw, ProcessTag::kBuildId, process.build_id);
    // Both may hold passwords.
    if (!process.command.empty() || !process.environment.empty()) file_->KeepPrivate();
    if (!process.command.empty()) AppendField(raw, ProcessTag::kCommand, process.command);
    if (!process.environment.empty()) {
      AppendField(raw, ProcessTag::kEnvironment, process.environment);
    }
  }
  AppendField(raw, ProcessTag::kUnpreloadable, process.unpreloadable);
  AppendField(raw, ProcessTag::kComplete, process.complete);
  if (process.peak_rss != 0) AppendField(raw, ProcessTag::kPeakRss, process.peak_rss);
  WriteChunk(ChunkType::kProcess, raw);
  process_written_ = true;
}

// Modules and threads up to those numbers: what stands in a trace does not depend on how much more
// its writer knew.
void TraceWriter::WriteDefinitions(const Recording& tables, size_t modules, size_t threads) {
  if (!process_written_) WriteProcess(tables.process);
  // Definitions of one kind since the last time, split where a chunk would grow too large.
  const auto write = [this](ChunkType type, size_t& written, size_t count, auto append) {
    while (written < count) {
      std::string body;
      const size_t first = written;
      for (; written < count && body.size() < kChunkTarget; ++written) append(body, written);
      std::string raw;
      AppendVarint(raw, first);
      AppendVarint(raw, written - first);
      WriteChunk(type, raw + body);
    }
  };
  write(ChunkType::kModules, modules_written_, modules, [&](std::string& out, size_t i) {
    const Module& module = tables.modules[i];
    AppendText(out, drop_names_ ? absl::StrCat("module ", i) : module.path);
    AppendText(out, drop_names_ ? "" : module.build_id);
    AppendVarint(out, module.base);
  });
  write(ChunkType::kThreads, threads_written_, threads, [&](std::string& out, size_t i) {
    AppendVarint(out, tables.threads[i].path);
    AppendVarint(out, static_cast<uint32_t>(tables.threads[i].parent + 1));
  });
  write(ChunkType::kStacks, stacks_written_, tables.stacks.size(), [&](std::string& out, size_t i) {
    AppendVarint(out, tables.stacks[i].size());
    for (const Frame& frame : tables.stacks[i]) {
      AppendVarint(out, static_cast<uint32_t>(frame.module + 1));
      AppendVarint(out, frame.offset);
    }
  });
  write(ChunkType::kSites, sites_written_, call_sites_.size(), [&](std::string& out, size_t i) {
    const CallSite& call = call_sites_[i];
    const Site site = call.site == kNone ? Site{} : tables.sites[call.site];
    AppendVarint(out, static_cast<uint64_t>(call.kind) | uint64_t{call.log2_alignment} << 2 |
                          uint64_t{call.site != kNone} << 10 | uint64_t{site.stack != kNone} << 11);
    AppendVarint(out, static_cast<uint32_t>(site.module + 1));
    AppendVarint(out, site.offset);
    AppendVarint(out, site.depth);
    if (site.stack != kNone) AppendVarint(out, site.stack);
  });
}

void TraceWriter::FlushEvents(const Recording& tables) {
  for (size_t i = stacks_written_; i < tables.stacks.size(); ++i) {
    for (const Frame& frame : tables.stacks[i]) NeedModule(frame.module);
  }
  WriteDefinitions(tables, modules_needed_, last_freed_.size());
  if (used_ > 0) WriteChunk(ChunkType::kEvents, std::string_view(events_).substr(0, used_));
  used_ = 0;
}

void TraceWriter::BeginEvents(uint32_t thread) {
  events_.resize(kChunkTarget + kMostEventBytes);
  char* out = PutVarint(events_.data(), index_);
  out = PutVarint(out, ordinal_);
  out = PutVarint(out, thread);
  used_ = static_cast<size_t>(out - events_.data());
  thread_ = thread;
  std::fill(last_freed_.begin(), last_freed_.end(), kNever);
}

void TraceWriter::NeedModule(uint32_t module) {
  if (module != kNone) modules_needed_ = std::max<size_t>(modules_needed_, module + 1);
}

uint64_t TraceWriter::Key(const Event& event, const Recording& tables) {
  const uint64_t identity = uint64_t{event.site} << 16 | uint64_t{event.log2_alignment} << 8 |
                            static_cast<uint64_t>(event.allocation_kind);
  LatestKey& latest = latest_keys_[event.site % latest_keys_.size()];
  if (latest.identity == identity) return latest.key;
  const auto [found, added] = key_of_.emplace(identity, static_cast<uint32_t>(call_sites_.size()));
  if (added) {
    call_sites_.push_back({event.site, event.allocation_kind, event.log2_alignment});
    if (event.site != kNone) NeedModule(tables.sites[event.site].module);
  }
  latest = {identity, found->second};
  return found->second;
}

void TraceWriter::Add(const Event& event, const Recording& tables) {
  if (used_ == 0) BeginEvents(event.thread);
  char* out = events_.data() + used_;
  if (event.thread != thread_) {
    out = PutCode(out, EventCode::kThread);
    out = PutVarint(out, event.thread);
    thread_ = event.thread;
  }
  if (last_freed_.size() <= event.thread) last_freed_.resize(event.thread + 1, kNever);
  uint64_t& last_freed = last_freed_[event.thread];
  switch (event.kind) {
    case EventKind::kAllocate:
      if (event.allocation_kind == AllocationKind::kRealloc) {
        if (event.previous != last_freed) {
          out = PutCode(out, EventCode::kPrevious);
          out = PutVarint(out, event.previous == kNever ? 0 : ordinal_ - event.previous);
        }
        last_freed = kNever;
      }
      out = PutVarint(out, Key(event, tables) << 2);
      out = PutVarint(out, event.size);
      ++ordinal_;
      break;
    case EventKind::kFree:
      out = PutVarint(out, (ordinal_ - event.block - 1) << 1 | 1);
      last_freed = event.block;
      break;
    case EventKind::kImpliedFree:
      out = PutCode(out, EventCode::kImpliedFree);
      out = PutVarint(out, ordinal_ - event.block);
      break;
    case EventKind::kUnmatchedFree:
      out = PutCode(out, EventCode::kUnmatchedFree);
      last_freed = kNever;
      break;
    case EventKind::kUsable:
      out = PutCode(out, EventCode::kUsable);
      out = PutVarint(out, ordinal_ - event.block);
      out = PutVarint(out, event.usable);
      break;
  }
  used_ = static_cast<size_t>(out - events_.data());
  if (event.kind != EventKind::kUsable) ++index_;
  if (used_ >= kChunkTarget) FlushEvents(tables);
}

void TraceWriter::WriteMarks(const std::vector<Mark>& marks) {
  constexpr size_t kPerChunk = kChunkTarget / 16;
  for (size_t first = 0; first < marks.size(); first += kPerChunk) {
    const size_t end = std::min(first + kPerChunk, marks.size());
    std::string raw;
    AppendVarint(raw, first);
    AppendVarint(raw, end - first);
    uint64_t event = 0;
    for (size_t i = first; i < end; ++i) {
      AppendVarint(raw, marks[i].event - event);
      AppendVarint(raw, marks[i].thread);
      event = marks[i].event;
    }
    WriteChunk(ChunkType::kMarks, raw);
  }
}

void TraceWriter::WriteThreadNames(const std::vector<Thread>& threads) {
  if (drop_names_ || std::all_of(threads.begin(), threads.end(),
                                 [](const Thread& it) { return it.name.empty(); })) {
    return;
  }
  for (size_t first = 0, end = 0; first < threads.size(); first = end) {
    std::string body;
    for (; end < threads.size() && body.size() < kChunkTarget; ++end) {
      AppendText(body, threads[end].name);
    }
    std::string raw;
    AppendVarint(raw, first);
    AppendVarint(raw, end - first);
    WriteChunk(ChunkType::kThreadNames, raw + body);
  }
}

absl::Status TraceWriter::FinishAs(const std::string& path, const Recording& tables) {
  if (absl::Status opened = OpenFile(path); !opened.ok()) return opened;
  const std::unique_ptr<UnnamedFile> begun = std::move(unnamed_);
  const uint32_t chunks = std::exchange(chunks_, 0);
  WriteProcess(tables.process);
  chunks_ = chunks;
  if (!begun->CopyTo(*file_)) return absl::UnavailableError(path);
  return Finish(tables);
}

absl::Status TraceWriter::Finish(const Recording& tables) {
  FlushEvents(tables);
  WriteDefinitions(tables, tables.modules.size(), tables.threads.size());
  WriteThreadNames(tables.threads);
  WriteMarks(tables.marks);
  if (!tables.damage.empty()) {
    std::string raw;
    const size_t count = tables.damage.size();
    AppendVarint(raw, count);
    for (size_t i = 0; i < count; ++i) {
      AppendVarint(raw, tables.damage[i].offset);
      AppendVarint(raw, tables.damage[i].bytes);
      AppendText(raw, tables.damage[i].reason.substr(0, kMostReasonBytes));
    }
    WriteChunk(ChunkType::kDamage, raw);
  }
  std::string raw;
  AppendField(raw, EndTag::kEvents, index_);
  AppendField(raw, EndTag::kAllocations, ordinal_);
  AppendField(raw, EndTag::kUnmatchedFrees, tables.unmatched_frees);
  AppendField(raw, EndTag::kImpliedFrees, tables.implied_frees);
  AppendField(raw, EndTag::kLostEvents, tables.lost_events);
  WriteChunk(ChunkType::kEnd, raw);

  return file_->Finish() ? absl::OkStatus() : absl::UnavailableError(file_->problem());
}

absl::StatusOr<Recording> Compact(const std::string& from, const std::string& to, bool drop_names,
                                  const std::function<void(const Event&)>& also) {
  absl::StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(to);
  if (!writer.ok()) return writer.status();
  if (drop_names) (*writer)->DropNames();
  Recording tables;
  const absl::Status read = ReadTrace(from, tables, [&](const Event& event) {
    (*writer)->Add(event, tables);
    if (also) also(event);
  });
  if (!read.ok()) return read;
  const absl::Status finished = (*writer)->Finish(tables);
  if (!finished.ok()) return finished;
  return tables;
}

absl::Status WriteRecording(const Recording& recording, const std::string& path) {
  absl::StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path);
  if (!writer.ok()) return writer.status();
  ForEachEvent(recording, [&](const Event& event) { (*writer)->Add(event, recording); });
  return (*writer)->Finish(recording);
}

}  // namespace reprise::trace
