// SPDX-License-Identifier: Apache-2.0
// Rows of reports: places that findings name, parts of the GPU's time, steps, memory, sides of a comparison.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { comparable, bodyOf, sideOf } from '../../../web/src/compare/sides';
import { stepTimes } from '../../../web/src/compare/step_times';
import { type Reports, rowsNamed, rowsOf, whyNot, windowAround } from '../../../web/src/reports';
import { placeOf, reportAddress, timelineAddress, traceOf } from '../../../web/src/trace/finding_places';
import { gpuParts } from '../../../web/src/trace/gpu_parts';
import { memoryByDevice, memorySql } from '../../../web/src/trace/memory_data';
import { stepText, stripBars } from '../../../web/src/trace/steps_data';
import { durationTicks } from '../../../web/src/units';

test('a finding has its place, and links to what shows more of it', () => {
  const row = { report: 'gap_list', at_rank: 6, at_start_ns: 10_000_000, at_end_ns: 20_000_000, at_slice: null };
  const place = placeOf(row)!;
  assert.deepEqual(place, { from: 10_000_000, to: 20_000_000, rank: 6, slice: null });
  assert.equal(timelineAddress('t7', place), '#/traces/t7/timeline?from=8000000&to=22000000');
  assert.equal(timelineAddress('t7', { ...place, slice: 0 }), '#/traces/t7/timeline?from=8000000&to=22000000&slice=0');
  assert.equal(placeOf({ ...row, at_start_ns: null, at_end_ns: null }), null);
  assert.equal(reportAddress(row, 't7'), '#/sql?trace=t7&q=SELECT+*%0AFROM+report_gap_list');
  assert.equal(reportAddress({ report: 'stragglers' }, 't7', 's2'), '#/sessions/s2/ranks');
  assert.equal(reportAddress({ report: 'stragglers' }, 't7'), null);
  const ranks = new Map([['t1', 5], ['t2', 6]]);
  const rankOf = (trace: string) => ranks.get(trace);
  assert.equal(traceOf(row, ['t1', 't2'], rankOf), 't2');
  assert.equal(traceOf({ ...row, at_rank: 9 }, ['t1', 't2'], rankOf), null);
  assert.equal(traceOf({ ...row, at_rank: 9 }, ['t1'], rankOf), 't1');
  assert.deepEqual(windowAround({ from: 100, to: 200 }), { from: 0, to: 1200 });
});

test('the parts of a GPU add up to its span', () => {
  const temporal = { span_ns: 100, compute_ns: 60, idle_ns: 10, busy_ns: 90 };
  const overlap = { exposed_ns: 25, exposed_memory_ns: 5 };
  const parts = gpuParts(temporal, overlap);
  assert.equal(
    parts.reduce((sum, part) => sum + part.value, 0),
    100,
  );
  assert.deepEqual(
    parts.map((part) => part.text.replaceAll('\u00a0', ' ')),
    ['60 % (60 ns)', '25 % (25 ns)', '5.0 % (5 ns)', '10 % (10 ns)'],
  );
});

test('rows are named by their columns, of all instances', () => {
  const reports: Reports = {
    parts: [
      { report: 'steps', columns: ['index', 'dur_ns', 'phase'], rows: [[1, 10, 'decode'], [2, 30, 'decode'], [3, null, 'decode']], instance: 'a' },
      { report: 'steps', columns: ['index', 'dur_ns', 'phase'], rows: [[1, 12, 'decode'], [1, 15, 'prefill']], instance: 'a' },
      { report: 'memory', columns: [], rows: [], lacking: true },
      { report: 'gaps', columns: [], rows: [], error: 'too large' },
    ],
    left: [],
    notes: [],
  };
  assert.equal(rowsNamed(reports, 'steps').length, 5);
  assert.deepEqual(rowsOf(reports.parts[0])[0], { index: 1, dur_ns: 10, phase: 'decode' });
  assert.match(whyNot(reports, 'memory')!, /no events/);
  assert.equal(whyNot(reports, 'gaps'), 'too large');
  assert.equal(whyNot(reports, 'steps'), null);
  // A step of several ranks lasts as long as on the slowest.
  const times = stepTimes(reports);
  assert.deepEqual([...times.get('decode')!], [12, 30]);
  assert.deepEqual([...times.get('prefill')!], [15]);
});

test('a strip has the longest step of each bar, and every step where there is room', () => {
  assert.deepEqual(
    stripBars([5, 9, 1], 100).map((bar) => bar.longest),
    [0, 1, 2],
  );
  const durations = Array.from({ length: 1000 }, (_, i) => (i === 777 ? 99 : 1));
  const bars = stripBars(durations, 100);
  assert.equal(bars.length, 100);
  assert.equal(bars[77]!.longest, 777);
  assert.deepEqual(stripBars([], 100), []);
});

test('the sentence of a step names what differs', () => {
  const row = { index: 7, name: 'step[DECODE bs=32]', phase: 'decode', dur_ns: 31_000_000, tokens: 32, outlier: 5.2, differs: 'idle', differs_ns: 4_000_000 };
  assert.equal(stepText(row).replaceAll('\u00a0', ' '), 'step[DECODE bs=32] (7), 31 ms, decode, 32 tokens, longer than usual, idle +4.0 ms');
});

test('memory is asked for in a few hundred intervals, and named as the report names devices', () => {
  assert.match(memorySql(5_000_000), / \/ 10000 \* 10000 as at/);
  assert.match(memorySql(1), / \/ 1 \* 1 as at/);
  const devices = memoryByDevice([[1, 0, 0, 5, 9], [1, 0, 10, 6, 9], [0, -1, 0, 1, 0], [1, 3, 0, 2, 2]], ['cuda:0', 'cpu']);
  assert.deepEqual([...devices.keys()], ['cuda:0', 'cpu', 'gpu:3']);
  assert.deepEqual(devices.get('cuda:0'), [
    { at: 0, allocated: 5, reserved: 9 },
    { at: 10, allocated: 6, reserved: 9 },
  ]);
});

test('sides are traces, one session, or runs', () => {
  assert.deepEqual(sideOf('t12'), { kind: 'traces', ids: ['t12'] });
  assert.deepEqual(sideOf(' R3, r4 r5 '), { kind: 'runs', ids: ['r3', 'r4', 'r5'] });
  assert.deepEqual(bodyOf(sideOf('s7')!), { session: 's7' });
  assert.deepEqual(bodyOf(sideOf('r1,r2')!), { runs: ['r1', 'r2'] });
  for (const words of ['', 't', 's1,s2', 't1,r2', 'x9', 't12;drop']) assert.equal(sideOf(words), null, words);
  assert.ok(comparable(sideOf('t1')!, sideOf('s1')!));
  assert.ok(!comparable(sideOf('t1')!, sideOf('r1')!));
});

test('ticks of an axis have one unit and the digits of their increment', () => {
  const plain = (ticks: string[]) => ticks.map((tick) => tick.replaceAll('\u00a0', ' '));
  assert.deepEqual(plain(durationTicks([0, 2.5e6, 5e6], 2.5e6)), ['0', '2.5 ms', '5.0 ms']);
  assert.deepEqual(plain(durationTicks([5e8, 1e9], 5e8)), ['0.5 s', '1.0 s']);
  assert.deepEqual(plain(durationTicks([100, 200], 100)), ['100 ns', '200 ns']);
});
