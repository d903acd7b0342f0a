// Heap maps as pixels: how much of each pixel is covered by blocks, and of what size they are.
#ifndef REPRISE_REPORT_RASTER_H_
#define REPRISE_REPORT_RASTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/model.h"
#include "trace/recording.h"

namespace reprise::report {

// The part of a map that is shown: events across, bytes upwards.
struct RasterView {
  double begin = 0, end = 1;   // events
  double bottom = 0, top = 1;  // bytes
};

// Row by row from the top, as report/page/raster.js paints it.
struct Raster {
  uint32_t width = 0, height = 0;
  std::vector<float> coverage;  // 0 empty, 1 and more: full
  std::vector<uint8_t> group;   // size class of the block that covers most; where covered
};

// 0: up to 32 bytes, then a factor of four each, up to 8.
inline constexpr int kSizeClasses = 9;
int SizeClass(uint64_t bytes);
extern const char* const kSizeClassNames[kSizeClasses];

// Blocks thinner than a pixel count with the part of it that they cover. `edges`: large ones are
// paler at two sides, so that neighbours can be told apart. Time: proportional to the blocks and
// the pixels.
Raster Paint(const trace::Recording& recording, const HeapMap& map, const RasterView& view,
             uint32_t width, uint32_t height, bool edges);

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
};
// The colour of a size class on a light page, as in report/page/colours.js.
Colour SizeColour(int size_class);

// Pixels with alpha, 0xAABBGGRR, row by row.
struct Image {
  uint32_t width = 0, height = 0;
  std::vector<uint32_t> pixels;
};
Image Colourize(const Raster& raster);

// The image as a PNG file; empty when libpng failed.
std::string EncodePng(const Image& image);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_RASTER_H_
