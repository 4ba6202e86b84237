// SPDX-License-Identifier: Apache-2.0
// A tile as a picture: a pixel for each lane and bucket, and the runs that are wide enough for a label.

import { TILE_BUCKETS, type TileRuns } from './decode';
import type { Names } from './names';
import { paintTile } from './paint';
import { GROUP_LANES, type Tile } from './tiles';

// A bucket has one or two pixels: a run of fewer buckets has no room for text.
const LABEL_BUCKETS = 8;

export interface TilePicture {
  canvas: OffscreenCanvas | null; // null: nothing in it
  labelStart: Uint32Array; // first label of each lane, and their number
  labels: Uint32Array; // numbers of runs
  epoch: number;
  version: number;
  isComplete: boolean;
}

export function pictureBytes(lanes: number): number {
  return lanes * TILE_BUCKETS * 4;
}

// Pixels on their way into a canvas; one for all tiles.
let scratch: { image: ImageData; pixels: Uint32Array } | null = null;

function labelsOf(runs: TileRuns): { start: Uint32Array; labels: Uint32Array } {
  const start = new Uint32Array(runs.lanes + 1);
  const labels: number[] = [];
  for (let lane = 0; lane < runs.lanes; lane++) {
    start[lane] = labels.length;
    const end = runs.start[lane + 1]!;
    for (let run = runs.start[lane]!; run < end; run++) {
      const x = runs.x[run]!;
      const width = runs.width[run]!;
      // What reaches an edge may go on in the next tile.
      if (width >= LABEL_BUCKETS || x === 0 || x + width >= TILE_BUCKETS) labels.push(run);
    }
  }
  start[runs.lanes] = labels.length;
  return { start, labels: Uint32Array.from(labels) };
}

function draw(picture: TilePicture, runs: TileRuns, names: Names, unknown: number): void {
  if (!scratch) {
    const image = new ImageData(TILE_BUCKETS, GROUP_LANES);
    scratch = { image, pixels: new Uint32Array(image.data.buffer) };
  }
  picture.isComplete = paintTile(runs, names.colors, unknown, scratch.pixels);
  picture.epoch = names.epoch;
  picture.version = names.version;
  picture.canvas!.getContext('2d')!.putImageData(scratch.image, 0, 0, 0, 0, TILE_BUCKETS, runs.lanes);
}

// The picture of a tile that is here, drawn again if its names or their colours changed.
export function pictureOf(tile: Tile<TilePicture>, names: Names, unknown: number): TilePicture {
  const runs = tile.runs!;
  let picture = tile.picture;
  if (!picture) {
    const { start, labels } = labelsOf(runs);
    const isEmpty = runs.name.length === 0;
    picture = {
      canvas: isEmpty ? null : new OffscreenCanvas(TILE_BUCKETS, runs.lanes),
      labelStart: start,
      labels,
      epoch: -1,
      version: -1,
      isComplete: isEmpty,
    };
    tile.picture = picture;
    names.need(runs);
  }
  if (picture.canvas && (picture.epoch !== names.epoch || (!picture.isComplete && picture.version !== names.version)))
    draw(picture, runs, names, unknown);
  return picture;
}
