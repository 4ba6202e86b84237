// SPDX-License-Identifier: Apache-2.0
// Home: whether the fleet is healthy, what is odd now, what the last session found, and a button that records.

import { useMemo, useState } from 'preact/hooks';
import { Figure, Spark } from '../components/spark';
import { Share } from '../components/bar';
import { ProblemBox } from '../components/problem';
import { Record } from '../components/record';
import { State } from '../components/state';
import { type Column, Table } from '../components/table';
import { fleetKey, type History, shortName, useFleet } from '../fleet_data';
import { useCan } from '../me';
import { number, text } from '../reports';
import { address, navigate, setParameters, usePlace } from '../router';
import { useLocalRows } from '../rows';
import { isOver, useFindings, useLive } from '../session_data';
import type { Fleet, FleetState, FleetWorker, Odd, Session } from '../types';
import { ago, count, duration, percent, plural, size } from '../units';
import { subjectOf } from './sessions';

const STATE_TEXT: { [state in FleetWorker['state']]: string } = { ok: 'ok', down: 'down', unprofilable: 'cannot be recorded' };

function Health({ state, history }: { state: FleetState; history: History }) {
  const { workers } = state;
  const now = history.totals[history.totals.length - 1];
  const of = (name: FleetWorker['state']) => workers.filter((worker) => worker.state === name).length;
  const notes = [of('ok') > 0 && `${count(of('ok'))} ok`, of('down') > 0 && `${count(of('down'))} down`, of('unprofilable') > 0 && `${count(of('unprofilable'))} cannot be recorded`];
  const kvMax = Math.max(...workers.map((worker) => worker.kv_use ?? 0));
  return (
    <section class="figures" aria-label="Figures of the fleet">
      <Figure label="Workers" value={count(workers.length)} note={notes.filter(Boolean).join(', ')} />
      <Figure label="Running requests" value={count(now?.running)} values={history.totals.map((each) => each.running)} />
      <Figure label="Waiting requests" value={count(now?.waiting)} values={history.totals.map((each) => each.waiting)} costs={(now?.waiting ?? 0) > (now?.running ?? 0)} />
      <Figure label="KV cache in use" value={percent(now?.kv_use)} values={history.totals.map((each) => each.kv_use)} max={1} {...(kvMax > 0 ? { note: `at most ${percent(kvMax)}` } : {})} />
      <Figure label="TTFT, median" value={duration(now?.ttft)} values={history.totals.map((each) => each.ttft)} />
      <Figure label="Output" value={now?.tokens === undefined ? '' : count(now.tokens)} unit="tokens/s" values={history.totals.map((each) => each.tokens)} />
    </section>
  );
}

function OddList({ odd, workers }: { odd: Odd[]; workers: FleetWorker[] }) {
  return (
    <section class="panel" aria-label="Unusual now">
      <h2>Unusual now</h2>
      {odd.length === 0 ? (
        <p class="hint">Nothing unusual: {plural(workers.length, 'worker answers', 'workers answer')} as expected.</p>
      ) : (
        <ul class="odd">
          {odd.map((each) => {
            const remedy = each.remedy ?? workers.find((one) => one.worker === each.worker)?.remedy;
            return (
              <li key={(each.worker ?? '') + each.kind}>
                <b>{each.worker ? shortName(each.worker) : 'Fleet'}</b>
                <span class="costs">{each.what}</span>
                <small>since {duration(Math.max(0, Date.now() * 1e6 - each.since_at))}</small>
                {remedy && <p class="hint">{remedy}</p>}
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}

function LastSession() {
  const { data } = useLive<{ sessions: Session[] }>('/v1/sessions?limit=20', ({ sessions }) => sessions.some((each) => !isOver(each)));
  const active = data?.sessions.filter((each) => !isOver(each)) ?? [];
  const last = data?.sessions.find((each) => isOver(each) && (each.counts['traces'] ?? 0) > 0);
  const { findings, absent, problem } = useFindings(last?.session ?? null, 3);
  const worst = findings?.find(({ row }) => number(row, 'cost_ns') > 0)?.row;
  return (
    <section class="panel" aria-label="Last session">
      <h2>Last session</h2>
      {active.map((each) => (
        <p key={each.session}>
          <a href={address('/sessions/' + each.session)}>{each.session}</a> <State state={each.state} /> {subjectOf(each)}
        </p>
      ))}
      {data && !last && <p class="hint">No session has traces yet.</p>}
      {last && (
        <>
          <p>
            <a href={address('/sessions/' + last.session)}>
              <b>{last.session}</b>
            </a>{' '}
            <State state={last.state} /> {subjectOf(last)}{' '}
            <span class="muted">
              {plural(last.counts['traces'] ?? 0, 'trace')}, {size(last.counts['bytes'])}, {ago(last.finished_at ?? last.requested_at)}
            </span>
          </p>
          {worst && (
            <a class="worst" href={address('/sessions/' + last.session)}>
              <span>{text(worst, 'what')}</span>
              <b class="costs">{duration(number(worst, 'cost_ns'))}</b>
            </a>
          )}
          {findings && !worst && <p class="hint">No finding costs time.</p>}
          {absent && absent.hosts.length > 0 && <p class="hint">Without {absent.hosts.map((each) => each.host).join(', ')}, which did not answer.</p>}
          {!findings && !problem && <p class="hint">Analyzing all ranks…</p>}
          {problem && <p class="hint">{problem.detail}</p>}
        </>
      )}
    </section>
  );
}

const SORTS: { [name: string]: (worker: FleetWorker) => number | string } = {
  worker: (worker) => worker.worker,
  host: (worker) => worker.host ?? '',
  state: (worker) => worker.state,
  engine: (worker) => worker.engine,
  role: (worker) => worker.role,
  running: (worker) => worker.running ?? -1,
  waiting: (worker) => worker.waiting ?? -1,
  kv: (worker) => worker.kv_use ?? -1,
  ttft: (worker) => worker.ttft_p50_ns ?? -1,
  tokens: (worker) => worker.tokens_per_s ?? -1,
};

function sorted(workers: FleetWorker[], sort: string): FleetWorker[] {
  const key = SORTS[sort.replace(/^-/, '')];
  if (!key) return workers;
  const sign = sort.startsWith('-') ? -1 : 1;
  return [...workers].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    return x < y ? -sign : x > y ? sign : 0;
  });
}

interface WorkersProps {
  state: FleetState;
  history: History;
  chosen: Set<string>;
  onChoose: (worker: string) => void;
}

function Workers({ state, history, chosen, onChoose }: WorkersProps) {
  const { query } = usePlace();
  const sort = query.get('sort') ?? '';
  const several = state.fleets.length > 1;
  const hosts = new Set(state.workers.map((worker) => worker.host)).size > 1;
  const odd = new Set(state.odd.map((each) => each.worker));
  const columns: Column<FleetWorker>[] = [
    {
      id: 'chosen',
      title: '',
      help: 'selected',
      width: '34px',
      plain: true,
      cell: (row) => (
        <input type="checkbox" aria-label={`Select ${shortName(row.worker)}`} checked={chosen.has(row.worker)} disabled={row.state !== 'ok'} onChange={() => onChoose(row.worker)} />
      ),
    },
    {
      id: 'worker',
      title: 'Worker',
      width: '170px',
      sort: 'worker',
      cell: (row) => (
        <b title={row.worker} class={odd.has(row.worker) ? 'costs' : undefined}>
          {shortName(row.worker)}
        </b>
      ),
    },
    ...(several ? [{ id: 'fleet', title: 'Fleet', width: '84px', rare: true, cell: (row: FleetWorker) => row.fleet }] : []),
    ...(hosts ? [{ id: 'host', title: 'Host', width: '84px', sort: 'host', rare: true, cell: (row: FleetWorker) => row.host }] : []),
    {
      id: 'state',
      title: 'State',
      width: '156px',
      sort: 'state',
      cell: (row) =>
        row.busy_session ? (
          <a href={address('/sessions/' + row.busy_session)}>
            <State state="recording" text={`recording ${row.busy_session}`} />
          </a>
        ) : (
          <State state={row.state} text={STATE_TEXT[row.state]} />
        ),
    },
    { id: 'engine', title: 'Engine', width: '116px', sort: 'engine', cell: (row) => `${row.engine} ${row.version ?? ''}` },
    { id: 'role', title: 'Role', width: '84px', sort: 'role', rare: true, cell: (row) => row.role },
    { id: 'model', title: 'Model', spare: true, cell: (row) => <span title={row.model}>{row.model}</span> },
    { id: 'running', title: 'Running', width: '86px', numeric: true, sort: 'running', down: true, help: 'requests that run', cell: (row) => count(row.running) },
    {
      id: 'waiting',
      title: 'Waiting',
      width: '112px',
      numeric: true,
      sort: 'waiting',
      down: true,
      help: 'waiting requests, now and over time',
      cell: (row) => (
        <span class="with-spark">
          {(row.waiting ?? 0) > 0 && <Spark values={history.waiting.get(row.worker) ?? []} />}
          {count(row.waiting)}
        </span>
      ),
    },
    {
      id: 'kv',
      title: 'KV cache',
      width: '96px',
      sort: 'kv',
      down: true,
      help: 'part of the KV cache that is in use',
      cell: (row) => row.kv_use !== undefined && <Share ratio={row.kv_use} costs={row.kv_use > 0.95}>{percent(row.kv_use)}</Share>,
    },
    { id: 'ttft', title: 'TTFT p50', width: '86px', numeric: true, sort: 'ttft', down: true, help: 'median time to first token', cell: (row) => duration(row.ttft_p50_ns) },
    { id: 'tokens', title: 'Tokens/s', width: '82px', numeric: true, sort: 'tokens', down: true, rare: true, help: 'output tokens per second', cell: (row) => count(row.tokens_per_s) },
    {
      id: 'note',
      title: 'Note',
      spare: true,
      cell: (row) => row.detail && <span title={`${row.detail}. ${row.remedy ?? ''}`} class="muted">{row.detail}</span>,
    },
  ];
  const rows = useLocalRows(useMemo(() => sorted(state.workers, sort), [state.workers, sort]));
  const problems = state.workers.filter((worker) => worker.state !== 'ok' && worker.detail);
  return (
    <section>
      <Table
        label="Workers"
        columns={columns}
        rows={rows}
        rowKey={(row) => row.worker}
        sort={sort}
        onSort={(next) => setParameters({ sort: next })}
        marked={(row) => chosen.has(row.worker)}
        onOpen={(row) => row.state === 'ok' && onChoose(row.worker)}
        empty="The fleet has no workers."
      />
      {state.left_out?.workers ? <p class="hint">{plural(state.left_out.workers, 'more worker')} are not watched.</p> : null}
      {problems.length > 0 && (
        <details class="why">
          <summary>Why {plural(problems.length, 'worker')} cannot be recorded</summary>
          <dl>
            {problems.map((worker) => (
              <div key={worker.worker}>
                <dt>{shortName(worker.worker)}</dt>
                <dd>
                  {worker.detail}
                  {worker.remedy && <p class="hint">{worker.remedy}</p>}
                </dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}

function FleetNames({ fleets }: { fleets: Fleet[] }) {
  return (
    <span class="facts">
      {fleets.map((fleet) => (
        <span key={fleetKey(fleet)} title={[fleet.router, fleet.detail].filter(Boolean).join(': ')}>
          <State state={fleet.state} text={fleetKey(fleet)} /> <small>{fleet.dialect}</small>
        </span>
      ))}
    </span>
  );
}

function NoFleet() {
  const mayAsk = useCan('operate');
  const [router, setRouter] = useState('');
  return (
    <section class="panel">
      <h2>No fleet yet</h2>
      <p class="hint">
        Add a section [fleet NAME] with router=URL to profd.conf, or record a router once, and it appears here.
        {mayAsk && ' Or list the workers of a router once:'}
      </p>
      {mayAsk && (
        <form
          class="buttons"
          onSubmit={(event) => {
            event.preventDefault();
            navigate('/', { router });
          }}
        >
          <input type="url" aria-label="URL of a router" placeholder="http://10.0.0.1:30000" required value={router} onInput={(event) => setRouter(event.currentTarget.value)} />
          <button type="submit">Show</button>
        </form>
      )}
    </section>
  );
}

export function FleetView() {
  const { query } = usePlace();
  const router = query.get('router');
  const { state, history, problem } = useFleet({ router, fleet: query.get('fleet') });
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const mayRecord = useCan('operate');
  const choose = (worker: string) => {
    const next = new Set(chosen);
    if (!next.delete(worker)) next.add(worker);
    setChosen(next);
  };
  const odd = state?.odd.map((each) => each.worker).filter((worker) => worker !== undefined) ?? [];
  // Nothing is configured, and nothing was recorded yet: profd knows no router to ask.
  const isUnknown = problem?.status === 400 && !router && !query.get('fleet');
  const isEmpty = isUnknown || (state !== null && state.fleets.length === 0);
  return (
    <div class="fleet">
      <div class="head">
        <h1>Fleet</h1>
        {state && <FleetNames fleets={state.fleets} />}
        {state && !problem && <small class="live">live</small>}
      </div>
      <ProblemBox problem={isUnknown ? null : problem} />
      {state?.fleets
        .filter((fleet) => fleet.state !== 'ok')
        .map((fleet) => (
          <div key={fleetKey(fleet)} class="problem">
            <strong>
              {fleetKey(fleet)}: {fleet.detail ?? 'does not answer'}
            </strong>
            {fleet.remedy && <p>{fleet.remedy}</p>}
          </div>
        ))}
      {!state && !problem && <p class="empty">Discovering workers…</p>}
      {state && !isEmpty && <Health state={state} history={history} />}
      {isEmpty && <NoFleet />}
      <div class="grid">
        {state && !isEmpty && <OddList odd={state.odd} workers={state.workers} />}
        {state && !isEmpty && mayRecord && (
          <section class="panel" aria-label="Record">
            <h2>Record</h2>
            <Record fleets={state.fleets} workers={state.workers} odd={odd} chosen={[...chosen]} />
          </section>
        )}
        <LastSession />
      </div>
      {state && !isEmpty && <Workers state={state} history={history} chosen={chosen} onChoose={choose} />}
    </div>
  );
}
