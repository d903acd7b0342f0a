#include "interpose/record/epochs.h"

#include <string.h>

#include "base/system_call.h"

namespace reprise::interpose {

// Pages of its own, so that they can be dropped.
alignas(4096) uint64_t turn_slots[kTurnSlots];

void ForgetTurns() {
  pulse.newest_turn = 0;
  pulse.note_from = kNoteNone;
  if (Advise(turn_slots, sizeof(turn_slots), MADV_DONTNEED) != 0) {
    memset(turn_slots, 0, sizeof(turn_slots));
  }
}

}  // namespace reprise::interpose
