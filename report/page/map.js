// The heap maps: address upwards, time to the right; all of them show the same part of both axes.
'use strict';

// Pixels left of every plot, for the title and the labels of the addresses.
const gutter = () => innerWidth < 700 ? 72 : 88;
const MARGIN_RIGHT = 12, MARGIN_BOTTOM = 42;

const whole = {begin: 0, end: facts.end, bottom: 0, top: facts.top};
let view = {...whole};
// `focus`: null, or {of: 'site' or 'block', flags}: what keeps its colour.
let colours = {colouring: 'size', focus: null, rank: null, table: pixelTable('size'), version: 0};
const maps = [];
const viewListeners = [];

// Figures of this visit, for whoever measures (tests, docs/guide/report.md). Milliseconds since
// navigation: until one map, and until every map shows all its blocks; until every map is painted
// from the blocks themselves; until nothing is left to do.
const measured = {firstPaint: null, allPainted: null, exact: null, complete: null, paints: 0,
                  frames: 0, paintMilliseconds: []};
window.repriseReport = {measured, facts, get view() { return view; }, setView, maps};

function setView(wanted) {
  const next = {...view, ...wanted};
  const span = Math.min(Math.max(next.end - next.begin, 4), whole.end - whole.begin);
  next.begin = Math.min(Math.max(next.begin, whole.begin), whole.end - span);
  next.end = next.begin + span;
  const range = Math.min(Math.max(next.top - next.bottom, 64), whole.top - whole.bottom);
  next.bottom = Math.min(Math.max(next.bottom, whole.bottom), whole.top - range);
  next.top = next.bottom + range;
  view = next;
  for (const map of maps) map.changed();
  for (const listener of viewListeners) listener(view);
}

// Zooms by `factor` (< 1: closer) around a point given in parts of the plot.
function zoomAt(factorX, factorY, partX = 0.5, partY = 0.5) {
  const time = view.begin + partX * (view.end - view.begin);
  const byte = view.bottom + partY * (view.top - view.bottom);
  setView({
    begin: time - (time - view.begin) * factorX,
    end: time + (view.end - time) * factorX,
    bottom: byte - (byte - view.bottom) * factorY,
    top: byte + (view.top - byte) * factorY,
  });
}

function panBy(partX, partY) {
  const events = partX * (view.end - view.begin), bytes = partY * (view.top - view.bottom);
  setView({begin: view.begin + events, end: view.end + events,
           bottom: view.bottom + bytes, top: view.top + bytes});
}

function setColours(colouring, focus) {
  colours = {colouring, focus, rank: null, table: pixelTable(colouring),
             version: colours.version + 1};
  if (colouring === 'site') {
    colours.rank = Uint8Array.from(facts.sites, (_, index) => Math.min(index, 8));
  } else if (colouring === 'thread') {
    colours.rank = Uint8Array.from(facts.thread_ranks, (rank) => Math.min(rank, 8));
  }
  for (const map of maps) map.changed();
}

// Round times of the file in the part that is shown.
const timeTicks = (begin, end, most) =>
    ticks(fileTime(begin), fileTime(end), most, false).map((time) => time - facts.first);

class HeapMap {
  constructor(fact, index, host) {
    this.fact = fact;
    this.index = index;
    this.image = document.createElement('canvas');  // the preview, or what the worker painted last
    this.imageView = null;
    this.selected = null;
    this.busy = false;  // true: the worker owes a picture
    this.stale = true;
    this.waiting = new Map();  // ticket → what to do with the picked block
    this.tickets = 0;
    this.exact = false;  // painted by the worker, from the blocks
    // Promises: it shows its blocks, as a preview or exactly; exactly; in any colours. All of them
    // also hold when it failed.
    this.settle = {};
    for (const name of ['shown', 'painted', 'complete']) {
      this[name] = new Promise((done) => { this.settle[name] = done; });
    }
    this.canvas = element('canvas', {class: 'plot', tabindex: '0', role: 'application',
      'aria-label': `Heap map of ${fact.label}: use arrow keys to move, plus and minus to zoom, ` +
          'Enter to select a block'});
    this.context = this.canvas.getContext('2d');
    this.status = element('span', {class: 'loading'}, 'unpacking…');
    host.append(element('figure', {class: 'map'},
        element('figcaption', {}, element('strong', {}, fact.label), ' ',
                element('span', {class: 'quiet'}, this.caption()), this.status),
        this.canvas));
    this.worker = workers[index];
    this.worker.onmessage = ({data}) => this.receive(data);
    new ResizeObserver(() => this.changed()).observe(this.canvas);
    addMapInput(this);
  }

  caption() {
    // As the table above says it, where there is a measurement.
    const {footprint} = facts.contenders.find((it) => it.label === this.fact.label);
    const above = footprint - facts.max_load;
    const share = facts.max_load > 0 ? 100 * above / facts.max_load : 0;
    const what = this.fact.kind === 'plan' ? 'makespan' : 'footprint';
    const more = share < 0.05 ? 'no more than' : `${percentText(share)} above`;
    return `${what} ${bytesText(footprint)}, ${more} the max load`;
  }

  receive(data) {
    if (data.type === 'painted') {
      this.busy = false;
      ++measured.paints;
      measured.paintMilliseconds.push(data.milliseconds);
      this.show(data.pixels, data.width, data.height, data.view);
      if (!this.exact) {
        this.exact = true;
        this.status.remove();
        requestAnimationFrame(this.settle.painted);
      }
      if (this.stale) this.requestPaint();
    } else if (data.type === 'picked') {
      const done = this.waiting.get(data.ticket);
      this.waiting.delete(data.ticket);
      if (done) done(data.block);
    } else if (data.type === 'complete') {
      this.settle.complete();
      if (colours.colouring !== 'size') this.changed();
    } else {
      this.status.textContent = `cannot be shown: ${data.message}`;
      for (const settle of Object.values(this.settle)) settle();
    }
  }

  // A picture of the part of the map that `part` says.
  show(pixels, width, height, part) {
    if (this.image.width !== width || this.image.height !== height) {
      this.image.width = width;
      this.image.height = height;
    }
    this.image.getContext('2d').putImageData(
        new ImageData(new Uint8ClampedArray(pixels), width, height), 0, 0);
    this.imageView = part;
    this.redraw();
    requestAnimationFrame(this.settle.shown);
  }

  // What reprise painted of all blocks is there long before the worker has unpacked them.
  async showPreview(column) {
    const {columns, rows} = this.fact.preview, cells = await inflate(column.text);
    if (this.exact) return;
    const pixels = new Uint32Array(cells.length), {table} = colours;
    for (let i = 0; i < cells.length; ++i) {
      const group = cells[i] >> 4, root = (cells[i] & 15) / 15;
      if (cells[i]) pixels[i] = table[group * SHADES + Math.round(root * root * (SHADES - 1))];
    }
    this.show(pixels.buffer, columns, rows, this.fact.preview);
  }

  // The plot's part of the canvas, in CSS pixels.
  area() {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    return {left: gutter(), top: 8, width: Math.max(1, width - gutter() - MARGIN_RIGHT),
            height: Math.max(1, height - 8 - MARGIN_BOTTOM)};
  }

  changed() {
    this.stale = true;
    this.redraw();
    this.requestPaint();
  }

  requestPaint() {
    if (this.busy || this.canvas.clientWidth === 0) return;
    this.busy = true;
    this.stale = false;
    const area = this.area(), scale = Math.min(devicePixelRatio, 2);
    this.worker.postMessage({type: 'paint', view, colours, table: colours.table,
      width: Math.round(area.width * scale), height: Math.round(area.height * scale)});
  }

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
      ++measured.frames;
    });
  }

  x(time) {
    const area = this.area();
    return area.left + (time - view.begin) / (view.end - view.begin) * area.width;
  }

  y(byte) {
    const area = this.area();
    return area.top + (view.top - byte) / (view.top - view.bottom) * area.height;
  }

  draw() {
    const {canvas, context} = this, area = this.area();
    const scale = devicePixelRatio;
    const width = Math.round(canvas.clientWidth * scale);
    const height = Math.round(canvas.clientHeight * scale);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const style = getComputedStyle(canvas);
    const ink = style.getPropertyValue('--quiet'), grid = style.getPropertyValue('--line');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    context.fillStyle = style.getPropertyValue('--plot');
    context.fillRect(area.left, area.top, area.width, area.height);
    context.save();
    context.beginPath();
    context.rect(area.left, area.top, area.width, area.height);
    context.clip();
    this.drawGrid(grid);
    this.drawHeld();
    if (this.imageView) {
      const from = this.imageView;
      context.imageSmoothingEnabled = from === this.fact.preview;  // its cells are no pixels
      const left = this.x(from.begin), top = this.y(from.top);
      context.drawImage(this.image, left, top, this.x(from.end) - left,
                        this.y(from.bottom) - top);
    }
    this.drawMarks(style);
    context.restore();
    this.drawAxes(ink, grid, style.getPropertyValue('font-family'));
  }

  drawGrid(colour) {
    const {context} = this, area = this.area();
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.beginPath();
    for (const byte of ticks(view.bottom, view.top, 5, true)) {
      const at = Math.round(this.y(byte)) + 0.5;
      context.moveTo(area.left, at);
      context.lineTo(area.left + area.width, at);
    }
    context.stroke();
  }

  // What is held, and when: what no block covers stays in the colour of waste; once the most is
  // held, in a pale one, as where no plan would need less.
  drawHeld() {
    const {context} = this, {held, height} = this.fact, area = this.area();
    const {waste, idle} = colourSet();
    const edge = area.left + area.width;
    const grown = this.fact.wasteful ? this.x(this.fact.grown) : area.left;
    const same = (a, b) => a.length === b.length && a.every((time, i) => time === b[i]);
    for (let row = 0; row < held.length;) {
      let end = row + 1;
      while (end < held.length && same(held[end], held[row])) ++end;
      const top = this.y(height * end / held.length);
      const tall = this.y(height * row / held.length) - top;
      for (let i = 0; i < held[row].length; i += 2) {
        const left = Math.max(area.left, this.x(held[row][i]));
        const right = i + 1 < held[row].length ? Math.min(edge, this.x(held[row][i + 1])) : edge;
        const middle = Math.min(right, Math.max(left, grown));
        context.fillStyle = toCss(waste);
        context.fillRect(left, top, Math.max(0, middle - left), tall);
        context.fillStyle = toCss(idle);
        context.fillRect(middle, top, Math.max(0, right - middle), tall);
      }
      row = end;
    }
  }

  // A thin line where the load is at its maximum, and what it is.
  drawPeak(accent, font) {
    const {context} = this, area = this.area(), at = Math.round(this.x(facts.peak));
    if (at < area.left || at > area.left + area.width) return;
    context.fillStyle = accent;
    context.fillRect(at, area.top, 1, area.height);
    context.font = `500 11px ${font}`;
    const text = 'peak', wide = context.measureText(text).width + 8;
    const left = at + 4 + wide > area.left + area.width ? at - 3 - wide : at + 4;
    this.drawLabel(text, left, area.top + area.height - 18, wide, accent);
  }

  // Words on a patch of paper, in the font that is set.
  drawLabel(text, left, top, wide, colour) {
    const {context} = this;
    context.globalAlpha = 0.85;
    context.fillStyle = getComputedStyle(this.canvas).getPropertyValue('--plot');
    context.fillRect(left, top, wide, 15);
    context.globalAlpha = 1;
    context.fillStyle = colour;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.fillText(text, left + 4, top + 8);
  }

  drawMarks(style) {
    const {context} = this, area = this.area();
    const accent = style.getPropertyValue('--accent');
    context.strokeStyle = accent;
    context.fillStyle = accent;
    context.lineWidth = 1.5;
    context.setLineDash([6, 4]);
    const at = Math.round(this.y(facts.max_load)) + 0.5;
    context.beginPath();
    context.moveTo(area.left, at);
    context.lineTo(area.left + area.width, at);
    context.stroke();
    context.setLineDash([]);
    this.drawPeak(accent, style.getPropertyValue('font-family'));
    if (at > area.top - 2 && at < area.top + area.height) {
      const text = `max load ${bytesText(facts.max_load)}`;
      context.font = `500 11px ${style.getPropertyValue('font-family')}`;
      this.drawLabel(text, area.left + 4, at < area.top + 18 ? at + 2 : at - 17,
                     context.measureText(text).width + 8, accent);
    }
    if (this.selected) {
      const it = this.selected;
      const left = this.x(it.birth), top = this.y(it.offset + it.size);
      const wide = Math.max(3, this.x(it.death) - left), tall = Math.max(3, this.y(it.offset) - top);
      context.strokeStyle = style.getPropertyValue('--ink');
      context.lineWidth = 2;
      context.strokeRect(left - 1, top - 1, wide + 2, tall + 2);
    }
  }

  drawAxes(ink, line, font) {
    const {context} = this, area = this.area(), bottom = area.top + area.height;
    context.fillStyle = ink;
    context.font = `11px ${font}`;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (const byte of ticks(view.bottom, view.top, 5, true)) {
      context.fillText(bytesText(byte), area.left - 8, this.y(byte));
    }
    context.textBaseline = 'top';
    context.textAlign = 'center';
    for (const time of timeTicks(view.begin, view.end, area.width / 110)) {
      const at = this.x(time);
      context.fillRect(Math.round(at), bottom, 1, 4);
      const beside = Math.min(Math.max(at, area.left + 16), area.left + area.width - 16);
      context.fillText(shortCount(fileTime(time)), beside, bottom + 8);
    }
    context.fillText(timeUnit, area.left + area.width / 2, bottom + 25);
    context.save();
    context.translate(4, area.top + area.height / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(this.fact.kind === 'plan' ? 'offset' : 'address', 0, 0);
    context.restore();
    context.strokeStyle = line;
    context.lineWidth = 1;
    context.strokeRect(area.left - 0.5, area.top - 0.5, area.width + 1, area.height + 1);
  }

  // What lies at a point of the canvas, in CSS pixels.
  pick(left, top, done, slack = 2.5) {
    const area = this.area();
    const partX = (left - area.left) / area.width, partY = 1 - (top - area.top) / area.height;
    if (partX < 0 || partX > 1 || partY < 0 || partY > 1) return done(null);
    const wide = view.end - view.begin, tall = view.top - view.bottom;
    this.ask({type: 'pick', time: view.begin + partX * wide, byte: view.bottom + partY * tall,
              timeSlack: slack * wide / area.width, byteSlack: slack * tall / area.height}, done);
  }

  ask(question, done) {
    const ticket = ++this.tickets;
    this.waiting.set(ticket, done);
    this.worker.postMessage({...question, ticket});
  }

  select(block) {
    this.selected = block;
    this.redraw();
    showSelection(this, block);
  }

  // Brings the selected block into view when it is outside.
  reveal(block) {
    const wanted = {};
    if (block.death < view.begin || block.birth > view.end) {
      const wide = view.end - view.begin;
      wanted.begin = block.birth - wide / 2;
      wanted.end = wanted.begin + wide;
    }
    if (block.offset + block.size < view.bottom || block.offset > view.top) {
      const tall = view.top - view.bottom;
      wanted.bottom = block.offset - tall / 2;
      wanted.top = wanted.bottom + tall;
    }
    setView(wanted);
  }
}
