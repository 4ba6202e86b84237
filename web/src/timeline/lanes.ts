// SPDX-License-Identifier: Apache-2.0
// The lanes of a timeline's picture: the tiles of what is in view, drawn stretched, with labels; and what lies where in
// them. It owns tiles, names and counters of one trace. Where things are is the picture's (Geometry).

import { BoxTexts } from '../canvas/text';
import { duration } from '../units';
import { Counters } from './counters';
import { NO_NAME, runAfter, TILE_BUCKETS, type TileRuns } from './decode';
import { type Band, bandAt, type Layout } from './layout';
import { isBright, Names, pixelOf } from './names';
import type { Palette } from './palette';
import { nearestEdge } from './snap';
import type { TimelineSource } from './source';
import { pictureBytes, pictureOf, type TilePicture } from './tile_picture';
import { groupOf, GROUP_LANES, levelOf, levelOfAll, type Tile, TileCache, tileBegin, tileIndex } from './tiles';
import type { TimeWindow } from './view';

export interface Geometry {
  readonly view: TimeWindow;
  readonly layout: Layout;
  readonly scroll: number;
  readonly width: number;
  readonly height: number;
  readonly span: number;
  readonly top: number; // of the first band
  topOf(band: Band): number;
  xOf(at: number): number;
  timeAt(x: number): number;
}

export interface Run {
  lane: number;
  name: number;
  from: number;
  to: number;
  level: number; // its edges are as exact as 2^level nanoseconds
  begins: boolean; // false: it reaches the edge of its tile, and may have begun before
  ends: boolean; // the same of its end
  isFull: boolean; // false: it has gaps, so that it is several slices
}

const LABEL_WIDTH = 40;
const PICK_NEAR = 4; // pixels to the side of a slice
const SNAP_NEAR = 8;

function placedRun(lane: number, tile: { level: number; index: number }, runs: TileRuns, run: number, from: number, to: number): Run {
  return {
    lane,
    name: runs.name[run]!,
    from,
    to,
    level: tile.level,
    begins: from === 0 || runs.x[run]! > 0,
    ends: runs.x[run]! + runs.width[run]! < TILE_BUCKETS,
    isFull: runs.fill[run] === 255,
  };
}

// How long what is drawn lasts, as far as the picture knows.
export function drawnDuration(run: Run): string {
  const ns = run.to - run.from;
  if (!run.begins || !run.ends) return `more than ${duration(ns)}`;
  // Edges of tiles are as exact as their buckets.
  const about = ns > 100 * 2 ** run.level || run.level === 0 ? '' : 'about ';
  return about + duration(ns) + (run.isFull ? '' : ', several slices');
}

export class Lanes {
  readonly names: Names;
  readonly cache: TileCache<TilePicture>;
  level = 0;
  readonly texts = new BoxTexts();
  // Groups of lanes that somebody else draws of the tile of the complete trace: the overview.
  overviewGroups: readonly number[] = [];
  isComplete = false; // of the last frame: everything in view was there
  private readonly counters: Counters;
  private unknown: number; // pixel of a name that is not here yet
  private readonly length: number;
  private first = 0; // index of the tiles on the left
  private readonly groups = new Map<number, (Tile<TilePicture> | null)[]>(); // of this frame

  constructor(
    source: TimelineSource,
    private readonly at: Geometry,
    private palette: Palette,
    changed: () => void,
    failed: (error: unknown) => void,
  ) {
    const { head } = source;
    this.length = Math.max(head.length_ns, 1);
    this.unknown = pixelOf(palette.fill);
    this.names = new Names(head.names, head.name_block, (block) => source.names(block), changed);
    this.names.prefetch();
    this.cache = new TileCache<TilePicture>(
      (level, index, first, last, signal) => source.tile(level, index, first, last, signal),
      head.lanes,
      levelOfAll(this.length),
      pictureBytes,
      changed,
      failed,
    );
    this.counters = new Counters((...all) => source.counter(...all), changed);
  }

  close(): void {
    this.cache.close();
    this.counters.close();
  }

  recolor(palette: Palette): void {
    this.palette = palette;
    this.unknown = pixelOf(palette.fill);
    this.names.epoch++;
  }

  // A frame: begin(), draw(), end().
  begin(ratio: number): void {
    this.level = Math.min(levelOf(this.at.span / (this.at.width * ratio)), this.rootLevel);
    this.isComplete = true;
    this.cache.beginFrame();
    this.counters.beginFrame();
    this.gatherTiles();
    for (const group of this.overviewGroups) this.cache.want(this.rootLevel, group, 0, 1);
  }

  // The level whose first tile has all of the trace.
  get rootLevel(): number {
    return levelOfAll(this.length);
  }

  draw(g: CanvasRenderingContext2D, ratio: number): void {
    const { layout, top, height, width } = this.at;
    const pinnedEnd = top + layout.pinnedHeight;
    this.drawGrid(g);
    this.drawBands(g, ratio, true, top, Math.min(pinnedEnd, height));
    this.drawBands(g, ratio, false, pinnedEnd, height);
    if (layout.pinnedHeight > 0) {
      g.fillStyle = this.palette.lineStrong;
      g.fillRect(0, pinnedEnd - 2, width, 1);
    }
  }

  // The value of a counter, as far as it is known.
  counterAt(track: number, at: number): number | null {
    return this.counters.valueAt(track, levelOf(this.at.span / 512), at);
  }

  end(): void {
    this.cache.endFrame();
  }

  // The tiles of each group of lanes in view, from the left; asks for those that are missing and for their neighbours.
  private gatherTiles(): void {
    const { level, cache } = this;
    const { view, height, top } = this.at;
    // A window of several traces may begin before this one, and end after it.
    const first = Math.max(0, tileIndex(level, view.from));
    const last = Math.ceil(Math.min(view.to, this.length) / (TILE_BUCKETS * 2 ** level)) - 1;
    this.first = first;
    this.groups.clear();
    if (view.to <= 0) return;
    for (const band of this.at.layout.bands) {
      if (!band.track) continue;
      const y = this.at.topOf(band);
      if (y + band.height < top || y > height) continue;
      const { lane, lanes } = band.track;
      for (let group = groupOf(lane); group <= groupOf(lane + lanes - 1); group++) {
        if (this.groups.has(group)) continue;
        const tiles: (Tile<TilePicture> | null)[] = [];
        this.groups.set(group, tiles);
        for (let index = first; index <= last; index++) {
          cache.want(level, group, index, 0);
          const tile = cache.get(level, group, index);
          if (!tile) this.isComplete = false;
          tiles.push(tile ?? cache.ancestor(level, group, index));
        }
        cache.want(level + 1, group, tileIndex(level + 1, (view.from + view.to) / 2), 1);
        cache.want(level, group, first - 1, 1);
        if ((last + 1) * TILE_BUCKETS * 2 ** level < this.length) cache.want(level, group, last + 1, 1);
        cache.want(level - 1, group, tileIndex(level - 1, (view.from + view.to) / 2), 2);
      }
    }
  }

  private drawGrid(g: CanvasRenderingContext2D): void {
    const { width, height } = this.at;
    g.fillStyle = this.palette.line;
    for (const band of this.at.layout.bands) {
      const y = this.at.topOf(band) + band.height + 1;
      if (y > this.at.top && y < height && (band.pinned || y > this.at.top + this.at.layout.pinnedHeight)) g.fillRect(0, y, width, 1);
    }
  }

  private drawBands(g: CanvasRenderingContext2D, ratio: number, pinned: boolean, top: number, bottom: number): void {
    if (bottom <= top) return;
    const { width } = this.at;
    g.save();
    g.beginPath();
    g.rect(0, top, width, bottom - top);
    g.clip();
    g.imageSmoothingEnabled = false;
    for (const band of this.at.layout.bands) {
      const y = this.at.topOf(band);
      if (band.pinned !== pinned || y + band.height < top || y > bottom) continue;
      if (band.counter) {
        if (band.open) this.counters.draw(g, band.counter, this.at.view, levelOf(this.at.span / 512), width, y, band.height, this.palette);
      } else {
        this.drawTiles(g, band, y, ratio);
        if (band.open) this.drawRows(g, band, y, width, top, bottom);
      }
    }
    g.restore();
  }

  private drawTiles(g: CanvasRenderingContext2D, band: Band, y: number, ratio: number): void {
    const { lane, lanes } = band.track!;
    const { first } = this;
    for (let group = groupOf(lane); group <= groupOf(lane + lanes - 1); group++) {
      const tiles = this.groups.get(group);
      if (!tiles) continue;
      const top = Math.max(lane, group * GROUP_LANES);
      const end = Math.min(lane + lanes, (group + 1) * GROUP_LANES);
      for (let i = 0; i < tiles.length; i++) {
        const tile = tiles[i];
        if (!tile) continue;
        const index = first + i;
        this.blit(g, tile, index, this.level, group, top, end, y + (top - lane) * band.row, band.row, ratio);
        if (tile.level === this.level) continue;
        // Finer tiles that happen to be here show more than the coarser one.
        for (let half = 0; half < 2; half++) {
          const finer = this.level > 0 ? this.cache.get(this.level - 1, group, 2 * index + half) : null;
          if (finer) this.blit(g, finer, 2 * index + half, this.level - 1, group, top, end, y + (top - lane) * band.row, band.row, ratio);
        }
      }
    }
  }

  // Draws the part of a tile that has the time of tile `index` at `level`, stretched.
  private blit(
    g: CanvasRenderingContext2D,
    tile: Tile<TilePicture>,
    index: number,
    level: number,
    group: number,
    lane: number,
    end: number,
    y: number,
    row: number,
    ratio: number,
  ): void {
    const picture = pictureOf(tile, this.names, this.unknown);
    if (!picture.isComplete) this.isComplete = false;
    const scale = this.at.width / this.at.span;
    const begin = tileBegin(level, index);
    const x0 = Math.round((begin - this.at.view.from) * scale * ratio) / ratio;
    const x1 = Math.round((tileBegin(level, index + 1) - this.at.view.from) * scale * ratio) / ratio;
    if (x1 <= 0 || x0 >= this.at.width) return;
    if (level < this.level) {
      g.fillStyle = this.palette.panel;
      g.fillRect(x0, y, x1 - x0, (end - lane) * row);
    }
    if (!picture.canvas) return;
    const part = TILE_BUCKETS / 2 ** (tile.level - level);
    const from = (begin - tileBegin(tile.level, tile.index)) / 2 ** tile.level;
    // Of a tile that is stretched beyond the screen only what is in view: browsers are slow with huge boxes.
    const perPixel = part / (x1 - x0);
    const left = Math.max(0, Math.floor((0 - x0) * perPixel) - 1);
    const right = Math.min(part, Math.ceil((this.at.width - x0) * perPixel) + 1);
    const xLeft = x0 + left / perPixel;
    const xRight = x0 + right / perPixel;
    g.drawImage(picture.canvas, from + left, lane - group * GROUP_LANES, right - left, end - lane, xLeft, y, xRight - xLeft, (end - lane) * row);
  }

  // Lines between the rows of an open track, and labels.
  private drawRows(g: CanvasRenderingContext2D, band: Band, y: number, width: number, top: number, bottom: number): void {
    const { lane, lanes } = band.track!;
    g.fillStyle = this.palette.panel;
    for (let i = 1; i <= lanes; i++) {
      const line = y + i * band.row - 1;
      if (line >= top && line < bottom) g.fillRect(0, line, width, 1);
    }
    g.font = `11px ${this.palette.font}`;
    g.textBaseline = 'middle';
    for (let i = 0; i < lanes; i++) {
      const rowY = y + i * band.row;
      if (rowY + band.row > top && rowY < bottom) this.drawLabels(g, lane + i, rowY, band.row);
    }
  }

  private drawLabels(g: CanvasRenderingContext2D, lane: number, y: number, row: number): void {
    const tiles = this.groups.get(groupOf(lane));
    if (!tiles) return;
    const inGroup = lane - groupOf(lane) * GROUP_LANES;
    let name = NO_NAME;
    let from = 0;
    let to = 0;
    let fill = 255;
    for (let i = 0; i < tiles.length; i++) {
      const tile: Tile<TilePicture> | null = tiles[i] ?? null;
      if (!tile || (i > 0 && tile === tiles[i - 1])) continue;
      const picture: TilePicture | null = tile.picture;
      const runs = tile.runs!;
      if (!picture?.canvas) continue;
      const begin = tileBegin(tile.level, tile.index);
      const bucket = 2 ** tile.level;
      const end = picture.labelStart[inGroup + 1]!;
      for (let label: number = picture.labelStart[inGroup]!; label < end; label++) {
        const run = picture.labels[label]!;
        const at = begin + runs.x[run]! * bucket;
        if (at >= this.at.view.to) break;
        const until = at + runs.width[run]! * bucket;
        if (runs.x[run] === 0 && name === runs.name[run] && to === at) {
          to = until;
          continue;
        }
        this.drawLabel(g, name, from, to, fill, y, row);
        name = runs.name[run]!;
        from = at;
        to = until;
        fill = runs.fill[run]!;
      }
    }
    this.drawLabel(g, name, from, to, fill, y, row);
  }

  private drawLabel(g: CanvasRenderingContext2D, name: number, from: number, to: number, fill: number, y: number, row: number): void {
    if (name === NO_NAME || to <= this.at.view.from) return;
    const x0 = Math.max(this.at.xOf(from), 0);
    const x1 = Math.min(this.at.xOf(to), this.at.width);
    if (x1 - x0 < LABEL_WIDTH) return;
    const full = this.names.texts[name];
    if (full === undefined) return;
    // The complete name where there is room for it.
    const text = this.texts.fit(g, x1 - x0 > 8 * full.length ? full : this.names.shorts[name]!, x1 - x0 - 8);
    if (text === '') return;
    g.fillStyle = fill < 140 ? this.palette.text : isBright(this.names.colors[name]!) ? '#10141c' : '#ffffff';
    g.fillText(text, x0 + 4, y + row / 2);
  }

  // The finest tile that is here with that time of a lane.
  private tileNear(lane: number, at: number): Tile<TilePicture> | null {
    const group = groupOf(lane);
    const index = tileIndex(this.level, at);
    return this.cache.get(this.level, group, index) ?? this.cache.ancestor(this.level, group, index);
  }

  // The run of a lane at a time, or the nearest one within a few pixels.
  runNear(lane: number, at: number, pixels = PICK_NEAR): Run | null {
    const tile = this.tileNear(lane, at);
    if (!tile) return null;
    const runs = tile.runs!;
    const inGroup = lane - tile.group * GROUP_LANES;
    const begin = tileBegin(tile.level, tile.index);
    const bucket = 2 ** tile.level;
    const near = (pixels * this.at.span) / this.at.width;
    let best: Run | null = null;
    let distance = Infinity;
    let run = runAfter(runs, inGroup, Math.floor((at - near - begin) / bucket));
    for (; run < runs.start[inGroup + 1]!; run++) {
      const from = begin + runs.x[run]! * bucket;
      const to = from + runs.width[run]! * bucket;
      const away = at < from ? from - at : at >= to ? at - to : 0;
      if (from > at + near || (away > near && best)) break;
      if (away <= near && away < distance) {
        distance = away;
        best = placedRun(lane, tile, runs, run, from, to);
      }
    }
    return best;
  }

  // The first run of a lane after, or the last one before a time, as far as tiles are here.
  runBeside(lane: number, at: number, direction: -1 | 1): Run | null {
    const tiles = this.groups.get(groupOf(lane)) ?? [];
    let found: Run | null = null;
    for (let i = 0; i < tiles.length; i++) {
      const tile = tiles[i];
      if (!tile?.runs || (i > 0 && tile === tiles[i - 1])) continue;
      const inGroup = lane - tile.group * GROUP_LANES;
      const begin = tileBegin(tile.level, tile.index);
      const bucket = 2 ** tile.level;
      for (let run = tile.runs.start[inGroup]!; run < tile.runs.start[inGroup + 1]!; run++) {
        const from = begin + tile.runs.x[run]! * bucket;
        const to = from + tile.runs.width[run]! * bucket;
        const each = placedRun(lane, tile, tile.runs, run, from, to);
        if (direction > 0 && from >= at) return each;
        if (direction < 0 && to <= at) found = each;
      }
    }
    return found;
  }

  // Runs in view that are wide enough to be read, lane by lane: what the table next to the canvas shows.
  visibleRuns(most: number): { band: Band; run: Run }[] {
    const found: { band: Band; run: Run }[] = [];
    const least = (4 * this.at.span) / this.at.width;
    for (const band of this.at.layout.bands) {
      const y = this.at.topOf(band);
      if (!band.track || y + band.height < this.at.top || y > this.at.height) continue;
      for (let i = 0; i < band.track.lanes && found.length < most; i++) {
        const lane = band.track.lane + i;
        let last: Run | null = null;
        for (const tile of this.groups.get(groupOf(lane)) ?? []) {
          if (!tile?.runs || found.length >= most) continue;
          const inGroup = lane - tile.group * GROUP_LANES;
          const begin = tileBegin(tile.level, tile.index);
          const bucket = 2 ** tile.level;
          let run = runAfter(tile.runs, inGroup, Math.floor((this.at.view.from - begin) / bucket));
          for (; run < tile.runs.start[inGroup + 1]! && found.length < most; run++) {
            const from = begin + tile.runs.x[run]! * bucket;
            const to = from + tile.runs.width[run]! * bucket;
            const name = tile.runs.name[run]!;
            if (from >= this.at.view.to) break;
            const placed = placedRun(lane, tile, tile.runs, run, from, to);
            if (last && last.to === from && last.name === name && tile.runs.x[run] === 0) {
              last.to = to;
              last.ends = placed.ends;
              last.isFull &&= placed.isFull;
            } else if (to - from >= least) found.push({ band, run: (last = placed) });
          }
        }
      }
    }
    return found;
  }

  // The time at x, or that of an edge near it in the lane at y.
  snap(x: number, y: number): number {
    const at = this.at.timeAt(x);
    const found = bandAt(this.at.layout, y - this.at.top, this.at.scroll);
    if (!found || found.lane < 0) return at;
    const tile = this.tileNear(found.lane, at);
    if (!tile) return at;
    const placed = { runs: tile.runs!, level: tile.level, index: tile.index };
    const edge = nearestEdge(placed, found.lane - tile.group * GROUP_LANES, at, (SNAP_NEAR * this.at.span) / this.at.width);
    return Number.isFinite(edge) ? edge : at;
  }
}
