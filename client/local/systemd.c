/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/systemd.h"

#include "base/alloc.h"
#include <errno.h>

#define CALL_TIMEOUT_US (10 * 1000000ull)
#define UNITS_MAX       10000

static const char *const unit_kinds[] = {".service", ".scope",     ".slice", ".socket", ".target", ".mount",
                                         ".swap",    ".automount", ".timer", ".path",   ".device"};

static int systemd_no_bus(bool user, int r, struct problem *p)
{
    problem_set(p, r, PROBLEM_UPSTREAM, "cannot reach systemd on the %s bus: %s", user ? "user's" : "system",
                strerror(-r));
    if (user)
        problem_remedy(p,
                       "Log in, or enable lingering (loginctl enable-linger), and set XDG_RUNTIME_DIR to the "
                       "directory of the user's bus.");
    else
        problem_remedy(p, "Units need systemd, and do not work in containers. Name workers by --worker URL "
                          "instead.");
    return r;
}

int systemd_open(bool user, struct systemd *ret, struct problem *p)
{
    sd_bus *bus = NULL;
    int r = user ? sd_bus_open_user(&bus) : sd_bus_open_system(&bus);

    if (r < 0)
        return systemd_no_bus(user, r, p);
    sd_bus_set_method_call_timeout(bus, CALL_TIMEOUT_US);
    *ret = (struct systemd){.bus = bus, .is_user = user};
    return 0;
}

void systemd_done(struct systemd *systemd)
{
    sd_bus_flush_close_unref(systemd->bus);
    systemd->bus = NULL;
}

int systemd_problem(int r, const sd_bus_error *e, const char *doing, struct problem *p)
{
    const char *why = e && e->message ? e->message : strerror(-r);

    if (sd_bus_error_has_names(e, SD_BUS_ERROR_SERVICE_UNKNOWN, SD_BUS_ERROR_NAME_HAS_NO_OWNER)) {
        problem_remedy(p, "Units need systemd. Name workers by --worker URL instead.");
        return problem_set(p, -ENOENT, PROBLEM_UPSTREAM, "cannot %s: systemd is not on the bus", doing);
    }
    if (sd_bus_error_has_names(e, SD_BUS_ERROR_ACCESS_DENIED,
                               SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED)) {
        problem_remedy(
            p, "This needs your rights in systemd: run profctl as root, or use --user for your own units.");
        return problem_set(p, -EACCES, PROBLEM_DENIED, "cannot %s: %s", doing, why);
    }
    return problem_set(p, r, PROBLEM_UPSTREAM, "cannot %s: %s", doing, why);
}

static int systemd_read_units(sd_bus_message *m, struct unit_list *ret)
{
    const char *name, *load, *active, *path;
    int r = sd_bus_message_enter_container(m, 'a', "(ssssssouso)");

    while (r >= 0 && (r = sd_bus_message_read(m, "(ssssssouso)", &name, NULL, &load, &active, NULL, NULL,
                                              &path, NULL, NULL, NULL)) > 0) {
        if (ret->n == UNITS_MAX)
            return -E2BIG;
        VEC_GROW(ret->items, ret->n, ret->cap);
        ret->items[ret->n++] = (struct unit){xstrdup(name), xstrdup(load), xstrdup(active), xstrdup(path)};
    }
    return r;
}

static int systemd_list_units(const struct systemd *systemd, const char *pattern, struct unit_list *ret,
                              struct problem *p)
{
    _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *call = NULL, *reply = NULL;
    const char *const patterns[] = {pattern, NULL};
    int r = sd_bus_message_new_method_call(systemd->bus, &call, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE,
                                           "ListUnitsByPatterns");

    if (r >= 0)
        r = sd_bus_message_append_strv(call, NULL);
    if (r >= 0)
        r = sd_bus_message_append_strv(call, (char **)patterns);
    if (r >= 0)
        r = sd_bus_call(systemd->bus, call, 0, &e, &reply);
    if (r >= 0)
        r = systemd_read_units(reply, ret);
    return r < 0 ? systemd_problem(r, &e, "list units", p) : 0;
}

/* Loads the unit if necessary, to distinguish one that is not running from one that does not exist. */
static int systemd_load_unit(const struct systemd *systemd, const char *name, struct unit_list *ret,
                             struct problem *p)
{
    _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    _cleanup_(freep) char *load = NULL, *active = NULL, *doing = xasprintf("look up unit %s", name);
    const char *path = NULL;
    int r = sd_bus_call_method(systemd->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE, "LoadUnit", &e,
                               &reply, "s", name);

    if (r >= 0)
        r = sd_bus_message_read(reply, "o", &path);
    if (r >= 0)
        r = sd_bus_get_property_string(systemd->bus, SYSTEMD_NAME, path, UNIT_INTERFACE, "LoadState", &e,
                                       &load);
    if (r >= 0)
        r = sd_bus_get_property_string(systemd->bus, SYSTEMD_NAME, path, UNIT_INTERFACE, "ActiveState", &e,
                                       &active);
    if (r < 0)
        return systemd_problem(r, &e, doing, p);
    VEC_GROW(ret->items, ret->n, ret->cap);
    ret->items[ret->n++] = (struct unit){xstrdup(name), TAKE_PTR(load), TAKE_PTR(active), xstrdup(path)};
    return 0;
}

int systemd_find_units(const struct systemd *systemd, const char *pattern, struct unit_list *ret,
                       struct problem *p)
{
    bool has_kind = false;

    for (size_t i = 0; i < ARRAY_SIZE(unit_kinds); i++)
        has_kind |= ends_with(pattern, unit_kinds[i]);
    _cleanup_(freep) char *name = xasprintf("%s%s", pattern, has_kind ? "" : ".service");
    return strpbrk(name, "*?[") ? systemd_list_units(systemd, name, ret, p)
                                : systemd_load_unit(systemd, name, ret, p);
}

void unit_list_done(struct unit_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->items[i].name);
        free(l->items[i].load);
        free(l->items[i].active);
        free(l->items[i].path);
    }
    free(l->items);
    *l = (struct unit_list){0};
}

int systemd_unit_processes(const struct systemd *systemd, const char *unit, pid_t **ret, size_t *ret_n,
                           struct problem *p)
{
    _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    _cleanup_(freep) char *doing = xasprintf("list the processes of %s", unit);
    _cleanup_(freep) pid_t *pids = NULL;
    size_t n = 0, cap = 0;
    uint32_t pid;
    int r = sd_bus_call_method(systemd->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE,
                               "GetUnitProcesses", &e, &reply, "s", unit);

    if (r >= 0)
        r = sd_bus_message_enter_container(reply, 'a', "(sus)");
    while (r >= 0 && (r = sd_bus_message_read(reply, "(sus)", NULL, &pid, NULL)) > 0) {
        VEC_GROW(pids, n, cap);
        pids[n++] = (pid_t)pid;
    }
    if (r < 0)
        return systemd_problem(r, &e, doing, p);
    *ret = TAKE_PTR(pids);
    *ret_n = n;
    return 0;
}
