/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/records.h"

#include "base/alloc.h"

#define RECORDS_MIN 1024
/* Texts of servers may be as many as requests. */
#define ERRORS_MAX 200

void records_done(struct records *rs)
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
    *rs = (struct records){0};
}

static const char *keep_error(struct records *rs, const char *text)
{
    if (!text)
        return NULL;
    for (size_t i = 0; i < rs->n_errors; i++)
        if (streq(rs->errors[i], text))
            return rs->errors[i];
    if (rs->n_errors == ERRORS_MAX)
        return "another error: 200 different ones came before";
    VEC_GROW(rs->errors, rs->n_errors, rs->errors_cap);
    return rs->errors[rs->n_errors++] = xstrdup(text);
}

/* They end in any order. */
static struct request_record *place_of(struct records *rs, size_t index)
{
    if (index >= rs->cap) {
        rs->cap = MAX(MAX(2 * rs->cap, index + 1), (size_t)RECORDS_MIN);
        rs->items = xrealloc(rs->items, rs->cap, sizeof(*rs->items));
    }
    for (; rs->n <= index; rs->n++)
        rs->items[rs->n] = (struct request_record){.index = (int64_t)rs->n};
    return &rs->items[index];
}

static void add_ended(struct records *rs, int64_t index)
{
    VEC_GROW(rs->ended, rs->n_ended, rs->ended_cap);
    rs->ended[rs->n_ended++] = index;
}

/* False where it is counted, or there is nothing to be counted, or no room. */
static bool keep(struct records *rs, struct request *r)
{
    struct answer *a = &r->answer;

    if (r->record.output_source == TOKENS_USAGE || a->text_size == 0 || a->text_size < a->text_bytes ||
        rs->kept_bytes + (int64_t)a->text_size > KEPT_BYTES_MAX)
        return false;
    VEC_GROW(rs->kept, rs->n_kept, rs->kept_cap);
    rs->kept[rs->n_kept++] = (struct kept){r->record.index, TAKE_PTR(a->text), a->text_size};
    rs->kept_bytes += (int64_t)a->text_size;
    return true;
}

void records_add(struct records *rs, struct request *r, int64_t started_ns)
{
    struct request_record *record = place_of(rs, (size_t)r->record.index);
    int64_t *const moments[] = {&record->intended_ns, &record->sent_ns, &record->first_ns, &record->last_ns,
                                &record->end_ns};

    *record = r->record;
    r->record.gaps_us = NULL;
    if (record->n_gaps > 0)
        record->gaps_us = xrealloc(record->gaps_us, record->n_gaps, sizeof(*record->gaps_us));
    record->error = keep_error(rs, record->error);
    for (size_t i = 0; i < ARRAY_SIZE(moments); i++)
        if (*moments[i] >= 0)
            *moments[i] -= started_ns;
    rs->bytes += (int64_t)(sizeof(*record) + sizeof(*rs->ended) + record->n_gaps * sizeof(*record->gaps_us));
    if (!keep(rs, r))
        add_ended(rs, record->index);
}

void records_release(struct records *rs)
{
    for (size_t i = 0; i < rs->n_kept; i++) {
        add_ended(rs, rs->kept[i].index);
        free(rs->kept[i].text);
    }
    rs->n_kept = 0;
}

bool records_full(const struct records *rs)
{
    return rs->bytes > RECORDS_BYTES_MAX;
}

bool records_tell(struct records *rs, struct emit *e, const struct target *targets)
{
    while (rs->n_told < rs->n_ended && (emit_has_room(e) || emit_is_broken(e))) {
        const struct request_record *r = &rs->items[rs->ended[rs->n_told++]];
        emit_request(e, r, targets[r->target].url);
    }
    return rs->n_told == rs->n_ended;
}
