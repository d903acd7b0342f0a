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
  worker.postMessage({type: 'begin', index, end: facts.end, densityOf: density,
                      bounds: {size: facts.size_bounds, age: facts.age_bounds}});
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
  } else if (name === 'site' || name === 'thread' || name === 'names') {
    laterColumns.push(column);
  } else {
    sendToWorkers(column);
  }
}

const callersOf = (site) => (site.callers ?? []).map((number) => facts.frames[number]);

function siteLabel(index) {
  const site = facts.sites[index];
  if (!site) return 'not known';
  const where = site.place ? `${site.label} (${site.place})` : site.label;
  return [where, ...callersOf(site)].join(' ← ');
}

const isInstance = facts.time !== 'event';  // else a recording

let names = null;  // of an instance's blocks, once they are there

async function readNames(column) {
  names = new TextDecoder().decode(await inflate(column.text)).split('\n');
}

// Times count from the first one; people want those of their file.
const fileTime = (time) => time + facts.first;
function timeText(time) {
  const operator = facts.operators[fileTime(time) - 1];
  return countText(fileTime(time)) + (operator === undefined ? '' : ` (${operator})`);
}
const timeUnit = {event: 'events', time: 'time', operator: 'operators'}[facts.time];

const threadLabel = (index) => facts.threads[index] ?? `thread ${index}`;
