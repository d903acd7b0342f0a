// Words in pictures that are made of pixels: letters of five by seven dots.
#ifndef REPRISE_REPORT_BITMAP_FONT_H_
#define REPRISE_REPORT_BITMAP_FONT_H_

#include <cstdint>
#include <string_view>

#include "report/raster.h"

namespace reprise::report {

// Dots of a line of text: how wide one letter is with the gap after it, and how high.
inline constexpr int kLetterWidth = 6, kLetterHeight = 7;

// Letters in `text`, which is UTF-8: code points.
int CountLetters(std::string_view text);

// Writes `text` from (`left`, `top`) on, `scale` pixels per dot; outside the image nothing. Knows
// ASCII and the sign ≤; everything else is a question mark.
void DrawLetters(Image& image, int left, int top, int scale, uint32_t colour,
                 std::string_view text);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_BITMAP_FONT_H_
