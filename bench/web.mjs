// SPDX-License-Identifier: Apache-2.0
// One visit to the timeline of a trace, for web.py: from all of the trace down to a nanosecond, along for some screens, and
// out again, by the wheel as a hand turns it. Prints figures as JSON.
//
//     node web.mjs PACKAGES ADDRESS TOKEN TRACE

import { readFileSync } from 'node:fs';
import { newPage, openBrowser, signInAddress } from './web_page.mjs';

const [packages, address, token, trace] = process.argv.slice(2);
const SECONDS = { in: 4, along: 2, out: 4 };
const HERTZ = 60;

const browser = await openBrowser(packages);
const page = await newPage(browser);
const bytes = { tiles: 0, of_tiles: 0 };
page.on('response', async (response) => {
  if (!response.url().includes('/tiles/')) return;
  bytes.tiles++;
  bytes.of_tiles += Number((await response.allHeaders())['content-length'] ?? 0);
});
await page.goto(await signInAddress(address, token, '/traces'));
await page.getByRole('heading', { name: 'Traces' }).waitFor();
await page.waitForTimeout(500);

// The page marks its first complete picture.
const first = await page.evaluate(async (hash) => {
  const begun = performance.now();
  location.hash = hash;
  for (;;) {
    const [mark] = performance.getEntriesByName('profd:timeline');
    if (mark) return mark.startTime - begun;
    await new Promise(requestAnimationFrame);
  }
}, `#/traces/${trace}/timeline`);

if (process.env.WATERFALL) {
  const entries = await page.evaluate(() => {
    const mark = performance.getEntriesByName('profd:timeline')[0].startTime;
    return performance.getEntriesByType('resource').map((e) => [e.name.replace(/^.*\/v1\//, ''), e.startTime - mark, e.responseStart - e.startTime, e.responseEnd - e.startTime]);
  });
  for (const [name, at, first, all] of entries) process.stderr.write(`${at.toFixed(0).padStart(7)} +${first.toFixed(0)} +${all.toFixed(0)} ${name}\n`);
}
const devtools = await page.context().newCDPSession(page);
await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
const metrics = async () => Object.fromEntries((await devtools.send('Performance.getMetrics')).metrics.map((each) => [each.name, each.value]));
await page.evaluate(() => {
  window.frames_ = [];
  let last = 0;
  const frame = (now) => {
    if (last > 0) window.frames_.push(now - last);
    last = now;
    if (window.frames_) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
});
const box = await page.getByRole('img', { name: /^Timeline of/ }).boundingBox();
const x = box.x + box.width * 0.4;
const y = box.y + box.height / 2;
const before = await metrics();
const turn = async (seconds, wheel) => {
  const steps = seconds * HERTZ;
  const begun = performance.now();
  for (let i = 0; i < steps; i++) {
    await devtools.send('Input.dispatchMouseEvent', { type: 'mouseWheel', x, y, ...wheel });
    const rest = begun + ((i + 1) * 1000) / HERTZ - performance.now();
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
  }
};
const ALONG = 8;
const CONTROL = 2;
await turn(SECONDS.in, { deltaX: 0, deltaY: -42, modifiers: CONTROL });
const span = await page.evaluate(() => document.querySelector('.pane-range').textContent);
await turn(SECONDS.along, { deltaX: 120, deltaY: 0, modifiers: ALONG });
await turn(SECONDS.out, { deltaX: 0, deltaY: 42, modifiers: CONTROL });
const after = await metrics();
const frames = (await page.evaluate(() => window.frames_)).sort((a, b) => a - b);
const percentile = (p) => frames[Math.min(frames.length - 1, Math.ceil((frames.length * p) / 100) - 1)];

// What the renderer has of its own, and its share of what it shares.
const { processInfo } = await (await browser.newBrowserCDPSession()).send('SystemInfo.getProcessInfo');
const renderers = processInfo.filter((each) => each.type === 'renderer').map((each) => each.id);
const pss = Math.max(...renderers.map((id) => Number(/^Pss: +(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, 'utf8'))[1]) / 1024));
process.stderr.write(`narrowest window: ${span}\n`);
console.log(
  JSON.stringify({
    'first picture ms': first,
    frames: frames.length,
    'frame p50 ms': percentile(50),
    'frame p95 ms': percentile(95),
    'frame p99 ms': percentile(99),
    'main thread ms a frame': ((after.TaskDuration - before.TaskDuration) * 1000) / frames.length,
    'script ms a frame': ((after.ScriptDuration - before.ScriptDuration) * 1000) / frames.length,
    tiles: bytes.tiles,
    'tiles MB': bytes.of_tiles / 1e6,
    'JS heap MiB': after.JSHeapUsedSize / 2 ** 20,
    'renderer MiB': pss,
  }),
);
await browser.close();
