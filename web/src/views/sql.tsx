// SPDX-License-Identifier: Apache-2.0
// SQL on a trace: its tables beside an editor, rows as a table or a chart. Trace and statement are in the fragment of the
// address, which no server sees. A statement runs in a sandboxed process of profd, which ends when it is cancelled here.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { asProblem, get, isAbort, type Problem, request, send, withQuery } from '../api';
import { useCommands } from '../commands';
import { Picker } from '../compare/picker';
import { ProblemBox } from '../components/problem';
import { parseExact } from '../json_exact';
import { useKeys } from '../keys';
import { useLoad } from '../load';
import { setParameters, usePlace } from '../router';
import { Editor } from '../sql/editor';
import { EXAMPLES } from '../sql/examples';
import { type Answer, Result } from '../sql/result';
import { SCHEMA_SQL, schemaOf, type SchemaTable } from '../sql_text';
import type { Trace } from '../types';
import { count } from '../units';
import './compare.css';
import './run.css';
import './sql.css';

const LIMITS = [1000, 10_000, 100_000];
const TIME_LIMIT_S = 60;

function Schema({ tables, onInsert }: { tables: SchemaTable[]; onInsert: (text: string) => void }) {
  const [words, setWords] = useState('');
  const wanted = words.toLowerCase();
  const shown = tables.filter((table) => table.name.includes(wanted) || table.columns.some((column) => column.name.includes(wanted)));
  return (
    <aside class="sql-schema" aria-label="Tables">
      <input type="search" aria-label="Search tables and columns" placeholder="Search tables and columns" value={words} spellcheck={false} onInput={(event) => setWords(event.currentTarget.value)} />
      <div class="sql-tables">
        {shown.map((table) => (
          <details key={table.name} open={wanted !== '' && shown.length < 8}>
            <summary>
              {table.name} <small>{table.columns.length}</small>
            </summary>
            <ul>
              {table.columns
                .filter((column) => wanted === '' || table.name.includes(wanted) || column.name.includes(wanted))
                .map((column) => (
                  <li key={column.name}>
                    <button type="button" class="link" title="Insert into the statement" onClick={() => onInsert(column.name)}>
                      {column.name}
                    </button>
                    <small>{column.type.toLowerCase()}</small>
                  </li>
                ))}
            </ul>
          </details>
        ))}
      </div>
      <p class="hint">SQLite's dialect; Perfetto's tables have the same names. docs/sql.md describes all of them.</p>
    </aside>
  );
}

function Running({ since }: { since: number }) {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 200);
    return () => clearInterval(timer);
  }, []);
  const s = Math.max(0, (now - since) / 1000);
  return (
    <span role="status" class="sql-running">
      <progress max={TIME_LIMIT_S} value={s} aria-label="Time used" /> {s.toFixed(1)} of {TIME_LIMIT_S} s
    </span>
  );
}

interface Run {
  answer: Answer | null;
  problem: Problem | null;
  since: number | null; // runs since then
  tookMs: number;
  cancelled: boolean;
}

const NOTHING: Run = { answer: null, problem: null, since: null, tookMs: 0, cancelled: false };

export function Sql() {
  const { query } = usePlace();
  const trace = query.get('trace') ?? '';
  const inAddress = query.get('q');
  const [sql, setSql] = useState(inAddress ?? EXAMPLES[0]!.sql);
  const [limit, setLimit] = useState(LIMITS[0]!);
  const [run, setRun] = useState<Run>(NOTHING);
  const control = useRef<AbortController | null>(null);
  const schema = useLoad(trace ? trace : null, (signal) =>
    send<{ rows: unknown[][] }>('POST', `/v1/traces/${encodeURIComponent(trace)}/query`, { sql: SCHEMA_SQL }, signal).then((answer) => schemaOf(answer.rows)),
  );
  const tables = useMemo(() => schema.data ?? [], [schema.data]);

  // Without a trace: the newest one.
  useEffect(() => {
    if (trace) return undefined;
    const aborter = new AbortController();
    get<{ traces: Trace[] }>(withQuery('/v1/traces', { limit: 20 }), aborter.signal).then(
      ({ traces }) => {
        const usable = traces.find((one) => one.columns);
        if (usable) setParameters({ trace: usable.trace });
      },
      () => {},
    );
    return () => aborter.abort();
  }, [trace]);
  // Back and forward bring another statement.
  useEffect(() => {
    if (inAddress !== null) setSql(inAddress);
  }, [inAddress]);
  // Rows of one trace are none of another.
  useEffect(
    () => () => {
      control.current?.abort();
      control.current = null;
      setRun(NOTHING);
    },
    [trace],
  );

  const cancel = () => control.current?.abort();
  const start = async () => {
    const statement = sql.trim();
    if (!trace || statement === '') return;
    control.current?.abort();
    const mine = new AbortController();
    control.current = mine;
    setParameters({ q: sql }, inAddress !== null && inAddress !== sql);
    const since = performance.now();
    setRun((old) => ({ ...old, problem: null, since, cancelled: false }));
    const end = (outcome: Partial<Run>) => {
      if (control.current === mine) setRun((old) => ({ ...old, ...outcome, since: null, tookMs: performance.now() - since }));
    };
    try {
      const response = await request(`/v1/traces/${encodeURIComponent(trace)}/query`, { method: 'POST', body: { sql: statement, limit }, signal: mine.signal });
      end({ answer: parseExact(await response.text()) as Answer });
    } catch (error) {
      end(isAbort(error) ? { cancelled: true, answer: null } : { problem: asProblem(error), answer: null });
    }
  };
  useKeys('SQL', [
    { keys: 'Ctrl+Enter', label: 'Run the statement', run: () => void start(), typing: true },
    { keys: 'Escape', label: 'Cancel the statement', run: cancel },
  ]);
  useCommands(EXAMPLES.map((example) => ({ title: `SQL: ${example.title}`, run: () => setSql(example.sql) })));
  const running = run.since !== null;
  return (
    <div class="sql-view">
      <div class="head">
        <h1>SQL</h1>
        <Picker label="Trace" value={trace} other="traces" onPick={(picked) => setParameters({ trace: picked }, true)} />
        <label>
          Example{' '}
          <select
            value=""
            onChange={(event) => {
              const example = EXAMPLES[Number(event.currentTarget.value)];
              if (example) setSql(example.sql);
              event.currentTarget.value = '';
            }}
          >
            <option value="">Choose…</option>
            {EXAMPLES.map((example, i) => (
              <option key={example.title} value={i}>
                {example.title}
              </option>
            ))}
          </select>
        </label>
        {trace && (
          <div class="actions">
            <a class="button" href={`#/traces/${trace}`}>
              {trace}
            </a>
          </div>
        )}
      </div>
      <div class="sql-columns">
        {schema.problem ? <ProblemBox problem={schema.problem} onRetry={schema.reload} /> : <Schema tables={tables} onInsert={(text) => setSql((old) => (old === '' || /\s$/.test(old) ? old : old + ' ') + text)} />}
        <div class="sql-main">
          <Editor value={sql} schema={tables} onInput={setSql} onRun={() => void start()} />
          <div class="table-tools sql-tools">
            {running ? (
              <button type="button" onClick={cancel}>
                Cancel
              </button>
            ) : (
              <button type="button" class="primary" onClick={() => void start()} disabled={!trace || sql.trim() === ''} title="Ctrl-Enter">
                Run
              </button>
            )}
            <label>
              Rows at most{' '}
              <select value={limit} onChange={(event) => setLimit(Number(event.currentTarget.value))}>
                {LIMITS.map((n) => (
                  <option key={n} value={n}>
                    {count(n)}
                  </option>
                ))}
              </select>
            </label>
            {running ? (
              <Running since={run.since!} />
            ) : run.cancelled ? (
              <span class="hint" role="status">
                Cancelled.
              </span>
            ) : (
              <span class="hint">
                <kbd>Ctrl Enter</kbd> runs, <kbd>Ctrl Space</kbd> completes. Limits: {TIME_LIMIT_S} s, one statement that reads.
              </span>
            )}
          </div>
          <ProblemBox problem={run.problem} />
          {run.answer && !run.problem && <Result key={run.answer.columns.join('\u0000')} answer={run.answer} name={`${trace}-query`} tookMs={run.tookMs} />}
        </div>
      </div>
    </div>
  );
}
