// The columns of numbers, in the worker: they arrive one by one while the page is still being read.
'use strict';

const arriving = new Map();  // name → {numbers: a promise, fulfil}
const bytesOf = new Map();   // name → of one number, once the column arrived

function slot(name) {
  if (!arriving.has(name)) {
    const made = {};
    made.numbers = new Promise((fulfil) => { made.fulfil = fulfil; });
    arriving.set(name, made);
  }
  return arriving.get(name);
}

// Of a column, when they are there.
const numbersOf = (name) => slot(name).numbers;

function takeColumn(column) {
  bytesOf.set(column.name, column.bytes);
  slot(column.name).fulfil(unpack(column));
}

// What stands for "none" in a column that arrived.
function noNumber(name) {
  const bytes = bytesOf.get(name);
  return bytes === 8 ? -1 : 2 ** (8 * bytes) - 1;
}

// The smallest array for whole numbers up to `most`: a million of them have to pass the processor's
// cache for every picture.
const numbersUpTo = (most, length) =>
    most < 2 ** 32 ? new Uint32Array(length) : new Float64Array(length);

async function unpack({bytes, count: length, delta, text}) {
  const planes = await inflate(text);
  const second = length, third = 2 * length, fourth = 3 * length;
  let values = planes;
  if (bytes === 2) {
    values = new Uint16Array(length);
    for (let i = 0; i < length; ++i) values[i] = planes[i] | planes[second + i] << 8;
  } else if (bytes === 3) {
    values = new Uint32Array(length);
    for (let i = 0; i < length; ++i) {
      values[i] = planes[i] | planes[second + i] << 8 | planes[third + i] << 16;
    }
  } else if (bytes === 4) {
    values = new Uint32Array(length);
    for (let i = 0; i < length; ++i) {
      values[i] = planes[i] | planes[second + i] << 8 | planes[third + i] << 16 |
          planes[fourth + i] << 24;
    }
  } else if (bytes === 8) {
    const whole = new Uint8Array(8 * length);
    for (let byte = 0; byte < 8; ++byte) {
      const plane = byte * length;
      for (let i = 0; i < length; ++i) whole[8 * i + byte] = planes[plane + i];
    }
    values = new Float64Array(whole.buffer);
  }
  if (!delta) return values;
  let sum = 0;
  for (let i = 0; i < length; ++i) sum += values[i];
  const sums = numbersUpTo(sum, length);
  sum = 0;
  for (let i = 0; i < length; ++i) sums[i] = sum += values[i];
  return sums;
}
