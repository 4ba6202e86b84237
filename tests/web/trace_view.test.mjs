// SPDX-License-Identifier: Apache-2.0
// One trace: findings first, and figures that are those of an independent computation over the rows of its tables.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, api, close, data, open } from './page.mjs';

const { training, steps: many, memory, cpu, hostileNames, names } = data.analysis;

const query = async (trace, sql) => (await api('POST', `/v1/traces/${trace}/query`, { sql })).rows;
const region = (page, name) => page.getByRole('region', { name, exact: true });
const plain = (text) => text.replaceAll('\u00a0', ' ');
// By their names since torch 1.9 and before.
const GPU = "('kernel', 'gpu_memcpy', 'gpu_memset', 'Kernel', 'Memcpy', 'Memset')";
// "159 ms", "4.4 ms", written for this test.
const ms = (ns) => `${ns / 1e6 < 9.95 ? (ns / 1e6).toFixed(1) : Math.round(ns / 1e6)} ms`;

// The time in which any of the intervals is open.
function union(rows) {
  let [sum, end] = [0, -Infinity];
  for (const [ts, dur] of [...rows].sort((a, b) => a[0] - b[0])) {
    sum += Math.max(0, ts + dur - Math.max(ts, end));
    end = Math.max(end, ts + dur);
  }
  return sum;
}

test('findings come first, with cost, method, and their place in the timeline', async () => {
  const page = await open(`/traces/${training}`);
  const findings = region(page, 'Findings');
  await findings.getByRole('listitem').first().waitFor();
  assert.equal(await page.getByRole('region').first().getAttribute('aria-label'), 'Findings');
  const report = await api('GET', `/v1/traces/${training}/reports/findings`);
  const rows = report.rows.map((cells) => Object.fromEntries(report.columns.map((name, i) => [name, cells[i]])));
  const costly = rows.filter((row) => row.cost_ns !== null);
  assert.equal(await findings.locator('ol > li').count(), costly.length);
  assert.equal(await findings.locator('ul > li').count(), rows.length - costly.length);
  const first = findings.locator('ol > li').first();
  await first.getByText(costly[0].what).waitFor();
  assert.ok(plain(await first.textContent()).includes(ms(costly[0].cost_ns)));
  await first.getByRole('button', { name: 'Method' }).click();
  await first.getByText(costly[0].evidence).waitFor();
  await first.getByText(costly[0].advice).waitFor();
  await first.getByText(costly[0].ground).waitFor();
  await accessible(page);

  await first.getByRole('link', { name: costly[0].report, exact: true }).waitFor();
  assert.doesNotMatch(await findings.textContent(), /profctl|--step|--from/, 'what the page says can be done in the page');

  // "longest: 245.451 ms to 247.397 ms, Memcpy HtoD ...": the window holds it, and the copy itself is selected.
  const at = costly.findIndex((row) => row.rule === 'pageable_copy');
  const { at_start_ns: from, at_end_ns: to, at_slice: slice, where } = costly[at];
  const link = findings.locator('ol > li').nth(at).getByRole('link', { name: 'Show in timeline' });
  const place = new URLSearchParams((await link.getAttribute('href')).split('?')[1]);
  assert.ok(Number(place.get('from')) <= from && Number(place.get('to')) >= to);
  assert.equal(Number(place.get('slice')), slice);
  const [[name, dur]] = await query(training, `select name, dur from slice where id = ${slice}`);
  assert.ok(where.endsWith(name));
  assert.equal(dur, to - from);
  await link.click();
  await page.waitForURL(new RegExp(`#/traces/${training}/timeline\\?.*slice=${place.get('slice')}`));
  await close(page);
});

test("the GPU's time is that of its events", async () => {
  const page = await open(`/traces/${training}`);
  const gpu = region(page, 'GPU time');
  await gpu.getByText('busy', { exact: false }).first().waitFor();
  const events = await query(training, `select ts, dur from slice where category in ${GPU}`);
  const span = Math.max(...events.map(([ts, dur]) => ts + dur)) - Math.min(...events.map(([ts]) => ts));
  const busy = union(events);
  const text = plain(await gpu.textContent());
  const share = (100 * busy) / span;
  assert.ok(text.includes(`busy ${share.toFixed(0)} %`), text);
  assert.ok(text.includes(`of ${ms(span)}`), text);
  assert.ok(text.includes(`(${ms(span - busy)})`), 'idle time');
  const bar = gpu.getByRole('figure', { name: /^GPU time:/ });
  assert.match(plain(await bar.getAttribute('aria-label')), /Computing \d+ % .*Copies alone .*Idle/);
  await close(page);
});

test('kernels have their counts and sums, and all of them can be shown', async () => {
  const page = await open(`/traces/${training}`);
  const kernels = region(page, 'Kernels');
  const table = kernels.getByRole('table', { name: 'Kernels by time' });
  await table.getByRole('row').nth(1).waitFor();
  const expected = await query(
    training,
    `select name, count(*), sum(dur), max(dur) from slice where category in ${GPU} group by name order by 3 desc limit 10`,
  );
  for (const [i, [name, count, sum]] of expected.entries()) {
    const cells = (await table.getByRole('row').nth(i + 1).getByRole('cell').allTextContents()).map((text) => plain(text).trim());
    assert.ok(cells[0].endsWith(name.replace(/^void /, '')), cells[0]);
    assert.equal(cells[2], count.toLocaleString('en-US'));
    assert.equal(cells[6], ms(sum), name);
  }
  const [all] = await query(training, `select count(distinct name) from slice where category in ${GPU}`);
  await kernels.getByRole('button', { name: /^All \d+ kernels/ }).click();
  assert.ok(Math.abs(Number(await table.getAttribute('aria-rowcount')) - 1 - all[0]) <= 2, 'names that are the same once demangled are one');
  await close(page);
});

test('steps are a strip that keys move in, and a table', async () => {
  const page = await open(`/traces/${many}`);
  const steps = region(page, 'Steps');
  const strip = steps.getByRole('slider', { name: 'Steps' });
  const rows = await query(many, 'select "index", name, start_ns, dur_ns, outlier from report_steps order by start_ns');
  await strip.focus();
  await page.keyboard.press('ArrowRight');
  assert.equal((await strip.getAttribute('aria-valuetext')).split(', ')[0], `${rows[0][1] ?? 'step'} (${rows[0][0]})`);
  await page.keyboard.press('End');
  assert.ok((await strip.getAttribute('aria-valuetext')).startsWith(`${rows.at(-1)[1] ?? 'step'} (${rows.at(-1)[0]}), `));
  const outliers = rows.filter((row) => row[4] !== null).length;
  assert.ok(plain(await steps.textContent()).includes(`${rows.length} steps`));
  assert.ok(plain(await steps.textContent()).includes(`${outliers} outliers`));
  await steps.getByText('Table', { exact: true }).click();
  assert.equal(await steps.getByRole('table').getAttribute('aria-rowcount'), String(rows.length + 1));
  await strip.focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/timeline\?from=\d+/);
  const place = new URLSearchParams(page.url().split('?')[1]);
  assert.ok(Number(place.get('from')) <= rows[0][2] && Number(place.get('to')) >= rows[0][2] + rows[0][3]);
  await page.goBack();
  await region(page, 'Findings').waitFor();
  await close(page);
});

test('memory over time has its peak', async () => {
  const page = await open(`/traces/${memory}`);
  const panel = region(page, 'Memory');
  await panel.getByRole('figure', { name: 'Memory of cuda:0 over time' }).waitFor();
  const [[peak]] = await query(memory, 'select max(total_allocated) from memory where device_type = 1');
  const gib = `${(peak / 2 ** 30).toFixed(1)} GiB`;
  assert.ok(plain(await panel.textContent()).includes(`peak ${gib}`));
  await panel.getByText('Table', { exact: true }).click();
  const cells = await panel.getByRole('table').getByRole('cell').allTextContents();
  assert.ok(cells.length > 30);
  await accessible(page);
  await close(page);
});

test('a trace without a GPU says so, and one that is compared leads there', async () => {
  const page = await open(`/traces/${cpu}`);
  await region(page, 'Kernels').getByText('The trace has no events for this.').waitFor();
  assert.equal(await region(page, 'Memory').count(), 0);
  await page.getByRole('link', { name: 'Compare…' }).click();
  await page.waitForURL(new RegExp(`#/compare\\?a=${cpu}`));
  await close(page);
});

test('a file is downloaded through an address that works once', async () => {
  const page = await open(`/traces/${training}`);
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download' }).click()]);
  assert.match(file.suggestedFilename(), /resnet50_2021_workers0\.json\.gz/);
  await close(page);
});

test('hostile names are text', async () => {
  const page = await open(`/traces/${hostileNames}`);
  page.on('dialog', (dialog) => page.faults.push(dialog.message()));
  const kernels = region(page, 'Kernels');
  for (const name of names.slice(0, 4)) await kernels.getByText(name).first().waitFor();
  await region(page, 'Steps').getByRole('slider').waitFor();
  assert.equal(await page.locator('main img, main script, main svg[onload]').count(), 0);
  await close(page);
});
