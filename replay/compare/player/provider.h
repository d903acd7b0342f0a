// Which allocator really serves this process, asked from inside it: others have measured the wrong
// one because a preload silently failed.
#ifndef REPRISE_REPLAY_COMPARE_PLAYER_PROVIDER_H_
#define REPRISE_REPLAY_COMPARE_PLAYER_PROVIDER_H_

namespace reprise::replay {

struct Provider {
  char object[1024];  // path of the object that malloc comes from
  char version[128];  // as that object tells it; empty when it does not
  bool mixed;         // the family is served by more than one object
  bool usable;        // malloc_usable_size belongs to it, too
};

// What the player calls.
inline constexpr int kFamilySize = 5;
extern const char* const kFamily[kFamilySize];

// Path of the object that the dynamic linker binds `symbol` to; empty when there is none.
const char* ObjectOf(const char* symbol);

// Does not allocate, except what the allocator's own answer needs.
Provider FindProvider();

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_PLAYER_PROVIDER_H_
