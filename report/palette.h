// The colours of maps, for pictures and for the page: computed in OKLCH, so that steps look equal
// and light and dark pages have the same order. What is live is quiet; what is wasted is not.
#ifndef REPRISE_REPORT_PALETTE_H_
#define REPRISE_REPORT_PALETTE_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace reprise::report {

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
};

// The colours of `count` classes in their order: large blocks are farthest from the paper.
std::vector<Colour> ClassColours(size_t count, bool dark);

// Memory that is held and holds nothing: before the map grew for the last time, and after it.
Colour WasteColour(bool dark);
Colour IdleColour(bool dark);

// {"light": {"classes": […], "names": […], "other": …, "dim": …, "waste": …,
// "idle": …}, "dark": …}: lists of
// [red, green, blue]; `classes[n]` are the colours of n classes, `names` tells call sites apart.
nlohmann::ordered_json PaletteFacts();

}  // namespace reprise::report

#endif  // REPRISE_REPORT_PALETTE_H_
