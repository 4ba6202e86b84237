// SPDX-License-Identifier: Apache-2.0
// The parts of the GPU's time that a bar shows. Pure.

import { number, type Row } from '../reports';
import { duration, percent } from '../units';

// The parts of the GPU's time: they add up to its span (report temporal, overlap).
export function gpuParts(temporal: Row, overlap: Row | undefined) {
  const span = number(temporal, 'span_ns');
  const parts: [string, number, string][] = [
    ['Computing', number(temporal, 'compute_ns'), 'var(--accent)'],
    ['Communication alone', number(overlap, 'exposed_ns'), '#f0a13a'],
    ['Copies alone', number(overlap, 'exposed_memory_ns'), '#93a1b5'],
    ['Idle', number(temporal, 'idle_ns'), 'var(--red)'],
  ];
  return parts
    .filter(([, value]) => value > 0)
    .map(([label, value, color]) => ({ label, value, color, text: `${percent(value / (span || 1))} (${duration(value)})` }));
}
