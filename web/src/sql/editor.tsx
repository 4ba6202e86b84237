// SPDX-License-Identifier: Apache-2.0
// The SQL editor: a text field whose text is invisible above the same text in colours, and a list of names that complete the
// word at the caret. Ctrl-Enter runs, Ctrl-Space lists, Tab or Enter takes a name, Escape closes the list.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { complete, type Completion, type SchemaTable, tokenize } from '../sql_text';

interface EditorProps {
  value: string;
  schema: SchemaTable[];
  onInput: (sql: string) => void;
  onRun: () => void;
}

const CLOSED = { from: 0, list: [] as Completion[] };

// A tab key that always indents would lock the keyboard in: it indents only after typing, and Escape lets go.
export function Editor({ value, schema, onInput, onRun }: EditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const behind = useRef<HTMLPreElement>(null);
  const mirror = useRef<HTMLSpanElement>(null);
  const caret = useRef<number | null>(null);
  const [names, setNames] = useState(CLOSED);
  const [at, setAt] = useState(0);
  const [place, setPlace] = useState({ x: 0, y: 0 });
  const tokens = useMemo(() => tokenize(value), [value]);
  const open = names.list.length > 0;

  useLayoutEffect(() => {
    if (caret.current !== null) field.current!.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  }, [value]);
  // Where the word begins, from the same text in the same font.
  useEffect(() => {
    if (!open) return;
    const marker = mirror.current!;
    setPlace({ x: marker.offsetLeft - field.current!.scrollLeft, y: marker.offsetTop + marker.offsetHeight - field.current!.scrollTop });
  }, [names, open]);

  const look = (sql: string, position: number, always = false) => {
    const found = complete(sql, position, schema);
    const typed = position - found.from;
    setNames(always || typed > 0 || sql[position - 1] === '.' ? found : CLOSED);
    setAt(0);
  };
  const take = (one: Completion) => {
    const element = field.current!;
    const end = element.selectionEnd;
    caret.current = names.from + one.text.length;
    setNames(CLOSED);
    onInput(value.slice(0, names.from) + one.text + value.slice(end));
    element.focus();
  };
  const keyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      setNames(CLOSED);
      onRun();
    } else if (event.key === ' ' && event.ctrlKey) {
      event.preventDefault();
      look(value, field.current!.selectionEnd, true);
    } else if (open && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
      event.preventDefault();
      setAt((at + (event.key === 'ArrowDown' ? 1 : names.list.length - 1)) % names.list.length);
    } else if (open && (event.key === 'Tab' || event.key === 'Enter')) {
      event.preventDefault();
      take(names.list[at]!);
    } else if (open && event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      setNames(CLOSED);
    }
  };
  return (
    <div class="editor">
      <pre ref={behind} aria-hidden="true">
        {tokens.map((token) => (token.kind === 'space' ? token.text : <span key={token.at} class={token.kind}>{token.text}</span>))}
        {'\n'}
      </pre>
      {open && (
        <pre class="mirror" aria-hidden="true">
          {value.slice(0, names.from)}
          <span ref={mirror}>{value.slice(names.from, names.from + 1) || ' '}</span>
        </pre>
      )}
      <textarea
        ref={field}
        aria-label="SQL statement"
        aria-autocomplete="list"
        aria-controls="sql-names"
        aria-activedescendant={open ? `sql-name-${at}` : undefined}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        value={value}
        onInput={(event) => {
          onInput(event.currentTarget.value);
          look(event.currentTarget.value, event.currentTarget.selectionEnd);
        }}
        onScroll={(event) => {
          behind.current!.scrollTop = event.currentTarget.scrollTop;
          behind.current!.scrollLeft = event.currentTarget.scrollLeft;
          setNames(CLOSED);
        }}
        onKeyDown={keyDown}
        onBlur={() => setNames(CLOSED)}
      />
      <ul id="sql-names" role="listbox" aria-label="Names" hidden={!open} style={{ left: `${place.x}px`, top: `${place.y}px` }}>
        {names.list.map((one, i) => (
          <li
            key={one.text}
            id={`sql-name-${i}`}
            role="option"
            aria-selected={i === at}
            onMouseDown={(event) => {
              event.preventDefault();
              take(one);
            }}
          >
            <span>{one.text}</span>
            <small>{one.hint}</small>
          </li>
        ))}
      </ul>
    </div>
  );
}
