// SPDX-License-Identifier: Apache-2.0
// The view of a list of profd: search, filters and sort order are parameters of the address, and profd applies them. Rows
// are chosen with the keyboard or the mouse, and several can be selected: what is done with them is in one bar.

import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { withQuery, send, useAction } from '../api';
import { useCommands } from '../commands';
import { useEvents } from '../events';
import { useKeys } from '../keys';
import { useCan } from '../me';
import { notify } from '../notice';
import { navigate, setParameters, usePlace } from '../router';
import { useServerRows } from '../rows';
import type { Labels } from '../types';
import { count, plural } from '../units';
import { AbsentNote } from './absent';
import { Confirm } from './confirm';
import { Icon } from './icon';
import { LabelDialog } from './labels';
import { ProblemBox } from './problem';
import { type Column, Table } from './table';

interface Filter {
  name: string; // parameter of the request and of the address
  label: string;
  values?: [value: string, text: string][]; // a choice; without values the filter shows only when the address has it
}

interface Labelled {
  labels?: Labels;
  pinned?: boolean;
}

interface ListProps<T extends Labelled> {
  title: string;
  one: string; // "trace"
  path: string; // of the API: /v1/traces
  member: string; // of the answer: traces
  idOf: (row: T) => string; // t12
  columns: Column<T>[] | ((loaded: T[]) => Column<T>[]);
  filters: Filter[];
  placeholder: string;
  events: (kind: string) => boolean; // events after which the list is read again
  canPin: boolean;
  canRemove?: (row: T) => boolean;
  onDownload?: (row: T) => Promise<void>;
  compare: (ids: string[]) => Record<string, string>; // parameters of /compare
  empty: ComponentChildren;
  about?: ComponentChildren; // next to the title
}

const SEARCH_MS = 200;
const RELOAD_MS = 1000;

// Reads the list again after events, at most once a second.
function useReload(wanted: (kind: string) => boolean, reload: () => void): void {
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEvents('/v1/events', (event) => {
    if (!wanted(event.kind) || timer.current) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      reload();
    }, RELOAD_MS);
  });
  useEffect(() => () => clearTimeout(timer.current ?? undefined), []);
}

function SearchField({ placeholder, value }: { placeholder: string; value: string }) {
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => setParameters({ search: text }), SEARCH_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useKeys('Search', [{ keys: '/', label: 'Search', run: () => field.current!.focus() }]);
  return (
    <input
      ref={field}
      type="search"
      class="search"
      aria-label={placeholder}
      placeholder={placeholder}
      spellcheck={false}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Escape' || event.key === 'Enter') {
          event.preventDefault();
          if (event.key === 'Escape') setText('');
          field.current!.blur();
        }
      }}
    />
  );
}

export function List<T extends Labelled>(props: ListProps<T>) {
  const { path, idOf, one } = props;
  const { query, path: here } = usePlace();
  const sort = query.get('sort') ?? '';
  const search = query.get('search') ?? '';
  const filters = Object.fromEntries(props.filters.map((filter) => [filter.name, query.get(filter.name)]));
  const rows = useServerRows<T>(withQuery(path, { ...filters, search, sort }), props.member);
  const [selected, setSelected] = useState<Map<string, T>>(new Map());
  const [chosen, setChosen] = useState<T | null>(null);
  const [dialog, setDialog] = useState<'labels' | 'remove' | null>(null);
  const mayChange = useCan('operate');
  const mayRemove = useCan('admin');
  useReload(props.events, rows.reload);
  useEffect(() => setSelected(new Map()), [path, search, JSON.stringify(filters)]);

  // What an action is about: the selected rows, else the one that the keyboard chose.
  const subject: T[] = selected.size > 0 ? [...selected.values()] : chosen ? [chosen] : [];
  const isSelected = (row: T) => selected.has(idOf(row));
  const toggle = (row: T) => {
    const next = new Map(selected);
    if (!next.delete(idOf(row))) next.set(idOf(row), row);
    setSelected(next);
  };
  const pathOf = (row: T) => `${path}/${idOf(row)}`;
  const pin = useAction(async () => {
    const to = !subject.every((row) => row.pinned);
    for (const row of subject) await send(to ? 'PUT' : 'DELETE', pathOf(row) + '/pin');
    notify(`${plural(subject.length, one)} ${to ? 'pinned' : 'unpinned'}`);
    rows.reload();
    setSelected(new Map());
  });
  const download = useAction(async () => {
    for (const row of subject) await props.onDownload!(row);
  });
  const compare = () => navigate('/compare', props.compare(subject.map(idOf)));
  const removable = mayRemove && subject.length > 0 && subject.every((row) => props.canRemove?.(row) ?? true);
  const done = (changed: boolean) => {
    setDialog(null);
    if (!changed) return;
    rows.reload();
    setSelected(new Map());
  };

  const some = subject.length > 0;
  useKeys(`${props.title}: selection`, [
    { keys: 'x', label: 'Select the row', run: () => chosen && toggle(chosen) },
    ...(props.canPin && mayChange ? [{ keys: 'p', label: 'Pin, unpin', run: () => some && pin.run() }] : []),
    ...(mayChange ? [{ keys: 'l', label: 'Change labels', run: () => some && setDialog('labels') }] : []),
    ...(props.onDownload ? [{ keys: 'd', label: 'Download', run: () => some && download.run() }] : []),
    { keys: 'm', label: 'Compare the selected two', run: () => subject.length === 2 && compare() },
    { keys: 'Escape', label: 'Select nothing', run: () => setSelected(new Map()) },
  ]);
  useCommands(search || Object.values(filters).some(Boolean) ? [{ title: `Show all ${props.title.toLowerCase()}`, run: () => navigate(here) }] : []);

  const own = useMemo(() => (typeof props.columns === 'function' ? props.columns(rows.loaded) : props.columns), [rows.loaded, props.columns]);
  const columns: Column<T>[] = [
    {
      id: 'selected',
      title: '',
      help: 'selected',
      width: '34px',
      plain: true,
      cell: (row) => <input type="checkbox" aria-label={`Select ${idOf(row)}`} checked={isSelected(row)} onChange={() => toggle(row)} />,
    },
    ...own,
  ];
  return (
    <div class="list">
      <div class="head">
        <h1>{props.title}</h1>
        <span class="facts" role="status">
          <span>{rows.loading && rows.total === 0 ? '' : plural(rows.total, one)}</span>
          {props.about}
        </span>
        <div class="actions">
          {props.filters.map((filter) => {
            const value = query.get(filter.name);
            if (!filter.values) {
              return value ? (
                <button key={filter.name} type="button" class="chip" onClick={() => setParameters({ [filter.name]: null }, true)} title="Remove this filter">
                  {filter.label} {value} <span aria-hidden="true">×</span>
                </button>
              ) : null;
            }
            return (
              <select
                key={filter.name}
                aria-label={filter.label}
                value={value ?? ''}
                onChange={(event) => setParameters({ [filter.name]: event.currentTarget.value }, true)}
              >
                <option value="">{filter.label}: all</option>
                {filter.values.map(([key, text]) => (
                  <option key={key} value={key}>
                    {text}
                  </option>
                ))}
              </select>
            );
          })}
          <SearchField placeholder={props.placeholder} value={search} />
        </div>
      </div>
      <ProblemBox problem={rows.problem} onRetry={rows.reload} />
      <AbsentNote absent={rows.absent} />
      <ProblemBox problem={pin.problem ?? download.problem} />
      <Table
        label={props.title}
        columns={columns}
        rows={rows}
        rowKey={idOf}
        sort={sort}
        onSort={(next) => setParameters({ sort: next })}
        href={(row) => `#${here}/${idOf(row)}`}
        onChoose={setChosen}
        marked={isSelected}
        fill
        empty={search || Object.values(filters).some(Boolean) ? `No ${one} matches. ` : props.empty}
      />
      {selected.size > 0 && (
        <div class="selection" role="toolbar" aria-label="Selection">
          <b>{count(selected.size)} selected</b>
          {props.canPin && mayChange && (
            <button type="button" onClick={() => pin.run()} disabled={pin.busy}>
              <Icon name="pin" />
              {subject.every((row) => row.pinned) ? 'Unpin' : 'Pin'}
            </button>
          )}
          {mayChange && (
            <button type="button" onClick={() => setDialog('labels')}>
              <Icon name="tag" />
              Labels
            </button>
          )}
          {props.onDownload && (
            <button type="button" onClick={() => download.run()} disabled={download.busy}>
              <Icon name="download" />
              Download
            </button>
          )}
          {selected.size === 2 && (
            <button type="button" onClick={compare}>
              <Icon name="compare" />
              Compare
            </button>
          )}
          {removable && (
            <button type="button" class="danger" onClick={() => setDialog('remove')}>
              <Icon name="trash" />
              Delete
            </button>
          )}
          <button type="button" class="quiet" onClick={() => setSelected(new Map())}>
            Clear
          </button>
        </div>
      )}
      {dialog === 'labels' && <LabelDialog paths={subject.map(pathOf)} before={subject.length === 1 ? (subject[0]!.labels ?? {}) : {}} onClose={done} />}
      {dialog === 'remove' && (
        <Confirm
          title={`Delete ${plural(subject.length, one)}?`}
          text={`${subject.map(idOf).join(', ')} and the stored files are deleted. This cannot be undone.`}
          verb="Delete"
          action={async () => {
            for (const row of subject) await send('DELETE', pathOf(row));
          }}
          onClose={done}
        />
      )}
    </div>
  );
}
