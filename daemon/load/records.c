/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/records.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/estimate.h"
#include "base/statistics.h"
#include "daemon/load/messages.h"
#include "daemon/load/request.h"

#define KEPT_BYTES_MAX (INT64_C(64) << 20)
/* Error texts come from servers: each request may have another one. */
#define ERRORS_MAX 200

const char *const outcome_words[_OUTCOME_MAX] = {
    [OUTCOME_SUCCESS] = "success",
    [OUTCOME_INCOMPLETE] = "incomplete",
    [OUTCOME_ERROR] = "error",
};

const char *const token_source_words[_TOKENS_MAX] = {
    [TOKENS_UNKNOWN] = "unknown", [TOKENS_USAGE] = "usage",         [TOKENS_TOKENIZED] = "tokenized",
    [TOKENS_CHUNKS] = "chunks",   [TOKENS_ESTIMATED] = "estimated",
};

void load_records_done(struct load_records *rs)
{
    for (size_t i = 0; i < rs->n; i++)
        free(rs->items[i].gaps_us);
    for (size_t i = 0; i < rs->n_errors; i++)
        free(rs->errors[i]);
    for (size_t i = 0; i < rs->n_kept; i++)
        free(rs->kept[i].text);
    free(rs->kept);
    free(rs->items);
    free(rs->ended);
    free(rs->errors);
    *rs = (struct load_records){0};
}

static const char *load_records_intern_error(struct load_records *rs, const char *text)
{
    if (!text)
        return NULL;
    for (size_t i = 0; i < rs->n_errors; i++)
        if (streq(rs->errors[i], text))
            return rs->errors[i];
    if (rs->n_errors == ERRORS_MAX)
        return "another error, after 200 different ones";
    VEC_GROW(rs->errors, rs->n_errors, rs->errors_cap);
    return rs->errors[rs->n_errors++] = xstrdup(text);
}

static void load_records_add_ended(struct load_records *rs, int64_t index)
{
    VEC_GROW(rs->ended, rs->n_ended, rs->ended_cap);
    rs->ended[rs->n_ended++] = index;
}

/* False where the tokens are counted already, there is no complete text, or no memory is left for it. */
static bool load_records_keep_text(struct load_records *rs, struct request *r)
{
    struct response *a = &r->response;

    if (r->record.output_source == TOKENS_USAGE || a->text_size == 0 || a->text_size < a->text_bytes ||
        rs->kept_bytes + (int64_t)a->text_size > KEPT_BYTES_MAX)
        return false;
    VEC_GROW(rs->kept, rs->n_kept, rs->kept_cap);
    rs->kept[rs->n_kept++] = (struct kept_text){r->record.index, TAKE_PTR(a->text), a->text_size};
    rs->kept_bytes += (int64_t)a->text_size;
    return true;
}

void load_records_add(struct load_records *rs, struct request *r)
{
    size_t index = (size_t)r->record.index;

    /* Requests end in any order. */
    if (!ARRAY_RESERVE(rs->items, rs->cap, index + 1))
        out_of_memory();
    for (; rs->n <= index; rs->n++)
        rs->items[rs->n] = (struct request_record){.index = (int64_t)rs->n};
    struct request_record *record = &rs->items[index];
    *record = r->record;
    r->record.gaps_us = NULL;
    if (record->n_gaps > 0)
        record->gaps_us = xrealloc(record->gaps_us, record->n_gaps, sizeof(*record->gaps_us));
    record->error = load_records_intern_error(rs, record->error);
    int64_t *const moments[] = {&record->intended_ns, &record->sent_ns, &record->first_ns, &record->last_ns,
                                &record->end_ns};
    for (size_t i = 0; i < ARRAY_SIZE(moments); i++)
        if (*moments[i] >= 0)
            *moments[i] -= rs->started_ns;
    rs->bytes += (int64_t)(sizeof(*record) + sizeof(*rs->ended) + record->n_gaps * sizeof(*record->gaps_us));
    if (!load_records_keep_text(rs, r))
        load_records_add_ended(rs, record->index);
}

void load_records_release_texts(struct load_records *rs)
{
    for (size_t i = 0; i < rs->n_kept; i++) {
        load_records_add_ended(rs, rs->kept[i].index);
        free(rs->kept[i].text);
    }
    rs->n_kept = 0;
}

bool load_records_full(const struct load_records *rs)
{
    return rs->bytes > RECORDS_BYTES_MAX;
}

bool load_records_write(struct load_records *rs, struct messages *m, const struct load_target *targets)
{
    while (rs->n_written < rs->n_ended && (messages_accept(m) || messages_are_broken(m))) {
        const struct request_record *r = &rs->items[rs->ended[rs->n_written++]];
        messages_send_request(m, r, targets[r->target].url);
    }
    return rs->n_written == rs->n_ended;
}

/* -- Progress ----------------------------------------------------------------------------------------- */

static void progress_add_value(struct progress_values *v, int64_t ns)
{
    v->ns[v->n++ % PROGRESS_REQUESTS] = ns;
}

void progress_add(struct progress *p, const struct request_record *r, int64_t tokens_seen)
{
    p->done++;
    p->errors += r->outcome == OUTCOME_ERROR;
    if (r->output_tokens > 0)
        p->tokens_seen += r->output_tokens - tokens_seen;
    if (r->outcome != OUTCOME_SUCCESS)
        return;
    if (r->first_ns >= 0)
        progress_add_value(&p->ttft, r->first_ns - r->intended_ns);
    progress_add_value(&p->e2e, r->end_ns - r->intended_ns);
}

static void progress_percentiles(json_t *line, const struct progress_values *v, const char *p50,
                                 const char *p99)
{
    int64_t sorted[PROGRESS_REQUESTS];
    size_t n = MIN(v->n, (size_t)PROGRESS_REQUESTS);

    if (n == 0)
        return;
    memcpy(sorted, v->ns, n * sizeof(*sorted));
    sort_ns(sorted, n);
    json_object_set_new(line, p50, json_real((double)sorted[(n - 1) / 2] / (double)NS_PER_MS));
    if (percentile_is_supported(0.99, n))
        json_object_set_new(line, p99, json_real((double)sorted[(n - 1) * 99 / 100] / (double)NS_PER_MS));
}

json_t *progress_line(struct progress *p, int64_t elapsed_ns)
{
    json_t *line = json_object();
    /* The entry of the line PROGRESS_LINES ago; zero, the run's start, until there are that many. */
    size_t oldest = p->n_lines++ % PROGRESS_LINES;
    int64_t tokens = MAX(p->tokens_seen - p->lines[oldest].tokens, INT64_C(0));
    int64_t since_ns = MAX(elapsed_ns - p->lines[oldest].elapsed_ns, INT64_C(1));

    p->lines[oldest].elapsed_ns = elapsed_ns;
    p->lines[oldest].tokens = p->tokens_seen;
    json_put_str(line, "t", "live");
    json_put_int(line, "elapsed_ns", elapsed_ns);
    json_put_int(line, "done", p->done);
    json_put_int(line, "errors", p->errors);
    json_object_set_new(line, "output_tokens_per_s", json_real((double)tokens * NS_PER_S / (double)since_ns));
    progress_percentiles(line, &p->ttft, "ttft_p50_ms", "ttft_p99_ms");
    progress_percentiles(line, &p->e2e, "e2e_p50_ms", "e2e_p99_ms");
    return line;
}
