// Numbers and elements as people read them.
'use strict';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

// As the command line says it (base::HumanBytes): 1536 → "1.5 KiB".
function bytesText(bytes) {
  if (bytes === null || bytes === undefined || !Number.isFinite(bytes)) return '–';
  const sign = bytes < 0 ? '−' : '';
  let value = Math.abs(bytes), unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${sign}${value.toFixed(unit === 0 ? 0 : 1)} ${UNITS[unit]}`;
}

const countText = (value) => value === null || value === undefined ? '–' :
    Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f');

// "1 block", "3 blocks".
const counted = (count, noun) => `${countText(count)} ${noun}${count === 1 ? '' : 's'}`;

function shortCount(value) {
  for (const [size, letter] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (Math.abs(value) >= size) return `${+(value / size).toPrecision(4)} ${letter}`;
  }
  return String(Math.round(value));
}

const percentText = (value) => Number.isFinite(value) ? `${value.toFixed(1)} %` : '–';

// element('td', {class: 'number'}, 'text', child…)
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Multiples of 1, 2 or 5 times a power of 10, of a power of 2 for bytes: about `most` of them in the
// range. Whole numbers, as there is nothing between two events or two bytes.
function ticks(low, high, most, binary) {
  const rough = (high - low) / Math.max(1, most);
  if (!(rough > 0)) return [];
  let step;
  if (binary) {
    step = 2 ** Math.ceil(Math.log2(rough));
  } else {
    const power = 10 ** Math.floor(Math.log10(rough));
    step = [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= rough);
  }
  step = Math.max(1, step);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}
