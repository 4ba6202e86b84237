/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may call what. Reading: whoever the bus lets through, whose policy names group profd. What changes
 * something: root and profd's own user, and on the system's bus whoever polkit says. The bus and polkit are
 * asked by messages; until they answered the call waits. Nothing is looked up here: who is in a group is the
 * bus's and polkit's to know.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/api/bus_internal.h"
#include <errno.h>

/* polkit answers by its rules at once; a person takes longer to find the password. */
#define POLKIT_TIMEOUT_US   (10 * NS_PER_S / NS_PER_US)
#define PASSWORD_TIMEOUT_US (120 * NS_PER_S / NS_PER_US)

#define MANAGE              "org.profd1.manage"
#define ADMINISTER          "org.profd1.administer"
#define POLKIT_INTERACTIVE  1u

/* As the roles of tokens: who may start and stop may not remove by that. */
static const char *action_of(const struct bus_call *c)
{
    return c->route.route->right >= RIGHT_ADMIN ? ADMINISTER : MANAGE;
}

static void deny(struct bus_call *c, const char *why)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EPERM, PROBLEM_DENIED, "%s is not allowed: %s", c->method->name, why);
    if (c->bus->kind == BUS_KIND_SYSTEM)
        problem_remedy(&p, "Members of group profd may, and whom polkit grants %s.", action_of(c));
    bus_call_refuse(c, &p);
}

static void deny_by_error(struct bus_call *c, const char *who, const sd_bus_error *error)
{
    _cleanup_(freep) char *why =
        xasprintf("%s: %s", who, error->message && *error->message ? error->message : error->name);
    deny(c, why);
}

/* -- Bounds ------------------------------------------------------------------------------------------- */

/* Calls that wait for the bus or polkit; of one user, or of all. */
static unsigned count_asked(const struct bus *b, const uid_t *uid)
{
    const struct bus_call *c;
    unsigned n = 0;

    LIST_FOREACH(c, &b->calls, next) {
        n += c->question && (!uid || c->uid == *uid);
    }
    return n;
}

static void refuse_more(struct bus_call *c, unsigned n, const char *whose)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EBUSY, PROBLEM_TOO_MANY, "%u calls%s wait for permission", n, whose);
    problem_remedy(&p, "Wait for answers before you ask for more.");
    bus_call_refuse(c, &p);
}

/* -- polkit ------------------------------------------------------------------------------------------- */

static int on_authorized(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    const sd_bus_error *refusal = sd_bus_message_get_error(m);
    struct bus_call *c = arg;
    int is_authorized = false, is_challenge = false;

    c->question = sd_bus_slot_unref(c->question);
    if (refusal)
        deny_by_error(c, "polkit did not decide", refusal);
    else if (sd_bus_message_enter_container(m, 'r', "bba{ss}") < 0 ||
             sd_bus_message_read(m, "bb", &is_authorized, &is_challenge) < 0)
        deny(c, "polkit answered nonsense");
    else if (is_authorized)
        bus_call_run(c);
    else
        deny(c,
             is_challenge ? "polkit wants a password, and nobody could be asked for it" : "polkit says no");
    return 1;
}

static int ask_polkit(struct bus_call *c)
{
    bool interactive = sd_bus_message_get_allow_interactive_authorization(c->message) > 0;
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;

    int r = sd_bus_message_new_method_call(c->bus->connection, &m, "org.freedesktop.PolicyKit1",
                                           "/org/freedesktop/PolicyKit1/Authority",
                                           "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization");
    if (r >= 0)
        r = sd_bus_message_append(m, "(sa{sv})sa{ss}us", "system-bus-name", 1, "name", "s", c->caller->name,
                                  action_of(c), 0, interactive ? POLKIT_INTERACTIVE : 0, "");
    if (r < 0)
        return r;
    return sd_bus_call_async(c->bus->connection, &c->question, m, on_authorized, c,
                             interactive ? PASSWORD_TIMEOUT_US : POLKIT_TIMEOUT_US);
}

/* -- The caller's user -------------------------------------------------------------------------------- */

static int read_uid(sd_bus_message *m, uid_t *ret)
{
    const char *key;

    int r = sd_bus_message_enter_container(m, 'a', "{sv}");
    while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
        r = sd_bus_message_read(m, "s", &key);
        if (r >= 0 && streq(key, "UnixUserID"))
            return sd_bus_message_read(m, "v", "u", ret);
        if (r >= 0)
            r = sd_bus_message_skip(m, "v");
        if (r >= 0)
            r = sd_bus_message_exit_container(m);
    }
    return r < 0 ? r : -ENODATA;
}

static int on_credentials(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    const sd_bus_error *refusal = sd_bus_message_get_error(m);
    struct bus_call *c = arg;

    c->question = sd_bus_slot_unref(c->question);
    if (refusal)
        deny_by_error(c, "the bus does not know its caller", refusal);
    else if (read_uid(m, &c->uid) < 0)
        deny(c, "the bus does not say whose process asks");
    else if (c->uid == 0 || c->uid == geteuid())
        bus_call_run(c);
    else if (c->bus->kind != BUS_KIND_SYSTEM)
        deny(c, "this profd serves its own user");
    else if (count_asked(c->bus, &c->uid) >= BUS_USER_ASKED_MAX)
        refuse_more(c, BUS_USER_ASKED_MAX, " of your user");
    else if (ask_polkit(c) < 0)
        deny(c, "polkit cannot be asked");
    return 1;
}

void bus_call_check(struct bus_call *c)
{
    if (count_asked(c->bus, NULL) >= BUS_ASKED_MAX)
        refuse_more(c, BUS_ASKED_MAX, "");
    else if (sd_bus_call_method_async(c->bus->connection, &c->question, "org.freedesktop.DBus",
                                      "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                      "GetConnectionCredentials", on_credentials, c, "s",
                                      c->caller->name) < 0)
        deny(c, "the bus cannot be asked who calls");
}
