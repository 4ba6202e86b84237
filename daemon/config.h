/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: defaults, then profd.conf, then the command line, each over the one before.
 *
 * Each module defines the struct of its own settings; the table of config_keys.c maps each key to its
 * field, with its section, parser, default and allowed values. profd.conf(5), etc/profd.conf and the error
 * messages follow that table. All errors of a file are reported, not only the first. Parsing is pure over
 * text; only config_load() opens a file.
 */
#pragma once

#include "daemon/api/settings.h"
#include "daemon/archive/settings.h"
#include "daemon/collect/collector.h"
#include "daemon/collect/store.h"
#include "daemon/fleet/fleet.h"
#include "daemon/fleet/network.h"
#include "daemon/kineto/settings.h"
#include "daemon/mirror/settings.h"
#include "daemon/peers/settings.h"
#include "daemon/report/pool.h"
#include "daemon/runs/runs.h"
#include "daemon/session/sessions.h"

#define CONFIG_FILE_MAX   (1 << 20)
#define CONFIG_ERRORS_MAX 50

struct config {
    char *state_dir;
    int log_level;
    int64_t children_max; /* of profd-ingest at a time */
    struct api_settings api;
    struct session_settings session;
    struct fleet_settings fleet;
    struct collect_settings collect;
    struct store_settings store;
    struct load_settings load;
    struct reports_settings reports;
    struct network_policy network;
    struct kineto_settings kineto;
    struct hosts_settings hosts;
    struct archiver_settings archive;
    struct mirror_settings mirror;
};

/* One line each, ready for people. */
struct config_errors {
    char **items;
    size_t n, cap;
};
void config_errors_done(struct config_errors *e);

/* Options of the command line; NULL: not given. Relative paths are of the working directory. */
struct config_overrides {
    const char *file, *state_dir, *socket, *listen, *log_level, *bus, *kineto_listen;
};

void config_init(struct config *c); /* every key at its default */
void config_done(struct config *c);

/* Reads the text of a file over the defaults; once for a config. -EINVAL where errors were added. */
int config_parse(struct config *c, const char *file_name, const char *data, size_t size,
                 struct config_errors *errors);

/*
 * All three steps, and the paths that depend on who runs profd: below /var/lib and /run for root, below the
 * XDG directories for others. ret_file is the file that was read, NULL where there was none.
 */
int config_load(const struct config_overrides *overrides, struct config *ret, char **ret_file,
                struct config_errors *errors);

struct config_key;
/* A key that only a restart changes, where both differ in it; NULL where they may be exchanged.
 */
const struct config_key *config_fixed_change(const struct config *a, const struct config *b);
/* Exchanges what may change while profd runs. What the modules borrow of `live` stays where it is; what
 * `next` holds afterwards is to be freed. */
void config_exchange(struct config *live, struct config *next);

/* For the documents and their test: "[section] key = default" and what is allowed, one line a key. */
void config_print_keys(FILE *out);
