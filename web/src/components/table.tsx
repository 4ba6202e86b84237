// SPDX-License-Identifier: Apache-2.0
// A table of any number of rows: only those in view are elements. Columns are sorted by whoever owns the rows (onSort);
// j, k and Enter choose and open a row. The table scrolls by itself where it has a height, else it shows all of its rows.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useKeys } from '../keys';
import type { Rows } from '../rows';

export interface Column<T> {
  id: string;
  title: string;
  cell: (row: T) => ComponentChildren;
  help?: string;
  width?: string; // CSS; the columns without one share the rest
  numeric?: boolean; // aligned to the right
  sort?: string; // name for onSort; a column without one cannot be sorted
  down?: boolean; // sorts the largest first at the first click
  rare?: boolean; // left out in narrow windows
  spare?: boolean; // left out in windows that are not wide
  plain?: boolean; // never the link of the row
}

interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: Rows<T>;
  rowKey: (row: T, index: number) => string;
  sort?: string; // 'size' or '-size'
  onSort?: (sort: string) => void;
  onOpen?: (row: T) => void; // Enter, click
  onChoose?: (row: T | null) => void; // by the keyboard or a click
  href?: (row: T) => string; // the row as a link, in its first column that is not plain
  marked?: (row: T) => boolean;
  empty?: ComponentChildren;
  fill?: boolean; // as high as its container, and scrolls
  keys?: boolean; // j, k, Enter work everywhere in the view; default true with onOpen
}

const ROW = 34;
const MARGIN = 12; // rows before and after those in view

export function Table<T>(props: TableProps<T>) {
  const { columns, rows, rowKey, sort = '', onSort, onOpen, href, fill } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [chosen, setChosen] = useState(-1);

  useLayoutEffect(() => {
    const element = scroller.current!;
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener('scroll', look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', look);
    };
  }, []);

  const first = fill ? Math.max(0, Math.min(rows.total - 1, Math.floor(view.top / ROW)) - MARGIN) : 0;
  const last = fill ? Math.min(rows.total, Math.ceil((view.top + view.height) / ROW) + MARGIN) : rows.total;
  useEffect(() => {
    if (last > first) rows.want(first, last - 1);
  }, [first, last, rows.want]);
  // Another order begins at the top.
  useEffect(() => {
    if (scroller.current) scroller.current.scrollTop = 0;
    setChosen(-1);
  }, [rows.want]);
  const chosenRow = chosen < 0 ? undefined : rows.at(chosen);
  // Before the next key.
  useLayoutEffect(() => props.onChoose?.(chosenRow ?? null), [chosenRow]);

  const choose = (index: number) => {
    if (rows.total === 0) return;
    const next = Math.max(0, Math.min(rows.total - 1, index));
    setChosen(next);
    const element = scroller.current!;
    if (!fill) {
      element.querySelector(`[data-index="${next}"]`)?.scrollIntoView({ block: 'nearest' });
    } else if (next * ROW < element.scrollTop) {
      element.scrollTop = next * ROW;
    } else if ((next + 2) * ROW > element.scrollTop + element.clientHeight) {
      element.scrollTop = (next + 2) * ROW - element.clientHeight;
    }
  };
  const open = (index: number) => {
    const row = rows.at(index);
    if (row === undefined) return;
    if (onOpen) onOpen(row);
    else if (href) location.hash = href(row);
  };
  const hasKeys = props.keys ?? Boolean(onOpen || href);
  useKeys(
    props.label,
    hasKeys
      ? [
          { keys: 'j,ArrowDown', label: 'Next row', run: () => choose(chosen + 1) },
          { keys: 'k,ArrowUp', label: 'Previous row', run: () => choose(chosen < 0 ? 0 : chosen - 1) },
          { keys: 'PageDown', label: 'Rows of a page down', run: () => choose(chosen + Math.floor(view.height / ROW)) },
          { keys: 'PageUp', label: 'Rows of a page up', run: () => choose(chosen - Math.floor(view.height / ROW)) },
          { keys: 'Home', label: 'First row', run: () => choose(0) },
          { keys: 'End', label: 'Last row', run: () => choose(rows.total - 1) },
          {
            keys: 'Enter',
            label: 'Open the row',
            run: (event) => {
              const target = event.target as HTMLElement;
              if (target.matches('a, button, summary')) target.click();
              else open(chosen);
            },
          },
        ]
      : [],
  );

  const linked = href ? columns.findIndex((column) => !column.plain) : -1;
  const sortBy = (column: Column<T>) => {
    const up = column.sort!;
    const down = '-' + up;
    onSort!(column.down ? (sort === down ? up : down) : sort === up ? down : up);
  };
  const body = [];
  for (let index = first; index < last; index++) {
    const row = rows.at(index);
    body.push(
      <tr
        key={row === undefined ? `#${index}` : rowKey(row, index)}
        data-index={index}
        aria-rowindex={index + 2}
        class={[index === chosen && 'chosen', row !== undefined && props.marked?.(row) && 'marked', (onOpen || href) && 'opens'].filter(Boolean).join(' ') || undefined}
        onClick={(event) => {
          if ((event.target as HTMLElement).closest('a, button, input, summary') || getSelection()?.toString()) return;
          setChosen(index);
          open(index);
        }}
      >
        {columns.map((column, i) => (
          <td key={column.id} class={classOf(column)}>
            {row === undefined ? (
              <span class="waiting" />
            ) : i === linked ? (
              <a class="row-link" href={href!(row)}>
                {column.cell(row)}
              </a>
            ) : (
              column.cell(row)
            )}
          </td>
        ))}
      </tr>,
    );
  }
  return (
    <div class={fill ? 'table fill' : 'table'} ref={scroller} tabIndex={0} role="group" aria-label={props.label} aria-busy={rows.loading}>
      <table aria-label={props.label} aria-rowcount={rows.total + 1} style={{ '--least': least(columns), '--least-medium': least(columns.filter((column) => !column.spare)), '--least-narrow': least(columns.filter((column) => !column.rare && !column.spare)) }}>
        <colgroup>
          {columns.map((column) => (
            <col key={column.id} class={classOf(column)} style={column.width ? { width: column.width } : undefined} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th key={column.id} scope="col" class={classOf(column)} title={column.help} aria-sort={orderOf(column, sort)}>
                {column.sort && onSort ? (
                  <button type="button" onClick={() => sortBy(column)}>
                    {column.title}
                  </button>
                ) : (
                  column.title || <span class="hidden">{column.help}</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" class="gap" style={{ height: `${first * ROW}px` }} />}
          {body}
          {last < rows.total && <tr aria-hidden="true" class="gap" style={{ height: `${(rows.total - last) * ROW}px` }} />}
        </tbody>
      </table>
      {rows.total === 0 && !rows.loading && !rows.problem && <div class="empty">{props.empty ?? 'No rows.'}</div>}
    </div>
  );
}

// Below this width the table scrolls sideways.
const FLEXIBLE_PX = 124;

function least<T>(columns: Column<T>[]): string {
  // Of clamp(68px, 9vw, 96px) the least is the first.
  return columns.reduce((sum, column) => sum + Number(/(\d+)px/.exec(column.width ?? '')?.[1] ?? FLEXIBLE_PX), 0) + 'px';
}

function classOf<T>(column: Column<T>): string | undefined {
  return [column.numeric && 'numeric', column.rare && 'rare', column.spare && 'spare'].filter(Boolean).join(' ') || undefined;
}

function orderOf<T>(column: Column<T>, sort: string): 'ascending' | 'descending' | undefined {
  if (!column.sort) return undefined;
  return sort === column.sort ? 'ascending' : sort === '-' + column.sort ? 'descending' : undefined;
}
