// SPDX-License-Identifier: Apache-2.0
// Numbers as profctl prints them, addresses of views, and codes of profctl web.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { address, match } from '../../../web/src/router';
import { ago, count, duration, moment, numberTicks, percent, percentTicks, plural, roughly, size, slices } from '../../../web/src/units';

const plain = (text: string) => text.replaceAll('\u00a0', ' ');

test('durations change their unit where profctl does', () => {
  const expected: [number, string][] = [
    [0, '0 s'],
    [1, '1 ns'],
    [999, '999 ns'],
    [1000, '1.0 us'],
    [9_949, '9.9 us'],
    [9_950, '10 us'],
    [999_499, '999 us'],
    [999_500, '1.0 ms'],
    [999_499_999, '999 ms'],
    [999_500_000, '1.0 s'],
    [8_200_000_000, '8.2 s'],
    [724e9, '12 min 4 s'],
    [3600e9, '1 h 0 min'],
    [90_000e9, '1 d 1 h'],
    [-3_100_000, '-3.1 ms'],
  ];
  for (const [ns, text] of expected) assert.equal(plain(duration(ns)), text);
  assert.equal(duration(null), '');
  assert.equal(duration(Number.NaN), '');
});

test('moments have the digits that the resolution needs', () => {
  assert.equal(plain(moment(12_345_678, 1)), '12.345678 ms');
  assert.equal(plain(moment(12_345_678, 1000)), '12.346 ms');
  assert.equal(plain(moment(1_500_000_000, 1_000_000)), '1.500 s');
});

test('sizes, counts, ratios', () => {
  assert.deepEqual([0, 1023, 1024, 61.3 * 1048576, 102_350, 926 * 1024].map((n) => plain(size(n))), ['0 B', '1023 B', '1.0 KiB', '61.3 MiB', '100 KiB', '926 KiB']);
  assert.equal(count(9_840_000), '9,840,000');
  assert.equal(plain(roughly(9_840_000)), '9.8 M');
  assert.deepEqual([0, 0.041, 0.27, 1].map((n) => plain(percent(n))), ['0 %', '4.1 %', '27 %', '100 %']);
  assert.deepEqual([0.0001, 0.0005, -0.0001].map((n) => plain(percent(n))), ['<0.1 %', '0.1 %', '>-0.1 %']);
  assert.deepEqual([1, 2789].map((n) => plain(slices(n))), ['1 slice or instant', '2,789 slices and instants']);
  assert.equal(plain(plural(1, 'rank')), '1 rank');
  assert.equal(plain(plural(8, 'rank')), '8 ranks');
  assert.equal(plain(ago(1e18, 1e12 + 180_000)), '3 min ago');
});

test('addresses', () => {
  assert.equal(address('/traces', { search: 'a&b #c', sort: null, label: '' }), '#/traces?search=a%26b+%23c');
  assert.deepEqual(match('/traces/:trace/flame', '/traces/t12/flame'), { trace: 't12' });
  assert.equal(match('/traces/:trace', '/traces/'), null);
  assert.equal(match('/traces/:trace', '/traces/%E0%A4%A'), null);
});

test('ticks of an axis of numbers have the digits of their increment', () => {
  assert.deepEqual(numberTicks([0, 10, 2000], 10), ['0', '10', '2,000']);
  assert.deepEqual(numberTicks([0, 0.5, 1], 0.5), ['0.0', '0.5', '1.0']);
  assert.deepEqual(percentTicks([0, 0.05, 0.2], 0.05).map(plain), ['0 %', '5 %', '20 %']);
});
