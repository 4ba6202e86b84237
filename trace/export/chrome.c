/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/chrome.h"
#include "trace/export/formats.h"
#include "trace/export/text_out.h"

#include <inttypes.h>

static bool is(struct text t, const char *word)
{
    return t.size == strlen(word) && memcmp(t.p, word, t.size) == 0;
}

/* What stands before the events: a member for each fact that is known. */
static void put_head(const struct columns *c, FILE *out)
{
    static const struct {
        const char *key;
        enum meta_key meta;
    } values[] = {
        {"deviceProperties", META_device_properties},
        {"distributedInfo", META_distributed_info},
        {"traceName", META_trace_name},
    };
    int64_t base = columns_meta(c, META_base_time_ns);

    fprintf(out, "{\n\"displayTimeUnit\":\"%s\"",
            is(columns_meta_text(c, META_display_unit), "ns") ? "ns" : "ms");
    if (base != COLUMN_NULL)
        fprintf(out, ",\n\"baseTimeNanoseconds\":%" PRId64, base);
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        struct text t = columns_meta_text(c, values[i].meta);

        if (t.size == 0)
            continue;
        fprintf(out, ",\n\"%s\":", values[i].key);
        out_json_value(out, t);
    }
    /* What readers of PyTorch's traces look for. */
    if (columns_meta(c, META_device_properties) != COLUMN_NULL)
        fputs(",\n\"schemaVersion\":1", out);
    fputs(",\n\"traceEvents\":[", out);
}

int export_chrome(const struct export_trace *t, const struct selection *s, FILE *out)
{
    struct chrome_out o = {.out = out};
    int r;

    put_head(t->columns, out);
    r = chrome_put_trace(&o, t, s, NULL);
    fputs("\n]}\n", out);
    return r;
}
