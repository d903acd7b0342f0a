// Everything of the report that is text, bars and tables.
'use strict';

// columns: [title, 'number' or 'text', row → text or node]. On a narrow screen each row is a card,
// with the titles beside its values.
function makeTable(columns, rows, rowAttributes = () => ({})) {
  const head = element('tr', {}, ...columns.map(([title, kind]) =>
      element('th', {scope: 'col', class: kind}, title)));
  const body = element('tbody', {}, ...rows.map((row, index) =>
      element('tr', rowAttributes(row, index), ...columns.map(([title, kind, cell]) =>
          element('td', {class: kind, 'data-title': title}, cell(row, index))))));
  return element('div', {class: 'scroll'},
                 element('table', {}, element('thead', {}, head), body));
}

function swatch(colour) {
  const chip = element('span', {class: 'swatch', 'aria-hidden': 'true'});
  chip.style.background = colour;
  return chip;
}

function showHead() {
  byId('name').textContent = facts.name;
  const what = [
    counted(facts.buffers, isInstance ? 'buffer' : 'block'),
    ...(isInstance ? [] : [
      counted(facts.events, 'event'), counted(facts.threads.length, 'thread')]),
    ...(facts.operators.length > 0 ? [counted(facts.operators.length, 'operator')] : []),
    `max load ${bytesText(facts.max_load)}`,
  ];
  if (facts.lost_events > 0) what.push(
      `at least ${counted(facts.lost_events, 'event')} ${facts.lost_events === 1 ? 'is' : 'are'} missing`);
  if (!facts.complete) what.push('killed, or still running when recorded');
  byId('facts-line').textContent = what.join('  ·  ');
  byId('headline').textContent = facts.headline;
  byId('source').textContent = facts.trace;
  if (!isInstance) byId('unit-note').textContent = 'One event is one malloc or free. ';
  if (facts.images.length > 1) showImages();
}

// Which of the recorded processes this is about.
function showImages() {
  const rest = facts.images.filter((it) => it.trace !== facts.trace);
  const named = rest.slice(0, 8)
      .map((it) => `${it.trace}${it.command ? `: ${it.command}` : ''} (${bytesText(it.max_load)})`);
  if (rest.length > named.length) named.push(`${rest.length - named.length} smaller ones`);
  byId('facts-line').after(element('p', {class: 'quiet', id: 'images'},
      `The largest of ${facts.images.length} processes that were recorded; the others: ` +
      `${named.join(', ')}.`));
}

// A bar for everyone who served the recording: requested, inside blocks, between blocks.
function showContenders() {
  const host = byId('contenders');
  if (facts.contenders.length === 0) {
    host.append(element('p', {class: 'empty'}, 'No plan and no allocator to compare. Add ',
        element('code', {}, '--plan PLAN'), ' or ', element('code', {}, '--compare RESULT.json'),
        '.'));
    return;
  }
  const most = Math.max(facts.max_load, ...facts.contenders.map((it) => it.footprint)) * 1.02;
  const part = (bytes, name, title) => {
    const piece = element('span', {class: `part ${name}`, title});
    piece.style.width = `${100 * Math.max(0, bytes) / most}%`;
    return piece;
  };
  const bar = (it) => {
    const track = element('div', {class: 'bar'});
    if (it.internal !== null && it.internal !== undefined) {
      track.append(part(it.requested, 'requested', `requested: ${bytesText(it.requested)}`),
          part(it.internal, 'internal', `inside blocks: ${bytesText(it.internal)}`),
          part(it.external, 'external', `between blocks: ${bytesText(it.external)}`));
    } else {
      const used = Math.min(it.footprint, facts.max_load);
      track.append(part(used, 'requested', `max load: ${bytesText(used)}`),
          part(it.footprint - used, 'external', `above it: ${bytesText(it.footprint - used)}`));
    }
    const mark = element('span', {class: 'mark', title: `max load ${bytesText(facts.max_load)}`});
    mark.style.left = `${100 * facts.max_load / most}%`;
    track.append(mark);
    return track;
  };
  const any = (name) => facts.contenders.some((it) => it[name] !== null && it[name] !== undefined);
  const columns = [
    ['', 'text name', (it) => element('span', {}, it.label, ' ',
        element('span', {class: 'quiet'}, it.version ?? ''))],
    ['', 'wide', bar],
    ['footprint', 'number', (it) => bytesText(it.footprint)],
    ['above max load', 'number', (it) =>
        percentText(100 * (it.footprint - facts.max_load) / Math.max(1, facts.max_load))],
  ];
  const optional = [
    ['inside blocks', 'internal', bytesText], ['between blocks', 'external', bytesText],
    ['peak RSS', 'peak_rss', bytesText], ['page faults', 'page_faults', countText],
    ['ns/call', 'ns', (value) => value.toFixed(1)], ['waits', 'waits', countText],
  ];
  for (const [title, name, text] of optional) {
    if (!any(name)) continue;
    columns.push([title, 'number', (it) =>
        it[name] === null || it[name] === undefined ? '–' : text(it[name])]);
  }
  host.append(makeTable(columns, facts.contenders));
  const key = (name, text) => element('span', {class: 'key'},
      element('span', {class: `swatch ${name}`, 'aria-hidden': 'true'}), text);
  host.append(element('p', {class: 'legend'},
      key('requested', any('internal') ? 'requested' : 'up to the max load'),
      any('internal') ? key('internal', 'inside blocks: usable, not requested') : null,
      key('external', any('internal') ? 'between blocks: pages held for nothing' : 'above it'),
      key('mark', `max load ${bytesText(facts.max_load)}: no plan needs less`)));
}

function showLegend() {
  const {colouring} = colours, shown = palette(colouring);
  const bounds = boundsOf(colouring);
  const keys = {
    size: () => bounds.map((bound) => `≤ ${bytesText(bound)}`),
    age: () => bounds.map((bound) => `≤ ${shortCount(bound)}`),
    site: () => facts.sites.slice(0, OTHER_GROUP).map((site) => site.label),
    thread: () => facts.threads.map((name, index) => [facts.thread_ranks[index], name])
        .sort(([first], [second]) => first - second).map(([, name]) => name).slice(0, OTHER_GROUP),
  }[colouring]();
  const many = {site: facts.sites, thread: facts.threads}[colouring];
  if (many?.length > OTHER_GROUP) keys.push('all others');
  const unit = {size: 'size', age: `lifetime in ${timeUnit}`,
                site: isInstance ? 'buffer' : 'call site', thread: 'allocating thread'}[colouring];
  const key = (colour, text) => element('span', {class: 'key'}, swatch(toCss(colour)), text);
  byId('legend').replaceChildren(
      key(colourSet().waste, 'free, yet more was taken later'),
      key(colourSet().idle, 'free, and nothing more was taken'),
      element('span', {class: 'quiet'}, unit),
      ...keys.map((text, index) => key(shown[index], text)));
}

// A button that shows more rows, as long as there are some.
function addMore(host, shown, all, draw) {
  if (shown >= all) return;
  const rest = Math.min(all - shown, 50);
  host.append(element('button', {type: 'button', onclick: () => draw(shown + rest)},
                      `Show ${rest} more of ${countText(all)}`));
}

function siteColumns() {
  const most = Math.max(1, ...facts.sites.map((site) => site.peak_bytes));
  const colour = palette('site');
  const share = ({site}) => {
    const bar = element('div', {class: 'bar thin'}, element('span', {class: 'part requested'}));
    bar.firstChild.style.width = `${100 * site.peak_bytes / most}%`;
    return bar;
  };
  const name = ({site, index}) => element('button',
      {type: 'button', class: 'link', title: siteLabel(index), onclick: () => focusSite(index)},
      swatch(toCss(colour[Math.min(index, OTHER_GROUP)])), site.label);
  if (isInstance) {
    return [
      ['buffer', 'text', name],
      ['size', 'number', ({site}) => bytesText(site.size)],
      ['live at the peak', 'number', ({site}) => site.peak_blocks ? 'yes' : 'no'],
      ['', 'wide', share],
      ['from', 'number', ({site}) => timeText(site.lower - facts.first)],
      ['until', 'number', ({site}) => timeText(site.upper - facts.first)],
      ['offset', 'number', ({site}) => countText(site.offset) + (site.fixed ? ' (fixed)' : '')],
    ];
  }
  return [
    ['call site', 'text', (row) => {
      const {site} = row, callers = callersOf(site);
      const line = (text) => element('div', {class: 'quiet place'}, text);
      const first = callers.length > 0 ? line(`← ${callers[0]}`) : null;
      const rest = callers.length < 2 ? null : element('details', {class: 'quiet place'},
          element('summary', {}, `${callers.length - 1} more`),
          ...callers.slice(1).map((caller) => line(`← ${caller}`)));
      return element('div', {}, name(row), site.place ? line(site.place) : null, first, rest);
    }],
    ['live at the peak', 'number', ({site}) => bytesText(site.peak_bytes)],
    ['', 'wide', share],
    ['in blocks', 'number', ({site}) => countText(site.peak_blocks)],
    ['blocks in all', 'number', ({site}) => countText(site.allocations)],
    ['bytes in all', 'number', ({site}) => bytesText(site.bytes)],
    ['never freed', 'number', ({site}) => site.end_bytes ? bytesText(site.end_bytes) : '–'],
  ];
}

// Of those whose index `keep` takes.
function showSites(keep = () => true) {
  const host = byId('sites');
  if (isInstance) byId('sites-title').textContent = 'Buffers';
  if (facts.sites.length === 0 || (facts.sites.length === 1 && !facts.sites[0].known)) {
    host.replaceChildren(
        element('p', {class: 'empty'}, 'This input does not say where blocks come from.'));
    return;
  }
  const rows = facts.sites.map((site, index) => ({site, index})).filter(({index}) => keep(index));
  const draw = (shown) => {
    host.replaceChildren(makeTable(siteColumns(), rows.slice(0, shown)));
    addMore(host, shown, rows.length, draw);
  };
  draw(8);
}

// counts[n]: of values in [2^(n-1), 2^n).
function showHistogram(id, counts, label) {
  const host = byId(id);
  const first = counts.findIndex((count) => count > 0);
  if (first < 0) {
    host.append(element('p', {class: 'empty'}, 'Nothing to count.'));
    return;
  }
  const last = counts.findLastIndex((count) => count > 0);
  const most = Math.max(...counts), all = counts.reduce((sum, count) => sum + count, 0);
  const list = element('div', {class: 'histogram', role: 'table'});
  for (let n = first; n <= last; ++n) {
    const bar = element('span', {class: 'part requested'});
    bar.style.width = `${100 * counts[n] / most}%`;
    list.append(element('div', {role: 'row', title: percentText(100 * counts[n] / all)},
        element('span', {class: 'range', role: 'cell'}, label(n === 0 ? 0 : 2 ** (n - 1))),
        element('span', {class: 'bar thin', role: 'cell'}, bar),
        element('span', {class: 'number', role: 'cell'}, countText(counts[n]))));
  }
  host.append(list);
}

function showSection(id, rows, columns, note) {
  const section = byId(id);
  if (!rows || rows.length === 0) {
    section.hidden = true;
    return;
  }
  const holder = element('div');
  const draw = (shown) => {
    holder.replaceChildren(makeTable(columns, rows.slice(0, shown)));
    addMore(holder, shown, rows.length, draw);
  };
  draw(8);
  section.append(holder);
  if (note) section.append(element('p', {class: 'quiet'}, note));
}

// What stands below the maps.
function showTables() {
  showSites();
  showHistogram('sizes', facts.sizes, (value) => value === 0 ? '0 B' : `≥ ${bytesText(value)}`);
  byId('lifetimes-title').textContent = `Lifetimes, in ${timeUnit}`;
  showHistogram('lifetimes', facts.lifetimes, (value) => `≥ ${shortCount(value)}`);
  for (const one of facts.pins ?? []) showPins(one);
  byId('pins').hidden = !(facts.pins ?? []).length;
  const against = (bytes) => {
    const percent = 100 * (bytes / Math.max(1, facts.max_load) - 1);
    const change = Math.abs(percent) < 0.05 ? 'no change' :
        `${percent < 0 ? '−' : '+'}${percentText(Math.abs(percent))}`;
    return element('span', {}, bytesText(bytes), ' ', element('span', {class: 'quiet'}, change));
  };
  showSection('hints', facts.hints, [
    ['if the blocks of this site …', 'text', (it) => it.label],
    ['most at one time', 'number', (it) => bytesText(it.peak_bytes)],
    ['… were freed at once', 'number', (it) => against(it.freed_at_once)],
    ['… had a pool', 'number', (it) => against(it.pooled)],
    ['… had a lane', 'number', (it) => against(it.own_lane)],
  ], `The max load is ${bytesText(facts.max_load)}; each column says what it would be. A recording ` +
     'knows no uses of memory: “freed at once” is the most that earlier frees can gain. A pool is ' +
     'there for the whole run, a lane from the first block of the site to the last.');
  showSection('lanes', facts.lanes, [
    ['thread', 'text', (it) => it.thread],
    ['blocks', 'number', (it) => countText(it.blocks)],
    ['box', 'number', (it) => bytesText(it.box_bytes)],
    ['most live in it', 'number', (it) => bytesText(it.max_load)],
    ['starts at', 'number', (it) => bytesText(it.box_offset)],
    ['alive in events', 'number', (it) => `${shortCount(it.first_event)} – ${shortCount(it.end_event)}`],
  ]);
  showReplay();
}

function showPins(one) {
  byId('pins').append(
      element('h3', {}, one.map),
      element('p', {class: 'quiet'}, one.what),
      makeTable([
        [isInstance ? 'buffer' : 'call site', 'text', (it) => it.label],
        ['holds back', 'number', (it) => bytesText(it.hostage_bytes)],
        [`live at ${one.when}`, 'number', (it) => bytesText(it.bytes)],
        ...(isInstance ? [] : [
          ['in blocks', 'number', (it) => countText(it.blocks)],
          ['threads', 'text', (it) => it.threads],
          ['oldest, events', 'number', (it) => countText(it.oldest_age)]]),
      ], one.sites.slice(0, 5)));
}

function showReplay() {
  const section = byId('replay');
  if (!facts.replay) {
    section.hidden = true;
    return;
  }
  section.append(element('p', {}, facts.replay.explanation));
  section.append(makeTable([
    ['', 'text', ([name]) => name],
    ['', 'number', ([, value]) => typeof value === 'number' ? countText(value) : String(value)],
  ], Object.entries(facts.replay.counters)));
}
