// SPDX-License-Identifier: Apache-2.0
// A flame graph with its search and its table: of one trace, or of two that are compared (width is after, colour is change).

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { colorOf } from '../colors';
import { type AroundSide, briefName, byName, nameOf, type NameRow, pathTo, search, type Tree } from '../icicle';
import { useKeys, useOwnKeys } from '../keys';
import { useLocalRows } from '../rows';
import { count, duration, percent, roughly } from '../units';
import { changeColor, changeOf, IcicleCanvas } from './icicle_canvas';
import { Share } from './bar';
import { type Column, Table } from './table';
import './icicle.css';

interface IcicleProps {
  tree: Tree;
  unit: string; // "ns", or what totals count
  focus: number;
  text: string; // what is searched
  onFocus: (frame: number) => void;
  onSearch: (text: string) => void;
  onAround?: (name: string, side: AroundSide) => void; // shows callers or callees of a name
}

function signed(value: number, text: (value: number) => string): string {
  return (value > 0 ? '+' : '') + text(value);
}

function columnsOf(tree: Tree, value: (n: number) => string): Column<NameRow>[] {
  const all = tree.total[0] || 1;
  const name: Column<NameRow> = {
    id: 'name',
    title: 'Name',
    cell: (row) => (
      <span title={row.name}>
        <i class="swatch" style={{ background: tree.before ? changeColor(changeOf(tree, row.widest)) : colorOf(row.name) }} /> {briefName(row.name)}
      </span>
    ),
  };
  const total: Column<NameRow> = { id: 'total', title: 'Total', width: '74px', numeric: true, sort: 'total', down: true, cell: (row) => value(row.total) };
  if (tree.before) {
    return [
      name,
      { id: 'before', title: 'Before', width: '82px', numeric: true, sort: 'before', down: true, cell: (row) => value(row.before ?? 0) },
      { ...total, title: 'After' },
      {
        id: 'change',
        title: 'Change',
        width: '92px',
        numeric: true,
        sort: 'change',
        down: true,
        cell: (row) => <span class={row.total > (row.before ?? 0) ? 'costs' : undefined}>{signed(row.total - (row.before ?? 0), value)}</span>,
      },
    ];
  }
  return [
    name,
    { id: 'self', title: 'Self', width: '88px', sort: 'self', down: true, help: 'time in no frame below', cell: (row) => <Share ratio={row.self / all}>{value(row.self)}</Share> },
    total,
    { id: 'count', title: 'Count', width: '62px', numeric: true, sort: 'count', down: true, rare: true, cell: (row) => <span title={count(row.count)}>{row.count < 1e4 ? count(row.count) : roughly(row.count)}</span> },
  ];
}

const ORDERS: Record<string, (row: NameRow) => number> = {
  self: (row) => row.self,
  total: (row) => row.total,
  count: (row) => row.count,
  before: (row) => row.before ?? 0,
  change: (row) => Math.abs(row.total - (row.before ?? 0)),
};

function Names({ tree, value, text, onPick }: { tree: Tree; value: (n: number) => string; text: string; onPick: (frame: number) => void }) {
  const [sort, setSort] = useState(tree.before ? '-change' : '-self');
  const all = useMemo(() => byName(tree), [tree]);
  const rows = useMemo(() => {
    const wanted = text.toLowerCase();
    const order = ORDERS[sort.replace('-', '')]!;
    const sign = sort.startsWith('-') ? -1 : 1;
    return all.filter((row) => row.name.toLowerCase().includes(wanted)).sort((a, b) => sign * (order(a) - order(b)));
  }, [all, sort, text]);
  return (
    <Table
      label={tree.before ? 'Names by change' : 'Names by self time'}
      columns={columnsOf(tree, value)}
      rows={useLocalRows(rows)}
      rowKey={(row) => row.name}
      sort={sort}
      onSort={setSort}
      onOpen={(row) => onPick(row.widest)}
      keys={false}
      fill
      empty="No name has this text."
    />
  );
}

export function Icicle({ tree, unit, focus, text, onFocus, onSearch, onAround }: IcicleProps) {
  const [chosen, setChosen] = useState<number | null>(null);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => setChosen(null), [tree]);
  const value = (n: number) => (unit === 'ns' ? duration(n) : `${count(n)}\u00a0${unit}`);
  const found = useMemo(() => (text === '' ? null : search(tree, text)), [tree, text]);
  const all = tree.total[0] || 1;
  const describe = (frame: number): [string, string][] => {
    const total = tree.total[frame]!;
    const lines: [string, string][] = [
      [tree.before ? 'after' : 'total', `${value(total)} (${percent(total / all)})`],
      ['self', value(tree.self[frame]!)],
    ];
    if (tree.count[frame]! > 0) lines.push(['count', count(tree.count[frame]!)]);
    if (tree.before) lines.push(['before', value(tree.before[frame]!)], ['change', signed(total - tree.before[frame]!, value)]);
    return lines;
  };
  useOwnKeys('Flame graph, while the picture has the focus', [
    ['ArrowLeft,ArrowRight', 'Previous or next frame of the row'],
    ['ArrowUp,ArrowDown', 'Caller or callee'],
    ['Enter', 'Zoom to the frame'],
  ]);
  useKeys('Flame graph', [
    { keys: '/', label: 'Search', run: () => input.current?.focus() },
    { keys: 'Escape', label: 'Show all', run: () => onFocus(0) },
  ]);
  const path = pathTo(tree, Math.min(focus, tree.parent.length - 1));
  const last = chosen ?? (focus > 0 ? focus : null);
  const show = (side: AroundSide) => last !== null && last > 0 && onAround?.(tree.names[tree.name[last]!]!, side);
  useKeys(
    'Chosen frame',
    onAround
      ? [
          { keys: 'i', label: 'Who calls it, everywhere', run: () => show('callers') },
          { keys: 'o', label: 'What it calls, everywhere', run: () => show('callees') },
        ]
      : [],
  );
  return (
    <div class="icicle-view">
      <div class="icicle-tools">
        <input
          ref={input}
          type="search"
          aria-label="Search frames"
          placeholder="Search  /"
          value={text}
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => onSearch(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') {
              onSearch('');
              event.currentTarget.blur();
            }
          }}
        />
        {found && (
          <span role="status">
            <b>{percent(found.total / all)}</b> matched ({value(found.total)}, {count(found.frames.size)} {found.frames.size === 1 ? 'frame' : 'frames'})
          </span>
        )}
        <nav aria-label="Path" class="icicle-path">
          {path.length > 1 &&
            path.map((frame, i) =>
              i === path.length - 1 ? (
                <b key={frame} title={nameOf(tree, frame)}>
                  {nameOf(tree, frame)}
                </b>
              ) : path.length > 6 && i > 1 && i < path.length - 3 ? (
                i === 2 && <span key={frame}>...</span>
              ) : (
                <button type="button" class="link" key={frame} title={nameOf(tree, frame)} onClick={() => onFocus(frame)}>
                  {nameOf(tree, frame)}
                </button>
              ),
            )}
        </nav>
      </div>
      <div class="icicle-both">
        <IcicleCanvas tree={tree} focus={focus} chosen={chosen} matches={found?.frames ?? null} describe={describe} onFocus={onFocus} onChoose={setChosen} />
        <aside aria-label={tree.before ? 'Names by change' : 'Names by self time'}>
          <p id="icicle-chosen" class="icicle-chosen" role="status">
            {last !== null ? (
              <>
                <strong title={nameOf(tree, last)}>{nameOf(tree, last)}</strong>
                <span>{describe(last).map(([name, text_]) => `${name} ${text_}`).join(' · ')}</span>
                {onAround && last > 0 && (
                  <span class="icicle-around">
                    <button type="button" class="link" title="Who calls frames of this name, everywhere (i)" onClick={() => show('callers')}>
                      Callers
                    </button>{' '}
                    <button type="button" class="link" title="What frames of this name call, everywhere (o)" onClick={() => show('callees')}>
                      Callees
                    </button>
                  </span>
                )}
              </>
            ) : (
              <span>
                all: {value(tree.total[0]!)}
                {tree.before && `, before ${value(tree.before[0]!)}`}. Click a frame to zoom.
              </span>
            )}
          </p>
          <Names
            tree={tree}
            value={value}
            text={text}
            onPick={(frame) => {
              setChosen(frame);
              onFocus(frame);
            }}
          />
        </aside>
      </div>
    </div>
  );
}
