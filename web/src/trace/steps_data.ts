// SPDX-License-Identifier: Apache-2.0
// Steps as sentences and as bars of a strip. Pure.

import { number, type Row, text } from '../reports';
import { count, duration } from '../units';

export const isOutlier = (row: Row) => row['outlier'] !== null && row['outlier'] !== undefined;

export function stepText(row: Row): string {
  const parts = [`${text(row, 'name') || 'step'} (${text(row, 'index')})`, duration(number(row, 'dur_ns'))];
  if (text(row, 'phase')) parts.push(text(row, 'phase'));
  if (row['tokens'] !== null) parts.push(`${count(number(row, 'tokens'))} tokens`);
  if (isOutlier(row)) {
    const differs = text(row, 'differs');
    parts.push(number(row, 'outlier') > 0 ? 'longer than usual' : 'shorter than usual');
    if (differs) parts.push(`${differs} ${number(row, 'differs_ns') >= 0 ? '+' : ''}${duration(number(row, 'differs_ns'))}`);
  }
  return parts.join(', ');
}

// Bars of a strip of `width` pixels: the first step and the longest one of each.
export function stripBars(durations: number[], width: number): { first: number; longest: number }[] {
  const n = Math.min(durations.length, Math.max(1, Math.floor(width)));
  return Array.from({ length: n }, (_, bar) => {
    const first = Math.floor((bar * durations.length) / n);
    const last = Math.max(first + 1, Math.floor(((bar + 1) * durations.length) / n));
    let longest = first;
    for (let i = first; i < last; i++) if (durations[i]! > durations[longest]!) longest = i;
    return { first, longest };
  });
}
