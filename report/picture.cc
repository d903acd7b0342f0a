#include "report/picture.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "report/bitmap_font.h"
#include "report/classes.h"
#include "report/palette.h"
#include "report/raster.h"

namespace reprise::report {
namespace {

// Pixels. The map inside is painted at twice that.
constexpr int kWidth = 960, kLeft = 78, kRight = 16, kTop = 58, kPlotHeight = 220, kGap = 56;
constexpr int kKeyRow = 18;  // of the legend
constexpr int kPlotWidth = kWidth - kLeft - kRight;
constexpr int kScale = 2;

constexpr Colour kInk = {0x1c, 0x1e, 0x21}, kQuiet = {0x61, 0x65, 0x6d}, kLine = {0xe3, 0xe4, 0xe7},
                 kAccent = {0xb3, 0x31, 0x2c}, kPaper = {0xff, 0xff, 0xff};
constexpr char kFont[] = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(base::Printable(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Bytes(double bytes) { return base::HumanBytes(bytes); }

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
  }
  step = std::max(step, 1.0);  // there is nothing between two events or two bytes
  for (double at = 0; at <= high; at += step) ticks.push_back(at);
  return ticks;
}

enum class Anchor { kStart, kMiddle, kEnd };
const char* Name(Anchor anchor) {
  constexpr const char* kNames[] = {"start", "middle", "end"};
  return kNames[static_cast<int>(anchor)];
}

// Words of one look.
struct Run {
  std::string text;
  Colour colour;
  bool bold = false;
};

std::string Hex(Colour colour) {
  return absl::StrFormat("#%02x%02x%02x", colour.red, colour.green, colour.blue);
}

std::string SvgWords(double x, double y, Anchor anchor, int size, std::initializer_list<Run> runs) {
  std::string svg = absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\" xml:space=\"preserve\">", x,
      y, Name(anchor), size);
  for (const Run& run : runs) {
    absl::StrAppend(&svg, "<tspan fill=\"", Hex(run.colour), "\"",
                    run.bold ? " font-weight=\"600\"" : "", ">", Escape(run.text), "</tspan>");
  }
  return svg + "</text>\n";
}

// In the page's own colour.
std::string SvgText(double x, double y, Anchor anchor, const std::string& text) {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"currentColor\" font-size=\"11\">%s"
      "</text>\n",
      x, y, Name(anchor), Escape(text));
}

RasterView WholeView(const Subject& subject, const std::vector<HeapMap>& maps) {
  double top = std::max<double>(1, static_cast<double>(subject.statistics.max_load));
  for (const HeapMap& map : maps) top = std::max(top, static_cast<double>(map.height));
  return {.begin = 0,
          .end = static_cast<double>(
              std::max<uint64_t>(trace::TimeOf(subject.recording, subject.recording.events), 1)),
          .bottom = 0,
          .top = top * 1.04};
}

std::string Caption(const Subject& subject, const HeapMap& map) {
  const auto load = static_cast<double>(subject.statistics.max_load);
  const auto footprint = static_cast<double>(map.footprint());
  const double above = load > 0 ? 100 * (footprint / load - 1) : 0;
  return absl::StrFormat("%s %s, %.1f %% above the max load",
                         map.is_plan() ? "makespan" : "footprint", Bytes(footprint), above);
}

// A canvas that writes SVG.
class SvgCanvas {
 public:
  SvgCanvas(int height, const std::string& title) {
    svg_ = absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\" font-family=\"%s\" role=\"img\">\n<title>%s</title>\n",
        kWidth, height, kWidth, height, kFont, Escape(title));
  }

  void Words(double x, double y, Anchor anchor, int size, std::initializer_list<Run> runs) {
    svg_ += SvgWords(x, y, anchor, size, runs);
  }
  void Box(double x, double y, double width, double height, Colour fill, double opacity = 1) {
    absl::StrAppend(&svg_, absl::StrFormat("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                                           "height=\"%.1f\" fill=\"%s\" fill-opacity=\"%g\"/>\n",
                                           x, y, width, height, Hex(fill), opacity));
  }
  void Line(double x, double y, double width, Colour colour, bool broken) {
    absl::StrAppend(
        &svg_,
        absl::StrFormat("<path d=\"M%.1f %.1fh%.1f\" stroke=\"%s\"%s/>\n", x, y, width, Hex(colour),
                        broken ? " stroke-width=\"1.5\" stroke-dasharray=\"6 4\"" : ""));
  }
  void Frame(int x, int y, int width, int height, Colour colour) {
    absl::StrAppend(&svg_, absl::StrFormat("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                                           "fill=\"none\" stroke=\"%s\"/>\n",
                                           x, y, width, height, Hex(colour)));
  }
  // `image` has kScale pixels per unit.
  void Picture(int x, int y, const Image& image) {
    absl::StrAppend(&svg_, "<image x=\"", x, "\" y=\"", y, "\" width=\"", image.width / kScale,
                    "\" height=\"", image.height / kScale,
                    "\" preserveAspectRatio=\"none\" href=\"data:image/png;base64,",
                    absl::Base64Escape(EncodePng(image)), "\"/>\n");
  }
  std::string Finish() && { return std::move(svg_) + "</svg>\n"; }

 private:
  std::string svg_;
};

// A canvas of pixels, kScale to a unit.
class PixelCanvas {
 public:
  explicit PixelCanvas(int height) {
    image_.width = kWidth * kScale;
    image_.height = static_cast<uint32_t>(height) * kScale;
    image_.pixels.assign(size_t{image_.width} * image_.height, 0xffffffff);
  }

  void Words(double x, double y, Anchor anchor, int size, std::initializer_list<Run> runs) {
    const int scale = size >= 13 ? 3 : 2;
    int wide = 0;
    for (const Run& run : runs) wide += CountLetters(run.text) * kLetterWidth * scale;
    int left = At(x);
    if (anchor == Anchor::kMiddle) left -= wide / 2;
    if (anchor == Anchor::kEnd) left -= wide;
    for (const Run& run : runs) {
      for (int stroke = 0; stroke <= (run.bold ? 1 : 0); ++stroke) {
        DrawLetters(image_, left + stroke, At(y) - kLetterHeight * scale, scale, Pixel(run.colour),
                    run.text);
      }
      left += CountLetters(run.text) * kLetterWidth * scale;
    }
  }
  void Box(double x, double y, double width, double height, Colour fill, double opacity = 1) {
    const uint32_t colour =
        (Pixel(fill) & 0xffffff) | static_cast<uint32_t>(std::lround(255 * opacity)) << 24;
    for (int row = At(y); row < At(y + height); ++row) {
      for (int column = At(x); column < At(x + width); ++column) Put(column, row, colour);
    }
  }
  void Line(double x, double y, double width, Colour colour, bool broken) {
    for (int column = At(x); column < At(x + width); ++column) {
      if (broken && (column - At(x)) % (10 * kScale) >= 6 * kScale) continue;
      for (int row = 0; row < (broken ? 3 : 2); ++row) Put(column, At(y) + row, Pixel(colour));
    }
  }
  void Frame(int x, int y, int width, int height, Colour colour) {
    Line(x, y, width, colour, false);
    Line(x, y + height, width, colour, false);
    Box(x, y, 1, height, colour);
    Box(x + width, y, 1, height + 1, colour);
  }
  void Picture(int x, int y, const Image& image) {
    for (uint32_t row = 0; row < image.height; ++row) {
      for (uint32_t column = 0; column < image.width; ++column) {
        Put(x * kScale + static_cast<int>(column), y * kScale + static_cast<int>(row),
            image.pixels[size_t{row} * image.width + column]);
      }
    }
  }
  std::string Finish() && { return EncodePng(image_); }

 private:
  static int At(double units) { return static_cast<int>(std::lround(units * kScale)); }
  static uint32_t Pixel(Colour colour) {
    return 0xff000000 | uint32_t{colour.blue} << 16 | uint32_t{colour.green} << 8 | colour.red;
  }
  // Mixes a pixel with what is there.
  void Put(int x, int y, uint32_t above) {
    if (x < 0 || y < 0) return;
    const auto column = static_cast<uint32_t>(x), row = static_cast<uint32_t>(y);
    if (column >= image_.width || row >= image_.height) return;
    uint32_t& pixel = image_.pixels[size_t{row} * image_.width + column];
    const uint32_t alpha = above >> 24;
    uint32_t mixed = 0xff000000;
    for (int shift = 0; shift <= 16; shift += 8) {
      const uint32_t a = above >> shift & 255, b = pixel >> shift & 255;
      mixed |= (a * alpha + b * (255 - alpha) + 127) / 255 << shift;
    }
    pixel = mixed;
  }

  Image image_;
};

// What is held, and when: what no block covers then stays to be seen. Until the most is held that
// is waste.
template <typename Canvas>
void DrawHeld(Canvas& canvas, const Subject& subject, const HeapMap& map, const RasterView& view,
              int top) {
  const double bottom = top + kPlotHeight, per_byte = kPlotHeight / view.top;
  const double row = static_cast<double>(map.height) / kHeldRows;
  const HeldRows held = WhenHeld(subject.recording, map, kHeldRows);
  const bool wasteful = IsWasteful(map.footprint(), subject.statistics.max_load);
  const double idle = wasteful ? kPlotWidth * static_cast<double>(held.grown) / view.end : 0;
  for (size_t i = 0; i < held.times.size(); ++i) {
    const std::vector<uint64_t>& times = held.times[i];
    const double upper = bottom - per_byte * row * static_cast<double>(i + 1);
    for (size_t k = 0; k < times.size(); k += 2) {
      const double left = kPlotWidth * static_cast<double>(times[k]) / view.end;
      const double right = k + 1 < times.size()
                               ? kPlotWidth * static_cast<double>(times[k + 1]) / view.end
                               : kPlotWidth;
      const double middle = std::clamp(idle, left, right);
      canvas.Box(kLeft + left, upper, middle - left, per_byte * row, WasteColour(false));
      canvas.Box(kLeft + middle, upper, right - middle, per_byte * row, IdleColour(false));
    }
  }
}

template <typename Canvas>
void DrawMap(Canvas& canvas, const Subject& subject, const HeapMap& map, const Bounds& sizes,
             const RasterView& view, int top) {
  canvas.Words(kLeft, top - 8, Anchor::kStart, 13,
               {{map.name, kInk, true}, {"  " + Caption(subject, map), kQuiet}});
  const auto y_of = [&](double bytes) { return top + kPlotHeight * (view.top - bytes) / view.top; };
  for (const double tick : Ticks(view.top, 4, true)) {
    canvas.Line(kLeft, y_of(tick), kPlotWidth, kLine, false);
    canvas.Words(kLeft - 8, y_of(tick) + 4, Anchor::kEnd, 11, {{Bytes(tick), kQuiet}});
  }
  DrawHeld(canvas, subject, map, view, top);
  canvas.Picture(kLeft, top,
                 Colourize(Paint(subject.recording, map, sizes, view, kPlotWidth * kScale,
                                 kPlotHeight * kScale, true),
                           sizes.size()));
  const auto peak =
      static_cast<double>(trace::TimeOf(subject.recording, subject.statistics.peak_event));
  canvas.Box(kLeft + kPlotWidth * peak / view.end, top, 1, kPlotHeight, kAccent);
  const auto load = static_cast<double>(subject.statistics.max_load);
  const double at = y_of(load);
  canvas.Line(kLeft, at, kPlotWidth, kAccent, true);
  const std::string words = absl::StrCat("max load ", Bytes(load));
  const double words_at = at < top + 18 ? at + 14 : at - 5;
  canvas.Box(kLeft + 3, words_at - 11, static_cast<double>(words.size()) * 6 + 6, 14, kPaper, 0.85);
  canvas.Words(kLeft + 6, words_at, Anchor::kStart, 11, {{words, kAccent}});
  canvas.Frame(kLeft, top, kPlotWidth, kPlotHeight, kLine);
  for (const double tick : Ticks(view.end, 8, false)) {
    const double x = kLeft + kPlotWidth * tick / view.end;
    canvas.Words(x, top + kPlotHeight + 15, Anchor::kMiddle, 11, {{Count(tick), kQuiet}});
  }
}

int PictureHeight(const std::vector<HeapMap>& maps) {
  return kTop + static_cast<int>(maps.size()) * (kPlotHeight + kGap) + 24 + kKeyRow;
}

template <typename Canvas>
std::string Draw(Canvas canvas, const Subject& subject, const std::vector<HeapMap>& maps) {
  const RasterView view = WholeView(subject, maps);
  canvas.Box(0, 0, kWidth, PictureHeight(maps), kPaper);
  canvas.Words(kLeft, 22, Anchor::kStart, 16, {{subject.name, kInk, true}});
  canvas.Words(
      kWidth - kRight, 22, Anchor::kEnd, 12,
      {{absl::StrFormat("%s: addresses upwards, %s to the right; the thin line is the peak",
                        base::Counted(subject.statistics.buffers, "block"),
                        subject.is_graph      ? "operators"
                        : subject.is_instance ? "time"
                                              : "events"),
        kQuiet}});
  const Bounds sizes = SizeBounds(subject);
  int top = kTop;
  for (const HeapMap& map : maps) {
    DrawMap(canvas, subject, map, sizes, view, top);
    top += kPlotHeight + kGap;
  }
  canvas.Words(kLeft, top - 8, Anchor::kStart, 11, {{"requested size", kQuiet}});
  double x = kLeft + 92;
  const auto key = [&](Colour colour, const std::string& text) {
    canvas.Box(x, top - 17, 10, 10, colour);
    canvas.Words(x + 14, top - 8, Anchor::kStart, 11, {{text, kInk}});
    x += 84;
  };
  const std::vector<Colour> colours = ClassColours(sizes.size(), /*dark=*/false);
  for (size_t i = 0; i < sizes.size(); ++i) {
    key(colours[i], absl::StrCat("≤ ", Bytes(static_cast<double>(sizes[i]))));
  }
  x = kLeft + 92;
  top += kKeyRow;
  key(WasteColour(/*dark=*/false), "free, yet more was taken later");
  return std::move(canvas).Finish();
}

}  // namespace

std::string DrawSvg(const Subject& subject, const std::vector<HeapMap>& maps) {
  return Draw(SvgCanvas(PictureHeight(maps), absl::StrCat("Heap maps of ", subject.name)), subject,
              maps);
}

std::string DrawPng(const Subject& subject, const std::vector<HeapMap>& maps) {
  return Draw(PixelCanvas(PictureHeight(maps)), subject, maps);
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
  const double events = std::max(1.0, facts["end"].get<double>());
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
      "role=\"img\" aria-label=\"Memory over time\">\n",
      kWidth, kHeight + below);
  const auto x_of = [&](double event) { return kLeft + kPlotWidth * event / events; };
  const auto y_of = [&](double bytes) { return 8 + (kHeight - 16) * (1 - bytes / top); };
  for (const double tick : Ticks(top, 5, true)) {
    absl::StrAppend(&svg, absl::StrFormat("<path d=\"M%d %.1fh%d\" stroke=\"currentColor\" "
                                          "stroke-opacity=\"0.15\"/>\n",
                                          kLeft, y_of(tick), kPlotWidth));
    absl::StrAppend(&svg, SvgText(kLeft - 8, y_of(tick) + 4, Anchor::kEnd, Bytes(tick)));
  }
  for (const double tick : Ticks(events, 8, false)) {
    absl::StrAppend(&svg, SvgText(x_of(tick), kHeight + 12, Anchor::kMiddle, Count(tick)));
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
    absl::StrAppend(&svg, SvgText(x + 15, y, Anchor::kStart, it.label));
  }
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

}  // namespace reprise::report
