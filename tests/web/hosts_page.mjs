// SPDX-License-Identifier: Apache-2.0
// The page where traces are on several hosts: test_hosts_page.py starts two of them, and runs this at the one that coordinates
// a session, and at the other one while the first is away (`data.away`, its name).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, api, close, data, open as openPage } from './page.mjs';

const open = (path) => openPage(path, { context: { ignoreHTTPSErrors: true } });
const region = (page, name) => page.getByRole('region', { name, exact: true });
const here = { skip: Boolean(data.away) };
const away = { skip: !data.away };

test('ranks of one engine on two hosts are compared with each other', here, async () => {
  const page = await open(`/sessions/${data.split}/ranks`);
  const rows = page.getByRole('list', { name: 'Ranks' }).getByRole('listitem');
  await rows.nth(1).waitFor();
  assert.match((await rows.allTextContents()).join(' '), /gpu1.*gpu2|gpu2.*gpu1/);
  await page.getByText('clocks agree to').waitFor();
  await accessible(page);
  await close(page);
});

test('findings are of all hosts, and the fleet names the host of a worker', here, async () => {
  const page = await open(`/sessions/${data.own}`);
  const findings = region(page, 'Findings');
  await findings.getByText('and 1 other').first().waitFor();
  const { traces } = await api('GET', `/v1/traces?session=${data.own}`);
  assert.equal(new Set(traces.map((trace) => trace.host)).size, 2);
  await page.goto(page.url().replace(/#.*/, '#/'));
  await page.getByRole('columnheader', { name: 'Host' }).waitFor();
  await page.getByRole('cell', { name: 'gpu2', exact: true }).waitFor();
  await close(page);
});

test('timeline and flame graph of a trace of another host', here, async () => {
  const { traces } = await api('GET', `/v1/traces?session=${data.own}`);
  const { trace } = traces.find((each) => each.host === 'gpu2' && each.columns);
  const page = await open(`/traces/${trace}/timeline`);
  await page.getByRole('img', { name: /^Timeline of/ }).waitFor();
  await page.goto(page.url().replace(/#.*/, `#/traces/${trace}/flame?by=host`));
  await page.getByRole('application').waitFor();
  await close(page);
});

test('a session is compared with all of its traces', here, async () => {
  const page = await open(`/compare?a=${data.split}&b=${data.own}`);
  await region(page, 'Kernels').getByRole('table').getByRole('row').nth(1).waitFor();
  const { traces } = await api('GET', `/v1/traces?session=${data.own}`);
  const usable = traces.filter((each) => each.columns);
  await region(page, 'Flame graph').getByText(`The sum of ${usable.length} traces on each side.`).waitFor();
  const sums = await Promise.all(usable.map(async ({ trace }) => (await api('GET', `/v1/traces/${trace}/flame?by=gpu`)).nodes.reduce((sum, node) => sum + (node[0] < 0 ? node[2] : 0), 0)));
  const ms = sums.reduce((sum, each) => sum + each, 0) / 1e6;
  const text = (await page.locator('#icicle-chosen').textContent()).replaceAll('\u00a0', ' ');
  assert.match(text, new RegExp(`^all: ${Math.round(ms)} ms`));
  assert.equal(await page.getByRole('note', { name: 'Missing here' }).count(), 0);
  // A trace against a session: what is in one trace on average.
  await page.goto(page.url().replace(/#.*/, `#/compare?a=${usable[0].trace}&b=${data.own}`));
  await region(page, 'Flame graph').getByText(`The mean of a trace: 1 trace before, ${usable.length} after.`).waitFor();
  await close(page);
});

test('hosts that do not answer are named, and the rest is shown', away, async () => {
  const page = await open(`/sessions/${data.own}`);
  const missing = page.getByRole('note', { name: 'Missing here' });
  const views = [`/sessions/${data.own}`, `/traces?session=${data.own}`, `/sessions/${data.own}/ranks`, `/compare?a=${data.own}&b=${data.own}`];
  for (const view of views) {
    await page.goto(page.url().replace(/#.*/, `#${view}`));
    await missing.first().getByText(`${data.away} did not answer:`).waitFor();
    assert.match(await missing.first().textContent(), /Connection refused|connection refused/);
  }
  await region(page, 'Kernels').getByRole('table').getByRole('row').nth(1).waitFor();
  await accessible(page);
  await close(page);
});
