/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How profd talks to profd-load, the child that sends the requests of a workload and measures them: descriptors,
 * the specification of one benchmark run, lines of JSON.
 *
 *     profd-load
 *
 *     0  the specification, one JSON object until end of file, at most LOAD_SPEC_MAX bytes
 *     1  events, one JSON object a line
 *     2  the parent's stderr: only for errors before the child can write lines
 *     3  commands, one word a line: "go" (after "ready"), "stop" (send no more requests, wait for those in flight
 *        until the workload's drain deadline, then write "end"); end of file is "stop"
 *
 * The specification:
 *
 *     workload          an object of workload.schema.json, complete
 *     targets           [{url, engine, pid}]: to whom requests are sent, round robin; pid where it runs on this host
 *     warm              [{url, engine, pid}]: workers to warm up, targets where absent
 *     workers           [{url, engine, pid}]: workers whose memory and metrics are sampled, warm where absent
 *     network           {allow}: address ranges (profd.conf's [network])
 *     credentials       {token_file, ca_file, cert_file, key_file}, each may be absent
 *
 * The events, each with its type "t":
 *
 *     warmed            url, sent, failed, and mean_ms of successful requests, else the error: of warm-up, once for
 *                       each worker
 *     ready             model: all preparation is done; sending begins with "go"
 *     request           one request that ended; docs/catalog.md has its members, those of the view `requests`, of which
 *                       target is the URL and gaps_us a list
 *     live              once a second: sent, in_flight, done, errors, output_tokens_per_s, ttft_p50_ms, ttft_p99_ms,
 *                       e2e_p50_ms, e2e_p99_ms, elapsed_ns, planned (requests, 0 unknown)
 *     note              text, remedy: for people, once each
 *     failed            text, remedy: the run could not begin; the last line
 *     end               summary: an object, see docs/workload.md; the last line
 *
 * Lines are at most LOAD_LINE_MAX bytes.
 */
#pragma once

#define LOAD_SPEC_MAX (32 << 20)
#define LOAD_LINE_MAX (16 << 20)

enum {
    LOAD_FD_SPEC = 0,
    LOAD_FD_LINES = 1,
    LOAD_FD_COMMANDS = 3,
};
