#include "trace/symbols.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/text.h"
#include "trace/function_names.h"
#include "trace/module_file.h"
#include "trace/symbol_table.h"

namespace reprise::trace {
namespace {

constexpr char kCacheHeader[] = "reprise-symbols 4 ";  // and which files its names are of
constexpr uint64_t kMostCacheBytes = 64 << 20;
constexpr char kDebugFolder[] = "/usr/lib/debug/.build-id/";

bool debuginfod_allowed = false;

// Whether it can stand in a line of the cache.
bool IsOneField(const std::string& text) {
  return text.find_first_of(std::string_view("\t\n\0", 3)) == std::string::npos;
}

std::string Demangle(const char* name) {
  if (name == nullptr) return {};
  int status = 0;
  char* readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && readable != nullptr ? readable : name;
  std::free(readable);
  return result;
}

std::string NameOf(Dwarf_Die& function) {
  for (const unsigned attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    Dwarf_Attribute found;
    if (dwarf_attr_integrate(&function, attribute, &found) == nullptr) continue;
    const std::string name = Demangle(dwarf_formstring(&found));
    if (!name.empty()) return name;
  }
  const char* plain = dwarf_diename(&function);
  return plain != nullptr ? plain : "";
}

// Where an inlined function was called.
void SetPlaceOfCall(Dwarf_Die* unit, Dwarf_Die& inlined, Symbol& symbol) {
  Dwarf_Attribute found;
  Dwarf_Word number = 0, line = 0;
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &found), &line) != 0 ||
      dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &found), &number) != 0 ||
      dwarf_getsrcfiles(unit, &files, &count) != 0) {
    return;
  }
  const char* file = dwarf_filesrc(files, number, nullptr, nullptr);
  if (file == nullptr) return;
  symbol.file = file;
  symbol.line = static_cast<int>(line);
}

// The name of the innermost function, inlined or not, whose code `address` belongs to; without the
// unit's bias. Inlined functions that only carry requests are passed over: then also the place of
// their call. `symbol` has the place of the innermost one.
void NameFunction(Dwarf_Die* unit, Dwarf_Addr address, Symbol& symbol) {
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes(unit, address, &scopes);
  const auto is_function = [](Dwarf_Die& scope) {
    const int tag = dwarf_tag(&scope);
    return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
  };
  for (int i = 0; i < count && symbol.function.empty(); ++i) {
    if (!is_function(scopes[i])) continue;
    symbol.function = NameOf(scopes[i]);
    if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine || !CarriesRequests(symbol.function)) {
      continue;
    }
    // dwarf_getscopes goes on with where the inlined function is defined, this with its callers.
    Dwarf_Die* callers = nullptr;
    const int levels = dwarf_getscopes_die(&scopes[i], &callers);
    Symbol found = symbol;
    for (int k = 0; k < levels && CarriesRequests(found.function); ++k) {
      if (!is_function(callers[k])) continue;
      found.function = NameOf(callers[k]);
      if (CarriesRequests(found.function)) SetPlaceOfCall(unit, callers[k], found);
    }
    std::free(callers);
    if (!found.function.empty() && !CarriesRequests(found.function)) symbol = found;
    break;
  }
  std::free(scopes);
}

// Where debug information that is installed apart lies. `build_id` is one, of four digits or more.
std::string DebugFile(const std::string& build_id) {
  return absl::StrCat(kDebugFolder, build_id.substr(0, 2), "/", build_id.substr(2), ".debug");
}

// Dwfl_Callbacks: a module that is reported has its file already.
int FindNoElf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; }

// Dwfl_Callbacks: debug information that is installed apart is found by build id, and nowhere else;
// what the file itself names may be anything.
int FindDebugInfo(Dwfl_Module* module, void** data, const char* name, Dwarf_Addr base,
                  const char* file, const char* link, GElf_Word crc, char** found) {
  const unsigned char* bits = nullptr;
  GElf_Addr where = 0;
  const int length = dwfl_module_build_id(module, &bits, &where);
  if (length <= 0) return -1;
  const std::string id = absl::BytesToHexString(
      std::string(reinterpret_cast<const char*>(bits), static_cast<size_t>(length)));
  if (!IsBuildId(id) || id.size() < 4) return -1;
  const std::string path = DebugFile(id);
  const absl::StatusOr<ModuleFile> opened = OpenModuleFile(path);
  if (opened.ok()) {
    *found = strdup(path.c_str());
    return opened->descriptor;
  }
  if (!debuginfod_allowed) return -1;
  return dwfl_standard_find_debuginfo(module, data, name, base, file, link, crc, found);
}

// As long as it lives, this process gets at most so many bytes more than it has. For one call of a
// library that reports it when it gets none.
class MemoryLimit {
 public:
  explicit MemoryLimit(uint64_t more) {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    if (pages == 0 || getrlimit(RLIMIT_AS, &before_) != 0) return;
    rlimit limit = before_;
    limit.rlim_cur = std::min<rlim_t>(pages * 4096 + more, before_.rlim_cur);
    limited_ = setrlimit(RLIMIT_AS, &limit) == 0;
  }
  ~MemoryLimit() {
    if (limited_) setrlimit(RLIMIT_AS, &before_);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
  bool limited_ = false;
};

// A stretch of code, up to `end`, and the unit of the debug information that tells of it.
struct Unit {
  Dwarf_Addr end = 0;
  Dwarf_Die* die = nullptr;
  Dwarf_Addr bias = 0;  // what the debug information is shifted by
};

}  // namespace

// A module with its symbol tables, opened when the first name is asked that the cache lacks.
struct Symbolizer::LoadedModule {
  std::string path, build_id;
  std::string cache_file, cache_header;  // empty: nothing is kept
  std::map<uint64_t, Symbol> known;
  bool known_changed = false;
  bool opened = false;
  std::string complaint;
  Dwfl* session = nullptr;
  Dwfl_Module* module = nullptr;
  Dwarf_Addr bias = 0;
  // By where its code begins; read when it is needed for the first time.
  std::map<Dwarf_Addr, Unit> units;
  bool units_read = false;
  std::optional<SymbolTable> symbols;  // read when it is needed for the first time

  ~LoadedModule() {
    if (session != nullptr) dwfl_end(session);
  }

  void Open() {
    opened = true;
    static const Dwfl_Callbacks kCallbacks = {
        .find_elf = FindNoElf,
        .find_debuginfo = FindDebugInfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = nullptr,
    };
    const absl::StatusOr<ModuleFile> file = OpenModuleFile(path);
    if (!file.ok()) {
      complaint = absl::StrCat(file.status().message(), ": its call sites have no names");
      return;
    }
    session = dwfl_begin(&kCallbacks);
    module = session == nullptr
                 ? nullptr
                 : dwfl_report_offline(session, path.c_str(), path.c_str(), file->descriptor);
    if (module == nullptr) {  // else the session has the descriptor
      complaint = absl::StrCat(path, ": ", dwfl_errmsg(-1));
      close(file->descriptor);
      return;
    }
    dwfl_report_end(session, nullptr, nullptr);
    const unsigned char* bits = nullptr;
    GElf_Addr where = 0;
    const int length = dwfl_module_build_id(module, &bits, &where);
    const std::string found =
        length > 0 ? absl::BytesToHexString(std::string(reinterpret_cast<const char*>(bits),
                                                        static_cast<size_t>(length)))
                   : std::string();
    if (found != build_id) {
      complaint = absl::StrCat(path, ": expected build id ", build_id.empty() ? "none" : build_id,
                               ", found ", found.empty() ? "none" : found,
                               ": its call sites have no names");
      module = nullptr;
      return;
    }
    if (file->has_packed_symbols) {
      constexpr uint64_t kUnpacked = 1 << 30;  // with what the file itself takes
      const MemoryLimit limit(kUnpacked);
      dwfl_module_getsymtab(module);
    }
    dwfl_module_getelf(module, &bias);
  }

  // The unit that has the code at `address`; its die is null where there is none.
  Unit FindUnit(Dwarf_Addr address) {
    Unit found;
    found.die = dwfl_module_addrdie(module, address, &found.bias);
    if (found.die != nullptr) return found;
    // clang writes no table of which unit has which code (.debug_aranges).
    if (!std::exchange(units_read, true)) ReadUnits();
    const auto after = units.upper_bound(address);
    if (after == units.begin() || address >= std::prev(after)->second.end) return {};
    return std::prev(after)->second;
  }

  void ReadUnits() {
    Unit unit;
    while ((unit.die = dwfl_module_nextcu(module, unit.die, &unit.bias)) != nullptr) {
      Dwarf_Addr base = 0, begin = 0;
      ptrdiff_t next = 0;
      while ((next = dwarf_ranges(unit.die, next, &base, &begin, &unit.end)) > 0) {
        unit.end += unit.bias;
        units[begin + unit.bias] = unit;
      }
    }
  }

  Symbol Look(uint64_t offset) {
    Symbol symbol;
    if (module == nullptr || offset == 0) return symbol;
    // A return address is the one after the call.
    const Dwarf_Addr address = bias + offset - 1;
    if (const Unit unit = FindUnit(address); unit.die != nullptr) {
      if (Dwarf_Line* line = dwarf_getsrc_die(unit.die, address - unit.bias)) {
        dwarf_lineno(line, &symbol.line);
        const char* file = dwarf_linesrc(line, nullptr, nullptr);
        if (file != nullptr) symbol.file = file;
      }
      NameFunction(unit.die, address - unit.bias, symbol);
    }
    if (symbol.function.empty()) {
      if (!symbols) symbols.emplace(module);
      symbol.function = Demangle(symbols->Find(address));
    }
    return symbol;
  }

  void ReadCache() {
    std::error_code error;
    // Not a pipe, nor a device, nor a link to one.
    if (std::filesystem::symlink_status(cache_file, error).type() !=
            std::filesystem::file_type::regular ||
        std::filesystem::file_size(cache_file, error) > kMostCacheBytes) {
      return;
    }
    std::ifstream file(cache_file);
    std::string line;
    if (!std::getline(file, line) || line != cache_header) return;
    while (std::getline(file, line)) {
      const std::vector<std::string> fields = absl::StrSplit(line, '\t');
      Symbol symbol;
      uint64_t offset = 0;
      if (fields.size() != 4 || !absl::SimpleAtoi(fields[0], &offset) ||
          !absl::SimpleAtoi(fields[1], &symbol.line)) {
        continue;
      }
      // A server may know more than what is installed.
      if (symbol.line == 0 && debuginfod_allowed) continue;
      symbol.function = fields[2];
      symbol.file = fields[3];
      known.emplace(offset, symbol);
    }
  }

  void WriteCache() const {
    if (!known_changed || cache_file.empty()) return;
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(cache_file).parent_path(), error);
    base::AtomicFile file(cache_file);
    file.Write(cache_header + "\n");
    for (const auto& [offset, symbol] : known) {
      if (!IsOneField(symbol.function) || !IsOneField(symbol.file)) continue;
      file.Write(
          absl::StrCat(offset, "\t", symbol.line, "\t", symbol.function, "\t", symbol.file, "\n"));
    }
    file.Finish();  // without it names are looked up again
  }
};

void AllowDebuginfod() { debuginfod_allowed = true; }

std::string Symbolizer::DefaultCache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return absl::StrCat(cache, "/reprise/symbols");
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return absl::StrCat(home, "/.cache/reprise/symbols");
  return {};
}

Symbolizer::Symbolizer(std::string cache) : cache_(std::move(cache)) {}

Symbolizer::~Symbolizer() {
  for (const auto& [key, module] : modules_) module->WriteCache();
}

Symbolizer::LoadedModule& Symbolizer::Load(const Module& module) {
  std::unique_ptr<LoadedModule>& loaded = modules_[{module.path, module.build_id}];
  if (loaded == nullptr) {
    loaded = std::make_unique<LoadedModule>();
    loaded->path = module.path;
    loaded->build_id = module.build_id;
    // A build id is what the trace says. What was read from a file is that file's only: else a
    // forged one with the build id of another would name the other's functions.
    const std::string identity = FileIdentity(module.path);
    if (!cache_.empty() && IsBuildId(module.build_id) && !identity.empty() &&
        IsOneField(module.path)) {
      loaded->cache_file = absl::StrCat(cache_, "/", module.build_id);
      // Names become better when debug information is installed.
      const std::string debug =
          module.build_id.size() < 4 ? "" : FileIdentity(DebugFile(module.build_id));
      loaded->cache_header = absl::StrCat(kCacheHeader, identity, " ", debug, " ", module.path);
      loaded->ReadCache();
    }
  }
  return *loaded;
}

Symbol Symbolizer::Find(const Module& module, uint64_t offset) {
  LoadedModule& loaded = Load(module);
  const auto found = loaded.known.find(offset);
  if (found != loaded.known.end()) return found->second;
  if (!loaded.opened) loaded.Open();
  const Symbol symbol = loaded.Look(offset);
  loaded.known.emplace(offset, symbol);
  loaded.known_changed |= loaded.module != nullptr;
  return symbol;
}

std::vector<std::string> Symbolizer::Complaints() const {
  std::vector<std::string> complaints;
  for (const auto& [key, module] : modules_) {
    if (!module->complaint.empty()) complaints.push_back(module->complaint);
  }
  return complaints;
}

std::string DescribeSite(const Recording& recording, uint32_t index, const Symbol& symbol,
                         bool whole) {
  if (index == kNone) return "(unknown)";
  if (index < recording.buffer_names.size()) return base::Printable(recording.buffer_names[index]);
  const Site& site = recording.sites[index];
  return DescribeFrame(recording, {site.module, site.offset}, symbol, whole);
}

std::string DescribeFrame(const Recording& recording, const Frame& frame, const Symbol& symbol,
                          bool whole) {
  const std::string module =
      frame.module == kNone ? std::string() : base::FileName(recording.modules[frame.module].path);
  if (symbol.function.empty()) {
    return module.empty() ? absl::StrFormat("%#x", frame.offset)
                          : base::Printable(absl::StrFormat("%s+%#x", module, frame.offset));
  }
  const std::string function = whole ? symbol.function : ShortName(symbol.function);
  return base::Printable(
      symbol.line == 0
          ? absl::StrCat(function, " (", module, ")")
          : absl::StrCat(function, " (", base::FileName(symbol.file), ":", symbol.line, ")"));
}

Symbol FindSymbol(const Recording& recording, const Frame& frame, Symbolizer& symbolizer) {
  if (frame.module == kNone) return {};
  return symbolizer.Find(recording.modules[frame.module], frame.offset);
}

const std::vector<Frame>& CallersOf(const Recording& recording, uint32_t site) {
  static const std::vector<Frame> kNobody;
  if (site == kNone || recording.sites[site].stack == kNone) return kNobody;
  return recording.stacks[recording.sites[site].stack];
}

}  // namespace reprise::trace
