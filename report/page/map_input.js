// How people move about a heap map: mouse, touch and keyboard; and what they are told of a block.
'use strict';

const tooltip = element('div', {class: 'tooltip', role: 'status', hidden: true});

function blockRows(map, block) {
  const never = block.death >= whole.end;
  const lifetime = block.death - block.birth;
  return [
    ['size', `${bytesText(block.size)} (${countText(block.size)} B)`],
    ...(isInstance ? [
      ['buffer', names?.[block.block] ?? 'still unpacking'],
      ['lives', `from ${timeText(block.birth)} until ${timeText(block.death)}`],
    ] : [
      ['site', block.site >= 0 ? siteLabel(block.site) : 'still unpacking'],
      ['lifetime', never ? `${counted(lifetime, 'event')}, never freed` :
          counted(lifetime, 'event')],
      ['events', `${countText(block.birth)} – ${never ? 'end' : countText(block.death)}`],
      ['thread', block.thread >= 0 ? threadLabel(block.thread) : '–'],
    ]),
    [map.fact.kind === 'plan' ? 'offset' : 'address', `+${countText(block.offset)} B`],
    ...(isInstance ? [] :
        [['block', `number ${countText(block.block)}${facts.sampled ? ' of the largest' : ''}`]]),
  ];
}

function blockList(map, block) {
  const list = element('dl', {class: 'block'});
  for (const [name, value] of blockRows(map, block)) {
    list.append(element('dt', {}, name), element('dd', {}, value));
  }
  return list;
}

function showTooltip(map, block, event) {
  if (!block) {
    tooltip.hidden = true;
    return;
  }
  tooltip.replaceChildren(blockList(map, block));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - 16 - box.width :
      event.clientX + 16;
  const top = Math.min(event.clientY + 16, innerHeight - box.height - 8);
  tooltip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}

function showSelection(map, block) {
  const panel = byId('selection');
  if (!block) {
    panel.replaceChildren(element('p', {class: 'quiet'},
        'Click a block, or press Enter in a map, to keep its details here.'));
    return;
  }
  const actions = element('p', {class: 'actions'},
      isInstance ? '' : element('button', {type: 'button', onclick: () => focusSite(block.site)},
                                'Show only this site'),
      element('button', {type: 'button', onclick: () => {
        for (const other of maps) if (other !== map) other.select(null);
        map.select(null);
      }}, 'Clear'));
  panel.replaceChildren(element('h3', {}, `Selected block, in ${map.fact.label}`),
                        blockList(map, block), actions);
}

function addMapInput(map) {
  const {canvas} = map;
  const pointers = new Map();
  let moved = 0, pinch = null, hovering = false;

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  };
  const parts = (point) => {
    const area = map.area();
    return [(point.x - area.left) / area.width, 1 - (point.y - area.top) / area.height];
  };

  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({preventScroll: true});
    pointers.set(event.pointerId, place(event));
    moved = 0;
    pinch = null;
    tooltip.hidden = true;
  });
  canvas.addEventListener('pointermove', (event) => {
    const point = place(event), before = pointers.get(event.pointerId);
    if (!before) {
      hover(point, event);
      return;
    }
    pointers.set(event.pointerId, point);
    const area = map.area();
    if (pointers.size === 1) {
      moved += Math.abs(point.x - before.x) + Math.abs(point.y - before.y);
      panBy((before.x - point.x) / area.width, (point.y - before.y) / area.height);
      return;
    }
    const [first, second] = [...pointers.values()];
    const apart = Math.hypot(first.x - second.x, first.y - second.y);
    const middle = {x: (first.x + second.x) / 2, y: (first.y + second.y) / 2};
    moved = Infinity;
    if (pinch) {
      panBy((pinch.middle.x - middle.x) / area.width, (middle.y - pinch.middle.y) / area.height);
      const factor = pinch.apart / Math.max(apart, 1);
      zoomAt(factor, factor, ...parts(middle));
    }
    pinch = {apart, middle};
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    pinch = null;
    const finger = event.pointerType === 'touch';  // which trembles, and is thick
    if (event.type === 'pointerup' && moved < (finger ? 12 : 5)) {
      const point = place(event);
      map.pick(point.x, point.y, (block) => {
        for (const other of maps) if (other !== map && other.selected) other.select(null);
        map.select(block);
      }, finger ? 12 : undefined);
    }
  };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointerleave', () => {
    hovering = false;
    tooltip.hidden = true;
  });

  // One question at a time: the answer to the last position counts.
  let asking = false, next = null;
  function hover(point, event) {
    hovering = true;
    if (asking) {
      next = [point, event];
      return;
    }
    asking = true;
    map.pick(point.x, point.y, (block) => {
      asking = false;
      if (next) {
        const [later, laterEvent] = next;
        next = null;
        hover(later, laterEvent);
      } else if (hovering) {
        showTooltip(map, block, event);
      }
    });
  }

  canvas.addEventListener('wheel', (event) => {
    // A page that is scrolled past must not zoom: only a map that was chosen does.
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    tooltip.hidden = true;
    const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.006);
    const [partX, partY] = parts(place(event));
    zoomAt(event.altKey ? 1 : factor, event.shiftKey ? 1 : factor, partX, partY);
  }, {passive: false});
  canvas.addEventListener('dblclick', (event) => {
    const [partX, partY] = parts(place(event));
    zoomAt(0.5, 0.5, partX, partY);
  });

  const keys = {
    ArrowLeft: () => panBy(-0.1, 0),
    ArrowRight: () => panBy(0.1, 0),
    ArrowUp: () => panBy(0, 0.1),
    ArrowDown: () => panBy(0, -0.1),
    '+': () => zoomAt(0.7, 0.7),
    '=': () => zoomAt(0.7, 0.7),
    '-': () => zoomAt(1 / 0.7, 1 / 0.7),
    '0': () => setView(whole),
    Home: () => setView(whole),
    Enter: () => {
      const area = map.area();
      // Whatever is nearest: nobody can aim with a key.
      map.pick(area.left + area.width / 2, area.top + area.height / 2, choose, area.width);
    },
    ']': () => step('next'),
    '[': () => step('previous'),
    PageUp: () => step('above'),
    PageDown: () => step('below'),
    Escape: () => map.select(null),
  };
  const choose = (block) => {
    if (!block) return;
    map.select(block);
    map.reveal(block);
  };
  const step = (direction) => {
    if (map.selected) map.ask({type: 'neighbour', block: map.selected.block, direction}, choose);
  };
  canvas.addEventListener('keydown', (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    action();
  });
}
