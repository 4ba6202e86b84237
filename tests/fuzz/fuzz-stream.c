/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the same bytes in two ways: how they are cut into pieces must not matter. */
#include "trace/read/decompress.h"

#define OUT_MAX (4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t mix(uint64_t hash, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * UINT64_C(1099511628211);
    return hash;
}

static struct stream_summary decode(const uint8_t *data, size_t size, size_t in_step, size_t out_step,
                                    uint64_t *ret_hash)
{
    struct stream_limits limits = {.out_max = OUT_MAX, .ratio_max = 2000, .ratio_floor = OUT_MAX};
    struct stream_summary sum;
    _cleanup_(freep) uint8_t *out = malloc(out_step);
    _cleanup_(stream_freep) struct stream *s = NULL;

    if (!out || stream_new(limits, &s) < 0)
        abort();
    *ret_hash = 0;
    for (size_t at = 0; at < size; at += in_step) {
        struct stream_io io = {.in = data + at, .in_size = MIN(in_step, size - at)};
        do {
            io.out = out;
            io.out_size = out_step;
            stream_decode(s, &io);
            *ret_hash = mix(*ret_hash, out, out_step - io.out_size);
        } while (io.in_size > 0 || io.out_size == 0);
    }
    stream_finish(s, &sum);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole_hash, pieces_hash;
    struct stream_summary whole = decode(data, size, size + 1, 1 << 16, &whole_hash);
    struct stream_summary pieces = decode(data, size, 1 + size % 13, 1 + size % 1021, &pieces_hash);

    if (whole.in != size || pieces.in != size || whole.result != pieces.result)
        abort();
    if (whole.result == STREAM_COMPLETE && (whole.out != pieces.out || whole_hash != pieces_hash))
        abort();
    return 0;
}
