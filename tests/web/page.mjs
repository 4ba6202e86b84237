// SPDX-License-Identifier: Apache-2.0
// What the tests of the page share: a Chromium, pages that are signed in, and what must hold of every page: no error in
// its console, nothing that its Content-Security-Policy blocks, no violation that axe finds.
//
// test_pages.py starts each NAME.test.mjs with WEB_ADDRESS, WEB_SOCKET (of profd), WEB_TOKENS ({role: token}), WEB_PACKAGES
// (folder of npm packages), WEB_DATA (what it put into the catalog) and WEB_TIME_FACTOR; test_screenshots.py adds WEB_CHROMIUM_OPTIONS.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { after, before } from 'node:test';

const packages = process.env.WEB_PACKAGES;
const { chromium } = await import(packages + '/playwright-core/index.mjs');
const axeSource = readFileSync(packages + '/axe-core/axe.min.js', 'utf8');

export const address = process.env.WEB_ADDRESS;
export const tokens = JSON.parse(process.env.WEB_TOKENS);
export const data = JSON.parse(process.env.WEB_DATA ?? '{}');
export const factor = Number(process.env.WEB_TIME_FACTOR ?? 1);

let browser;
before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.WEB_CHROMIUM ?? '/usr/bin/chromium',
    chromiumSandbox: process.getuid() !== 0,
    args: (process.env.WEB_CHROMIUM_OPTIONS ?? '').split(' ').filter(Boolean),
  });
});
after(() => browser?.close());

// A request to the API. Without a role it comes by the Unix socket, which may do all, and import files; with one as whoever has
// such a token.
export async function api(method, path, body, role = null) {
  const { status, text } = await (role ? byToken(method, path, body, role) : bySocket(method, path, body));
  assert.ok(status < 300, `${method} ${path}: ${status} ${text}`);
  return JSON.parse(text);
}

async function byToken(method, path, body, role) {
  const headers = { Authorization: `Bearer ${tokens[role]}`, ...(body ? { 'Content-Type': 'application/json' } : {}) };
  const response = await fetch(address + path, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  return { status: response.status, text: await response.text() };
}

function bySocket(method, path, body) {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath: process.env.WEB_SOCKET, method, path, headers: { Host: 'localhost', ...(body ? { 'Content-Type': 'application/json' } : {}) } }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode, text }));
    });
    call.on('error', reject);
    call.end(body ? JSON.stringify(body) : undefined);
  });
}

// A page that is signed in and shows the view, with what went wrong in it as `page.faults`. `prepare` gets it before it loads.
export async function open(path = '/', { role = 'operate', context = {}, signIn = true, prepare = null } = {}) {
  const own = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...context });
  const page = await own.newPage();
  page.setDefaultTimeout(15000 * factor);
  page.faults = [];
  page.on('pageerror', (error) => page.faults.push(String(error)));
  page.on('console', (message) => {
    // A request that failed is a fault only where the test says so: views show problems.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) page.faults.push(message.text());
  });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  await prepare?.(page);
  if (signIn) {
    const { code } = await api('POST', '/v1/web/codes', { role });
    await page.goto(`${address}/#code=${code}&to=${encodeURIComponent(path)}`);
    await page.getByRole('navigation', { name: 'Views' }).waitFor();
  } else {
    await page.goto(`${address}/#${path}`);
  }
  return page;
}

export async function close(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

// Fails with what axe finds: the rule, and the elements.
export async function accessible(page) {
  await page.evaluate(axeSource);
  const violations = await page.evaluate(async () => {
    const result = await globalThis.axe.run(document, { resultTypes: ['violations'] });
    return result.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(' ') + ' ' + node.failureSummary).join('; ')}`);
  });
  assert.deepEqual(violations, []);
}
