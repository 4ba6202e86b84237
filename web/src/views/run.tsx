// SPDX-License-Identifier: Apache-2.0
// A benchmark run, or several repeated ones (r3,r4,r5): figures with their intervals, the run over time beside the trace that
// was recorded meanwhile, distributions, the sweep that it belongs to, and every request.

import { useMemo } from 'preact/hooks';
import { get, send, useAction, useGet, withQuery } from '../api';
import { ProblemBox } from '../components/problem';
import { isActive, State } from '../components/state';
import { useEvents } from '../events';
import { useKeys } from '../keys';
import { useLoad } from '../load';
import { useCan } from '../me';
import { address, navigate } from '../router';
import { DistributionPanel } from '../run/distribution';
import { FiguresTable, ThroughputLine } from '../run/figures_table';
import { OverTimePlots } from '../run/over_time';
import { loadRequests } from '../run/requests';
import { RequestsTable } from '../run/requests_table';
import { siblings, workloadText } from '../run/sweep';
import { SweepPanel } from '../run/sweep_panel';
import type { Run } from '../types';
import { count, duration, plural, time } from '../units';
import type { ViewProps } from '../views';
import './trace.css';
import './compare.css';
import './run.css';

// Runs to look for a sweep in: those around this one.
const AROUND = 60;

interface Live {
  sent?: number;
  in_flight?: number;
  done?: number;
  planned?: number;
  output_tokens_per_s?: number;
  ttft_p50_ms?: number;
  e2e_p50_ms?: number;
}

interface Details {
  duration_s?: number;
  peak_concurrency?: number;
  live?: Live;
  errors?: { text: string; count: number }[];
  outliers?: { index: number; figure: string; value: number; median: number; reason?: string }[];
  drift?: Record<string, { significant: boolean; per_minute?: number; first: number; last: number } | null | number>;
  notes?: { text: string; remedy?: string }[];
  tokens?: { input: number; output: number };
}

const DRIFTS: Record<string, string> = { ttft_ms: 'TTFT', tpot_ms: 'TPOT', itl_ms: 'ITL', e2e_ms: 'E2E' };

// What a reader of the figures has to know.
function Remarks({ run }: { run: Run & Details }) {
  const drifts = Object.entries(run.drift ?? {}).filter(([name, one]) => DRIFTS[name] && typeof one === 'object' && one?.significant);
  return (
    <ul class="remarks">
      {run.reason && (
        <li class="costs">
          {run.reason} {run.remedy}
        </li>
      )}
      {(run.errors ?? []).map((error) => (
        <li key={error.text} class="costs">
          {count(error.count)} × {error.text}
        </li>
      ))}
      {drifts.map(([name, one]) => {
        const drift = one as { first: number; last: number };
        return (
          <li key={name} class="costs">
            {DRIFTS[name]} drifts during the run: {duration(drift.first * 1e6)} at first, {duration(drift.last * 1e6)} at last
          </li>
        );
      })}
      {(run.outliers ?? []).slice(0, 5).map((one) => (
        <li key={`${one.index} ${one.figure}`}>
          Request {one.index} is an outlier: {one.figure.replace(/_ms$/, '').toUpperCase()} {duration(one.value * 1e6)} against {duration(one.median * 1e6)} (median){one.reason ? `, ${one.reason}` : ''}
        </li>
      ))}
      {(run.notes ?? []).map((note) => (
        <li key={note.text}>
          {note.text} {note.remedy && <span class="muted">{note.remedy}</span>}
        </li>
      ))}
    </ul>
  );
}

function Progress({ live }: { live: Live }) {
  const planned = live.planned ?? 0;
  return (
    <section class="panel" aria-label="Progress">
      {planned > 0 && <progress max={planned} value={live.done ?? 0} aria-label="Requests done" />}
      <p class="facts-line">
        <span>
          <b>{count(live.done)}</b> of {count(planned)} done
        </span>
        <span>
          <b>{count(live.in_flight)}</b> in flight
        </span>
        {typeof live.output_tokens_per_s === 'number' && (
          <span>
            <b>{count(live.output_tokens_per_s)}</b> tokens/s
          </span>
        )}
        {typeof live.ttft_p50_ms === 'number' && (
          <span>
            TTFT p50 <b>{duration(live.ttft_p50_ms * 1e6)}</b>
          </span>
        )}
        {typeof live.e2e_p50_ms === 'number' && (
          <span>
            E2E p50 <b>{duration(live.e2e_p50_ms * 1e6)}</b>
          </span>
        )}
      </p>
    </section>
  );
}

function One({ run, id }: { run: Run & Details; id: string }) {
  const requests = useLoad(isActive(run.state) ? null : id, (signal) => loadRequests(id, signal));
  const around = useGet<{ runs: Run[] }>(withQuery('/v1/runs', { limit: AROUND, before: `r${run.run + AROUND / 2}` }));
  const family = useMemo(() => siblings(run, around.data?.runs ?? []), [run, around.data]);
  const loads = new Set(family.map((one) => JSON.stringify([one.workload['concurrency'], one.workload['rate']])));
  const runs = useMemo(() => requests.data && [{ label: id, color: '--accent', requests: requests.data.requests }], [requests.data, id]);
  const repeated = family.filter((one) => JSON.stringify(one.workload) === JSON.stringify(run.workload));
  return (
    <>
      <section class="panel" aria-label="Figures">
        <h2>Figures</h2>
        <ThroughputLine runs={[run]} />
        {run.metrics && <FiguresTable runs={[run]} />}
        <Remarks run={run} />
        {repeated.length > 1 && (
          <p class="hint">
            This workload was repeated: <a href={`#/runs/${repeated.map((one) => `r${one.run}`).join(',')}`}>figures over {plural(repeated.length, 'run')} with intervals</a>
          </p>
        )}
      </section>
      {loads.size > 1 && (
        <section class="panel" aria-label="Sweep">
          <h2>Throughput against latency</h2>
          <SweepPanel run={run} runs={family} />
        </section>
      )}
      {requests.problem && <ProblemBox problem={requests.problem} onRetry={requests.reload} />}
      {requests.data && requests.data.requests.length > 0 && runs && (
        <>
          <section class="panel" aria-label="Over time">
            <h2>Over time</h2>
            <OverTimePlots run={run} requests={requests.data.requests} />
          </section>
          <section class="panel" aria-label="Latency">
            <h2>Latency</h2>
            <DistributionPanel runs={runs} />
          </section>
          <section class="panel" aria-label="Requests">
            <h2>Requests</h2>
            <RequestsTable run={id} requests={requests.data.requests} more={requests.data.more} />
          </section>
        </>
      )}
    </>
  );
}

const GROUP_COLORS = ['--accent', '#f0a13a', '#2fb3a3', '#a678f0', '#6fbf5b', '#5cc5e8', '#d77ad0', '#93a1b5'];

function Group({ runs, ids }: { runs: Run[]; ids: string[] }) {
  const requests = useLoad(ids.join(), (signal) => Promise.all(ids.map((id) => loadRequests(id, signal))));
  const of = useMemo(() => requests.data?.map((one, i) => ({ label: ids[i]!, color: GROUP_COLORS[i % GROUP_COLORS.length]!, requests: one.requests })), [requests.data, ids.join()]);
  const differ = new Set(runs.map((run) => JSON.stringify(run.workload))).size > 1;
  return (
    <>
      {differ && (
        <div class="problem" role="note">
          <strong>The workloads of these runs differ: their mean says little.</strong>
        </div>
      )}
      <section class="panel" aria-label="Figures">
        <h2>Figures over {plural(runs.length, 'run')}</h2>
        <ThroughputLine runs={runs} />
        <FiguresTable runs={runs} />
      </section>
      <section class="panel" aria-label="Latency">
        <h2>Latency</h2>
        {requests.problem ? <ProblemBox problem={requests.problem} onRetry={requests.reload} /> : of ? <DistributionPanel runs={of} /> : <p class="hint computing">Loading…</p>}
      </section>
    </>
  );
}

export function RunView({ parts }: ViewProps) {
  const ids = useMemo(() => parts['run']!.split(',').filter((id) => /^r?\d+$/.test(id)).map((id) => (id.startsWith('r') ? id : 'r' + id)).slice(0, 50), [parts['run']]);
  const loaded = useLoad(ids.length > 0 ? ids.join() : null, (signal) => Promise.all(ids.map((id) => get<Run & Details>(`/v1/runs/${id}`, signal))));
  const run = loaded.data?.[0];
  const active = ids.length === 1 && run !== undefined && isActive(run.state);
  useEvents(active ? `/v1/events?run=${ids[0]}` : null, () => loaded.reload());
  const canOperate = useCan('operate');
  const stop = useAction(async () => {
    await send('POST', `/v1/runs/${ids[0]}/stop`);
    loaded.reload();
  });
  useKeys('Benchmark run', [{ keys: 'x', label: 'Compare with another run', run: () => navigate('/compare', { a: ids.join() }) }]);
  if (ids.length === 0) return <p class="empty">There is no benchmark run {parts['run']}.</p>;
  if (loaded.problem && !loaded.data) return <ProblemBox problem={loaded.problem} onRetry={loaded.reload} />;
  if (!run) return <p class="empty">Loading…</p>;
  return (
    <article class="compare-view run-view">
      <div class="head">
        <h1>
          {ids.length === 1 ? 'Benchmark run' : 'Benchmark runs'} {ids.join(', ')}
        </h1>
        <State state={run.state} />
        <p class="facts">
          {run.model && <span>{run.model}</span>}
          <span>{workloadText(run.workload)}</span>
          <span>{time(run.requested_at)}</span>
          {run.duration_s !== undefined && <span>{duration(run.duration_s * 1e9)}</span>}
          <span>{run.router ?? run.fleet}</span>
          {Object.entries(run.labels ?? {}).map(([name, value]) => (
            <span class="label" key={name}>
              {name}={value}
            </span>
          ))}
        </p>
        <div class="actions">
          {active && canOperate && (
            <button type="button" onClick={() => stop.run()} disabled={stop.busy}>
              Stop
            </button>
          )}
          {run.session !== undefined && (
            <a class="button" href={`#/sessions/s${run.session}`}>
              Session s{run.session}
            </a>
          )}
          <a class="button" href={address('/compare', { a: ids.join() })}>
            Compare…
          </a>
        </div>
      </div>
      <ProblemBox problem={stop.problem} />
      {active && run.live && <Progress live={run.live} />}
      {ids.length === 1 ? <One run={run} id={ids[0]!} /> : <Group runs={loaded.data!} ids={ids} />}
    </article>
  );
}
