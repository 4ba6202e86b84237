// SPDX-License-Identifier: Apache-2.0
// Rows of a statement as a table, and as a chart where a column has numbers.

import { useMemo, useState } from 'preact/hooks';
import { Share } from '../components/bar';
import { Plot } from '../components/plot';
import { type Column, Table } from '../components/table';
import { csvOf, saveAs } from '../csv';
import { useLocalRows } from '../rows';
import { count, duration, durationTicks, roughly } from '../units';

type Value = string | number | bigint | null;

export interface Answer {
  columns: string[];
  rows: Value[][];
  more: boolean;
}

const BARS_MAX = 200;
const SERIES_MAX = 4;
const COLORS = ['#4f8ff7', '#f0a13a', '#2fb3a3', '#a678f0'];
// Columns of nanoseconds: by the names that tables and reports have.
const NS = /(^|_)(ns|dur|delay|diff)$/i;

const isNumber = (value: Value | undefined) => typeof value === 'number' || typeof value === 'bigint';

// Columns whose values are numbers, but for NULLs.
function numericColumns(answer: Answer): number[] {
  return answer.columns.flatMap((_, i) => (answer.rows.some((row) => isNumber(row[i])) && answer.rows.every((row) => row[i] === null || isNumber(row[i])) ? [i] : []));
}

function valueText(value: Value): string {
  return value === null ? 'NULL' : String(value);
}

function Chart({ answer }: { answer: Answer }) {
  const numeric = useMemo(() => numericColumns(answer), [answer]);
  const texts = answer.columns.map((_, i) => i).filter((i) => !numeric.includes(i));
  // By the first text, or else over the first number, if it only grows.
  const [x, setX] = useState(texts[0] ?? numeric[0] ?? 0);
  const [y, setY] = useState(numeric.find((i) => i !== x && NS.test(answer.columns[i]!)) ?? numeric.find((i) => i !== x) ?? numeric[0] ?? 0);
  const format = (i: number) => (NS.test(answer.columns[i]!) ? (value: number) => duration(value) : (value: number) => (Number.isInteger(value) && Math.abs(value) < 1e6 ? count(value) : roughly(value)));
  const isLine = numeric.includes(x);
  const line = useMemo(() => {
    const rows = answer.rows.filter((row) => isNumber(row[x])).sort((a, b) => Number(a[x]) - Number(b[x]));
    const others = [y, ...numeric.filter((i) => i !== x && i !== y && NS.test(answer.columns[i]!) === NS.test(answer.columns[y]!))].slice(0, SERIES_MAX);
    return {
      x: rows.map((row) => Number(row[x])),
      series: others.map((i, n) => ({ label: answer.columns[i]!, color: COLORS[n]!, values: rows.map((row) => (isNumber(row[i]) ? Number(row[i]) : null)) })),
    };
  }, [answer, x, y]);
  const bars = useMemo(() => answer.rows.slice(0, BARS_MAX).map((row) => ({ label: valueText(row[x] ?? null), value: Number(row[y] ?? 0) })), [answer, x, y]);
  const most = bars.reduce((found, bar) => Math.max(found, Math.abs(bar.value)), 0);
  return (
    <div class="sql-chart">
      <p class="table-tools">
        <label>
          By{' '}
          <select aria-label="Chart by" value={x} onChange={(event) => setX(Number(event.currentTarget.value))}>
            {answer.columns.map((name, i) => (
              <option key={i} value={i}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          Value{' '}
          <select aria-label="Chart value" value={y} onChange={(event) => setY(Number(event.currentTarget.value))}>
            {numeric.map((i) => (
              <option key={i} value={i}>
                {answer.columns[i]}
              </option>
            ))}
          </select>
        </label>
        {!isLine && answer.rows.length > BARS_MAX && <span class="hint">The first {BARS_MAX} rows.</span>}
      </p>
      {isLine ? (
        <Plot
          label={`${answer.columns[y]} by ${answer.columns[x]}`}
          x={line.x}
          series={line.series}
          xTitle={answer.columns[x]!}
          xText={format(x)}
          yText={format(y)}
          {...(NS.test(answer.columns[y]!) ? { yTicks: durationTicks } : {})}
          height={300}
        />
      ) : (
        <ol class="sql-bars" aria-label={`${answer.columns[y]} by ${answer.columns[x]}`}>
          {bars.map((bar, i) => (
            <li key={i}>
              <span title={bar.label}>{bar.label}</span>
              <Share ratio={most === 0 ? 0 : Math.abs(bar.value) / most}>{format(y)(bar.value)}</Share>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}

export function Result({ answer, name, tookMs }: { answer: Answer; name: string; tookMs: number }) {
  const [view, setView] = useState<'table' | 'chart'>('table');
  const numeric = useMemo(() => new Set(numericColumns(answer)), [answer]);
  const [sort, setSort] = useState('');
  const rows = useMemo(() => {
    if (sort === '') return answer.rows;
    const i = Number(sort.replace('-', ''));
    const sign = sort.startsWith('-') ? -1 : 1;
    return [...answer.rows].sort((a, b) => {
      const [x, y] = [a[i] ?? null, b[i] ?? null];
      if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0);
      return sign * (x < y ? -1 : x > y ? 1 : 0);
    });
  }, [answer, sort]);
  const columns = useMemo(
    () =>
      answer.columns.map((title, i): Column<Value[]> => {
        const isNumeric = numeric.has(i);
        return {
          id: String(i),
          title,
          numeric: isNumeric,
          sort: String(i),
          down: isNumeric,
          // Columns of numbers are as wide as their longest ones; texts share the rest.
          ...(isNumeric ? { width: `${Math.max(90, 9 * Math.min(24, Math.max(title.length + 3, ...answer.rows.slice(0, 200).map((row) => valueText(row[i] ?? null).length + 2))))}px` } : {}),
          cell: (row) => {
            const value = row[i] ?? null;
            if (value === null) return <span class="muted">NULL</span>;
            return typeof value === 'string' ? <span title={value}>{value}</span> : NS.test(title) && typeof value === 'number' && Math.abs(value) >= 1000 ? <span title={duration(value)}>{String(value)}</span> : String(value);
          },
        };
      }),
    [answer],
  );
  const wide = answer.columns.length > 8;
  return (
    <section class="sql-result" aria-label="Result">
      <div class="table-tools">
        <span role="status">
          {count(answer.rows.length)} {answer.rows.length === 1 ? 'row' : 'rows'} in {duration(tookMs * 1e6)}
          {answer.more && <span class="costs">; the limit was reached, there are more</span>}
        </span>
        <div class="choice" role="group" aria-label="Form of the result">
          {(['table', 'chart'] as const).map((kind) => (
            <button type="button" key={kind} aria-pressed={view === kind} onClick={() => setView(kind)} disabled={kind === 'chart' && numeric.size === 0}>
              {kind === 'table' ? 'Table' : 'Chart'}
            </button>
          ))}
        </div>
        <button type="button" onClick={() => saveAs(`${name}.csv`, csvOf(answer.columns, rows))} disabled={rows.length === 0}>
          CSV
        </button>
      </div>
      {view === 'chart' && numeric.size > 0 ? (
        <Chart answer={answer} />
      ) : (
        <div class={wide ? 'sql-table wide' : 'sql-table'}>
          <Table label="Rows" columns={columns} rows={useLocalRows(rows)} rowKey={(_, i) => String(i)} sort={sort} onSort={setSort} keys={false} fill empty="The statement returned no rows." />
        </div>
      )}
    </section>
  );
}
