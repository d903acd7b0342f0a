// Where the arena of replay puts the blocks of a recording: from a plan whose threads have no boxes
// in part, or without any plan from its shared heap alone.
#ifndef REPRISE_REPLAY_COMPARE_ARENA_PLACEMENT_H_
#define REPRISE_REPLAY_COMPARE_ARENA_PLACEMENT_H_

#include "absl/status/statusor.h"
#include "replay/compare/player/compile_script.h"
#include "replay/plan/plan_file.h"
#include "trace/recording.h"

namespace reprise::replay {

// Lets an arena serve the recording, in the recorded order, in this process: no block is written
// to. `plan` is one of this recording that passed VerifyPlan; null: there is none, and no thread
// has a lane. Offsets begin with the heap; boxes lie behind it. Unavailable when the system refuses
// the addresses.
absl::StatusOr<Placement> PlaceByArena(const trace::Recording& recording, const PlanFile* plan);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_ARENA_PLACEMENT_H_
