// SPDX-License-Identifier: Apache-2.0
// What is drawn over the lanes: ruler, steps, the selected slice with its arrows, areas, measurements, and the text at the
// pointer. Functions over a context; they keep nothing.

import type { BoxTexts } from '../canvas/text';
import { duration } from '../units';
import type { Palette } from './palette';
import type { SliceRef } from '../types';
import type { SliceDetail, Step } from './source';
import { rulerStep, rulerText, type TimeWindow } from './view';

export const RULER = 24;
const STEPS = 18;

// Height of ruler and steps.
export function topOfLanes(steps: readonly Step[]): number {
  return RULER + (steps.length > 0 ? STEPS : 0);
}

export interface Places {
  x: (at: number) => number;
  lane: (lane: number) => { y: number; height: number } | null; // null: hidden
}

export interface Arrow {
  from: SliceRef;
  to: SliceRef;
  other: SliceRef; // where it leads from the selected slice
}

export function arrowsOf(slice: SliceDetail): Arrow[] {
  const arrows: Arrow[] = [];
  const into = (from: SliceRef) => arrows.push({ from, to: slice, other: from });
  const out = (to: SliceRef) => arrows.push({ from: slice, to, other: to });
  if (slice.launch) into(slice.launch);
  slice.launched?.forEach(out);
  const known = new Set(arrows.map((each) => each.other.slice));
  slice.flows?.in.filter((each) => !known.has(each.slice)).forEach(into);
  slice.flows?.out.filter((each) => !known.has(each.slice)).forEach(out);
  return arrows;
}

export function drawRuler(g: CanvasRenderingContext2D, view: TimeWindow, width: number, palette: Palette): void {
  const perPixel = (view.to - view.from) / width;
  const step = rulerStep(perPixel, 110);
  g.fillStyle = palette.back;
  g.fillRect(0, 0, width, RULER);
  g.fillStyle = palette.line;
  g.fillRect(0, RULER - 1, width, 1);
  g.font = `11px ${palette.font}`;
  g.textBaseline = 'middle';
  const first = Math.ceil(view.from / step);
  const last = Math.floor(view.to / step);
  for (let i = first; i <= last; i++) {
    const x = Math.round((i * step - view.from) / perPixel);
    g.fillStyle = palette.lineStrong;
    g.fillRect(x, RULER - 7, 1, 6);
    g.fillStyle = palette.muted;
    g.fillText(rulerText(i * step, step), x + 4, RULER / 2 - 1);
  }
}

// Steps in turn darker and lighter, as far as they are a pixel wide.
export function drawSteps(g: CanvasRenderingContext2D, steps: readonly Step[], view: TimeWindow, width: number, palette: Palette, texts: BoxTexts): void {
  const scale = width / (view.to - view.from);
  g.fillStyle = palette.panel;
  g.fillRect(0, RULER, width, STEPS);
  g.font = `11px ${palette.font}`;
  g.textBaseline = 'middle';
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (steps[middle]!.end <= view.from) low = middle + 1;
    else high = middle;
  }
  let drawn = -1;
  for (let i = low; i < steps.length; i++) {
    const step = steps[i]!;
    if (step.begin >= view.to) break;
    const x0 = Math.max((step.begin - view.from) * scale, 0);
    const x1 = Math.min((step.end - view.from) * scale, width);
    if (Math.floor(x1) === drawn) continue;
    drawn = Math.floor(x1);
    g.fillStyle = i % 2 === 0 ? palette.accentSoft : palette.line;
    g.fillRect(x0, RULER + 1, Math.max(x1 - x0 - (x1 - x0 > 3 ? 1 : 0), 1), STEPS - 3);
    if (x1 - x0 < 30) continue;
    const text = texts.fit(g, step.phase ? `${step.label} ${step.phase}` : step.label, x1 - x0 - 8);
    g.fillStyle = palette.text;
    if (text) g.fillText(text, x0 + 4, RULER + STEPS / 2);
  }
  g.fillStyle = palette.line;
  g.fillRect(0, RULER + STEPS - 1, width, 1);
}

export function drawSelected(g: CanvasRenderingContext2D, slice: SliceRef, places: Places, width: number, length: number, palette: Palette): void {
  const box = places.lane(slice.lane);
  if (!box) return;
  const x0 = Math.max(places.x(slice.begin), -4);
  const x1 = Math.min(places.x(slice.dur < 0 ? length : slice.begin + slice.dur), width + 4);
  if (x1 < -3 || x0 > width + 3) return;
  const w = Math.max(x1 - x0, 2);
  g.lineWidth = 2;
  g.strokeStyle = palette.panel;
  g.strokeRect(x0 - 2, box.y - 2, w + 4, box.height + 3);
  g.strokeStyle = palette.text;
  g.strokeRect(x0 - 0.5, box.y - 0.5, w + 1, box.height);
}

interface Curve {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  bend: number;
}

function curveOf(arrow: Arrow, places: Places, length: number): Curve | null {
  const a = places.lane(arrow.from.lane);
  const b = places.lane(arrow.to.lane);
  if (!a || !b) return null;
  const end = arrow.from.dur < 0 ? length : arrow.from.begin + arrow.from.dur;
  const x0 = places.x(Math.min(end, Math.max(arrow.to.begin, arrow.from.begin)));
  const x1 = places.x(arrow.to.begin);
  return { x0, y0: a.y + a.height / 2, x1, y1: b.y + b.height / 2, bend: Math.min(Math.max(Math.abs(x1 - x0) / 2, 24), 160) };
}

export function drawArrow(g: CanvasRenderingContext2D, arrow: Arrow, places: Places, length: number, palette: Palette, width: number, height: number): void {
  const c = curveOf(arrow, places, length);
  if (!c) return;
  const isAway = Math.max(c.x0, c.x1) < -200 || Math.min(c.x0, c.x1) > width + 200 || Math.max(c.y0, c.y1) < 0 || Math.min(c.y0, c.y1) > height;
  if (isAway) return;
  for (const [color, line] of [[palette.panel, 4], [palette.accent, 1.75]] as const) {
    g.strokeStyle = color;
    g.lineWidth = line;
    g.beginPath();
    g.moveTo(c.x0, c.y0);
    g.bezierCurveTo(c.x0 + c.bend, c.y0, c.x1 - c.bend, c.y1, c.x1 - 3, c.y1);
    g.stroke();
  }
  g.fillStyle = palette.accent;
  g.beginPath();
  g.moveTo(c.x1, c.y1);
  g.lineTo(c.x1 - 7, c.y1 - 4);
  g.lineTo(c.x1 - 7, c.y1 + 4);
  g.fill();
}

// Pixels between a point and an arrow.
export function distanceTo(arrow: Arrow, places: Places, length: number, x: number, y: number): number {
  const c = curveOf(arrow, places, length);
  if (!c) return Infinity;
  let best = Infinity;
  let [lastX, lastY] = [c.x0, c.y0];
  for (let i = 1; i <= 24; i++) {
    const t = i / 24;
    const u = 1 - t;
    const px = u ** 3 * c.x0 + 3 * u * u * t * (c.x0 + c.bend) + 3 * u * t * t * (c.x1 - c.bend) + t ** 3 * c.x1;
    const py = u ** 3 * c.y0 + 3 * u * u * t * c.y0 + 3 * u * t * t * c.y1 + t ** 3 * c.y1;
    const long = (px - lastX) ** 2 + (py - lastY) ** 2;
    const along = long === 0 ? 0 : Math.max(0, Math.min(1, ((x - lastX) * (px - lastX) + (y - lastY) * (py - lastY)) / long));
    best = Math.min(best, Math.hypot(x - lastX - along * (px - lastX), y - lastY - along * (py - lastY)));
    [lastX, lastY] = [px, py];
  }
  return best;
}

export function drawArea(g: CanvasRenderingContext2D, x0: number, x1: number, top: number, bottom: number, span: number, palette: Palette): void {
  g.fillStyle = palette.accent;
  g.globalAlpha = 0.16;
  g.fillRect(x0, top, x1 - x0, bottom - top);
  g.globalAlpha = 1;
  g.fillRect(Math.round(x0), top, 1, bottom - top);
  g.fillRect(Math.round(x1), top, 1, bottom - top);
  badge(g, duration(span), (x0 + x1) / 2, top + 9, palette);
}

export function drawMeasure(g: CanvasRenderingContext2D, x0: number, x1: number, top: number, bottom: number, span: number, palette: Palette): void {
  g.fillStyle = palette.accent;
  g.globalAlpha = 0.1;
  g.fillRect(x0, top, x1 - x0, bottom - top);
  g.globalAlpha = 1;
  g.fillRect(Math.round(x0), top, 1, bottom - top);
  g.fillRect(Math.round(x1), top, 1, bottom - top);
  g.fillRect(x0, top + 16, x1 - x0, 1);
  badge(g, exactly(span), (x0 + x1) / 2, top + 16, palette);
}

// '131.07 us': a measurement deserves its digits.
export function exactly(ns: number): string {
  const text = ns < 1e3 ? `${Math.round(ns)} ns` : ns < 1e6 ? `${(ns / 1e3).toFixed(3)} us` : ns < 1e9 ? `${(ns / 1e6).toFixed(4)} ms` : `${(ns / 1e9).toFixed(6)} s`;
  return text.replace(/(\.\d*?)0+ /, '$1 ').replace('. ', ' ');
}

function badge(g: CanvasRenderingContext2D, text: string, x: number, y: number, palette: Palette): void {
  g.font = `600 11px ${palette.font}`;
  g.textBaseline = 'middle';
  const width = g.measureText(text).width + 12;
  const left = Math.max(2, Math.min(x - width / 2, g.canvas.clientWidth - width - 2));
  g.fillStyle = palette.accent;
  g.beginPath();
  g.roundRect(left, y - 9, width, 18, 5);
  g.fill();
  g.fillStyle = palette.panel;
  g.fillText(text, left + 6, y + 0.5);
}

// The text at the pointer.
export function tooltip(g: CanvasRenderingContext2D, text: string, detail: string, x: number, y: number, width: number, height: number, palette: Palette): void {
  const most = Math.min(width - 24, 560);
  g.font = `12px ${palette.font}`;
  let line = text.length > 200 ? text.slice(0, 200) + '…' : text;
  while (line.length > 8 && g.measureText(line).width > most - 16) line = line.slice(0, Math.floor(line.length * 0.9) - 1) + '…';
  const box = Math.max(g.measureText(line).width, g.measureText(detail).width) + 16;
  const tall = detail ? 38 : 22;
  const left = Math.max(4, Math.min(x + 14, width - box - 4));
  const top = y + 18 + tall > height ? y - tall - 8 : y + 18;
  g.fillStyle = palette.raised;
  g.strokeStyle = palette.lineStrong;
  g.lineWidth = 1;
  g.beginPath();
  g.roundRect(left + 0.5, top + 0.5, box, tall, 5);
  g.fill();
  g.stroke();
  g.textBaseline = 'middle';
  g.fillStyle = palette.text;
  g.fillText(line, left + 8, top + 12);
  if (!detail) return;
  g.fillStyle = palette.muted;
  g.fillText(detail, left + 8, top + 27);
}
