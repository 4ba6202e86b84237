// SPDX-License-Identifier: Apache-2.0
// Pictures of the views, compared with those in docs/web, which documentation shows. What changes with time and machine
// comes from screen_data.mjs; reports, timelines and statements are profd's own, of real traces.
//
// WEB_PICTURES: the folder of the kept ones; WEB_UPDATE=1 writes them. WEB_FAILED: where a picture that differs is left.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { close, data, factor, open } from './page.mjs';
import { compare, decode, difference, encode } from './pictures.mjs';
import { concurrencyOf, fleetEvents, NOW, placed, recordedSession, requestsOf, RUN, runs, sessions, usage } from './screen_data.mjs';

const { session, ranks, late, before, after, prefill, kernel } = data;
const folder = process.env.WEB_PICTURES;
const failed = process.env.WEB_FAILED;
const isUpdate = process.env.WEB_UPDATE === '1';
const SIZE = { width: 1280, height: 800 };
const NARROW = { width: 390, height: 844 };

// -- Answers ----------------------------------------------------------------------------------------------------------------

// Of a catalog that is not new: ids of traces and sessions are larger in pictures than those of this profd.
const OFFSET = 500;
const SESSION = 's41';
const shown = (id) => `t${OFFSET + Number(id.slice(1))}`;
const toReal = (text) => text.replace(/\bt(5\d\d)\b/g, (_, number) => `t${number - OFFSET}`).replaceAll(SESSION, session);
const toShown = (text) => text.replace(/"t(\d{1,2})"/g, (_, number) => `"t${OFFSET + Number(number)}"`).replaceAll(`"${session}"`, `"${SESSION}"`);

const list = (member, rows) => ({ [member]: rows, total: rows.length, more: false });
const FIXED = [
  [/^\/v1\/sessions\?/, () => list('sessions', sessions(ranks.map(shown)))],
  [/^\/v1\/sessions\/s41$/, () => recordedSession(ranks.map(shown))],
  [/^\/v1\/usage$/, () => usage],
  [/^\/v1\/runs\?/, () => list('runs', runs())],
  [/^\/v1\/runs\/r\d+\/requests/, () => ({ requests: requestsOf(RUN, concurrencyOf(RUN)) })],
  [/^\/v1\/runs\/r\d+$/, () => runs().find((run) => run.run === RUN)],
];

function patched(answer, path) {
  if (path === '/v1/web/me') return { ...answer, user: 'alice', host: 'gpu1', version: '1.0' };
  if (/^\/v1\/traces\?/.test(path)) return { ...answer, traces: answer.traces.map(placed).sort((a, b) => b.recorded_at - a.recorded_at || Number(b.trace.slice(1)) - Number(a.trace.slice(1))) };
  if (/^\/v1\/traces\/t\d+$/.test(path)) return placed(answer);
  return answer;
}

async function answer(route) {
  const request = route.request();
  const url = new URL(request.url());
  const path = url.pathname + url.search;
  // Of the streams of events only one has some; none ends.
  if (url.pathname.endsWith('/events')) {
    if (url.pathname.includes('fleet') && !url.searchParams.has('after')) await route.fulfill({ contentType: 'text/event-stream', body: fleetEvents() });
    return;
  }
  const fixed = request.method() === 'GET' && FIXED.find(([pattern]) => pattern.test(path));
  if (fixed) return route.fulfill({ json: fixed[1]() });
  const body = request.postData();
  const response = await route.fetch({ url: url.origin + toReal(path), ...(body ? { postData: toReal(body) } : {}) });
  if (!response.ok() || !response.headers()['content-type']?.includes('json')) return route.fulfill({ response });
  return route.fulfill({ json: patched(JSON.parse(toShown(await response.text())), path) });
}

// -- The page ---------------------------------------------------------------------------------------------------------------

let page;
const waited = new Set(); // requests in flight

async function opened() {
  const isStream = (request) => new URL(request.url()).pathname.endsWith('/events');
  return open('/sessions', {
    context: { viewport: SIZE, deviceScaleFactor: 1, colorScheme: 'dark', locale: 'en-US', timezoneId: 'UTC' },
    prepare: async (fresh) => {
      fresh.on('request', (request) => isStream(request) || waited.add(request));
      for (const end of ['requestfinished', 'requestfailed']) fresh.on(end, (request) => waited.delete(request));
      await fresh.addInitScript((now) => (Date.now = () => now), NOW / 1e6);
      await fresh.route('**/v1/**', (route) => answer(route).catch(() => {}));
    },
  });
}

// The picture, when nothing is in flight and it no longer changes.
async function taken(name) {
  await page.evaluate(() => document.fonts.ready);
  let last = null;
  for (const end = Date.now() + 20_000 * factor; Date.now() < end; ) {
    const busy = waited.size > 0 || (await page.locator('[aria-busy="true"]').count()) > 0;
    const picture = busy ? null : await page.screenshot({ animations: 'disabled', caret: 'hide', scale: 'css' });
    if (picture && last && picture.equals(last)) return picture;
    last = picture;
    // Drawing, and what a view asks for when it has drawn.
    await page.evaluate(() => new Promise((resolve) => setTimeout(() => requestAnimationFrame(resolve), 120)));
  }
  assert.fail(`${name}: the view never came to rest`);
}

function keep(name, picture) {
  const path = join(folder, `${name}.png`);
  const actual = decode(picture);
  const kept = existsSync(path) ? decode(readFileSync(path)) : null;
  const found = kept ? compare(kept, actual) : { same: false, share: 1, cell: 1, at: [0, 0], mask: null };
  if (isUpdate) {
    if (found.share > 0) {
      mkdirSync(folder, { recursive: true });
      writeFileSync(path, encode(actual));
    }
    return;
  }
  const left = [join(failed, `${name}.png`), join(failed, `${name}-difference.png`)];
  for (const file of left) rmSync(file, { force: true });
  if (found.same) return;
  mkdirSync(failed, { recursive: true });
  writeFileSync(left[0], picture);
  if (kept && found.mask) writeFileSync(left[1], encode(difference(kept, found.mask)));
  const percent = (part) => `${(100 * part).toFixed(2)} %`;
  assert.fail(
    `${name}: ${kept ? `${percent(found.share)} of the pixels differ from docs/web/${name}.png, most around ${found.at.join(', ')} (${percent(found.cell)})` : `no docs/web/${name}.png`}. ` +
      `Look at ${left[0]}${kept ? ' and its -difference.png' : ''}; if this is wanted: ./dev screens`,
  );
}

async function show(path, theme = 'dark', size = SIZE) {
  // Another view in between: each picture begins with a view that is new.
  await page.goto(page.url().replace(/#.*/, '#/nothing'));
  await page.getByText('There is no view at').waitFor();
  await page.setViewportSize(size);
  await page.emulateMedia({ colorScheme: theme });
  await page.mouse.move(size.width / 2, size.height - 1);
  await page.goto(page.url().replace(/#.*/, '#' + path));
}

const worst = 'Expert-parallel dispatch/combine is exposed';
const first = (label) => page.getByRole('table', { name: label }).getByRole('row').nth(1).waitFor();
const figure = (name) => page.getByRole('figure', { name }).first().waitFor();

// A kernel in the middle of the trace that an operator launched, and what is around it.
const WINDOW = { from: 40_200_000, to: 42_700_000 };
const SQL = "select name, count(*) as n, sum(dur) as sum_ns, max(dur) as max_ns\nfrom slice where category = 'kernel'\ngroup by name order by sum_ns desc limit 12";

const VIEWS = {
  fleet: { path: '/', ready: () => page.getByText(worst).waitFor() },
  sessions: { path: '/sessions', ready: () => first('Sessions') },
  session: { path: `/sessions/${SESSION}`, ready: () => page.getByText(worst).waitFor() },
  traces: { path: '/traces', ready: () => first('Traces') },
  trace: { path: `/traces/${shown(prefill)}`, ready: () => first('Kernels by time') },
  timeline: {
    path: `/traces/${shown(prefill)}/timeline?${new URLSearchParams({ ...WINDOW, slice: kernel })}`,
    ready: () => page.getByRole('region', { name: 'Selected slice' }).waitFor(),
  },
  ranks: { path: `/ranks?${new URLSearchParams({ traces: late.map(shown), step: 5 })}`, ready: () => first('Arrival at collectives') },
  flame: { path: `/traces/${shown(prefill)}/flame?by=host`, ready: () => first('Names by self time') },
  compare: { path: `/compare?a=${shown(before)}&b=${shown(after)}`, ready: () => first('Kernel by change') },
  run: { path: `/runs/r${RUN}`, ready: () => figure('Latency over time') },
  sql: {
    path: `/sql?${new URLSearchParams({ trace: shown(prefill), q: SQL })}`,
    ready: async () => {
      await page.getByText('report_steps').waitFor();
      await page.getByRole('button', { name: 'Run' }).click();
      await page.getByRole('button', { name: 'Chart' }).click();
      // How long it took is another time each time.
      await page.getByRole('status').getByText(/rows in/).evaluate((status) => (status.textContent = '12 rows in 9.2\u00a0ms'));
      await page.mouse.move(0, 0);
      await page.evaluate(() => document.activeElement.blur());
    },
  },
};

const PICTURES = [
  ...Object.keys(VIEWS).map((view) => [view, view]),
  ['fleet-light', 'fleet', 'light'],
  ['trace-light', 'trace', 'light'],
  ['timeline-light', 'timeline', 'light'],
  ['session-narrow', 'session', 'dark', NARROW],
];

test('pictures', async (all) => {
  page = await opened();
  for (const [name, view, theme, size] of PICTURES) {
    await all.test(name, async () => {
      await show(VIEWS[view].path, theme, size);
      await VIEWS[view].ready();
      keep(name, await taken(name));
    });
  }
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await close(page);
});
