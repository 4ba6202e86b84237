/* SPDX-License-Identifier: Apache-2.0 */
/* Records all of whose fields say something, for the tests of the catalog. */
#pragma once

#include "daemon/catalog/records.h"

#define W1     "http://10.0.0.1:8000"
#define W2     "http://10.0.0.2:8000"
#define UUID_1 "6b1f0000-0000-4000-8000-000000000011"
#define UUID_2 "6b1f0000-0000-4000-8000-000000000012"

static inline struct session_record full_session(void)
{
    return (struct session_record){.state = STATE_COLLECTING,
                                   .router = "http://r:3000",
                                   .dialect = "vllm-router",
                                   .fleet = "prod",
                                   .options = "{\"steps\":5}",
                                   .labels = "{\"team\":\"rl\"}",
                                   .requested_at = 1,
                                   .requested_by = "uid 1000 (anna)",
                                   .start_at = 2,
                                   .starts_sent_at = 3,
                                   .recording_at = 4,
                                   .stop_at = 5,
                                   .hard_stop_at = 6,
                                   .stopped_at = 7,
                                   .finished_at = 8,
                                   .skew_ns = 9,
                                   .reason = "reason",
                                   .remedy = "remedy\nin two lines",
                                   .remarks = "[{\"text\":\"remark\"}]",
                                   .name = "night",
                                   .skipped = "[{\"worker\":\"" W2 "\"}]",
                                   .begun_at = 91,
                                   .boot_id = "9d3c",
                                   .begun_boot_ns = 92,
                                   .stop_boot_ns = 93,
                                   .hard_stop_boot_ns = 94,
                                   .coordinator = "6b1f0000-0000-4000-8000-000000000001",
                                   .coordinator_name = "n17",
                                   .lease_id = 95,
                                   .skew_error_ns = 96,
                                   .pinned = true};
}

static inline struct target_record full_target(int64_t session_id)
{
    return (struct target_record){
        .session_id = session_id,
        .state = STATE_STOPPING,
        .worker_url = W1,
        .worker = "{\"url\":\"" W1 "\",\"engine\":\"vllm\",\"version\":\"0.19.1\",\"role\":\"decode\"}",
        .profile_id = "s1-w1",
        .output_dir = "/tmp/out",
        .trace_dir = "/tmp/traces",
        .ranks_expected = 8,
        .stop_pending = true,
        .start_sent_at = 11,
        .start_answered_at = 12,
        .start_status = 200,
        .stop_sent_at = 13,
        .stop_answered_at = 14,
        .stop_status = 500,
        .failure = "failure",
        .host = "n18",
        .host_uuid = "6b1f0000-0000-4000-8000-000000000002",
        .clock_offset_ns = -15,
        .clock_error_ns = 16,
        .clock_rtt_ns = 17,
        .clock_maxerror_ns = 18,
        .clock_unsync = 1,
        .remedy = "remedy"};
}

static inline struct trace_record full_trace(int64_t session_id, int64_t target_id)
{
    return (struct trace_record){.session_id = session_id,
                                 .target_id = target_id,
                                 .worker_url = W1,
                                 .kind = TRACE_KIND_FRONTEND,
                                 .state = TRACE_TRUNCATED,
                                 .reason = "gzip ends after 17 events",
                                 .name = "rank0.json.gz",
                                 .path = "/store/s1/rank0.json.gz",
                                 .origin = "/tmp/traces/rank0.json.gz",
                                 .stored = true,
                                 .size = 4096,
                                 .disk_size = 4096,
                                 .sha256 = "ab12",
                                 .format = "kineto",
                                 .uncompressed = 99999,
                                 .rank = 5,
                                 .dp = 1,
                                 .pp = 0,
                                 .tp = 3,
                                 .ep = 2,
                                 .stage = "decode",
                                 .world_size = 8,
                                 .pid = 4711,
                                 .devices = 1,
                                 .device_name = "NVIDIA H200",
                                 .events = 17,
                                 .first_event_at = 21,
                                 .span_ns = 22,
                                 .candidates = "[\"" W1 "\",\"" W2 "\"]",
                                 .owner_uid = 1000,
                                 .recorded_at = 23,
                                 .collected_at = 24,
                                 .labels = "{\"run\":\"a\"}",
                                 .last_event_at = 43,
                                 .columns = "/columns/t1.columns",
                                 .columns_size = 512,
                                 .columns_version = 1,
                                 .columns_reason = "none",
                                 .slices = 16,
                                 .gpu_slices = 5,
                                 .threads = 4,
                                 .flows = 3,
                                 .defects = "[{\"kind\":\"truncated\",\"count\":1}]",
                                 .archived_at = 25,
                                 .archive_key = "traces/sha256/ab/ab12.gz",
                                 .pinned = true};
}
