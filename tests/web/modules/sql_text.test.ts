// SPDX-License-Identifier: Apache-2.0
// The SQL editor's tokens and names, exact integers, and CSV.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { csvOf } from '../../../web/src/csv';
import { parseExact } from '../../../web/src/json_exact';
import { complete, schemaOf, tokenize } from '../../../web/src/sql_text';

const SCHEMA = schemaOf([
  ['kernel', 'id', 'INTEGER'],
  ['kernel', 'name', 'TEXT'],
  ['kernel', 'stream', 'INTEGER'],
  ['slice', 'id', 'INTEGER'],
  ['slice', 'name', 'TEXT'],
  ['report_steps', 'dur_ns', 'INTEGER'],
]);

const kinds = (sql: string) => tokenize(sql).flatMap((token) => (token.kind === 'space' ? [] : [`${token.kind} ${token.text}`]));

test('tokens have every character once, whatever is typed', () => {
  const texts = [
    "SELECT count(*), 'it''s' FROM \"my table\" -- end\nWHERE x >= 1.5e3 /* open",
    "'never closed",
    '"also',
    '<script>alert(1)</script>',
    '\u{1f600} größe = 0x1F; ;;',
    '',
  ];
  for (const sql of texts) {
    const tokens = tokenize(sql);
    assert.equal(tokens.map((token) => token.text).join(''), sql);
    let at = 0;
    for (const token of tokens) {
      assert.equal(token.at, at);
      at += token.text.length;
    }
  }
});

test('tokens are what SQLite takes them for', () => {
  assert.deepEqual(kinds("select Count (dur) from slice where name = 'from' -- select"), [
    'keyword select',
    'function Count',
    'operator (',
    'name dur',
    'operator )',
    'keyword from',
    'name slice',
    'keyword where',
    'name name',
    'operator =',
    "string 'from'",
    'comment -- select',
  ]);
  assert.deepEqual(kinds('1.5e3 .5 0xff [a b] `c`'), ['number 1.5e3', 'number .5', 'number 0xff', 'name [a b]', 'name `c`']);
});

const names = (sql: string) => {
  const caret = sql.indexOf('|');
  return complete(sql.replace('|', ''), caret, SCHEMA).list.map((one) => one.text);
};

test('names complete what the caret is at', () => {
  assert.deepEqual(names('select * from ker|'), ['kernel']);
  assert.deepEqual(names('select * from |'), ['slice', 'kernel', 'report_steps']);
  assert.deepEqual(names('select str| from kernel'), ['stream', 'strftime(']);
  assert.deepEqual(names('select k.| from kernel as k'), ['id', 'name', 'stream']);
  assert.deepEqual(names('select k.st| from kernel k'), ['stream']);
  assert.deepEqual(names('select unknown.| from kernel k'), []);
  assert.deepEqual(names("select * from kernel where name = 'ker|'"), []);
  assert.deepEqual(names("select 'ker|"), []);
  assert.deepEqual(names("select 'it''s', ker|"), ['kernel']);
  assert.deepEqual(names('select 1 -- ker|'), []);
  assert.deepEqual(names('select 1 /* ker|'), []);
  assert.deepEqual(names('select 1|'), []);
  assert.deepEqual(names('select name| from kernel'), ['name_stat'].filter((one) => SCHEMA.some((table) => table.name === one)));
  assert.equal(complete('select na', 9, SCHEMA).from, 7);
});

test('tables of traces come before those of reports', () => {
  assert.deepEqual(
    SCHEMA.map((table) => table.name),
    ['slice', 'kernel', 'report_steps'],
  );
});

test('integers keep all of their digits, where the browser tells them', () => {
  const found = parseExact('{"rows": [[1752839461731456483, 12, 1.5, "1752839461731456483", null]]}') as { rows: unknown[][] };
  const [large, ...rest] = found.rows[0]!;
  assert.deepEqual(rest, [12, 1.5, '1752839461731456483', null]);
  assert.ok(large === 1752839461731456483n || large === 1752839461731456483);
});

test('CSV quotes, and no spreadsheet takes a text for a formula', () => {
  assert.equal(csvOf(['a', 'b'], [['x,"y"', 1], [null, 12345678901234567890n]]), 'a,b\n"x,""y""",1\n,12345678901234567890\n');
  assert.equal(csvOf(['n'], [['=1+1'], ['-3'], ['-x'], ['@a'], ['\u0007'], ['two\nlines']]), "n\n'=1+1\n-3\n'-x\n'@a\n?\n\"two\nlines\"\n");
});
