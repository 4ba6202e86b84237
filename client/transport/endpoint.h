/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where profd is: what the options say, else $PROFD_SOCKET, else the system's profd, else (where no system
 * profd answers) the user's own, which is at the system's place for root outside of a Slurm job.
 */
#pragma once

#include "base/problem.h"

struct place {
    char *socket; /* path; NULL for TCP */
    char *url;    /* without a slash at its end; "http://localhost" with a socket */
};

int place_find(const char *socket, const char *host, struct place *ret, struct problem *p);
void place_done(struct place *p);
/* The errno value of connecting to a socket, 0 when it answers. */
int place_socket_error(const char *path);
/* Whether the environment says where files of this user belong. */
bool place_has_home(void);
