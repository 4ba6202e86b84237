// SPDX-License-Identifier: Apache-2.0
// Traces of a worker as squares.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inRankOrder } from '../../../web/src/session_data';
import type { Trace } from '../../../web/src/types';

test('squares are in the order of ranks, and files of no rank come last', () => {
  const trace = (id: string, kind: string, rank?: number): Trace => ({ trace: id, kind, state: 'complete', name: id, stored: true, size: 1, ...(rank === undefined ? {} : { ranks: { rank } }) });
  const collected = [trace('t4', 'attachment'), trace('t3', 'trace', 10), trace('t1', 'frontend', 0), trace('t2', 'trace', 9), trace('t5', 'trace')];
  assert.deepEqual(inRankOrder(collected).map((each) => each.trace), ['t2', 't3', 't5', 't4', 't1']);
  assert.equal(collected[0]!.trace, 't4');
});
