// Puts the page together.
'use strict';

function applyColours(colouring, focus) {
  setColours(colouring, focus);
  showLegend();
  for (const button of document.querySelectorAll('[data-colouring]')) {
    button.setAttribute('aria-pressed', String(button.dataset.colouring === colouring));
  }
  const note = byId('focus');
  note.hidden = focus === null;
  if (focus === null) return;
  note.replaceChildren('only ', element('strong', {}, facts.sites[focus].short), ' ',
      element('button', {type: 'button', onclick: () => applyColours(colours.colouring, null)},
              'Show all'));
}

function focusSite(site) {
  applyColours(colours.colouring, colours.focus === site ? null : site);
  byId('maps').scrollIntoView({block: 'start', behavior: 'smooth'});
}

function showView() {
  const share = (view.end - view.begin) / (whole.end - whole.begin);
  byId('view').textContent = share > 0.999 && view.top === whole.top ? 'all events' :
      `events ${shortCount(view.begin)} – ${shortCount(view.end)}, ` +
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
    context.fillText(`${facts.name}: ${map.fact.label}, ${map.caption()}`, GUTTER * scale,
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
    button.disabled = Boolean(only) || (facts.sampled && colouring !== 'size');
    button.addEventListener('click', () => applyColours(colouring, colours.focus));
  }
  byId('zoom-in').addEventListener('click', () => zoomAt(0.6, 0.6));
  byId('zoom-out').addEventListener('click', () => zoomAt(1 / 0.6, 1 / 0.6));
  byId('zoom-time').addEventListener('click', () => zoomAt(0.6, 1));
  byId('zoom-all').addEventListener('click', () => setView(whole));
  byId('zoom-peak').addEventListener('click', () => {
    const wide = (whole.end - whole.begin) / 20;
    setView({begin: facts.peak_event - wide / 2, end: facts.peak_event + wide / 2,
             bottom: whole.bottom, top: whole.top});
  });
  byId('save').addEventListener('click', savePicture);
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
  for (const column of laterColumns) sendToWorkers(column);
  startCurves();
  await Promise.all(maps.map((map) => map.complete));
  measured.complete = performance.now();
  document.documentElement.dataset.ready = 'yes';
}

start();
document.addEventListener('DOMContentLoaded', showTables);
finish();
