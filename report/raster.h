// Heap maps as pixels: how much of each pixel is covered by blocks, and of what size they are.
#ifndef REPRISE_REPORT_RASTER_H_
#define REPRISE_REPORT_RASTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/classes.h"
#include "report/model.h"
#include "report/palette.h"
#include "trace/recording.h"

namespace reprise::report {

// The part of a map that is shown: time across, bytes upwards.
struct RasterView {
  double begin = 0, end = 1;   // time (trace::TimeOf)
  double bottom = 0, top = 1;  // bytes
};

// Row by row from the top, as report/page/raster.js paints it.
struct Raster {
  uint32_t width = 0, height = 0;
  std::vector<float> coverage;  // 0 empty, 1 and more: full
  std::vector<uint8_t> group;   // size class of the block that covers most; where covered
};

// Blocks thinner than a pixel count with the part of it that they cover. `edges`: large ones are
// paler at two sides, so that neighbours can be told apart. Time: proportional to the blocks and
// the pixels.
Raster Paint(const trace::Recording& recording, const HeapMap& map, const Bounds& sizes,
             const RasterView& view, uint32_t width, uint32_t height, bool edges);

// When each of `rows` equal parts of the map, the lowest first, was held: from its first block on
// until it was given back, and again.
inline constexpr uint32_t kHeldRows = 256;
struct HeldRows {
  // Times per row: from, to, from, to, ...; without an end: up to the map's.
  std::vector<std::vector<uint64_t>> times;
  uint64_t grown = 0;  // when as many were held as ever
};
HeldRows WhenHeld(const trace::Recording& recording, const HeapMap& map, uint32_t rows);

// Pixels with alpha, 0xAABBGGRR, row by row.
struct Image {
  uint32_t width = 0, height = 0;
  std::vector<uint32_t> pixels;
};
// On a light page; `classes`: how many there are.
Image Colourize(const Raster& raster, size_t classes);

// The image as a PNG file; empty when libpng failed.
std::string EncodePng(const Image& image);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_RASTER_H_
