// See large_arrays.cc: operator new of the whole command is there, too.
#ifndef REPRISE_CLI_LARGE_ARRAYS_H_
#define REPRISE_CLI_LARGE_ARRAYS_H_

namespace reprise::cli {

// From now on large arrays that are freed go back to the system. Left alone, glibc keeps those that
// were freed once, and for every thread, to carve smaller ones from: some 20 bytes per buffer at a
// million buffers. Arrays that make up the peak go back to the system; those of smaller instances
// are reused, or every attempt would fault in its pages.
void ReturnLargeArrays();

}  // namespace reprise::cli

#endif  // REPRISE_CLI_LARGE_ARRAYS_H_
