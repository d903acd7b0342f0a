#include "trace/function_names.h"

#include <gtest/gtest.h>

#include "trace/call_sites.h"

namespace reprise::trace {
namespace {

TEST(FunctionNames, ShortNamesLeaveOutTypes) {
  EXPECT_EQ(ShortName("std::vector<int, std::allocator<int> >::push_back(int&&)"),
            "std::vector<…>::push_back(…)");
  EXPECT_EQ(ShortName("std::__cxx11::basic_string<char, std::char_traits<char> >::_M_assign("
                      "std::__cxx11::basic_string<char> const&)"),
            "std::string::_M_assign(…)");
  EXPECT_EQ(ShortName("std::unique_ptr<A<B<C> > > make<A<B<C> > >(unsigned long)"), "make<…>(…)");
  EXPECT_EQ(ShortName("unsigned long f<int>()"), "f<…>()");
  EXPECT_EQ(ShortName("T::size() const"), "T::size()");
}

TEST(FunctionNames, ShortNamesKeepWhatIsNoType) {
  for (const char* name : {"main", "PyUnicode_New", "", "core::ptr::read", "f(", "a<b"}) {
    EXPECT_EQ(ShortName(name), name);
  }
  EXPECT_EQ(ShortName("(anonymous namespace)::f(int)"), "(anonymous namespace)::f(…)");
  EXPECT_EQ(ShortName("void ns::(anonymous namespace)::f(int)"), "ns::(anonymous namespace)::f(…)");
  EXPECT_EQ(ShortName("operator new(unsigned long)"), "operator new(…)");
  EXPECT_EQ(ShortName("operator new[](unsigned long)"), "operator new[](…)");
  EXPECT_EQ(ShortName("A::operator()(int) const"), "A::operator()(…)");
  EXPECT_EQ(ShortName("A::operator->() const"), "A::operator->()");
  EXPECT_EQ(ShortName("std::ostream& std::operator<< <char>(std::ostream&, char)"),
            "std::operator<<<…>(…)");
  EXPECT_EQ(ShortName("bool operator< <int>(A<int> const&)"), "operator<<…>(…)");
  EXPECT_EQ(ShortName("A::operator bool() const"), "A::operator bool()");
  EXPECT_EQ(ShortName("f(int) const::{lambda(int)#2}::operator()(int) const"),
            "f(…)::{lambda(int)#2}::operator()(…)");
  EXPECT_EQ(ShortName("<std::vec::Vec<T> as core::Clone>::clone"),
            "<std::vec::Vec<T> as core::Clone>::clone");
}

TEST(FunctionNames, CarriersAreTheAllocatorsAndWhatStdKeepsToItself) {
  for (const char* name :
       {"operator new(unsigned long)", "std::__new_allocator<int>::allocate(unsigned long)",
        "std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&, unsigned "
        "long)",
        "std::_Vector_base<int, std::allocator<int> >::_M_allocate(unsigned long)",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long)", "__rust_alloc",
        "void std::vector<int>::_M_realloc_insert<int>(int&&)"}) {
    EXPECT_TRUE(CarriesRequests(name)) << name;
  }
  for (const char* name : {"main", "std::vector<int>::push_back(int&&)", "_private", "",
                           "my::operator_new()", "A::_M_grow()"}) {
    EXPECT_FALSE(CarriesRequests(name)) << name;
  }
  EXPECT_TRUE(StartsProgram("_start"));
  EXPECT_FALSE(StartsProgram("main"));
}

TEST(CallSites, NoTwoLinesAreAlike) {
  const CallSiteText first = {"f", "a.c:1", "m+0x1", true, {"g (a.c:9)"}};
  CallSiteText place = first, callers = first, address = first;
  place.place = "a.c:2";
  callers.callers = {"h (a.c:9)"};
  address.address = "m+0x2";
  EXPECT_EQ(DistinctLines({first}, Detail::kFunction), (std::vector<std::string>{"f"}));
  EXPECT_EQ(DistinctLines({first, place}, Detail::kFunction),
            (std::vector<std::string>{"f (a.c:1)", "f (a.c:2)"}));
  EXPECT_EQ(DistinctLines({first, callers}, Detail::kFunction),
            (std::vector<std::string>{"f (a.c:1) ← g (a.c:9)", "f (a.c:1) ← h (a.c:9)"}));
  EXPECT_EQ(DistinctLines({first, address}, Detail::kPlace),
            (std::vector<std::string>{"f (m+0x1) ← g (a.c:9)", "f (m+0x2) ← g (a.c:9)"}));
  EXPECT_EQ(DistinctLines({first, first}, Detail::kFunction)[1], "f (m+0x1) ← g (a.c:9) #2");
}

}  // namespace
}  // namespace reprise::trace
