// The facts of the page, and the columns on their way to the workers. All of this runs while the
// page is still being read, so that the workers unpack one column while the next one arrives.
'use strict';

const byId = (id) => document.getElementById(id);

const facts = JSON.parse(byId('facts').textContent);

// A worker per map. From file:// a worker can only come from a blob.
const workers = facts.maps.map(({density}, index) => {
  const url = URL.createObjectURL(new Blob([byId('worker').textContent],
                                           {type: 'text/javascript'}));
  const worker = new Worker(url);
  worker.postMessage({type: 'begin', index, events: Math.max(facts.events, 1), densityOf: density});
  return worker;
});

// Columns named "offset-1" are of map 1 alone.
function sendToWorkers(column) {
  const [, map] = column.name.split('-');
  workers.forEach((worker, index) => {
    if (map === undefined || Number(map) === index) worker.postMessage({type: 'column', ...column});
  });
}

const laterColumns = [];  // those that no first picture needs

// The page calls this for each column as soon as the browser has read it.
function takeColumn(name) {
  const holder = byId('column-' + name);
  const column = {...facts.columns.find((it) => it.name === name), text: holder.textContent};
  holder.remove();
  if (name.startsWith('preview-')) {
    maps[Number(name.slice('preview-'.length))].showPreview(column);
  } else if (name === 'site' || name === 'thread') {
    laterColumns.push(column);
  } else {
    sendToWorkers(column);
  }
}

const callersOf = (site) => (site.callers ?? []).map((number) => facts.frames[number]);

function siteLabel(index) {
  const site = facts.sites[index];
  return site ? [site.label, ...callersOf(site)].join(' ← ') : 'not known';
}

const threadLabel = (index) => facts.threads[index] ?? `thread ${index}`;
