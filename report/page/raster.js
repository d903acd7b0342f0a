// The worker of one heap map: paints what is in view into pixels, and says which block lies under a
// point. It owns its copy of the numbers, so the page never waits for it.
'use strict';

// Per block, in the order of birth.
let birth, death, offset, size, site, thread;
let lastDeath;  // per CHUNK blocks: after it none of them lives
let count = 0;
let nowhere = Infinity;  // the offset of a block that is not in this map
let density = null;      // {columns, rows, coverage, group, end, bytes}: instead of all blocks
let classBounds;
let groups = new Map();  // colouring name → Uint8Array per block

const OTHER = 8;    // of the groups: those without a colour of their own
const GROUPS = 10;  // colours per colouring; the last one is for what is out of focus
const SHADES = 256;
const CHUNK = 1024;
const FULL = 1 << 20;  // a pixel that is covered wholly

async function load({index, end, densityOf, bounds}) {
  const names = ['birth', 'lifetime', 'size', 'offset-' + index];
  let lifetime;
  [birth, lifetime, size, offset] = await Promise.all(names.map(numbersOf));
  count = birth.length;
  nowhere = noNumber(names[3]);
  death = numbersUpTo(end, count);
  lastDeath = new Float64Array(Math.ceil(count / CHUNK));
  for (let i = 0; i < count; ++i) {
    const dies = lifetime[i] === 0 ? end : birth[i] + lifetime[i];
    death[i] = dies;
    const chunk = i / CHUNK | 0;
    if (dies > lastDeath[chunk]) lastDeath[chunk] = dies;
  }
  classBounds = bounds;
  groups = new Map([['size', groupBy(bounds.size, (i) => size[i])]]);
  if (densityOf) {
    const [coverage, group] =
        await Promise.all([numbersOf('coverage-' + index), numbersOf('group-' + index)]);
    density = {...densityOf, coverage, group};
  }
}

async function loadRest() {
  [site, thread] = await Promise.all([numbersOf('site'), numbersOf('thread')]);
  groups.set('age', groupBy(classBounds.age, (i) => death[i] - birth[i]));
  shown = null;
}

// The class of each value: the first whose highest value it does not exceed.
function groupBy(bounds, value) {
  const group = new Uint8Array(count), last = bounds.length - 1;
  for (let i = 0; i < count; ++i) {
    const it = value(i);
    let at = 0;
    while (at < last && it > bounds[at]) ++at;
    group[i] = at;
  }
  return group;
}

function groupsFor({colouring, rank, focus}) {
  let group = groups.get(colouring);
  if (rank) {
    const values = colouring === 'site' ? site : thread;
    group = new Uint8Array(count);
    for (let i = 0; i < count; ++i) group[i] = rank[values[i]] ?? OTHER;
  }
  if (!focus) return group;
  const dimmed = new Uint8Array(count);  // of blocks, or of call sites
  const shown = focus.of === 'block' ? (i) => focus.flags[i] : (i) => focus.flags[site[i]];
  for (let i = 0; i < count; ++i) dimmed[i] = shown(i) ? group[i] : GROUPS - 1;
  return dimmed;
}

let grouping = {version: -1, group: null};

function currentGroup(colours) {
  if (grouping.version !== colours.version) {
    // Sites and threads come last: until then blocks are told apart by their sizes.
    const group = site ? groupsFor(colours) : groups.get('size');
    grouping = {version: site ? colours.version : -1, group};
  }
  return grouping.group;
}

// Per group and pixel of a region, how coverage changes from the pixel on the left; whole numbers,
// so that what begins and what ends cancel out exactly. Rows have one entry more than pixels. All
// zero between two regions.
let changes = new Int32Array(0);
let coverage = new Float32Array(0);  // per pixel, 0 to 1
let owner = new Uint8Array(0);       // per pixel, the group that covers most of it

let used = 0;  // bit per group that has changes

function clear(width, height) {
  const pixels = width * height, planes = GROUPS * (width + 1) * height;
  if (changes.length < planes) changes = new Int32Array(planes);
  if (coverage.length < pixels) {
    coverage = new Float32Array(pixels);
    owner = new Uint8Array(pixels);
  }
  coverage.fill(0, 0, pixels);
  used = 0;
}

// The first block that is born at or after `time`.
function bornBefore(time) {
  let low = 0, high = count;
  while (low < high) {
    const middle = low + high >> 1;
    if (birth[middle] < time) low = middle + 1; else high = middle;
  }
  return low;
}

// The picture of a view. Its pixels lie on a grid that starts at event 0 and byte 0, so that views
// of one scale share them: whoever moves about needs only the pixels that come into view.
function frameOf(view, width, height, like) {
  const about = (a, b) => Math.abs(a - b) < 1e-6 * b;
  let perEvent = width / (view.end - view.begin), perByte = height / (view.top - view.bottom);
  if (like && about(perEvent, like.perEvent)) perEvent = like.perEvent;
  if (like && about(perByte, like.perByte)) perByte = like.perByte;
  return {width, height, perEvent, perByte, left: Math.round(view.begin * perEvent),
          bottom: Math.round(view.bottom * perByte)};
}

const viewOf = ({width, height, perEvent, perByte, left, bottom}) => ({
  begin: left / perEvent, end: (left + width) / perEvent,
  bottom: bottom / perByte, top: (bottom + height) / perByte});

// Pixels outside a region that still count, so that a block has the same edges in every region.
const MARGIN = 8;

// Adds every block's share of each pixel. A block that is thinner than a pixel counts with the part
// that it covers, so that a region is as dense as it really is. However long a block lives, it costs
// two additions per row.
function paintBlocks(frame, group) {
  const {width, height, perEvent, perByte} = frame, {begin, end, bottom, top} = viewOf(frame);
  const stride = width + 1, plane = stride * height;
  const mostRight = width + MARGIN, mostLow = height + MARGIN, upmost = frame.bottom + height;
  // Names of its own spare the inner loop a look at the outer scope for each block.
  const births = birth, deaths = death, offsets = offset, sizes = size, table = changes;
  const last = bornBefore(end);
  let groupsSeen = 0;
  for (let i = 0; i < last; ++i) {
    if (i % CHUNK === 0 && lastDeath[i / CHUNK] <= begin) {
      i += CHUNK - 1;
      continue;
    }
    const dies = deaths[i];
    if (dies <= begin) continue;
    const low = offsets[i], high = low + sizes[i];
    if (low >= top || high <= bottom || low === nowhere) continue;
    let left = births[i] * perEvent - frame.left, right = dies * perEvent - frame.left;
    let upper = upmost - high * perByte, lower = upmost - low * perByte;
    if (left < -MARGIN) left = -MARGIN;
    if (right > mostRight) right = mostRight;
    if (upper < -MARGIN) upper = -MARGIN;
    if (lower > mostLow) lower = mostLow;
    let x = (left + MARGIN | 0) - MARGIN, y = (upper + MARGIN | 0) - MARGIN;
    let xEnd = (right + MARGIN + 0.5 | 0) - MARGIN, yEnd = (lower + MARGIN + 0.5 | 0) - MARGIN;
    let weight = FULL;
    if (xEnd <= x + 1) {
      xEnd = x + 1;
      if (right - left < 1) weight *= right - left;
    } else {
      x = (left + MARGIN + 0.5 | 0) - MARGIN;
    }
    if (yEnd <= y + 1) {
      yEnd = y + 1;
      if (lower - upper < 1) weight *= lower - upper;
    } else {
      y = (upper + MARGIN + 0.5 | 0) - MARGIN;
    }
    if (x >= width || xEnd <= 0 || y >= height || yEnd <= 0) continue;
    weight = weight < 1 ? 1 : weight | 0;
    // What is large enough to be told from its neighbours is paler at the top and on the right.
    const pale = xEnd - x > 4 && yEnd - y > 4 ? weight * 0.4 | 0 : 0;
    const paleRight = xEnd <= width ? pale : 0;
    if (x < 0) x = 0;
    if (xEnd > width) xEnd = width;
    if (yEnd > height) yEnd = height;
    const colour = group[i];
    groupsSeen |= 1 << colour;
    let row = colour * plane + (y > 0 ? y * stride : 0);
    if (y < 0) {
      y = 0;
    } else if (pale > 0) {
      table[row + x] += weight - pale;
      table[row + xEnd] -= weight - pale;
      ++y;
      row += stride;
    }
    for (; y < yEnd; ++y, row += stride) {
      table[row + x] += weight;
      table[row + xEnd - 1] -= paleRight;
      table[row + xEnd] -= weight - paleRight;
    }
  }
  used = groupsSeen;
  sumUp(width, height);
}

// From changes to coverage, and to whoever covers most.
function sumUp(width, height) {
  const stride = width + 1, plane = stride * height;
  const most = new Int32Array(width);
  for (let y = 0; y < height; ++y) {
    const pixels = y * width;
    most.fill(0);
    for (let group = 0; group < GROUPS; ++group) {
      if (!(used >> group & 1)) continue;
      let at = group * plane + y * stride, covered = 0;
      for (let x = 0; x < width; ++x, ++at) {
        covered += changes[at];
        if (covered === 0) continue;
        coverage[pixels + x] += covered / FULL;
        if (covered > most[x]) {
          most[x] = covered;
          owner[pixels + x] = group;
        }
      }
    }
  }
  for (let group = 0; group < GROUPS; ++group) {
    if (used >> group & 1) changes.fill(0, group * plane, (group + 1) * plane);
  }
}

// The same from the density grid, which C++ computed of all blocks.
function paintDensity(frame) {
  const {columns, rows, end, bytes} = density, {width, height, perEvent, perByte} = frame;
  const perColumn = columns / end, perRow = rows / bytes;
  for (let y = 0; y < height; ++y) {
    const high = (frame.bottom + height - y) / perByte, low = (frame.bottom + height - y - 1) / perByte;
    if (high <= 0 || low >= bytes) continue;
    const firstRow = Math.max(0, Math.floor(low * perRow));
    const lastRow = Math.min(rows, Math.max(firstRow + 1, Math.round(high * perRow)));
    for (let x = 0; x < width; ++x) {
      const left = (frame.left + x) / perEvent, right = (frame.left + x + 1) / perEvent;
      if (right <= 0 || left >= end) continue;
      const first = Math.max(0, Math.floor(left * perColumn));
      const last = Math.min(columns, Math.max(first + 1, Math.round(right * perColumn)));
      let sum = 0, most = 0, colour = 0;
      for (let row = firstRow; row < lastRow; ++row) {
        for (let cell = row * columns + first; cell < row * columns + last; ++cell) {
          sum += density.coverage[cell];
          if (density.coverage[cell] > most) {
            most = density.coverage[cell];
            colour = density.group[cell];
          }
        }
      }
      const pixel = y * width + x;
      coverage[pixel] = sum / (255 * Math.max(1, (lastRow - firstRow) * (last - first)));
      owner[pixel] = colour;
    }
  }
}

// The picture that the page was sent last: {frame, version, pixels}.
let shown = null;

// Paints the part of `frame` from column `x` and row `y` on. `table`: a pixel for each group and
// shade of coverage.
function paintRegion(frame, x, y, width, height, colours, table, pixels) {
  if (width <= 0 || height <= 0) return;
  clear(width, height);
  const region = {...frame, width, height, left: frame.left + x,
                  bottom: frame.bottom + frame.height - y - height};
  const group = currentGroup(colours);
  if (density) paintDensity(region);
  // With densities the blocks at hand are the largest ones; drawn when they can be told apart.
  if (!density || frame.width / frame.perEvent * 64 < density.end) paintBlocks(region, group);
  for (let row = 0, from = 0; row < height; ++row) {
    const to = (y + row) * frame.width + x;
    for (let column = 0; column < width; ++column, ++from) {
      const covered = coverage[from];
      pixels[to + column] = covered > 0 ?
          table[owner[from] * SHADES + (covered >= 1 ? SHADES - 1 : covered * SHADES | 0)] : 0;
    }
  }
}

function paint({view, width, height, colours, table}) {
  const started = performance.now();
  const frame = frameOf(view, width, height, shown && shown.frame);
  const before = shown && shown.frame;
  const right = before ? frame.left - before.left : 0, down = before ? before.bottom - frame.bottom : 0;
  const moved = before && shown.version === colours.version && before.width === width &&
      before.height === height && before.perEvent === frame.perEvent &&
      before.perByte === frame.perByte && Math.abs(right) < width && Math.abs(down) < height;
  const pixels = moved ? shown.pixels : new Uint32Array(width * height);
  const region = (x, y, wide, tall) =>
      paintRegion(frame, x, y, wide, tall, colours, table, pixels);
  if (moved) {
    // What stays in view is moved at once; what wraps around is painted anew.
    const by = right + down * width;
    if (by > 0) pixels.copyWithin(0, by);
    if (by < 0) pixels.copyWithin(-by, 0);
    region(right > 0 ? width - right : 0, 0, Math.abs(right), height);
    region(0, down > 0 ? height - down : 0, width, Math.abs(down));
  } else {
    region(0, 0, width, height);
  }
  shown = {frame, version: colours.version, pixels};
  return {view: viewOf(frame), width, height, pixels: pixels.slice().buffer,
          milliseconds: performance.now() - started};
}

// The block at a point, or the nearest within `slack` in either direction.
function pick({time, byte, timeSlack, byteSlack}) {
  let best = -1, nearest = Infinity;
  const last = bornBefore(time + timeSlack);
  for (let i = 0; i < last; ++i) {
    if (i % CHUNK === 0 && lastDeath[i / CHUNK] < time - timeSlack) {
      i += CHUNK - 1;
      continue;
    }
    if (death[i] < time - timeSlack || offset[i] === nowhere) continue;
    const low = offset[i], high = low + size[i];
    if (byte < low - byteSlack || byte > high + byteSlack) continue;
    const beside = Math.max(birth[i] - time, time - death[i], 0) / timeSlack;
    const apart = Math.max(low - byte, byte - high, 0) / byteSlack;
    const distance = beside + apart;
    if (distance < nearest) {
      nearest = distance;
      best = i;
      if (distance === 0) break;
    }
  }
  return best < 0 ? null : describe(best);
}

function describe(block) {
  return {
    block,
    birth: birth[block],
    death: death[block],
    size: size[block],
    offset: offset[block],
    site: site ? site[block] : -1,
    thread: thread ? thread[block] : -1,
  };
}

// The next block in a direction, for those who use the keyboard.
function neighbour({block, direction}) {
  if (direction === 'next' || direction === 'previous') {
    const step = direction === 'next' ? 1 : -1;
    for (let i = block + step; i >= 0 && i < count; i += step) {
      if (offset[i] !== nowhere) return describe(i);
    }
    return describe(block);
  }
  const up = direction === 'above';
  const from = offset[block], time = birth[block];
  let best = block, distance = Infinity;
  const last = bornBefore(time + 1);
  for (let i = 0; i < last; ++i) {
    if (death[i] <= time || offset[i] === nowhere || i === block) continue;
    const apart = up ? offset[i] - from : from - offset[i];
    if (apart > 0 && apart < distance) {
      distance = apart;
      best = i;
    }
  }
  return describe(best);
}

// Columns arrive while the page is being read, and a picture may be asked for before the last one.
let ready;

onmessage = async ({data}) => {
  try {
    if (data.type === 'begin') {
      ready = load(data);
      await ready;
      await loadRest();
      postMessage({type: 'complete'});
      return;
    }
    if (data.type === 'column') return takeColumn(data);
    await ready;
    if (data.type === 'paint') {
      const painted = paint(data);
      postMessage({type: 'painted', ...painted}, [painted.pixels]);
    } else if (data.type === 'pick') {
      postMessage({type: 'picked', ticket: data.ticket, block: pick(data)});
    } else if (data.type === 'describe') {
      postMessage({type: 'picked', ticket: data.ticket, block: describe(data.block)});
    } else if (data.type === 'neighbour') {
      postMessage({type: 'picked', ticket: data.ticket, block: neighbour(data)});
    }
  } catch (error) {
    postMessage({type: 'failed', message: String(error)});
  }
};
