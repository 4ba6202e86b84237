// SPDX-License-Identifier: Apache-2.0
// The list of traces, for web_list.py: how long until its first rows are visible. Prints figures as JSON.
//
//     node web_list.mjs PACKAGES ADDRESS TOKEN FIRST: the link in the first row

import { newPage, openBrowser, signInAddress } from './web_page.mjs';

const [packages, address, token, first] = process.argv.slice(2);
const browser = await openBrowser(packages);
const page = await newPage(browser);

// From what the caller does until a row is in view and drawn.
const rowsAfter = (act) =>
  page.evaluate(
    async ([action, link]) => {
      const begun = action ? performance.now() : 0;
      if (action) location.hash = action;
      for (;;) {
        const row = [...document.querySelectorAll('a')].find((each) => each.textContent === link && each.checkVisibility());
        if (row) break;
        await new Promise(requestAnimationFrame);
      }
      await new Promise(requestAnimationFrame);
      return performance.now() - begun;
    },
    [act, first],
  );

// As a bookmark opens it: scripts come from the network, and the sign-in is part of it.
await page.goto(await signInAddress(address, token, '/traces'), { waitUntil: 'commit' });
const opened = await rowsAfter(null);
await page.evaluate(() => (location.hash = '#/sessions'));
await page.getByRole('heading', { name: 'Sessions' }).waitFor();
await page.waitForTimeout(500);
const switched = await rowsAfter('#/traces');
console.log(JSON.stringify({ 'page opened ms': opened, 'from another view ms': switched }));
await browser.close();
