// SPDX-License-Identifier: Apache-2.0
// Draws an icicle and lets people move in it: a click gives a frame the complete width, a click on one above it goes back.
// Arrow keys choose a frame, Enter zooms, Escape shows all. Its table is components/icicle.tsx's.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { colorOf, themeColor } from '../colors';
import { type Box, briefName, nameOf, type Tree, visible } from '../icicle';
import { onThemeChange } from '../theme';
import { isDark } from '../theme';

export const ROW = 19;
const LABEL_MIN = 26; // pixels of a frame that has room for text
const NAME_ROOM = 300; // and for most names as they are
const TEXT = '#10131a';

interface IcicleCanvasProps {
  tree: Tree;
  focus: number;
  chosen: number | null;
  matches: Set<number> | null; // null: nothing is searched
  describe: (frame: number) => [string, string][]; // name and value of each line of the tooltip
  onFocus: (frame: number) => void;
  onChoose: (frame: number | null) => void;
}

// Red for what grew, blue for what shrank; grey for what did not change. `change` is from -1 to 1.
export function changeColor(change: number): string {
  const strength = Math.min(1, Math.abs(change) * 2.5);
  const base: [number, number, number] = isDark() ? [96, 106, 122] : [196, 203, 214];
  const full: [number, number, number] = change > 0 ? [235, 98, 92] : [86, 148, 245];
  return `rgb(${base.map((from, i) => Math.round(from + (full[i]! - from) * strength)).join(' ')})`;
}

// How much of the larger one of both times a frame changed by.
export function changeOf(tree: Tree, frame: number): number {
  const before = tree.before?.[frame] ?? 0;
  const after = tree.total[frame]!;
  return (after - before) / (Math.max(before, after) || 1);
}

function shortened(ctx: CanvasRenderingContext2D, label: string, room: number): string {
  if (ctx.measureText(label).width <= room) return label;
  let low = 0;
  let high = label.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ctx.measureText(label.slice(0, middle) + '…').width <= room) low = middle;
    else high = middle - 1;
  }
  return low < 2 ? '' : label.slice(0, low) + '…';
}

export function IcicleCanvas({ tree, focus, chosen, matches, describe, onFocus, onChoose }: IcicleCanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(0);
  const [pointer, setPointer] = useState<{ frame: number; x: number; y: number } | null>(null);
  useEffect(() => onThemeChange(() => setTheme((old) => old + 1)), []);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry!.target.clientWidth));
    observer.observe(canvas.current!.parentElement!);
    return () => observer.disconnect();
  }, []);
  const boxes = useMemo(() => (width > 0 ? visible(tree, focus, width) : []), [tree, focus, width]);
  const rows = useMemo(() => boxes.reduce((most, box) => Math.max(most, box.row), 0) + 1, [boxes]);
  const height = rows * ROW + 2;
  // The boxes of a row from left to right, for looking up what is under the pointer.
  const byRow = useMemo(() => {
    const list: Box[][] = Array.from({ length: rows }, () => []);
    for (const box of boxes) list[box.row]!.push(box);
    for (const row of list) row.sort((a, b) => a.x - b.x);
    return list;
  }, [boxes, rows]);

  useEffect(() => {
    const element = canvas.current!;
    if (width === 0) return;
    const ratio = devicePixelRatio;
    element.width = width * ratio;
    element.height = height * ratio;
    const ctx = element.getContext('2d')!;
    ctx.scale(ratio, ratio);
    ctx.font = '11.5px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    const muted = themeColor('--hover');
    const accent = themeColor('--accent');
    for (const box of boxes) {
      const y = box.row * ROW + 1;
      const matched = matches === null || matches.has(box.frame);
      const wide = Math.max(0.6, box.width - (box.width > 3 ? 1 : 0));
      const name = nameOf(tree, box.frame);
      ctx.globalAlpha = box.row < tree.depth[focus]! ? 0.55 : 1;
      ctx.fillStyle = !matched || box.frame === 0 ? muted : tree.before ? changeColor(changeOf(tree, box.frame)) : colorOf(name);
      ctx.fillRect(box.x, y, wide, ROW - 1);
      if (box.width > LABEL_MIN) {
        ctx.fillStyle = !matched || box.frame === 0 ? themeColor('--muted') : tree.before && isDark() && Math.abs(changeOf(tree, box.frame)) < 0.1 ? '#ffffff' : TEXT;
        const room = box.width - 9;
        const label = shortened(ctx, room > NAME_ROOM ? name : briefName(name), room);
        if (label) ctx.fillText(label, box.x + 4, y + ROW / 2);
      }
      if (box.frame === chosen) {
        ctx.globalAlpha = 1;
        ctx.strokeStyle = accent;
        ctx.lineWidth = 2;
        ctx.strokeRect(box.x + 1, y + 1, Math.max(1, wide - 2), ROW - 3);
      }
    }
    ctx.globalAlpha = 1;
  }, [boxes, chosen, matches, theme, width, height]);

  // Keeps what the keys chose in view.
  useEffect(() => {
    if (chosen === null || pointer) return;
    const scroller = canvas.current!.parentElement!;
    const y = tree.depth[chosen]! * ROW;
    if (y < scroller.scrollTop) scroller.scrollTop = y;
    else if (y + 2 * ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + 2 * ROW - scroller.clientHeight;
  }, [chosen]);

  const under = (event: MouseEvent): number | null => {
    const place = canvas.current!.getBoundingClientRect();
    const x = event.clientX - place.left;
    const row = byRow[Math.floor((event.clientY - place.top) / ROW)];
    return row?.find((box) => x >= box.x && x < box.x + Math.max(1, box.width))?.frame ?? null;
  };
  const sibling = (by: number): number => {
    const row = byRow[tree.depth[chosen ?? 0]!] ?? [];
    const at = row.findIndex((box) => box.frame === chosen);
    return row[Math.max(0, Math.min(row.length - 1, at + by))]?.frame ?? chosen ?? 0;
  };
  const keys: Record<string, () => void> = {
    ArrowDown: () => onChoose(chosen === null ? focus : (tree.children[chosen]![0] ?? chosen)),
    ArrowUp: () => onChoose(chosen === null ? focus : Math.max(0, tree.parent[chosen]!)),
    ArrowLeft: () => onChoose(sibling(-1)),
    ArrowRight: () => onChoose(sibling(1)),
    Enter: () => onFocus(chosen ?? 0),
    Escape: () => onFocus(0),
  };
  const shown = pointer?.frame ?? null;
  return (
    <div class="icicle-scroll">
      <canvas
        ref={canvas}
        class="icicle"
        style={{ height: `${height}px` }}
        tabIndex={0}
        role="application"
        aria-label="Flame graph. Arrow keys choose a frame, Enter zooms, Escape shows all. The table next to it has the same figures."
        aria-describedby="icicle-chosen"
        onMouseMove={(event) => {
          const frame = under(event);
          setPointer(frame === null ? null : { frame, x: event.clientX, y: event.clientY });
        }}
        onMouseLeave={() => setPointer(null)}
        onClick={(event) => {
          const frame = under(event);
          if (frame === null) return;
          onChoose(frame);
          onFocus(frame === focus && frame !== 0 ? tree.parent[frame]! : frame);
        }}
        onKeyDown={(event) => {
          const action = keys[event.key];
          if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
          event.preventDefault();
          event.stopPropagation();
          setPointer(null);
          action();
        }}
      />
      {shown !== null && pointer && (
        <div
          class="tooltip"
          style={{ left: `${Math.min(pointer.x + 14, innerWidth - 380)}px`, top: `${Math.min(pointer.y + 16, innerHeight - 150)}px` }}
          aria-hidden="true"
        >
          <strong>{nameOf(tree, shown)}</strong>
          <dl>
            {describe(shown).map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        </div>
      )}
    </div>
  );
}
