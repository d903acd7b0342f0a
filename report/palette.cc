#include "report/palette.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "report/classes.h"

namespace reprise::report {
namespace {

using nlohmann::ordered_json;

// Lightness 0 to 1, chroma, hue in degrees (Ottosson's OKLab).
Colour Oklch(double lightness, double chroma, double degrees) {
  const double hue = degrees * std::numbers::pi / 180;
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  const auto channel = [](double light) {
    light = std::clamp(light, 0.0, 1.0);
    const double gamma =
        light <= 0.0031308 ? 12.92 * light : 1.055 * std::pow(light, 1 / 2.4) - 0.055;
    return static_cast<uint8_t>(std::lround(255 * gamma));
  };
  return {channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

// Apart for people with any colour vision (after Okabe and Ito), without the hue of waste.
std::vector<Colour> NameColours(bool dark) {
  constexpr double kPlaces[][3] = {{0.53, 0.11, 250}, {0.72, 0.11, 165}, {0.80, 0.12, 102},
                                   {0.45, 0.10, 300}, {0.75, 0.09, 225}, {0.68, 0.10, 335},
                                   {0.58, 0.08, 130}, {0.40, 0.06, 220}};
  std::vector<Colour> colours;
  for (const auto& [lightness, chroma, hue] : kPlaces) {
    colours.push_back(Oklch(lightness + (dark ? 0.04 : -0.03), chroma, hue));
  }
  return colours;
}

ordered_json ToJson(Colour colour) { return {colour.red, colour.green, colour.blue}; }

ordered_json ToJson(const std::vector<Colour>& colours) {
  ordered_json list = ordered_json::array();
  for (const Colour& it : colours) list.push_back(ToJson(it));
  return list;
}

}  // namespace

std::vector<Colour> ClassColours(size_t count, bool dark) {
  std::vector<Colour> colours;
  for (size_t i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0.5;
    // The largest blocks are farthest from the paper.
    const double lightness = dark ? 0.40 + 0.40 * share : 0.86 - 0.42 * share;
    colours.push_back(Oklch(lightness, 0.055 + 0.03 * share, 205 + 60 * share));
  }
  return colours;
}

Colour WasteColour(bool dark) { return dark ? Oklch(0.66, 0.19, 42) : Oklch(0.70, 0.19, 45); }

Colour IdleColour(bool dark) { return dark ? Oklch(0.34, 0.05, 50) : Oklch(0.92, 0.045, 65); }

ordered_json PaletteFacts() {
  ordered_json palettes;
  for (const bool dark : {false, true}) {
    ordered_json classes = ordered_json::array();
    for (size_t count = 0; count <= kMostClasses; ++count) {
      classes.push_back(ToJson(ClassColours(count, dark)));
    }
    palettes[dark ? "dark" : "light"] = {
        {"classes", std::move(classes)},
        {"names", ToJson(NameColours(dark))},
        {"other", ToJson(dark ? Colour{122, 126, 134} : Colour{140, 144, 152})},
        {"dim", ToJson(dark ? Colour{62, 65, 72} : Colour{205, 208, 214})},
        {"waste", ToJson(WasteColour(dark))},
        {"idle", ToJson(IdleColour(dark))}};
  }
  return palettes;
}

}  // namespace reprise::report
