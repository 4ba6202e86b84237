// SPDX-License-Identifier: Apache-2.0
// CSV of a table, as profctl writes it: what a spreadsheet would take for a formula is made text by a ' before it, and
// control characters become '?'. Pure but for saveAs().

const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  let text = String(value);
  if (typeof value === 'string') {
    if (FORMULA.test(text) && !NUMBER.test(text)) text = "'" + text;
    text = text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '?');
  }
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

export function csvOf(columns: string[], rows: unknown[][]): string {
  return [columns, ...rows].map((row) => row.map(cellOf).join(',') + '\n').join('');
}

// Offers text or a picture as a file, without a request.
export function saveAs(name: string, content: string | Blob, type = 'text/csv'): void {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
