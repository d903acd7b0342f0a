// The worker of one heap map: unpacks the columns, paints what is in view into pixels, and says
// which block lies under a point. It owns its copy of the numbers, so the page never waits for it.
'use strict';

// Per block, in the order of birth.
let birth, death, offset, size, site, thread;
let lastDeath;  // per CHUNK blocks: after it none of them lives
let count = 0;
let nowhere = Infinity;  // the offset of a block that is not in this map
let density = null;      // {columns, rows, coverage, group, events, bytes}: instead of all blocks
let groups = new Map();  // colouring name → Uint8Array per block

const GROUPS = 10;  // colours per colouring; the last one is for what is out of focus
const SHADES = 256;
const CHUNK = 1024;
const FULL = 1 << 20;  // a pixel that is covered wholly

// The smallest array for whole numbers up to `most`: a million of them have to pass the processor's
// cache for every picture.
const numbersUpTo = (most, length) =>
    most < 2 ** 32 ? new Uint32Array(length) : new Float64Array(length);

async function unpack(column) {
  const {type, count: length, delta, text} = column;
  const url = 'data:application/octet-stream;base64,' + text;
  const packed = (await fetch(url)).body.pipeThrough(new DecompressionStream('deflate'));
  const planes = new Uint8Array(await new Response(packed).arrayBuffer());
  let values;
  if (type === 'u8') {
    values = planes;
  } else if (type === 'u16') {
    values = new Uint16Array(length);
    for (let i = 0; i < length; ++i) values[i] = planes[i] | planes[length + i] << 8;
  } else if (type === 'u32') {
    values = new Uint32Array(length);
    const second = length, third = 2 * length, fourth = 3 * length;
    for (let i = 0; i < length; ++i) {
      values[i] = planes[i] | planes[second + i] << 8 | planes[third + i] << 16 |
          planes[fourth + i] << 24;
    }
  } else {
    const bytes = new Uint8Array(8 * length);
    for (let byte = 0; byte < 8; ++byte) {
      const plane = byte * length;
      for (let i = 0; i < length; ++i) bytes[8 * i + byte] = planes[plane + i];
    }
    values = new Float64Array(bytes.buffer);
  }
  if (!delta) return values;
  let sum = 0;
  for (let i = 0; i < length; ++i) sum += values[i];
  const sums = numbersUpTo(sum, length);
  sum = 0;
  for (let i = 0; i < length; ++i) sums[i] = sum += values[i];
  return sums;
}

async function load({columns, events, densityOf}) {
  const names = ['birth', 'lifetime', 'size', 'offset'];
  const first = await Promise.all(names.map((name) => unpack(columns[name])));
  birth = first[0];
  size = first[2];
  offset = first[3];
  count = birth.length;
  nowhere = {u8: 0xff, u16: 0xffff, u32: 0xffffffff, f64: -1}[columns.offset.type];
  const lifetime = first[1];
  death = numbersUpTo(events, count);
  lastDeath = new Float64Array(Math.ceil(count / CHUNK));
  for (let i = 0; i < count; ++i) {
    const dies = lifetime[i] === 0 ? events : birth[i] + lifetime[i];
    death[i] = dies;
    const chunk = i / CHUNK | 0;
    if (dies > lastDeath[chunk]) lastDeath[chunk] = dies;
  }
  groups = new Map([['size', groupBySize()]]);
  if (densityOf) {
    const [coverage, group] =
        await Promise.all([unpack(columns.coverage), unpack(columns.group)]);
    density = {...densityOf, coverage, group};
  }
}

async function loadRest({columns}) {
  [site, thread] = await Promise.all([unpack(columns.site), unpack(columns.thread)]);
  groups.set('age', groupByAge());
}

// Nine classes: up to 32 bytes, then a factor of four each.
function groupBySize() {
  const group = new Uint8Array(count);
  for (let i = 0; i < count; ++i) {
    const log2 = 32 - Math.clz32(Math.min(size[i], 0x7fffffff) - 1);
    group[i] = Math.max(0, Math.min(8, log2 - 4 >> 1));
  }
  return group;
}

// How long a block lived: below 8 events, then a factor of eight each.
function groupByAge() {
  const group = new Uint8Array(count);
  for (let i = 0; i < count; ++i) {
    const log8 = Math.log2(Math.max(1, death[i] - birth[i])) / 3;
    group[i] = Math.min(8, Math.floor(log8));
  }
  return group;
}

function groupsFor({colouring, rank, focus}) {
  let group = groups.get(colouring);
  if (rank) {
    const values = colouring === 'site' ? site : thread;
    group = new Uint8Array(count);
    for (let i = 0; i < count; ++i) group[i] = rank[values[i]];
  }
  if (focus === null || focus === undefined) return group;
  const dimmed = new Uint8Array(count);
  for (let i = 0; i < count; ++i) dimmed[i] = site[i] === focus ? group[i] : GROUPS - 1;
  return dimmed;
}

let grouping = {key: '', group: null};

function currentGroup(colours) {
  const key = colours.colouring + '/' + colours.focus;
  if (grouping.key !== key) grouping = {key, group: groupsFor(colours)};
  return grouping.group;
}

// Per group and pixel, how coverage changes from the pixel on the left; whole numbers, so that what
// begins and what ends cancel out exactly. Rows have one entry more than pixels.
let changes = new Int32Array(0);
let coverage = new Float32Array(0);  // per pixel, 0 to 1
let owner = new Uint8Array(0);       // per pixel, the group that covers most of it

let used = 0;  // bit per group that has changes

function clear(width, height) {
  const pixels = width * height, plane = (width + 1) * height;
  if (coverage.length === pixels && changes.length === GROUPS * plane) {
    for (let group = 0; group < GROUPS; ++group) {
      if (used >> group & 1) changes.fill(0, group * plane, (group + 1) * plane);
    }
    coverage.fill(0);
  } else {
    changes = new Int32Array(GROUPS * plane);
    coverage = new Float32Array(pixels);
    owner = new Uint8Array(pixels);
  }
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

// Adds every block's share of each pixel. A block that is thinner than a pixel counts with the part
// that it covers, so that a region is as dense as it really is. However long a block lives, it costs
// two additions per row.
function paintBlocks(view, width, height, group) {
  const {begin, end, bottom, top} = view;
  const perEvent = width / (end - begin), perByte = height / (top - bottom);
  const stride = width + 1, plane = stride * height;
  const last = bornBefore(end);
  for (let i = 0; i < last; ++i) {
    if (i % CHUNK === 0 && lastDeath[i / CHUNK] <= begin) {
      i += CHUNK - 1;
      continue;
    }
    const dies = death[i];
    if (dies <= begin) continue;
    const low = offset[i], high = low + size[i];
    if (low >= top || high <= bottom || low === nowhere) continue;
    let left = (birth[i] - begin) * perEvent, right = (dies - begin) * perEvent;
    let upper = (top - high) * perByte, lower = (top - low) * perByte;
    if (left < 0) left = 0;
    if (right > width) right = width;
    if (upper < 0) upper = 0;
    if (lower > height) lower = height;
    let x = left | 0, y = upper | 0;
    let xEnd = right + 0.5 | 0, yEnd = lower + 0.5 | 0;
    let weight = FULL;
    if (xEnd <= x + 1) {
      xEnd = x + 1;
      if (right - left < 1) weight *= right - left;
    } else {
      x = left + 0.5 | 0;
    }
    if (yEnd <= y + 1) {
      yEnd = y + 1;
      if (lower - upper < 1) weight *= lower - upper;
    } else {
      y = upper + 0.5 | 0;
    }
    if (xEnd > width) xEnd = width;
    if (yEnd > height) yEnd = height;
    weight = weight < 1 ? 1 : weight | 0;
    used |= 1 << group[i];
    let row = group[i] * plane + y * stride;
    // What is large enough to be told from its neighbours is paler at the top and on the right.
    const pale = xEnd - x > 4 && yEnd - y > 4 ? weight * 0.4 | 0 : 0;
    if (pale > 0) {
      changes[row + x] += weight - pale;
      changes[row + xEnd] -= weight - pale;
      ++y;
      row += stride;
    }
    for (; y < yEnd; ++y, row += stride) {
      changes[row + x] += weight;
      changes[row + xEnd - 1] -= pale;
      changes[row + xEnd] -= weight - pale;
    }
  }
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
}

// The same from the density grid, which C++ computed of all blocks.
function paintDensity(view, width, height) {
  const {columns, rows, events, bytes} = density;
  const perColumn = columns / events, perRow = rows / bytes;
  const wide = (view.end - view.begin) / width, tall = (view.top - view.bottom) / height;
  for (let y = 0; y < height; ++y) {
    const high = view.top - y * tall, low = high - tall;
    if (high <= 0 || low >= bytes) continue;
    const firstRow = Math.max(0, Math.floor(low * perRow));
    const lastRow = Math.min(rows, Math.max(firstRow + 1, Math.round(high * perRow)));
    for (let x = 0; x < width; ++x) {
      const left = view.begin + x * wide;
      if (left + wide <= 0 || left >= events) continue;
      const first = Math.max(0, Math.floor(left * perColumn));
      const last = Math.min(columns, Math.max(first + 1, Math.round((left + wide) * perColumn)));
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

// `table`: a pixel for each group and shade of coverage.
function paint({view, width, height, colours, table}) {
  const started = performance.now();
  clear(width, height);
  const group = currentGroup(colours);
  if (density) {
    paintDensity(view, width, height);
    // The blocks at hand are the largest ones; drawn when they can be told apart.
    if ((view.end - view.begin) * 64 < density.events) paintBlocks(view, width, height, group);
  } else {
    paintBlocks(view, width, height, group);
  }
  const pixels = new Uint32Array(width * height);
  for (let i = 0; i < pixels.length; ++i) {
    const covered = coverage[i];
    if (covered > 0) {
      pixels[i] = table[owner[i] * SHADES + (covered >= 1 ? SHADES - 1 : covered * SHADES | 0)];
    }
  }
  return {pixels: pixels.buffer, milliseconds: performance.now() - started};
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

onmessage = async ({data}) => {
  try {
    if (data.type === 'load') {
      await load(data);
      postMessage({type: 'loaded', count});
    } else if (data.type === 'load-rest') {
      await loadRest(data);
      postMessage({type: 'complete'});
    } else if (data.type === 'paint') {
      const painted = paint(data);
      postMessage({type: 'painted', view: data.view, width: data.width, height: data.height,
                   ...painted}, [painted.pixels]);
    } else if (data.type === 'pick') {
      postMessage({type: 'picked', ticket: data.ticket, block: pick(data)});
    } else if (data.type === 'neighbour') {
      postMessage({type: 'picked', ticket: data.ticket, block: neighbour(data)});
    }
  } catch (error) {
    postMessage({type: 'failed', message: String(error)});
  }
};
