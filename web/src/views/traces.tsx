// SPDX-License-Identifier: Apache-2.0
// All traces, newest first.

import { download, useGet } from '../api';
import { LabelList, Pinned } from '../components/labels';
import { List } from '../components/list';
import { State } from '../components/state';
import type { Column } from '../components/table';
import { distinctFolders } from '../distinct';
import { address } from '../router';
import type { Trace, Usage } from '../types';
import { count, duration, roughly, size, time } from '../units';

const STATES = ['complete', 'truncated', 'empty', 'corrupt', 'unreadable', 'duplicate', 'missing'];

function Store() {
  const { data } = useGet<Usage>('/v1/usage');
  if (!data) return null;
  return (
    <span>
      {size(data.bytes)} of {size(data.max_use)} in the store
    </span>
  );
}

function columnsOf(loaded: Trace[]): Column<Trace>[] {
  const folders = distinctFolders(loaded);
  return [
    { id: 'trace', title: 'Trace', width: '90px', sort: 'trace', down: true, cell: (row) => row.trace },
    {
      id: 'name',
      title: 'Name',
      sort: 'name',
      cell: (row) => (
        <span title={row.origin ?? row.name}>
          {row.host_uuid && <span class="label">{row.host}</span>} {folders.has(row.trace) && <span class="muted">{folders.get(row.trace)}/</span>}
          {row.name}
        </span>
      ),
    },
    {
      id: 'session',
      title: 'Session',
      width: '86px',
      sort: 'session',
      down: true,
      cell: (row) => row.session && <a href={address('/sessions/' + row.session)}>{row.session}</a>,
    },
    { id: 'rank', title: 'Rank', width: '64px', numeric: true, sort: 'rank', cell: (row) => count(row.ranks?.rank) },
    { id: 'device', title: 'GPU', width: '120px', spare: true, cell: (row) => <span title={row.device_name}>{row.device_name}</span> },
    {
      id: 'state',
      title: 'State',
      width: '120px',
      sort: 'state',
      cell: (row) => (
        <span title={row.reason ?? row.columns_reason}>
          <State state={row.state} {...(row.kind === 'trace' ? {} : { text: row.state === 'complete' ? row.kind : `${row.state}, ${row.kind}` })} />
        </span>
      ),
    },
    { id: 'span', title: 'Span', width: '92px', numeric: true, sort: 'span_ns', down: true, cell: (row) => duration(row.span_ns) },
    {
      id: 'slices',
      title: 'Slices',
      help: 'slices and instants',
      width: '84px',
      numeric: true,
      spare: true,
      sort: 'slices',
      down: true,
      cell: (row) => row.slices !== undefined && <span title={count(row.slices)}>{roughly(row.slices)}</span>,
    },
    { id: 'size', title: 'Size', width: '92px', numeric: true, sort: 'size', down: true, cell: (row) => size(row.size) },
    { id: 'recorded', title: 'Recorded', width: '166px', rare: true, sort: 'recorded_at', down: true, cell: (row) => time(row.recorded_at) },
    {
      id: 'labels',
      title: 'Labels',
      width: '130px',
      rare: true,
      cell: (row) => (
        <>
          {row.pinned && <Pinned />}
          <LabelList labels={row.labels} list="/traces" />
        </>
      ),
    },
  ];
}

export function Traces() {
  return (
    <List<Trace>
      title="Traces"
      one="trace"
      path="/v1/traces"
      member="traces"
      idOf={(row) => row.trace}
      placeholder="Search traces"
      filters={[
        { name: 'state', label: 'State', values: STATES.map((state) => [state, state]) },
        { name: 'session', label: 'session' },
        { name: 'worker', label: 'worker' },
        { name: 'label', label: 'label' },
      ]}
      events={(kind) => kind.startsWith('trace')}
      canPin
      onDownload={(row) => download(`/v1/traces/${row.trace}/file`)}
      compare={(ids) => ({ a: ids[0]!, b: ids[1]! })}
      empty="No trace yet. Record a session, or import files with profctl ingest."
      about={<Store />}
      columns={columnsOf}
    />
  );
}
