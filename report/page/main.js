// Puts the page together.
'use strict';

// `focus` as in `colours`; `words` say what it is.
function applyColours(colouring, focus, words = byId('focus').dataset.words) {
  setColours(colouring, focus);
  showLegend();
  for (const button of document.querySelectorAll('[data-colouring]')) {
    button.setAttribute('aria-pressed', String(button.dataset.colouring === colouring));
  }
  const note = byId('focus');
  note.hidden = focus === null;
  note.dataset.words = words ?? '';
  if (focus === null) return;
  note.replaceChildren(words, ' ',
      element('button', {type: 'button', onclick: () => clearSearch()}, 'Show all'));
}

function clearSearch() {
  byId('search').value = '';
  search();
}

// Leaves only the blocks of one call site in colour; again: all of them.
function focusSite(site) {
  const {focus} = colours;
  if (focus?.site === site) return clearSearch();
  const flags = new Uint8Array(facts.sites.length);
  flags[site] = 1;
  applyColours(colours.colouring, {of: 'site', site, flags}, `only ${facts.sites[site].label}`);
  byId('maps').scrollIntoView({block: 'start', behavior: 'smooth'});
}

// Shows a block of an instance in the first map.
function showBlock(block) {
  maps[0]?.ask({type: 'describe', block}, (found) => {
    maps[0].select(found);
    maps[0].reveal(found);
  });
}

// Keeps in colour, and in the table, what has the words in its name.
function search() {
  const words = byId('search').value.trim().toLowerCase();
  const has = (text) => text.toLowerCase().includes(words);
  const found = byId('found');
  found.replaceChildren();
  showSites(words ? (index) => has(siteLabel(index)) : undefined);
  if (!words) return applyColours(colours.colouring, null);
  if (!isInstance) {
    const flags = Uint8Array.from(facts.sites, (_, index) => has(siteLabel(index)) ? 1 : 0);
    const count = flags.reduce((sum, flag) => sum + flag, 0);
    return applyColours(colours.colouring, {of: 'site', flags},
                        `${count} of ${facts.sites.length} call sites`);
  }
  const flags = Uint8Array.from(names ?? [], (name) => has(name) ? 1 : 0);
  const blocks = [...flags.keys()].filter((block) => flags[block]);
  applyColours(colours.colouring, {of: 'block', flags},
               `${countText(blocks.length)} of ${counted(facts.buffers, 'buffer')}`);
  found.append(...blocks.slice(0, 12).map((block) =>
      element('button', {type: 'button', onclick: () => showBlock(block)}, names[block])));
}

function showView() {
  const share = (view.end - view.begin) / (whole.end - whole.begin);
  byId('view').textContent = share > 0.999 && view.top === whole.top ? 'all' :
      `${timeUnit} ${shortCount(fileTime(view.begin))} – ${shortCount(fileTime(view.end))}, ` +
      `${bytesText(view.bottom)} – ${bytesText(view.top)}`;
}

// The maps as one picture, with their names: for a slide, or a bug report.
function savePicture() {
  const scale = devicePixelRatio, gap = 28 * scale;
  const canvases = maps.map((map) => map.canvas);
  const picture = document.createElement('canvas');
  picture.width = Math.max(...canvases.map((it) => it.width));
  picture.height = canvases.reduce((sum, it) => sum + it.height + gap, 0);
  const context = picture.getContext('2d'), style = getComputedStyle(document.body);
  context.fillStyle = style.backgroundColor;
  context.fillRect(0, 0, picture.width, picture.height);
  context.fillStyle = style.color;
  context.textBaseline = 'middle';
  context.font = `600 ${13 * scale}px ${style.fontFamily}`;
  let top = 0;
  maps.forEach((map, index) => {
    context.fillText(`${facts.name}: ${map.fact.label}, ${map.caption()}`, gutter() * scale,
                     top + gap / 2);
    context.drawImage(canvases[index], 0, top + gap);
    top += gap + canvases[index].height;
  });
  const link = element('a', {href: picture.toDataURL('image/png'),
                             download: `${facts.name}-heap.png`});
  link.click();
}

function start() {
  document.title = `${facts.name}: heap report`;
  showHead();
  showContenders();
  const host = byId('maps');
  if (facts.maps.length === 0) {
    host.append(element('p', {class: 'empty'},
        'No map: give a plan with --plan, or let an allocator perform the recording with ',
        element('code', {}, '--allocators glibc'), '.'));
    byId('map-tools').hidden = true;
    byId('selection').hidden = true;
  }
  facts.maps.forEach((fact, index) => maps.push(new HeapMap(fact, index, host)));
  document.body.append(tooltip);
  for (const button of document.querySelectorAll('[data-colouring]')) {
    const {colouring} = button.dataset;
    const only = {site: facts.sites.length < 2, thread: facts.threads.length < 2}[colouring];
    if (colouring === 'site' && isInstance) button.textContent = 'buffer';
    button.hidden = colouring === 'thread' && isInstance;
    button.disabled = Boolean(only) || (facts.sampled && colouring !== 'size');
    button.addEventListener('click', () => applyColours(colouring, colours.focus));
  }
  byId('zoom-in').addEventListener('click', () => zoomAt(0.6, 0.6));
  byId('zoom-out').addEventListener('click', () => zoomAt(1 / 0.6, 1 / 0.6));
  byId('zoom-time').addEventListener('click', () => zoomAt(0.6, 1));
  byId('zoom-all').addEventListener('click', () => setView(whole));
  byId('zoom-peak').addEventListener('click', () => {
    const wide = (whole.end - whole.begin) / 20;
    setView({begin: facts.peak - wide / 2, end: facts.peak + wide / 2,
             bottom: whole.bottom, top: whole.top});
  });
  byId('save').addEventListener('click', savePicture);
  byId('search').placeholder = isInstance ? 'Search buffers' : 'Search call sites';
  byId('search').addEventListener('input', search);
  viewListeners.push(showView);
  showView();
  if (facts.maps.length > 0) showSelection(null, null);
  if (facts.sampled) {
    host.before(element('p', {class: 'quiet'},
        `These maps show how densely each spot is filled, computed of all ${countText(facts.buffers)} ` +
        `blocks. Details are there for the ${countText(facts.sampled)} that fill most of them.`));
  }
  applyColours('size', null);

  const restyle = () => {
    applyColours(colours.colouring, colours.focus);
    byId('sites').replaceChildren();
    showSites();
    makeChart();
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', restyle);
  byId('theme').addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    restyle();
  });
}

// What no first picture needs waits until the maps have theirs.
async function finish() {
  const read = new Promise((done) => document.addEventListener('DOMContentLoaded', done));
  if (maps.length > 0) await Promise.race(maps.map((map) => map.shown));
  measured.firstPaint = performance.now();
  await Promise.all(maps.map((map) => map.shown));
  measured.allPainted = performance.now();
  await Promise.all(maps.map((map) => map.painted));
  measured.exact = performance.now();
  await read;
  for (const column of laterColumns) {
    if (column.name === 'names') await readNames(column);
    else sendToWorkers(column);
  }
  startCurves();
  await Promise.all(maps.map((map) => map.complete));
  measured.complete = performance.now();
  document.documentElement.dataset.ready = 'yes';
}

start();
document.addEventListener('DOMContentLoaded', showTables);
finish();
