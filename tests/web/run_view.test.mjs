// SPDX-License-Identifier: Apache-2.0
// A benchmark run: its figures, distributions that are those of its requests, the sweep, and repeated runs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { accessible, api, close, data, open } from './page.mjs';

const { sweep, repeated } = data.analysis;
const region = (page, name) => page.getByRole('region', { name, exact: true });
const plain = (text) => text.replaceAll('\u00a0', ' ');

function time(ns) {
  if (ns === 0) return '0 s';
  for (const [unit, factor] of [['ns', 1], ['us', 1e3], ['ms', 1e6]]) {
    const n = ns / factor;
    if (n < 999.5) return `${n < 9.95 && !(unit === 'ns' && Number.isInteger(n)) ? n.toFixed(1) : n.toFixed(0)} ${unit}`;
  }
  return `${(ns / 1e9).toFixed(1)} s`;
}
const nearest = (values, q) => [...values].sort((a, b) => a - b)[Math.max(0, Math.ceil(q * values.length) - 1)];

test('a run has its figures, and its plots have tables of the same', async () => {
  const id = sweep[1];
  const page = await open(`/runs/${id}`);
  const run = await api('GET', `/v1/runs/${id}`);
  const { requests } = await api('GET', `/v1/runs/${id}/requests?limit=10000`);
  const figures = region(page, 'Figures');
  await figures.getByRole('table', { name: 'Latencies' }).waitFor();
  const e2e = (await figures.getByRole('row', { name: /^E2E/ }).getByRole('cell').allTextContents()).map(plain);
  assert.deepEqual(e2e.slice(1, 3), [time(run.metrics.e2e_ms.mean * 1e6), time(run.metrics.e2e_ms.p50 * 1e6)]);
  assert.ok(plain(await figures.textContent()).includes(`${run.requests.success} succeeded`));

  const counted = requests.filter((request) => request.outcome === 'success' && !request.cold);
  const latency = region(page, 'Latency');
  await latency.getByRole('button', { name: 'E2E' }).click();
  const values = counted.map((request) => request.e2e_ns);
  await latency.getByText(`${values.length} requests`, { exact: false }).waitFor();
  const line = plain(await latency.textContent());
  assert.ok(line.includes(`p50 ${time(nearest(values, 0.5))}`), line);
  // Of a few values nobody knows the p99.
  assert.equal(line.includes(`p99 ${time(nearest(values, 0.99))}`), values.length >= 100, line);
  // The bins of the histogram have every value once.
  await latency.getByText('Table', { exact: true }).last().click();
  // The table is made when it is opened: its head, and at least two rows.
  await latency.getByRole('table', { name: 'E2E: histogram' }).getByRole('row').nth(2).waitFor();
  for (const name of ['Latency over time', 'Output tokens per second over time', 'Requests in flight and finished over time']) await page.getByRole('figure', { name }).waitFor();
  await accessible(page);
  // On a telephone, mean and median are in view without scrolling sideways.
  await page.setViewportSize({ width: 390, height: 844 });
  const frame = await figures.boundingBox();
  const median = await figures.getByRole('columnheader', { name: 'p50' }).boundingBox();
  assert.ok(median.x + median.width <= frame.x + frame.width, 'the median is in view');
  await close(page);
});

test('requests are sorted, and saved as CSV', async () => {
  const page = await open(`/runs/${sweep[0]}`);
  const { requests } = await api('GET', `/v1/runs/${sweep[0]}/requests?limit=10000`);
  const panel = region(page, 'Requests');
  await panel.getByRole('columnheader', { name: 'TTFT' }).getByRole('button').click();
  const slowest = requests.reduce((most, request) => (request.ttft_ns > most.ttft_ns ? request : most));
  assert.equal(await panel.getByRole('table').getByRole('row').nth(1).getByRole('cell').first().textContent(), String(slowest.index));
  const [file] = await Promise.all([page.waitForEvent('download'), panel.getByRole('button', { name: 'CSV' }).click()]);
  assert.equal(readFileSync(await file.path(), 'utf8').trim().split('\n').length, requests.length + 1);
  await close(page);
});

test('runs that differ in their load are a sweep', async () => {
  const page = await open(`/runs/${sweep[0]}`);
  const panel = region(page, 'Sweep');
  const table = panel.getByRole('table', { name: 'Runs of the sweep' });
  await table.getByRole('row').nth(sweep.length).waitFor();
  assert.equal(await table.getByRole('row').count(), sweep.length + 1);
  assert.match(plain(await panel.textContent()), /Knee at concurrency|No knee in this range/);
  await panel.getByRole('figure', { name: 'Latency against throughput' }).waitFor();
  await table.getByRole('row').nth(2).click();
  await page.waitForURL(new RegExp(`#/runs/${sweep[1]}$`));
  await close(page);
});

test('repeated runs have means with intervals', async () => {
  const page = await open(`/runs/${repeated[0]}`);
  await page.getByRole('link', { name: /figures over 4 runs with intervals/ }).click();
  await page.getByRole('heading', { name: /Figures over 4 runs/ }).waitFor();
  const means = await Promise.all(repeated.map(async (id) => (await api('GET', `/v1/runs/${id}`)).metrics.e2e_ms.mean * 1e6));
  const mean = means.reduce((sum, value) => sum + value, 0) / 4;
  const half = (3.182 * Math.sqrt(means.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 3)) / 2;
  const cell = plain(await page.getByRole('row', { name: /^E2E/ }).getByRole('cell').nth(1).textContent());
  assert.equal(cell, `${time(mean)} ±${time(half)}`);
  await accessible(page);
  await close(page);
});
