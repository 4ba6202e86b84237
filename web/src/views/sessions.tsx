// SPDX-License-Identifier: Apache-2.0
// All sessions, newest first.

import { LabelList, Pinned } from '../components/labels';
import { List } from '../components/list';
import { isActive, State } from '../components/state';
import type { Session } from '../types';
import { count, duration, size, time } from '../units';

// What was recorded: the name of imported files, the fleet, or the router.
export function subjectOf(session: Session): string {
  return session.name ?? session.fleet ?? session.router ?? session.dialect ?? '';
}

export function recordedTime(session: Session): string {
  const options = session.options ?? {};
  if (typeof options['steps'] === 'number') return `${options['steps']} steps`;
  return typeof options['duration_ns'] === 'number' ? duration(options['duration_ns']) : '';
}

const STATES = ['active', 'recording', 'collecting', 'complete', 'partial', 'failed', 'cancelled'];

export function Sessions() {
  return (
    <List<Session>
      title="Sessions"
      one="session"
      path="/v1/sessions"
      member="sessions"
      idOf={(row) => row.session}
      placeholder="Search sessions"
      filters={[
        { name: 'state', label: 'State', values: STATES.map((state) => [state, state === 'active' ? 'not over' : state]) },
        { name: 'label', label: 'label' },
      ]}
      events={(kind) => kind.startsWith('session') || kind === 'trace-added'}
      canPin
      canRemove={(row) => !isActive(row.state)}
      compare={(ids) => ({ a: ids[0]!, b: ids[1]! })}
      empty="No session yet. Record one from the fleet, or import files with profctl ingest."
      columns={[
        { id: 'session', title: 'Session', width: '90px', sort: 'session', down: true, cell: (row) => row.session },
        { id: 'subject', title: 'Fleet', cell: (row) => <span title={row.router}>{subjectOf(row)}</span> },
        { id: 'state', title: 'State', width: '130px', sort: 'state', cell: (row) => <State state={row.state} /> },
        {
          id: 'workers',
          title: 'Workers',
          width: '96px',
          numeric: true,
          sort: 'workers',
          down: true,
          help: 'workers whose traces are complete, of all workers',
          cell: (row) => {
            const { targets = 0, complete = 0 } = row.counts;
            return targets === 0 ? <span class="muted">imported</span> : complete === targets ? count(targets) : `${count(complete)} of ${count(targets)}`;
          },
        },
        { id: 'traces', title: 'Traces', width: '80px', numeric: true, sort: 'traces', down: true, cell: (row) => count(row.counts['traces']) },
        { id: 'bytes', title: 'Size', width: '92px', numeric: true, sort: 'bytes', down: true, cell: (row) => size(row.counts['bytes']) },
        { id: 'duration', title: 'Recorded', width: '92px', numeric: true, rare: true, cell: recordedTime },
        {
          id: 'skew',
          title: 'Skew',
          width: '80px',
          numeric: true,
          rare: true,
          sort: 'skew_ns',
          down: true,
          help: 'time between the first and the last start',
          cell: (row) => duration(row.skew_ns),
        },
        { id: 'requested', title: 'Requested', width: '166px', rare: true, sort: 'requested_at', down: true, cell: (row) => time(row.requested_at) },
        {
          id: 'labels',
          title: 'Labels',
          rare: true,
          cell: (row) => (
            <>
              {row.pinned && <Pinned />}
              <LabelList labels={row.labels} list="/sessions" />
            </>
          ),
        },
      ]}
    />
  );
}
