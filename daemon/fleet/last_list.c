/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/last_list.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"

struct last_worker {
    char *url, *listed_url, *model, *identity;
    enum role role;
};

struct last_list {
    char *fleet;
    struct source_config by;
    int64_t stored_mono_ns;
    struct last_worker *workers;
    size_t n_workers;
};

static void last_list_free(struct last_list *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n_workers; i++) {
        free(l->workers[i].url);
        free(l->workers[i].listed_url);
        free(l->workers[i].model);
        free(l->workers[i].identity);
    }
    free(l->workers);
    free(l->fleet);
    source_config_done(&l->by);
    free(l);
}

void last_lists_done(struct last_lists *l)
{
    for (size_t i = 0; i < LAST_LISTS_MAX; i++)
        last_list_free(l->items[i]);
    *l = (struct last_lists){0};
}

static size_t last_list_index(const struct last_lists *l, const char *fleet)
{
    for (size_t i = 0; i < LAST_LISTS_MAX; i++)
        if (l->items[i] && streq(l->items[i]->fleet, fleet))
            return i;
    return LAST_LISTS_MAX;
}

void last_lists_store(struct last_lists *l, const char *fleet, const struct source_config *by,
                      const struct fleet *found)
{
    struct last_list *list = xcalloc(1, sizeof(*list));
    size_t i = last_list_index(l, fleet);

    list->fleet = xstrdup(fleet);
    source_config_copy(by, &list->by);
    list->stored_mono_ns = mono_ns();
    list->workers = xcalloc(MAX(found->n_workers, 1u), sizeof(*list->workers));
    for (size_t k = 0; k < found->n_workers; k++) {
        const struct worker *w = &found->workers[k];
        list->workers[list->n_workers++] = (struct last_worker){.url = xstrdup(w->url),
                                                                .listed_url = xstrdup(w->listed_url),
                                                                .model = xstrdup(w->model),
                                                                .identity = xstrdup(w->identity),
                                                                .role = w->role};
    }
    if (i == LAST_LISTS_MAX)
        i = l->n_stored++ % LAST_LISTS_MAX;
    last_list_free(l->items[i]);
    l->items[i] = list;
}

struct fleet *last_lists_get(const struct last_lists *l, const char *fleet, const struct source_config *by,
                             const struct problem *p)
{
    size_t i = last_list_index(l, fleet);
    char age[UNIT_TEXT_MAX];

    if (i == LAST_LISTS_MAX || !source_config_equal(&l->items[i]->by, by))
        return NULL;
    const struct last_list *list = l->items[i];
    struct fleet *f = xcalloc(1, sizeof(*f));
    f->dialect = xstrdup(by->source->key);
    for (size_t k = 0; k < list->n_workers; k++) {
        struct worker *w = fleet_add_worker(f);
        w->url = xstrdup(list->workers[k].url);
        w->listed_url = xstrdup(list->workers[k].listed_url);
        w->model = xstrdup(list->workers[k].model);
        w->identity = xstrdup(list->workers[k].identity);
        w->role = list->workers[k].role;
    }
    fleet_add_note_of(f, NOTE_WARNING, "this list of workers is %s old: %s",
                      format_duration(age, mono_ns() - list->stored_mono_ns), p->what);
    return f;
}
