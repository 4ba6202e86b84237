// SPDX-License-Identifier: Apache-2.0
// Pixels of a tile: a row for each lane, a column for each bucket. Drawn once; every frame stretches it.

import { NO_NAME, TILE_BUCKETS, type TileRuns } from './decode';

// A bucket that is hardly busy stays visible.
const ALPHA_MIN = 90;
// The first bucket of a run is fainter, so that slices of one name next to each other stay apart.
const EDGE = 0.45;
const EDGE_FROM = 3;

const ALPHA = Uint32Array.from({ length: 256 }, (_, fill) => Math.round(ALPHA_MIN + ((255 - ALPHA_MIN) * fill) / 255));

// The colours of names, as 0x00BBGGRR: of a name that is not there `unknown`. Alpha is how busy the bucket is.
export function paintTile(tile: TileRuns, colors: Uint32Array, unknown: number, pixels: Uint32Array): boolean {
  let isComplete = true;
  pixels.fill(0, 0, tile.lanes * TILE_BUCKETS);
  for (let lane = 0; lane < tile.lanes; lane++) {
    const row = lane * TILE_BUCKETS;
    const end = tile.start[lane + 1]!;
    for (let run = tile.start[lane]!; run < end; run++) {
      const name = tile.name[run]!;
      let color = name < colors.length ? colors[name]! : 0;
      if (color === 0) {
        color = unknown;
        if (name !== NO_NAME) isComplete = false;
      }
      const alpha = ALPHA[tile.fill[run]!]!;
      const pixel = ((alpha << 24) | (color & 0xffffff)) >>> 0;
      const x = tile.x[run]!;
      const width = tile.width[run]!;
      const last = Math.min(x + width, TILE_BUCKETS);
      if (width === 1) {
        if (x < TILE_BUCKETS) pixels[row + x] = pixel;
        continue;
      }
      pixels.fill(pixel, row + x, row + last);
      if (width >= EDGE_FROM && x > 0 && x < last) pixels[row + x] = (((alpha * EDGE) << 24) | (color & 0xffffff)) >>> 0;
    }
  }
  return isComplete;
}

// How busy each bucket is over some lanes of the tile, and which run has most of it: for the overview. Names that do not
// count are left out: an annotation on a GPU is there all the time, however idle the GPU is.
export function profileOf(tile: TileRuns, lanes: Iterable<number>, fill: Uint8Array, name: Uint32Array, counts: (name: number) => boolean = () => true): void {
  fill.fill(0);
  name.fill(NO_NAME);
  for (const lane of lanes) {
    if (lane < 0 || lane >= tile.lanes) continue;
    const end = tile.start[lane + 1]!;
    for (let run = tile.start[lane]!; run < end; run++) {
      if (!counts(tile.name[run]!)) continue;
      const last = Math.min(tile.x[run]! + tile.width[run]!, TILE_BUCKETS);
      const full = tile.fill[run]!;
      for (let x = tile.x[run]!; x < last; x++) {
        if (full < fill[x]! || (full === fill[x]! && name[x] !== NO_NAME)) continue;
        fill[x] = full;
        name[x] = tile.name[run]!;
      }
    }
  }
}
