// SPDX-License-Identifier: Apache-2.0
// The numbers of an area: by name, from profd, exact whatever the zoom.

import { useEffect, useState } from 'preact/hooks';
import { asProblem, isAbort, type Problem } from '../api';
import { Share } from '../components/bar';
import { ProblemBox } from '../components/problem';
import { type Column, Table } from '../components/table';
import { useLocalRows } from '../rows';
import { count, duration, slices } from '../units';
import { joinRanges, mergeSelections } from './area';
import { sliceColor } from './names';
import type { Area } from './picture';
import type { SelectionResult, SelectionRow, TimelineSource } from './source';

const TOP = 500;

export function AreaTable({ source, area, onName }: { source: TimelineSource; area: Area; onName: (name: string) => void }) {
  const [state, setState] = useState<{ result: SelectionResult | null; problem: Problem | null }>({ result: null, problem: null });
  const [sort, setSort] = useState('-sum');
  const ranges = joinRanges(area.lanes);
  const lanes = ranges.map(([a, b]) => `${a}-${b}`);
  useEffect(() => {
    const control = new AbortController();
    Promise.all(lanes.map((each) => source.selection(area.from, area.to, each, TOP, control.signal))).then(
      (parts) => setState({ result: mergeSelections(area.from, area.to, parts), problem: null }),
      (error: unknown) => {
        if (!isAbort(error)) setState({ result: null, problem: asProblem(error) });
      },
    );
    return () => control.abort();
  }, [source, area.from, area.to, lanes.join()]);

  const { result, problem } = state;
  const most = Math.max(...(result?.rows.map((row) => row.sum) ?? []), 1);
  const column = sort.replace('-', '') as keyof SelectionRow;
  const rows = [...(result?.rows ?? [])].sort((a, b) => {
    const [x, y] = [a[column], b[column]];
    const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
    return sort.startsWith('-') ? -order : order;
  });
  const time = (id: 'mean' | 'min' | 'max' | 'self', title: string, help: string): Column<SelectionRow> => ({
    id,
    title,
    help,
    width: '92px',
    numeric: true,
    sort: id,
    down: true,
    rare: id !== 'mean',
    cell: (row) => duration(row[id]),
  });
  const columns: Column<SelectionRow>[] = [
    {
      id: 'name',
      title: 'Name',
      sort: 'name',
      cell: (row) => (
        <button type="button" class="link" title={row.name} onClick={() => onName(row.name)}>
          <i class="dot" style={{ background: sliceColor(row.name, row.class) }} /> {row.name}
        </button>
      ),
    },
    { id: 'count', title: 'Count', width: '76px', numeric: true, sort: 'count', down: true, cell: (row) => count(row.count) },
    { id: 'sum', title: 'Sum', help: 'total duration within the area', width: '130px', sort: 'sum', down: true, cell: (row) => <Share ratio={row.sum / most}>{duration(row.sum)}</Share> },
    time('mean', 'Mean', 'mean duration'),
    time('min', 'Min', 'shortest'),
    time('max', 'Max', 'longest'),
    time('self', 'Self', 'time without what is nested in it'),
  ];
  return (
    <section class="area" aria-label="Selected area">
      <header>
        <h2>{duration(area.to - area.from)}</h2>
        {result && (
          <span class="muted">
            {slices(result.count)}, busy {duration(result.busy)}
          </span>
        )}
      </header>
      <ProblemBox problem={problem} />
      <Table label="Slices of the area, by name" columns={columns} rows={useLocalRows(rows)} rowKey={(_row, i) => `${i}`} sort={sort} onSort={setSort} fill keys={false} empty={result ? 'No slices in this area.' : 'Loading…'} />
    </section>
  );
}
