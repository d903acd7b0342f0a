// How to get from a frame to its caller's: what compilers write into .eh_frame for every place in
// the code. Debian's binaries keep no frame pointers, so this is the only way up their stacks.
//
// Takes no lock and allocates nothing: the module comes from _dl_find_object (glibc 2.35), its
// rules from a table sorted by address. libgcc's _Unwind_Backtrace takes a mutex when a program
// registers frames of generated code, and allocates under it: a recorder that comes in there would
// wait for itself. Source: DWARF 5, section 6.4; Linux Standard Base, .eh_frame.
#ifndef REPRISE_INTERPOSE_PROCESS_FRAME_RULE_H_
#define REPRISE_INTERPOSE_PROCESS_FRAME_RULE_H_

#include <stdint.h>

namespace reprise::interpose {

// As DWARF numbers them on x86-64.
inline constexpr int kFramePointer = 6;  // rbp
inline constexpr int kStackPointer = 7;  // rsp
inline constexpr int kReturnAddress = 16;
inline constexpr int kRegisters = 17;

// Where a register's value in the caller is to be found. CFA: the value of the stack pointer before
// the call, from which all else is counted.
struct RegisterRule {
  enum Kind : uint8_t {
    kSame,             // it was not changed
    kUndefined,        // nowhere; of the return address: this is the outermost frame
    kSaved,            // in memory at CFA + value
    kOffset,           // it is CFA + value
    kRegister,         // in register `value`
    kSavedExpression,  // in memory at what the expression at address `value` says
    kExpression,       // it is what that expression says: a length (ULEB128), then its bytes
  };
  Kind kind = kSame;
  int64_t value = 0;
};

struct FrameRule {
  RegisterRule cfa;  // kOffset: of register `cfa_register`; or kExpression
  uint8_t cfa_register = 0;
  bool interrupted = false;  // a signal handler's: the frame above was not left by a call
  RegisterRule registers[kRegisters];
};

// The rule for the code at `address`; false when none is known.
bool FindFrameRule(uint64_t address, FrameRule* rule);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_FRAME_RULE_H_
