// SPDX-License-Identifier: Apache-2.0
// Every request of a run: sorted and filtered here, as all of them are in the tab for the plots.

import { useMemo, useState } from 'preact/hooks';
import { type Column, Table } from '../components/table';
import { csvOf, saveAs } from '../csv';
import { useLocalRows } from '../rows';
import { count, duration, moment } from '../units';
import type { RunRequest } from './requests';

const NUMBERS: Record<string, (request: RunRequest) => number | null | undefined> = {
  index: (request) => request.index,
  sent: (request) => request.sent_ns,
  ttft: (request) => request.ttft_ns,
  tpot: (request) => request.tpot_ns,
  e2e: (request) => request.e2e_ns,
  input: (request) => request.input_tokens,
  output: (request) => request.output_tokens,
  lateness: (request) => request.lateness_ns,
};

const COLUMNS: Column<RunRequest>[] = [
  { id: 'index', title: '#', width: '64px', numeric: true, sort: 'index', cell: (row) => count(row.index) },
  { id: 'sent', title: 'Sent', width: '96px', numeric: true, sort: 'sent', cell: (row) => (typeof row.sent_ns === 'number' ? moment(row.sent_ns, 1e5) : '') },
  { id: 'ttft', title: 'TTFT', width: '84px', numeric: true, sort: 'ttft', down: true, cell: (row) => duration(row.ttft_ns) },
  { id: 'tpot', title: 'TPOT', width: '84px', numeric: true, sort: 'tpot', down: true, rare: true, cell: (row) => duration(row.tpot_ns) },
  { id: 'e2e', title: 'E2E', width: '84px', numeric: true, sort: 'e2e', down: true, cell: (row) => duration(row.e2e_ns) },
  { id: 'lateness', title: 'Late by', width: '84px', numeric: true, sort: 'lateness', down: true, rare: true, help: 'time between when it was due and when it was sent', cell: (row) => duration(row.lateness_ns) },
  { id: 'input', title: 'In', width: '74px', numeric: true, sort: 'input', down: true, rare: true, help: 'input tokens', cell: (row) => count(row.input_tokens) },
  { id: 'output', title: 'Out', width: '74px', numeric: true, sort: 'output', down: true, help: 'output tokens', cell: (row) => count(row.output_tokens) },
  {
    id: 'outcome',
    title: 'Outcome',
    width: '120px',
    cell: (row) => (
      <span class={row.outcome === 'success' ? undefined : 'costs'} title={row.error ?? undefined}>
        {row.outcome}
        {row.cold && ', cold'}
      </span>
    ),
  },
  { id: 'target', title: 'Target', rare: true, cell: (row) => row.target },
];

const CSV = ['index', 'target', 'cold', 'intended_ns', 'sent_ns', 'first_ns', 'last_ns', 'end_ns', 'ttft_ns', 'tpot_ns', 'e2e_ns', 'lateness_ns', 'input_tokens', 'output_tokens', 'outcome', 'status', 'error'];

export function RequestsTable({ run, requests, more }: { run: string; requests: RunRequest[]; more: boolean }) {
  const [sort, setSort] = useState('index');
  const [failed, setFailed] = useState(false);
  const bad = useMemo(() => requests.filter((request) => request.outcome !== 'success').length, [requests]);
  const rows = useMemo(() => {
    const of = NUMBERS[sort.replace('-', '')]!;
    const sign = sort.startsWith('-') ? -1 : 1;
    const kept = failed ? requests.filter((request) => request.outcome !== 'success') : [...requests];
    return kept.sort((a, b) => {
      const [x, y] = [of(a), of(b)];
      // What a request lacks comes last in both orders.
      if (typeof x !== 'number' || typeof y !== 'number') return (typeof x === 'number' ? 0 : 1) - (typeof y === 'number' ? 0 : 1);
      return sign * (x - y) || a.index - b.index;
    });
  }, [requests, sort, failed]);
  return (
    <>
      <div class="table-tools">
        {bad > 0 && (
          <label>
            <input type="checkbox" checked={failed} onChange={(event) => setFailed(event.currentTarget.checked)} /> only the {count(bad)} that did not succeed
          </label>
        )}
        {more && <span class="hint">The first {count(requests.length)} requests.</span>}
        <button
          type="button"
          onClick={() =>
            saveAs(
              `${run}-requests.csv`,
              csvOf(
                CSV,
                rows.map((row) => CSV.map((name) => row[name as keyof RunRequest])),
              ),
            )
          }
        >
          CSV
        </button>
      </div>
      <div class="requests">
        <Table label="All requests" columns={COLUMNS} rows={useLocalRows(rows)} rowKey={(row) => String(row.index)} sort={sort} onSort={setSort} fill keys={false} />
      </div>
    </>
  );
}
