// SPDX-License-Identifier: Apache-2.0
// A real Chromium with the page, for web.mjs and web_list.mjs.

export async function openBrowser(packages) {
  const { chromium } = await import(packages + '/playwright-core/index.mjs');
  return chromium.launch({ executablePath: '/usr/bin/chromium', chromiumSandbox: process.getuid() !== 0 });
}

export async function newPage(browser) {
  return (await browser.newContext({ viewport: { width: 1600, height: 1000 } })).newPage();
}

// The address that signs a reader in, once, and leads to a view.
export async function signInAddress(address, token, view) {
  const code = await fetch(address + '/v1/web/codes', {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: '{"role": "read"}',
  }).then((answer) => answer.json());
  return `${address}/#code=${code.code}&to=${view}`;
}
