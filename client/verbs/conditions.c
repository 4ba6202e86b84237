/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/conditions.h"

#include "base/alloc.h"

int conditions_parse(struct client *c, const struct condition_options *o, const char *remedy,
                     struct condition **ret)
{
    *ret = xcalloc(o->list.n + 1, sizeof(**ret));
    for (size_t i = 0; i < o->list.n; i++)
        if (condition_parse(o->list.items[i], &(*ret)[i]) < 0)
            return client_refuse(c, remedy, "--fail-if: '%s' is not a condition", o->list.items[i]);
    return EXIT_DONE;
}

int condition_report(struct client *c, const struct condition_options *o, size_t i,
                     const struct condition *condition, const struct condition_decision *d, double ns,
                     const char *needed, int status)
{
    _cleanup_(freep) char *measured = condition_decision_text(condition, d, ns);

    if (d->result == CONDITION_MET) {
        client_note(c, "failed: %s: %s", o->list.items[i], measured);
        return EXIT_CONDITION;
    }
    if (d->result != CONDITION_UNDECIDED)
        return status;
    if (d->has_values)
        client_note(c, "undecided: %s: %s\n  %s; --fail-if-estimate decides by the values", o->list.items[i],
                    measured, needed);
    else
        client_note(c, "undecided: %s: %s", o->list.items[i], needed);
    return status == EXIT_DONE ? EXIT_UNDECIDED : status;
}
