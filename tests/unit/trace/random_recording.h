// Recordings made up from a seed, with every kind of event in them.
#ifndef REPRISE_TESTS_UNIT_TRACE_RANDOM_RECORDING_H_
#define REPRISE_TESTS_UNIT_TRACE_RANDOM_RECORDING_H_

#include <cstdint>

#include "trace/recording.h"

namespace reprise::trace {

// The same for the same arguments. At least `events` events; frees and births mixed, several
// threads and modules, reallocs, alignments, usable answers, unmatched and implied frees.
Recording RandomRecording(uint64_t seed, uint64_t events);

// Fails the running test where the two differ.
void ExpectSame(const Recording& actual, const Recording& expected);

}  // namespace reprise::trace

#endif  // REPRISE_TESTS_UNIT_TRACE_RANDOM_RECORDING_H_
