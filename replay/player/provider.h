// Which allocator really serves this process, asked from inside it: others have measured the wrong
// one because a preload silently failed.
#ifndef REPRISE_REPLAY_PLAYER_PROVIDER_H_
#define REPRISE_REPLAY_PLAYER_PROVIDER_H_

namespace reprise::replay {

struct Provider {
  char object[1024];  // path of the object that malloc comes from
  char version[128];  // as that object tells it; empty when it does not
  bool mixed;         // the family is served by more than one object
};

// Does not allocate, except what the allocator's own answer needs.
Provider FindProvider();

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAYER_PROVIDER_H_
