/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the store that holds what was made of traces: <state>/columns/t12.columns, for stored traces
 * and those that lie elsewhere. What is lost here can be made again, so nothing is synced but the files
 * themselves.
 */
#include "daemon/collect/store_internal.h"

#include "base/alloc.h"
#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#define COLUMNS_SUFFIX ".columns"

static char *columns_path(const struct store *s, int64_t trace_id)
{
    return xasprintf("%s/t%" PRId64 COLUMNS_SUFFIX, s->settings->columns_path, trace_id);
}

int store_columns_incoming(struct store *s, int *ret_fd, int *ret_spill_fd, char **ret_path)
{
    int r = open_incoming(s, s->settings->columns_path, ret_fd, ret_path);
    if (r < 0)
        return r;
    /* Without it, what does not fit into memory is an error that is reported. */
    *ret_spill_fd = open(s->settings->columns_path, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    return 0;
}

/* Half of it is for what else comes in meanwhile: what may be written is far more than what mostly is. */
int64_t store_lend_columns(struct store *s, unsigned readers)
{
    struct store_usage u;

    if (store_usage(s, &u) < 0)
        return 0;
    int64_t room = u.free - u.keep_free - s->incoming_bytes - s->lent_bytes;
    int64_t lent = MAX(room, INT64_C(0)) / 2 / readers;
    s->lent_bytes += lent;
    return lent;
}

void store_columns_done(struct store *s, int64_t lent)
{
    s->lent_bytes -= lent;
}

int store_place_columns(const struct store *s, const char *incoming, int64_t trace_id, char **ret_path)
{
    _cleanup_(freep) char *path = columns_path(s, trace_id);

    if (rename(incoming, path) < 0)
        return -errno;
    free(*ret_path);
    *ret_path = TAKE_PTR(path);
    return 0;
}

int store_take_columns_back(struct store *s, const char *path, char **ret_incoming)
{
    _cleanup_(freep) char *incoming = incoming_path(s, s->settings->columns_path);

    if (rename(path, incoming) < 0)
        return -errno;
    *ret_incoming = TAKE_PTR(incoming);
    return 0;
}

bool store_columns_owner(const char *name, int64_t *ret_trace_id)
{
    _cleanup_(freep) char *id = NULL;

    if (!ends_with(name, COLUMNS_SUFFIX))
        return false;
    id = xstrndup(name, strlen(name) - strlen(COLUMNS_SUFFIX));
    return parse_ref(id, 't', ret_trace_id) == 't';
}

int drop_columns(struct store *s, int64_t trace_id)
{
    struct trace_record t;

    trace_record_init(&t);
    int r = catalog_get_trace(s->catalog, trace_id, &t);
    if (r >= 0) {
        replace_str(&t.columns, NULL);
        t.columns_size = RECORD_NONE;
        replace_str(&t.columns_reason, "given up for the store's budget");
        r = catalog_save_trace(s->catalog, &t);
    }
    trace_record_done(&t);
    return r;
}
