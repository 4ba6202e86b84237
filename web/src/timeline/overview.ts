// SPDX-License-Identifier: Apache-2.0
// The strip with all of the trace: how busy the GPUs are, where the window is, where hits are. Dragging chooses a window;
// within the window it moves it.

import { listenToGestures } from '../canvas/gestures';
import { Surface } from '../canvas/surface';
import type { SliceRef } from '../types';
import { NO_NAME, TILE_BUCKETS } from './decode';
import type { Lanes } from './lanes';
import { type Palette, readPalette } from './palette';
import { profileOf } from './paint';
import type { TimelineHead, Track } from './source';
import { groupOf, GROUP_LANES, tileSpan } from './tiles';
import { panBy, type TimeWindow, windowAt } from './view';

const LANES_MAX = 512;
const HANDLE = 3;
// A window of fewer pixels cannot be taken hold of.
const GRAB_MIN = 12;

function gpusOf(head: TimelineHead): Track[] {
  return head.tracks.filter((track) => track.kind === 'gpu');
}

// The lanes that show what the trace is about: all of the GPUs, else the first of each thread.
function lanesOf(head: TimelineHead): number[] {
  const gpu = gpusOf(head);
  const lanes = gpu.length > 0 ? gpu.flatMap((track) => Array.from({ length: track.lanes }, (_, i) => track.lane + i)) : head.tracks.filter((track) => track.lanes > 0).map((track) => track.lane);
  return lanes.slice(0, LANES_MAX);
}

export class Overview {
  hits: readonly SliceRef[] = [];
  marked: SliceRef | null = null;
  private readonly surface: Surface;
  private readonly stop: () => void;
  private readonly byGroup = new Map<number, number[]>();
  private readonly fill = new Uint8Array(TILE_BUCKETS);
  private readonly name = new Uint32Array(TILE_BUCKETS);
  private readonly partFill = new Uint8Array(TILE_BUCKETS);
  private readonly partName = new Uint32Array(TILE_BUCKETS);
  private readonly ofGpu: boolean;
  private drawn: OffscreenCanvas | null = null;
  private drawnOf = '';
  private palette: Palette;
  private brush: { from: number; to: number } | null = null;
  private grabbed: TimeWindow | null = null;

  constructor(
    canvas: HTMLCanvasElement,
    private readonly lanes: Lanes,
    head: TimelineHead,
    private readonly length: number,
    private readonly view: () => TimeWindow,
    choose: (view: TimeWindow, glide: boolean) => void,
  ) {
    this.palette = readPalette();
    this.ofGpu = gpusOf(head).length > 0;
    for (const lane of lanesOf(head)) {
      const group = groupOf(lane);
      this.byGroup.set(group, [...(this.byGroup.get(group) ?? []), lane - group * GROUP_LANES]);
    }
    lanes.overviewGroups = [...this.byGroup.keys()];
    this.surface = new Surface(canvas, (g, width, height) => this.frame(g, width, height));
    const timeAt = (x: number) => (Math.max(0, Math.min(x, this.surface.width)) / Math.max(this.surface.width, 1)) * this.length;
    this.stop = listenToGestures(canvas, {
      area: (x0, _y0, x1, _y1, phase) => {
        const now = this.view();
        const span = now.to - now.from;
        if (phase === 'begin') {
          const at = timeAt(x0);
          const isWide = (span / this.length) * this.surface.width >= GRAB_MIN;
          this.grabbed = isWide && at > now.from && at < now.to && span < this.length * 0.98 ? now : null;
        }
        if (this.grabbed) {
          choose(windowAt(this.grabbed.from + timeAt(x1) - timeAt(x0), span, this.length), false);
          return;
        }
        const [from, to] = [timeAt(Math.min(x0, x1)), timeAt(Math.max(x0, x1))];
        this.brush = phase === 'end' ? null : { from, to };
        this.surface.invalidate();
        if (phase === 'end' && to > from) choose(windowAt(from, to - from, this.length), true);
      },
      click: (x) => {
        const now = this.view();
        choose(windowAt(timeAt(x) - (now.to - now.from) / 2, now.to - now.from, this.length), true);
      },
      pan: (dx) => choose(panBy(this.view(), (dx / Math.max(this.surface.width, 1)) * this.length, this.length), false),
      double: () => choose(windowAt(0, this.length, this.length), true),
    });
  }

  invalidate(): void {
    this.surface.invalidate();
  }

  recolor(): void {
    this.palette = readPalette();
    this.invalidate();
  }

  close(): void {
    this.stop();
    this.surface.close();
  }

  // The tiles as a picture, as soon as they are here.
  private drawProfile(): void {
    const { lanes } = this;
    let state = `${lanes.names.version}/${lanes.names.epoch}`;
    this.fill.fill(0);
    this.name.fill(NO_NAME);
    // What a GPU executes has a class; annotations have none.
    const counts = (name: number) => !this.ofGpu || lanes.names.classes[name] !== '';
    for (const [group, inGroup] of this.byGroup) {
      const tile = lanes.cache.get(lanes.rootLevel, group, 0);
      state += tile ? '+' : '-';
      if (!tile) continue;
      profileOf(tile.runs!, inGroup, this.partFill, this.partName, counts);
      for (let x = 0; x < TILE_BUCKETS; x++) {
        if (this.partFill[x]! <= this.fill[x]! && this.name[x] !== NO_NAME) continue;
        this.fill[x] = this.partFill[x]!;
        this.name[x] = this.partName[x]!;
      }
      lanes.names.need(tile.runs!);
    }
    if (state === this.drawnOf) return;
    this.drawnOf = state;
    const high = 32;
    this.drawn ??= new OffscreenCanvas(TILE_BUCKETS, high);
    const g = this.drawn.getContext('2d')!;
    const image = g.createImageData(TILE_BUCKETS, high);
    const pixels = new Uint32Array(image.data.buffer);
    for (let x = 0; x < TILE_BUCKETS; x++) {
      const name = this.name[x]!;
      if (name === NO_NAME && this.fill[x] === 0) continue;
      const color = (lanes.names.colors[name] ?? 0) || 0x909090;
      const tall = Math.max(2, Math.round((this.fill[x]! / 255) * high));
      for (let y = high - tall; y < high; y++) pixels[y * TILE_BUCKETS + x] = (0xff000000 | color) >>> 0;
    }
    g.putImageData(image, 0, 0);
  }

  private frame(g: CanvasRenderingContext2D, width: number, height: number): boolean {
    const { palette } = this;
    const view = this.view();
    const x = (at: number) => (at / this.length) * width;
    this.drawProfile();
    g.fillStyle = palette.back;
    g.fillRect(0, 0, width, height);
    if (this.drawn) {
      // The tile's buckets go on beyond the end of the trace.
      const part = TILE_BUCKETS * Math.min(1, this.length / tileSpan(this.lanes.rootLevel));
      g.imageSmoothingEnabled = false;
      g.drawImage(this.drawn, 0, 0, part, this.drawn.height, 0, 6, width, height - 7);
    }
    const from = x(view.from);
    const to = Math.max(x(view.to), from + 2);
    g.fillStyle = palette.back;
    g.globalAlpha = 0.62;
    g.fillRect(0, 0, from, height);
    g.fillRect(to, 0, width - to, height);
    g.globalAlpha = 1;
    g.fillStyle = palette.accent;
    g.fillRect(from, 0, to - from, 2);
    g.fillRect(from, height - 2, to - from, 2);
    g.fillRect(from - HANDLE + 1, 0, HANDLE, height);
    g.fillRect(to - 1, 0, HANDLE, height);
    if (this.brush) {
      g.globalAlpha = 0.3;
      g.fillRect(x(this.brush.from), 0, Math.max(x(this.brush.to) - x(this.brush.from), 1), height);
      g.globalAlpha = 1;
    }
    g.fillStyle = palette.text;
    let last = -1;
    for (const hit of this.hits) {
      const at = Math.round(x(hit.begin));
      if (at === last) continue;
      last = at;
      g.fillRect(at, 2, 1, 6);
    }
    if (this.marked) {
      const at = x(this.marked.begin);
      g.beginPath();
      g.moveTo(at - 4, 0);
      g.lineTo(at + 4, 0);
      g.lineTo(at, 7);
      g.fill();
    }
    g.fillStyle = palette.line;
    g.fillRect(0, height - 1, width, 1);
    return false;
  }
}
