// SPDX-License-Identifier: Apache-2.0
// The table of what a canvas shows: closed at first, and made when it is opened.

import { useState } from 'preact/hooks';
import { type Rows, useLocalRows } from '../rows';
import { type Column, Table } from './table';
import './plot.css';

const SHORT = 9; // rows that are shown without a scroll bar of their own

interface AsTableProps<T> {
  label: string;
  title?: string; // of what opens it
  columns: Column<T>[];
  rows: T[];
  onOpen?: (row: T) => void;
  marked?: (row: T) => boolean;
}

function Shown<T>({ label, columns, rows, onOpen, marked }: AsTableProps<T>) {
  const local: Rows<T> = useLocalRows(rows);
  const isLong = rows.length > SHORT;
  const more = { ...(onOpen ? { onOpen } : {}), ...(marked ? { marked } : {}) };
  return (
    <div class={isLong ? 'sized' : undefined}>
      <Table label={label} columns={columns} rows={local} rowKey={(_, index) => String(index)} fill={isLong} keys={false} {...more} />
    </div>
  );
}

export function AsTable<T>(props: AsTableProps<T>) {
  const [open, setOpen] = useState(false);
  return (
    <details class="as-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{props.title ?? 'Table'}</summary>
      {open && <Shown {...props} />}
    </details>
  );
}
