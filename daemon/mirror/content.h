/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a catalog of another host has a trace with a certain content, as the mirror knows it: before an object of the
 * archive that all hosts share is deleted. One connection and one question, next to the sender's.
 */
#pragma once

#include "base/problem.h"

struct content_question;
struct mirror_settings;
struct name_resolver;
struct pq_connector;

/* done() runs later, once: with the host that has it, "" where none has; or with a problem. Borrows everything. NULL: the
 * question cannot be asked. */
struct content_question *content_ask(struct pq_connector *connector, struct name_resolver *names,
                                     const struct mirror_settings *settings, const char *catalog_uuid,
                                     const char *sha256,
                                     void (*done)(const char *host, const struct problem *p, void *arg),
                                     void *arg);
/* Without done(). */
void content_cancel(struct content_question *q);
