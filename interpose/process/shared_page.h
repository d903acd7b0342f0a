// Where the library's small variables lie.
#ifndef REPRISE_INTERPOSE_PROCESS_SHARED_PAGE_H_
#define REPRISE_INTERPOSE_PROCESS_SHARED_PAGE_H_

// All on one page, which is written to in any case, also those that begin as zero: else the linker
// spreads them between the large tables, and each brings a page of its own into every program.
#define REPRISE_SHARED_PAGE [[gnu::section(".data")]]

#endif  // REPRISE_INTERPOSE_PROCESS_SHARED_PAGE_H_
