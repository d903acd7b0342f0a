// Where an image stands in the process tree: what it is (executable, arguments, working directory)
// below what its parent is. Equal in the next run of the same program, whatever process ids are.
#ifndef REPRISE_INTERPOSE_PROCESS_IMAGE_KEY_H_
#define REPRISE_INTERPOSE_PROCESS_IMAGE_KEY_H_

#include <stddef.h>
#include <stdint.h>

namespace reprise::interpose {

// The place of an image below `parent_place` (0: none). `arguments` are zero-separated, as in
// /proc/self/cmdline; names below /tmp, and what follows in the same argument, count as one
// name with its extension, because compilers make them up anew in every run. Never 0.
uint64_t Place(uint64_t parent_place, const char* executable, const char* arguments,
               size_t argument_bytes, const char* working_directory);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_IMAGE_KEY_H_
