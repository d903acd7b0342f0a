// Colours, which reprise computed (report/palette.h) for light and for dark pages.
'use strict';

const toCss = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
};

const colourSet = () => facts.palette[isDark() ? 'dark' : 'light'];

const boundsOf = (colouring) => colouring === 'age' ? facts.age_bounds : facts.size_bounds;

const OTHER_GROUP = 8, DIM_GROUP = 9;

// Group → colour. Classes of sizes and lifetimes; or 8 names, and all others; last what is out of
// focus.
function palette(colouring) {
  const {classes, names, other, dim} = colourSet();
  const ordered = colouring === 'size' || colouring === 'age';
  const colours = [...(ordered ? classes[boundsOf(colouring).length] : names)];
  while (colours.length <= OTHER_GROUP) colours.push(other);
  colours.push(dim);
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
  const {names} = colourSet();
  return toCss(names[index % names.length]);
}
