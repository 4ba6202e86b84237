// SPDX-License-Identifier: Apache-2.0
// Small pictures for buttons that have a label besides.

const PATHS = {
  pin: 'M9.5 1.5 14.5 6.5 11 8l-2.5 5.5-3-3L2 14l3.5-3.5-3-3L8 5z',
  tag: 'M2 2h6l6 6-6 6-6-6zM5 5h.01',
  download: 'M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11',
  trash: 'M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4M6.7 6.5v4.5M9.3 6.5v4.5',
  compare: 'M5 3v10M5 3 2.5 5.5M5 3l2.500 2.500M11 13V3M11 13l-2.500-2.500M11 13l2.500-2.500',
  record: 'M8 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8z',
  stop: 'M4.500 4.500h7v7h-7z',
};

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} fill={name === 'record' || name === 'stop' ? 'currentColor' : 'none'} />
    </svg>
  );
}
