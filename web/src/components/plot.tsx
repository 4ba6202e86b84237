// SPDX-License-Identifier: Apache-2.0
// A plot by uPlot with the colours of the page. Plots with the same `sync` share one cursor. A drag zooms, a double click
// shows all again. The table of the same values is the caller's: canvases say nothing to those who cannot see them.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { themeColor } from '../colors';
import { onThemeChange } from '../theme';
import './plot.css';

interface PlotSeries {
  label: string;
  color: string; // CSS, or a variable of style.css ('--accent')
  values: (number | null)[];
  kind?: 'line' | 'steps' | 'points' | 'bars' | 'area';
  dash?: boolean;
  text?: (y: number) => string; // else yText
}

export interface Mark {
  x: number;
  label: string;
  color: string;
}

interface PlotProps {
  label: string;
  x: number[];
  series: PlotSeries[];
  xTitle: string;
  yTitle?: string; // unit of values that ticks do not name
  xText: (x: number) => string;
  yText: (y: number) => string;
  xTicks?: (ticks: number[], increment: number) => string[]; // else xText of each
  yTicks?: (ticks: number[], increment: number) => string[];
  xRange?: [number, number]; // else what the values cover
  height?: number;
  sync?: string;
  marks?: Mark[];
  yMax?: number;
  binary?: boolean; // the values are bytes: ticks at powers of two
  onPick?: (index: number) => void; // a click without a drag
}

const AXIS = 66; // with the title, so that plots of one cursor lie below one another
const TITLE = 16;
const POWERS = Array.from({ length: 51 }, (_, i) => 2 ** i);

function colorOf(color: string): string {
  return color.startsWith('--') ? themeColor(color) : color;
}

function pathsOf(kind: PlotSeries['kind']): uPlot.Series.PathBuilder | undefined {
  if (kind === 'steps') return uPlot.paths.stepped!({ align: 1 });
  if (kind === 'bars') return uPlot.paths.bars!({ size: [0.9, 60], align: 1 });
  if (kind === 'points') return () => null;
  return undefined;
}

function drawMarks(u: uPlot, marks: Mark[]): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.lineWidth = ratio;
  marks.forEach((mark, i) => {
    const x = Math.round(u.valToPos(mark.x, 'x', true)) + 0.5;
    if (!(x >= bbox.left - 1 && x <= bbox.left + bbox.width + 1)) return;
    ctx.strokeStyle = colorOf(mark.color);
    ctx.fillStyle = colorOf(mark.color);
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const isRight = x > bbox.left + 0.8 * bbox.width;
    ctx.textAlign = isRight ? 'right' : 'left';
    ctx.fillText(mark.label, x + (isRight ? -5 : 5) * ratio, bbox.top + (12 + 14 * (i % 4)) * ratio);
  });
  ctx.restore();
}

const each = (text: (value: number) => string) => (ticks: number[]) => ticks.map(text);

// The range until somebody zooms, and then what they chose.
function rangeOf(all: [number, number]): uPlot.Range.Function {
  return (u, low, high) => {
    const x = u.data[0];
    return x.length < 2 || (low === x[0] && high === x[x.length - 1]) ? all : [low, high];
  };
}

function optionsOf(props: PlotProps, width: number): uPlot.Options {
  const { series, xText, yText, marks = [], height = 200, sync } = props;
  const axis = { stroke: themeColor('--muted'), grid: { stroke: themeColor('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  return {
    width,
    height,
    scales: {
      x: { time: false, ...(props.xRange ? { range: rangeOf(props.xRange) } : {}) },
      y: { range: (_u, _min, max) => [0, props.yMax ?? (max > 0 ? max * 1.06 : 1)] },
    },
    legend: { live: true, markers: { width: 0, fill: (_u, i) => colorOf(series[i - 1]?.color ?? '--muted') } },
    cursor: {
      y: false,
      points: { size: 7 },
      drag: { x: true, y: false },
      ...(sync ? { sync: { key: sync, setSeries: false } } : {}),
    },
    axes: [
      { ...axis, size: 28, space: 90, values: (_u, ticks, _axis, _space, increment) => (props.xTicks ?? each(xText))(ticks, increment) },
      { ...axis, ...(props.yTitle ? { label: props.yTitle, labelSize: TITLE, labelGap: 0, labelFont: axis.font } : {}), size: AXIS - (props.yTitle ? TITLE : 0), space: 34, ...(props.binary ? { incrs: POWERS } : {}), values: (_u, ticks, _axis, _space, increment) => (props.yTicks ?? each(yText))(ticks, increment) },
    ],
    series: [
      { label: props.xTitle, value: (_u, value) => (value === null ? '' : xText(value)) },
      ...series.map((one): uPlot.Series => {
        const color = colorOf(one.color);
        const paths = pathsOf(one.kind);
        const isFilled = one.kind === 'bars' || one.kind === 'area';
        return {
          label: one.label,
          stroke: color,
          width: one.kind === 'bars' ? 0 : 1.6,
          ...(isFilled ? { fill: color + (one.kind === 'bars' ? 'cc' : '33') } : {}),
          ...(one.dash ? { dash: [5, 4] } : {}),
          ...(paths ? { paths } : {}),
          points: one.kind === 'points' ? { show: true, size: 4, fill: color, stroke: color } : { show: one.values.length === 1 },
          value: (_u, value) => (value === null || value === undefined ? '' : (one.text ?? yText)(value)),
        };
      }),
    ],
    hooks: { draw: [(u) => drawMarks(u, marks)] },
  };
}

export function Plot(props: PlotProps) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [theme, setTheme] = useState(0);
  useEffect(() => onThemeChange(() => setTheme((old) => old + 1)), []);

  useLayoutEffect(() => {
    const host = element.current!;
    const u = new uPlot(optionsOf(props, Math.max(200, host.clientWidth)), [props.x, ...props.series.map((one) => one.values)], host);
    plot.current = u;
    let down = 0;
    const press = (event: MouseEvent) => (down = event.clientX);
    const pick = (event: MouseEvent) => {
      const index = u.cursor.idx;
      if (props.onPick && index !== null && index !== undefined && Math.abs(event.clientX - down) < 3) props.onPick(index);
    };
    u.over.addEventListener('mousedown', press);
    u.over.addEventListener('click', pick);
    const observer = new ResizeObserver(() => {
      const width = Math.max(200, host.clientWidth);
      if (width !== u.width) u.setSize({ width, height: u.height });
    });
    observer.observe(host);
    return () => {
      observer.disconnect();
      u.destroy();
    };
  }, [props.x, props.series, props.marks, props.xRange?.[0], props.xRange?.[1], props.yMax, theme]);

  return (
    <figure class={props.onPick ? 'plot picks' : 'plot'} aria-label={props.label}>
      <div ref={element} />
    </figure>
  );
}
