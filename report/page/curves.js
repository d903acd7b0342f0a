// The curves over the events: what was live, what each allocator had resident, what each plan needs.
// With uPlot where it is built in; else the page holds a static picture.
'use strict';

let chart = null;

// {label, events, values, dash} for each line; the first one is filled.
function curveLines() {
  const {events, live, requested, series} = facts.curves;
  const lines = [{label: 'live', events, values: live},
                 {label: 'requested', events, values: requested}];
  for (const one of series) lines.push({label: one.label, events: one.events, values: one.values});
  for (const map of facts.maps) {
    if (map.kind !== 'plan') continue;
    lines.push({label: `${map.label} makespan`, events: [0, whole.end],
                values: [map.height, map.height], dash: [6, 4]});
  }
  return lines;
}

// A thin line where the load is at its maximum.
function markPeak({ctx, bbox, valToPos}) {
  const at = Math.round(valToPos(facts.peak, 'x', true));
  if (at < bbox.left || at > bbox.left + bbox.width) return;
  ctx.fillStyle = getComputedStyle(byId('curves')).getPropertyValue('--accent');
  ctx.fillRect(at, bbox.top, devicePixelRatio, bbox.height);
}

// Loops as bars and marks as ticks, both at the lower edge.
function markRepeats({ctx, bbox, valToPos}) {
  const style = getComputedStyle(byId('curves'));
  const clip = (time) => Math.min(Math.max(valToPos(time, 'x', true), bbox.left), bbox.left + bbox.width);
  const height = 5 * devicePixelRatio, bottom = bbox.top + bbox.height;
  ctx.fillStyle = style.getPropertyValue('--quiet');
  for (const [begin, end] of facts.loops) {
    if (end <= view.begin || begin >= view.end) continue;
    const left = clip(begin);
    ctx.fillRect(left, bottom - height, Math.max(clip(end) - left, devicePixelRatio), height);
  }
  ctx.fillStyle = style.getPropertyValue('--accent');
  for (const time of facts.marks) {
    if (time < view.begin || time > view.end) continue;
    ctx.fillRect(Math.round(clip(time)), bottom - 2 * height, devicePixelRatio, 2 * height);
  }
}

function makeChart() {
  const host = byId('curves');
  if (typeof uPlot === 'undefined' || facts.curves.events.length === 0) return;
  const lines = curveLines();
  const style = getComputedStyle(host);
  const ink = style.getPropertyValue('--quiet').trim();
  const line = style.getPropertyValue('--line').trim();
  const font = `11px ${style.getPropertyValue('font-family')}`;
  const data = uPlot.join(lines.map((it) => [it.events, it.values]));
  const series = [{label: facts.time, value: (_, value) => value === null ? '–' : timeText(value)}];
  lines.forEach((it, index) => {
    const colour = lineColour(index);
    series.push({
      label: it.label,
      stroke: colour,
      width: index === 0 ? 1 : 1.5,
      fill: index === 0 ? colour.replace(')', ' / 22%)') : undefined,
      dash: it.dash,
      spanGaps: true,
      points: {show: false},
      // Between its own samples a line holds its last value.
      value: (self, value, number, row) => {
        const values = self.data[number];
        let at = row ?? values.length - 1;
        while (at > 0 && (values[at] === null || values[at] === undefined)) --at;
        return bytesText(values[at] ?? null);
      },
    });
  });
  if (chart) chart.destroy();
  host.replaceChildren();
  chart = new uPlot({
    width: host.clientWidth,
    height: 240,
    padding: [8, MARGIN_RIGHT, 0, 0],
    scales: {
      x: {time: false, range: () => [view.begin, view.end]},
      y: {range: (_, low, high) => [0, (high || 1) * 1.06]},
    },
    axes: [
      {stroke: ink, font, grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1, size: 4},
       size: 28, label: timeUnit, labelFont: font, labelSize: 16,
       splits: (self, axis, low, high) => timeTicks(low, high, self.width / 70),
       values: (_, values) => values.map((time) => shortCount(fileTime(time)))},
      {stroke: ink, font, size: gutter() - 16, label: 'bytes', labelFont: font, labelSize: 16, grid: {stroke: line, width: 1}, ticks: {show: false},
       splits: (self, axis, low, high) => ticks(low, high, 5, true),
       values: (_, values) => values.map(bytesText)},
    ],
    cursor: {drag: {x: true, y: false, setScale: false}, points: {size: 6}},
    series,
    hooks: {draw: [markPeak, markRepeats], setSelect: [(self) => {
      if (self.select.width < 3) return;
      const begin = self.posToVal(self.select.left, 'x');
      const end = self.posToVal(self.select.left + self.select.width, 'x');
      self.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
      setView({begin, end});
    }]},
  }, data, host);
}

function startCurves() {
  const host = byId('curves');
  byId('repeats').textContent = facts.repeats;
  byId('repeats').hidden = !facts.repeats;
  makeChart();
  if (typeof uPlot === 'undefined') {
    host.append(element('p', {class: 'quiet'},
        'These curves are a static picture: this reprise was built without Node.js.'));
    return;
  }
  let asked = 0;
  viewListeners.push(() => {
    if (asked) return;
    asked = requestAnimationFrame(() => {
      asked = 0;
      if (chart) chart.setScale('x', {min: view.begin, max: view.end});
    });
  });
  new ResizeObserver(() => {
    if (chart && Math.abs(chart.width - host.clientWidth) > 1) {
      chart.setSize({width: host.clientWidth, height: 240});
    }
  }).observe(host);
}
