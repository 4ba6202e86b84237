// SPDX-License-Identifier: Apache-2.0
// What the view of all ranks makes of reports.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { instancesOf, lateness, lateOf, offsetOf, stepsOf, type Straggler } from '../../../web/src/ranks/data';
import type { Reports } from '../../../web/src/reports';
import { areSplit } from '../../../web/src/ranks/split';
import { commonSteps } from '../../../web/src/timeline/link';
import type { Trace } from '../../../web/src/types';

const trace = (id: string, rank: number): [string, Trace] => [id, { trace: id, kind: 'trace', state: 'ok', name: id, stored: true, size: 1, ranks: { rank } }];
const straggler = (rank: number, lastShare: number, delay: number): Straggler => ({ rank, lastShare, caused: 10 * delay, delay, meanwhile: 'gemm', meanwhileNs: delay });

test('ranks of one engine on several hosts are compared together', () => {
  const on = (host: string, instance: string, world: number): Trace => ({ ...trace('t1', 0)[1], instance, world_size: world, ...(host ? { host_uuid: host } : {}) });
  assert.equal(areSplit([on('', 'a', 2), on('', 'a', 2), on('x', 'b', 2), on('x', 'b', 2)]), false);
  assert.equal(areSplit([on('', 'a', 2), on('x', 'a', 2)]), true);
  // Servers of several hosts that are one job: none has all ranks of it.
  assert.equal(areSplit([on('', 'a', 4), on('', 'a', 4), on('x', 'b', 4), on('x', 'b', 4)]), true);
  // Incomplete recordings of several jobs of the same size.
  assert.equal(areSplit([on('', 'a', 2), on('x', 'b', 2), on('y', 'c', 2)]), false);
  assert.equal(areSplit([]), false);
});

test('ranks have the trace of their number, whatever the order of traces', () => {
  const reports: Reports = {
    left: [],
    notes: [],
    parts: [
      {
        report: 'ranks',
        instance: 'i',
        traces: ['t2', 't1'],
        columns: ['who', 'rank', 'span_ns', 'outlier', 'clock_shift_ns', 'clock_error_ns'],
        rows: [
          ['rank 0', 0, 10, null, 0, 0],
          ['rank 1', 1, 10, 'comm low', -500, 20],
          ['rank 2', 2, null, 'missing', null, null],
          ['median', null, 10, null, null, null],
        ],
      },
      { report: 'stragglers', instance: 'i', traces: ['t2', 't1'], columns: ['rank', 'last_share', 'wait_caused_ns', 'delay_ns'], rows: [[1, 0.9, 50, 30]] },
      { report: 'steps', instance: 'i', traces: ['t2', 't1'], columns: ['index', 'name', 'phase', 'start_ns', 'dur_ns', 'rank'], rows: [[3, 'decode', 'decode', 100, 10, 0], [3, 'decode', 'decode', 90, 14, 1]] },
    ],
  };
  const [instance] = instancesOf(reports, new Map([trace('t1', 0), trace('t2', 1)]));
  assert.deepEqual(instance!.ranks.map((rank) => [rank.rank, rank.trace, rank.shift]), [[0, 't1', 0], [1, 't2', -500]]);
  assert.equal(instance!.steps.length, 1);
  assert.deepEqual(instance!.steps[0]!.cells, [{ start: 100, dur: 10 }, { start: 90, dur: 14 }]);
  assert.equal(instance!.steps[0]!.median, 12);
  assert.equal(instance!.stragglers[0]!.delay, 30);
});

test('several steps of one number are told apart by their order', () => {
  const rank = (n: number) => ({ rank: n, trace: `t${n}`, shift: 0, clockError: null, outlier: '' });
  const row = (index: number, start: number, of: number) => ({ index, name: '', phase: '', start_ns: start, dur_ns: 5, rank: of });
  const steps = stepsOf([row(1, 50, 0), row(1, 10, 0), row(1, 20, 1)], [rank(0), rank(1)]);
  assert.deepEqual(steps.map((step) => [step.index, step.occurrence, step.cells.map((cell) => cell?.start ?? null)]), [[1, 0, [10, 20]], [1, 1, [50, null]]]);
  assert.equal(steps[0]!.label, 'step 1');
});

test('a rank is late if it causes most of the delays, however often it is last', () => {
  assert.equal(lateOf([straggler(0, 0.1, 5), straggler(5, 0.86, 900)], 8)?.rank, 5);
  assert.equal(lateOf([straggler(0, 0.13, 5), straggler(1, 0.2, 9), straggler(2, 0.1, 6)], 8), null);
  assert.equal(lateOf([straggler(0, 1, 0)], 2), null);
  // As in a real training: rank 3 is last most often, but by microseconds.
  assert.equal(lateOf([straggler(2, 0.3, 105_345_000), straggler(0, 0.233, 804_000), straggler(3, 0.433, 1_230_000)], 4)?.rank, 2);
  assert.equal(lateOf([straggler(0, 0.5, 7), straggler(1, 0.5, 4)], 2), null);
  assert.equal(lateOf([], 8), null);
  assert.ok(Math.abs(lateness({ start: 0, dur: 12 }, 10) - 0.4) < 1e-9);
  assert.equal(lateness({ start: 0, dur: 8 }, 10), 0);
});

test('clocks of ranks become one, beyond what a number holds', () => {
  assert.equal(offsetOf('1700000000123456789', '1700000000123456000', 11), 800);
  assert.equal(offsetOf(undefined, '5', 11), 11);
  assert.equal(offsetOf('x', '5', 11), 11);
});

test('two timelines begin with a step that both have', () => {
  const step = (label: string, begin: number) => ({ label, begin, end: begin + 1 });
  assert.deepEqual(commonSteps([step('#1', 0), step('#2', 5)], [step('#2', 7), step('#3', 9)]).map((each) => each?.begin), [5, 7]);
  assert.deepEqual(commonSteps([step('a', 0)], [step('b', 7)]).map((each) => each?.begin), [0, 7]);
  assert.deepEqual(commonSteps([], [step('b', 7)]), [null, step('b', 7)]);
});
