// SPDX-License-Identifier: Apache-2.0
// Pictures of the page: PNG to pixels and back, and whether two of them show the same. Pure.
//
// Two pictures are the same if nobody would see a difference. Edges of letters are drawn a little differently by each
// version of a browser, so both pictures are blurred first, and then a pixel counts as different if its colour is far off.
// A few such pixels are allowed in all of the picture, but no cell of it may be full of them: a small thing that moved is
// a difference, too.

import { deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
const COLOR_TYPES = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 }; // channels of each
const PALETTE_MAX = 256;
// Colours that are kept as they are: surfaces and text have few colours, the edges of letters have all others.
const EXACT = 160;
const PIXELS_MAX = 1 << 26;

// What is the same: of a channel, after the blur; of all pixels; and of the pixels of a cell.
export const TOLERANCE = { channel: 24, share: 0.001, cell: 0.3 };
const CELL = 32;

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

function crc32(bytes) {
  let c = ~0;
  for (const byte of bytes) c = CRC[(c ^ byte) & 255] ^ (c >>> 8);
  return ~c >>> 0;
}

// -- PNG ------------------------------------------------------------------------------------------------------------------

function chunksOf(file) {
  if (!file.subarray(0, 8).equals(SIGNATURE)) throw new Error('not a PNG');
  const chunks = {};
  const data = [];
  for (let at = 8; at + 12 <= file.length; ) {
    const length = file.readUInt32BE(at);
    const type = file.toString('latin1', at + 4, at + 8);
    const body = file.subarray(at + 8, at + 8 + length);
    if (type === 'IDAT') data.push(body);
    else chunks[type] = body;
    at += 12 + length;
  }
  return { ...chunks, IDAT: Buffer.concat(data) };
}

// Undoes the filter of each row, in place. `bpp`: bytes from a pixel to the next.
function unfilter(rows, stride, height, bpp) {
  for (let y = 0; y < height; y++) {
    const at = y * (stride + 1);
    const filter = rows[at];
    for (let i = 0; i < stride; i++) {
      const here = at + 1 + i;
      const left = i >= bpp ? rows[here - bpp] : 0;
      const up = y > 0 ? rows[here - stride - 1] : 0;
      const corner = i >= bpp && y > 0 ? rows[here - stride - 1 - bpp] : 0;
      let by = 0;
      if (filter === 1) by = left;
      else if (filter === 2) by = up;
      else if (filter === 3) by = (left + up) >> 1;
      else if (filter === 4) {
        const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
        by = a <= b && a <= c ? left : b <= c ? up : corner;
      }
      rows[here] += by;
    }
  }
}

// {width, height, data: RGBA} of a PNG with eight bits for a channel, or with a palette, not interlaced.
export function decode(file) {
  const { IHDR, PLTE, IDAT } = chunksOf(file);
  const [width, height] = [IHDR.readUInt32BE(0), IHDR.readUInt32BE(4)];
  const [depth, type, , , interlaced] = IHDR.subarray(8);
  const channels = COLOR_TYPES[type];
  if (!channels || interlaced || !(depth === 8 || (type === 3 && depth < 8))) throw new Error('PNG: unknown kind');
  if (width * height > PIXELS_MAX) throw new Error('PNG: too large');
  const stride = Math.ceil((width * channels * depth) / 8);
  const rows = new Uint8Array(inflateSync(IDAT, { maxOutputLength: (stride + 1) * height }));
  unfilter(rows, stride, height, Math.max(1, (channels * depth) >> 3));
  const data = new Uint8Array(4 * width * height);
  for (let y = 0; y < height; y++) {
    const row = y * (stride + 1) + 1;
    for (let x = 0; x < width; x++) {
      const to = 4 * (y * width + x);
      if (type === 3) {
        const bit = x * depth;
        const index = (rows[row + (bit >> 3)] >> (8 - depth - (bit & 7))) & ((1 << depth) - 1);
        for (let i = 0; i < 3; i++) data[to + i] = PLTE[3 * index + i];
        data[to + 3] = 255;
      } else {
        const from = row + x * channels;
        const isGrey = channels < 3;
        for (let i = 0; i < 3; i++) data[to + i] = rows[from + (isGrey ? 0 : i)];
        data[to + 3] = channels % 2 === 0 ? rows[from + channels - 1] : 255;
      }
    }
  }
  return { width, height, data };
}

function chunk(type, body) {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), body]);
  const [length, crc] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(body.length);
  crc.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, crc]);
}

// Boxes of colours are split at the middle of their widest channel until there are `n`; the mean of each.
function meansOf(colors, n) {
  let boxes = [colors];
  while (boxes.length < n) {
    let widest = { range: 0 };
    boxes.forEach((box, i) => {
      for (let shift = 0; shift < 24; shift += 8) {
        let [low, high] = [255, 0];
        for (const [color] of box) {
          const value = (color >> shift) & 255;
          low = Math.min(low, value);
          high = Math.max(high, value);
        }
        if (high - low > widest.range) widest = { range: high - low, i, shift, middle: (low + high) / 2 };
      }
    });
    if (widest.range === 0) break;
    const { i, shift, middle } = widest;
    const box = boxes[i];
    boxes[i] = box.filter(([color]) => ((color >> shift) & 255) <= middle);
    boxes.push(box.filter(([color]) => ((color >> shift) & 255) > middle));
  }
  return boxes.map((box) => {
    const all = box.reduce((sum, [, count]) => sum + count, 0);
    const channel = (shift) => Math.round(box.reduce((sum, [color, count]) => sum + ((color >> shift) & 255) * count, 0) / all) << shift;
    return channel(16) | channel(8) | channel(0);
  });
}

function nearest(palette, color) {
  let [best, least] = [0, Infinity];
  palette.forEach((one, i) => {
    const [r, g, b] = [(one >> 16) - (color >> 16), ((one >> 8) & 255) - ((color >> 8) & 255), (one & 255) - (color & 255)];
    const distance = r * r + g * g + b * b;
    if (distance < least) [best, least] = [i, distance];
  });
  return best;
}

// A PNG with a palette: a third of the bytes that one with all colours has. Alpha is not kept.
export function encode({ width, height, data }) {
  const counts = new Map();
  const colorAt = (i) => (data[i] << 16) | (data[i + 1] << 8) | data[i + 2];
  for (let i = 0; i < data.length; i += 4) counts.set(colorAt(i), (counts.get(colorAt(i)) ?? 0) + 1);
  const colors = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const palette =
    colors.length <= PALETTE_MAX
      ? colors.map(([color]) => color)
      : [...colors.slice(0, EXACT).map(([color]) => color), ...meansOf(colors.slice(EXACT), PALETTE_MAX - EXACT)];
  const index = new Map(colors.map(([color]) => [color, nearest(palette, color)]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0, at = 0; y < height; y++) {
    rows[y * (width + 1)] = 0;
    for (let x = 0; x < width; x++, at += 4) rows[y * (width + 1) + 1 + x] = index.get(colorAt(at));
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const colorsOfPalette = Buffer.from(palette.flatMap((color) => [color >> 16, (color >> 8) & 255, color & 255]));
  return Buffer.concat([SIGNATURE, chunk('IHDR', header), chunk('PLTE', colorsOfPalette), chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })), chunk('IEND', Buffer.alloc(0))]);
}

// -- Comparison -----------------------------------------------------------------------------------------------------------

// Whether the means of the pixel and its neighbours differ by more than `channel` in a channel.
function differs(a, b, x, y, channel) {
  const [sums, x1, y1] = [[0, 0, 0], Math.min(a.width - 1, x + 1), Math.min(a.height - 1, y + 1)];
  let n = 0;
  for (let v = Math.max(0, y - 1); v <= y1; v++) {
    for (let u = Math.max(0, x - 1); u <= x1; u++, n++) {
      const at = 4 * (v * a.width + u);
      for (let c = 0; c < 3; c++) sums[c] += a.data[at + c] - b.data[at + c];
    }
  }
  return sums.some((sum) => Math.abs(sum) > channel * n);
}

// One for each pixel that differs after the blur. A mean differs by more than `channel` only if one of its pixels does, so
// that nothing else has to be blurred.
function maskOf(a, b, channel) {
  const { width, height } = a;
  const [looked, mask] = [new Uint8Array(width * height), new Uint8Array(width * height)];
  for (let i = 0, at = 0; i < mask.length; i++, at += 4) {
    const isFar = Math.abs(a.data[at] - b.data[at]) > channel || Math.abs(a.data[at + 1] - b.data[at + 1]) > channel || Math.abs(a.data[at + 2] - b.data[at + 2]) > channel;
    if (!isFar) continue;
    const [x, y] = [i % width, Math.floor(i / width)];
    for (let v = Math.max(0, y - 1); v <= Math.min(height - 1, y + 1); v++) {
      for (let u = Math.max(0, x - 1); u <= Math.min(width - 1, x + 1); u++) {
        const near = v * width + u;
        if (looked[near]++ === 0 && differs(a, b, u, v, channel)) mask[near] = 1;
      }
    }
  }
  return mask;
}

// How far the second picture is from the first: the share of pixels that differ, that of the worst cell and its place, the
// mask of these pixels, and whether both are the same within the tolerance.
export function compare(a, b, { channel, share, cell } = TOLERANCE) {
  if (a.width !== b.width || a.height !== b.height) return { same: false, share: 1, cell: 1, at: [0, 0], mask: null };
  const { width, height } = a;
  const mask = maskOf(a, b, channel);
  const columns = Math.ceil(width / CELL);
  const cells = new Uint32Array(columns * Math.ceil(height / CELL));
  let different = 0;
  mask.forEach((isDifferent, i) => {
    if (!isDifferent) return;
    different++;
    cells[Math.floor(Math.floor(i / width) / CELL) * columns + Math.floor((i % width) / CELL)]++;
  });
  const most = cells.reduce((found, n) => Math.max(found, n), 0);
  const worst = cells.indexOf(most);
  const found = { share: different / mask.length, cell: most / (CELL * CELL), at: [(worst % columns) * CELL, Math.floor(worst / columns) * CELL], mask };
  return { same: found.share <= share && found.cell <= cell, ...found };
}

// The first picture, pale, with what differs in red.
export function difference(picture, mask) {
  const data = new Uint8Array(picture.data.length);
  for (let i = 0; i < data.length; i += 4) {
    const grey = 200 + ((picture.data[i] + picture.data[i + 1] + picture.data[i + 2]) * 55) / 765;
    data.set(mask?.[i / 4] ? [220, 0, 0, 255] : [grey, grey, grey, 255], i);
  }
  return { ...picture, data };
}
