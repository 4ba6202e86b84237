// SPDX-License-Identifier: Apache-2.0
// The frame of the page: signing in, palette, keys, colours, narrow windows, and what is not there.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, address, api, close, data, open } from './page.mjs';

test('the code leaves the address, and a copied link opens the view again', async () => {
  const page = await open('/sessions?search=lightllm');
  await page.waitForURL(/#\/sessions\?search=lightllm$/);
  await page.reload();
  await page.getByRole('heading', { name: 'Sessions' }).waitFor();
  await page.goBack().catch(() => {});
  assert.doesNotMatch(page.url(), /code=/);
  await close(page);
});

test('without a token the page asks for a code, and goes on to its view', async () => {
  const page = await open('/sessions?search=lightllm', { signIn: false });
  await page.getByText('Open this page with').waitFor();
  await accessible(page);
  const field = page.getByRole('textbox', { name: 'Address or code that profctl web printed' });
  assert.equal(await field.evaluate((element) => element === document.activeElement), true);
  await field.fill('no-code-of-this-profd');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText(/^The code is unknown/).waitFor();
  assert.equal((await page.locator('main').textContent()).match(/60/g).length, 1, 'the page names the limit once');
  const { code } = await api('POST', '/v1/web/codes', { role: 'read' });
  await field.fill(`${address}/#code=${code}`);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Sessions' }).waitFor();
  assert.match(page.url(), /#\/sessions\?search=lightllm$/);
  await page.getByText('read', { exact: true }).waitFor();
  // The palette signs out, which ends the token in profd, too.
  await page.keyboard.press('Control+k');
  await page.keyboard.type('sign out');
  await page.keyboard.press('Enter');
  await page.getByText('Open this page with').waitFor();
  await close(page);
});

test('a link that signs in as somebody else asks before it does', async () => {
  const codeOf = async (role) => (await api('POST', '/v1/web/codes', { role: 'read' }, role)).code;
  const page = await open('/traces');
  const follow = (fragment) => page.evaluate((hash) => void (location.hash = hash), fragment);
  const dialog = page.getByRole('dialog', { name: 'Sign in as another user?' });
  const who = page.locator('.who');
  const mine = await who.textContent();
  const own = await page.evaluate(() => sessionStorage.getItem('profd:token'));

  // A wrong code, and a code of another user, leave the tab as it is.
  await follow('#code=' + 'x'.repeat(43));
  await page.getByRole('status').getByText(/You stay signed in as/).waitFor();
  await follow(`#code=${await codeOf('operate')}&to=/sessions`);
  await dialog.getByText('This link signs in as operate with role read.').waitFor();
  assert.doesNotMatch(page.url(), /code=/);
  await accessible(page);
  const unused = page.waitForRequest((request) => request.method() === 'DELETE');
  await page.keyboard.press('Enter'); // the focus is on what is safe
  assert.equal((await (await unused).response()).status(), 204);
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('heading', { name: 'Sessions', exact: true }).waitFor();
  assert.equal(await who.textContent(), mine);
  assert.equal(await page.evaluate(() => sessionStorage.getItem('profd:token')), own);

  // The same user's next code is not worth a question.
  const { code } = await api('POST', '/v1/web/codes', { role: 'read' });
  await follow(`#code=${code}&to=/runs`);
  await page.getByText('read', { exact: true }).waitFor();
  assert.equal(await dialog.count(), 0);

  // Another tab has no token: the browser remembers who it was.
  const other = await page.context().newPage();
  other.setDefaultTimeout(15000);
  await other.goto(`${address}/#code=${await codeOf('operate')}&to=/traces`);
  const asked = other.getByRole('dialog', { name: 'Sign in as another user?' });
  await asked.getByText('This browser was last signed in as').waitFor();
  await other.keyboard.press('Escape');
  await other.getByText('Open this page with').waitFor();
  assert.equal(await other.evaluate(() => sessionStorage.getItem('profd:token')), null);
  await other.goto(`${address}/#code=${await codeOf('operate')}&to=/traces`);
  await asked.getByRole('button', { name: 'Switch to operate' }).click();
  await other.getByRole('heading', { name: 'Traces', exact: true }).waitFor();
  assert.match(await other.locator('.who').textContent(), /^operate/);
  await other.close();
  await close(page);
});

test('the palette opens anything', async () => {
  const page = await open('/');
  await page.keyboard.press('Control+k');
  const find = page.getByRole('combobox', { name: 'Search everything' });
  await find.fill(data.ranks[2]);
  await page.getByRole('option', { name: `Open trace ${data.ranks[2]}` }).waitFor();
  await accessible(page);
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`#/traces/${data.ranks[2]}$`));
  await page.keyboard.press('Control+k');
  await find.fill('lightllm-decode');
  await page.getByRole('option', { name: new RegExp(`Session ${data.imported}`) }).click();
  await page.waitForURL(new RegExp(`#/sessions/${data.imported}$`));
  await page.keyboard.press('Control+k');
  await find.fill('zzzz');
  await page.getByText('No results.').waitFor();
  await page.keyboard.press('Escape');
  await find.waitFor({ state: 'detached' });
  // What is typed without a pause is all of it in the palette, and a kernel is found in the trace in view.
  await page.goto(`${address}/#/traces/${data.ranks[2]}`);
  await page.getByRole('heading', { name: `Trace ${data.ranks[2]}` }).waitFor();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('gemm');
  assert.equal(await find.inputValue(), 'gemm');
  await page.getByRole('option', { name: `Search for "gemm" in the timeline of ${data.ranks[2]}` }).click();
  await page.getByRole('status').getByText(/^\d.*\sslices,\s/).waitFor();
  assert.match(page.url(), /find=gemm/);
  await close(page);
});

test('keys are listed, and work on layouts without Latin letters', async () => {
  const page = await open('/');
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keys' });
  await dialog.getByText('Search everything').waitFor();
  await accessible(page);
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  for (const [key, code] of [['п', 'KeyG'], ['е', 'KeyT']]) {
    await page.evaluate(([key, code]) => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, code, bubbles: true })), [key, code]);
  }
  await page.getByRole('heading', { name: 'Traces' }).waitFor();
  await close(page);
});

test('every part of the frame is reached with Tab', async () => {
  const page = await open('/traces');
  const reached = [];
  for (let i = 0; i < 16; i++) {
    await page.keyboard.press('Tab');
    reached.push(await page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent));
  }
  for (const name of ['Fleet', 'Traces', 'SQL', 'Keys', 'Search traces']) assert.ok(reached.some((each) => each.includes(name)), `${name} in ${reached}`);
  await close(page);
});

test('dark, light and narrow', async () => {
  for (const colorScheme of ['dark', 'light']) {
    const page = await open('/sessions', { context: { colorScheme, viewport: { width: 380, height: 700 } } });
    await page.getByRole('table', { name: 'Sessions' }).getByRole('row').nth(1).waitFor();
    const [wide, color] = await page.evaluate(() => [document.documentElement.scrollWidth > innerWidth, getComputedStyle(document.body).backgroundColor]);
    assert.equal(wide, false, 'the page scrolls sideways');
    const [red] = /\d+/.exec(color);
    assert.ok(colorScheme === 'dark' ? red < 60 : red > 200, color);
    await accessible(page);
    await page.getByRole('button', { name: /^Colours/ }).click();
    await close(page);
  }
});

test('the palette closes when the address changes', async () => {
  const page = await open('/traces');
  await page.keyboard.press('Control+k');
  const dialog = page.getByRole('dialog', { name: 'Search everything' });
  await dialog.waitFor();
  await page.evaluate(() => {
    location.hash = '#/sessions';
  });
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('heading', { name: 'Sessions', exact: true }).waitFor();
  await close(page);
});

test('an address that is no view', async () => {
  const page = await open('/nowhere');
  await page.getByText('There is no view at /nowhere').waitFor();
  await close(page);
});

test('a session that is not there shows the problem', async () => {
  const page = await open('/sessions/s9999');
  await page.getByRole('alert').getByText(/s9999/).waitFor();
  await close(page);
});

test('the style and the script are of this origin only', async () => {
  const text = await (await fetch(address + '/')).text();
  assert.doesNotMatch(text, /<script>|style=|https?:/);
  assert.ok(await api('GET', '/v1/version'));
});
