// SPDX-License-Identifier: Apache-2.0
// Edges of slices: what a measurement snaps to, and what the arrow keys go to.

import { runAfter, TILE_BUCKETS, type TileRuns } from './decode';
import { tileBegin } from './tiles';

interface PlacedRuns {
  runs: TileRuns;
  level: number;
  index: number;
}

// The edge of a run of the lane that is nearest to the time, within some nanoseconds; NaN if there is none.
export function nearestEdge(tile: PlacedRuns, lane: number, at: number, within: number): number {
  const { runs } = tile;
  const begin = tileBegin(tile.level, tile.index);
  const bucket = 2 ** tile.level;
  const end = runs.start[lane + 1]!;
  let best = NaN;
  let distance = within;
  const first = Math.max(runAfter(runs, lane, Math.floor((at - within - begin) / bucket)) - 1, runs.start[lane]!);
  for (let run = first; run < end; run++) {
    const from = begin + runs.x[run]! * bucket;
    const to = from + runs.width[run]! * bucket;
    if (from > at + within) break;
    // A run that reaches the edge of the tile may go on in the next one.
    if (runs.x[run]! > 0 && Math.abs(from - at) <= distance) {
      distance = Math.abs(from - at);
      best = from;
    }
    if (runs.x[run]! + runs.width[run]! < TILE_BUCKETS && Math.abs(to - at) <= distance) {
      distance = Math.abs(to - at);
      best = to;
    }
  }
  return best;
}

// Two times, the earlier one first.
export function ordered(a: number, b: number): { from: number; to: number } {
  return a <= b ? { from: a, to: b } : { from: b, to: a };
}
