// SPDX-License-Identifier: Apache-2.0
// Where the ranks of an engine instance are. Pure.

import type { Trace } from '../types';

// Whether ranks of one engine instance are on several hosts, so that one host alone cannot compare them. Servers of several
// hosts may be one job, as with experts that are spread over all of them: then none has all ranks of the job, and together
// they have no more than it. profctl decides in the same way.
export function areSplit(traces: readonly Trace[]): boolean {
  const groups = new Map<string, { host: string; ranks: number; world: number }>();
  for (const trace of traces) {
    const key = trace.instance ?? trace.worker ?? '';
    const host = trace.host_uuid ?? '';
    const group = groups.get(key);
    if (group && group.host !== host) return true;
    if (!group) groups.set(key, { host, ranks: 1, world: trace.world_size ?? 0 });
    else Object.assign(group, { ranks: group.ranks + 1, world: Math.max(group.world, trace.world_size ?? 0) });
  }
  const partial = new Map<number, { hosts: Set<string>; ranks: number }>();
  for (const { host, ranks, world } of groups.values()) {
    if (ranks >= world) continue;
    const job = partial.get(world) ?? { hosts: new Set<string>(), ranks: 0 };
    job.hosts.add(host);
    partial.set(world, { hosts: job.hosts, ranks: job.ranks + ranks });
  }
  return [...partial].some(([world, { hosts, ranks }]) => hosts.size > 1 && ranks <= world);
}
