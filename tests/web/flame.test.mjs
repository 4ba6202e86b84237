// SPDX-License-Identifier: Apache-2.0
// Flame graphs: search, zoom and keys, and times that are those of the trace.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { accessible, api, close, data, open } from './page.mjs';

const { memory, hostileNames, names } = data.analysis;
const plain = (text) => text.replaceAll('\u00a0', ' ');
const graph = (page) => page.getByRole('application', { name: /^Flame graph/ });

test('the times of a flame graph are those of the trace, and a search has its share', async () => {
  const page = await open(`/traces/${memory}/flame?by=gpu`);
  await graph(page).waitFor();
  const answer = await api('GET', `/v1/traces/${memory}/flame?by=gpu`);
  const all = answer.nodes.reduce((sum, node) => sum + (node[0] < 0 ? node[2] : 0), 0);
  const { rows } = await api('POST', `/v1/traces/${memory}/query`, { sql: "select sum(dur) from slice where category in ('kernel', 'gpu_memcpy', 'gpu_memset')" });
  assert.equal(all, rows[0][0], 'every GPU event is in it once');
  const table = page.getByRole('table', { name: 'Names by self time' });
  await table.getByRole('row').nth(1).waitFor();

  // Of matches within matches, only the outermost counts.
  const matches = answer.names.map((name) => name.toLowerCase().includes('linear'));
  const covered = [];
  let matched = 0;
  answer.nodes.forEach(([parent, name, total], i) => {
    const above = parent >= 0 && covered[parent];
    if (matches[name] && !above) matched += total;
    covered[i] = above || matches[name];
  });
  await page.keyboard.press('/');
  await page.keyboard.type('Linear');
  const status = page.getByRole('status').getByText(/matched/);
  await status.waitFor();
  const share = (100 * matched) / all;
  assert.ok(plain(await page.getByRole('status').first().textContent()).startsWith(`${share < 9.95 ? share.toFixed(1) : share.toFixed(0)} % matched`));
  await accessible(page);
  await close(page);
});

test('frames are chosen and zoomed with the keyboard, and the address has the place', async () => {
  const page = await open(`/traces/${memory}/flame?by=host`);
  await graph(page).focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  const chosen = page.locator('#icicle-chosen strong');
  const name = await chosen.textContent();
  await page.keyboard.press('Enter');
  await page.waitForURL(/frame=\d+/);
  assert.equal(await page.getByRole('navigation', { name: 'Path' }).locator('b').textContent(), name);
  await page.reload();
  assert.equal(await page.getByRole('navigation', { name: 'Path' }).locator('b').textContent(), name);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !location.hash.includes('frame='));
  await page.keyboard.press('b');
  await page.waitForURL(/by=gpu/);
  await close(page);
});

test('a click zooms, and the table leads to a frame', async () => {
  const page = await open(`/traces/${memory}/flame?by=host`);
  const box = await graph(page).boundingBox();
  await page.mouse.click(box.x + 20, box.y + 2 * 19 + 8);
  await page.waitForURL(/frame=\d+/);
  await page.goBack();
  await page.waitForFunction(() => !location.hash.includes('frame='));
  await page.getByRole('table', { name: 'Names by self time' }).getByRole('row').nth(3).click();
  await page.waitForURL(/frame=\d+/);
  await close(page);
});

test('callers and callees of a name, from all of its frames', async () => {
  const answer = await api('GET', `/v1/traces/${memory}/flame?by=gpu`);
  const page = await open(`/traces/${memory}/flame?by=gpu`);
  // The kernel with most time: all of it is its own.
  await page.getByRole('table', { name: 'Names by self time' }).getByRole('row').nth(1).click();
  const name = await page.locator('#icicle-chosen strong').getAttribute('title');
  await page.getByRole('button', { name: 'Callers' }).click();
  await page.waitForURL(/side=callers/);
  const total = answer.nodes.reduce((sum, [, number, time]) => sum + (answer.names[number] === name ? time : 0), 0);
  await page.getByText(`all: ${(total / 1e6).toFixed(total < 9.95e6 ? 1 : 0)} ms. Click a frame to zoom.`).waitFor();
  const [above] = answer.nodes.find(([parent, number]) => parent >= 0 && answer.names[number] === name);
  await page.getByRole('table').getByTitle(answer.names[answer.nodes[above][1]], { exact: true }).waitFor();
  await accessible(page);
  // What is shown is saved: as a picture, and as stacks that add up to the same.
  const [picture] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'PNG' }).click()]);
  assert.deepEqual([...readFileSync(await picture.path()).subarray(1, 4)], [...Buffer.from('PNG')]);
  const [stacks] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Stacks' }).click()]);
  assert.equal(stacks.suggestedFilename(), `${memory}-callers.folded`);
  const lines = readFileSync(await stacks.path(), 'utf8').trim().split('\n');
  assert.equal(lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0), total);
  await page.getByRole('button', { name: 'Show callees' }).click();
  await page.waitForURL(/side=callees/);
  await page.getByRole('button', { name: 'Show all names' }).click();
  await page.waitForFunction(() => !location.hash.includes('side='));
  await page.goBack();
  await page.waitForURL(/side=callees/);
  await close(page);
});

test('hostile names are text', async () => {
  const page = await open(`/traces/${hostileNames}/flame`);
  page.on('dialog', (dialog) => page.faults.push(dialog.message()));
  await page.getByRole('table').getByText(names[0]).waitFor();
  const box = await graph(page).boundingBox();
  for (let x = 10; x < box.width; x += 60) await page.mouse.move(box.x + x, box.y + 50);
  assert.equal(await page.locator('main img, main script, main svg[onload]').count(), 0);
  await close(page);
});
