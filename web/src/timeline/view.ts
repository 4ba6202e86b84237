// SPDX-License-Identifier: Apache-2.0
// The window of a timeline: which nanoseconds after the trace's first slice are in view. Pure functions over Numbers,
// which are exact to a nanosecond for 104 days.

export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

// The narrowest window. Times are whole nanoseconds, so there is nothing to see in less.
export const SPAN_MIN = 1;

// The window with that span that begins where it should, moved into the trace.
export function windowAt(from: number, span: number, length: number): TimeWindow {
  const most = Math.max(length, SPAN_MIN);
  const kept = Math.min(Math.max(span, SPAN_MIN), most);
  const begin = Math.min(Math.max(from, 0), most - kept);
  return { from: begin, to: begin + kept };
}

// The time `at` stays at its place on the screen; a factor under 1 zooms in.
export function zoomAt(view: TimeWindow, at: number, factor: number, length: number): TimeWindow {
  const span = view.to - view.from;
  const next = Math.min(Math.max(span * factor, SPAN_MIN), Math.max(length, SPAN_MIN));
  return windowAt(at - ((at - view.from) * next) / span, next, length);
}

export function panBy(view: TimeWindow, by: number, length: number): TimeWindow {
  return windowAt(view.from + by, view.to - view.from, length);
}

// A window that shows [from, to) with some of what is around it.
export function windowAround(from: number, to: number, length: number, margin = 0.25): TimeWindow {
  const span = Math.max(to - from, SPAN_MIN);
  return windowAt(from - span * margin, span * (1 + 2 * margin), length);
}

// Where the window has to be so that the time is in it, with the same span.
export function windowWith(view: TimeWindow, from: number, to: number, length: number): TimeWindow {
  if (from >= view.from && to <= view.to) return view;
  const span = view.to - view.from;
  if (to - from > span) return windowAround(from, to, length);
  return windowAt((from + to) / 2 - span / 2, span, length);
}

const VISIBLE_PX = 6;
const VISIBLE_PART = 16; // of the window, for what was too narrow
const VISIBLE_SPAN_MIN = 10_000; // ns: what has no duration is not zoomed in on for ever

// A window in which a time has some pixels: the same one where it has, or where it cannot.
export function windowThatShows(view: TimeWindow, from: number, to: number, length: number, width: number): TimeWindow {
  const span = view.to - view.from;
  const wanted = Math.max((to - from) * VISIBLE_PART, VISIBLE_SPAN_MIN);
  if (((to - from) / span) * width >= VISIBLE_PX || span <= wanted) return view;
  return windowAt((from + to) / 2 - wanted / 2, wanted, length);
}

// A step of a window that moves to another by itself. Spans move by their ratio, so that zooming looks even.
export function windowBetween(now: TimeWindow, goal: TimeWindow, part: number): TimeWindow {
  const span = now.to - now.from;
  const last = goal.to - goal.from;
  const next = span * (last / span) ** part;
  // The time that both windows show at the same place stays there.
  const moved = Math.abs(last - span) < 1e-9 * span ? part : (next - span) / (last - span);
  const from = now.from + (goal.from - now.from) * moved;
  return { from, to: from + next };
}

export function isNear(a: TimeWindow, b: TimeWindow): boolean {
  const close = (b.to - b.from) / 2000;
  return Math.abs(a.from - b.from) < close && Math.abs(a.to - b.to) < close;
}

// Times at which the ruler has a mark: 1, 2 or 5 times a power of ten apart, at least `apart` pixels.
export function rulerStep(nsPerPixel: number, apart: number): number {
  const least = Math.max(nsPerPixel * apart, 1);
  const power = 10 ** Math.floor(Math.log10(least) + 1e-12);
  for (const factor of [1, 2, 5]) if (factor * power >= least * (1 - 1e-12)) return factor * power;
  return 10 * power;
}

const UNITS: readonly [number, string][] = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'us'],
  [1, 'ns'],
];

// '1.234 s', with the unit of the step and as many digits as tell two marks apart.
export function rulerText(at: number, step: number): string {
  const [size, unit] = UNITS.find(([each]) => Math.max(Math.abs(at), step) >= each) ?? UNITS[3]!;
  const digits = Math.max(0, Math.round(Math.log10(size)) - Math.floor(Math.log10(step) + 1e-12));
  return `${(at / size).toFixed(digits)} ${unit}`;
}

// The window of an address: numbers or nothing.
export function windowFrom(from: string | null, to: string | null, length: number): TimeWindow | null {
  if (from === null || to === null) return null;
  const [begin, end] = [Number(from), Number(to)];
  if (!Number.isFinite(begin) || !Number.isFinite(end) || end <= begin) return null;
  return windowAt(begin, end - begin, length);
}
