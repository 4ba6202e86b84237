// SPDX-License-Identifier: Apache-2.0
// Traces of one file name are told apart by the directory that they came from.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distinctFolders } from '../../../web/src/distinct';

const trace = (id: string, origin?: string, host?: string) => ({ trace: id, name: origin ? origin.split('/').at(-1)! : 'a.json', ...(origin ? { origin } : {}), ...(host ? { host } : {}) });
const found = (...traces: ReturnType<typeof trace>[]) => Object.fromEntries(distinctFolders(traces));

test('only what distinguishes files of one name is shown', () => {
  assert.deepEqual(found(trace('t1', '/runs/sst4/rank0.json'), trace('t2', '/runs/sst5/rank0.json'), trace('t3', '/runs/sst5/rank1.json')), { t1: 'sst4', t2: 'sst5' });
  assert.deepEqual(found(trace('t1', '/a/traces/rank0.json'), trace('t2', '/b/traces/rank0.json')), { t1: 'a/traces', t2: 'b/traces' });
  assert.deepEqual(found(trace('t1', '/a/rank0.json'), trace('t2', '/b/a/rank0.json')), { t1: 'a', t2: 'b/a' });
  assert.deepEqual(found(trace('t1', '/a/rank0.json', 'gpu1'), trace('t2', '/a/rank0.json', 'gpu2')), { t1: 'gpu1/a', t2: 'gpu2/a' });
});

test('one file that was imported twice, and traces without an origin, have nothing', () => {
  assert.deepEqual(found(trace('t1', '/a/rank0.json'), trace('t2', '/a/rank0.json')), {});
  assert.deepEqual(found(trace('t1'), trace('t2')), {});
  assert.deepEqual(found(trace('t1', '/x/a.json'), trace('t2')), { t1: 'x' });
});
