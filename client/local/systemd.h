/* SPDX-License-Identifier: Apache-2.0 */
/*
 * systemd's manager on the bus, of the system or of the user, called with the rights of profctl's user. Calls
 * block, each for a limited time.
 */
#pragma once

#include "base/problem.h"
#include <sys/types.h>
#include <systemd/sd-bus.h>

#define SYSTEMD_NAME      "org.freedesktop.systemd1"
#define SYSTEMD_PATH      "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE "org.freedesktop.systemd1.Manager"
#define UNIT_INTERFACE    "org.freedesktop.systemd1.Unit"
#define SERVICE_INTERFACE "org.freedesktop.systemd1.Service"

struct systemd {
    sd_bus *bus;
    bool is_user;
};

struct unit {
    char *name, *load, *active,
        *path; /* load: "loaded", "not-found"; active: "active", "failed"; path: on the bus */
};

struct unit_list {
    struct unit *items;
    size_t n, cap;
};

/* A negative errno value with the problem if the bus or its manager is missing. */
int systemd_open(bool user, struct systemd *ret, struct problem *p);
void systemd_done(struct systemd *systemd);
/* The problem of a failed call, whose result is r. */
int systemd_problem(int r, const sd_bus_error *e, const char *doing, struct problem *p);

/*
 * Units by a name or a pattern; without a suffix, ".service" is added. A name is looked up among all units, a
 * pattern among loaded units.
 */
int systemd_find_units(const struct systemd *systemd, const char *pattern, struct unit_list *ret,
                       struct problem *p);
void unit_list_done(struct unit_list *l);
/* The processes of the unit's control group and of those below it; the caller frees them. */
int systemd_unit_processes(const struct systemd *systemd, const char *unit, pid_t **ret, size_t *ret_n,
                           struct problem *p);
