// What is loaded, and what of it is given back.
#include "interpose/process/modules.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>

namespace reprise::interpose {
namespace {

constexpr size_t kPage = 4096;

// Three pages of the executable that nothing else lies in.
alignas(kPage) const volatile uint8_t constant[3 * kPage] = {7};

// As a debugger writes a breakpoint. programs_test.resident shows that the others go.
TEST(ModulesTest, APageThatWasWrittenToIsNotGivenBack) {
  auto* changed = const_cast<uint8_t*>(constant) + kPage;
  ASSERT_EQ(mprotect(changed, kPage, PROT_READ | PROT_WRITE), 0);
  *static_cast<volatile uint8_t*>(changed) = 1;
  ASSERT_EQ(mprotect(changed, kPage, PROT_READ), 0);
  DropCleanPages(changed);
  EXPECT_EQ(constant[0], 7);
  EXPECT_EQ(constant[kPage], 1);
  EXPECT_EQ(constant[2 * kPage], 0);
}

TEST(ModulesTest, FindsTheModuleOfAnAddress) {
  LoadedModule module;
  const auto address = reinterpret_cast<uint64_t>(constant);
  ASSERT_TRUE(FindModule(address, &module));
  EXPECT_LE(module.begin, address);
  EXPECT_GT(module.end, address);
  EXPECT_FALSE(FindModule(0, &module));
}

TEST(ModulesTest, FindsTheFunctionsOfAModuleByName) {
  const auto libc = reinterpret_cast<uint64_t>(&gnu_get_libc_version);
  for (const char* name : {"gnu_get_libc_version", "dlvsym", "strtol", "fopen"}) {
    EXPECT_EQ(SymbolOf(libc, name), dlsym(RTLD_NEXT, name)) << name;
  }
  EXPECT_EQ(SymbolOf(libc, "no_such_function"), nullptr);
  EXPECT_EQ(SymbolOf(0, "dlvsym"), nullptr);
}

}  // namespace
}  // namespace reprise::interpose
