/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of profd.conf: one table of sections, one of keys, and how a value becomes a field. Knows no
 * files and no lines; config.c reads those.
 */
#pragma once

#include "daemon/config.h"

enum config_section {
    SECTION_PROFD,
    SECTION_TIMEOUTS,
    SECTION_LIMITS,
    SECTION_COLLECT,
    SECTION_STORE,
    SECTION_LOAD,
    SECTION_HTTP,
    SECTION_WEB,
    SECTION_NETWORK,
    SECTION_KINETO,
    SECTION_HOSTS,
    SECTION_PEER, /* [peer NAME] */
    SECTION_ARCHIVE,
    SECTION_MIRROR,
    SECTION_FLEET,  /* [fleet NAME] */
    SECTION_WORKER, /* [worker URL] */
    _SECTION_MAX,
};

struct config_key {
    enum config_section section;
    const char *name;
    /* object is the struct config, peer_config, fleet_config or worker_config of the section. -EINVAL for a wrong value,
     * where *ret_reason may be more specific than `allowed`; the caller frees it. */
    int (*parse)(const struct config_key *key, const char *value, void *object, char **ret_reason);
    size_t offset, width;     /* of the field */
    int64_t min, max;         /* of numbers and durations */
    const char *const *words; /* of a choice: the index is the value */
    const char *initial;      /* NULL: not set by default */
    const char *allowed;      /* follows "must be" */
    bool fixed;               /* a text that only a restart changes */
};

struct config_section_word {
    const char *name;  /* "timeouts"; of a section with a name of its own, the word before it */
    const char *shown; /* as people write its heading */
    bool named;
};
extern const struct config_section_word config_sections[_SECTION_MAX];
extern const struct config_key config_keys[];
extern const size_t n_config_keys;

/* NULL where the section has no such key. */
const struct config_key *config_key_find(enum config_section s, const char *name);

/* The object that a section's keys are fields of; made where it is not there yet. The pointer is valid until
 * the next call. NULL with the reason where the name is wrong. */
void *config_section_object(struct config *c, enum config_section s, const char *name, char **ret_reason);
