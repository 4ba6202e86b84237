// SPDX-License-Identifier: Apache-2.0
// All ranks of a session on one clock, and two timelines of a comparison.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, api, close, data, open } from './page.mjs';

const rows = (page) => page.getByRole('list', { name: 'Ranks' }).getByRole('listitem');
const picture = (page) => page.getByRole('img', { name: /^GPU activity/ });

test('every rank of a session has a row, and a click leads to its timeline at that time', async () => {
  const page = await open(`/sessions/${data.imported}/ranks`);
  await rows(page).nth(7).waitFor();
  assert.equal(await rows(page).count(), 8);
  // Loaded: something is drawn in the last row.
  await page.waitForFunction(() => {
    const canvas = document.querySelector('.ranks-rows canvas');
    const g = canvas.getContext('2d');
    const row = g.getImageData(0, canvas.height - 44, canvas.width, 1).data;
    const colors = new Set();
    for (let i = 0; i < row.length; i += 4) colors.add(row[i] * 65536 + row[i + 1] * 256 + row[i + 2]);
    return colors.size > 3;
  });
  await accessible(page);
  const { width } = await picture(page).boundingBox();
  await picture(page).click({ position: { x: width / 2, y: 24 + 3 * 52 + 10 } });
  await page.waitForURL(new RegExp(`#/traces/${data.ranks[3]}/timeline`));
  await page.getByRole('img', { name: /^Timeline of/ }).waitFor();
  await page.goBack();
  await rows(page).nth(7).waitFor();
  await close(page);
});

test('the late rank of a step is marked, and why', async () => {
  const traces = data.late;
  const answer = await api('POST', '/v1/reports', { traces, reports: ['stragglers'], view: { step: 5 }, facts: true });
  const part = answer.parts[0];
  const late = part.rows.map((row) => Object.fromEntries(part.columns.map((name, i) => [name, row[i]]))).sort((a, b) => b.delay_ns - a.delay_ns)[0];
  const page = await open(`/ranks?traces=${traces.join()}&step=5`);
  await rows(page).filter({ hasText: 'late' }).getByText(`rank ${late.rank}`).waitFor();
  // Over all steps, rank 3 is last most often, and rank 2 costs most: the headline agrees with the finding.
  await page.getByText('Rank 2 arrives last at 30 % of the collectives; the other ranks wait 329 ms').waitFor();
  const table = page.getByRole('table', { name: 'Arrival at collectives' });
  await table.getByRole('row').nth(1).getByText(late.meanwhile, { exact: false }).waitFor();
  const matrix = page.getByRole('img', { name: /^Matrix of 4 ranks and 3 steps/ });
  await matrix.focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await page.waitForURL(/step=6/);
  await page.getByText('ProfilerStep#6').first().waitFor();
  await page.getByRole('button', { name: 'Previous step' }).click();
  await page.waitForURL(/step=5/);
  await accessible(page);
  await close(page);
});

test('two timelines of a comparison move together until they are unlinked', async () => {
  const [a, b] = data.late;
  const page = await open(`/compare/timelines?a=${a}&b=${b}`);
  const ranges = page.locator('.pane-range');
  const canvas = page.getByRole('img', { name: `Timeline of ${a}, the first of two` });
  await canvas.waitFor();
  const texts = () => ranges.allTextContents();
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + 300, box.y + 100);
  const before = await texts();
  await page.keyboard.press('w');
  await page.waitForFunction((old) => [...document.querySelectorAll('.pane-range')].every((each, i) => each.textContent !== old[i]), before);
  await page.keyboard.press('l');
  await page.getByRole('button', { name: 'Link', pressed: false }).waitFor();
  const linked = await texts();
  await page.keyboard.press('w');
  await page.waitForFunction((old) => document.querySelector('.pane-range').textContent !== old, linked[0]);
  assert.equal((await texts())[1], linked[1]);
  await accessible(page);
  // Without steps they begin where their traces do, and the reason is shown; columns that were made again are no reason.
  const answers = [{ status: 409, json: { code: 'conflict', detail: 'other columns' } }, { status: 413, json: { code: 'too-large', detail: 'the steps need too much memory' } }];
  await page.route('**/timeline/steps*', (route) => (route.request().url().includes(`/${a}/`) && answers.length > 0 ? route.fulfill(answers.shift()) : route.continue()));
  await page.reload();
  await page.getByRole('alert').getByText('the steps need too much memory').waitFor();
  await canvas.waitFor();
  await page.waitForFunction((aligned) => [...document.querySelectorAll('.pane-range')].every((each, i) => /^0\s/.test(each.textContent) && each.textContent !== aligned[i]), before);
  await close(page);
});
