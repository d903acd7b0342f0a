// Colours: computed in OKLCH, so that steps look equal and light and dark pages get the same order.
'use strict';

// Lightness 0..1, chroma, hue in degrees → [red, green, blue], 0..255 (Ottosson's OKLab).
function oklch(lightness, chroma, hue) {
  const angle = hue * Math.PI / 180;
  const a = chroma * Math.cos(angle), b = chroma * Math.sin(angle);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
  ];
  return linear.map((value) => {
    const light = Math.min(1, Math.max(0, value));
    const gamma = light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055;
    return Math.round(255 * gamma);
  });
}

const toCss = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

// From blue over teal to yellow, ever lighter: tells order without telling red from green.
function sequence(dark) {
  const colours = [];
  for (let i = 0; i < 9; ++i) {
    const share = i / 8;
    const lightness = dark ? 0.44 + 0.48 * share : 0.34 + 0.50 * share;
    colours.push(oklch(lightness, 0.10 + 0.05 * Math.sin(Math.PI * share), 290 - 202 * share));
  }
  return colours;
}

// Okabe and Ito's set for people who do not see all colours; lightened or darkened for the page.
function categories(dark) {
  const lift = dark ? 0.04 : -0.03;
  const places = [
    [0.53, 0.13, 245], [0.72, 0.16, 66], [0.63, 0.12, 165], [0.62, 0.16, 42],
    [0.70, 0.11, 345], [0.75, 0.09, 232], [0.80, 0.14, 102], [0.50, 0.10, 300],
  ];
  return places.map(([lightness, chroma, hue]) => oklch(lightness + lift, chroma, hue));
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
};

const otherGrey = (dark) => dark ? [122, 126, 134] : [140, 144, 152];
const dimGrey = (dark) => dark ? [62, 65, 72] : [205, 208, 214];

// Group → colour. Groups 0..8 of the ordered colourings, 0..7 and 8 (all others) of the named ones;
// group 9 is what is out of focus.
function palette(colouring) {
  const dark = isDark();
  const ordered = colouring === 'size' || colouring === 'age';
  const colours = ordered ? sequence(dark) : [...categories(dark), otherGrey(dark)];
  colours.push(dimGrey(dark));
  return colours;
}

const SHADES = 256;

// What the raster looks up: a pixel for each group and share of coverage. What is hardly covered
// stays visible: a lone block must not vanish.
function pixelTable(colouring) {
  const table = new Uint32Array(10 * SHADES);
  palette(colouring).forEach(([red, green, blue], group) => {
    for (let shade = 0; shade < SHADES; ++shade) {
      const alpha = Math.round(255 * (0.10 + 0.90 * (shade / (SHADES - 1)) ** 0.75));
      table[group * SHADES + shade] = (alpha << 24 | blue << 16 | green << 8 | red) >>> 0;
    }
  });
  return table;
}

// Lines of the curves, in the order of their appearance.
function lineColour(index) {
  const colours = categories(isDark());
  return toCss(colours[index % colours.length]);
}
