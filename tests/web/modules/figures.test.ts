// SPDX-License-Identifier: Apache-2.0
// Distributions, histograms and knees, against counting by hand.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cdf, estimate, histogram, knee, mean, overlaid, quantile, shareUpTo, sorted } from '../../../web/src/figures';
import { latencies, overTime, type RunRequest } from '../../../web/src/run/requests';
import { meanOf, siblings, sweepOf } from '../../../web/src/run/sweep';
import type { Run } from '../../../web/src/types';

// A generator of its own, so that a failure comes again.
function numbers(n: number, seed = 7): number[] {
  let state = seed;
  return Array.from({ length: n }, () => (state = (state * 1103515245 + 12345) % 2147483648) % 100_000);
}

test('quantiles are nearest ranks: values that occurred', () => {
  const values = sorted([5, 1, 4, 2, 3]);
  assert.equal(quantile(values, 0.5), 3);
  assert.equal(quantile(values, 0.99), 5);
  assert.equal(quantile(values, 0), 1);
  assert.equal(quantile(values, 0.2), 1);
  assert.equal(quantile(values, 0.21), 2);
  assert.equal(quantile(new Float64Array(), 0.5), null);
  assert.equal(mean(sorted([1, null, 3, undefined, NaN])), 2);
});

test('a distribution grows to 1, and each of its points is the share of values up to there', () => {
  const values = sorted(numbers(5000));
  const curve = cdf(values, 300);
  assert.ok(curve.x.length <= 300);
  assert.equal(curve.x[0], values[0]);
  assert.equal(curve.x.at(-1), values.at(-1));
  assert.equal(curve.y.at(-1), 1);
  for (let i = 1; i < curve.x.length; i++) assert.ok(curve.x[i]! > curve.x[i - 1]! && curve.y[i]! > curve.y[i - 1]!);
  for (const x of [values[0]!, 50_000, values[4999]!]) assert.equal(shareUpTo(values, x), values.filter((value) => value <= x).length / 5000);
  const both = overlaid([sorted([1, 2, 3]), sorted([2, 4])]);
  assert.deepEqual(both.x, [1, 2, 3, 4]);
  assert.deepEqual(both.y, [
    [1 / 3, 2 / 3, 1, 1],
    [0, 0.5, 0.5, 1],
  ]);
});

test('a histogram has every value once, between round edges', () => {
  for (const values of [sorted(numbers(1000)), sorted([5]), sorted([5, 5, 5]), sorted([0, 0]), sorted([1e-9, 1e12]), sorted([-3, 3])]) {
    const { edges, counts } = histogram(values, 20);
    assert.equal(
      counts.reduce((sum, n) => sum + n, 0),
      values.length,
    );
    assert.equal(edges.length, counts.length + 1);
    assert.ok(edges[0]! <= values[0]! && edges.at(-1)! >= values.at(-1)!, `${edges[0]} ${edges.at(-1)}`);
    assert.ok(counts.length <= 42);
  }
  assert.deepEqual(histogram(sorted([]), 20), { edges: [], counts: [] });
  assert.deepEqual(histogram(sorted([0, 1, 1, 9.5, 10]), 10), { edges: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], counts: [1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1] });
});

test('the knee is the largest throughput by latency, unless it is the highest load', () => {
  const points = [
    { load: 1, throughput: 10, latency: 1 },
    { load: 2, throughput: 19, latency: 1.1 },
    { load: 4, throughput: 30, latency: 2 },
    { load: 8, throughput: 31, latency: 8 },
  ];
  assert.equal(knee(points), 1);
  assert.equal(knee(points.slice(0, 2)), null, 'two points have none');
  assert.equal(knee(points.slice(0, 3).map((point) => ({ ...point, latency: 1 }))), null, 'still growing');
  assert.equal(knee([{ load: 16, throughput: 0, latency: 0 }, ...points]), 2, 'a load without figures does not count');
});

const request = (index: number, more: Partial<RunRequest>): RunRequest => ({ index, prompt: 0, target: 'w', cold: false, intended_ns: 0, outcome: 'success', ...more });

test('latencies leave out cold and failed requests, and have each gap between tokens', () => {
  const requests = [
    request(0, { cold: true, ttft_ns: 900, gaps_us: [9] }),
    request(1, { ttft_ns: 30, e2e_ns: 100, gaps_us: [3, 1] }),
    request(2, { ttft_ns: 10, gaps_us: [2] }),
    request(3, { outcome: 'error', ttft_ns: 1 }),
  ];
  assert.deepEqual([...latencies(requests, 'ttft')], [10, 30]);
  assert.deepEqual([...latencies(requests, 'e2e')], [100]);
  assert.deepEqual([...latencies(requests, 'itl')], [1000, 2000, 3000]);
});

test('a run over time has each token and request where it was', () => {
  const s = 1e9;
  const requests = [
    request(0, { sent_ns: 0, first_ns: 0.05 * s, end_ns: 0.35 * s, ttft_ns: 0.05 * s, e2e_ns: 0.35 * s, gaps_us: [100_000, 100_000] }),
    request(1, { sent_ns: 0.1 * s, first_ns: 0.15 * s, end_ns: 0.25 * s, ttft_ns: 0.05 * s, e2e_ns: 0.15 * s, gaps_us: [] }),
    request(2, { sent_ns: 0.31 * s, end_ns: 0.32 * s, outcome: 'error' }),
  ];
  const over = overTime(requests, 4);
  assert.deepEqual(over.at, [0, 1e8, 2e8, 3e8]);
  assert.deepEqual(over.tokens, [10, 20, 10, 0]);
  assert.deepEqual(over.requests, [0, 0, 10, 10]);
  assert.deepEqual(over.inFlight, [1, 2, 2, 2]);
  assert.deepEqual(over.ttftP50, [0.05 * s, 0.05 * s, null, null]);
  assert.equal(overTime([]).at.length, 1);
  for (const end of [1, 1e7, 19.4 * s, 86400 * s]) {
    const { at } = overTime([request(0, { sent_ns: 0, end_ns: end })]);
    assert.ok(at.length <= 121 && at.at(-1)! <= end, `${end}: ${at.length}`);
  }
});

const run = (n: number, workload: Record<string, unknown>, more: object = {}): Run =>
  ({ run: n, model: 'm', workload, labels: {}, throughput: { output_tokens_per_s: 10 * n }, metrics: { e2e_ms: { mean: 100, p99: 200 } }, ...more }) as unknown as Run;

test('runs of a sweep differ in their load alone', () => {
  const runs = [
    run(1, { isl: 8, concurrency: 1 }),
    run(2, { isl: 8, concurrency: 4 }),
    run(3, { concurrency: 2, isl: 8 }),
    run(4, { isl: 9, concurrency: 2 }),
    run(5, { isl: 8, concurrency: 2 }, { labels: { build: 'new' } }),
    run(6, { isl: 8, concurrency: 2 }, { throughput: undefined }),
    run(7, { isl: 8, concurrency: 2 }),
  ];
  const family = siblings(runs[0]!, runs);
  assert.deepEqual(
    family.map((one) => one.run),
    [1, 3, 7, 2],
  );
  const sweep = sweepOf(family);
  assert.deepEqual(
    sweep.points.map((point) => [point.load, point.throughput, point.runs]),
    [
      [1, 10, [1]],
      [2, 50, [3, 7]],
      [4, 20, [2]],
    ],
  );
  assert.equal(sweep.knee, 1);
});

test('the interval of repeated runs is that of Student', () => {
  // numpy: mean 12, sd 2, 4.303 * 2 / sqrt(3)
  const found = meanOf([10, 12, 14])!;
  assert.equal(found.mean, 12);
  assert.ok(Math.abs(found.half! - 4.9687) < 1e-3);
  assert.deepEqual(meanOf([3]), { mean: 3, half: null });
  assert.equal(meanOf([]), null);
});

test('a percentile needs a value that is expected beyond it', () => {
  const n = (count: number) => Array.from({ length: count }, (_, i) => i);
  assert.equal(estimate(n(99), 0.99), null);
  assert.equal(estimate(n(100), 0.99), 98);
  assert.equal(estimate(n(1), 0.5), null);
  assert.equal(estimate(n(2), 0.5), 0);
  assert.equal(estimate(n(1), 1), 0);
  assert.equal(estimate([], 1), null);
});
