#include "interpose/record/epochs.h"

#include <string.h>

#include "base/system_call.h"

namespace reprise::interpose {

// Pages of its own, so that they can be dropped.
alignas(4096) uint64_t epoch_slots[kEpochSlots];

void ForgetEpochs() {
  fast_state.newest_epoch = 0;
  fast_state.note_from = kNoteNone;
  if (Advise(epoch_slots, sizeof(epoch_slots), MADV_DONTNEED) != 0) {
    memset(epoch_slots, 0, sizeof(epoch_slots));
  }
}

}  // namespace reprise::interpose
