// SPDX-License-Identifier: Apache-2.0
// Statements to begin with: those of `profctl query --named` (client/query/named_queries.c), and a few of docs/sql.md.

export interface Example {
  title: string;
  sql: string;
}

const KERNELS_AND_COPIES = "('kernel', 'gpu_memcpy', 'Kernel', 'Memcpy')";

export const EXAMPLES: Example[] = [
  {
    title: 'Kernels and copies by name',
    sql: `SELECT name, COUNT(*) AS count, SUM(dur) AS sum_ns, ROUND(AVG(dur)) AS mean_ns, MIN(dur) AS min_ns, MAX(dur) AS max_ns
FROM slice
WHERE category IN ${KERNELS_AND_COPIES}
GROUP BY name ORDER BY sum_ns DESC`,
  },
  { title: 'Gaps between kernels, longest first', sql: 'SELECT ts, name, prev_name, diff\nFROM gap\nORDER BY diff DESC' },
  {
    title: 'Threads and streams by busy time',
    sql: `SELECT pid, process.name AS process, tid, thread.name AS thread, COUNT(*) AS slices,
  SUM(IIF(depth = 0, dur, 0)) AS busy_ns
FROM slice JOIN thread_track ON track_id = thread_track.id JOIN thread USING (utid)
  LEFT JOIN process USING (upid)
GROUP BY utid ORDER BY busy_ns DESC`,
  },
  { title: 'Delay from launch to kernel', sql: 'SELECT launch_name, COUNT(*) AS count, ROUND(AVG(delay)) AS mean_ns, MAX(delay) AS max_ns\nFROM launch\nGROUP BY launch_name ORDER BY mean_ns DESC' },
  {
    title: 'Kernel time over time',
    sql: `SELECT (ts - (SELECT MIN(ts) FROM slice)) / 1000000 AS ms, SUM(dur) AS busy_ns
FROM kernel
GROUP BY 1 ORDER BY 1`,
  },
  { title: 'Steps', sql: 'SELECT "index", name, phase, start_ns, dur_ns, idle_ns, tokens\nFROM report_steps' },
  { title: 'Defects of the trace', sql: 'SELECT name, value AS count, file_offset AS first_offset, description\nFROM stats WHERE value > 0 ORDER BY id' },
];
