// SPDX-License-Identifier: Apache-2.0
// A tile as profd sends it: typed arrays over the bytes, without parsing. Bytes come from profd, but a defective answer
// must not make the page read beyond them, so sizes are checked once.

export const TILE_BUCKETS = 1024;
// Number of a name that a run does not have.
export const NO_NAME = 0xffffffff;

export interface TileRuns {
  readonly lanes: number;
  readonly start: Uint32Array; // the first run of each lane, and the number of runs
  readonly name: Uint32Array;
  readonly x: Uint16Array; // buckets
  readonly width: Uint16Array;
  readonly fill: Uint8Array; // 255: busy all the time
}

export class TileError extends Error {}

// u32 lanes, runs; u32 start[lanes + 1]; u32 name[runs]; u16 x[runs]; u16 width[runs]; u8 fill[runs], little endian as
// every machine with a browser is.
export function decodeTile(bytes: ArrayBuffer): TileRuns {
  if (bytes.byteLength < 8) throw new TileError('the tile has no head');
  const [lanes, runs] = new Uint32Array(bytes, 0, 2) as unknown as [number, number];
  const names = 8 + 4 * (lanes + 1);
  const xs = names + 4 * runs;
  const fills = xs + 4 * runs;
  if (bytes.byteLength !== fills + runs) throw new TileError('the tile has another size than its head says');
  const start = new Uint32Array(bytes, 8, lanes + 1);
  for (let i = 0; i < lanes; i++) if (start[i]! > start[i + 1]!) throw new TileError('the lanes of the tile are not in order');
  if (start[lanes]! !== runs) throw new TileError('the tile has runs without a lane');
  return {
    lanes,
    start,
    name: new Uint32Array(bytes, names, runs),
    x: new Uint16Array(bytes, xs, runs),
    width: new Uint16Array(bytes, xs + 2 * runs, runs),
    fill: new Uint8Array(bytes, fills, runs),
  };
}

// The first run of the lane that ends after the bucket; the end of the lane's runs if none does.
export function runAfter(tile: TileRuns, lane: number, bucket: number): number {
  let low = tile.start[lane]!;
  let high = tile.start[lane + 1]!;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (tile.x[middle]! + tile.width[middle]! <= bucket) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The run of the lane that has the bucket; -1 if none has.
export function runAt(tile: TileRuns, lane: number, bucket: number): number {
  const run = runAfter(tile, lane, bucket);
  return run < tile.start[lane + 1]! && tile.x[run]! <= bucket ? run : -1;
}

export function runsBytes(tile: TileRuns): number {
  return tile.name.length * 9 + tile.start.length * 4;
}
