// SPDX-License-Identifier: Apache-2.0
// All benchmark runs, newest first.

import { LabelList } from '../components/labels';
import { List } from '../components/list';
import { isActive, State } from '../components/state';
import { address } from '../router';
import { figure } from '../run/sweep';
import type { Run } from '../types';
import { count, duration, time } from '../units';

const STATES = ['active', 'loading', 'complete', 'partial', 'failed', 'cancelled'];

// "concurrency 4", "12 requests/s"
function loadOf(run: Run): string {
  const { concurrency, rate } = run.workload;
  if (rate !== undefined) return `${String(rate)} requests/s`;
  return concurrency === undefined ? '' : `concurrency ${String(concurrency)}`;
}

function metric(run: Run, name: string, of: string): string {
  const value = figure(run, name, of);
  return value === null ? '' : duration(value * 1e6);
}

function throughputOf(run: Run): string {
  const value = run.throughput?.['output_tokens_per_s'];
  return typeof value === 'number' ? count(value) : '';
}

export function Runs() {
  return (
    <List<Run>
      title="Benchmark runs"
      one="run"
      path="/v1/runs"
      member="runs"
      idOf={(row) => `r${row.run}`}
      placeholder="Search runs"
      filters={[
        { name: 'state', label: 'State', values: STATES.map((state) => [state, state === 'active' ? 'not over' : state]) },
        { name: 'label', label: 'label' },
      ]}
      events={(kind) => kind === 'run'}
      canPin={false}
      canRemove={(row) => !isActive(row.state)}
      compare={(ids) => ({ a: ids[0]!, b: ids[1]! })}
      empty="No benchmark run yet. profctl bench sends one."
      columns={[
        { id: 'run', title: 'Run', width: '80px', sort: 'run', down: true, cell: (row) => `r${row.run}` },
        { id: 'model', title: 'Model', sort: 'model', cell: (row) => <span title={row.router}>{row.model}</span> },
        {
          id: 'state',
          title: 'State',
          width: '120px',
          sort: 'state',
          cell: (row) => (
            <span title={row.reason}>
              <State state={row.state} />
            </span>
          ),
        },
        { id: 'load', title: 'Load', width: '130px', cell: loadOf },
        {
          id: 'requests',
          title: 'Requests',
          width: '100px',
          numeric: true,
          help: 'requests that succeeded, of all requests',
          cell: ({ requests }) => {
            const all = requests.success + requests.incomplete + requests.error;
            return requests.success === all ? count(all) : <span class="costs">{`${count(requests.success)} of ${count(all)}`}</span>;
          },
        },
        { id: 'ttft', title: 'TTFT p50', width: '92px', numeric: true, help: 'median time to first token', cell: (row) => metric(row, 'ttft_ms', 'p50') },
        { id: 'ttft99', title: 'TTFT p99', width: '92px', numeric: true, rare: true, help: '99th percentile of the time to first token, of 100 requests or more', cell: (row) => metric(row, 'ttft_ms', 'p99') },
        { id: 'tpot', title: 'TPOT p50', width: '92px', numeric: true, spare: true, help: 'median time per output token', cell: (row) => metric(row, 'tpot_ms', 'p50') },
        { id: 'throughput', title: 'Tokens/s', width: '92px', numeric: true, help: 'output tokens per second', cell: throughputOf },
        { id: 'session', title: 'Session', width: '84px', spare: true, cell: (row) => row.session !== undefined && <a href={address(`/sessions/s${row.session}`)}>s{row.session}</a> },
        { id: 'requested', title: 'Requested', width: '166px', rare: true, sort: 'requested_at', down: true, cell: (row) => time(row.requested_at) },
        { id: 'labels', title: 'Labels', width: '150px', rare: true, cell: (row) => <LabelList labels={row.labels} list="/runs" /> },
      ]}
    />
  );
}
