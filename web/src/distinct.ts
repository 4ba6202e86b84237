// SPDX-License-Identifier: Apache-2.0
// What distinguishes traces of one file name: the end of the directory that they came from, as editors show it. Pure.

import type { Trace } from './types';

type Origin = Pick<Trace, 'trace' | 'name' | 'origin' | 'host'>;

function foldersOf(trace: Origin): string[] {
  return [trace.host ?? '', ...(trace.origin ?? '').split('/').slice(0, -1)].filter(Boolean);
}

// By trace; those whose names, or folders, are like no other's, or like all others', have none.
export function distinctFolders(traces: Origin[]): Map<string, string> {
  const byName = new Map<string, Origin[]>();
  for (const trace of traces) byName.set(trace.name, [...(byName.get(trace.name) ?? []), trace]);
  const found = new Map<string, string>();
  for (const group of byName.values()) {
    const all = group.map(foldersOf);
    for (const [i, own] of all.entries()) {
      const others = all.filter((folders) => folders.join('/') !== own.join('/'));
      if (others.length === 0) continue;
      let n = 1;
      const end = (folders: string[]) => folders.slice(-n).join('/');
      while (n < own.length && others.some((folders) => end(folders) === end(own))) n++;
      if (own.length > 0) found.set(group[i]!.trace, end(own));
    }
  }
  return found;
}
