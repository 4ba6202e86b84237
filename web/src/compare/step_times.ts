// SPDX-License-Identifier: Apache-2.0
// Times of steps for their distribution. Pure.

import { sorted } from '../figures';
import { type Reports, rowsNamed, text } from '../reports';

// Steps of a side by phase, sorted. A side of several ranks has one step for each number, as long as on its slowest rank.
export function stepTimes(reports: Reports | null): Map<string, Float64Array> {
  const phases = new Map<string, Map<string, number>>();
  for (const part of reports?.parts ?? []) {
    for (const row of rowsNamed({ parts: [part], left: [], notes: [] }, 'steps')) {
      if (typeof row['dur_ns'] !== 'number') continue;
      const phase = text(row, 'phase');
      if (!phases.has(phase)) phases.set(phase, new Map());
      const steps = phases.get(phase)!;
      const key = `${part.instance ?? ''} ${text(row, 'index')}`;
      steps.set(key, Math.max(steps.get(key) ?? 0, row['dur_ns']));
    }
  }
  return new Map([...phases].map(([phase, steps]) => [phase, sorted(steps.values())]));
}
