// SPDX-License-Identifier: Apache-2.0
// Distributions and sweeps for plots. Percentiles are nearest ranks, as in reports: a value that occurred. Pure.

export function sorted(values: Iterable<number | null | undefined>): Float64Array {
  const kept: number[] = [];
  for (const value of values) if (value !== null && value !== undefined && Number.isFinite(value)) kept.push(value);
  return Float64Array.from(kept).sort();
}

// The value of rank ceil(q n) of sorted values; null of none.
export function quantile(values: ArrayLike<number>, q: number): number | null {
  if (values.length === 0) return null;
  return values[Math.max(0, Math.min(values.length - 1, Math.ceil(q * values.length) - 1))]!;
}

// Whether n values can tell a percentile: at least one of them is expected beyond it. The rule of profctl.
export function isEstimable(q: number, n: number): boolean {
  return n > 0 && (q <= 0 || q >= 1 || n * Math.min(q, 1 - q) > 1 - 1e-9);
}

// quantile() of as many values as it takes to estimate it; else null.
export function estimate(values: ArrayLike<number>, q: number): number | null {
  return isEstimable(q, values.length) ? quantile(values, q) : null;
}

export function mean(values: ArrayLike<number>): number | null {
  if (values.length === 0) return null;
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return sum / values.length;
}

export interface Curve {
  x: number[];
  y: number[];
}

// The empirical distribution: share of the values up to x. Of many values `points` of them, evenly by rank, with the
// first and the last.
export function cdf(values: ArrayLike<number>, points = 400): Curve {
  const n = values.length;
  const steps = Math.min(n, points);
  const curve: Curve = { x: [], y: [] };
  for (let i = 0; i < steps; i++) {
    const at = steps === 1 ? 0 : Math.round((i * (n - 1)) / (steps - 1));
    const value = values[at]!;
    if (curve.x.at(-1) === value) curve.y[curve.y.length - 1] = (at + 1) / n;
    else {
      curve.x.push(value);
      curve.y.push((at + 1) / n);
    }
  }
  return curve;
}

// The share of sorted values that are at most x.
export function shareUpTo(values: ArrayLike<number>, x: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! <= x) low = middle + 1;
    else high = middle;
  }
  return values.length === 0 ? 0 : low / values.length;
}

// Several distributions over one axis, for a plot: the union of their points.
export function overlaid(distributions: ArrayLike<number>[], points = 400): { x: number[]; y: number[][] } {
  const all = new Set<number>();
  for (const values of distributions) for (const x of cdf(values, points).x) all.add(x);
  const x = [...all].sort((a, b) => a - b);
  return { x, y: distributions.map((values) => x.map((each) => shareUpTo(values, each))) };
}

interface Histogram {
  edges: number[]; // one more than counts
  counts: number[];
}

// Bins of equal width, their edges at round numbers. The last bin includes its upper edge.
export function histogram(values: ArrayLike<number>, bins = 40): Histogram {
  if (values.length === 0) return { edges: [], counts: [] };
  const low = values[0]!;
  const high = values[values.length - 1]!;
  const width = roundUp((high - low) / bins || Math.abs(low) / bins || 1);
  const first = Math.floor(low / width);
  const n = Math.max(1, Math.min(2 * bins, Math.floor(high / width) - first + 1));
  const counts = new Array<number>(n).fill(0);
  for (let i = 0; i < values.length; i++) {
    const bin = Math.max(0, Math.min(n - 1, Math.floor(values[i]! / width) - first));
    counts[bin]!++;
  }
  return { edges: Array.from({ length: n + 1 }, (_, i) => (first + i) * width), counts };
}

// 1, 2 or 5 times a power of ten, at least x.
export function roundUp(x: number): number {
  const power = 10 ** Math.floor(Math.log10(x));
  for (const factor of [1, 2, 5]) if (factor * power >= x * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

export interface SweepPoint {
  load: number;
  throughput: number;
  latency: number;
}

// The point of the largest throughput by latency, as profctl bench has it (client/runs/plan.c): null with fewer than
// three points, and where it is the highest load, beyond which nothing was measured.
export function knee(points: SweepPoint[]): number | null {
  let best: number | null = null;
  let highest: number | null = null;
  let most = 0;
  let n = 0;
  points.forEach((point, i) => {
    if (!(point.throughput > 0 && point.latency > 0)) return;
    n++;
    if (highest === null || point.load > points[highest]!.load) highest = i;
    if (point.throughput / point.latency > most) {
      most = point.throughput / point.latency;
      best = i;
    }
  });
  return n < 3 || best === highest ? null : best;
}
