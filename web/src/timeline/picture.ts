// SPDX-License-Identifier: Apache-2.0
// The timeline's canvas: lanes from tiles, ruler, steps, selection, arrows. It owns the window, the tiles and the names of
// one trace (lanes.ts); whoever shows it owns the layout and what is selected, and hears of each action of the user. Pictures of
// one page move together through the event `view` and setView() (link.ts).

import { listenToGestures } from '../canvas/gestures';
import { Surface } from '../canvas/surface';
import type { SliceRef } from '../types';
import { roughly } from '../units';
import { drawnDuration, Lanes, type Geometry, type Run } from './lanes';
import { type Band, bandAt, type Layout, ROW_FOLDED } from './layout';
import { type Arrow, arrowsOf, distanceTo, drawArea, drawArrow, drawMeasure, drawRuler, drawSelected, drawSteps, type Places, RULER, tooltip, topOfLanes } from './overlay';
import { type Palette, readPalette } from './palette';
import { ordered } from './snap';
import type { SliceDetail, Step, TimelineSource } from './source';
import { isNear, panBy, type TimeWindow, windowAt, windowBetween, windowThatShows, windowWith, zoomAt } from './view';

export interface Area {
  from: number;
  to: number;
  lanes: [number, number][]; // ranges, both ends included
  top: number; // pixels of the layout, for drawing: pinned ones are negative
  bottom: number;
}

export interface PictureEvents {
  moved?(view: TimeWindow): void; // the window, by whomever
  view?(view: TimeWindow): void; // the window, by the user
  scroll?(y: number): void;
  pick?(run: Run | null, at: number): void;
  follow?(ref: SliceRef): void; // an arrow was clicked
  area?(area: Area | null, isDone: boolean): void;
  measured?(from: number, to: number): void;
  drawn?(): void; // after a frame in which everything in view was there
  failed?(error: unknown): void;
}

const ARROW_NEAR = 6;
// Part of the way to its goal that a window moves in a sixtieth of a second.
const GLIDE = 0.35;

export class TimelinePicture implements Geometry {
  view: TimeWindow;
  layout: Layout;
  steps: readonly Step[] = [];
  scroll = 0;
  selected: SliceDetail | null = null;
  area: Area | null = null;
  measuring = false;
  measure: { from: number; to: number } | null = null;
  hits: ReadonlyArray<SliceRef> = [];
  readonly lanes: Lanes;
  readonly length: number;

  private goal: TimeWindow | null = null;
  private lastFrame = 0;
  private readonly surface: Surface;
  private readonly stopListening: () => void;
  private palette: Palette;
  pointer: { x: number; y: number } | null = null; // null: elsewhere
  private snapped = NaN;
  private measureFrom = NaN;
  private measureExact: Promise<number> = Promise.resolve(NaN); // of measureFrom
  private arrows: Arrow[] = [];
  private readonly reduced = matchMedia('(prefers-reduced-motion: reduce)');

  constructor(
    canvas: HTMLCanvasElement,
    readonly source: TimelineSource,
    layout: Layout,
    private readonly events: PictureEvents,
  ) {
    const { head } = source;
    this.length = Math.max(head.length_ns, 1);
    this.layout = layout;
    this.view = windowAt(0, this.length, this.length);
    this.palette = readPalette();
    this.lanes = new Lanes(
      source,
      this,
      this.palette,
      () => this.surface.invalidate(),
      (error) => this.events.failed?.(error),
    );
    this.surface = new Surface(canvas, (g, width, height, ratio, now) => this.frame(g, width, height, ratio, now));
    this.stopListening = listenToGestures(canvas, {
      hover: (x, y) => this.hovered(x, y),
      leave: () => this.hovered(NaN, NaN),
      click: (x, y) => this.clicked(x, y),
      double: (x, y) => this.doubled(x, y),
      dragKind: (_x, y) => (y < this.top ? 'pan' : 'area'),
      area: (x0, y0, x1, y1, phase) => this.dragged(x0, y0, x1, y1, phase),
      pan: (dx, dy) => {
        this.setView(panBy(this.view, (-dx * this.span) / this.width, this.length), true);
        if (dy !== 0) this.scrollTo(this.scroll - dy);
      },
      scroll: (dy) => this.scrollTo(this.scroll + dy),
      zoom: (x, factor) => this.zoom(factor, this.timeAt(x)),
    });
  }

  close(): void {
    this.stopListening();
    this.surface.close();
    this.lanes.close();
  }

  get width(): number {
    return Math.max(this.surface.width, 1);
  }
  get height(): number {
    return this.surface.height;
  }
  get span(): number {
    return this.view.to - this.view.from;
  }
  get frames(): number {
    return this.surface.frames;
  }
  // Height of ruler and steps.
  get top(): number {
    return topOfLanes(this.steps);
  }

  timeAt(x: number): number {
    return this.view.from + (x / this.width) * this.span;
  }
  xOf(at: number): number {
    return ((at - this.view.from) / this.span) * this.width;
  }
  topOf(band: Band): number {
    return this.top + band.y + (band.pinned ? 0 : this.layout.pinnedHeight - this.scroll);
  }
  private readonly places: Places = {
    x: (at) => this.xOf(at),
    lane: (lane) => {
      const band = this.layout.byLane(lane);
      if (!band?.track) return null;
      return { y: this.topOf(band) + (lane - band.track.lane) * band.row, height: band.row };
    },
  };

  invalidate(): void {
    this.surface.invalidate();
  }

  recolor(): void {
    this.palette = readPalette();
    this.lanes.recolor(this.palette);
    this.invalidate();
  }

  setLayout(layout: Layout): void {
    this.layout = layout;
    this.scrollTo(this.scroll);
    this.invalidate();
  }

  // The lanes make room for them.
  setSteps(steps: readonly Step[]): void {
    this.steps = steps;
    this.scrollTo(this.scroll);
    this.events.scroll?.(this.scroll);
  }

  setSelected(selected: SliceDetail | null): void {
    this.selected = selected;
    this.arrows = selected ? arrowsOf(selected) : [];
    this.invalidate();
  }

  setMeasuring(on: boolean, measure: { from: number; to: number } | null = null): void {
    this.measuring = on;
    this.measure = measure;
    this.measureFrom = NaN;
    this.invalidate();
  }

  setView(view: TimeWindow, isByUser = false): void {
    this.goal = null;
    this.view = view;
    this.invalidate();
    this.events.moved?.(view);
    if (isByUser) this.events.view?.(view);
  }

  // Moves there in a few frames.
  glideTo(view: TimeWindow): void {
    if (this.reduced.matches) {
      this.setView(view, true);
      return;
    }
    this.goal = view;
    this.invalidate();
  }

  zoom(factor: number, at = (this.view.from + this.view.to) / 2): void {
    this.setView(zoomAt(this.view, at, factor, this.length), true);
  }

  // By keys: from where the window is going.
  zoomBy(factor: number): void {
    const from = this.goal ?? this.view;
    const at = this.pointer ? from.from + (this.pointer.x / this.width) * (from.to - from.from) : (from.from + from.to) / 2;
    this.glideTo(zoomAt(from, at, factor, this.length));
  }

  panByPart(part: number): void {
    const from = this.goal ?? this.view;
    this.glideTo(panBy(from, part * (from.to - from.from), this.length));
  }

  scrollTo(y: number): void {
    const room = this.height - this.top - this.layout.pinnedHeight;
    const next = Math.max(0, Math.min(y, this.layout.height - room));
    if (next !== this.scroll) {
      this.scroll = next;
      this.events.scroll?.(next);
    }
    this.invalidate();
  }

  // Brings a slice into view, both ways.
  // `isHit`: zooms in until it can be seen.
  reveal(ref: { begin: number; dur: number; lane: number }, isHit = false): void {
    const band = this.layout.byLane(ref.lane);
    if (band?.track && !band.pinned) {
      const y = band.y + (ref.lane - band.track.lane) * band.row;
      const room = this.height - this.top - this.layout.pinnedHeight;
      if (y < this.scroll) this.scrollTo(y - 8);
      else if (y + band.row > this.scroll + room) this.scrollTo(y + band.row - room + 24);
    }
    const end = ref.dur < 0 ? this.length : ref.begin + ref.dur;
    const now = this.goal ?? this.view;
    const moved = windowWith(now, ref.begin, end, this.length);
    const next = isHit ? windowThatShows(moved, ref.begin, end, this.length, this.width) : moved;
    if (next !== now) this.glideTo(next);
  }

  // -- Frames ---------------------------------------------------------------------------------------------------------

  private frame(g: CanvasRenderingContext2D, width: number, height: number, ratio: number, now: number): boolean {
    let moves = false;
    if (this.goal) {
      const passed = Math.min(Math.max(now - this.lastFrame, 8), 50) / (1000 / 60);
      const next = windowBetween(this.view, this.goal, 1 - (1 - GLIDE) ** passed);
      moves = !isNear(next, this.goal);
      this.view = moves ? next : this.goal;
      if (!moves) this.goal = null;
      this.events.moved?.(this.view);
      this.events.view?.(this.view);
    }
    this.lastFrame = now;
    this.lanes.begin(ratio);

    const { palette } = this;
    g.fillStyle = palette.panel;
    g.fillRect(0, 0, width, height);
    this.lanes.draw(g, ratio);
    this.drawOver(g, width, height);
    drawRuler(g, this.view, width, palette);
    if (this.steps.length > 0) drawSteps(g, this.steps, this.view, width, palette, this.lanes.texts);
    this.drawPointer(g, width, height);
    this.lanes.end();
    if (this.lanes.isComplete && !moves) this.events.drawn?.();
    return moves;
  }

  private drawOver(g: CanvasRenderingContext2D, width: number, height: number): void {
    g.save();
    g.beginPath();
    g.rect(0, this.top, width, height - this.top);
    g.clip();
    if (this.selected) {
      drawSelected(g, this.selected, this.places, width, this.length, this.palette);
      for (const arrow of this.arrows) drawArrow(g, arrow, this.places, this.length, this.palette, width, height);
    }
    if (this.area) {
      const offset = this.top + this.layout.pinnedHeight;
      const y = (at: number) => (at < 0 ? this.top + this.layout.pinnedHeight + at : Math.max(offset, offset + at - this.scroll));
      drawArea(g, this.xOf(this.area.from), this.xOf(this.area.to), y(this.area.top), y(this.area.bottom), this.area.to - this.area.from, this.palette);
    }
    if (this.measure) drawMeasure(g, this.xOf(this.measure.from), this.xOf(this.measure.to), this.top, height, this.measure.to - this.measure.from, this.palette);
    g.restore();
  }

  private drawPointer(g: CanvasRenderingContext2D, width: number, height: number): void {
    if (!this.pointer) return;
    const { x, y } = this.pointer;
    if (this.measuring) {
      const at = Number.isFinite(this.snapped) ? this.snapped : this.timeAt(x);
      g.fillStyle = this.palette.accent;
      g.fillRect(Math.round(this.xOf(at)), this.top, 1, height - this.top);
      if (Number.isFinite(this.measureFrom)) {
        const both = ordered(this.measureFrom, at);
        drawMeasure(g, this.xOf(both.from), this.xOf(both.to), this.top, height, both.to - both.from, this.palette);
      }
      return;
    }
    const found = bandAt(this.layout, y - this.top, this.scroll);
    if (!found || y < this.top) return;
    if (found.band.counter) {
      const value = this.lanes.counterAt(found.band.counter.track, this.timeAt(x));
      if (value !== null) tooltip(g, `${found.band.title}: ${roughly(value)}`, '', x, y, width, height, this.palette);
      return;
    }
    const run = this.lanes.runNear(found.lane, this.timeAt(x));
    if (!run) return;
    const box = this.places.lane(run.lane)!;
    g.strokeStyle = this.palette.text;
    g.lineWidth = 1;
    const x0 = Math.max(this.xOf(run.from), -2);
    g.strokeRect(Math.round(x0) + 0.5, Math.round(box.y) - 0.5, Math.max(Math.min(this.xOf(run.to), width + 2) - x0 - 1, 1), box.height);
    const text = this.lanes.names.text(run.name) || 'loading…';
    tooltip(g, text, drawnDuration(run), x, y, width, height, this.palette);
  }

  // -- What a user does -----------------------------------------------------------------------------------------------

  private hovered(x: number, y: number): void {
    this.pointer = Number.isFinite(x) ? { x, y } : null;
    this.snapped = NaN;
    if (this.pointer && this.measuring) this.snapped = this.lanes.snap(x, y);
    this.invalidate();
  }

  private clicked(x: number, y: number): void {
    const at = this.timeAt(x);
    if (this.measuring) {
      void this.measureAt(x, y);
      return;
    }
    if (y < this.top) {
      const step = y >= RULER ? this.steps.find((each) => each.begin <= at && at < each.end) : undefined;
      if (step) this.glideTo(windowAt(step.begin, step.end - step.begin, this.length));
      return;
    }
    const arrow = this.arrows.find((each) => distanceTo(each, this.places, this.length, x, y) < ARROW_NEAR);
    const found = bandAt(this.layout, y - this.top, this.scroll);
    const run = found && found.lane >= 0 ? this.lanes.runNear(found.lane, at) : null;
    if (arrow && !run) {
      this.events.follow?.(arrow.other);
      return;
    }
    if (this.area) this.events.area?.((this.area = null), true);
    this.events.pick?.(run, at);
  }

  // The first of two places, or the second. Tiles know edges to a pixel; the slice itself knows them exactly.
  private async measureAt(x: number, y: number): Promise<void> {
    const edge = this.lanes.snap(x, y);
    const isFirst = !Number.isFinite(this.measureFrom);
    const exact = this.exactEdge(edge, y);
    if (isFirst) {
      this.measureFrom = edge;
      this.measure = null;
      this.measureExact = exact;
      this.invalidate();
      return;
    }
    this.measure = ordered(this.measureFrom, edge);
    this.measureFrom = NaN;
    this.invalidate();
    const [from, to] = await Promise.all([this.measureExact, exact]);
    if (!this.measuring) return;
    this.measure = ordered(from, to);
    this.invalidate();
    this.events.measured?.(this.measure.from, this.measure.to);
  }

  private async exactEdge(at: number, y: number): Promise<number> {
    const found = bandAt(this.layout, y - this.top, this.scroll);
    const near = 2 * 2 ** this.lanes.level;
    if (!found || found.lane < 0 || this.lanes.level === 0) return at;
    try {
      const slice = await this.source.sliceAt(found.lane, at, near);
      const edges = slice.dur < 0 ? [slice.begin] : [slice.begin, slice.begin + slice.dur];
      const best = edges.reduce((a, b) => (Math.abs(b - at) < Math.abs(a - at) ? b : a));
      return Math.abs(best - at) <= near ? best : at;
    } catch {
      return at;
    }
  }

  private doubled(x: number, y: number): void {
    const found = bandAt(this.layout, y - this.top, this.scroll);
    const run = found && found.lane >= 0 ? this.lanes.runNear(found.lane, this.timeAt(x)) : null;
    if (run) this.glideTo(windowAt(run.from - (run.to - run.from) * 0.1, (run.to - run.from) * 1.2, this.length));
    else this.zoomBy(0.5);
  }

  private dragged(x0: number, y0: number, x1: number, y1: number, phase: 'begin' | 'move' | 'end'): void {
    this.pointer = null;
    if (phase === 'end' && Math.abs(x1 - x0) < 1) {
      this.events.area?.((this.area = null), true);
      this.invalidate();
      return;
    }
    const { from, to } = ordered(this.lanes.snap(x0, y0), this.lanes.snap(Math.max(0, Math.min(x1, this.width)), y1));
    this.area = this.areaOf(from, to, Math.min(y0, y1), Math.max(y0, y1));
    this.events.area?.(this.area, phase === 'end');
    this.invalidate();
  }

  // The lanes between two heights of the screen.
  private areaOf(from: number, to: number, top: number, bottom: number): Area {
    const lanes: [number, number][] = [];
    let low = Infinity;
    let high = -Infinity;
    for (const band of this.layout.bands) {
      const y = this.topOf(band);
      if (!band.track || y > bottom || y + band.height < top) continue;
      // Rows of a folded track are too thin to choose from: all of it, as of counters and small tracks.
      const first = band.row > ROW_FOLDED * 2 ? Math.max(0, Math.floor((top - y) / band.row)) : 0;
      const last = band.row > ROW_FOLDED * 2 ? Math.min(band.track.lanes - 1, Math.floor((bottom - y) / band.row)) : band.track.lanes - 1;
      if (last < first) continue;
      lanes.push([band.track.lane + first, band.track.lane + last]);
      const base = band.pinned ? band.y - this.layout.pinnedHeight : band.y;
      low = Math.min(low, base + first * band.row);
      high = Math.max(high, base + (last + 1) * band.row);
    }
    return { from, to, lanes, top: Number.isFinite(low) ? low : 0, bottom: Number.isFinite(high) ? high : 0 };
  }
}
