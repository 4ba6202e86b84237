// SPDX-License-Identifier: Apache-2.0
// Sessions, traces and runs: search, order, filters, selection, labels, and who may delete.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, api, close, data, open } from './page.mjs';

const bodyRows = (page, table) => page.getByRole('table', { name: table }).getByRole('row').filter({ has: page.getByRole('checkbox') });

test('traces can be searched, sorted and opened', async () => {
  const page = await open('/traces');
  const rows = bodyRows(page, 'Traces');
  await rows.first().waitFor();
  await page.getByRole('searchbox').fill(`rank3.pt ${data.imported}`);
  await page.getByRole('status').getByText('1 trace', { exact: true }).waitFor();
  assert.equal(await rows.count(), 1);
  await rows.getByText('rank3.pt.trace.json.gz').waitFor();
  await page.getByRole('searchbox').fill('');
  await page.getByRole('columnheader', { name: 'Size' }).getByRole('button').click();
  await page.waitForURL(/sort=-size/);
  await page.getByRole('columnheader', { name: 'Size', description: '' }).waitFor();
  assert.equal(await page.getByRole('columnheader', { name: 'Size' }).getAttribute('aria-sort'), 'descending');
  await accessible(page);
  await page.getByRole('link', { name: data.ranks[0], exact: true }).click();
  await page.waitForURL(new RegExp(`#/traces/${data.ranks[0]}$`));
  await page.goBack();
  await page.getByRole('heading', { name: 'Traces' }).waitFor();
  await close(page);
});

test('files of one name have the directory that they came from', async () => {
  const page = await open('/traces?search=rank0.pt.trace');
  for (const [trace, folder] of [[data.ranks[0], 'lightllm_decode_8rank/'], [data.late[0], 'torchrec_sst4_4rank/']]) {
    const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: trace, exact: true }) });
    await row.getByText(folder, { exact: true }).waitFor();
  }
  await close(page);
});

test('names and labels are text', async () => {
  const page = await open('/traces?search=onerror');
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  await page.getByRole('link', { name: 'origin=<b>somewhere</b>' }).click();
  await page.waitForURL(/label=origin/);
  assert.equal(await page.locator('td img, td b b').count(), 0);
  await close(page);
});

test('the list of sessions works with the keyboard alone', async () => {
  const page = await open('/');
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await bodyRows(page, 'Sessions').first().waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('x');
  await page.getByRole('toolbar', { name: 'Selection' }).getByText('1 selected').waitFor();
  await page.keyboard.press('p');
  await page.getByText('1 session pinned').waitFor();
  await page.getByText('pinned', { exact: true }).first().waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  await page.keyboard.press('p');
  await page.getByText('1 session unpinned').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('nightly');
  await page.getByRole('status').getByText('1 session', { exact: true }).waitFor();
  await page.keyboard.press('Enter');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`#/sessions/${data.recorded}$`));
  await close(page);
});

test('labels can be changed', async () => {
  const page = await open('/sessions?search=lightllm');
  await bodyRows(page, 'Sessions').first().waitFor();
  await page.getByRole('checkbox', { name: `Select ${data.imported}` }).check();
  await page.getByRole('button', { name: 'Labels' }).click();
  const dialog = page.getByRole('dialog', { name: 'Labels' });
  await dialog.getByRole('textbox').fill('model=lightllm\nwhat');
  await dialog.getByText('"what" is not KEY=VALUE').waitFor();
  await dialog.getByRole('textbox').fill('model=lightllm');
  await accessible(page);
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('link', { name: 'model=lightllm' }).waitFor();
  await close(page);
});

test('a trace is downloaded', async () => {
  const page = await open('/traces?search=rank3.pt');
  await bodyRows(page, 'Traces').first().waitFor();
  await page.keyboard.press('j');
  const [file] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('d')]);
  assert.match(file.suggestedFilename(), /rank3\.pt\.trace\.json\.gz$/);
  await close(page);
});

test('only an admin can delete', async () => {
  for (const role of ['read', 'operate', 'admin']) {
    const page = await open('/traces', { role });
    await bodyRows(page, 'Traces').first().getByRole('checkbox').check();
    const bar = page.getByRole('toolbar', { name: 'Selection' });
    await bar.waitFor();
    assert.equal(await bar.getByRole('button', { name: 'Delete' }).count(), role === 'admin' ? 1 : 0);
    assert.equal(await bar.getByRole('button', { name: 'Pin' }).count(), role === 'read' ? 0 : 1);
    await close(page);
  }
});

test('runs are listed with their figures', async () => {
  const { runs } = await api('GET', '/v1/runs?limit=1000');
  const page = await open('/runs');
  await page.getByRole('heading', { name: 'Benchmark runs' }).waitFor();
  if (runs.length === 0) await page.getByText('No benchmark run yet').waitFor();
  else await bodyRows(page, 'Benchmark runs').first().waitFor();
  assert.equal(await bodyRows(page, 'Benchmark runs').count(), runs.length);
  const complete = runs.find((run) => run.state === 'complete');
  if (complete) {
    const row = bodyRows(page, 'Benchmark runs').filter({ has: page.getByRole('link', { name: `r${complete.run}`, exact: true }) });
    await row.getByText(/\d\s(ms|us|s)$/).first().waitFor();
    // A percentile of too few requests is not shown, as in the view of the run.
    const titles = await page.getByRole('columnheader').allTextContents();
    assert.ok(complete.requests.success < 100);
    assert.match(await row.getByRole('cell').nth(titles.indexOf('TTFT p50')).textContent(), /\d/);
    assert.equal(await row.getByRole('cell').nth(titles.indexOf('TTFT p99')).textContent(), '');
  }
  await accessible(page);
  await close(page);
});

test('a hundred thousand rows are as many elements as fit', async () => {
  const total = 100_000;
  let requests = 0;
  const page = await open('/sessions');
  await page.route(/\/v1\/traces\?/, (route) => {
    requests++;
    const query = new URL(route.request().url()).searchParams;
    const first = Number(query.get('offset'));
    const traces = Array.from({ length: Math.min(Number(query.get('limit')), total - first) }, (_, i) => ({
      trace: `t${total - first - i}`,
      kind: 'trace',
      state: 'complete',
      name: `rank${i}.json.gz`,
      stored: true,
      size: 1000 * i,
    }));
    return route.fulfill({ json: { traces, total } });
  });
  await page.keyboard.press('g');
  await page.keyboard.press('t');
  await page.getByText('100,000 traces').waitFor();
  await page.getByRole('link', { name: 't100000', exact: true }).waitFor();
  await page.keyboard.press('End');
  await page.getByRole('link', { name: 't1', exact: true }).waitFor();
  assert.ok((await page.locator('tbody tr').count()) < 120);
  // A way through the list with the wheel asks only for what was passed slowly.
  const table = page.getByRole('table', { name: 'Traces' });
  await table.hover();
  const before = await page.evaluate(() => performance.now());
  for (let i = 0; i < 60; i++) await page.mouse.wheel(0, -40_000);
  await page.keyboard.press('Home');
  await page.getByRole('link', { name: 't100000', exact: true }).waitFor();
  const took = (await page.evaluate(() => performance.now())) - before;
  console.log(`# ${requests} requests, ${Math.round(took)} ms for 60 turns of the wheel`);
  assert.ok(requests < 150, `${requests} requests`);
  assert.equal(await table.getAttribute('aria-rowcount'), String(total + 1));
  await close(page);
});
