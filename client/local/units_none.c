/* SPDX-License-Identifier: Apache-2.0 */
/* Lookup of units in a profctl that was built without systemd: --unit and --user-unit are refused. */
#include "client/local/units.h"

#include <errno.h>

int units_find_workers(struct client *c, const struct option_list *system, const struct option_list *user,
                       struct unit_workers *ret, struct problem *p)
{
    *ret = (struct unit_workers){0};
    if (system->n + user->n == 0)
        return 0;
    problem_remedy(p, "Name workers by --worker URL, or build with -Dsystemd=true.");
    return problem_set(p, -EOPNOTSUPP, PROBLEM_BAD_REQUEST,
                       "cannot look up units: this profctl was built without systemd");
}

void unit_workers_done(struct unit_workers *w)
{
}
