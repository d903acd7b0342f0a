// The facts of the page, and the columns on their way to the workers.
'use strict';

const facts = JSON.parse(byId('facts').textContent);

const columnTexts = new Map();
for (const column of facts.columns) {
  const holder = byId('column-' + column.name);
  columnTexts.set(column.name, {...column, text: holder.textContent});
  holder.remove();
}

// A worker per map. From file:// a worker can only come from a blob.
function startWorker() {
  const url = URL.createObjectURL(new Blob([byId('worker').textContent],
                                           {type: 'text/javascript'}));
  return new Worker(url);
}

function siteLabel(index) {
  const site = facts.sites[index];
  return site ? site.label : 'not known';
}

const threadLabel = (index) => facts.threads[index] ?? `thread ${index}`;
