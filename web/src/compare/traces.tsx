// SPDX-License-Identifier: Apache-2.0
// Two traces or sessions compared: measures with intervals, kernels that got slower, faster, new or gone, distributions of
// steps, and a flame graph whose widths are after and whose colours are the change.

import { useMemo, useState } from 'preact/hooks';
import { type Loaded, send } from '../api';
import { colorOf } from '../colors';
import { AbsentNote } from '../components/absent';
import { Icicle } from '../components/icicle';
import { ProblemBox } from '../components/problem';
import { type Column, Table } from '../components/table';
import { type Absent, absentOf, askAllHosts, joinAbsent, type MissingHost, type MissingTrace } from '../hosts';
import { compared, type FlameAnswer, summed, treeOf } from '../icicle';
import { useLoad } from '../load';
import { loadAllReports, number, type Row, shortName, text } from '../reports';
import { setParameters, usePlace } from '../router';
import { useLocalRows } from '../rows';
import { count, duration, percent, plural } from '../units';
import { type Distribution, Distributions } from './distributions';
import { Diverging, isCertain, Result } from './diverging';
import { bodyOf, type Side, tracesOf } from './sides';
import { stepTimes } from './step_times';

interface SideSteps {
  steps: number;
  outliers: number; // of these
}

interface TraceComparison {
  step?: { a: SideSteps; b: SideSteps } | null;
  measures?: { rows: Row[] };
  kernels?: { rows: Row[] };
  ops?: { rows: Row[] };
  notes?: string[];
  left?: string[]; // traces without columns, which are not compared
  missing?: MissingTrace[];
  missing_hosts?: MissingHost[];
}

export const BEFORE = '#93a1b5';
export const AFTER = '--accent';
const ROWS_SHOWN = 20;

function signed(ns: number): string {
  return (ns > 0 ? '+' : '') + duration(ns);
}

function interval(row: Row): string {
  return typeof row['low_share'] === 'number' ? `${percent(row['low_share'])} to ${percent(number(row, 'high_share'))}` : '';
}

// More than half of the change, whichever way, comes from steps that are outliers.
function isOfOutliers(row: Row): boolean {
  return Math.abs(number(row, 'outliers_ns')) > Math.abs(number(row, 'change_ns')) / 2;
}

function OutlierMark({ row }: { row: Row }) {
  if (!isOfOutliers(row)) return null;
  return (
    <>
      <small class="of-outliers" title={`${signed(number(row, 'outliers_ns'))} of the change comes from outlier steps`}>
        outliers
      </small>{' '}
    </>
  );
}

function Outliers({ a, b }: { a: SideSteps; b: SideSteps }) {
  if (a.outliers + b.outliers === 0) return null;
  return (
    <p class="hint">
      All steps are compared, also outliers, which take more than twice the median of their phase: {count(a.outliers)} of {count(a.steps)} before, {count(b.outliers)} of{' '}
      {count(b.steps)} after. <small class="of-outliers">outliers</small> marks a change that comes mainly from them.
    </p>
  );
}

function Measures({ rows }: { rows: Row[] }) {
  const most = Math.max(0.02, ...rows.map((row) => Math.min(1, Math.abs(number(row, 'change_share')))));
  const columns: Column<Row>[] = [
    {
      id: 'measure',
      title: 'Measure',
      width: 'clamp(112px, 15vw, 190px)',
      cell: (row) => (
        <span title={text(row, 'meaning')}>
          {text(row, 'measure')} <OutlierMark row={row} />
        </span>
      ),
    },
    { id: 'meaning', title: 'Meaning', cell: (row) => text(row, 'meaning'), rare: true },
    { id: 'before', title: 'Before', width: '80px', numeric: true, rare: true, cell: (row) => duration(row['before_ns'] as number | null) },
    { id: 'after', title: 'After', width: '80px', numeric: true, rare: true, cell: (row) => duration(row['after_ns'] as number | null) },
    { id: 'change', title: 'Change', width: '76px', numeric: true, cell: (row) => percent(row['change_share'] as number | null) },
    {
      id: 'bar',
      title: '− 0 +',
      rare: true,
      width: 'clamp(84px, 15vw, 190px)',
      cell: (row) => (
        <Diverging
          value={number(row, 'change_share')}
          most={most}
          low={row['low_share'] as number | null}
          high={row['high_share'] as number | null}
          certain={isCertain(text(row, 'result'))}
        />
      ),
    },
    { id: 'interval', title: '95 % interval', width: '150px', numeric: true, cell: interval, rare: true },
    { id: 'result', title: 'Result', width: 'clamp(130px, 11vw, 138px)', cell: (row) => <Result result={text(row, 'result')} worse={number(row, 'change_ns') > 0} /> },
  ];
  return <Table label="Measures before and after" columns={columns} rows={useLocalRows(rows)} rowKey={(row) => text(row, 'measure')} keys={false} />;
}

const FILTERS: [string, string][] = [
  ['', 'All'],
  ['new', 'New'],
  ['gone', 'Gone'],
  ['slower', 'Slower'],
  ['faster', 'Faster'],
  ['more', 'More calls'],
  ['fewer', 'Fewer calls'],
];

function changeColumns(rows: Row[], what: string): Column<Row>[] {
  const most = Math.max(1, ...rows.slice(0, 50).map((row) => Math.abs(number(row, 'change_ns'))));
  const calls = (row: Row) => {
    const [before, after] = [row['before_count'], row['after_count']];
    return typeof before === 'number' && typeof after === 'number' ? `${Number.isInteger(before) ? count(before) : before.toFixed(1)} → ${Number.isInteger(after) ? count(after) : after.toFixed(1)}` : '';
  };
  const each = (row: Row) => [row['before_mean_ns'], row['after_mean_ns']].map((ns) => (typeof ns === 'number' ? duration(ns) : '')).join(' → ');
  return [
    { id: 'result', title: 'Result', width: 'clamp(130px, 11vw, 138px)', cell: (row) => <Result result={text(row, 'result')} worse={number(row, 'change_ns') > 0} /> },
    {
      id: 'name',
      title: what,
      cell: (row) => (
        <span title={text(row, 'before_name') ? `${text(row, 'name')}\nbefore: ${text(row, 'before_name')}` : text(row, 'name')}>
          <OutlierMark row={row} />
          <i class="swatch" style={{ background: colorOf(text(row, 'name')) }} /> {shortName(text(row, 'name'))}
        </span>
      ),
    },
    { id: 'count', title: 'Calls', width: '118px', numeric: true, cell: calls, rare: true },
    { id: 'mean', title: 'Time per call', width: '146px', numeric: true, cell: each, rare: true },
    {
      id: 'bar',
      title: '− 0 +',
      rare: true,
      width: 'clamp(84px, 15vw, 200px)',
      cell: (row) => <Diverging value={number(row, 'change_ns')} most={most} certain={isCertain(text(row, 'result'))} />,
    },
    { id: 'change', title: 'Change', width: '78px', numeric: true, cell: (row) => signed(number(row, 'change_ns')) },
  ];
}

function Changes({ rows, what }: { rows: Row[]; what: string }) {
  const [result, setResult] = useState('');
  const [all, setAll] = useState(false);
  const fitting = useMemo(() => rows.filter((row) => result === '' || text(row, 'result') === result), [rows, result]);
  const shown = useMemo(() => (all ? fitting : fitting.slice(0, ROWS_SHOWN)), [fitting, all]);
  const filters = FILTERS.filter(([name]) => name === '' || rows.some((row) => text(row, 'result') === name));
  return (
    <>
      <div class="choice" role="group" aria-label={`${what}s by result`}>
        {filters.map(([name, title]) => (
          <button type="button" key={name} aria-pressed={result === name} onClick={() => setResult(name)}>
            {title} <small>{count(name === '' ? rows.length : rows.filter((row) => text(row, 'result') === name).length)}</small>
          </button>
        ))}
      </div>
      <div class={all && fitting.length > ROWS_SHOWN ? 'kernels all' : 'kernels'}>
        <Table
          label={`${what} by change`}
          columns={changeColumns(rows, what)}
          rows={useLocalRows(shown)}
          rowKey={(row, i) => text(row, 'name') + i}
          keys={false}
          fill={all && fitting.length > ROWS_SHOWN}
          empty="No changes of this kind."
        />
      </div>
      {!all && fitting.length > ROWS_SHOWN && (
        <button type="button" class="link more" onClick={() => setAll(true)}>
          All {count(fitting.length)}
        </button>
      )}
    </>
  );
}

function stepsOf(side: Side, signal: AbortSignal) {
  return loadAllReports(tracesOf(side), { reports: ['steps'], top: 0 }, signal);
}

function Steps({ a, b, names }: { a: Side; b: Side; names: [string, string] }) {
  const key = `${a.ids} ${b.ids}`;
  const both = useLoad(key, (signal) => Promise.all([stepsOf(a, signal), stepsOf(b, signal)]));
  const phases = useMemo(() => {
    const [before, after] = [stepTimes(both.data?.[0] ?? null), stepTimes(both.data?.[1] ?? null)];
    return [...new Set([...before.keys(), ...after.keys()])].map((phase): [string, Distribution[]] => [
      phase,
      [
        { label: `before, ${names[0]}`, color: BEFORE, values: before.get(phase) ?? new Float64Array() },
        { label: `after, ${names[1]}`, color: AFTER, values: after.get(phase) ?? new Float64Array() },
      ],
    ]);
  }, [both.data, names[0], names[1]]);
  if (both.problem) return <ProblemBox problem={both.problem} onRetry={both.reload} />;
  if (!both.data) return <p class="hint computing">Computing…</p>;
  if (phases.length === 0) return <p class="hint">No steps were found.</p>;
  return (
    <>
      {phases.map(([phase, of]) => (
        <Distributions key={phase} title={phase ? `Time of ${phase} steps` : 'Time of steps'} of={of} noun="step" />
      ))}
    </>
  );
}

interface Graph {
  answers: FlameAnswer[]; // of each host
  traces: number;
  absent: Absent;
}

interface Flames {
  unit: string;
  before: FlameAnswer;
  after: FlameAnswer;
  about: string; // what widths are the sum of
  absent: Absent;
}

// Of all traces of a side, wherever they are.
async function graphOf(side: Side, by: string, signal: AbortSignal): Promise<Graph> {
  const { answers, absent } = await askAllHosts<FlameAnswer & { traces: string[]; left: string[] }>('/v1/flame', tracesOf(side), { by }, signal);
  return { answers, traces: answers.reduce((sum, each) => sum + each.traces.length, 0), absent };
}

// Sides of different numbers of traces are compared by what is in one on average.
function flamesOf(a: Graph, b: Graph): Flames {
  const same = a.traces === b.traces;
  const parts = (graph: Graph) => (same ? 1 : Math.max(1, graph.traces));
  const about = same ? (a.traces === 1 ? '' : `The sum of ${count(a.traces)} traces on each side. `) : `The mean of a trace: ${plural(a.traces, 'trace')} before, ${count(b.traces)} after. `;
  return { unit: a.answers[0]!.unit, before: summed(a.answers, parts(a)), after: summed(b.answers, parts(b)), about, absent: joinAbsent(a.absent, b.absent) };
}

function DifferentialFlame({ flames, by }: { flames: Loaded<Flames>; by: string }) {
  const [focus, setFocus] = useState(0);
  const [words, setWords] = useState('');
  const tree = useMemo(() => (flames.data ? compared(treeOf(flames.data.before), treeOf(flames.data.after)) : null), [flames.data]);
  if (flames.problem) return <ProblemBox problem={flames.problem} onRetry={flames.reload} />;
  if (!tree) return <p class="hint computing">Computing…</p>;
  if (tree.parent.length < 2) return <p class="hint">{by === 'gpu' ? 'There are no GPU events.' : 'There are no calls.'}</p>;
  return <Icicle tree={tree} unit={flames.data!.unit} focus={Math.min(focus, tree.parent.length - 1)} text={words} onFocus={setFocus} onSearch={setWords} />;
}

function FlamePanel({ a, b }: { a: Side; b: Side }) {
  const { query } = usePlace();
  const by = query.get('by') ?? 'gpu';
  const flames = useLoad(`${a.ids} ${b.ids} ${by}`, async (signal): Promise<Flames> => {
    const [before, after] = await Promise.all([graphOf(a, by, signal), graphOf(b, by, signal)]);
    return flamesOf(before, after);
  });
  return (
    <section class="panel differential" aria-label="Flame graph">
      <h2>Flame graph</h2>
      <div class="choice" role="group" aria-label="Width of frames">
        {[
          ['gpu', 'GPU time'],
          ['host', 'Host time'],
        ].map(([kind, title]) => (
          <button type="button" key={kind} aria-pressed={by === kind} onClick={() => setParameters({ by: kind! })}>
            {title}
          </button>
        ))}
      </div>
      <p class="hint">
        {flames.data?.about}Width is the time after; <span class="grew">red</span> took longer, <span class="shrank">blue</span> took less.
      </p>
      <AbsentNote absent={flames.data?.absent} />
      <DifferentialFlame flames={flames} by={by} />
    </section>
  );
}

export function ComparedTraces({ a, b, names }: { a: Side; b: Side; names: [string, string] }) {
  const answer = useLoad(`${a.ids} ${b.ids}`, (signal) => send<TraceComparison>('POST', '/v1/compare', { a: bodyOf(a), b: bodyOf(b), top: 0 }, signal));
  const measures = answer.data?.measures?.rows ?? [];
  const kernels = answer.data?.kernels?.rows ?? [];
  const ops = answer.data?.ops?.rows ?? [];
  const notes = answer.data?.notes ?? [];
  const left = answer.data?.left ?? [];
  const steps = answer.data?.step;
  const p50 = measures.find((row) => row['measure'] === 'step.p50');
  const unit = p50 ? 'Times are per step.' : 'Times are of the entire recordings.';
  const waiting = answer.problem ? <ProblemBox problem={answer.problem} onRetry={answer.reload} /> : !answer.data && <p class="hint computing">Computing…</p>;
  return (
    <>
      {p50 && (
        <p class="headline" role="status">
          step{' '}
          <b>
            {duration(number(p50, 'before_ns'))} → {duration(number(p50, 'after_ns'))}
          </b>{' '}
          <b class={isCertain(text(p50, 'result')) ? (number(p50, 'change_ns') > 0 ? 'costs' : 'gained') : undefined}>
            {number(p50, 'change_share') > 0 ? '+' : ''}
            {percent(number(p50, 'change_share'))}
          </b>
          <Result result={text(p50, 'result')} worse={number(p50, 'change_ns') > 0} />
          <small>median; 95 % interval of the change {interval(p50)}</small>
        </p>
      )}
      <AbsentNote absent={answer.data && absentOf(answer.data)} />
      {(notes.length > 0 || left.length > 0) && (
        <ul class="hint notes" aria-label="Notes">
          {left.length > 0 && <li>Not compared, because they have no columns: {left.join(', ')}</li>}
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      <section class="panel" aria-label="Kernels" aria-busy={answer.loading}>
        <h2>Kernels</h2>
        {waiting ||
          (kernels.length === 0 && <p class="hint">There are no GPU events on either side.</p>) || (
          <>
            <p class="hint">{unit} A result is unclear where the 95 % interval of the change includes no change.</p>
            {steps && <Outliers a={steps.a} b={steps.b} />}
            <Changes rows={kernels} what="Kernel" />
          </>
        )}
      </section>
      {measures.length > 0 && (
        <section class="panel" aria-label="Measures">
          <h2>Measures</h2>
          <Measures rows={measures} />
        </section>
      )}
      <section class="panel" aria-label="Steps">
        <h2>Steps</h2>
        <Steps a={a} b={b} names={names} />
      </section>
      <FlamePanel a={a} b={b} />
      {ops.length > 0 && (
        <section class="panel" aria-label="Operators">
          <h2>Operators</h2>
          <p class="hint">Host time of operators. {unit}</p>
          <Changes rows={ops} what="Operator" />
        </section>
      )}
    </>
  );
}
