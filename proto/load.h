/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How profd talks to profd-load, the child that sends a workload's requests and measures them: descriptors,
 * one order, lines of JSON.
 *
 *     profd-load
 *
 *     0  the order, one JSON object until end of file, at most LOAD_ORDER_MAX bytes
 *     1  what happened, one JSON object a line
 *     2  its starter's stderr: only for what keeps the child from starting its work
 *     3  commands, one word a line: "go" (after "ready"), "stop" (send nothing more, let what is under way
 * end until the order's drain deadline, then say "end"); end of file is "stop"
 *
 * The order:
 *
 *     workload          an object of workload.schema.json, complete
 *     targets           [{url, engine, pid}]: who is sent requests, in turn; pid where it runs on this host
 *     warm              [{url, engine, pid}]: who is warmed up, targets where absent
 *     workers           [{url, engine, pid}]: whose memory and metrics are watched, warm where absent
 *     network           {allow}: address ranges (profd.conf's [network])
 *     credentials       {token_file, ca_file, cert_file, key_file}, each may be absent
 *
 * What happened, each with "t", its kind:
 *
 *     warmed            url, sent, failed, and mean_ms of what succeeded, else the error: of warm-up, once
 * for each worker ready             model: everything is known that the load needs; sending begins with "go"
 *     request           one request that ended; docs/catalog.md has its members, those of the view
 * `requests`, of which target is the URL and gaps_us a list live              once a second: sent, in_flight,
 * done, errors, output_tokens_per_s, ttft_p50_ms, ttft_p99_ms, e2e_p50_ms, e2e_p99_ms, elapsed_ns, planned
 * (requests, 0 unknown) note              text, remedy: said once, for people failed            text, remedy:
 * the run could not begin; the last line end               summary: an object, see docs/workload.md; the last
 * line
 *
 * Lines are at most LOAD_LINE_MAX bytes.
 */
#pragma once

#define LOAD_ORDER_MAX (32 << 20)
#define LOAD_LINE_MAX  (16 << 20)

enum {
    LOAD_FD_ORDER = 0,
    LOAD_FD_LINES = 1,
    LOAD_FD_COMMANDS = 3,
};
