// The functions that the symbol tables of a module name, in the order of their addresses.
#ifndef REPRISE_TRACE_SYMBOL_TABLE_H_
#define REPRISE_TRACE_SYMBOL_TABLE_H_

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <vector>

namespace reprise::trace {

// Memory: 24 bytes for each function. dwfl_module_addrname goes through all symbols each time.
class SymbolTable {
 public:
  // Reads the tables, the first time that they are wanted. `module` outlives what it names.
  explicit SymbolTable(Dwfl_Module* module);

  // The mangled name of the function that has the code at `address`; of several the one that begins
  // last. Null: there is none.
  const char* Find(uint64_t address) const;

 private:
  struct Function {
    uint64_t begin = 0;
    uint64_t size = 0;  // bytes; 0: not known
    int index = 0;      // in the module's tables
    int preference = 0;
  };
  const char* NameOf(const Function& function) const;

  Dwfl_Module* module_;
  std::vector<Function> functions_;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SYMBOL_TABLE_H_
