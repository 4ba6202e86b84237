// SPDX-License-Identifier: Apache-2.0
// One session: while it records, a row for each worker with ranks, bytes and skew, and a button that stops it; afterwards
// the findings of all ranks.

import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { send, useAction, useGet } from '../api';
import { useCommands } from '../commands';
import { AbsentNote } from '../components/absent';
import { Confirm } from '../components/confirm';
import { FindingList } from '../components/finding_list';
import { Icon } from '../components/icon';
import { LabelDialog, LabelList } from '../components/labels';
import { ProblemBox } from '../components/problem';
import { State } from '../components/state';
import { type Column, Table } from '../components/table';
import { shortName } from '../fleet_data';
import { absentOf, type MissingHost } from '../hosts';
import { useKeys } from '../keys';
import { useCan } from '../me';
import { address, navigate } from '../router';
import { togetherOf } from '../reports';
import { useLocalRows } from '../rows';
import { inRankOrder, isOver, useFindings, useLive } from '../session_data';
import type { Session, Target, Trace } from '../types';
import { count, duration, plural, size, time } from '../units';
import type { ViewProps } from '../views';
import { recordedTime, subjectOf } from './sessions';

const FINDINGS_MAX = 12;
const TICK_MS = 100;
// Of a session of more traces the first are shown; the list has all.
const TRACES_MAX = 1000;
const NO_TRACES: Trace[] = [];

function traceName(trace: Trace): string {
  const rank = trace.ranks?.rank;
  return [`${trace.trace}`, rank !== undefined && `rank ${rank}`, trace.kind !== 'trace' && trace.kind, trace.state, size(trace.size)].filter(Boolean).join(', ');
}

// One square for each rank: its trace, or the place where it will be.
function Ranks({ target, traces }: { target: Target; traces: Trace[] }) {
  const over = ['complete', 'partial', 'failed', 'cancelled'].includes(target.state);
  const expected = target.ranks_expected ?? 0;
  const missing = Math.max(0, expected - traces.filter((trace) => trace.kind === 'trace').length);
  return (
    <span class="ranks">
      {inRankOrder(traces).map((trace, i) => (
        <a key={trace.trace} href={address('/traces/' + trace.trace)} title={traceName(trace)} class={['complete', 'truncated'].includes(trace.state) ? undefined : 'lost'}>
          {trace.kind === 'trace' ? (trace.ranks?.rank ?? i) : trace.kind === 'frontend' ? 'F' : 'A'}
        </a>
      ))}
      {Array.from({ length: missing }, (_, i) => (
        <span key={`missing ${i}`} class={over ? 'lost' : 'waits'} title={over ? 'no trace of this rank' : 'this rank has no trace yet'}>
          {over ? '×' : '·'}
        </span>
      ))}
    </span>
  );
}

function Targets({ session, traces }: { session: Session; traces: Trace[] }) {
  const first = Math.min(...(session.targets ?? []).map((target) => target.start_sent_at ?? Infinity));
  const byId = useMemo(() => new Map(traces.map((trace) => [trace.trace, trace])), [traces]);
  const columns: Column<Target>[] = [
    { id: 'worker', title: 'Worker', width: '190px', cell: (row) => <b title={row.worker}>{row.name ?? shortName(row.worker)}</b> },
    { id: 'host', title: 'Host', width: '110px', spare: true, cell: (row) => row.host },
    { id: 'role', title: 'Role', width: '84px', rare: true, cell: (row) => row.role },
    {
      id: 'state',
      title: 'State',
      width: '130px',
      cell: (row) => <State state={row.state} />,
    },
    {
      id: 'ranks',
      title: 'Ranks',
      help: 'a square is the trace of a rank; F: of the frontend, A: another file, such as a table',
      cell: (row) => <Ranks target={row} traces={(row.traces ?? []).map((id) => byId.get(id) ?? { trace: id, kind: 'trace', state: 'complete', name: id, stored: true, size: 0 })} />,
    },
    { id: 'bytes', title: 'Size', width: '92px', numeric: true, cell: (row) => size(row.bytes ?? row.bytes_seen) },
    {
      id: 'start',
      title: 'Start',
      width: '92px',
      numeric: true,
      rare: true,
      help: 'when its start was sent, after the first one',
      cell: (row) => row.start_sent_at !== undefined && Number.isFinite(first) && `+${duration(row.start_sent_at - first)}`,
    },
    {
      id: 'answer',
      title: 'Start took',
      width: '92px',
      numeric: true,
      spare: true,
      help: 'until the worker answered its start',
      cell: (row) => row.start_sent_at !== undefined && row.start_answered_at !== undefined && duration(row.start_answered_at - row.start_sent_at),
    },
    {
      id: 'note',
      title: 'Note',
      cell: (row) => {
        const text = row.failure ?? row.silence ?? (row.stop_pending && !['starting', 'recording'].includes(row.state) ? 'stop pending' : '');
        return (
          <span class={row.failure ? 'costs' : 'muted'} title={[text, row.remedy].filter(Boolean).join('. ')}>
            {text}
          </span>
        );
      },
    },
  ];
  const missing = (session.targets ?? []).some((row) => (row.ranks_expected ?? 0) > (row.traces ?? []).filter((id) => byId.get(id)?.kind === 'trace').length);
  const legend = [
    traces.some((trace) => trace.kind === 'frontend') && 'F: trace of the frontend',
    traces.some((trace) => trace.kind === 'attachment') && 'A: another file',
    missing && (isOver(session) ? '×: no trace of the rank' : '·: no trace of the rank yet'),
  ].filter(Boolean);
  return (
    <>
      <Table label="Workers of the session" columns={columns} rows={useLocalRows(session.targets ?? [])} rowKey={(row) => String(row.target)} />
      {legend.length > 0 && <p class="hint">{legend.join(', ')}.</p>}
    </>
  );
}

function Imported({ traces, elsewhere }: { traces: Trace[]; elsewhere: boolean }) {
  const columns: Column<Trace>[] = [
    { id: 'trace', title: 'Trace', width: '90px', cell: (row) => row.trace },
    { id: 'rank', title: 'Rank', width: '70px', numeric: true, cell: (row) => count(row.ranks?.rank) },
    ...(elsewhere ? [{ id: 'host', title: 'Host', width: '110px', cell: (row: Trace) => row.host }] : []),
    { id: 'name', title: 'Name', cell: (row) => row.name },
    { id: 'device', title: 'GPU', width: '140px', rare: true, cell: (row) => row.device_name },
    { id: 'state', title: 'State', width: '120px', cell: (row) => <State state={row.state} /> },
    { id: 'span', title: 'Span', width: '92px', numeric: true, cell: (row) => duration(row.span_ns) },
    { id: 'slices', title: 'Slices', help: 'slices and instants', width: '92px', numeric: true, rare: true, cell: (row) => count(row.slices) },
    { id: 'size', title: 'Size', width: '92px', numeric: true, cell: (row) => size(row.size) },
  ];
  const byRank = useMemo(() => [...traces].sort((a, b) => (a.ranks?.rank ?? 1e9) - (b.ranks?.rank ?? 1e9)), [traces]);
  return <Table label={elsewhere ? 'Traces of the session on other hosts' : 'Traces of the session'} columns={columns} rows={useLocalRows(byRank)} rowKey={(row) => row.trace} href={(row) => address('/traces/' + row.trace)} />;
}

// How much of the recording is over; the clock of the browser may be off, so it never passes the end.
function Progress({ session }: { session: Session }) {
  const [now, setNow] = useState(Date.now());
  const length = session.options?.['duration_ns'];
  const running = session.state === 'recording' && typeof length === 'number' && session.recording_at !== undefined;
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [running]);
  if (!running) return null;
  const done = Math.max(0, Math.min(length, now * 1e6 - session.recording_at!));
  return (
    <div>
      <p class="hint">
        {(done / 1e9).toFixed(1)} of {duration(length)}
      </p>
      <div class="progress" role="progressbar" aria-label="Recorded" aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round((100 * done) / length)}>
        <span style={{ width: `${(100 * done) / length}%` }} />
      </div>
    </div>
  );
}

function Facts({ session }: { session: Session }) {
  const { counts } = session;
  const pending = session.targets?.filter((target) => target.stop_pending).length ?? 0;
  const skipped = Array.isArray(session.skipped) ? session.skipped.length : (session.skipped ?? 0);
  const facts: [string, ComponentChildren][] = [
    ['Workers', counts['targets'] ? `${count(counts['complete'] ?? 0)} of ${count(counts['targets'])} complete` : 'imported files'],
    ['Traces', `${count(counts['traces'])}, ${size(counts['bytes'])}`],
    ['Length', recordedTime(session)],
    ['Skew of the starts', session.skew_ns === undefined ? '' : duration(session.skew_ns) + (session.skew_error_ns ? ` ± ${duration(session.skew_error_ns)}` : '')],
    ['Stops pending', pending > 0 ? count(pending) : ''],
    ['Skipped workers', skipped > 0 ? count(skipped) : ''],
    ['Router', session.router],
    ['Requested', `${time(session.requested_at)} by ${session.requested_by}`],
    ['Coordinator', session.coordinator_name],
    ['Benchmark run', session.run !== undefined && <a href={address(`/runs/r${session.run}`)}>r{session.run}</a>],
    ['Labels', Object.keys(session.labels ?? {}).length > 0 && <LabelList labels={session.labels} list="/sessions" />],
  ];
  return (
    <dl class="facts-list panel">
      {facts
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function Remarks({ session }: { session: Session }) {
  const skipped = Array.isArray(session.skipped) ? session.skipped.map((each) => ({ worker: each.worker, text: each.reason, remedy: each.remedy })) : [];
  const remarks = [...(session.remarks ?? []), ...skipped];
  if (remarks.length === 0) return null;
  return (
    <details class="why">
      <summary>{plural(remarks.length, 'remark')}</summary>
      <dl>
        {remarks.map((remark) => (
          <div key={(remark.worker ?? '') + remark.text}>
            {remark.worker && <dt>{shortName(remark.worker)}</dt>}
            <dd>
              {remark.text}
              {remark.remedy && <p class="hint">{remark.remedy}</p>}
            </dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

// known: hosts that the view names already.
function SessionFindings({ id, traces, known }: { id: string; traces: Trace[]; known: MissingHost[] }) {
  const { together, note } = useMemo(() => togetherOf(traces), [traces]);
  const { findings, absent, problem } = useFindings(traces.length > 0 ? id : null, FINDINGS_MAX, together);
  const names = new Set(known.map((each) => each.host));
  const shown = findings?.filter(({ row }) => row['severity'] !== 'info') ?? [];
  const ranks = useMemo(() => new Map(traces.map((trace) => [trace.trace, trace.ranks?.rank])), [traces]);
  return (
    <section class="panel" aria-label="Findings">
      <h2>Findings of all ranks</h2>
      {!findings && !problem && <p class="hint">Analyzing all ranks…</p>}
      <ProblemBox problem={problem} />
      <AbsentNote absent={absent && { ...absent, hosts: absent.hosts.filter((each) => !names.has(each.host)) }} />
      {note && <p class="hint">{note}</p>}
      {findings && shown.length === 0 && <p class="hint">No finding: no rule applies to what these traces contain.</p>}
      {shown.length > 0 && <FindingList session={id} findings={shown} rankOf={(trace) => ranks.get(trace)} />}
    </section>
  );
}

export function SessionView({ parts }: ViewProps) {
  const id = parts['session']!;
  const path = '/v1/sessions/' + encodeURIComponent(id);
  const { data: session, problem, reload } = useLive<Session>(path, (each) => !isOver(each), id);
  const traceCount = session?.counts['traces'] ?? 0;
  const { data: traces } = useGet<{ traces: Trace[]; missing_hosts?: MissingHost[] }>(
    // The fragment is not sent: it makes the request another one when there are more traces. Of a part of a session, other hosts
    // may have traces where this one has none.
    traceCount > 0 || session?.coordinator_name ? `/v1/traces?session=${encodeURIComponent(id)}&limit=${TRACES_MAX}#${traceCount}` : null,
  );
  const [dialog, setDialog] = useState<'labels' | 'remove' | null>(null);
  const mayChange = useCan('operate');
  const mayRemove = useCan('admin');
  const stop = useAction(async () => {
    await send('POST', path + '/stop');
    reload();
  });
  const pin = useAction(async () => {
    await send(session?.pinned ? 'DELETE' : 'PUT', path + '/pin');
    reload();
  });
  const over = session !== null && isOver(session);
  // Not of its workers here: imported, or of workers of other hosts where this one does not coordinate.
  const others = useMemo(() => {
    const targets = session?.targets ?? [];
    if (targets.length > 0 && !session?.coordinator_name) return NO_TRACES;
    const mine = new Set(targets.flatMap((target) => target.traces ?? []));
    return (traces?.traces ?? NO_TRACES).filter((trace) => !mine.has(trace.trace));
  }, [session, traces]);
  const canStop = mayChange && session !== null && ['requested', 'starting', 'recording'].includes(session.state);
  const compare = () => navigate('/compare', { a: id });
  useKeys(`Session ${id}`, [
    ...(canStop ? [{ keys: 's', label: 'Stop the recording', run: () => stop.run() }] : []),
    ...(mayChange ? [{ keys: 'p', label: 'Pin, unpin', run: () => pin.run() }] : []),
    ...(mayChange ? [{ keys: 'l', label: 'Change labels', run: () => setDialog('labels') }] : []),
    { keys: 'a', label: 'All ranks, aligned', run: () => navigate(`/sessions/${id}/ranks`) },
    { keys: 'm', label: 'Compare with another session', run: compare },
  ]);
  useCommands([
    ...(canStop ? [{ title: `Stop session ${id}`, hint: 's', run: () => stop.run() }] : []),
    { title: `Show all ranks of ${id}`, hint: 'a', run: () => navigate(`/sessions/${id}/ranks`) },
    { title: `Show the traces of ${id} as a list`, run: () => navigate('/traces', { session: id }) },
  ]);
  if (!session) return problem ? <ProblemBox problem={problem} onRetry={reload} /> : <p class="empty">Loading…</p>;
  return (
    <div class="session">
      <div class="head">
        <h1>Session {id}</h1>
        <State state={session.state} />
        <span class="facts">
          {subjectOf(session)}
          {session.pinned && <span class="label pinned">pinned</span>}
        </span>
        <div class="actions">
          {canStop && (
            <button type="button" class="danger" onClick={() => stop.run()} disabled={stop.busy}>
              <Icon name="stop" />
              {session.state === 'recording' ? 'Stop' : 'Cancel'}
            </button>
          )}
          {traceCount > 0 && (
            <a class="button" href={address(`/sessions/${id}/ranks`)}>
              All ranks
            </a>
          )}
          {traceCount > 0 && (
            <a class="button" href={address('/traces', { session: id })}>
              Traces
            </a>
          )}
          {over && (
            <button type="button" onClick={compare}>
              <Icon name="compare" />
              Compare…
            </button>
          )}
          {mayChange && (
            <button type="button" onClick={() => pin.run()} disabled={pin.busy} aria-pressed={session.pinned === true}>
              <Icon name="pin" />
              {session.pinned ? 'Unpin' : 'Pin'}
            </button>
          )}
          {mayChange && (
            <button type="button" onClick={() => setDialog('labels')}>
              <Icon name="tag" />
              Labels
            </button>
          )}
          {mayRemove && over && (
            <button type="button" class="danger" onClick={() => setDialog('remove')}>
              <Icon name="trash" />
              Delete
            </button>
          )}
        </div>
      </div>
      <ProblemBox problem={problem ?? stop.problem ?? pin.problem} />
      {session.reason && (
        <div class={session.state === 'failed' ? 'problem' : 'panel'}>
          <strong>{session.reason}</strong>
          {session.remedy && <p>{session.remedy}</p>}
        </div>
      )}
      {session.waiting_for && <p class="hint">Waits for {session.waiting_for}</p>}
      <Progress session={session} />
      <Facts session={session} />
      <AbsentNote absent={absentOf(traces)} />
      {(session.targets?.length ?? 0) > 0 && <Targets session={session} traces={traces?.traces ?? []} />}
      {traces && others.length > 0 && <Imported traces={others} elsewhere={session.coordinator_name !== undefined} />}
      <Remarks session={session} />
      {over && traces && traces.traces.length > 0 && <SessionFindings id={id} traces={traces.traces} known={traces?.missing_hosts ?? []} />}
      {dialog === 'labels' && (
        <LabelDialog
          paths={[path]}
          before={session.labels ?? {}}
          onClose={() => {
            setDialog(null);
            reload();
          }}
        />
      )}
      {dialog === 'remove' && (
        <Confirm
          title={`Delete session ${id}?`}
          text={`Its ${plural(traceCount, 'trace')} and their stored files (${size(session.counts['disk_bytes'])}) are deleted. This cannot be undone.`}
          verb="Delete"
          action={() => send('DELETE', path)}
          onClose={(done) => {
            setDialog(null);
            if (done) navigate('/sessions');
          }}
        />
      )}
    </div>
  );
}
