/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/function_list.h"

#include "base/alloc.h"

/* What malloc() adds to the two texts of a function. */
#define TEXTS_OVERHEAD (2 * 16)

void function_list_add(struct function_list *l, const char *name, size_t name_size, const char *file,
                       size_t file_size, int64_t line, int64_t calls, int64_t tsub_ns, int64_t ttot_ns)
{
    VEC_GROW(l->items, l->n, l->cap);
    l->text_bytes += name_size + file_size;
    l->items[l->n++] = (struct function){.name = xstrndup(name, name_size),
                                         .file = xstrndup(file, file_size),
                                         .line = line,
                                         .calls = calls,
                                         .tsub_ns = tsub_ns,
                                         .ttot_ns = ttot_ns};
}

struct function_list *function_list_free(struct function_list *l)
{
    if (!l)
        return NULL;
    for (size_t i = 0; i < l->n; i++) {
        free(l->items[i].name);
        free(l->items[i].file);
    }
    free(l->items);
    free(l);
    return NULL;
}

size_t function_list_bytes(const struct function_list *l)
{
    return l->text_bytes + l->cap * sizeof(*l->items) + l->n * TEXTS_OVERHEAD;
}

const char *function_clock_name(enum function_clock c)
{
    static const char *const names[] = {
        [FUNCTION_CLOCK_CPU] = "cpu",
        [FUNCTION_CLOCK_WALL] = "wall",
    };
    return names[c];
}

static int function_compare_identity(const void *a, const void *b)
{
    const struct function *fa = a, *fb = b;
    int r = strcmp(fa->file, fb->file);

    if (r == 0)
        r = (fa->line > fb->line) - (fa->line < fb->line);
    return r ? r : strcmp(fa->name, fb->name);
}

static int function_compare_cost(const void *a, const void *b)
{
    const struct function *fa = a, *fb = b;

    if (fa->ttot_ns != fb->ttot_ns)
        return fa->ttot_ns < fb->ttot_ns ? 1 : -1;
    return function_compare_identity(fa, fb);
}

void function_list_sort(struct function_list *l)
{
    if (l->n > 0)
        qsort(l->items, l->n, sizeof(*l->items), function_compare_cost);
}

/* A sum that does not fit stays where it is: such counts are nonsense. */
static void function_add_bounded(int64_t *sum, int64_t more)
{
    int64_t result;
    if (!__builtin_add_overflow(*sum, more, &result) && llabs(result) <= FUNCTION_COUNT_MAX)
        *sum = result;
}

/* In order of identity, strings borrowed. Functions with the same name, file and line (such as lambdas) are
 * merged. */
static struct function *function_list_merge(const struct function_list *l, size_t *ret_n)
{
    struct function *m = xcalloc(MAX(l->n, (size_t)1), sizeof(*m));
    size_t n = 0;

    if (l->n > 0)
        memcpy(m, l->items, l->n * sizeof(*m));
    qsort(m, l->n, sizeof(*m), function_compare_identity);
    for (size_t i = 0; i < l->n; i++) {
        if (n > 0 && function_compare_identity(&m[n - 1], &m[i]) == 0) {
            function_add_bounded(&m[n - 1].calls, m[i].calls);
            function_add_bounded(&m[n - 1].tsub_ns, m[i].tsub_ns);
            function_add_bounded(&m[n - 1].ttot_ns, m[i].ttot_ns);
        } else {
            m[n++] = m[i];
        }
    }
    *ret_n = n;
    return m;
}

/* Whether a count of the function decreased. If the list has no pid, a decrease of ttot reveals a new
 * process, too. */
static bool function_decreased(const struct function_list *l, const struct function *before,
                               const struct function *after)
{
    return after->calls < before->calls || (l->pid == 0 && after->ttot_ns < before->ttot_ns);
}

static void function_list_add_rise(struct function_list *l, const struct function *f,
                                   const struct function *since)
{
    static const struct function never = {0};
    const struct function *s = since ? since : &never;
    int64_t tsub = MAX(f->tsub_ns - s->tsub_ns, INT64_C(0)), ttot = MAX(f->ttot_ns - s->ttot_ns, INT64_C(0));

    if (f->calls > s->calls || tsub > 0 || ttot > 0)
        function_list_add(l, f->name, strlen(f->name), f->file, strlen(f->file), f->line, f->calls - s->calls,
                          tsub, ttot);
}

/* False where a count fell. */
static bool function_list_subtract(const struct function_list *before, const struct function_list *after,
                                   struct function_list *ret)
{
    size_t n_old, n_young, k = 0;
    _cleanup_(freep) struct function *old = function_list_merge(before, &n_old);
    _cleanup_(freep) struct function *young = function_list_merge(after, &n_young);

    for (size_t i = 0; i < n_young; i++) {
        int order = k < n_old ? function_compare_identity(&old[k], &young[i]) : 1;
        if (order < 0 || (order == 0 && function_decreased(after, &old[k], &young[i])))
            return false;
        function_list_add_rise(ret, &young[i], order == 0 ? &old[k++] : NULL);
    }
    return k == n_old;
}

struct function_list *function_list_difference(const struct function_list *before,
                                               const struct function_list *after, bool *ret_restarted)
{
    _cleanup_(function_list_freep) struct function_list *l = xcalloc(1, sizeof(*l));
    bool same_process = before->pid == 0 || after->pid == 0 || before->pid == after->pid;

    *ret_restarted = !same_process || !function_list_subtract(before, after, l);
    if (*ret_restarted) {
        function_list_free(l);
        l = xcalloc(1, sizeof(*l));
        function_list_subtract(&(struct function_list){0}, after, l);
    }
    l->clock = after->clock;
    l->pid = after->pid;
    l->n_unreadable = after->n_unreadable;
    function_list_sort(l);
    return TAKE_PTR(l);
}
