// SPDX-License-Identifier: Apache-2.0
// Comparisons: what is shown is what the API computed, and steps and latencies are those of both sides.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, api, close, data, open } from './page.mjs';

const { before, after, sweep, repeated, hostileNames, names } = data.analysis;
const region = (page, name) => page.getByRole('region', { name, exact: true });
const plain = (text) => text.replaceAll('\u00a0', ' ');
const ms = (ns) => `${ns / 1e6 < 9.95 ? (ns / 1e6).toFixed(1) : Math.round(ns / 1e6)} ms`;
const nearest = (values, q) => [...values].sort((a, b) => a - b)[Math.max(0, Math.ceil(q * values.length) - 1)];

test('two traces: kernels by change, measures, and steps of both', async () => {
  const page = await open(`/compare?a=${before}&b=${after}`);
  const answer = await api('POST', '/v1/compare', { a: { traces: [before] }, b: { traces: [after] }, top: 0 });
  const kernels = region(page, 'Kernels');
  const table = kernels.getByRole('table', { name: 'Kernel by change' });
  await table.getByRole('row').nth(1).waitFor();
  const first = answer.kernels.rows[0];
  const cells = (await table.getByRole('row').nth(1).getByRole('cell').allTextContents()).map(plain);
  assert.equal(cells[0], first.result);
  assert.ok(cells[1].trim().endsWith(first.name.replace(/^void /, '')));
  assert.equal(cells.at(-1), (first.change_ns > 0 ? '+' : first.change_ns < 0 ? '-' : '') + ms(Math.abs(first.change_ns)));
  for (const result of ['new', 'gone']) {
    const n = answer.kernels.rows.filter((row) => row.result === result).length;
    if (n === 0) continue;
    await kernels.getByRole('button', { name: new RegExp(`^${result} ${n}$`, 'i') }).click();
    assert.ok((await table.getByRole('row').nth(1).getByRole('cell').first().textContent()) === result);
  }
  for (const row of answer.measures.rows) await region(page, 'Measures').getByRole('cell', { name: new RegExp(`^${row.measure}( outliers)?$`) }).waitFor();

  const steps = region(page, 'Steps');
  await steps.getByRole('figure').first().waitFor();
  for (const trace of [before, after]) {
    const { rows } = await api('POST', `/v1/traces/${trace}/query`, { sql: 'select dur_ns from report_steps where dur_ns is not null' });
    const durations = rows.map(([ns]) => ns);
    assert.ok(plain(await steps.textContent()).includes(`${trace}: ${durations.length} steps, p50 ${ms(nearest(durations, 0.5))}`));
  }
  await region(page, 'Flame graph').getByRole('table', { name: 'Names by change' }).getByRole('row').nth(1).waitFor();
  await accessible(page);
  await page.getByRole('link', { name: 'Both timelines' }).click();
  await page.waitForURL(/#\/compare\/timelines/);
  await close(page);
});

test('changes that come from outlier steps are marked, and only these', async () => {
  const page = await open(`/compare?a=${before}&b=${after}`);
  const answer = await api('POST', '/v1/compare', { a: { traces: [before] }, b: { traces: [after] }, top: 0 });
  assert.equal(answer.step.a.outliers, 1);
  const kernels = region(page, 'Kernels');
  await kernels.getByText(`1 of ${answer.step.a.steps} before, ${answer.step.b.outliers} of ${answer.step.b.steps} after`).waitFor();
  const shown = answer.kernels.rows.slice(0, 20).filter((row) => Math.abs(row.outliers_ns) > Math.abs(row.change_ns) / 2);
  assert.ok(shown.length > 0 && shown.length < 20);
  for (const [i, row] of answer.kernels.rows.slice(0, 20).entries()) {
    const cells = kernels.getByRole('table').getByRole('row').nth(i + 1);
    assert.equal(await cells.locator('.of-outliers').count(), shown.includes(row) ? 1 : 0, row.name);
  }
  await page.goto(page.url().replace(/#.*/, `#/compare?a=${data.steps}&b=${data.steps}`));
  await kernels.getByText('Times are per step.').waitFor();
  await kernels.getByRole('table').getByRole('row').nth(1).waitFor();
  await page.locator('.of-outliers').first().waitFor({ state: 'detached' });
  await close(page);
});

test('a differential flame graph has the times of both sides', async () => {
  const page = await open(`/compare?a=${before}&b=${after}&by=host`);
  const panel = region(page, 'Flame graph');
  await panel.getByRole('application').waitFor();
  const sums = await Promise.all(
    [before, after].map(async (trace) => (await api('GET', `/v1/traces/${trace}/flame?by=host`)).nodes.reduce((sum, node) => sum + (node[0] < 0 ? node[2] : 0), 0)),
  );
  const text = plain(await panel.locator('#icicle-chosen').textContent());
  const time = (ns) => (ns < 1e9 ? ms(ns) : `${(ns / 1e9).toFixed(1)} s`);
  assert.equal(text, `all: ${time(sums[1])}, before ${time(sums[0])}. Click a frame to zoom.`);
  await close(page);
});

test('sides are picked with words and the keyboard, and swapped', async () => {
  const page = await open('/compare');
  await page.getByText('Choose two traces').waitFor();
  const first = page.getByRole('combobox', { name: 'Before' });
  await first.fill(before);
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`a=${before}`));
  const second = page.getByRole('combobox', { name: 'After' });
  await second.focus();
  await page.getByRole('listbox', { name: 'Suggestions for After' }).getByRole('option').first().waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForURL(/b=[ts]\d+/);
  await second.fill(after);
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`b=${after}`));
  await page.getByRole('button', { name: 'Swap both sides' }).click();
  await page.waitForURL(new RegExp(`a=${after}&b=${before}`));
  await page.goto(page.url().replace(/#.*/, `#/compare?a=${before}&b=${repeated[0]}`));
  await page.getByRole('alert').getByText('Benchmark runs can be compared with benchmark runs only.').waitFor();
  await close(page);
});

test('two groups of runs: figures with their results, and latencies of both', async () => {
  const [a, b] = [repeated.slice(0, 2), repeated.slice(2)];
  const page = await open(`/compare?a=${a}&b=${b}`);
  const answer = await api('POST', '/v1/compare', { a: { runs: a }, b: { runs: b } });
  const table = region(page, 'Figures').getByRole('table');
  await table.getByRole('row').nth(1).waitFor();
  for (const metric of answer.latency.filter((one) => one.metric === 'e2e_ms')) {
    const cells = (await table.getByRole('row', { name: /^e2e\.mean/ }).getByRole('cell').allTextContents()).map(plain);
    assert.equal(Number.parseFloat(cells[1]), Number(metric.figures.find((one) => one.figure === 'mean').a.toPrecision(3)));
    assert.equal(cells[6], metric.result);
  }
  await region(page, 'Latency').getByRole('figure').first().waitFor();
  await accessible(page);
  await page.goto(page.url().replace(/#.*/, `#/compare?a=${sweep[0]}&b=${sweep[2]}`));
  await page.getByRole('note').getByText('The workloads differ').waitFor();
  await close(page);
});

test('hostile names are text', async () => {
  const page = await open(`/compare?a=${before}&b=${hostileNames}`);
  page.on('dialog', (dialog) => page.faults.push(dialog.message()));
  await region(page, 'Kernels').getByRole('button', { name: /^New/ }).click();
  await region(page, 'Kernels').getByText(names[0]).waitFor();
  assert.equal(await page.locator('main img, main script, main svg[onload]').count(), 0);
  await close(page);
});
