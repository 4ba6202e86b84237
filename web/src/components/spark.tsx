// SPDX-License-Identifier: Apache-2.0
// A figure with what it was before, as a line.

interface SparkProps {
  values: (number | undefined)[]; // oldest first
  max?: number; // of the scale; default: the largest value
}

const WIDTH = 100;
const HEIGHT = 24;

export function Spark({ values, max }: SparkProps) {
  const known = values.filter((value): value is number => value !== undefined);
  if (known.length < 2) return <svg class="spark" aria-hidden="true" />;
  const top = max ?? Math.max(...known, 1e-9);
  const x = (i: number) => ((i / (values.length - 1)) * WIDTH).toFixed(1);
  const points = values
    .map((value, i) => (value === undefined ? null : `${x(i)},${(HEIGHT - 1.5 - (value / top) * (HEIGHT - 3)).toFixed(1)}`))
    .filter(Boolean)
    .join(' ');
  const first = values.findIndex((value) => value !== undefined);
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`${x(first)},${HEIGHT} ${points} ${WIDTH},${HEIGHT}`} />
      <polyline points={points} />
    </svg>
  );
}

interface FigureProps {
  label: string;
  value: string; // with its unit, or without it
  unit?: string;
  note?: string;
  costs?: boolean;
}

export function Figure({ label, value, unit, note, values, max, costs }: FigureProps & Partial<SparkProps>) {
  return (
    <div class="figure">
      <span class="figure-label">{label}</span>
      <span class={costs ? 'figure-value costs' : 'figure-value'}>{value || '–'}
        {value && unit && <span class="figure-unit"> {unit}</span>}
      </span>
      {values && <Spark values={values} {...(max === undefined ? {} : { max })} />}
      {note && <small>{note}</small>}
    </div>
  );
}
