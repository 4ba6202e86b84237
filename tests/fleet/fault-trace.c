/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/fault-trace.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <zlib.h>

/* Kineto counts microseconds from the start of a quarter, so that they fit a double. */
#define BASE_TIME_NS   INT64_C(1735632360000000000)
#define GZIP_WINDOW    (16 + MAX_WBITS)
#define SLICE          (1024 * 1024)
#define BLOB           960 /* random characters in each event of a huge trace */
#define EVENT_TEXT_MAX (BLOB + 512)
#define STEPS          4

static void put_head(FILE *out, const struct trace_facts *t)
{
    fprintf(out,
            "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\"id\": 0, \"name\": \"Fault GPU\", "
            "\"totalGlobalMem\": 150021734400, \"computeMajor\": 9, \"computeMinor\": 0, \"numSms\": 132}\n  "
            "],\n");
    if (t->trace_id)
        fprintf(out, "  \"trace_id\": \"%s\",\n", t->trace_id);
    if (t->world_size > 0)
        fprintf(out,
                "  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %u, \"world_size\": %u, "
                "\"pg_count\": 1, "
                "\"pg_config\": [], \"nccl_version\": \"2.27.3\"},\n",
                t->rank, t->world_size);
    fprintf(out,
            "  \"record_shapes\": 0,\n  \"with_stack\": 0,\n  \"traceEvents\": [\n"
            "  {\"ph\": \"M\", \"name\": \"process_name\", \"ts\": 0, \"pid\": %d, \"tid\": 0, "
            "\"args\": {\"name\": \"fault worker %u\"}},\n"
            "  {\"ph\": \"M\", \"name\": \"process_labels\", \"ts\": 0, \"pid\": 0, \"tid\": 0, "
            "\"args\": {\"labels\": \"GPU 0\"}}",
            t->pid, t->worker);
}

static void put_event(FILE *out, const char *cat, const char *name, int pid, int tid, int64_t at_ns,
                      int64_t dur_ns, const char *args)
{
    int64_t ts = at_ns - BASE_TIME_NS;
    fprintf(out,
            ",\n  {\n    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d,\n"
            "    \"ts\": %" PRId64 ".%03d, \"dur\": %" PRId64 ".%03d,\n    \"args\": {%s}\n  }",
            cat, name, pid, tid, ts / NS_PER_US, (int)(ts % NS_PER_US), dur_ns / NS_PER_US,
            (int)(dur_ns % NS_PER_US), args);
}

static void put_step(FILE *out, const struct trace_facts *t, unsigned step, int64_t at_ns, int64_t dur_ns)
{
    char name[32], args[128];
    snprintf(name, sizeof(name), "ProfilerStep#%u", step);
    if (!t->on_demand)
        put_event(out, "user_annotation", name, t->pid, t->pid, at_ns, dur_ns, "\"External id\": 1");
    put_event(out, "cpu_op", "aten::mm", t->pid, t->pid, at_ns + dur_ns / 8, dur_ns / 4,
              "\"External id\": 2");
    snprintf(args, sizeof(args), "\"External id\": 2, \"cbid\": 211, \"correlation\": %u", step + 1);
    put_event(out, "cuda_runtime", "cudaLaunchKernel", t->pid, t->pid, at_ns + dur_ns / 4, dur_ns / 16, args);
    snprintf(args, sizeof(args), "\"External id\": 2, \"device\": 0, \"stream\": 7, \"correlation\": %u",
             step + 1);
    put_event(out, "kernel", "fault_gemm_kernel", 0, 7, at_ns + dur_ns / 2, dur_ns / 4, args);
}

static void put_tail(FILE *out, const struct trace_facts *t)
{
    fprintf(out,
            "\n  ],\n  \"traceName\": \"%s\",\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": "
            "%" PRId64 "\n}\n",
            t->name, BASE_TIME_NS);
}

void trace_text(const struct trace_facts *t, char **ret, size_t *ret_size)
{
    FILE *out = open_memstream(ret, ret_size);
    put_head(out, t);
    int64_t dur_ns = MAX(t->end_ns - t->begin_ns, STEPS) / STEPS;
    for (unsigned i = 0; i < STEPS && !t->empty; i++)
        put_step(out, t, i, t->begin_ns + i * dur_ns, dur_ns);
    put_tail(out, t);
    fclose(out);
}

int trace_gzip(const char *text, size_t size, char **ret, size_t *ret_size)
{
    z_stream z = {};
    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    size_t bound = deflateBound(&z, size);
    char *out = xcalloc(bound, 1);
    z.next_in = (Bytef *)text;
    z.avail_in = (uInt)size;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)bound;
    int r = deflate(&z, Z_FINISH);
    *ret_size = z.total_out;
    deflateEnd(&z);
    if (r != Z_STREAM_END) {
        free(out);
        return -EIO;
    }
    *ret = out;
    return 0;
}

bool trace_is_gzip(const char *data, size_t size)
{
    return size > 2 && memcmp(data, "\x1f\x8b", 2) == 0;
}

struct huge_trace {
    struct trace_facts facts;
    char *name;
    uint64_t left; /* bytes of events to come */
    uint64_t random;
    int64_t at_ns;
    bool opened;
    z_stream z;
};

int huge_trace_new(const struct trace_facts *facts, uint64_t size, struct huge_trace **ret)
{
    struct huge_trace *h = xcalloc(1, sizeof(*h));
    /* Stored blocks: as large as asked for, and as fast as its CRC. */
    if (deflateInit2(&h->z, Z_NO_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        free(h);
        return -ENOMEM;
    }
    h->facts = *facts;
    h->facts.name = h->name = xstrdup(facts->name);
    h->left = size;
    h->random = UINT64_C(0x9e3779b97f4a7c15) * (facts->worker * 4096 + facts->rank + 1);
    h->at_ns = facts->begin_ns;
    *ret = h;
    return 0;
}

struct huge_trace *huge_trace_free(struct huge_trace *h)
{
    if (!h)
        return NULL;
    deflateEnd(&h->z);
    free(h->name);
    free(h);
    return NULL;
}

static void put_blob(struct huge_trace *h, FILE *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char args[BLOB + 16] = "\"blob\": \"";
    size_t at = strlen(args);
    for (size_t i = 0; i < BLOB; i++) {
        h->random ^= h->random << 13;
        h->random ^= h->random >> 7;
        h->random ^= h->random << 17;
        args[at + i] = digits[h->random >> 58];
    }
    args[at + BLOB] = '"';
    args[at + BLOB + 1] = '\0';
    put_event(out, "cpu_op", "aten::copy_", h->facts.pid, h->facts.pid, h->at_ns, NS_PER_US, args);
    h->at_ns += 2 * NS_PER_US;
}

int huge_trace_write(struct huge_trace *h, int fd)
{
    static_assert(SLICE > EVENT_TEXT_MAX, "a slice has room for an event");
    _cleanup_(freep) char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!h->opened)
        put_head(out, &h->facts);
    h->opened = true;
    uint64_t slice = MIN(h->left, (uint64_t)SLICE);
    while ((uint64_t)ftell(out) < slice)
        put_blob(h, out);
    h->left -= slice;
    if (h->left == 0)
        put_tail(out, &h->facts);
    fclose(out);

    size_t bound = size + 64 * 1024;
    _cleanup_(freep) char *packed = xcalloc(bound, 1);
    h->z.next_in = (Bytef *)text;
    h->z.avail_in = (uInt)size;
    h->z.next_out = (Bytef *)packed;
    h->z.avail_out = (uInt)bound;
    int r = deflate(&h->z, h->left ? Z_SYNC_FLUSH : Z_FINISH);
    if (r != (h->left ? Z_OK : Z_STREAM_END))
        return -EIO;
    int w = write_all(fd, packed, bound - h->z.avail_out);
    return w < 0 ? w : h->left > 0;
}
