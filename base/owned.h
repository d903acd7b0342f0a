// What one thread writes and other threads may read at the same time.
#ifndef REPRISE_BASE_OWNED_H_
#define REPRISE_BASE_OWNED_H_

namespace reprise::replay {

// A number or a pointer. All but Seen is for the owner, to whom it is an ordinary variable: the
// same instructions (x86-64), but each change is one store. Hook-safe.
template <typename T>
class Owned {
 public:
  operator T() const { return value_; }  // NOLINT: as a variable
  T operator=(T value) {
    __atomic_store_n(&value_, value, __ATOMIC_RELEASE);
    return value;
  }
  T operator++() { return *this = value_ + 1; }
  T operator--() { return *this = value_ - 1; }
  T operator|=(T bits) { return *this = value_ | bits; }
  T operator&=(T bits) { return *this = value_ & bits; }
  T operator^=(T bits) { return *this = value_ ^ bits; }
  template <typename Distance>
  T operator+=(Distance distance) {
    return *this = value_ + distance;
  }

  // operator++ of a pointer as one instruction that needs no register.
  void Step() {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    asm volatile("addq %1, %0" : "+m"(value_) : "i"(sizeof(*value_)) : "memory", "cc");
#else
    ++*this;
#endif
  }

  // By any thread, which then sees what the owner wrote before, too.
  T Seen() const { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }

 private:
  T value_;
};

}  // namespace reprise::replay

#endif  // REPRISE_BASE_OWNED_H_
