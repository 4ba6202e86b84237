// SPDX-License-Identifier: Apache-2.0
// What is read of a file for Perfetto: no more than the limit, whatever the head of the response claims.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bounded } from '../../../web/src/perfetto';

// A response of parts of 1000 bytes, each filled with its number.
function response(parts: number, length?: string): { response: Response; left: () => number; cancelled: () => boolean } {
  let given = 0;
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(control) {
        if (given === parts) control.close();
        else control.enqueue(new Uint8Array(1000).fill(++given));
      },
      cancel() {
        isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  const headers: Record<string, string> = length === undefined ? {} : { 'Content-Length': length };
  return { response: new Response(body, { headers }), left: () => parts - given, cancelled: () => isCancelled };
}

test('bytes are complete and in order, with and without a length', async () => {
  for (const length of [undefined, '3000', '17', '-1', 'many', '1e99x']) {
    const bytes = new Uint8Array(await bounded(response(3, length).response, 3000));
    assert.deepEqual([bytes.length, bytes[0], bytes[999], bytes[1000], bytes[2999]], [3000, 1, 1, 2, 3]);
  }
  assert.equal((await bounded(response(0).response, 10)).byteLength, 0);
});

test('a larger file is refused before it is read, or when it exceeds the limit', async () => {
  const claimed = response(3, '3001');
  await assert.rejects(bounded(claimed.response, 3000), { code: 'too-large' });
  assert.deepEqual([claimed.left(), claimed.cancelled()], [3, true]);
  for (const length of [undefined, '1', '0']) {
    const endless = response(1000, length);
    await assert.rejects(bounded(endless.response, 3000), { code: 'too-large', remedy: /Zoom in/ });
    assert.deepEqual([endless.left(), endless.cancelled()], [996, true]);
  }
});
