// SPDX-License-Identifier: Apache-2.0
// One side of a comparison: ids are typed, or found by words of a trace, session or run.

import { useEffect, useId, useState } from 'preact/hooks';
import { get, isAbort, withQuery } from '../api';
import { distinctFolders } from '../distinct';
import type { Run, Session, Trace } from '../types';
import { ago, duration } from '../units';
import { sideOf } from './sides';

const SEARCH_MS = 150;
const FOUND_MAX = 6;

interface Found {
  id: string;
  text: string;
}

async function find(text: string, kind: string | undefined, signal: AbortSignal): Promise<Found[]> {
  const query = { search: text, limit: FOUND_MAX };
  const [traces, sessions, runs] = await Promise.all([
    kind === 'runs' ? { traces: [] } : get<{ traces: Trace[] }>(withQuery('/v1/traces', query), signal),
    kind === 'runs' ? { sessions: [] } : get<{ sessions: Session[] }>(withQuery('/v1/sessions', query), signal),
    kind === undefined || kind === 'runs' ? get<{ runs: Run[] }>(withQuery('/v1/runs', query), signal) : { runs: [] },
  ]);
  const folders = distinctFolders(traces.traces);
  return [
    ...sessions.sessions.map((row) => ({ id: row.session, text: `${row.name ?? row.router ?? ''} ${row.state}, ${ago(row.requested_at)}` })),
    ...traces.traces
      .filter((row) => row.columns)
      .map((row) => ({ id: row.trace, text: [[folders.get(row.trace), row.name].filter(Boolean).join('/'), row.ranks?.rank !== undefined && `rank ${row.ranks.rank}`, row.span_ns !== undefined && duration(row.span_ns)].filter(Boolean).join(', ') })),
    ...runs.runs.map((row) => ({ id: `r${row.run}`, text: `${row.model ?? ''} ${row.state}, ${ago(row.requested_at)}` })),
  ];
}

// `other`: the kind of the other side, with which this one has to be comparable.
export function Picker({ label, value, other, onPick }: { label: string; value: string; other: string | undefined; onPick: (words: string) => void }) {
  const id = useId();
  const [text, setText] = useState(value);
  const [found, setFound] = useState<Found[] | null>(null);
  const [at, setAt] = useState(-1);
  useEffect(() => setText(value), [value]);
  const open = found !== null;

  useEffect(() => {
    if (!open) return undefined;
    const control = new AbortController();
    const timer = setTimeout(() => {
      find(text.trim(), other, control.signal).then(setFound, (error: unknown) => {
        if (!isAbort(error)) setFound([]);
      });
    }, SEARCH_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text, open, other]);

  const pick = (words: string) => {
    setFound(null);
    setAt(-1);
    setText(words);
    onPick(words);
  };
  return (
    <div class="picker">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="text"
        role="combobox"
        aria-expanded={open}
        aria-controls={id + 'list'}
        aria-activedescendant={at >= 0 ? `${id}-${at}` : undefined}
        placeholder="t12, s7, r3,r4 or words"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onFocus={() => setFound([])}
        onBlur={() => {
          setFound(null);
          if (sideOf(text)) pick(text.trim());
          else setText(value);
        }}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(-1);
          if (!open) setFound([]);
        }}
        onKeyDown={(event) => {
          const n = found?.length ?? 0;
          if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
            event.preventDefault();
            setAt(Math.max(-1, Math.min(n - 1, at + (event.key === 'ArrowDown' ? 1 : -1))));
          } else if (event.key === 'Enter') {
            event.preventDefault();
            if (found?.[at]) pick(found[at].id);
            else if (sideOf(text)) pick(text.trim());
          } else if (event.key === 'Escape') {
            setFound(null);
          }
        }}
      />
      <ul id={id + 'list'} role="listbox" aria-label={`Suggestions for ${label}`} class="picker-list" hidden={!found || found.length === 0}>
        {(found ?? []).map((one, i) => (
          <li
            key={one.id}
            id={`${id}-${i}`}
            role="option"
            aria-selected={i === at}
            onMouseDown={(event) => {
              event.preventDefault();
              pick(one.id);
            }}
          >
            <b>{one.id}</b> <small>{one.text}</small>
          </li>
        ))}
      </ul>
    </div>
  );
}
