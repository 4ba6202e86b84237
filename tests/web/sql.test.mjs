// SPDX-License-Identifier: Apache-2.0
// SQL: rows are those of the API, a statement can be cancelled, names complete, and the query stays in the fragment.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { accessible, api, close, data, open } from './page.mjs';

const { memory, hostileNames, names } = data.analysis;
const ENDLESS = 'with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c';

async function editor(page, sql) {
  const field = page.getByRole('textbox', { name: 'SQL statement' });
  await field.fill(sql);
  return field;
}
const rowsOf = (page) => page.getByRole('table', { name: 'Rows' }).getByRole('row');

test('a statement returns the rows that the API returns, as a table, a chart and CSV', async () => {
  const page = await open(`/sql?trace=${memory}`);
  const urls = [];
  page.on('request', (request) => urls.push(request.url()));
  const sql = "select name, count(*) as n, sum(dur) as sum_ns from slice where category = 'kernel' group by name order by 3 desc limit 15";
  const expected = await api('POST', `/v1/traces/${memory}/query`, { sql });
  await editor(page, sql);
  await page.keyboard.press('Control+Enter');
  await page.getByRole('status').getByText(/^15 rows in/).waitFor();
  for (const [i, row] of expected.rows.entries()) {
    assert.deepEqual(await rowsOf(page).nth(i + 1).getByRole('cell').allTextContents(), row.map(String));
  }
  assert.ok(urls.every((url) => !url.includes('select')), 'no log of a server has the statement');
  assert.equal(new URLSearchParams(page.url().split('?')[1]).get('q'), sql);
  await accessible(page);

  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()]);
  const csv = readFileSync(await file.path(), 'utf8').split('\n');
  assert.equal(csv[0], 'name,n,sum_ns');
  assert.equal(csv.length, 17);
  await page.getByRole('button', { name: 'Chart' }).click();
  const bars = page.getByRole('list', { name: 'sum_ns by name' }).getByRole('listitem');
  assert.equal(await bars.count(), 15);
  await page.getByLabel('Chart by').selectOption('n');
  await page.getByRole('figure', { name: 'sum_ns by n' }).waitFor();

  // Another tab gets the same statement from the address.
  await page.reload();
  assert.equal(await page.getByRole('textbox', { name: 'SQL statement' }).inputValue(), sql);
  await close(page);
});

test('a statement without an end is cancelled, and its limit is shown', async () => {
  const page = await open(`/sql?trace=${memory}`);
  await editor(page, "select 'earlier' as answer");
  await page.keyboard.press('Control+Enter');
  await page.getByRole('cell', { name: 'earlier' }).waitFor();
  await editor(page, ENDLESS);
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByRole('status').getByText(/of 60 s/).waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByText('Cancelled.').waitFor();
  // Rows of an earlier statement are none of this one.
  assert.equal(await page.getByRole('cell', { name: 'earlier' }).count(), 0);
  // The next one is not in its way.
  await editor(page, 'select 41 + 1 as answer');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('cell', { name: '42' }).waitFor();
  // Nor are those of one trace of another.
  await page.evaluate((trace) => (location.hash = `#/sql?trace=${trace}`), data.analysis.training);
  await page.getByRole('cell', { name: '42' }).waitFor({ state: 'hidden' });
  await close(page);
});

test('a mistake has its remedy, and what writes is refused', async () => {
  const page = await open(`/sql?trace=${memory}`);
  await editor(page, 'select nope from kernel');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('alert').getByText('no such column: nope').waitFor();
  await page.getByRole('alert').getByText(/docs\/sql.md/).waitFor();
  for (const sql of ['delete from slice', "attach 'x' as y", 'select 1; select 2', 'pragma writable_schema = 1']) {
    await editor(page, sql);
    await page.keyboard.press('Control+Enter');
    await page.getByRole('alert').waitFor();
  }
  await close(page);
});

test('rows beyond the limit are counted out, and integers keep their digits', async () => {
  const page = await open(`/sql?trace=${memory}`);
  await editor(page, 'select id, 1752839461731456483 as large from slice');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('status').getByText('1,000 rows').waitFor();
  await page.getByText('the limit was reached, there are more').waitFor();
  await page.getByRole('cell', { name: '1752839461731456483' }).first().waitFor();
  await page.getByLabel('Rows at most').selectOption('10000');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByRole('status').getByText('10,000 rows').waitFor();
  assert.ok((await rowsOf(page).count()) < 100, 'only rows in view are elements');
  await close(page);
});

test('names of tables and columns complete what is typed, with the keyboard alone', async () => {
  const page = await open(`/sql?trace=${memory}`);
  await page.getByRole('complementary', { name: 'Tables' }).getByText('report_steps').waitFor();
  const field = await editor(page, '');
  await field.focus();
  await page.keyboard.type('select * from ker');
  const list = page.getByRole('listbox', { name: 'Names' });
  await list.getByRole('option', { name: /^kernel/ }).waitFor();
  await page.keyboard.press('Enter');
  assert.equal(await field.inputValue(), 'select * from kernel');
  await page.keyboard.type(' where occ');
  await list.getByRole('option', { name: /^occupancy/ }).waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await field.inputValue(), 'select * from kernel where occupancy');
  await page.keyboard.type(" = 'occ");
  assert.equal(await list.isVisible(), false, 'not within a text');
  await page.getByRole('searchbox', { name: 'Search tables and columns' }).fill('occupancy');
  await page.getByRole('complementary').getByRole('button', { name: 'occupancy' }).waitFor();
  await close(page);
});

test('hostile values are text', async () => {
  const page = await open(`/sql?trace=${hostileNames}`);
  page.on('dialog', (dialog) => page.faults.push(dialog.message()));
  await editor(page, "select name, count(*) as n, '<img src=y onerror=alert(9)>' as \"<b>bold</b>\" from kernel group by name");
  await page.keyboard.press('Control+Enter');
  await page.getByRole('status').getByText(/^\d+ rows/).waitFor();
  for (const name of names.slice(0, 3)) await page.getByRole('cell', { name, exact: true }).waitFor();
  await page.getByRole('button', { name: 'Chart' }).click();
  await page.getByRole('listitem').first().waitFor();
  assert.equal(await page.locator('main img, main b b, main script').count(), 0);
  await close(page);
});
