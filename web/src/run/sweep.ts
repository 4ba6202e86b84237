// SPDX-License-Identifier: Apache-2.0
// Runs that belong together: those of a sweep differ in one member of their workload, repeated runs in none. Pure.

import { isEstimable, knee, mean, type SweepPoint } from '../figures';
import type { Run } from '../types';

const LOADS = ['concurrency', 'rate'] as const;

// All of a workload but its load, and where it went.
function keyOf(run: Run): string {
  const rest = Object.entries(run.workload).filter(([name]) => !(LOADS as readonly string[]).includes(name));
  rest.sort(([a], [b]) => (a < b ? -1 : 1));
  const labels = Object.entries(run.labels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([run.model, run.router, run.fleet, rest, labels]);
}

export function loadOf(run: Run): { member: string; value: number } {
  for (const member of ['rate', 'concurrency'] as const) {
    const value = run.workload[member];
    if (typeof value === 'number' && value > 0) return { member, value };
  }
  return { member: 'concurrency', value: 1 };
}

// Runs of the same workload that differ in their load at most, by load.
export function siblings(run: Run, runs: Run[]): Run[] {
  const key = keyOf(run);
  const { member } = loadOf(run);
  return runs
    .filter((other) => other.throughput && keyOf(other) === key && loadOf(other).member === member)
    .sort((a, b) => loadOf(a).value - loadOf(b).value || a.run - b.run);
}

// A figure of a metric; null if it is not there, or a percentile of too few values.
export function figure(run: Run, metric: string, name: string): number | null {
  const figures = run.metrics?.[metric] as Record<string, unknown> | undefined;
  const found = figures?.[name];
  const n = figures?.['count'];
  if (typeof found !== 'number') return null;
  const percentile = /^p\d/.test(name) ? Number(name.slice(1)) / 100 : null;
  return percentile !== null && typeof n === 'number' && !isEstimable(percentile, n) ? null : found;
}

export interface Swept extends SweepPoint {
  runs: number[];
  ttftP50: number | null;
  e2eP99: number | null;
}

// One point for each load: the mean over its runs. Throughput in output tokens a second, latency the mean E2E in ms.
export function sweepOf(runs: Run[]): { member: string; points: Swept[]; knee: number | null } {
  const byLoad = new Map<number, Run[]>();
  for (const run of runs) {
    const { value } = loadOf(run);
    byLoad.set(value, [...(byLoad.get(value) ?? []), run]);
  }
  const average = (list: Run[], of: (run: Run) => number | null) => mean(list.map(of).filter((value): value is number => value !== null));
  const points = [...byLoad].map(([load, list]) => ({
    load,
    runs: list.map((run) => run.run),
    throughput: average(list, (run) => run.throughput?.['output_tokens_per_s'] ?? null) ?? 0,
    latency: average(list, (run) => figure(run, 'e2e_ms', 'mean')) ?? 0,
    ttftP50: average(list, (run) => figure(run, 'ttft_ms', 'p50')),
    e2eP99: average(list, (run) => figure(run, 'e2e_ms', 'p99')),
  }));
  return { member: runs[0] ? loadOf(runs[0]).member : 'concurrency', points, knee: knee(points) };
}

// Student's t at 0.975 by degrees of freedom.
const T975 = [
  NaN, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093, 2.086,
  2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

// Mean of repeated runs and half of its 95 % interval; null with fewer than two.
export function meanOf(values: number[]): { mean: number; half: number | null } | null {
  const m = mean(values);
  if (m === null) return null;
  const n = values.length;
  if (n < 2) return { mean: m, half: null };
  const variance = values.reduce((sum, value) => sum + (value - m) ** 2, 0) / (n - 1);
  return { mean: m, half: (T975[n - 1] ?? 1.96 + 2.4 / (n - 1)) * Math.sqrt(variance / n) };
}

// "concurrency 4, isl 32, osl 12, 60 requests"
export function workloadText(workload: Record<string, unknown>): string {
  const parts: string[] = [];
  for (const [name, value] of Object.entries(workload)) {
    if (name === 'requests') parts.push(`${value} requests`);
    else if (typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean') parts.push(`${name} ${value}`);
  }
  return parts.join(', ');
}
