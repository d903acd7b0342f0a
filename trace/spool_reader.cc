#include "trace/spool_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "trace/limits.h"
#include "trace/module_map.h"
#include "trace/spool_format.h"
#include "trace/spool_index.h"

namespace reprise::trace {
namespace {

absl::StatusOr<SpoolHeader> ReadHeader(const MappedFile& file, const std::string& path) {
  SpoolHeader header;
  const auto bytes = file.bytes();
  if (bytes.size() < sizeof(header.magic) ||
      std::memcmp(bytes.data(), &kSpoolMagic, sizeof(kSpoolMagic)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": offset 0: expected a spool"));
  }
  if (bytes.size() < sizeof(header)) {
    return absl::DataLossError(absl::StrCat(path, ": offset ", bytes.size(),
                                            ": expected a header of ", kSpoolHeaderBytes,
                                            " bytes, found the end of the file"));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.byte_order != kSpoolByteOrder) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": offset 12: expected this machine's byte order, found another"));
  }
  if (header.version != kSpoolVersion) {
    return absl::UnimplementedError(absl::StrCat(path, ": offset 8: expected spool version ",
                                                 kSpoolVersion, ", found ", header.version));
  }
  return header;
}

std::vector<LoadedModule> ReadModules(const MappedFile& file, const SpoolHeader& header,
                                      std::vector<Damage>& damage) {
  std::vector<LoadedModule> modules;
  size_t loaded = 0;  // the others are no modules
  const uint64_t size = file.bytes().size();
  const uint64_t used = std::min(header.module_bytes_used, kSpoolModuleBytes);
  const uint64_t end = std::min(kSpoolHeaderBytes + used, size);
  for (uint64_t at = kSpoolHeaderBytes; at + sizeof(SpoolModule) <= end;) {
    SpoolModule record;
    std::memcpy(&record, file.bytes().data() + at, sizeof(record));
    if (record.bytes == 0) break;
    const uint64_t text = uint64_t{record.path_bytes} + record.build_id_bytes;
    if (record.bytes > end - at || sizeof(SpoolModule) + text > record.bytes) {
      AddDamage(damage, {at, end - at, "not a module record"});
      break;
    }
    const auto* name = reinterpret_cast<const char*>(file.bytes().data() + at + sizeof(record));
    if (record.begin < record.end && ++loaded > kMostModules) {
      AddDamage(damage, {at, end - at, absl::StrCat("more than ", kMostModules, " modules")});
      break;
    }
    LoadedModule module;
    module.module.path.assign(name, record.path_bytes);
    module.module.build_id =
        absl::BytesToHexString(absl::string_view(name + record.path_bytes, record.build_id_bytes));
    module.module.base = record.base;
    module.begin = record.begin;
    module.end = record.end;
    module.epoch = record.epoch;
    modules.push_back(std::move(module));
    at += (record.bytes + 7) & ~uint64_t{7};
  }
  return modules;
}

Process DescribeProcess(const SpoolHeader& header, const std::vector<LoadedModule>& modules) {
  Process process;
  process.place = header.place;
  process.parent_place = header.parent_place;
  process.start_order = header.start_order;
  process.executable.assign(header.executable,
                            strnlen(header.executable, sizeof(header.executable)));
  const size_t used = process.executable.size() + 1;
  if (used < sizeof(header.executable)) {
    process.started_as.assign(header.executable + used,
                              strnlen(header.executable + used, sizeof(header.executable) - used));
  }
  for (const LoadedModule& module : modules) {
    if (module.module.path == process.executable) process.build_id = module.module.build_id;
    if (module.end != 0) continue;
    if (module.module.base == kSpoolCommand) process.command = module.module.path;
    if (module.module.base == kSpoolEnvironment) process.environment = module.module.path;
  }
  process.unpreloadable = header.unpreloadable;
  process.complete = header.complete == 1;
  process.peak_rss = header.peak_rss;
  return process;
}

// By the paths of their threads.
std::map<uint64_t, std::string> ThreadNames(const std::vector<LoadedModule>& records) {
  std::map<uint64_t, std::string> names;
  for (const LoadedModule& record : records) {
    const bool is_name = record.module.base == kSpoolThreadName && record.begin == record.end;
    if (is_name && record.end != 0) names[record.end] = record.module.path;
  }
  return names;
}

}  // namespace

bool IsOpenForWriting(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  // A lease for reading is refused just then. It ends with the descriptor.
  const bool refused = fcntl(fd, F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN;
  close(fd);
  return refused;
}

absl::StatusOr<SpoolRecords> ReadSpoolRecords(const MappedFile& file, const std::string& path,
                                              std::vector<Damage>& damage) {
  absl::StatusOr<SpoolHeader> header = ReadHeader(file, path);
  if (!header.ok()) return header.status();
  SpoolRecords records;
  records.header = *header;
  records.modules = ReadModules(file, *header, damage);
  records.process = DescribeProcess(*header, records.modules);
  records.thread_names = ThreadNames(records.modules);
  std::erase_if(records.modules, [](const LoadedModule& it) { return it.begin >= it.end; });
  return records;
}

absl::Status FinishSpool(const MappedFile& file, const SpoolRecords& records, Recording& recording,
                         SpoolIndex& index, SpoolMerge& merge, SpoolInterpreter& interpreter) {
  recording.process = records.process;
  recording.lost_events += records.header.lost_events;
  index.AddAll(file, records.header);
  index.Settle();
  if (index.late()) return absl::AbortedError("the order of events is not what it seemed");
  for (Thread& thread : recording.threads) {
    const auto name = records.thread_names.find(thread.path);
    if (name != records.thread_names.end()) thread.name = name->second;
  }
  merge.Add(index.TakeSegments(), &file);
  merge.Run(interpreter, UINT64_MAX);
  return absl::OkStatus();
}

absl::Status ReadSpool(const MappedFile& file, const std::string& path, Recording& recording,
                       absl::FunctionRef<void(const Event&)> on_event) {
  absl::StatusOr<SpoolRecords> records = ReadSpoolRecords(file, path, recording.damage);
  if (!records.ok()) return records.status();
  SpoolIndex index(recording);
  SpoolMerge merge;
  SpoolInterpreter interpreter(recording, records->modules, records->header.stack_base, index,
                               on_event);
  absl::Status read = FinishSpool(file, *records, recording, index, merge, interpreter);
  if (!read.ok()) return read;
  absl::StatusOr<SpoolHeader> now = ReadHeader(file, path);
  if (now.ok() && now->rewritten_count != records->header.rewritten_count) {
    AddDamage(recording.damage,
              {kSpoolChunksOffset, 0, "the process wrote chunks anew while they were read"});
  }
  return absl::OkStatus();
}

absl::StatusOr<Process> ReadSpoolProcess(const MappedFile& file, const std::string& path) {
  absl::StatusOr<SpoolHeader> header = ReadHeader(file, path);
  if (!header.ok()) return header.status();
  std::vector<Damage> ignored;
  return DescribeProcess(*header, ReadModules(file, *header, ignored));
}

bool SpoolHasBegun(const std::string& path) {
  uint64_t magic = 0;
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&magic), sizeof(magic));
  return magic != 0 || !file.is_open();
}

bool StillRuns(uint32_t pid, uint64_t start_time) {
  // The 22nd field is the start time; the second, in parentheses, may hold anything.
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  const std::string line((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return false;
  const std::vector<std::string> fields =
      absl::StrSplit(line.substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kState = 0;
  constexpr size_t kThreads = 17;
  constexpr size_t kStartTime = 19;
  uint64_t found = 0;
  if (fields.size() <= kStartTime || !absl::SimpleAtoi(fields[kStartTime], &found) ||
      found != start_time) {
    return false;
  }
  // The main thread may have ended, and not the others.
  const bool main_ended = fields[kState] == "Z" || fields[kState] == "X";
  return !main_ended || (fields[kThreads] != "0" && fields[kThreads] != "1");
}

bool SpoolHasWriter(const std::string& path) {
  // A process in a namespace of its own goes by another number there.
  if (IsOpenForWriting(path)) return true;
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return false;
  absl::StatusOr<SpoolHeader> header = ReadHeader(*file, path);
  return header.ok() && StillRuns(header->pid, header->start_time);
}

SpoolProcess WriterOf(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return {};
  const absl::StatusOr<SpoolHeader> header = ReadHeader(*file, path);
  return header.ok() ? SpoolProcess{header->pid, header->start_time, header->lost_events}
                     : SpoolProcess{};
}

void CutSpool(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return;
  const absl::StatusOr<SpoolHeader> header = ReadHeader(*file, path);
  if (!header.ok() || header->chunks_used > file->bytes().size() / kSpoolChunkBytes ||
      header->copies > file->bytes().size() / kSpoolChunkBytes) {
    return;
  }
  uint64_t end = kSpoolChunksOffset + header->chunks_used * kSpoolChunkBytes;
  if (header->copies > 0) end = header->copies_offset + header->copies * kSpoolChunkBytes;
  if (end < file->bytes().size() && truncate(path.c_str(), static_cast<off_t>(end)) != 0) {
    // It is as long as before.
  }
}

}  // namespace reprise::trace
