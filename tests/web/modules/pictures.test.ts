// SPDX-License-Identifier: Apache-2.0
// The comparison of pictures sees what people would see, and nothing else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare, decode, difference, encode, TOLERANCE } from '../pictures.mjs';

interface Picture {
  width: number;
  height: number;
  data: Uint8Array;
}

const WIDTH = 640;
const HEIGHT = 400;
const BACK = [22, 26, 33];
const TEXT = [227, 232, 240];

let seed = 1;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;

function fill(picture: Picture, [x, y, w, h]: number[], color: number[]): void {
  for (let v = y!; v < y! + h!; v++) for (let u = x!; u < x! + w!; u++) picture.data.set([...color, 255], 4 * (v * WIDTH + u));
}

// Letters, more or less: strokes with soft edges. `weight`: how much ink is in an edge.
function write(picture: Picture, x: number, y: number, letters: number, weight = 0.5): void {
  const edge = BACK.map((back, i) => Math.round(back + (TEXT[i]! - back) * weight));
  seed = x * 31 + y;
  for (let n = 0; n < letters; n++) {
    const at = x + 8 * n;
    const stroke = 2 + Math.floor(random() * 3);
    fill(picture, [at + stroke - 1, y, 3, 11], edge);
    fill(picture, [at + stroke, y, 1, 11], TEXT);
    fill(picture, [at, y + Math.floor(random() * 10), 6, 1], TEXT);
  }
}

// A table with a bar in each row. `shift` moves its second column, `bar` is the length of the third row's.
function page({ shift = 0, bar = 120, weight = 0.5 } = {}): Picture {
  const picture = { width: WIDTH, height: HEIGHT, data: new Uint8Array(4 * WIDTH * HEIGHT) };
  fill(picture, [0, 0, WIDTH, HEIGHT], BACK);
  for (let row = 0; row < 10; row++) {
    write(picture, 20, 20 + 34 * row, 14, weight);
    write(picture, 220 + shift, 20 + 34 * row, 6, weight);
    fill(picture, [340, 16 + 34 * row, row === 2 ? bar : 40 + 20 * row, 18], [85, 103, 140]);
  }
  return picture;
}

test('a picture is the same as itself, through its file', () => {
  const picture = page();
  const again = decode(encode(picture));
  assert.deepEqual([again.width, again.height], [WIDTH, HEIGHT]);
  assert.ok(Buffer.from(again.data).equals(Buffer.from(picture.data)), 'few colours are kept exactly');
  const { same, share, cell } = compare(picture, again);
  assert.deepEqual([same, share, cell], [true, 0, 0]);
});

test('a palette is as good as all colours', () => {
  const picture = page();
  for (let y = 0; y < 40; y++) for (let x = 0; x < 240; x++) picture.data.set([x, 3 * y, 255 - x], 4 * ((y + 350) * WIDTH + x + 380));
  const kept = decode(encode(picture));
  const { same, share, cell } = compare(picture, kept);
  assert.ok(same && share === 0, `${share} ${cell}`);
  assert.ok(encode(picture).length < 30_000);
});

test('edges of letters that are drawn a little differently are no difference', () => {
  for (const weight of [0.4, 0.45, 0.55, 0.6]) {
    const { same, share, cell } = compare(page(), page({ weight }));
    assert.ok(same, `weight ${weight}: ${share} of all pixels, ${cell} of a cell`);
  }
  const noisy = page();
  for (let i = 0; i < noisy.data.length; i++) if (i % 4 < 3) noisy.data[i] = Math.max(0, Math.min(255, noisy.data[i]! + Math.round(16 * random() - 8)));
  assert.ok(compare(page(), noisy).same);
});

test('a bar of another length is a difference', () => {
  for (const bar of [80, 100, 150]) {
    const { same, at } = compare(page(), page({ bar }));
    assert.equal(same, false, `${bar} instead of 120 pixels`);
    assert.ok(at[0]! >= 400 && at[0]! < 500 && at[1]! >= 64 && at[1]! < 128, `it is at ${at}`);
  }
});

test('a column that moved is a difference', () => {
  for (const shift of [2, 4, 30]) assert.equal(compare(page(), page({ shift })).same, false, `by ${shift} pixels`);
});

test('another size is a difference', () => {
  const picture = page();
  const shorter = { ...picture, height: HEIGHT - 1, data: picture.data.subarray(0, 4 * WIDTH * (HEIGHT - 1)) };
  assert.equal(compare(picture, shorter).same, false);
});

test('another colour of a large surface is a difference', () => {
  const picture = page();
  fill(picture, [340, 16, 40, 18], [194, 47, 47]);
  assert.equal(compare(page(), picture).same, false);
});

test('what differs is red in the picture of the difference', () => {
  const [before, after] = [page(), page({ bar: 100 })];
  const { mask } = compare(before, after);
  const { data } = difference(before, mask);
  const at = 4 * (92 * WIDTH + 450);
  assert.deepEqual([...data.subarray(at, at + 3)], [220, 0, 0]);
  assert.equal(data[0], data[1]);
});

test('what is no picture is refused', () => {
  assert.throws(() => decode(Buffer.from('GIF89a of something')), /not a PNG/);
  assert.ok(TOLERANCE.share < 0.01);
});
