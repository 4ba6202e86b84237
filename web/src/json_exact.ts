// SPDX-License-Identifier: Apache-2.0
// JSON whose integers keep all of their digits: time stamps of 19 digits are no Numbers. Pure.

interface Source {
  source?: string;
}

// Integers that a Number cannot hold become BigInts, where the browser tells their text (all but old ones do).
export function parseExact(text: string): unknown {
  const exact = (_key: string, value: unknown, context?: Source): unknown =>
    typeof value === 'number' && !Number.isSafeInteger(value) && context?.source && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown);
}
