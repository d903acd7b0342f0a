#include "report/raster.h"

#include <png.h>

#include <algorithm>
#include <cmath>

namespace reprise::report {

Raster Paint(const trace::Recording& recording, const HeapMap& map, const Bounds& sizes,
             const RasterView& view, uint32_t width, uint32_t height, bool edges) {
  Raster raster{.width = width, .height = height, .coverage = {}, .group = {}};
  const size_t pixels = size_t{width} * height;
  raster.coverage.assign(pixels, 0);
  raster.group.assign(pixels, 0);
  const double per_event = width / (view.end - view.begin);
  const double per_byte = height / (view.top - view.bottom);
  // Half-open range of pixels, and how much of a lone one is covered.
  struct Extent {
    uint32_t from, to;
    double weight;
  };
  const auto extent = [](double low, double high, uint32_t most) {
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(most));
    auto from = static_cast<uint32_t>(low);
    auto to = static_cast<uint32_t>(high + 0.5);
    double weight = 1;
    if (to <= from + 1) {
      to = from + 1;
      weight = std::min(1.0, high - low);
    } else {
      from = static_cast<uint32_t>(low + 0.5);
    }
    return Extent{from, std::min(to, most), weight};
  };
  std::vector<uint32_t> blocks[kMostClasses];
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    if (map.offsets[i] != HeapMap::kNowhere) {
      blocks[ClassOf(sizes, recording.allocations[i].size)].push_back(i);
    }
  }
  // How coverage changes from the pixel on the left, one class at a time: however long a block
  // lives, it costs two additions per row. Whole numbers, so that begin and end cancel out.
  constexpr double kFull = 1 << 20;
  const size_t stride = size_t{width} + 1;
  std::vector<int32_t> changes;
  std::vector<float> most(pixels, 0);
  for (size_t size_class = 0; size_class < kMostClasses; ++size_class) {
    if (blocks[size_class].empty()) continue;
    changes.assign(stride * height, 0);
    for (const uint32_t i : blocks[size_class]) {
      const trace::Allocation& it = recording.allocations[i];
      const auto birth = static_cast<double>(trace::TimeOf(recording, it.birth));
      const auto death = static_cast<double>(
          trace::TimeOf(recording, it.death == trace::kNever ? recording.events : it.death));
      const auto low = static_cast<double>(map.offsets[i]);
      const double high = low + static_cast<double>(it.size);
      if (birth >= view.end || death <= view.begin || low >= view.top || high <= view.bottom) {
        continue;
      }
      const Extent x =
          extent((birth - view.begin) * per_event, (death - view.begin) * per_event, width);
      const Extent y = extent((view.top - high) * per_byte, (view.top - low) * per_byte, height);
      const auto weight = std::max<int32_t>(1, static_cast<int32_t>(kFull * x.weight * y.weight));
      // What is large enough to be told from its neighbours is paler at the top and on the right.
      const bool large = edges && x.to - x.from > 4 && y.to - y.from > 4;
      const int32_t pale = large ? weight * 2 / 5 : 0;
      for (uint32_t row = y.from; row < y.to; ++row) {
        const bool top = large && row == y.from;
        changes[row * stride + x.from] += top ? weight - pale : weight;
        if (!top) changes[row * stride + x.to - 1] -= pale;
        changes[row * stride + x.to] -= weight - pale;
      }
    }
    for (uint32_t row = 0; row < height; ++row) {
      int64_t covered = 0;
      for (uint32_t column = 0; column < width; ++column) {
        covered += changes[row * stride + column];
        if (covered == 0) continue;
        const size_t pixel = size_t{row} * width + column;
        const auto share = static_cast<float>(static_cast<double>(covered) / kFull);
        raster.coverage[pixel] += share;
        if (share <= most[pixel]) continue;
        most[pixel] = share;
        raster.group[pixel] = static_cast<uint8_t>(size_class);
      }
    }
  }
  return raster;
}

HeldRows WhenHeld(const trace::Recording& recording, const HeapMap& map, uint32_t rows) {
  HeldRows held = {.times = std::vector<std::vector<uint64_t>>(rows)};
  const double per_byte = rows / static_cast<double>(std::max<int64_t>(map.height, 1));
  const auto is_held = [&](uint32_t row) { return held.times[row].size() % 2 == 1; };
  uint32_t now = 0, most = 0;
  size_t returned = 0;
  for (size_t i = 0; i < map.offsets.size(); ++i) {
    const trace::Allocation& it = recording.allocations[i];
    const uint64_t time = trace::TimeOf(recording, it.birth);
    if (map.offsets[i] != HeapMap::kNowhere && it.size != 0) {
      const auto low = static_cast<double>(map.offsets[i]) * per_byte;
      const double high = low + static_cast<double>(it.size) * per_byte;
      const uint32_t end = std::min(rows, static_cast<uint32_t>(std::ceil(high)));
      for (uint32_t row = std::min(rows, static_cast<uint32_t>(low)); row < end; ++row) {
        if (is_held(row)) continue;
        held.times[row].push_back(time);
        ++now;
      }
    }
    // Rows of which half was given back.
    for (; returned < map.returned.size() && map.returned[returned].allocations <= i + 1;
         ++returned) {
      const auto low = static_cast<double>(map.returned[returned].begin) * per_byte;
      const double high = low + static_cast<double>(map.returned[returned].bytes) * per_byte;
      const uint32_t end = std::min(rows, static_cast<uint32_t>(high + 0.5));
      for (auto row = static_cast<uint32_t>(low + 0.5); row < end; ++row) {
        if (!is_held(row)) continue;
        held.times[row].push_back(time);
        --now;
      }
    }
    if (now > most) {
      most = now;
      held.grown = time;
    }
  }
  return held;
}

Image Colourize(const Raster& raster, size_t classes) {
  Image image{.width = raster.width, .height = raster.height, .pixels = {}};
  image.pixels.assign(raster.coverage.size(), 0);
  const std::vector<Colour> colours = ClassColours(classes, /*dark=*/false);
  for (size_t i = 0; i < raster.coverage.size(); ++i) {
    if (raster.coverage[i] <= 0) continue;
    // What is hardly covered stays visible.
    const double covered = std::min(1.0f, raster.coverage[i]);
    const auto alpha =
        static_cast<uint32_t>(std::lround(255 * (0.10 + 0.90 * std::pow(covered, 0.75))));
    const Colour& colour = colours[raster.group[i]];
    image.pixels[i] =
        alpha << 24 | uint32_t{colour.blue} << 16 | uint32_t{colour.green} << 8 | colour.red;
  }
  return image;
}

std::string EncodePng(const Image& image) {
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  header.width = image.width;
  header.height = image.height;
  header.format = PNG_FORMAT_RGBA;
  png_alloc_size_t bytes = 0;
  if (png_image_write_to_memory(&header, nullptr, &bytes, 0, image.pixels.data(), 0, nullptr) ==
      0) {
    return {};
  }
  std::string file(bytes, '\0');
  if (png_image_write_to_memory(&header, file.data(), &bytes, 0, image.pixels.data(), 0, nullptr) ==
      0) {
    return {};
  }
  file.resize(bytes);
  return file;
}

}  // namespace reprise::report
