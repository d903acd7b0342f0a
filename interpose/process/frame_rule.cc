#include "interpose/process/frame_rule.h"

#include <dlfcn.h>

#include "interpose/process/byte_cursor.h"

namespace reprise::interpose {
namespace {

// What frames of one kind have in common: a common information entry (CIE).
struct Common {
  uint64_t code_unit = 1;
  int64_t data_unit = 1;
  uint8_t pointer_encoding = 0;
  bool interrupted = false;
  bool augmented = false;
  const uint8_t* program = nullptr;
  const uint8_t* end = nullptr;
};

// The entry at `at`: its content, without the length; an empty one where there is none.
ByteCursor Entry(const uint8_t* at) {
  uint32_t length;
  memcpy(&length, at, sizeof(length));
  constexpr uint32_t kLonger = 0xffffffff;  // 64-bit lengths are not used in .eh_frame
  if (length == kLonger) length = 0;
  return {at + sizeof(length), at + sizeof(length) + length};
}

void SkipBlock(ByteCursor& bytes) {
  const uint64_t length = bytes.Unsigned();
  bytes.Skip(length);
}

bool ReadCommon(const uint8_t* at, Common* common) {
  ByteCursor bytes = Entry(at);
  common->end = bytes.end();
  const auto id = bytes.Fixed<uint32_t>();
  const auto version = bytes.Fixed<uint8_t>();
  if (id != 0 || (version != 1 && version != 3)) return false;
  const auto* letters = reinterpret_cast<const char*>(bytes.at());
  bytes.Skip(strnlen(letters, common->end - bytes.at()) + 1);
  common->code_unit = bytes.Unsigned();
  common->data_unit = bytes.Signed();
  const uint64_t return_register = version == 1 ? bytes.Fixed<uint8_t>() : bytes.Unsigned();
  if (!bytes.ok() || return_register != kReturnAddress) return false;
  common->program = bytes.at();
  if (letters[0] == 0) return true;
  if (letters[0] != 'z') return false;
  common->augmented = true;
  const uint64_t augmentation = bytes.Unsigned();
  common->program = bytes.at() + augmentation;
  for (const char* letter = letters + 1; *letter != 0 && bytes.ok(); ++letter) {
    if (*letter == 'R') {
      common->pointer_encoding = bytes.Fixed<uint8_t>();
    } else if (*letter == 'P') {
      const auto encoding = bytes.Fixed<uint8_t>();
      bytes.Pointer(encoding & kPointerForm);
    } else if (*letter == 'L') {
      bytes.Skip(1);
    } else if (*letter == 'S') {
      common->interrupted = true;
    } else {
      return false;
    }
  }
  return bytes.ok() && common->program <= common->end;
}

// Runs the programs that describe how the rules change from one place in a function to the next.
class RuleMachine {
 public:
  RuleMachine(const Common& common, FrameRule* rule) : common_(common), rule_(*rule) {}

  // Goes on until behind `target`. False: it holds what we do not know.
  bool Run(const uint8_t* begin, const uint8_t* end, uint64_t location, uint64_t target) {
    ByteCursor bytes(begin, end);
    while (!bytes.empty() && location <= target) {
      const auto code = bytes.Fixed<uint8_t>();
      const uint8_t low = code & 0x3f;
      switch (code >> 6) {
        case 1:
          location += low * common_.code_unit;
          break;
        case 2:
          Set(low, RegisterRule::kSaved, Scaled(bytes));
          break;
        case 3:
          Restore(low);
          break;
        default:
          if (!Extended(low, bytes, location)) return false;
      }
    }
    return bytes.ok();
  }

  // What the common program has set is what functions go back to.
  void KeepAsInitial() { initial_ = rule_; }

 private:
  static constexpr int kMostRemembered = 2;

  int64_t Scaled(ByteCursor& bytes) {
    return static_cast<int64_t>(bytes.Unsigned()) * common_.data_unit;
  }
  int64_t ScaledSigned(ByteCursor& bytes) { return bytes.Signed() * common_.data_unit; }

  void Set(uint64_t number, RegisterRule::Kind kind, int64_t value) {
    if (number < kRegisters) rule_.registers[number] = {kind, value};
  }
  void Restore(uint64_t number) {
    if (number < kRegisters) rule_.registers[number] = initial_.registers[number];
  }
  void SetExpression(uint64_t number, RegisterRule::Kind kind, ByteCursor& bytes) {
    if (number < kRegisters)
      rule_.registers[number] = {kind, reinterpret_cast<int64_t>(bytes.at())};
    SkipBlock(bytes);
  }
  void SetCfa(uint64_t number, int64_t offset) {
    rule_.cfa = {RegisterRule::kOffset, offset};
    rule_.cfa_register = static_cast<uint8_t>(number < kRegisters ? number : kReturnAddress);
  }

  bool Extended(uint8_t code, ByteCursor& bytes, uint64_t& location) {
    uint64_t number;
    switch (code) {
      case 0x00:  // nop
        return true;
      case 0x01:  // set_loc
        location = bytes.Pointer(common_.pointer_encoding);
        return true;
      case 0x02:
        location += bytes.Fixed<uint8_t>() * common_.code_unit;
        return true;
      case 0x03:
        location += bytes.Fixed<uint16_t>() * common_.code_unit;
        return true;
      case 0x04:
        location += bytes.Fixed<uint32_t>() * common_.code_unit;
        return true;
      case 0x05:  // offset_extended
        number = bytes.Unsigned();
        Set(number, RegisterRule::kSaved, Scaled(bytes));
        return true;
      case 0x06:
        Restore(bytes.Unsigned());
        return true;
      case 0x07:
        Set(bytes.Unsigned(), RegisterRule::kUndefined, 0);
        return true;
      case 0x08:
        Set(bytes.Unsigned(), RegisterRule::kSame, 0);
        return true;
      case 0x09:  // register
        number = bytes.Unsigned();
        Set(number, RegisterRule::kRegister, static_cast<int64_t>(bytes.Unsigned()));
        return true;
      case 0x0a:  // remember_state
        if (remembered_ == kMostRemembered) return false;
        states_[remembered_++] = rule_;
        return true;
      case 0x0b:
        if (remembered_ == 0) return false;
        rule_ = states_[--remembered_];
        return true;
      case 0x0c:  // def_cfa
        number = bytes.Unsigned();
        SetCfa(number, static_cast<int64_t>(bytes.Unsigned()));
        return true;
      case 0x0d:
        SetCfa(bytes.Unsigned(), rule_.cfa.value);
        return true;
      case 0x0e:
        SetCfa(rule_.cfa_register, static_cast<int64_t>(bytes.Unsigned()));
        return true;
      case 0x0f:  // def_cfa_expression
        rule_.cfa = {RegisterRule::kExpression, reinterpret_cast<int64_t>(bytes.at())};
        SkipBlock(bytes);
        return true;
      case 0x10:
        number = bytes.Unsigned();
        SetExpression(number, RegisterRule::kSavedExpression, bytes);
        return true;
      case 0x11:  // offset_extended_sf
        number = bytes.Unsigned();
        Set(number, RegisterRule::kSaved, ScaledSigned(bytes));
        return true;
      case 0x12:  // def_cfa_sf
        number = bytes.Unsigned();
        SetCfa(number, ScaledSigned(bytes));
        return true;
      case 0x13:
        SetCfa(rule_.cfa_register, ScaledSigned(bytes));
        return true;
      case 0x14:  // val_offset
        number = bytes.Unsigned();
        Set(number, RegisterRule::kOffset, Scaled(bytes));
        return true;
      case 0x15:
        number = bytes.Unsigned();
        Set(number, RegisterRule::kOffset, ScaledSigned(bytes));
        return true;
      case 0x16:
        number = bytes.Unsigned();
        SetExpression(number, RegisterRule::kExpression, bytes);
        return true;
      case 0x2e:  // GNU_args_size: for exceptions only
        bytes.Unsigned();
        return true;
      default:
        return false;
    }
  }

  const Common& common_;
  FrameRule& rule_;
  FrameRule initial_;
  FrameRule states_[kMostRemembered];
  int remembered_ = 0;
};

// The entry of the function that holds `address` (FDE); null when the module's table has none.
// `header`: the .eh_frame_hdr section.
const uint8_t* FindFunction(const uint8_t* header, uint64_t address) {
  constexpr uint8_t kVersion = 1;
  if (header == nullptr || header[0] != kVersion || header[3] != kPointerTable) return nullptr;
  ByteCursor bytes(header + 4, header + 64);
  bytes.Pointer(header[1]);
  const uint64_t count = bytes.Pointer(header[2]);
  if (!bytes.ok() || count == 0) return nullptr;
  struct Row {
    int32_t begin, entry;  // from the header's beginning
  };
  const auto* rows = reinterpret_cast<const Row*>(bytes.at());
  const int64_t wanted = static_cast<int64_t>(address - reinterpret_cast<uint64_t>(header));
  if (wanted < rows[0].begin) return nullptr;
  uint64_t low = 0, high = count;  // rows[low] begins at or before it, rows[high] behind it
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (rows[middle].begin <= wanted ? low : high) = middle;
  }
  return header + rows[low].entry;
}

}  // namespace

bool FindFrameRule(uint64_t address, FrameRule* rule) {
  dl_find_object found;
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return false;
  const uint8_t* entry = FindFunction(static_cast<const uint8_t*>(found.dlfo_eh_frame), address);
  if (entry == nullptr) return false;
  ByteCursor bytes = Entry(entry);
  const uint8_t* const here = bytes.at();
  const auto back = bytes.Fixed<uint32_t>();
  Common common;
  if (!bytes.ok() || back == 0 || !ReadCommon(here - back, &common)) return false;
  const uint64_t begin = bytes.Pointer(common.pointer_encoding);
  const uint64_t size = bytes.Pointer(common.pointer_encoding & kPointerForm);
  if (common.augmented) SkipBlock(bytes);
  if (!bytes.ok() || address - begin >= size) return false;
  *rule = {};
  rule->interrupted = common.interrupted;
  RuleMachine machine(common, rule);
  if (!machine.Run(common.program, common.end, 0, UINT64_MAX)) return false;
  machine.KeepAsInitial();
  return machine.Run(bytes.at(), bytes.end(), begin, address);
}

}  // namespace reprise::interpose
