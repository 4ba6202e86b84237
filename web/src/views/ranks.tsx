// SPDX-License-Identifier: Apache-2.0
// All ranks of a session: one step of each on a common clock, the late one marked and why, rank by step, instances.

import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { asProblem, get, isAbort, type Problem, send } from '../api';
import { AbsentNote } from '../components/absent';
import { ProblemBox } from '../components/problem';
import { type Column, Table } from '../components/table';
import { type Absent, absentOf, joinAbsent, type MissingHost } from '../hosts';
import { useKeys } from '../keys';
import { instancesOf, type Instance, lateOf, lateShare, offsetOf, RANK_REPORTS, type StepColumn, type Straggler, stragglersOf } from '../ranks/data';
import { Matrix } from '../ranks/matrix';
import { hasGpu, RanksPicture } from '../ranks/picture';
import { loadAllReports, number, type Reports, type Row, rowsNamed, rowsOf, text, togetherOf } from '../reports';
import { address, navigate, setParameters, usePlace } from '../router';
import { useLocalRows } from '../rows';
import { onThemeChange } from '../theme';
import { TimelineSource } from '../timeline/source';
import type { Trace } from '../types';
import { count, duration, percent, plural } from '../units';
import type { ViewProps } from '../views';
import '../ranks/ranks.css';

const HEADS_AT_ONCE = 3;

interface Loaded {
  instances: Instance[];
  reports: Reports;
  absent: Absent;
  together: boolean; // ranks of an instance are on several hosts
  note: string;
}

async function loadTraces(session: string | null, ids: string[], signal: AbortSignal): Promise<{ traces: Map<string, Trace>; absent: Absent }> {
  const list = session ? await get<{ traces: Trace[]; missing_hosts?: MissingHost[] }>(`/v1/traces?session=${encodeURIComponent(session)}&limit=1000`, signal) : null;
  const found = list?.traces ?? (await Promise.all(ids.map((id) => get<Trace>(`/v1/traces/${encodeURIComponent(id)}`, signal))));
  const absent = absentOf(list);
  return { traces: new Map(found.map((trace) => [trace.trace, trace])), absent };
}

async function loadRanks(session: string | null, ids: string[], signal: AbortSignal): Promise<Loaded> {
  const { traces, absent } = await loadTraces(session, ids, signal);
  const { together, note } = togetherOf([...traces.values()]);
  const reports = await loadAllReports(session ? { session } : { traces: ids }, { reports: [...RANK_REPORTS, 'instances'], top: 0, together }, signal);
  return { reports, instances: instancesOf(reports, traces), absent: joinAbsent(absent, reports.absent), together, note };
}

export function Ranks({ parts }: ViewProps) {
  const session = parts['session'] ?? null;
  const { query } = usePlace();
  const ids = query.get('traces') ?? '';
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    const control = new AbortController();
    const list = ids.split(',').filter(Boolean);
    setLoaded(null);
    setProblem(null);
    loadRanks(session, list, control.signal).then(
      setLoaded,
      (error: unknown) => {
        if (!isAbort(error)) setProblem(asProblem(error));
      },
    );
    return () => control.abort();
  }, [session, ids]);

  const chosen = query.get('instance');
  const instance = loaded && (loaded.instances.find((each) => each.name === chosen) ?? loaded.instances[0]);
  if (problem || !loaded || !instance) {
    return (
      <div class="ranks-view">
        <div class="timeline-bar">
          <h1>Ranks {session}</h1>
        </div>
        <ProblemBox problem={problem} />
        <AbsentNote absent={loaded?.absent} />
        {!problem && <p class="empty">{loaded ? 'No trace has ranks to compare. Record at least one trace with GPU events.' : 'Comparing ranks…'}</p>}
      </div>
    );
  }
  return <Shown key={`${instance.host}/${instance.name}`} session={session} loaded={loaded} instance={instance} />;
}

function stepKey(step: StepColumn): string {
  return `${step.index}${step.occurrence > 0 ? `.${step.occurrence}` : ''}`;
}

// Why a rank is late, in a sentence.
function lateText(late: Straggler): string {
  const why = late.meanwhile ? ` Before that it spends ${duration(late.meanwhileNs)} more than the median rank ${late.meanwhile === 'idle' ? 'idle' : `in ${late.meanwhile}`}.` : '';
  return `Rank ${late.rank} arrives last at ${percent(late.lastShare)} of the collectives; the other ranks wait ${duration(late.caused)} for it in total.${why}`;
}

function Shown({ session, loaded, instance }: { session: string | null; loaded: Loaded; instance: Instance }) {
  const { query } = usePlace();
  const { steps, ranks } = instance;
  const wanted = query.get('step');
  const step = steps.find((each) => stepKey(each) === wanted) ?? steps[Math.floor(steps.length / 2)] ?? null;
  const late = lateOf(instance.stragglers, ranks.length);
  const [here, setHere] = useState<Straggler[] | null>(null); // of the step alone
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useRef<RanksPicture | null>(null);
  const offsets = useRef<number[]>([]);
  const titles = useRef<HTMLDivElement>(null);
  const [heads, setHeads] = useState(0);
  const [onHost, setOnHost] = useState(false); // no rank has GPU events
  const [problem, setProblem] = useState<Problem | null>(null);
  const rowHeight = ranks.length <= 4 ? 72 : ranks.length <= 10 ? 52 : 34;

  const latestStep = useRef(step);
  latestStep.current = step;
  const showStep = useCallback((of: StepColumn | null, glide: boolean) => {
    if (!of || !picture.current) return;
    let from = Infinity;
    let to = -Infinity;
    of.cells.forEach((cell, i) => {
      const offset = offsets.current[i];
      if (!cell || offset === undefined) return;
      from = Math.min(from, cell.start + offset);
      to = Math.max(to, cell.start + cell.dur + offset);
    });
    if (!(to > from)) return;
    const margin = (to - from) * 0.04;
    if (glide) picture.current.glideTo({ from: from - margin, to: to + margin });
    else picture.current.setView(from - margin, to - from + 2 * margin);
  }, []);

  useEffect(() => {
    const control = new AbortController();
    const created = new RanksPicture(canvas.current!, ranks.length, rowHeight, {
      pick: ({ row, at, run }) => {
        const span = created.span / 2;
        navigate(`/traces/${ranks[row]!.trace}/timeline`, {
          from: Math.max(0, Math.round(at - span)),
          to: Math.round(at + span),
          lane: run?.lane,
          at: run ? Math.round((run.from + run.to) / 2) : null,
        });
      },
      scroll: (y) => {
        if (titles.current) titles.current.style.transform = `translateY(${-y}px)`;
      },
    });
    picture.current = created;
    const unthemed = onThemeChange(() => created.recolor());
    let base: string | undefined;
    let next = 0;
    const opened = new Map<number, TimelineSource>();
    const place = (i: number) => {
      const source = opened.get(i)!;
      offsets.current[i] = offsetOf(source.head.first_ts, base, ranks[i]!.shift);
      created.setRank(i, source, offsets.current[i]!);
    };
    const load = async () => {
      for (let i = next++; i < ranks.length; i = next++) {
        try {
          const source = await TimelineSource.open(ranks[i]!.trace, control.signal);
          opened.set(i, source);
          if (base === undefined) base = source.head.first_ts;
          place(i);
          setHeads((old) => old + 1);
        } catch (error) {
          if (isAbort(error)) return;
          setProblem(asProblem(error));
        }
      }
    };
    void Promise.all(Array.from({ length: HEADS_AT_ONCE }, load)).then(() => {
      setOnHost(opened.size > 0 && ![...opened.values()].some((source) => hasGpu(source.head.tracks)));
      showStep(latestStep.current, false);
    });
    return () => {
      control.abort();
      unthemed();
      created.close();
      picture.current = null;
    };
  }, [instance]);
  useEffect(() => showStep(step, true), [step]);

  // Who is late in this very step.
  useEffect(() => {
    if (!step || ranks.length < 2) return undefined;
    const control = new AbortController();
    setHere(null);
    send<Reports>('POST', '/v1/reports', { traces: ranks.map((rank) => rank.trace), reports: ['stragglers'], view: { step: step.index }, facts: true, together: loaded.together }, control.signal).then(
      (answer) => setHere(stragglersOf(answer.parts.filter((part) => part.report === 'stragglers' && !part.error && !part.lacking).flatMap(rowsOf))),
      () => setHere([]), // a step without collectives
    );
    return () => control.abort();
  }, [step, instance]);
  const hereLate = here ? lateOf(here, ranks.length) : null;
  const lateRank = hereLate ?? late;
  useEffect(() => {
    if (!picture.current) return;
    picture.current.late = lateRank ? ranks.findIndex((rank) => rank.rank === lateRank.rank) : -1;
    picture.current.invalidate();
  }, [lateRank, heads]);

  const choose = (to: StepColumn | undefined) => to && setParameters({ step: stepKey(to) });
  const at = step ? steps.indexOf(step) : -1;
  useKeys('Ranks', [
    { keys: 'ArrowRight,n', label: 'Next step', run: () => choose(steps[at + 1]) },
    { keys: 'ArrowLeft,p', label: 'Previous step', run: () => choose(steps[at - 1]) },
    { keys: 'KeyW', label: 'Zoom in', run: () => picture.current?.zoom(1 / 1.5) },
    { keys: 'KeyS', label: 'Zoom out', run: () => picture.current?.zoom(1.5) },
    { keys: 'KeyA', label: 'Move left', run: () => pan(-0.2) },
    { keys: 'KeyD', label: 'Move right', run: () => pan(0.2) },
    { keys: '0', label: 'Show the step again', run: () => showStep(step, true) },
  ]);
  const pan = (part: number) => {
    const now = picture.current;
    if (now) now.setView(now.view.from + part * now.span, now.span);
  };

  const error = Math.max(0, ...ranks.map((rank) => rank.clockError ?? 0));
  const stragglers = new Map((here?.length ? here : instance.stragglers).map((each) => [each.rank, each]));
  const instances = loaded.instances;
  return (
    <div class="ranks-view">
      <div class="timeline-bar">
        <h1>Ranks {session && <a href={`#/sessions/${session}`}>{session}</a>}</h1>
        <span class="muted">{plural(ranks.length, 'rank')}</span>
        {instances.length > 1 && (
          <label>
            <span class="muted">Instance </span>
            <select value={instance.name} onChange={(event) => setParameters({ instance: event.currentTarget.value, step: null })}>
              {instances.map((each) => (
                <option key={each.name} value={each.name}>
                  {each.name}
                </option>
              ))}
            </select>
          </label>
        )}
        {step && (
          <span class="ranks-step">
            <button type="button" class="quiet" aria-label="Previous step" disabled={at <= 0} onClick={() => choose(steps[at - 1])}>
              ‹
            </button>
            <b>
              {step.label} <span class="muted">({at + 1} of {count(steps.length)}{step.phase && `, ${step.phase}`})</span>
            </b>
            <button type="button" class="quiet" aria-label="Next step" disabled={at >= steps.length - 1} onClick={() => choose(steps[at + 1])}>
              ›
            </button>
          </span>
        )}
        <span class="muted ranks-clock">{ranks.length > 1 && (error > 0 ? `clocks agree to ${duration(error)} at collectives` : 'clocks as recorded')}</span>
      </div>
      <ProblemBox problem={problem} />
      <AbsentNote absent={loaded.absent} />
      {loaded.note && <p class="hint">{loaded.note}</p>}
      <div class="ranks-scroll">
        {ranks.length > 1 && (
          <p class={late ? 'ranks-late' : 'ranks-even'}>
            {late ? lateText(late) : instance.stragglers.length > 0 ? `Over all steps no rank stands out: none causes more than ${percent(lateShare(ranks.length))} of the delays at collectives.` : 'No collective is in the traces of all ranks.'}
            {hereLate && hereLate.rank !== late?.rank && ` In this step rank ${hereLate.rank} is last at ${percent(hereLate.lastShare)} and costs ${duration(hereLate.delay)}.`}
          </p>
        )}
        {onHost && <p class="ranks-even">These traces have no GPU events: the rows show the busiest thread of each rank.</p>}
        <div class="ranks-rows" style={{ height: `${24 + Math.min(ranks.length * rowHeight, 520)}px` }}>
          <div class="ranks-titles">
            <div ref={titles} role="list" aria-label="Ranks">
              {ranks.map((rank, i) => {
                const mine = stragglers.get(rank.rank);
                const isLate = lateRank?.rank === rank.rank;
                return (
                  <div key={rank.trace} role="listitem" class={isLate ? 'ranks-title late' : 'ranks-title'} style={{ height: `${rowHeight}px`, top: `${i * rowHeight}px` }}>
                    <a href={address(`/traces/${rank.trace}/timeline`)} title={`Timeline of ${rank.trace}`}>
                      rank {rank.rank}
                    </a>
                    {loaded.together && rank.host && <small> {rank.host}</small>}
                    <small>{mine ? `${isLate ? 'late: last' : 'last'} ${percent(mine.lastShare)}` : rank.outlier}</small>
                  </div>
                );
              })}
            </div>
          </div>
          <canvas
            ref={canvas}
            tabIndex={0}
            role="img"
            aria-label={`${onHost ? 'Host' : 'GPU'} activity of ${plural(ranks.length, 'rank')} in ${step?.label ?? 'the trace'}, on one clock. The tables below have the numbers. A click opens the timeline of a rank.`}
          />
        </div>
        {steps.length > 1 && (
          <section class="panel">
            <h2>Ranks by steps</h2>
            <Matrix instance={instance} chosen={step} onChoose={(to) => choose(to)} />
          </section>
        )}
        {ranks.length > 1 && (
          <section class="panel">
            <h2>{here?.length ? `Arrival at collectives, ${step?.label}` : 'Arrival at collectives'}</h2>
            <Stragglers rows={[...stragglers.values()]} />
          </section>
        )}
        {instance.imbalance.length > 0 && (
          <section class="panel">
            <h2>What differs between ranks</h2>
            <Imbalance rows={instance.imbalance} />
          </section>
        )}
        <Instances rows={rowsNamed(loaded.reports, 'instances')} chosen={instance.name} />
      </div>
    </div>
  );
}

function Stragglers({ rows }: { rows: Straggler[] }) {
  const columns: Column<Straggler>[] = [
    { id: 'rank', title: 'Rank', width: '70px', numeric: true, cell: (row) => row.rank },
    { id: 'last', title: 'Last', help: 'share of the collectives at which the rank arrived last', width: '80px', numeric: true, cell: (row) => percent(row.lastShare) },
    { id: 'caused', title: 'Wait caused', help: 'total wait of the other ranks when it was last', width: '120px', numeric: true, cell: (row) => duration(row.caused) },
    { id: 'delay', title: 'Possible gain', help: 'total delay after the second to last rank', width: '150px', numeric: true, cell: (row) => duration(row.delay) },
    { id: 'why', title: 'Meanwhile', help: 'what it did longer than the median rank before it was last', cell: (row) => (row.meanwhile ? `${row.meanwhile} +${duration(row.meanwhileNs)}` : '') },
  ];
  const sorted = useMemo(() => [...rows].sort((a, b) => b.delay - a.delay), [rows]);
  return <Table label="Arrival at collectives" columns={columns} rows={useLocalRows(sorted)} rowKey={(row) => String(row.rank)} keys={false} empty="No collective is in the traces of all ranks." />;
}

function Imbalance({ rows }: { rows: Row[] }) {
  const columns: Column<Row>[] = [
    { id: 'category', title: 'Category', cell: (row) => text(row, 'category') },
    { id: 'mean', title: 'Mean', width: '90px', numeric: true, cell: (row) => duration(number(row, 'mean_ns')) },
    { id: 'min', title: 'Shortest', width: '130px', numeric: true, cell: (row) => `${duration(number(row, 'min_ns'))} (${text(row, 'min_rank')})`, rare: true },
    { id: 'max', title: 'Longest', width: '130px', numeric: true, cell: (row) => `${duration(number(row, 'max_ns'))} (${text(row, 'max_rank')})` },
    { id: 'cost', title: 'Cost', help: 'longest minus mean', width: '90px', numeric: true, cell: (row) => <span class="costs">{duration(number(row, 'cost_ns'))}</span> },
  ];
  return <Table label="Imbalance of ranks by category" columns={columns} rows={useLocalRows(rows.slice(0, 10))} rowKey={(row) => text(row, 'category')} keys={false} />;
}

function Instances({ rows, chosen }: { rows: Row[]; chosen: string }) {
  const columns: Column<Row>[] = [
    { id: 'instance', title: 'Instance', cell: (row) => text(row, 'instance') },
    { id: 'role', title: 'Role', width: '90px', cell: (row) => text(row, 'role'), rare: true },
    { id: 'ranks', title: 'Ranks', width: '70px', numeric: true, cell: (row) => count(number(row, 'ranks')) },
    { id: 'steps', title: 'Steps', width: '80px', numeric: true, cell: (row) => count(number(row, 'steps')) },
    { id: 'p50', title: 'Step p50', width: '100px', numeric: true, cell: (row) => duration(number(row, 'step_p50_ns')) },
    { id: 'p99', title: 'p99', width: '100px', numeric: true, cell: (row) => duration(number(row, 'step_p99_ns')) },
    { id: 'busy', title: 'GPU busy', width: '90px', numeric: true, cell: (row) => percent(number(row, 'busy_share')) },
    { id: 'exposed', title: 'Exposed', help: 'share of the GPU span with communication and no computation', width: '90px', numeric: true, cell: (row) => percent(number(row, 'exposed_share')), rare: true },
    { id: 'outlier', title: 'Differs', cell: (row) => <span class="costs">{text(row, 'outlier')}</span> },
  ];
  const local = useLocalRows(rows);
  if (rows.length < 2) return null;
  return (
    <section class="panel">
      <h2>Instances side by side</h2>
      <Table label="Instances" columns={columns} rows={local} rowKey={(row) => text(row, 'instance')} marked={(row) => text(row, 'instance') === chosen} keys={false} onOpen={(row) => setParameters({ instance: text(row, 'instance'), step: null })} />
    </section>
  );
}
