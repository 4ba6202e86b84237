// SPDX-License-Identifier: Apache-2.0
// Home: live workers, the button that records, and the session that it shows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, api, close, data, open } from './page.mjs';

test('the fleet is live, and one button records it', async () => {
  const page = await open('/');
  const workers = page.getByRole('table', { name: 'Workers' });
  await workers.getByRole('row').nth(data.workers.length).waitFor();
  // What tells workers apart is there in a window of a laptop.
  for (const name of ['State', 'Engine', 'Role', 'Running', 'Waiting', 'KV cache', 'TTFT p50']) await workers.getByRole('columnheader', { name }).waitFor();
  await page.getByRole('region', { name: 'Figures of the fleet' }).getByText('Running requests').waitFor();
  await page.getByRole('region', { name: 'Last session' }).getByRole('link', { name: data.recorded }).waitFor();
  await accessible(page);
  await page.getByRole('spinbutton', { name: 'Length' }).fill('3');
  await page.getByRole('button', { name: `Record all ${data.workers.length}` }).click();
  await page.waitForURL(/#\/sessions\/s\d+$/);
  const session = /s\d+$/.exec(page.url())[0];
  await page.getByRole('progressbar', { name: 'Recorded' }).waitFor();
  const rows = page.getByRole('table', { name: 'Workers of the session' }).getByRole('row');
  assert.equal(await rows.count(), data.workers.length + 1);
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('heading', { name: 'Findings of all ranks' }).waitFor();
  // A square of each rank leads to its trace.
  await rows.nth(1).getByRole('link', { name: '0', exact: true }).waitFor();
  await accessible(page);
  assert.equal((await api('GET', `/v1/sessions/${session}`)).state, 'complete');
  await close(page);
});

test('without a fleet the page asks for a router', async () => {
  const page = await open('/sessions');
  // What profd answers where no router is configured and nothing was recorded.
  await page.route(/\/v1\/fleet\/events$/, (route) =>
    route.fulfill({ status: 400, contentType: 'application/problem+json', body: JSON.stringify({ status: 400, code: 'bad-request', detail: 'no router named' }) }),
  );
  await page.getByRole('link', { name: 'Fleet', exact: true }).click();
  await page.getByRole('textbox', { name: 'URL of a router' }).fill(data.router);
  assert.equal(await page.getByText('no router named').count(), 0);
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByRole('table', { name: 'Workers' }).getByRole('row').nth(data.workers.length).waitFor();
  await accessible(page);
  await close(page);
});

test('some workers can be recorded', async () => {
  const page = await open('/');
  await page.getByRole('checkbox', { name: /^Select / }).first().check();
  await page.getByRole('button', { name: 'Record 1 worker' }).waitFor();
  await close(page);
});

test('a reader sees the fleet and cannot record', async () => {
  const page = await open('/', { role: 'read' });
  await page.getByRole('table', { name: 'Workers' }).getByRole('row').nth(1).waitFor();
  assert.equal(await page.getByRole('button', { name: /^Record/ }).count(), 0);
  await close(page);
});

test('findings of all ranks name what costs most', async () => {
  const page = await open('/sessions/' + data.imported);
  await page.getByText(/^Expert-parallel dispatch\/combine is exposed/).waitFor();
  await page.getByRole('link', { name: 'Show in timeline' }).first().waitFor();
  await page.getByText('Method and remedy').first().click();
  await page.getByText(/overlap two micro-batches/).waitFor();
  await accessible(page);
  await close(page);
});

test('tabs share one stream of events', async () => {
  const page = await open('/');
  await page.getByText('live', { exact: true }).waitFor();
  const second = await page.context().newPage();
  const streams = [];
  second.on('request', (request) => request.url().includes('/events') && streams.push(request.url()));
  const stored = await page.evaluate(() => sessionStorage.getItem('profd:token'));
  await second.addInitScript((token) => sessionStorage.setItem('profd:token', token), stored);
  await second.goto(page.url());
  await second.getByText('live', { exact: true }).waitFor();
  assert.deepEqual(streams, []);
  // The other tab takes over.
  await page.close();
  await second.waitForRequest(/\/v1\/fleet\/events/);
  await second.context().close();
});
