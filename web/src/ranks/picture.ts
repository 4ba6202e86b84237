// SPDX-License-Identifier: Apache-2.0
// Ranks below one another on a clock that they share: a row for each, with the lanes of its GPUs (without any, of its busiest
// thread) as the timeline draws them. Every rank has its own tiles and its own shift; one window is over all of them.

import { listenToGestures } from '../canvas/gestures';
import { Surface } from '../canvas/surface';
import { drawnDuration, type Geometry, Lanes, type Run } from '../timeline/lanes';
import { type Band, bandAt, type Layout } from '../timeline/layout';
import { drawRuler, RULER, tooltip } from '../timeline/overlay';
import { type Palette, readPalette } from '../timeline/palette';
import type { TimelineSource, Track } from '../timeline/source';
import { isNear, type TimeWindow, windowBetween } from '../timeline/view';

const LANE_MIN = 3;
const LANE_MAX = 16;
const GLIDE = 0.35;
const SPAN_LEAST = 10;

// What a row shows of a rank: its GPUs, else the thread that has most slices.
function tracksOf(tracks: readonly Track[]): Track[] {
  const drawn = tracks.filter((track) => track.lanes > 0);
  const gpus = drawn.filter((track) => track.kind === 'gpu');
  if (gpus.length > 0) return gpus;
  const threads = drawn.filter((track) => track.kind === 'thread' || track.kind === 'python');
  return threads.sort((a, b) => b.slices - a.slices).slice(0, 1);
}

export function hasGpu(tracks: readonly Track[]): boolean {
  return tracks.some((track) => track.kind === 'gpu' && track.lanes > 0);
}

// In a row of that height; what does not fit is cut off.
export function rankLayout(tracks: readonly Track[], height: number): Layout {
  const shown = tracksOf(tracks);
  const lanes = shown.reduce((sum, track) => sum + track.lanes, 0);
  const row = Math.max(LANE_MIN, Math.min(LANE_MAX, Math.floor((height - 4) / Math.max(lanes, 1))));
  let y = 0;
  const bands = shown.map((track): Band => {
    const band = { key: String(track.track), title: track.title, detail: '', track, counter: null, open: row >= 12, pinned: false, hidden: false, row, y, height: track.lanes * row };
    y += band.height;
    return band;
  });
  const find = (lane: number) => bands.find((band) => lane >= band.track!.lane && lane < band.track!.lane + band.track!.lanes) ?? null;
  return { bands, hidden: [], pinnedHeight: 0, height: y, byLane: find };
}

// A row's place for Lanes, which draws in the rank's own time.
class RowGeometry implements Geometry {
  scroll = 0;
  top = 0;
  bottom = 0;
  constructor(
    private readonly owner: RanksPicture,
    readonly layout: Layout,
    readonly offset: number,
  ) {}
  get view(): TimeWindow {
    return { from: this.owner.view.from - this.offset, to: this.owner.view.to - this.offset };
  }
  get width(): number {
    return this.owner.width;
  }
  get height(): number {
    return this.bottom;
  }
  get span(): number {
    return this.owner.view.to - this.owner.view.from;
  }
  topOf(band: Band): number {
    return this.top + band.y;
  }
  xOf(at: number): number {
    return ((at + this.offset - this.owner.view.from) / this.span) * this.width;
  }
  timeAt(x: number): number {
    return this.owner.view.from + (x / this.width) * this.span - this.offset;
  }
}

interface RankPick {
  row: number;
  at: number; // in the rank's own time
  run: Run | null;
}

interface RanksEvents {
  pick?(pick: RankPick): void;
  view?(view: TimeWindow): void;
  scroll?(y: number): void;
}

export class RanksPicture {
  view: TimeWindow = { from: 0, to: 1 };
  scroll = 0;
  late = -1; // row
  private goal: TimeWindow | null = null;
  private bounds: TimeWindow = { from: 0, to: 1 };
  private lastFrame = 0;
  private readonly rows: ({ geometry: RowGeometry; lanes: Lanes } | null)[];
  private readonly surface: Surface;
  private readonly stop: () => void;
  private palette: Palette = readPalette();
  private pointer: { x: number; y: number } | null = null;

  constructor(
    canvas: HTMLCanvasElement,
    count: number,
    readonly rowHeight: number,
    private readonly events: RanksEvents,
  ) {
    this.rows = new Array<null>(count).fill(null);
    this.surface = new Surface(canvas, (g, width, height, ratio, now) => this.frame(g, width, height, ratio, now));
    this.stop = listenToGestures(canvas, {
      hover: (x, y) => this.moved({ x, y }),
      leave: () => this.moved(null),
      dragKind: () => 'pan',
      pan: (dx, dy) => {
        this.setView(this.view.from - (dx * this.span) / this.width, this.span);
        if (dy !== 0) this.scrollTo(this.scroll - dy);
      },
      scroll: (dy) => this.scrollTo(this.scroll + dy),
      zoom: (x, factor) => this.zoom(factor, this.view.from + (x / this.width) * this.span),
      click: (x, y) => {
        const found = this.at(x, y);
        if (found) this.events.pick?.(found);
      },
    });
  }

  close(): void {
    this.stop();
    this.surface.close();
    for (const row of this.rows) row?.lanes.close();
  }

  get width(): number {
    return Math.max(this.surface.width, 1);
  }
  get span(): number {
    return this.view.to - this.view.from;
  }

  invalidate(): void {
    this.surface.invalidate();
  }

  recolor(): void {
    this.palette = readPalette();
    for (const row of this.rows) row?.lanes.recolor(this.palette);
    this.invalidate();
  }

  // A rank whose timeline is known; its time plus `offset` is that of all.
  setRank(index: number, source: TimelineSource, offset: number): void {
    const geometry = new RowGeometry(this, rankLayout(source.head.tracks, this.rowHeight), offset);
    const lanes = new Lanes(source, geometry, this.palette, () => this.invalidate(), () => {});
    this.rows[index]?.lanes.close();
    this.rows[index] = { geometry, lanes };
    const end = offset + source.head.length_ns;
    const isFirst = this.rows.filter(Boolean).length === 1;
    this.bounds = isFirst ? { from: offset, to: end } : { from: Math.min(this.bounds.from, offset), to: Math.max(this.bounds.to, end) };
    if (this.span <= 1) this.view = this.bounds;
    this.invalidate();
  }

  setView(from: number, span: number): void {
    const most = this.bounds.to - this.bounds.from;
    const kept = Math.max(SPAN_LEAST, Math.min(span, most));
    const begin = Math.max(this.bounds.from, Math.min(from, this.bounds.to - kept));
    this.goal = null;
    this.view = { from: begin, to: begin + kept };
    this.events.view?.(this.view);
    this.invalidate();
  }

  glideTo(view: TimeWindow): void {
    this.goal = view;
    this.invalidate();
  }

  zoom(factor: number, at = (this.view.from + this.view.to) / 2): void {
    const span = Math.max(SPAN_LEAST, this.span * factor);
    this.setView(at - ((at - this.view.from) * span) / this.span, span);
  }

  scrollTo(y: number): void {
    const next = Math.max(0, Math.min(y, this.rows.length * this.rowHeight - (this.surface.height - RULER)));
    if (next !== this.scroll) {
      this.scroll = next;
      this.events.scroll?.(next);
    }
    this.invalidate();
  }

  private moved(pointer: { x: number; y: number } | null): void {
    this.pointer = pointer;
    this.invalidate();
  }

  private at(x: number, y: number): RankPick | null {
    const index = Math.floor((y - RULER + this.scroll) / this.rowHeight);
    const row = this.rows[index];
    if (!row || y < RULER) return null;
    const { geometry, lanes } = row;
    const time = geometry.timeAt(x);
    const found = bandAt(geometry.layout, y - geometry.top, 0);
    return { row: index, at: time, run: found && found.lane >= 0 ? lanes.runNear(found.lane, time) : null };
  }

  private frame(g: CanvasRenderingContext2D, width: number, height: number, ratio: number, now: number): boolean {
    const { palette } = this;
    let moves = false;
    if (this.goal) {
      const passed = Math.min(Math.max(now - this.lastFrame, 8), 50) / (1000 / 60);
      const next = windowBetween(this.view, this.goal, 1 - (1 - GLIDE) ** passed);
      moves = !isNear(next, this.goal);
      this.view = moves ? next : this.goal;
      if (!moves) this.goal = null;
      this.events.view?.(this.view);
    }
    this.lastFrame = now;
    g.fillStyle = palette.panel;
    g.fillRect(0, 0, width, height);
    for (let i = 0; i < this.rows.length; i++) {
      const row = this.rows[i];
      const y = RULER + i * this.rowHeight - this.scroll;
      if (y + this.rowHeight < RULER || y > height) continue;
      if (i === this.late) {
        g.fillStyle = palette.red;
        g.globalAlpha = 0.12;
        g.fillRect(0, y, width, this.rowHeight - 1);
        g.globalAlpha = 1;
      }
      if (row) {
        row.geometry.top = y + 2;
        row.geometry.bottom = Math.min(height, y + this.rowHeight - 1);
        row.lanes.begin(ratio);
        g.save();
        g.beginPath();
        g.rect(0, RULER, width, height - RULER);
        g.clip();
        row.lanes.draw(g, ratio);
        g.restore();
        row.lanes.end();
      }
      g.fillStyle = palette.line;
      g.fillRect(0, y + this.rowHeight - 1, width, 1);
    }
    drawRuler(g, { from: this.view.from - this.bounds.from, to: this.view.to - this.bounds.from }, width, palette);
    this.drawPointer(g, width, height);
    return moves;
  }

  private drawPointer(g: CanvasRenderingContext2D, width: number, height: number): void {
    if (!this.pointer) return;
    const { x, y } = this.pointer;
    g.fillStyle = this.palette.lineStrong;
    g.fillRect(Math.round(x), RULER, 1, height - RULER);
    const found = this.at(x, y);
    const row = found && this.rows[found.row];
    if (found?.run && row) tooltip(g, row.lanes.names.text(found.run.name), drawnDuration(found.run), x, y, width, height, this.palette);
  }
}
