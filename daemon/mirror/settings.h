/* SPDX-License-Identifier: Apache-2.0 */
/* [mirror] of profd.conf. Borrowed from the configuration; a reload exchanges the values. */
#pragma once

#include <stdint.h>

struct mirror_settings {
    char *url;          /* of PostgreSQL, for fleet_writer; NULL: there is no mirror */
    char *reader;       /* for clients that query it; without a password; NULL */
    char *passfile;     /* of libpq; NULL: ~/.pgpass */
    int64_t batch_max;  /* rows sent at a time */
    int64_t timeout_ns; /* of a batch */
};
