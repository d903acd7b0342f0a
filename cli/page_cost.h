// What the memory of this machine costs, as far as replay goes by it.
#ifndef REPRISE_CLI_PAGE_COST_H_
#define REPRISE_CLI_PAGE_COST_H_

namespace reprise::cli {

// Whether pages that are given back to the system and used again are dear. Where a machine is its
// own, or its processor keeps a virtual machine's page tables, four take 2 to 10 µs; where the host
// does that (PVM), ten times as much. It is tried, which takes some hundred µs at most.
bool PagesAreDear();

}  // namespace reprise::cli

#endif  // REPRISE_CLI_PAGE_COST_H_
