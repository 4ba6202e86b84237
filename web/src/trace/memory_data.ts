// SPDX-License-Identifier: Apache-2.0
// Samples of memory for a plot of any trace: the largest values of a few hundred intervals. Pure.

const INTERVALS = 500;

export interface Sample {
  at: number;
  allocated: number;
  reserved: number;
}

export function memorySql(span: number): string {
  const width = Math.max(1, Math.ceil(span / INTERVALS));
  return (
    `select device_type, device, (ts - first) / ${width} * ${width} as at, max(total_allocated), max(total_reserved) ` +
    'from memory, (select min(ts) as first from slice) where total_allocated is not null group by 1, 2, 3 order by 1, 2, 3'
  );
}

// Samples by device, named as the report names them ("cuda:0"). Device types are torch's numbers: 0 is the CPU.
export function memoryByDevice(rows: unknown[][], names: string[]): Map<string, Sample[]> {
  const devices = new Map<string, Sample[]>();
  for (const [type, device, at, allocated, reserved] of rows) {
    const name = Number(type) === 0 ? 'cpu' : (names.find((known) => known.endsWith(`:${Number(device)}`)) ?? `gpu:${Number(device)}`);
    let samples = devices.get(name);
    if (!samples) devices.set(name, (samples = []));
    samples.push({ at: Number(at), allocated: Number(allocated), reserved: Number(reserved) });
  }
  return devices;
}
