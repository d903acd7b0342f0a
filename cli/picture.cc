#include "cli/picture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "cli/command.h"
#include "cli/raster.h"

namespace reprise::cli {
namespace {

// Pixels. The map inside is painted at twice that.
constexpr int kWidth = 960, kLeft = 78, kRight = 16, kTop = 58, kPlotHeight = 220, kGap = 56;
constexpr int kPlotWidth = kWidth - kLeft - kRight;
constexpr int kScale = 2;

constexpr char kInk[] = "#1c1e21", kQuiet[] = "#61656d", kLine[] = "#e3e4e7", kAccent[] = "#b3312c";
constexpr char kFont[] = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Bytes(double bytes) { return HumanBytes(bytes); }

std::string Count(double count) {
  if (count >= 1e6) return absl::StrFormat("%g M", count / 1e6);
  if (count >= 1e3) return absl::StrFormat("%g k", count / 1e3);
  return absl::StrFormat("%g", count);
}

// Round steps, about `most` of them: 1, 2, 5 times a power of ten, or a power of two.
std::vector<double> Ticks(double high, int most, bool binary) {
  std::vector<double> ticks;
  const double rough = high / most;
  if (!(rough > 0)) return ticks;
  double step = std::exp2(std::ceil(std::log2(rough)));
  if (!binary) {
    const double power = std::pow(10, std::floor(std::log10(rough)));
    step = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
      step = factor * power;
      if (step >= rough) break;
    }
    step = std::max(step, 1.0);
  }
  for (double at = 0; at <= high; at += step) ticks.push_back(at);
  return ticks;
}

std::string Text(double x, double y, const char* anchor, const char* colour, int size,
                 const std::string& text, bool bold = false) {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\" font-size=\"%d\"%s>%s</text>\n",
      x, y, anchor, colour, size, bold ? " font-weight=\"600\"" : "", Escape(text));
}

RasterView WholeView(const Subject& subject, const std::vector<HeapMap>& maps) {
  double top = std::max<double>(1, static_cast<double>(subject.statistics.max_load));
  for (const HeapMap& map : maps) top = std::max(top, static_cast<double>(map.height));
  return {.begin = 0,
          .end = static_cast<double>(std::max<uint64_t>(subject.recording.events, 1)),
          .bottom = 0,
          .top = top * 1.04};
}

std::string Caption(const Subject& subject, const HeapMap& map) {
  const auto load = static_cast<double>(subject.statistics.max_load);
  const double above = load > 0 ? 100 * (static_cast<double>(map.height) / load - 1) : 0;
  return absl::StrFormat("%s %s, %.1f %% above the max load",
                         map.kind == "plan" ? "makespan" : "pages that held a block",
                         Bytes(static_cast<double>(map.height)), above);
}

std::string DrawMap(const Subject& subject, const HeapMap& map, const RasterView& view, int top) {
  std::string svg;
  absl::StrAppend(&svg, "<text x=\"", kLeft, "\" y=\"", top - 8, "\" font-size=\"13\" fill=\"",
                  kInk, "\"><tspan font-weight=\"600\">", Escape(map.name),
                  "</tspan>  <tspan fill=\"", kQuiet, "\">", Escape(Caption(subject, map)),
                  "</tspan></text>\n");
  const auto y_of = [&](double bytes) { return top + kPlotHeight * (view.top - bytes) / view.top; };
  for (const double tick : Ticks(view.top, 4, true)) {
    absl::StrAppend(&svg, absl::StrFormat("<path d=\"M%d %.1fh%d\" stroke=\"%s\"/>\n", kLeft,
                                          y_of(tick), kPlotWidth, kLine));
    absl::StrAppend(&svg, Text(kLeft - 8, y_of(tick) + 4, "end", kQuiet, 11, Bytes(tick)));
  }
  const Image image =
      Colourize(Paint(subject.recording, map, view, static_cast<uint32_t>(kPlotWidth * kScale),
                      static_cast<uint32_t>(kPlotHeight * kScale), true));
  absl::StrAppend(&svg, "<image x=\"", kLeft, "\" y=\"", top, "\" width=\"", kPlotWidth,
                  "\" height=\"", kPlotHeight,
                  "\" preserveAspectRatio=\"none\" href=\"data:image/png;base64,",
                  absl::Base64Escape(EncodePng(image)), "\"/>\n");
  const double at = y_of(static_cast<double>(subject.statistics.max_load));
  absl::StrAppend(&svg,
                  absl::StrFormat("<path d=\"M%d %.1fh%d\" stroke=\"%s\" stroke-width=\"1.5\" "
                                  "stroke-dasharray=\"6 4\"/>\n",
                                  kLeft, at, kPlotWidth, kAccent));
  const std::string words =
      absl::StrCat("max load ", Bytes(static_cast<double>(subject.statistics.max_load)));
  const double words_at = at < top + 18 ? at + 14 : at - 5;
  absl::StrAppend(
      &svg, absl::StrFormat("<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"14\" "
                            "fill=\"#ffffff\" fill-opacity=\"0.85\"/>\n",
                            kLeft + 3, words_at - 11, static_cast<int>(words.size()) * 6 + 6));
  absl::StrAppend(&svg, Text(kLeft + 6, words_at, "start", kAccent, 11, words));
  absl::StrAppend(&svg, absl::StrFormat("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                                        "fill=\"none\" stroke=\"%s\"/>\n",
                                        kLeft, top, kPlotWidth, kPlotHeight, kLine));
  for (const double tick : Ticks(view.end, 8, false)) {
    const double x = kLeft + kPlotWidth * tick / view.end;
    absl::StrAppend(&svg, Text(x, top + kPlotHeight + 15, "middle", kQuiet, 11, Count(tick)));
  }
  return svg;
}

// A red broken line across.
void DrawLine(Image& image, uint32_t row, uint32_t left, uint32_t right) {
  constexpr uint32_t kRed = 0xff2c31b3;
  if (row + 1 >= image.height) return;
  for (uint32_t x = left; x < right; ++x) {
    if (x / 8 % 2 == 1) continue;
    image.pixels[size_t{row} * image.width + x] = kRed;
    image.pixels[size_t{row + 1} * image.width + x] = kRed;
  }
}

uint32_t Over(uint32_t under, uint32_t above) {
  const uint32_t alpha = above >> 24;
  uint32_t result = 0xff000000;
  for (int shift = 0; shift <= 16; shift += 8) {
    const uint32_t a = above >> shift & 255, b = under >> shift & 255;
    result |= (a * alpha + b * (255 - alpha) + 127) / 255 << shift;
  }
  return result;
}

}  // namespace

std::string DrawSvg(const Subject& subject, const std::vector<HeapMap>& maps) {
  const RasterView view = WholeView(subject, maps);
  const int height = kTop + static_cast<int>(maps.size()) * (kPlotHeight + kGap) + 24;
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "font-family=\"%s\" role=\"img\">\n",
      kWidth, height, kWidth, height, kFont);
  const std::string title = absl::StrCat("Heap maps of ", subject.name);
  absl::StrAppend(&svg, "<title>", Escape(title), "</title>\n<rect width=\"", kWidth,
                  "\" height=\"", height, "\" fill=\"#ffffff\"/>\n");
  absl::StrAppend(&svg, Text(kLeft, 22, "start", kInk, 16, subject.name, true));
  absl::StrAppend(
      &svg, Text(kWidth - kRight, 22, "end", kQuiet, 12,
                 absl::StrFormat("%d blocks in %d events: address upwards, events to the right",
                                 subject.statistics.buffers, subject.recording.events)));
  int top = kTop;
  for (const HeapMap& map : maps) {
    absl::StrAppend(&svg, DrawMap(subject, map, view, top));
    top += kPlotHeight + kGap;
  }
  double x = kLeft;
  absl::StrAppend(&svg, Text(x, top - 8, "start", kQuiet, 11, "requested size"));
  x += 92;
  for (int i = 0; i < kSizeClasses; ++i) {
    const Colour colour = SizeColour(i);
    absl::StrAppend(&svg, absl::StrFormat("<rect x=\"%.0f\" y=\"%d\" width=\"10\" height=\"10\" "
                                          "rx=\"2\" fill=\"rgb(%d,%d,%d)\"/>\n",
                                          x, top - 17, colour.red, colour.green, colour.blue));
    absl::StrAppend(&svg, Text(x + 14, top - 8, "start", kInk, 11, kSizeClassNames[i]));
    x += 84;
  }
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

std::string DrawPng(const Subject& subject, const std::vector<HeapMap>& maps) {
  const RasterView view = WholeView(subject, maps);
  constexpr uint32_t kMargin = 16;
  const uint32_t width = kPlotWidth * kScale, height = kPlotHeight * kScale;
  Image picture;
  picture.width = width + 2 * kMargin;
  picture.height = kMargin + static_cast<uint32_t>(maps.size()) * (height + kMargin);
  picture.pixels.assign(size_t{picture.width} * picture.height, 0xffffffff);
  uint32_t top = kMargin;
  for (const HeapMap& map : maps) {
    const Image image = Colourize(Paint(subject.recording, map, view, width, height, true));
    for (uint32_t y = 0; y < height; ++y) {
      for (uint32_t x = 0; x < width; ++x) {
        const bool edge = x == 0 || y == 0 || x + 1 == width || y + 1 == height;
        uint32_t& pixel = picture.pixels[size_t{top + y} * picture.width + kMargin + x];
        pixel = edge ? 0xffe7e4e3 : Over(pixel, image.pixels[size_t{y} * width + x]);
      }
    }
    const double at =
        height * (view.top - static_cast<double>(subject.statistics.max_load)) / view.top;
    DrawLine(picture, top + static_cast<uint32_t>(at), kMargin, kMargin + width);
    top += height + kMargin;
  }
  return EncodePng(picture);
}

std::string DrawCurves(const nlohmann::ordered_json& facts) {
  struct Curve {
    std::string label;
    std::vector<double> events, values;
    bool broken = false;
  };
  const auto& source = facts["curves"];
  std::vector<Curve> curves;
  curves.push_back({"live", source["events"], source["live"]});
  for (const auto& one : source["series"]) {
    curves.push_back({one["label"], one["events"], one["values"]});
  }
  const double events = std::max(1.0, facts["events"].get<double>());
  for (const auto& map : facts["maps"]) {
    if (map["kind"] != "plan") continue;
    const double height = map["height"];
    curves.push_back(
        {map["label"].get<std::string>() + " makespan", {0, events}, {height, height}, true});
  }
  double top = 1;
  for (const Curve& it : curves) {
    for (const double value : it.values) top = std::max(top, value);
  }
  top *= 1.06;
  constexpr int kHeight = 240;
  const int below = 40 + static_cast<int>((curves.size() + 3) / 4) * 20;
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"inherit\" "
      "role=\"img\" aria-label=\"Memory over the events\">\n",
      kWidth, kHeight + below);
  const auto x_of = [&](double event) { return kLeft + kPlotWidth * event / events; };
  const auto y_of = [&](double bytes) { return 8 + (kHeight - 16) * (1 - bytes / top); };
  for (const double tick : Ticks(top, 5, true)) {
    absl::StrAppend(&svg, absl::StrFormat("<path d=\"M%d %.1fh%d\" stroke=\"currentColor\" "
                                          "stroke-opacity=\"0.15\"/>\n",
                                          kLeft, y_of(tick), kPlotWidth));
    absl::StrAppend(&svg, Text(kLeft - 8, y_of(tick) + 4, "end", "currentColor", 11, Bytes(tick)));
  }
  for (const double tick : Ticks(events, 8, false)) {
    absl::StrAppend(&svg,
                    Text(x_of(tick), kHeight + 12, "middle", "currentColor", 11, Count(tick)));
  }
  constexpr const char* kStrokes[] = {"#2f7fb8", "#d98a1e", "#1f9c7a", "#c7552f",
                                      "#c274a5", "#5aaedb", "#b9a12b", "#7a5ca8"};
  for (size_t i = 0; i < curves.size(); ++i) {
    const Curve& it = curves[i];
    const char* stroke = kStrokes[i % std::size(kStrokes)];
    std::string points;
    for (size_t k = 0; k < it.events.size(); ++k) {
      absl::StrAppend(&points,
                      absl::StrFormat("%.1f,%.1f ", x_of(it.events[k]), y_of(it.values[k])));
    }
    absl::StrAppend(&svg, "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"", stroke, "\"",
                    it.broken ? " stroke-dasharray=\"6 4\"" : "", " points=\"", points, "\"/>\n");
    const double x = kLeft + static_cast<double>(i % 4) * 215;
    const double y = kHeight + 34 + static_cast<double>(i / 4) * 20;
    absl::StrAppend(&svg, absl::StrFormat("<rect x=\"%.0f\" y=\"%.0f\" width=\"10\" height=\"10\" "
                                          "rx=\"2\" fill=\"%s\"/>\n",
                                          x, y - 9, stroke));
    absl::StrAppend(&svg, Text(x + 15, y, "start", "currentColor", 11, it.label));
  }
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

}  // namespace reprise::cli
