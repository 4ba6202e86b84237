// SPDX-License-Identifier: Apache-2.0
// Rank by step: a cell for each, its colour stronger where the step took longer, red where it took longer than on the other
// ranks. One canvas for any number of cells; the cell under the pointer or of the keys is told in words.

import { useEffect, useRef, useState } from 'preact/hooks';
import { Surface } from '../canvas/surface';
import { useOwnKeys } from '../keys';
import { type Palette, readPalette } from '../timeline/palette';
import { onThemeChange } from '../theme';
import { duration, percent } from '../units';
import { type Instance, lateness, type StepColumn } from './data';

const CELL = 16;
const CELL_MIN = 2;
const HEIGHT_MAX = 340;

// Steps that share a cell where there are more steps than pixels: the one with the latest rank.
function columnsFor(steps: readonly StepColumn[], width: number): StepColumn[] {
  const room = Math.max(1, Math.floor(width / CELL_MIN));
  if (steps.length <= room) return [...steps];
  return Array.from({ length: room }, (_, i) => {
    const part = steps.slice(Math.floor((i * steps.length) / room), Math.max(Math.floor(((i + 1) * steps.length) / room), 1));
    const worst = (step: StepColumn) => Math.max(...step.cells.map((cell) => (cell ? lateness(cell, step.median) : 0)));
    return part.reduce((a, b) => (worst(b) > worst(a) ? b : a));
  });
}

interface MatrixProps {
  instance: Instance;
  chosen: StepColumn | null;
  onChoose: (step: StepColumn, row: number) => void;
}

export function Matrix({ instance, chosen, onChoose }: MatrixProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const surface = useRef<Surface | null>(null);
  const palette = useRef<Palette>(readPalette());
  const shown = useRef<StepColumn[]>([]);
  const cell = useRef({ width: CELL, height: CELL });
  const latest = useRef({ instance, chosen });
  latest.current = { instance, chosen };
  const [at, setAt] = useState<{ row: number; column: number } | null>(null);
  const marked = useRef(at);
  marked.current = at;

  useEffect(() => {
    const created = new Surface(canvas.current!, (g, width, height) => {
      const now = latest.current;
      const { ranks, steps } = now.instance;
      shown.current = columnsFor(steps, width);
      cell.current = { width: Math.min(CELL, width / Math.max(shown.current.length, 1)), height: height / ranks.length };
      const { width: w, height: h } = cell.current;
      const colors = palette.current;
      const most = steps.reduce((max, step) => Math.max(max, step.median), 1);
      g.fillStyle = colors.panel;
      g.fillRect(0, 0, width, height);
      shown.current.forEach((step, i) => {
        step.cells.forEach((each, row) => {
          if (!each) return;
          const late = lateness(each, step.median);
          g.fillStyle = colors.fill;
          g.globalAlpha = 0.18 + 0.82 * Math.min(1, each.dur / most);
          const gap = w > 5 ? 1 : 0;
          g.fillRect(i * w, row * h, w - gap, h - 1);
          if (late > 0.1) {
            g.fillStyle = colors.red;
            g.globalAlpha = 0.35 + 0.65 * late;
            g.fillRect(i * w, row * h, w - gap, h - 1);
          }
        });
        g.globalAlpha = 1;
      });
      const column = now.chosen ? shown.current.indexOf(now.chosen) : -1;
      g.strokeStyle = colors.accent;
      g.lineWidth = 2;
      if (column >= 0) g.strokeRect(column * w, 1, Math.max(w - 1, 2), height - 2);
      if (marked.current) {
        g.strokeStyle = colors.text;
        g.lineWidth = 1;
        g.strokeRect(marked.current.column * w + 0.5, marked.current.row * h + 0.5, Math.max(w - 2, 1), h - 2);
      }
      return false;
    });
    surface.current = created;
    const unthemed = onThemeChange(() => {
      palette.current = readPalette();
      created.invalidate();
    });
    return () => {
      unthemed();
      created.close();
    };
  }, []);
  useEffect(() => surface.current?.invalidate(), [instance, chosen, at]);

  useOwnKeys('Matrix of ranks, while it has the focus', [
    ['ArrowLeft,ArrowRight', 'Previous or next step'],
    ['ArrowUp,ArrowDown', 'Previous or next rank'],
    ['Enter', 'Show the step'],
  ]);
  const rows = instance.ranks.length;
  const height = Math.min(HEIGHT_MAX, rows * CELL);
  const placeOf = (event: MouseEvent) => ({ row: Math.min(rows - 1, Math.floor(event.offsetY / cell.current.height)), column: Math.floor(event.offsetX / cell.current.width) });
  const choose = (place: { row: number; column: number }) => {
    const step = shown.current[place.column];
    if (step) onChoose(step, place.row);
  };
  const onKey = (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = moves[event.key];
    const now = at ?? { row: 0, column: Math.max(0, chosen ? shown.current.indexOf(chosen) : 0) };
    if (event.key === 'Enter' || event.key === ' ') choose(now);
    else if (move) setAt({ row: Math.max(0, Math.min(rows - 1, now.row + move[0])), column: Math.max(0, Math.min(shown.current.length - 1, now.column + move[1])) });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const step = at ? shown.current[at.column] : undefined;
  const here = at && step ? step.cells[at.row] : null;
  return (
    <figure class="matrix" aria-label="Steps of all ranks">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Matrix of ${rows} ranks and ${instance.steps.length} steps: arrow keys go through it, Enter shows a step`}
        style={{ height: `${height}px` }}
        onPointerMove={(event) => {
          const place = placeOf(event);
          setAt(place.column < shown.current.length ? place : null);
        }}
        onPointerLeave={() => setAt(null)}
        onClick={(event) => choose(placeOf(event))}
        onKeyDown={onKey}
      />
      <figcaption>
        {at && step
          ? `Rank ${instance.ranks[at.row]!.rank}, ${step.label}${step.phase ? ` (${step.phase})` : ''}: ${here ? `${duration(here.dur)}, ${here.dur >= step.median ? '+' : ''}${percent(here.dur / step.median - 1)} of the median rank` : 'not recorded'}`
          : 'Rows are ranks, columns are steps. A stronger colour took longer, red longer than on the other ranks.'}
      </figcaption>
    </figure>
  );
}
