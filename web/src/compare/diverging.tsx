// SPDX-License-Identifier: Apache-2.0
// Bars to both sides of zero: what was gained to the left, what costs more to the right, with the 95 % interval as a line.

interface DivergingProps {
  value: number;
  most: number; // what half of the cell stands for
  low?: number | null;
  high?: number | null;
  certain: boolean; // the interval excludes no change
  costs?: boolean; // larger is worse; default true
}

export function Diverging({ value, most, low, high, certain, costs = true }: DivergingProps) {
  const place = (x: number) => 50 + 50 * Math.max(-1, Math.min(1, x / (most || 1)));
  const left = Math.min(50, place(value));
  const isWorse = costs ? value > 0 : value < 0;
  return (
    <span class={`diverging${certain ? (isWorse ? ' worse' : ' better') : ''}`} aria-hidden="true">
      <i class="zero" />
      <i class="amount" style={{ left: `${left}%`, width: `${Math.max(0.5, Math.abs(place(value) - 50))}%` }} />
      {typeof low === 'number' && typeof high === 'number' && high > low && (
        <i class="interval" style={{ left: `${place(low)}%`, width: `${Math.max(0.5, place(high) - place(low))}%` }} />
      )}
    </span>
  );
}

const CERTAIN = new Set(['slower', 'faster', 'more', 'fewer', 'new', 'gone', 'longer', 'shorter', 'higher', 'lower', 'replaced']);

export function isCertain(result: string): boolean {
  return CERTAIN.has(result);
}

export function Result({ result, worse }: { result: string; worse: boolean }) {
  return <span class={`result ${isCertain(result) ? (worse ? 'worse' : 'better') : 'unclear'}`}>{result}</span>;
}
