// Variable-length integers: seven bits per byte, the lowest first, the top bit says that more
// follow. At most ten bytes; the tenth is 0 or 1.
#ifndef REPRISE_TRACE_VARINT_H_
#define REPRISE_TRACE_VARINT_H_

#include <cstdint>
#include <span>
#include <string>

namespace reprise::trace {

inline constexpr int kMostVarintBytes = 10;

// Writes to `out`, which has room for kMostVarintBytes; the end of what was written.
inline char* PutVarint(char* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<char>(value | 0x80);
  *out++ = static_cast<char>(value);
  return out;
}

inline void AppendVarint(std::string& out, uint64_t value) {
  char bytes[kMostVarintBytes];
  out.append(bytes, PutVarint(bytes, value));
}

inline void AppendText(std::string& out, const std::string& text) {
  AppendVarint(out, text.size());
  out += text;
}

// Reads from bytes that may be anything. After the first failure ok() is false and every read
// gives 0, so a caller may read a whole group before it looks.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  explicit ByteReader(const std::string& bytes)
      : ByteReader({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}) {}

  bool ok() const { return ok_; }
  bool empty() const { return next_ == end_; }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && next_ != end_; shift += 7) {
      const uint64_t byte = *next_++;
      if (shift == 63 && byte > 1) break;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Fail();
  }

  std::string Text() {
    const uint64_t size = Varint();
    if (size > static_cast<uint64_t>(end_ - next_)) {
      Fail();
      return {};
    }
    std::string text(reinterpret_cast<const char*>(next_), size);
    next_ += size;
    return text;
  }

 private:
  uint64_t Fail() {
    ok_ = false;
    next_ = end_;
    return 0;
  }

  const uint8_t* next_;
  const uint8_t* end_;
  bool ok_ = true;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_VARINT_H_
