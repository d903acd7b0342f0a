// Threads: who they are (their path, session.h) and what happens when they start and end.
#ifndef REPRISE_INTERPOSE_PROCESS_THREADS_H_
#define REPRISE_INTERPOSE_PROCESS_THREADS_H_

#include <pthread.h>
#include <stdint.h>
#include <threads.h>

namespace reprise::interpose {

// Names the calling thread the main thread. Called once, in Start(). `end` is called in each thread
// when its last destructor of a key runs; not in a forked child.
void StartMainThread(void (*end)());

// Names a thread that came to be without our knowing (timers, asynchronous I/O and other threads of
// libc's own) by the place in the code that it allocates at first, and by how many threads began
// there before it. 0: the place is not known. One that AnnounceThread told of is named by that.
void NameUnknownThread(uint64_t address);

// pthread_create and thrd_create, with the new thread named before it runs. `create` is libc's. The
// library has been started, and a fork noticed.
int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                 void* argument);
int CreateThread(decltype(thrd_create)* create, thrd_t* thread, thrd_start_t start, void* argument);

// Before clone() makes a thread whose thread-local storage is at `thread_pointer`: it will be named
// as a child of the calling one.
void AnnounceThread(void* thread_pointer);

// In a forked child the calling thread is the only one: it keeps its name and becomes thread 0.
void RenewThreadAfterFork();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_THREADS_H_
