// SPDX-License-Identifier: Apache-2.0
// One trace: what costs time first, then where the time went, step by step and kernel by kernel.

import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { download, type Loaded, useAction, useGet } from '../api';
import { colorOf } from '../colors';
import { useCommands } from '../commands';
import { Bar, Share } from '../components/bar';
import { ProblemBox } from '../components/problem';
import { State } from '../components/state';
import { type Column, Table } from '../components/table';
import { useKeys } from '../keys';
import { useLoad } from '../load';
import { useMe } from '../me';
import { openInPerfetto } from '../perfetto';
import { loadReports, number, type Reports, type Row, rowsNamed, shortName, text, whyNot, windowAround } from '../reports';
import { address, navigate, usePlace } from '../router';
import { useLocalRows } from '../rows';
import { Findings } from '../trace/findings';
import { gpuParts } from '../trace/gpu_parts';
import { Memory } from '../trace/memory';
import { Steps } from '../trace/steps';
import type { Trace } from '../types';
import { count, duration, percent, plural, size, slices, time } from '../units';
import type { ViewProps } from '../views';
import './trace.css';

const KERNELS_SHOWN = 25;
const KERNELS_MAX = 500;

function rankText(trace: Trace): string {
  const names = Object.entries(trace.ranks ?? {}).filter(([, value]) => typeof value === 'number');
  return names.map(([name, value]) => `${name} ${value}`).join(', ');
}

function Facts({ trace, summary }: { trace: Trace; summary: Row | undefined }) {
  const facts: [string, ComponentChildren][] = [
    ['Rank', rankText(trace)],
    ['GPU', text(summary, 'gpu') || trace.device_name],
    ['Recorded', time(trace.recorded_at)],
    ['Span', trace.span_ns !== undefined && duration(trace.span_ns)],
    ['Slices', trace.slices !== undefined && `${count(trace.slices)} with instants, ${count(trace.gpu_slices)} of the GPU`],
    ['Size', size(trace.size)],
    ['Session', trace.session && <a href={'#/sessions/' + trace.session}>{trace.session}</a>],
    ['Worker', trace.worker],
    ['Host', trace.host],
    ['Engine', [text(summary, 'engine'), text(summary, 'engine_version')].filter(Boolean).join(' ')],
    ['World size', summary?.['world_size'] !== null && text(summary, 'world_size')],
    ['Runtime', text(summary, 'runtime')],
    ['NCCL', text(summary, 'nccl')],
    ['Stage', trace.stage],
    ['File', trace.name],
  ];
  return (
    <dl class="trace-facts">
      {facts
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd title={typeof value === 'string' ? value : undefined}>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function Gpu({ reports }: { reports: Reports }) {
  const temporal = rowsNamed(reports, 'temporal');
  const overlap = rowsNamed(reports, 'overlap');
  const classes = rowsNamed(reports, 'categories');
  const why = whyNot(reports, 'temporal');
  if (why) return <p class="hint">{why}</p>;
  const all = classes.reduce((sum, row) => sum + number(row, 'sum_ns'), 0);
  return (
    <>
      {temporal.map((row, i) => (
        <div class="gpu-use" key={text(row, 'rank')}>
          <p class="facts-line">
            {temporal.length > 1 && <span>rank {text(row, 'rank')}</span>}
            <span>
              busy <b>{percent(number(row, 'busy_share'))}</b>
            </span>
            <span class={number(row, 'idle_share') > 0.1 ? 'costs' : undefined}>
              idle <b>{percent(number(row, 'idle_share'))}</b>
            </span>
            <span>
              of <b>{duration(number(row, 'span_ns'))}</b>
            </span>
            {number(overlap[i], 'comm_ns') > 0 && (
              <span>
                communication <b>{duration(number(overlap[i], 'comm_ns'))}</b>, {percent(number(overlap[i], 'overlapped_share'))} of it overlapped by computation
              </span>
            )}
          </p>
          <Bar label="GPU time" parts={gpuParts(row, overlap[i])} total={number(row, 'span_ns')} />
        </div>
      ))}
      {all > 0 && (
        <div class="gpu-use">
          <h3>By kernel class</h3>
          <Bar
            label="GPU time by kernel class"
            total={all}
            parts={classes.map((row) => ({
              label: text(row, 'category'),
              value: number(row, 'sum_ns'),
              color: colorOf('', text(row, 'category')),
              text: percent(number(row, 'sum_ns') / all),
            }))}
          />
        </div>
      )}
    </>
  );
}

function kernelColumns(trace: string, most: number): Column<Row>[] {
  return [
    {
      id: 'name',
      title: 'Kernel',
      cell: (row) => (
        <span title={text(row, 'name')}>
          <i class="swatch" style={{ background: colorOf(text(row, 'name'), text(row, 'category')) }} /> {shortName(text(row, 'name'))}
        </span>
      ),
    },
    { id: 'class', title: 'Class', width: '132px', cell: (row) => text(row, 'category'), rare: true },
    { id: 'count', title: 'Count', width: '76px', numeric: true, cell: (row) => count(number(row, 'count')), rare: true },
    { id: 'mean', title: 'Mean', width: '78px', numeric: true, cell: (row) => duration(number(row, 'mean_ns')), rare: true },
    { id: 'p99', title: 'p99', width: '78px', numeric: true, cell: (row) => duration(number(row, 'p99_ns')), rare: true },
    {
      id: 'max',
      title: 'Longest',
      width: '86px',
      numeric: true,
      rare: true,
      help: 'opens the longest one in the timeline',
      cell: (row) => {
        const from = number(row, 'max_start_ns');
        const around = windowAround({ from, to: from + number(row, 'max_ns') });
        return (
          <span>
            <a href={address(`/traces/${trace}/timeline`, { from: around.from, to: around.to, slice: text(row, 'max_slice') })}>{duration(number(row, 'max_ns'))}</a>
          </span>
        );
      },
    },
    { id: 'sum', title: 'Sum', width: '80px', numeric: true, cell: (row) => duration(number(row, 'sum_ns')) },
    {
      id: 'share',
      title: 'Share',
      width: '128px',
      help: 'of the sum of all GPU events',
      cell: (row) => <Share ratio={number(row, 'share') / (most || 1)}>{percent(number(row, 'share'))}</Share>,
    },
  ];
}

function Kernels({ rows, trace }: { rows: Row[]; trace: string }) {
  const [all, setAll] = useState(false);
  const shown = useMemo(() => (all ? rows : rows.slice(0, KERNELS_SHOWN)), [rows, all]);
  const most = number(rows[0], 'share');
  return (
    <>
      <div class={all ? 'kernels all' : 'kernels'}>
        <Table label="Kernels by time" columns={kernelColumns(trace, most)} rows={useLocalRows(shown)} rowKey={(row) => text(row, 'name')} fill={all} keys={false} />
      </div>
      {!all && rows.length > KERNELS_SHOWN && (
        <button type="button" class="link more" onClick={() => setAll(true)}>
          {rows.length >= KERNELS_MAX ? `The ${KERNELS_MAX} largest` : `All ${count(rows.length)} kernels`}
        </button>
      )}
    </>
  );
}

const CAUSES: Record<string, [string, string]> = {
  host_wait: ['Host', 'the next event was launched within the gap: the GPU waited for the host'],
  kernel_wait: ['Between kernels', 'the next event was launched before, and the gap is shorter than 30 us'],
  other: ['Other wait', 'the next event was launched before, but waited for another stream, an event, or resources of the GPU'],
};

function gapColumns(most: number): Column<Row>[] {
  return [
    {
      id: 'cause',
      title: 'Cause',
      width: '138px',
      cell: (row) => <span title={CAUSES[text(row, 'cause')]?.[1]}>{CAUSES[text(row, 'cause')]?.[0] ?? text(row, 'cause')}</span>,
    },
    { id: 'stream', title: 'Stream', width: '72px', numeric: true, cell: (row) => text(row, 'stream') },
    { id: 'count', title: 'Count', width: '76px', numeric: true, cell: (row) => count(number(row, 'count')), rare: true },
    { id: 'max', title: 'Longest', width: '80px', numeric: true, cell: (row) => duration(number(row, 'max_ns')), rare: true },
    {
      id: 'idle',
      title: 'Idle',
      width: '170px',
      help: 'time in these gaps without activity on any stream',
      cell: (row) => (
        <Share ratio={number(row, 'idle_ns') / (most || 1)} costs>
          {duration(number(row, 'idle_ns'))}
        </Share>
      ),
    },
    {
      id: 'call',
      title: 'Meanwhile on the host',
      help: 'the call in which the launching thread spent most of these gaps',
      cell: (row) => (
        <span title={text(row, 'call')}>
          {text(row, 'call')} {text(row, 'call') && <small>{duration(number(row, 'call_ns'))}</small>}
        </span>
      ),
    },
    { id: 'inside', title: 'Inside', help: 'where in the program', cell: (row) => <span title={text(row, 'inside')}>{text(row, 'inside')}</span>, rare: true },
  ];
}

function Gaps({ rows }: { rows: Row[] }) {
  const list = useMemo(() => [...rows].sort((a, b) => number(b, 'idle_ns') - number(a, 'idle_ns')), [rows]);
  const streams = new Set(rows.map((row) => `${text(row, 'rank')} ${text(row, 'device')} ${text(row, 'stream')}`));
  const causes = [...new Set(list.map((row) => text(row, 'cause')))];
  return (
    <>
      <Table label="Gaps by stream and cause" columns={gapColumns(number(list[0], 'idle_ns'))} rows={useLocalRows(list)} rowKey={(_, i) => String(i)} keys={false} />
      <dl class="causes hint">
        {causes.map((cause) => (
          <div key={cause}>
            <dt>{CAUSES[cause]?.[0] ?? cause}</dt>
            <dd>{CAUSES[cause]?.[1]}</dd>
          </div>
        ))}
      </dl>
      {streams.size > 1 && <p class="hint">Gaps of several streams lie at the same time, so that the rows do not add up to the idle time of the GPU.</p>}
    </>
  );
}

// What a section shows while its reports are computed, and where they failed.
function Section({ title, of, children }: { title: string; of: Loaded<Reports>[]; children: ComponentChildren }) {
  const failed = of.find((one) => one.problem);
  return (
    <section class="panel" aria-label={title} aria-busy={of.some((one) => one.loading)}>
      <h2>{title}</h2>
      {failed ? (
        <ProblemBox problem={failed.problem} onRetry={failed.reload} />
      ) : of.some((one) => !one.data) ? (
        <p class="hint computing">Computing…</p>
      ) : (
        children
      )}
    </section>
  );
}

function Reported({ id }: { id: string }) {
  const findings = useLoad(id + ' findings', (signal) => loadReports([id], ['findings', 'gaps'], 100, signal));
  const use = useLoad(id + ' use', (signal) => loadReports([id], ['summary', 'temporal', 'overlap', 'categories', 'memory'], 100, signal));
  const kernels = useLoad(id + ' kernels', (signal) => loadReports([id], ['kernels'], KERNELS_MAX, signal));
  const steps = useLoad(id + ' steps', (signal) => loadReports([id], ['steps'], 0, signal));
  const memory = rowsNamed(use.data, 'memory');
  const span = number(rowsNamed(use.data, 'summary')[0], 'wall_ns');
  const gaps = rowsNamed(findings.data, 'gaps');
  const found = useMemo(() => rowsNamed(findings.data, 'findings'), [findings.data]);
  return (
    <>
      <Section title="Findings" of={[findings]}>
        <Findings rows={found} trace={id} />
      </Section>
      <div class="trace-columns">
        <Section title="GPU time" of={[use]}>
          <Gpu reports={use.data!} />
        </Section>
        <Section title="Steps" of={[steps]}>
          <Steps rows={rowsNamed(steps.data, 'steps')} trace={id} />
        </Section>
      </div>
      <Section title="Kernels" of={[kernels]}>
        {whyNot(kernels.data, 'kernels') ? <p class="hint">{whyNot(kernels.data, 'kernels')}</p> : <Kernels rows={rowsNamed(kernels.data, 'kernels')} trace={id} />}
      </Section>
      <Section title="Gaps" of={[findings]}>
        {gaps.length > 0 ? <Gaps rows={gaps} /> : <p class="hint">{whyNot(findings.data, 'gaps') ?? 'There are no gaps.'}</p>}
      </Section>
      {memory.length > 0 && (
        <Section title="Memory" of={[use]}>
          <Memory rows={memory} trace={id} span={span} />
        </Section>
      )}
    </>
  );
}

function useActions(id: string, trace: Trace | null) {
  const me = useMe();
  const perfetto = useAction(() => openInPerfetto({ perfetto: me.perfetto, trace: id, title: `${id} ${trace?.name ?? ''}`.trim() }));
  const save = useAction(() => download(`/v1/traces/${id}/file`));
  const links: [string, string, string][] = [
    ['Timeline', 'l', `/traces/${id}/timeline`],
    ['Flame graph', 'f', `/traces/${id}/flame`],
  ];
  useKeys(`Trace ${id}`, [
    ...links.map(([label, key, path]) => ({ keys: key, label, run: () => navigate(path) })),
    { keys: 'x', label: 'Compare with another trace', run: () => navigate('/compare', { a: id }) },
    { keys: 's', label: 'Query in SQL', run: () => navigate('/sql', { trace: id }) },
    { keys: 'd', label: 'Download', run: () => save.run() },
    { keys: 'p', label: 'Open in Perfetto', run: () => perfetto.run() },
  ]);
  useCommands([
    ...links.map(([label, key, path]) => ({ title: `${label} of ${id}`, hint: key, run: () => navigate(path) })),
    { title: `Compare ${id} with another trace`, hint: 'x', run: () => navigate('/compare', { a: id }) },
    { title: `Query ${id} in SQL`, hint: 's', run: () => navigate('/sql', { trace: id }) },
    { title: `Download ${id}`, hint: 'd', run: () => save.run() },
    { title: `Open ${id} in Perfetto`, hint: 'p', run: () => perfetto.run() },
  ]);
  return { save, perfetto };
}

export function TraceView({ parts }: ViewProps) {
  const id = parts['trace']!;
  const { data: trace, problem, reload } = useGet<Trace>(`/v1/traces/${encodeURIComponent(id)}`);
  const actions = useActions(id, trace);
  // profctl open leads here.
  const isForPerfetto = usePlace().query.get('perfetto') === '1';
  const facts = useLoad(trace?.columns ? id + ' facts' : null, (signal) => loadReports([id], ['summary'], 1, signal));
  if (problem) return <ProblemBox problem={problem} onRetry={reload} />;
  if (!trace) return <p class="empty">Loading…</p>;
  return (
    <article class="trace-view">
      <div class="head">
        <h1>Trace {id}</h1>
        <State state={trace.state} />
        <p class="facts">
          {rankText(trace) && <span>{rankText(trace)}</span>}
          {trace.device_name && <span>{trace.device_name}</span>}
          {trace.span_ns !== undefined && <span>{duration(trace.span_ns)}</span>}
          {trace.slices !== undefined && <span>{slices(trace.slices)}</span>}
        </p>
        <div class="actions">
          {trace.columns && (
            <>
              <a class="button primary" href={`#/traces/${id}/timeline`}>
                Timeline
              </a>
              <a class="button" href={`#/traces/${id}/flame`}>
                Flame graph
              </a>
              <a class="button" href={address('/compare', { a: id })}>
                Compare…
              </a>
              <a class="button" href={address('/sql', { trace: id })}>
                SQL
              </a>
            </>
          )}
          <button type="button" onClick={() => actions.save.run()} disabled={actions.save.busy}>
            Download
          </button>
          {trace.kind !== 'attachment' && (
            <button type="button" onClick={() => actions.perfetto.run()} disabled={actions.perfetto.busy} title="Opens a tab, and hands the trace over within this browser (p)">
              {actions.perfetto.busy ? 'Handing over…' : 'Perfetto'}
            </button>
          )}
        </div>
      </div>
      <ProblemBox problem={actions.save.problem ?? actions.perfetto.problem} />
      {isForPerfetto && (
        <p class="panel hand-over">
          <button type="button" class="primary" onClick={() => actions.perfetto.run()} disabled={actions.perfetto.busy}>
            Open {id} in Perfetto
          </button>{' '}
          <span class="hint">Browsers open a tab only after a click. The trace goes from this page to the tab, and to no server.</span>
        </p>
      )}
      {trace.columns ? (
        <Reported key={id} id={id} />
      ) : (
        <p class="problem">{trace.columns_reason || trace.reason || 'The trace has not been read, so that only its file is available.'}</p>
      )}
      <section class="panel" aria-label="Facts">
        <h2>Facts</h2>
        <Facts trace={trace} summary={rowsNamed(facts.data, 'summary')[0]} />
        {trace.defects && trace.defects.length > 0 && (
          <details class="defects">
            <summary>{plural(trace.defects.length, 'kind')} of defects in the file</summary>
            <ul>
              {trace.defects.map((defect) => (
                <li key={defect.kind}>
                  {count(defect.count)} × {defect.text}
                </li>
              ))}
            </ul>
          </details>
        )}
      </section>
    </article>
  );
}
