// SPDX-License-Identifier: Apache-2.0
// SQL as the editor needs it: tokens for colours, names that complete what is typed, and the tables of a trace. Pure. The
// dialect is SQLite's; docs/sql.md describes the tables.

type TokenKind = 'keyword' | 'function' | 'string' | 'number' | 'comment' | 'name' | 'operator' | 'space';

interface Token {
  kind: TokenKind;
  text: string;
  at: number;
}

const KEYWORDS = new Set(
  (
    'all and as asc between by case cast collate cross current desc distinct else end escape except exists explain filter following ' +
    'from full glob group groups having in inner intersect is isnull join left like limit match materialized natural not notnull null nulls ' +
    'offset on or order outer over partition plan preceding query range recursive regexp right row rows select then ties unbounded union ' +
    'using values when where window with'
  ).split(' '),
);
const FUNCTIONS = (
  'abs ancestor_slice avg ceil coalesce count cume_dist date datetime dense_rank descendant_slice extract_arg first_value floor format ' +
  'group_concat hex ifnull iif instr json_extract lag last_value lead length lower ltrim max min ntile nullif percent_rank printf rank ' +
  'replace round row_number rtrim sign sqrt strftime substr sum total trim typeof upper'
).split(' ');

const PATTERN =
  /(?<space>\s+)|(?<comment>--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|(?<string>'(?:[^']|'')*(?:'|$))|(?<quoted>"(?:[^"]|"")*(?:"|$)|`[^`]*(?:`|$)|\[[^\]]*(?:\]|$))|(?<number>0x[\da-f]+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)|(?<word>[\p{L}_$][\p{L}\p{N}_$]*)|(?<operator>[\s\S])/giuy;

// Every character of the text is in one token.
export function tokenize(sql: string): Token[] {
  const tokens: Token[] = [];
  const pattern = new RegExp(PATTERN);
  for (let found = pattern.exec(sql); found; found = pattern.exec(sql)) {
    const groups = found.groups!;
    const text = found[0];
    let kind: TokenKind = 'operator';
    if (groups['space'] !== undefined) kind = 'space';
    else if (groups['comment'] !== undefined) kind = 'comment';
    else if (groups['string'] !== undefined) kind = 'string';
    else if (groups['quoted'] !== undefined) kind = 'name';
    else if (groups['number'] !== undefined) kind = 'number';
    else if (groups['word'] !== undefined) {
      if (KEYWORDS.has(text.toLowerCase())) kind = 'keyword';
      else kind = /^\s*\(/.test(sql.slice(pattern.lastIndex, pattern.lastIndex + 8)) ? 'function' : 'name';
    }
    tokens.push({ kind, text, at: found.index });
  }
  return tokens;
}

interface SchemaColumn {
  name: string;
  type: string;
}

export interface SchemaTable {
  name: string;
  columns: SchemaColumn[];
}

export interface Completion {
  text: string;
  hint: string; // what it is
}

const TABLE_BEFORE = new Set(['from', 'join', ',']);
const COMPLETIONS_MAX = 12;

// Whether what is typed at its end is within it: a comment to the end of its line, a string that has no end yet.
function isOpen(text: string): boolean {
  if (text.startsWith('--')) return true;
  if (text.startsWith('/*')) return !text.endsWith('*/') || text.length < 4;
  return text.startsWith("'") && (text.split("'").length - 1) % 2 === 1;
}

function unquoted(name: string): string {
  return /^["`[]/.test(name) ? name.slice(1, -1) : name;
}

// Names of tables by what the statement calls them: itself, and its alias.
function tablesIn(tokens: Token[], schema: SchemaTable[]): Map<string, SchemaTable> {
  const byName = new Map(schema.map((table) => [table.name.toLowerCase(), table]));
  const found = new Map<string, SchemaTable>();
  const words = tokens.filter((token) => token.kind !== 'space' && token.kind !== 'comment');
  words.forEach((token, i) => {
    const table = token.kind === 'name' ? byName.get(unquoted(token.text).toLowerCase()) : undefined;
    if (!table || !TABLE_BEFORE.has(words[i - 1]?.text.toLowerCase() ?? '')) return;
    found.set(table.name.toLowerCase(), table);
    const alias = words[i + 1]?.text.toLowerCase() === 'as' ? words[i + 2] : words[i + 1];
    if (alias?.kind === 'name') found.set(unquoted(alias.text).toLowerCase(), table);
  });
  return found;
}

// Names that continue the word before `caret`, and where that word begins. None within strings and comments.
export function complete(sql: string, caret: number, schema: SchemaTable[]): { from: number; list: Completion[] } {
  const tokens = tokenize(sql);
  const nothing = { from: caret, list: [] };
  const inside = tokens.find((token) => token.at < caret && caret < token.at + token.text.length + (isOpen(token.text) ? 1 : 0));
  if (inside && (inside.kind === 'comment' || inside.kind === 'string')) return nothing;
  const word = /[\p{L}\p{N}_$]*$/u.exec(sql.slice(0, caret))![0];
  const from = caret - word.length;
  const before = tokens.filter((token) => token.at + token.text.length <= from && token.kind !== 'space' && token.kind !== 'comment');
  const last = before.at(-1);
  if (/^\d/.test(word) || last?.kind === 'string') return nothing;
  const tables = tablesIn(tokens, schema);
  let all: Completion[] = [];
  const columnsOf = (table: SchemaTable) => table.columns.map((column) => ({ text: column.name, hint: `${table.name}, ${column.type.toLowerCase() || 'any'}` }));
  if (last?.text === '.') {
    const table = tables.get(unquoted(before.at(-2)?.text ?? '').toLowerCase());
    if (!table) return nothing;
    all = columnsOf(table);
  } else if (last && (TABLE_BEFORE.has(last.text.toLowerCase()) && last.text !== ',')) {
    all = schema.map((table) => ({ text: table.name, hint: `table, ${table.columns.length} columns` }));
  } else {
    if (word === '') return nothing;
    all = [
      ...[...new Set(tables.values())].flatMap(columnsOf),
      ...[...tables.keys()].map((name) => ({ text: name, hint: 'table' })),
      ...FUNCTIONS.map((name) => ({ text: name + '(', hint: 'function' })),
      ...[...KEYWORDS].map((name) => ({ text: name, hint: 'keyword' })),
      ...schema.map((table) => ({ text: table.name, hint: 'table' })),
    ];
  }
  const wanted = word.toLowerCase();
  const seen = new Set<string>();
  const list = all.filter((one) => {
    const fits = one.text.toLowerCase().startsWith(wanted) && one.text.toLowerCase() !== wanted && !seen.has(one.text);
    if (fits) seen.add(one.text);
    return fits;
  });
  return { from, list: list.slice(0, COMPLETIONS_MAX) };
}

// Tables for a schema, the most used first; reports follow.
const TABLES = [
  'slice', 'kernel', 'launch', 'op', 'annotation', 'collective', 'memory', 'gap', 'name_stat', 'args', 'flow', 'track', 'thread_track',
  'process_track', 'thread', 'process', 'counter', 'counter_track', 'process_counter_track', 'stats', 'metadata',
];

export const SCHEMA_SQL =
  "select m.name, c.name, c.type from pragma_module_list m join pragma_table_info(m.name) c where m.name glob 'report_*' or m.name in (" +
  TABLES.map((name) => `'${name}'`).join(', ') +
  ') order by m.name, c.cid';

export function schemaOf(rows: unknown[][]): SchemaTable[] {
  const tables = new Map<string, SchemaTable>();
  for (const [table, column, type] of rows) {
    const name = String(table);
    let found = tables.get(name);
    if (!found) tables.set(name, (found = { name, columns: [] }));
    found.columns.push({ name: String(column), type: String(type ?? '') });
  }
  const place = (name: string) => {
    const at = TABLES.indexOf(name);
    return at < 0 ? TABLES.length : at;
  };
  return [...tables.values()].sort((a, b) => place(a.name) - place(b.name) || (a.name < b.name ? -1 : 1));
}
