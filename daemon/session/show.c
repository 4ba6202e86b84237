/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What whoever asks is shown of sessions: their rows in the catalog, and from memory what no row has. Of a
 * session whose latest state the catalog could not take (a full disk), memory is shown: what profd acts on,
 * and its log says, is what everybody sees. Nothing here changes a session.
 */
#include "base/alloc.h"
#include "daemon/session/internal.h"
#include <inttypes.h>

static void show_unsaved(const struct session *s, json_t *session)
{
    _cleanup_(freep) enum state *states = xcalloc(s->n_targets, sizeof(*states));
    json_t *targets = json_object_get(session, "targets"), *j;
    size_t i;

    for (i = 0; i < s->n_targets; i++)
        states[i] = s->targets[i].record.state;
    session_json_renew(session, &s->record, states, s->n_targets);
    json_array_foreach(targets, i, j)
        if (i < s->n_targets)
            target_json_renew(j, &s->targets[i].record);
}

void sessions_describe(struct sessions *all, int64_t session_id, json_t *session)
{
    const struct session *s = sessions_find(all, session_id);
    json_t *targets = json_object_get(session, "targets"), *j;
    size_t i;

    if (!s)
        return;
    if (s->unsaved)
        show_unsaved(s, session);
    if (s->record.state == STATE_REQUESTED)
        json_put_str(session, "waiting_for", s->waiting_for);
    json_array_foreach(targets, i, j)
        if (i < s->n_targets && !state_is_final(s->targets[i].record.state) && all->collector_ops)
            json_put_int(j, "bytes_seen", all->collector_ops->bytes_seen(&s->targets[i], all->collector));
}

enum state sessions_state(struct sessions *all, int64_t session_id, enum state saved)
{
    const struct session *s = sessions_find(all, session_id);
    return s ? s->record.state : saved;
}

/* -- Lists -- */

static int64_t id_at(const json_t *list, size_t i)
{
    const char *ref = json_get_str(json_array_get(list, i), "session");
    return ref ? strtoll(ref + 1, NULL, 10) : 0;
}

static bool is_listed_as(const struct session *s, const char *state)
{
    return !state || (streq(state, "active") ? !state_is_final(s->record.state)
                                             : streq(state, state_name(s->record.state)));
}

/* As the catalog would list it, had it taken its state. The newest come first. */
static int list_unsaved(const struct session *s, int64_t before_id, const char *state, json_t *list)
{
    int64_t id = s->record.session_id;
    json_t *item = NULL;
    size_t i = 0;

    while (i < json_array_size(list) && id_at(list, i) > id)
        i++;
    if (i < json_array_size(list) && id_at(list, i) == id)
        json_array_remove(list, i);
    if (!is_listed_as(s, state) || (before_id != RECORD_NONE && id >= before_id))
        return 0;
    int r = catalog_session_json(s->all->catalog, id, false, &item);
    if (r < 0)
        return r;
    show_unsaved(s, item);
    json_object_del(item, "remarks");
    json_object_del(item, "skipped");
    json_array_insert_new(list, i, item);
    return 0;
}

int sessions_list_json(struct sessions *all, int64_t limit, int64_t before_id, const char *state,
                       json_t **ret)
{
    _cleanup_json_ list = NULL;
    const struct session *s;
    int64_t n_unsaved = 0;

    TAILQ_FOREACH(s, &all->list, next)
        n_unsaved += s->unsaved;
    int r = catalog_sessions_json(all->catalog, limit + n_unsaved, before_id, state, &list);
    TAILQ_FOREACH(s, &all->list, next)
        if (s->unsaved && r == 0)
            r = list_unsaved(s, before_id, state, list);
    if (r < 0)
        return r;
    while (json_array_size(list) > (size_t)limit)
        json_array_remove(list, json_array_size(list) - 1);
    *ret = TAKE_PTR(list);
    return 0;
}
