// SPDX-License-Identifier: Apache-2.0
// Steps as a strip: one bar each, as high as its time; outliers are red. A click opens the step in the timeline.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { themeColor } from '../colors';
import { AsTable } from '../components/as_table';
import type { Column } from '../components/table';
import { number, type Row, text, windowAround } from '../reports';
import { estimate, quantile, sorted } from '../figures';
import { navigate } from '../router';
import { onThemeChange } from '../theme';
import { count, duration, moment, percent } from '../units';
import { isOutlier, stepText, stripBars } from './steps_data';

const HEIGHT = 92;

const PHASES: Record<string, string> = { prefill: '#a678f0', decode: '#4f8ff7', mixed: '#2fb3a3', training: '#4f8ff7' };

function colorOf(row: Row): string {
  return PHASES[text(row, 'phase')] ?? themeColor('--fill');
}

function Strip({ rows, chosen, onChoose, onOpen }: { rows: Row[]; chosen: number | null; onChoose: (index: number | null) => void; onOpen: (row: Row) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(0);
  useEffect(() => onThemeChange(() => setTheme((old) => old + 1)), []);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry!.target.clientWidth));
    observer.observe(canvas.current!);
    return () => observer.disconnect();
  }, []);
  const durations = useMemo(() => rows.map((row) => number(row, 'dur_ns')), [rows]);
  const bars = useMemo(() => stripBars(durations, width), [durations, width]);
  const most = useMemo(() => Math.max(1, quantile(sorted(durations), 1) ?? 1), [durations]);
  const median = useMemo(() => quantile(sorted(durations), 0.5) ?? 0, [durations]);

  useEffect(() => {
    const element = canvas.current!;
    if (width === 0) return;
    const ratio = devicePixelRatio;
    element.width = width * ratio;
    element.height = HEIGHT * ratio;
    const ctx = element.getContext('2d')!;
    ctx.scale(ratio, ratio);
    const step = width / bars.length;
    // A strip of three steps is no bar chart of three blocks.
    const wide = Math.min(step, 28);
    bars.forEach(({ longest }, i) => {
      const row = rows[longest]!;
      const high = Math.max(2, (durations[longest]! / most) * (HEIGHT - 6));
      ctx.fillStyle = isOutlier(row) ? themeColor('--red') : colorOf(row);
      ctx.globalAlpha = chosen === null || chosen === longest ? 1 : 0.55;
      ctx.fillRect(i * wide, HEIGHT - high, Math.max(1, wide - (wide > 4 ? 2 : wide > 2 ? 1 : 0)), high);
    });
    ctx.globalAlpha = 1;
    ctx.strokeStyle = themeColor('--muted');
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    const y = HEIGHT - (median / most) * (HEIGHT - 6) + 0.5;
    ctx.moveTo(0, Math.round(y) - 0.5);
    ctx.lineTo(bars.length * wide, Math.round(y) - 0.5);
    ctx.stroke();
  }, [bars, width, chosen, theme, rows]);

  const at = (event: MouseEvent) => {
    const wide = Math.min(width / bars.length, 28);
    const bar = bars[Math.floor((event.clientX - canvas.current!.getBoundingClientRect().left) / wide)];
    return bar ? bar.longest : null;
  };
  const now = chosen ?? 0;
  const move = (to: number, event: KeyboardEvent) => {
    event.preventDefault();
    event.stopPropagation();
    onChoose(Math.max(0, Math.min(rows.length - 1, to)));
  };
  return (
    <canvas
      ref={canvas}
      class="strip"
      style={{ height: `${HEIGHT}px` }}
      tabIndex={0}
      role="slider"
      aria-label="Steps"
      aria-valuemin={0}
      aria-valuemax={rows.length - 1}
      aria-valuenow={now}
      aria-valuetext={rows[now] ? stepText(rows[now]) : ''}
      onMouseMove={(event) => onChoose(at(event))}
      onMouseLeave={() => onChoose(null)}
      onClick={(event) => {
        const index = at(event);
        if (index !== null) onOpen(rows[index]!);
      }}
      onKeyDown={(event) => {
        if (event.key === 'ArrowRight') move(chosen === null ? 0 : now + 1, event);
        else if (event.key === 'ArrowLeft') move(now - 1, event);
        else if (event.key === 'Home') move(0, event);
        else if (event.key === 'End') move(rows.length - 1, event);
        else if (event.key === 'Enter' && rows[now]) onOpen(rows[now]);
      }}
    />
  );
}

const COLUMNS: Column<Row>[] = [
  { id: 'name', title: 'Step', cell: (row) => text(row, 'name') || text(row, 'index') },
  { id: 'phase', title: 'Phase', width: '84px', cell: (row) => text(row, 'phase'), rare: true },
  { id: 'start', title: 'Start', width: '104px', numeric: true, cell: (row) => moment(number(row, 'start_ns'), 1000), rare: true },
  { id: 'dur', title: 'Time', width: '84px', numeric: true, cell: (row) => (row['dur_ns'] === null ? '' : duration(number(row, 'dur_ns'))) },
  { id: 'idle', title: 'Idle', width: '84px', numeric: true, cell: (row) => (row['idle_ns'] === null ? '' : duration(number(row, 'idle_ns'))) },
  { id: 'tokens', title: 'Tokens', width: '78px', numeric: true, cell: (row) => (row['tokens'] === null ? '' : count(number(row, 'tokens'))), rare: true },
  {
    id: 'outlier',
    title: 'Differs',
    width: '210px',
    help: 'what of an outlier differs most from the median step of its phase',
    cell: (row) => isOutlier(row) && <span class={number(row, 'outlier') > 0 ? 'costs' : undefined}>{`${text(row, 'differs')} ${number(row, 'differs_ns') >= 0 ? '+' : ''}${duration(number(row, 'differs_ns'))}`}</span>,
  },
];

export function Steps({ rows, trace }: { rows: Row[]; trace: string }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const timed = useMemo(() => rows.filter((row) => typeof row['dur_ns'] === 'number'), [rows]);
  const durations = useMemo(() => sorted(timed.map((row) => number(row, 'dur_ns'))), [timed]);
  const outliers = timed.filter(isOutlier).length;
  const phases = [...new Set(timed.map((row) => text(row, 'phase')).filter(Boolean))];
  const open = (row: Row) => {
    const from = number(row, 'start_ns');
    const around = windowAround({ from, to: from + number(row, 'dur_ns') });
    navigate(`/traces/${trace}/timeline`, { from: around.from, to: around.to });
  };
  if (timed.length === 0) return <p class="hint">No steps were found.</p>;
  const hovered = chosen === null ? undefined : timed[chosen];
  return (
    <>
      <p class="facts-line">
        <span>
          <b>{count(timed.length)}</b> {timed.length === 1 ? 'step' : 'steps'}
        </span>
        {timed.length === 1 ? (
          <b>{duration(durations[0])}</b>
        ) : (
          [0.5, 0.99].map((q) => {
            const value = estimate(durations, q);
            return (
              <span key={q}>
                {value === null ? 'longest' : `p${100 * q}`} <b>{duration(value ?? quantile(durations, 1))}</b>
              </span>
            );
          })
        )}
        {outliers > 0 && (
          <span class="costs">
            <b>{count(outliers)}</b> {outliers === 1 ? 'outlier' : 'outliers'} ({percent(outliers / timed.length)})
          </span>
        )}
        {phases.length > 1 &&
          phases.map((phase) => (
            <span key={phase}>
              <i class="swatch" style={{ background: PHASES[phase] ?? 'var(--fill)' }} /> {phase}
            </span>
          ))}
      </p>
      <Strip rows={timed} chosen={chosen} onChoose={setChosen} onOpen={open} />
      <p class="hint strip-hint">{hovered ? stepText(hovered) : 'Height is time, the line is the median. Click a step to open it in the timeline.'}</p>
      <AsTable label="Table of steps" columns={COLUMNS} rows={timed} onOpen={open} />
    </>
  );
}
