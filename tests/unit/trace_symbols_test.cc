// Names of this test's own code.
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "trace/symbols.h"

namespace reprise::trace {
namespace {

// This executable as a recording would name it.
Module Self() {
  Module self;
  self.path = std::filesystem::read_symlink("/proc/self/exe");
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& module = *static_cast<Module*>(data);
        module.base = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_NOTE) continue;
          const char* at =
              reinterpret_cast<const char*>(info->dlpi_addr) + info->dlpi_phdr[i].p_vaddr;
          const char* end = at + info->dlpi_phdr[i].p_memsz;
          while (at + sizeof(ElfW(Nhdr)) <= end) {
            const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
            const char* name = at + sizeof(*note);
            const char* content = name + (note->n_namesz + 3) / 4 * 4;
            if (note->n_type == NT_GNU_BUILD_ID && std::strcmp(name, "GNU") == 0) {
              module.build_id = absl::BytesToHexString(std::string(content, note->n_descsz));
            }
            at = content + (note->n_descsz + 3) / 4 * 4;
          }
        }
        return 1;  // the executable comes first
      },
      &self);
  return self;
}

// Where the call of this function returns to, as an offset from `base`. Another template argument
// makes another function of it.
[[gnu::noinline]] uint64_t ReturnOffset(uint64_t base) {
  return reinterpret_cast<uint64_t>(__builtin_return_address(0)) - base;
}

template <typename T>
[[gnu::noinline]] uint64_t CallFromTemplate(uint64_t base) {
  const uint64_t offset = ReturnOffset(base);
  asm volatile("");  // no tail call
  return offset;
}

class SymbolsTest : public testing::Test {
 protected:
  SymbolsTest() {
    std::filesystem::remove_all(cache_);
    std::filesystem::create_directories(cache_);
  }
  ~SymbolsTest() override { std::filesystem::remove_all(cache_); }
  std::string cache_ = testing::TempDir() + "reprise-symbols-" + std::to_string(getpid());
};

TEST_F(SymbolsTest, AFunctionHasItsReadableNameFileAndLine) {
  const Module self = Self();
  Symbolizer symbolizer(cache_);
  const Symbol symbol = symbolizer.Find(self, CallFromTemplate<double>(self.base));
  EXPECT_NE(symbol.function.find("CallFromTemplate<double>"), std::string::npos) << symbol.function;
  EXPECT_NE(symbol.file.find("trace_symbols_test.cc"), std::string::npos) << symbol.file;
  EXPECT_GT(symbol.line, 50);
  EXPECT_LT(symbol.line, 80);
  EXPECT_TRUE(symbolizer.Complaints().empty());
}

TEST_F(SymbolsTest, WhatWasFoundIsReadFromTheCache) {
  const Module self = Self();
  const uint64_t offset = CallFromTemplate<int>(self.base);
  Symbol first;
  {
    Symbolizer symbolizer(cache_);
    first = symbolizer.Find(self, offset);
  }
  const std::string path = cache_ + "/" + self.build_id;
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  ASSERT_NE(text.find(first.function), std::string::npos) << path;
  // The file is believed: it names what the executable does not.
  const size_t at = text.find(first.function);
  text.replace(at, first.function.size(), "FromTheCache");
  std::ofstream(path) << text;
  Symbolizer symbolizer(cache_);
  EXPECT_EQ(symbolizer.Find(self, offset).function, "FromTheCache");
}

// As clang makes them.
TEST_F(SymbolsTest, AProgramWithoutATableOfUnitsHasNamesAndLines) {
  Module self = Self();
  const uint64_t offset = CallFromTemplate<double>(self.base);
  const std::string copy = cache_ + "/without_table";
  const std::string command = "objcopy --remove-section .debug_aranges " + self.path + " " + copy;
  ASSERT_EQ(std::system(command.c_str()), 0);
  self.path = copy;
  Symbolizer symbolizer("");
  const Symbol symbol = symbolizer.Find(self, offset);
  EXPECT_NE(symbol.function.find("CallFromTemplate<double>"), std::string::npos) << symbol.function;
  EXPECT_NE(symbol.file.find("trace_symbols_test.cc"), std::string::npos) << symbol.file;
}

TEST_F(SymbolsTest, AnotherBuildHasNoNames) {
  Module other = Self();
  const uint64_t offset = CallFromTemplate<char>(other.base);
  other.build_id = "00";
  Symbolizer symbolizer(cache_);
  EXPECT_EQ(symbolizer.Find(other, offset).function, "");
  ASSERT_EQ(symbolizer.Complaints().size(), 1u);
  EXPECT_NE(symbolizer.Complaints()[0].find("expected build id 00"), std::string::npos);
}

TEST_F(SymbolsTest, WhatIsGoneOrNoProgramHasNoNames) {
  Symbolizer symbolizer(cache_);
  EXPECT_EQ(symbolizer.Find({.path = "/nowhere/lib.so", .build_id = "11", .base = 0}, 64).function,
            "");
  EXPECT_EQ(symbolizer.Find({.path = "/etc/passwd", .build_id = "", .base = 0}, 64).function, "");
  EXPECT_EQ(symbolizer.Find(Self(), UINT64_MAX).function, "");
}

TEST_F(SymbolsTest, ADamagedCacheDoesNoHarm) {
  const Module self = Self();
  std::ofstream(cache_ + "/" + self.build_id)
      << "reprise-symbols 1\nx\ty\n\t\t\t\n99999999999999999999\t1\ta\tb\n5\n";
  Symbolizer symbolizer(cache_);
  EXPECT_NE(symbolizer.Find(self, CallFromTemplate<long>(self.base)).function, "");
}

}  // namespace
}  // namespace reprise::trace
