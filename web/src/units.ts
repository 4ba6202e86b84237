// SPDX-License-Identifier: Apache-2.0
// Numbers with their units, as profctl prints them (base/units.c). A space before a unit does not break.

const NBSP = '\u00a0';

const small = (n: number, unit: string) => (Math.abs(n) < 9.95 ? n.toFixed(1) : n.toFixed(0)) + NBSP + unit;

// "0 s", "940 ns", "49 us", "3.1 ms", "8.2 s", "12 min 4 s".
export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return '';
  if (ns < 0) return '-' + duration(-ns);
  const s = Math.round(ns / 1e9);
  if (ns === 0) return '0' + NBSP + 's';
  if (ns < 1e3 - 0.5) return (ns < 9.95 && !Number.isInteger(ns) ? ns.toFixed(1) : ns.toFixed(0)) + NBSP + 'ns';
  if (ns < 1e6 - 500) return small(ns / 1e3, 'us');
  if (ns < 1e9 - 500e3) return small(ns / 1e6, 'ms');
  if (ns < 60e9) return (ns / 1e9).toFixed(1) + NBSP + 's';
  if (s < 3600) return `${Math.floor(s / 60)}${NBSP}min ${s % 60}${NBSP}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}${NBSP}h ${Math.floor((s % 3600) / 60)}${NBSP}min`;
  return `${Math.floor(s / 86400)}${NBSP}d ${Math.floor((s % 86400) / 3600)}${NBSP}h`;
}

// A moment in a trace, with as many digits as a difference of `resolution` ns needs: "12.345678 ms".
export function moment(ns: number, resolution = 1): string {
  const magnitude = Math.abs(ns);
  const [factor, unit] = magnitude < 1e3 ? [1, 'ns'] : magnitude < 1e6 ? [1e3, 'us'] : magnitude < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(factor as number) - Math.log10(Math.max(1, resolution)))));
  return (ns / (factor as number)).toFixed(digits) + NBSP + unit;
}

// Ticks of an axis of times: one unit for all, and as many digits as their increment has.
export function durationTicks(ticks: number[], increment: number): string[] {
  const most = ticks.reduce((found, tick) => Math.max(found, Math.abs(tick ?? 0)), 0);
  const [factor, unit] = most < 1e3 ? [1, 'ns'] : most < 1e6 ? [1e3, 'us'] : most < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  let digits = 0;
  while (digits < 6 && Math.abs(Math.round((increment / factor) * 10 ** digits) - (increment / factor) * 10 ** digits) > 1e-6) digits++;
  return ticks.map((tick) => (tick === null ? '' : tick === 0 ? '0' : (tick / factor).toFixed(digits) + NBSP + unit));
}

// Ticks of an axis of numbers, with as many digits as their increment has.
export function numberTicks(ticks: number[], increment: number, unit = ''): string[] {
  let digits = 0;
  while (digits < 6 && Math.abs(Math.round(increment * 10 ** digits) - increment * 10 ** digits) > 1e-6) digits++;
  return ticks.map((tick) => (tick === null ? '' : (digits === 0 ? count(tick) : tick.toFixed(digits)) + unit));
}

export function percentTicks(ticks: number[], increment: number): string[] {
  return numberTicks(
    ticks.map((tick) => (tick === null ? tick : 100 * tick)),
    100 * increment,
    NBSP + '%',
  );
}

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

// "61.3 MiB"
export function size(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined || !Number.isFinite(bytes)) return '';
  let n = bytes;
  let i = 0;
  while (n >= 1023.95 && i < SIZES.length - 1) {
    n /= 1024;
    i++;
  }
  return (i === 0 || n >= 99.95 ? n.toFixed(0) : n.toFixed(1)) + NBSP + SIZES[i];
}

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

// "9,840,000"
export function count(n: number | null | undefined): string {
  return n === null || n === undefined || !Number.isFinite(n) ? '' : grouped.format(n);
}

// "9.8 M", where there is no room for all digits.
export function roughly(n: number): string {
  for (const [factor, name] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']] as const) {
    if (Math.abs(n) >= factor) return (n / factor).toFixed(Math.abs(n) < 9.95 * factor ? 1 : 0) + NBSP + name;
  }
  return Number.isInteger(n) ? String(n) : n.toFixed(1);
}

// "0", "3.4", "9,840": so that small rates keep a digit.
export function rate(perSecond: number): string {
  return perSecond < 10 && perSecond !== 0 ? perSecond.toFixed(1) : count(perSecond);
}

// "27 %" of a ratio from 0 to 1; "4.1 %" below ten; "<0.1 %" of little that is not nothing.
export function percent(ratio: number | null | undefined): string {
  if (ratio === null || ratio === undefined || !Number.isFinite(ratio)) return '';
  const n = 100 * ratio;
  if (n !== 0 && Math.abs(n) < 0.05) return (n < 0 ? '>-0.1' : '<0.1') + NBSP + '%';
  return (Math.abs(n) < 9.95 && n !== 0 ? n.toFixed(1) : n.toFixed(0)) + NBSP + '%';
}

const pad = (n: number) => String(n).padStart(2, '0');

// Local "2026-11-20 14:02:11" of a wall clock in nanoseconds.
export function time(at: number | null | undefined): string {
  if (!at) return '';
  const d = new Date(at / 1e6);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

// "3 min ago"
export function ago(at: number | null | undefined, now = Date.now()): string {
  if (!at) return '';
  const s = Math.max(0, Math.round((now - at / 1e6) / 1000));
  if (s < 60) return `${s}${NBSP}s ago`;
  if (s < 3600) return `${Math.floor(s / 60)}${NBSP}min ago`;
  if (s < 172_800) return `${Math.floor(s / 3600)}${NBSP}h ago`;
  return `${Math.floor(s / 86400)}${NBSP}d ago`;
}

// Of counts that include instants, which are slices without a duration in tables and files: "2,789 slices and instants"
export function slices(n: number): string {
  return n === 1 ? `1${NBSP}slice or instant` : `${count(n)}${NBSP}slices and instants`;
}

// "1 rank", "8 ranks"
export function plural(n: number, one: string, many = one + 's'): string {
  return `${count(n)}${NBSP}${n === 1 ? one : many}`;
}
