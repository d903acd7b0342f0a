// The program limits what it may map. What of our reservation is not in use would be taken from
// that, so it is given back.
#ifndef REPRISE_INTERPOSE_GIVE_BACK_H_
#define REPRISE_INTERPOSE_GIVE_BACK_H_

#include <sys/resource.h>

namespace reprise::interpose {

// Called before the process gives itself such a limit. Once is enough.
void BeforeLimit(int resource, const rlimit* limit);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_GIVE_BACK_H_
