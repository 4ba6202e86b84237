// SPDX-License-Identifier: Apache-2.0
// Counters as areas: points of a power-of-two part of the trace, kept as tiles are.

import { isAbort } from '../api';
import type { Palette } from './palette';
import type { CounterPoint, CounterTrack } from './source';
import { tileBegin, tileIndex, tileSpan } from './tiles';
import type { TimeWindow } from './view';

const POINTS = 512;
const KEPT_MAX = 256;

interface Part {
  points: CounterPoint[] | null;
  used: number;
  control: AbortController | null;
}

type LoadCounter = (track: number, from: number, to: number, points: number, signal: AbortSignal) => Promise<CounterPoint[]>;

export class Counters {
  private readonly parts = new Map<string, Part>();
  private frame = 0;

  constructor(
    private readonly load: LoadCounter,
    private readonly changed: () => void,
  ) {}

  beginFrame(): void {
    this.frame++;
    if (this.parts.size <= KEPT_MAX) return;
    const old = [...this.parts].filter(([, part]) => !part.control).sort((a, b) => a[1].used - b[1].used);
    for (const [key] of old.slice(0, KEPT_MAX / 4)) this.parts.delete(key);
  }

  private part(track: number, level: number, index: number): Part {
    const key = `${track}/${level}/${index}`;
    let part = this.parts.get(key);
    if (!part) {
      const control = new AbortController();
      const created: Part = { points: null, used: this.frame, control };
      const from = tileBegin(level, index);
      this.parts.set(key, (part = created));
      this.load(track, from, from + tileSpan(level), POINTS, control.signal).then(
        (points) => {
          created.points = points;
          created.control = null;
          this.changed();
        },
        (error: unknown) => {
          created.control = null;
          // Asked for again when it is next in view.
          if (isAbort(error)) this.parts.delete(key);
          else setTimeout(() => this.parts.delete(key), 2000);
        },
      );
    }
    part.used = this.frame;
    return part;
  }

  // The area of a counter in the box at y. Between points a counter keeps its value.
  draw(g: CanvasRenderingContext2D, counter: CounterTrack, view: TimeWindow, level: number, width: number, y: number, height: number, palette: Palette): void {
    const scale = width / (view.to - view.from);
    const low = Math.min(0, counter.min);
    const range = counter.max - low || 1;
    const yOf = (value: number) => y + height - ((value - low) / range) * (height - 2);
    g.fillStyle = palette.fill;
    g.globalAlpha = 0.75;
    const last = tileIndex(level, view.to);
    for (let index = Math.max(0, tileIndex(level, view.from)); index <= last; index++) {
      const { points } = this.part(counter.track, level, index);
      if (!points || points.length === 0) continue;
      const end = Math.min(tileBegin(level, index + 1), view.to);
      g.beginPath();
      g.moveTo((points[0]![0] - view.from) * scale, yOf(low));
      for (let i = 0; i < points.length; i++) {
        const [at, , most, value] = points[i]!;
        const next = i + 1 < points.length ? points[i + 1]![0] : end;
        const x = (at - view.from) * scale;
        const nextX = (next - view.from) * scale;
        // What fits into a pixel shows its peak.
        const top = yOf(nextX - x < 2 ? most : value);
        g.lineTo(x, top);
        g.lineTo(nextX, top);
      }
      g.lineTo((end - view.from) * scale, yOf(low));
      g.fill();
    }
    g.globalAlpha = 1;
  }

  // The value at a time, as far as it is known.
  valueAt(track: number, level: number, at: number): number | null {
    const points = this.parts.get(`${track}/${level}/${tileIndex(level, at)}`)?.points;
    let found: number | null = null;
    for (const point of points ?? []) {
      if (point[0] > at) break;
      found = point[3];
    }
    return found;
  }

  close(): void {
    for (const part of this.parts.values()) part.control?.abort();
    this.parts.clear();
  }
}
