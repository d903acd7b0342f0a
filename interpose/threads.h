// Threads: who they are (their path, session.h) and what happens when they start and end.
#ifndef REPRISE_INTERPOSE_THREADS_H_
#define REPRISE_INTERPOSE_THREADS_H_

#include <pthread.h>

namespace reprise::interpose {

// Names the calling thread the main thread. Called once, in Start().
void StartMainThread();

// In replay: has the calling thread's end noticed before the destructors of its keys run, whose
// order is not ours to choose, and of which one is mimalloc's. It is no key's, and comes after
// those of the thread-local objects when it is the first to be registered. What libc allocates for
// it does not come from the plan.
void WatchThreadLeaving();

// Names a thread that came to be without our pthread_create (aio, libc internals).
void NameUnknownThread();

// pthread_create, with the new thread named before it runs.
int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                 void* argument);

// In a forked child the calling thread is the only one: it keeps its name and becomes thread 0.
void RenewThreadAfterFork();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_THREADS_H_
