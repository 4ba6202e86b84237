// SPDX-License-Identifier: Apache-2.0
// The timeline of a trace: what the canvas shows is compared with what the API says, by pixels and by the table beside it.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, api, close, data, factor, open } from './page.mjs';
import { copyFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const until = async (check, what) => {
  for (const end = Date.now() + 15000 * factor; Date.now() < end; ) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  assert.fail(`never: ${what}`);
};

const trace = data.steps; // steps, operators, kernels with launches
let head;
let steps;
let gpu; // its first GPU track
before(async () => {
  head = await api('GET', `/v1/traces/${trace}/timeline`);
  ({ steps } = await api('GET', `/v1/traces/${trace}/timeline/steps`));
  gpu = head.tracks.find((track) => track.kind === 'gpu');
});

const canvasOf = (page) => page.getByRole('img', { name: /^Timeline of/ });
const query = (page) => new URLSearchParams(page.url().split('?')[1] ?? '');
const spanOf = (page) => Number(query(page).get('to')) - Number(query(page).get('from'));
const sliceOf = (page) => Number(query(page).get('slice'));
const view = (parameters = {}) => `/traces/${trace}/timeline?${new URLSearchParams(parameters)}`;

async function shown(path, more) {
  const page = await open(path, more);
  await canvasOf(page).waitFor();
  // The table follows the picture as soon as all of it is there.
  await page.getByRole('table', { name: /^Slices in view/ }).getByRole('row').nth(1).waitFor();
  if (path.startsWith(`/traces/${trace}/`)) await lanesBegin(page, RULER + STEPS);
  return page;
}

const [RULER, STEPS] = [24, 18]; // heights
// Steps come after the first picture, whose lanes then move down.
const lanesBegin = (page, top) => page.waitForFunction((px) => document.querySelector('.tracks-part')?.style.top === px, `${top}px`);

const pixel = (page, x, y) =>
  canvasOf(page).evaluate((canvas, [px, py]) => {
    const ratio = canvas.width / canvas.clientWidth;
    return [...canvas.getContext('2d').getImageData(Math.round(px * ratio), Math.round(py * ratio), 1, 1).data].slice(0, 3).join();
  }, [x, y]);

// A kernel with a gap before it that can be seen, in the middle of the trace.
async function lonelyKernel() {
  for (let at = Math.floor(head.length_ns / 2); ; ) {
    const slice = await api('GET', `/v1/traces/${trace}/slice?lane=${gpu.lane}&at=${at}&within=1000000000`);
    if (slice.gap_before_ns > slice.dur && slice.dur > 5000 && slice.launch) return slice;
    at = slice.after.begin;
  }
}

// Height of the first band's first lane: below the ruler and the steps.
const FIRST_LANE = RULER + STEPS + 8;

test('a kernel is drawn where it is, and nothing where there is none', async () => {
  const kernel = await lonelyKernel();
  const from = kernel.begin - kernel.dur;
  const page = await shown(view({ from, to: kernel.begin + 2 * kernel.dur }));
  const { width } = await canvasOf(page).boundingBox();
  const background = await pixel(page, width / 6, FIRST_LANE);
  assert.notEqual(await pixel(page, width / 2, FIRST_LANE + 3), background);
  assert.equal(await pixel(page, width / 3 - 4, FIRST_LANE), background);
  assert.notEqual(await pixel(page, width / 3 + 4, FIRST_LANE + 3), background);
  const row = page.getByRole('table', { name: /^Slices in view/ }).getByRole('row').filter({ hasText: gpu.title }).first();
  assert.ok((await row.textContent()).includes(kernel.name));
  await close(page);
});

test('a click shows all about a slice, and its arrows lead to its launch and back', async () => {
  const kernel = await lonelyKernel();
  const page = await shown(view({ from: kernel.begin - kernel.dur, to: kernel.begin + 2 * kernel.dur }));
  const { width } = await canvasOf(page).boundingBox();
  await canvasOf(page).click({ position: { x: width / 2, y: FIRST_LANE } });
  const panel = page.getByRole('region', { name: 'Selected slice' });
  await panel.getByRole('heading', { name: kernel.name }).waitFor();
  const others = (kernel.same.count - 1).toLocaleString('en-US');
  await panel.getByText(`longer than ${Math.round((100 * kernel.same.rank) / (kernel.same.count - 1))} % of the other ${others}`).waitFor();
  await panel.getByText('Gap before').waitFor();
  // The operator that launched it, and what that lies in.
  const around = (await api('GET', `/v1/traces/${trace}/slice?slice=${kernel.launch.slice}`)).parents;
  assert.ok(around.length > 0);
  assert.deepEqual(await panel.locator('div', { has: page.getByRole('heading', { name: 'Launched from' }) }).last().getByRole('listitem').getByRole('button').allTextContents(), around.map((each) => each.name));
  await until(() => sliceOf(page) === kernel.slice, 'the address names the slice');
  await page.keyboard.press('[');
  await panel.getByRole('heading', { name: kernel.launch.name }).waitFor();
  await until(() => sliceOf(page) === kernel.launch.slice, 'the arrow leads to the launch');
  await page.keyboard.press(']');
  await until(() => sliceOf(page) === kernel.slice, 'and back');
  await page.keyboard.press('n');
  await until(() => sliceOf(page) === kernel.same.next.slice, 'the next of the name');
  await page.keyboard.press('p');
  await until(() => sliceOf(page) === kernel.slice, 'the one before');
  await accessible(page);
  await page.keyboard.press('Escape');
  await panel.waitFor({ state: 'hidden' });
  await close(page);
});

test('a link opens exactly what it names', async () => {
  const kernel = await lonelyKernel();
  const page = await shown(view({ from: kernel.begin - 500, to: kernel.begin + 1500, slice: kernel.slice }));
  await page.getByRole('region', { name: 'Selected slice' }).getByRole('heading', { name: kernel.name }).waitFor();
  assert.equal(spanOf(page), 2000);
  await close(page);
});

test('keys zoom from all of the trace to a nanosecond and back', async () => {
  const page = await shown(view());
  for (let i = 0; i < 60; i++) await page.keyboard.press('w');
  await until(() => spanOf(page) <= 1.01 && spanOf(page) > 0, 'a nanosecond');
  await page.keyboard.press('0');
  await until(() => query(page).get('from') === null, 'all of the trace');
  await page.keyboard.press('w');
  await until(() => spanOf(page) > 0, 'a part');
  const from = Number(query(page).get('from'));
  await page.keyboard.press('a');
  await until(() => Number(query(page).get('from')) < from, 'to the left');
  await page.keyboard.press('d');
  await until(() => Math.abs(Number(query(page).get('from')) - from) < 2, 'and to the right');
  await page.keyboard.press('s');
  await until(() => query(page).get('from') === null, 'out again');
  await close(page);
});

test('the second key of a sequence does not zoom', async () => {
  const page = await shown(view());
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.getByRole('heading', { name: 'Sessions', level: 1 }).waitFor();
  await page.goBack();
  await canvasOf(page).waitFor();
  await close(page);
});

test('keys alone go from slice to slice', async () => {
  const page = await shown(view());
  await page.keyboard.press('/');
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab');
    if (await canvasOf(page).evaluate((canvas) => canvas === document.activeElement)) break;
  }
  assert.ok(await canvasOf(page).evaluate((canvas) => canvas === document.activeElement));
  await page.keyboard.press('ArrowRight');
  await until(() => sliceOf(page) > 0, 'the first slice in view');
  const first = await api('GET', `/v1/traces/${trace}/slice?slice=${sliceOf(page)}`);
  assert.equal(first.track, gpu.track);
  await page.keyboard.press('ArrowRight');
  await until(() => sliceOf(page) === first.after.slice, 'the next one of the lane');
  await page.keyboard.press('ArrowLeft');
  await until(() => sliceOf(page) === first.slice, 'the one before');
  await page.keyboard.press('Enter');
  await until(() => spanOf(page) > 0 && spanOf(page) < 2 * first.dur + 10, 'zoomed to it');
  await page.keyboard.press('[');
  await until(() => sliceOf(page) === first.launch.slice, 'its launch');
  const launch = await api('GET', `/v1/traces/${trace}/slice?slice=${first.launch.slice}`);
  await canvasOf(page).focus();
  await page.keyboard.press('ArrowUp');
  await until(() => sliceOf(page) === launch.parents[0].slice, 'the operator around it');
  await close(page);
});

test('a search counts, and goes from hit to hit', async () => {
  const expected = await api('GET', `/v1/traces/${trace}/search?name=conv2d&limit=3`);
  const page = await shown(view());
  await page.keyboard.press('/');
  await page.keyboard.type('conv2d');
  await page.keyboard.press('Enter');
  await page.getByRole('search').getByRole('status').getByText(`${expected.count} slices`).waitFor();
  await until(() => sliceOf(page) === expected.matches[0].slice, 'the first hit, though Enter came before the answer');
  const { begin, dur } = expected.matches[0];
  const { width } = await canvasOf(page).boundingBox();
  await until(() => (dur / spanOf(page)) * width >= 6, 'it is wide enough to be seen');
  assert.ok(Number(query(page).get('from')) <= begin && Number(query(page).get('to')) >= begin + dur);
  await page.keyboard.press('Enter');
  await until(() => sliceOf(page) === expected.matches[1].slice, 'the second');
  await page.getByRole('search').getByRole('status').getByText('2 of').waitFor();
  await page.keyboard.press('Shift+Enter');
  await until(() => sliceOf(page) === expected.matches[0].slice, 'back');
  await until(() => query(page).get('find') === 'conv2d', 'the address has the search');
  // The list has the keys of the picture and of the search, too, all letters in one case.
  await canvasOf(page).focus();
  await page.keyboard.press('?');
  const keys = page.getByRole('dialog', { name: 'Keys' });
  await keys.getByText('Previous or next slice of the lane').waitFor();
  const names = await keys.locator('kbd').allTextContents();
  assert.ok(['PgUp', '←', 'Enter', 'w', 'f'].every((name) => names.includes(name)), names.join());
  assert.ok(!names.some((name) => /^[A-Z]$/.test(name)), names.join());
  await close(page);
});

test('an area has the numbers that profd computes', async () => {
  const step = steps[1];
  const page = await shown(view({ from: step.begin, to: step.end }));
  const { x, y, width } = await canvasOf(page).boundingBox();
  await page.mouse.move(x + 2, y + FIRST_LANE);
  await page.mouse.down();
  await page.mouse.move(x + width / 2, y + FIRST_LANE + 1, { steps: 3 });
  await page.mouse.up();
  const area = page.getByRole('region', { name: 'Selected area' });
  await area.getByText(/busy/).waitFor();
  const slices = Number((await area.getByText(/busy/).textContent()).match(/[\d,]+/)[0].replaceAll(',', ''));
  const span = (step.end - step.begin) / 2;
  const expected = await api('GET', `/v1/traces/${trace}/selection?from=${step.begin}&to=${Math.round(step.begin + span)}&lanes=${gpu.lane}-${gpu.lane}`);
  // Edges snap to slices within a few pixels.
  assert.ok(Math.abs(slices - expected.count) <= 0.05 * expected.count, `${slices} of ${expected.count}`);
  await area.getByRole('table').getByText(expected.rows[0].name).first().waitFor();
  await area.getByRole('columnheader', { name: 'Count' }).getByRole('button').click();
  await accessible(page);
  await close(page);
});

test('a measurement snaps to the edges of slices', async () => {
  const kernel = await lonelyKernel();
  const page = await shown(view({ from: kernel.begin - kernel.dur, to: kernel.begin + 2 * kernel.dur }));
  const { width } = await canvasOf(page).boundingBox();
  await page.keyboard.press('m');
  await page.getByRole('button', { name: 'Measure', pressed: true }).waitFor();
  await canvasOf(page).click({ position: { x: width / 3 + 5, y: FIRST_LANE } });
  await canvasOf(page).click({ position: { x: (2 * width) / 3 - 5, y: FIRST_LANE } });
  const text = kernel.dur < 1e6 ? `${Number((kernel.dur / 1e3).toFixed(3))} us` : `${Number((kernel.dur / 1e6).toFixed(4))} ms`;
  await page.getByRole('status').getByText(`Measured: ${text}`).waitFor();
  await close(page);
});

test('wheel, drag and double click move the window', async () => {
  const page = await shown(view());
  const { x, y, width, height } = await canvasOf(page).boundingBox();
  await page.mouse.move(x + width / 2, y + height - 10);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -400);
  await page.keyboard.up('Control');
  await until(() => spanOf(page) > 0 && spanOf(page) < head.length_ns * 0.7, 'zoomed by the wheel');
  const { from, span } = { from: Number(query(page).get('from')), span: spanOf(page) };
  assert.ok(Math.abs(from + span / 2 - head.length_ns / 2) < 0.01 * head.length_ns, 'around the pointer');
  await page.keyboard.down('Shift');
  await page.mouse.down();
  await page.mouse.move(x + width / 2 - 100, y + height - 10, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up('Shift');
  await until(() => Math.abs(Number(query(page).get('from')) - from - (100 / width) * span) < 0.01 * span, 'dragged');
  await page.mouse.dblclick(x + width / 2, y + height - 10);
  await until(() => spanOf(page) < 0.6 * span, 'zoomed by the double click');
  await close(page);
});

test('two fingers zoom, one moves', async () => {
  const page = await shown(view(), { context: { hasTouch: true, viewport: { width: 420, height: 800 } } });
  const { x, y, width, height } = await canvasOf(page).boundingBox();
  const devtools = await page.context().newCDPSession(page);
  const touch = (type, ...points) => devtools.send('Input.dispatchTouchEvent', { type, touchPoints: points.map((px, id) => ({ x: x + px, y: y + height / 2, id })) });
  await touch('touchStart', width / 2 - 20, width / 2 + 20);
  await touch('touchMove', width / 2 - 40, width / 2 + 40);
  await touch('touchMove', width / 2 - 80, width / 2 + 80);
  await touch('touchEnd');
  await until(() => spanOf(page) > 0 && Math.abs(spanOf(page) - head.length_ns / 4) < 0.05 * head.length_ns, 'four times as large');
  const from = Number(query(page).get('from'));
  await touch('touchStart', width / 2);
  await touch('touchMove', width / 2 + 30);
  await touch('touchMove', width / 2 + 60);
  await touch('touchEnd');
  await until(() => Number(query(page).get('from')) < from, 'moved');
  await accessible(page);
  await close(page);
});

test('tracks are folded, pinned, moved and hidden, and stay so', async () => {
  const page = await shown(view());
  const thread = head.tracks.find((track) => track.kind === 'thread' && track.lanes > 3);
  const fold = () => page.getByRole('button', { name: `Fold ${thread.title}` });
  await fold().first().click();
  await page.getByRole('button', { name: `Open ${thread.title}` }).first().waitFor();
  await page.getByRole('button', { name: `Pin ${thread.title}` }).first().click();
  await page.getByRole('button', { name: 'Hide instants' }).click();
  await page.getByRole('button', { name: 'Show 1 hidden' }).waitFor();
  await page.reload();
  await page.getByRole('button', { name: `Pin ${thread.title}`, pressed: true }).first().waitFor();
  await page.getByRole('button', { name: `Open ${thread.title}` }).first().waitFor();
  // The pinned track is the first one now.
  assert.ok((await page.getByRole('list', { name: 'Tracks' }).getByRole('listitem').first().textContent()).includes(thread.title));
  await page.getByRole('button', { name: 'Show 1 hidden' }).click();
  await page.getByRole('button', { name: 'Hide instants' }).waitFor();
  await close(page);
});

test('steps are asked for after the first picture, which stays without them', async () => {
  const answers = [{ status: 500, json: { code: 'internal', detail: 'no steps' } }, { status: 409, json: { code: 'conflict', detail: 'other columns' } }];
  const [asked, heads] = [[], []]; // whether there was a picture; requests of the timeline
  const page = await open('/traces', {
    prepare: async (fresh) => {
      fresh.on('request', (request) => /\/timeline$/.test(request.url()) && heads.push(request));
      await fresh.route('**/timeline/steps*', async (route) => {
        asked.push(await fresh.evaluate(() => performance.getEntriesByName('profd:timeline').length > 0));
        const answer = answers.shift();
        await (answer ? route.fulfill(answer) : route.continue());
      });
    },
  });
  const table = page.getByRole('table', { name: /^Slices in view/ }).getByRole('row').nth(1);
  await page.goto(page.url().replace(/#.*/, '#' + view()));
  await table.waitFor();
  await until(() => asked.length === 1, 'a request of the steps');
  await lanesBegin(page, RULER);
  assert.equal(await page.getByRole('alert').count(), 0);
  // With other columns meanwhile, all is asked for again.
  await page.goto(page.url().replace(/#.*/, '#/traces'));
  await page.goto(page.url().replace(/#.*/, '#' + view()));
  await lanesBegin(page, RULER + STEPS);
  assert.equal(await page.getByRole('alert').count(), 0);
  assert.deepEqual([asked, heads.length], [[true, true, true], 3]);
  await close(page);
});

test('what is in view is a table, too', async () => {
  const step = steps[0];
  const page = await shown(view({ from: step.begin, to: step.begin + 2_000_000 }));
  await page.keyboard.press('t');
  await page.getByRole('button', { name: 'Table', pressed: true }).waitFor();
  const table = page.getByRole('table', { name: /^Slices in view/ });
  const cell = table.getByRole('button').first();
  const name = await cell.textContent();
  await cell.click();
  await page.getByRole('region', { name: 'Selected slice' }).getByRole('heading', { name }).waitFor();
  await accessible(page);
  await close(page);
});

test('of a slice that is longer than the picture, the table shows no length that it does not have', async () => {
  const kernel = await lonelyKernel();
  const at = kernel.begin + Math.floor(kernel.dur / 2);
  const page = await shown(view({ from: at, to: at + 2 }));
  const row = page.getByRole('table', { name: /^Slices in view/ }).getByRole('row').filter({ hasText: kernel.name }).first();
  await row.getByRole('cell', { name: /^more than / }).waitFor();
  await row.getByRole('cell', { name: /^before / }).waitFor();
  await close(page);
});

test('both themes are drawn in their colours', async () => {
  const colors = [];
  for (const colorScheme of ['dark', 'light']) {
    const page = await shown(view(), { context: { colorScheme } });
    const { height } = await canvasOf(page).boundingBox();
    colors.push(await pixel(page, 100, height - 4));
    await accessible(page);
    await close(page);
  }
  const [dark, light] = colors.map((color) => color.split(',').reduce((sum, part) => sum + Number(part), 0));
  assert.ok(dark < 150 && light > 600, colors.join(' '));
});

// What the page gives to a stand-in of Perfetto, which answers PING and keeps what it is given.
async function handedOver(page, button = 'Perfetto') {
  const { perfetto } = await page.evaluate(() => fetch('/v1/web/me', { headers: { Authorization: `Bearer ${sessionStorage.getItem('profd:token')}` } }).then((answer) => answer.json()));
  await page.context().route(new URL(perfetto).origin + '/**', (route) =>
    route.fulfill({
      contentType: 'text/html',
      body: `<script>onmessage = (event) => event.data === 'PING' ? event.source.postMessage('PONG', event.origin) : (window.given = event.data.perfetto)</script>`,
    }),
  );
  const opened = page.waitForEvent('popup');
  await page.getByRole('button', { name: button, exact: true }).click();
  const other = await opened;
  await other.waitForFunction(() => window.given !== undefined);
  const given = await other.evaluate(async () => {
    const { buffer, title, localOnly } = window.given;
    const bytes = new Uint8Array(buffer);
    const text = bytes[0] === 0x1f ? await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text() : new TextDecoder().decode(bytes);
    return { title, localOnly, names: JSON.parse(text).traceEvents.map((event) => event.name) };
  });
  await other.close();
  return given;
}

test('a trace is handed over to Perfetto, which fetches nothing', async () => {
  const page = await shown(view());
  const given = await handedOver(page);
  assert.ok(given.localOnly);
  assert.equal(given.title, trace);
  assert.ok(given.names.length >= head.slices);
  await close(page);
});

test('the link of profctl open hands a trace over after a click', async () => {
  const page = await open(`/traces/${trace}?perfetto=1`);
  const given = await handedOver(page, `Open ${trace} in Perfetto`);
  assert.ok(given.localOnly && given.title.startsWith(trace) && given.names.length >= head.slices);
  await close(page);
});

test('of a window, Perfetto gets what is in it', async () => {
  const kernel = await lonelyKernel();
  const page = await shown(view({ from: kernel.begin - 1e6, to: kernel.begin + 1e6 }));
  const given = await handedOver(page);
  assert.ok(given.localOnly && given.title.startsWith(trace));
  assert.ok(given.names.includes(kernel.name));
  assert.ok(given.names.length < head.slices / 5, `${given.names.length} of ${head.slices}`);
  await close(page);
});

// Traces of these events, until the callback is over.
async function withTraces(traces, callback) {
  const directory = mkdtempSync(join(tmpdir(), 'profd-web-'));
  const ids = [];
  try {
    for (const [i, traceEvents] of traces.entries()) {
      const path = join(directory, `trace${i}.json`);
      writeFileSync(path, JSON.stringify({ traceEvents }));
      ids.push((await api('POST', '/v1/traces', { path })).trace);
    }
    await callback(ids);
  } finally {
    for (const id of ids) await api('DELETE', `/v1/traces/${id}`);
    rmSync(directory, { recursive: true });
  }
}

test('of 64 ranks with 250 lanes each, only those in view are asked for', async () => {
  const events = [];
  for (let rank = 0; rank < 64; rank++) {
    for (let lane = 0; lane < 10; lane++) {
      for (let i = 0; i < 3; i++) events.push({ ph: 'X', cat: 'kernel', name: `gemm_${i}`, pid: 1000 * rank + 1, tid: lane, ts: 100 * i, dur: 90, args: { device: rank % 8, stream: lane } });
    }
    for (let thread = 0; thread < 40; thread++) {
      for (let depth = 0; depth < 6; depth++) events.push({ ph: 'X', cat: 'cpu_op', name: `aten::op${depth}`, pid: 1000 * rank, tid: 100 + thread, ts: depth, dur: 300 - 2 * depth });
    }
  }
  await withTraces([events], async ([many]) => {
    assert.equal((await api('GET', `/v1/traces/${many}/timeline`)).lanes, 16000);
    const page = await open('/traces');
    let [requests, lanes] = [0, 0];
    page.on('request', (request) => {
      const asked = /\/tiles\/.*lanes=(\d+)-(\d+)/.exec(request.url());
      if (asked) [requests, lanes] = [requests + 1, Math.max(lanes, asked[2] - asked[1] + 1)];
    });
    await page.goto(page.url().replace(/#.*/, `#/traces/${many}/timeline`));
    const table = page.getByRole('table', { name: /^Slices in view/ }).getByRole('row');
    await table.nth(1).waitFor();
    // Of 250 groups of lanes: those in view with their neighbours in time, and those of the overview.
    assert.ok(requests < 60 && lanes <= 64, `${requests} requests, ${lanes} lanes`);
    await canvasOf(page).focus();
    for (let i = 0; i < 40; i++) await page.keyboard.press('PageDown');
    await page.getByRole('cell', { name: 'aten::op0' }).first().waitFor({ state: 'attached' });
    assert.ok(requests < 250 && lanes <= 64, `${requests} requests, ${lanes} lanes`);
    await close(page);
  });
});

test('counters have their range', async () => {
  const counters = Array.from({ length: 20 }, (_, i) => ({ ph: 'C', name: 'queue', pid: 1, ts: 10 * i, args: { waiting: i, share: i / 40 } }));
  await withTraces([[...counters, { ph: 'X', cat: 'cpu_op', name: 'work', pid: 1, tid: 1, ts: 0, dur: 200 }]], async ([first]) => {
    const page = await shown(`/traces/${first}/timeline`);
    await page.getByRole('listitem').filter({ hasText: 'queue waiting' }).getByText('0 to 19', { exact: true }).waitFor();
    await page.getByRole('listitem').filter({ hasText: 'queue share' }).getByText('0 to 0.475', { exact: true }).waitFor();
    await close(page);
  });
});

test('columns that were made again while the page is open are shown', async () => {
  const of = (name, n) => Array.from({ length: n }, (_, i) => ({ ph: 'X', cat: 'cpu_op', name: `${name}${i}`, pid: 1, tid: 1, ts: 1000 * i, dur: 900 }));
  await withTraces([of('before', 40), of('after', 60)], async ([first, second]) => {
    const page = await shown(`/traces/${first}/timeline`);
    await page.getByText('40 slices').waitFor();
    // As profd replaces them: under the same name.
    const [from, to] = (await Promise.all([second, first].map((id) => api('GET', `/v1/traces/${id}`)))).map((each) => each.columns);
    copyFileSync(from, `${to}.new`);
    renameSync(`${to}.new`, to);
    await canvasOf(page).focus();
    await until(async () => {
      await page.keyboard.press('w');
      return page.getByText('60 slices').isVisible();
    }, 'the new columns');
    await page.keyboard.press('0');
    await page.getByRole('cell', { name: 'after59' }).waitFor({ state: 'attached' });
    assert.equal(await page.getByRole('alert').count(), 0);
    await close(page);
  });
});

test('a trace that is not there says so', async () => {
  const page = await open('/traces/t99999/timeline');
  await page.getByRole('alert').waitFor();
  await accessible(page);
  await close(page);
});
