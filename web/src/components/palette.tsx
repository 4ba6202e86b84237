// SPDX-License-Identifier: Apache-2.0
// Ctrl-K: finds and does anything. Ids (t12, s7, r3) open at once, commands are those of the page and of the view, and
// sessions, traces and runs are searched by profd. Where a trace is in view, its kernels and operators can be found, too.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, isAbort, withQuery } from '../api';
import { allCommands, type Command } from '../commands';
import { distinctFolders } from '../distinct';
import { navigate, place } from '../router';
import type { Run, Session, Trace } from '../types';
import { ago, size } from '../units';
import { Dialog } from './dialog';

const SEARCH_MS = 150;
const FOUND_MAX = 6;
const KINDS: Record<string, [string, string]> = { t: ['Open trace', '/traces/'], s: ['Open session', '/sessions/'], r: ['Open benchmark run', '/runs/'] };

function idCommand(text: string): Command[] {
  const found = /^([tsr])(\d+)$/i.exec(text.trim());
  if (!found) return [];
  const id = found[1]!.toLowerCase() + found[2]!;
  const [title, path] = KINDS[id[0]!]!;
  return [{ title: `${title} ${id}`, run: () => navigate(path + id) }];
}

// Slices of a name, where a trace is in view.
function sliceCommand(text: string): Command[] {
  const trace = /^\/traces\/(t\d+)/.exec(place().path)?.[1];
  if (!trace || text.trim().length < 2) return [];
  return [{ title: `Search for "${text.trim()}" in the timeline of ${trace}`, run: () => navigate(`/traces/${trace}/timeline`, { find: text.trim() }) }];
}

function matches(command: Command, words: string[]): boolean {
  const text = `${command.title} ${command.hint ?? ''}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

async function searched(text: string, signal: AbortSignal): Promise<Command[]> {
  const query = { search: text, limit: FOUND_MAX };
  const [traces, sessions, runs] = await Promise.all([
    get<{ traces: Trace[] }>(withQuery('/v1/traces', query), signal),
    get<{ sessions: Session[] }>(withQuery('/v1/sessions', query), signal),
    get<{ runs: Run[] }>(withQuery('/v1/runs', query), signal),
  ]);
  const folders = distinctFolders(traces.traces);
  return [
    ...sessions.sessions.map((row) => ({
      title: `Session ${row.session} ${row.name ?? row.router ?? row.fleet ?? ''}`,
      hint: `${row.state}, ${ago(row.requested_at)}`,
      run: () => navigate('/sessions/' + row.session),
    })),
    ...traces.traces.map((row) => ({ title: `Trace ${row.trace} ${[folders.get(row.trace), row.name].filter(Boolean).join('/')}`, hint: size(row.size), run: () => navigate('/traces/' + row.trace) })),
    ...runs.runs.map((row) => ({ title: `Benchmark run r${row.run} ${row.model ?? ''}`, hint: row.state, run: () => navigate('/runs/r' + row.run) })),
  ];
}

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [found, setFound] = useState<Command[]>([]);
  const [chosen, setChosen] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const commands = useMemo(allCommands, []);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...idCommand(text), ...commands.filter((command) => matches(command, words)), ...found, ...sliceCommand(text)];

  useEffect(() => {
    setChosen(0);
    setFound([]);
    if (text.trim().length < 2) return undefined;
    const control = new AbortController();
    const timer = setTimeout(() => {
      searched(text.trim(), control.signal).then(setFound, (error: unknown) => {
        if (!isAbort(error)) setFound([]);
      });
    }, SEARCH_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text]);
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' }), [chosen]);

  // Back, or a link, shows another view: a dialog of the one before must not cover it.
  useEffect(() => {
    addEventListener('hashchange', onClose);
    return () => removeEventListener('hashchange', onClose);
  }, [onClose]);

  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const move = (event: KeyboardEvent, by: number) => {
    event.preventDefault();
    setChosen((old) => Math.max(0, Math.min(rows.length - 1, old + by)));
  };
  return (
    <Dialog label="Search everything" onClose={onClose}>
      <input
        type="text"
        class="palette-input"
        role="combobox"
        aria-label="Search everything"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={rows.length > 0 ? `palette-${chosen}` : undefined}
        placeholder="Trace, session, benchmark run, kernel or command"
        autocomplete="off"
        spellcheck={false}
        autofocus
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') move(event, 1);
          else if (event.key === 'ArrowUp') move(event, -1);
          else if (event.key === 'Enter') {
            event.preventDefault();
            run(rows[chosen]);
          }
        }}
      />
      <ul class="palette-list" id="palette-list" role="listbox" aria-label="Results" ref={list}>
        {rows.map((command, i) => (
          <li
            key={command.title + i}
            id={`palette-${i}`}
            role="option"
            aria-selected={i === chosen}
            onMouseMove={() => setChosen(i)}
            onClick={() => run(command)}
          >
            <span>{command.title}</span>
            {command.hint && <small>{command.hint}</small>}
          </li>
        ))}
      </ul>
      {rows.length === 0 && <p class="empty">No results.</p>}
    </Dialog>
  );
}
