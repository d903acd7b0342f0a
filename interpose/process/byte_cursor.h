// Reads the numbers of .eh_frame: fixed widths, LEB128, and pointers in their encodings.
#ifndef REPRISE_INTERPOSE_PROCESS_BYTE_CURSOR_H_
#define REPRISE_INTERPOSE_PROCESS_BYTE_CURSOR_H_

#include <stdint.h>
#include <string.h>

namespace reprise::interpose {

// How a pointer is encoded: its form in the low four bits, what it counts from in the next three.
enum PointerEncoding : uint8_t {
  kPointerForm = 0x0f,
  kPointerBase = 0x70,
  kPointerFromHere = 0x10,
  kPointerTable = 0x3b,  // from the header's beginning, four bytes with a sign
};

// What lies beyond `end` reads as zero and makes it not ok().
class ByteCursor {
 public:
  ByteCursor(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  const uint8_t* at() const { return at_; }
  const uint8_t* end() const { return end_; }
  bool ok() const { return ok_; }
  bool empty() const { return at_ >= end_; }
  void Skip(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(end_ - at_)) return Fail();
    at_ += bytes;
  }

  template <typename Number>
  Number Fixed() {
    Number number{};
    if (static_cast<uint64_t>(end_ - at_) < sizeof(number)) {
      Fail();
      return number;
    }
    memcpy(&number, at_, sizeof(number));
    at_ += sizeof(number);
    return number;
  }

  uint64_t Unsigned() {
    int ignored;
    return Leb(&ignored);
  }
  int64_t Signed() {
    int bits;
    const uint64_t value = Leb(&bits);
    const bool negative = bits < 64 && (value >> (bits - 1) & 1) != 0;
    return static_cast<int64_t>(negative ? value | ~uint64_t{0} << bits : value);
  }

  uint64_t Pointer(uint8_t encoding) {
    const auto here = reinterpret_cast<uint64_t>(at_);
    uint64_t value = 0;
    switch (encoding & kPointerForm) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = Fixed<uint64_t>();
        break;
      case 0x02:
        value = Fixed<uint16_t>();
        break;
      case 0x03:
        value = Fixed<uint32_t>();
        break;
      case 0x0a:
        value = static_cast<uint64_t>(int64_t{Fixed<int16_t>()});
        break;
      case 0x0b:
        value = static_cast<uint64_t>(int64_t{Fixed<int32_t>()});
        break;
      default:
        Fail();
    }
    if ((encoding & kPointerBase) == kPointerFromHere) return value + here;
    if ((encoding & kPointerBase) != 0) Fail();
    return value;
  }

 private:
  void Fail() {
    ok_ = false;
    at_ = end_;
  }

  uint64_t Leb(int* bits) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = Fixed<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) != 0) continue;
      *bits = shift + 7;
      return value;
    }
  }

  const uint8_t* at_;
  const uint8_t* end_;
  bool ok_ = true;
};

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_BYTE_CURSOR_H_
