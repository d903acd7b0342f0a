// The size of a page. Hook-safe.
#ifndef REPRISE_BASE_PAGE_H_
#define REPRISE_BASE_PAGE_H_

#include <stdint.h>

namespace reprise::base {

// Bytes. The plan and trace formats count in pages of this size, so other ones are not supported.
inline constexpr uint64_t kPageBytes = 4096;

}  // namespace reprise::base

#endif  // REPRISE_BASE_PAGE_H_
