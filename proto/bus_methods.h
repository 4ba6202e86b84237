/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What daemon and clients agree on of D-Bus: names, and which method is which operation. proto/org.profd1.xml
 * is the document. An operation is one of HTTP's (openapi.yaml): a method names its address, and its
 * arguments are that address's id, parameters and body.
 */
#pragma once

#include <stddef.h>

#define BUS_NAME         "org.profd1"
#define BUS_PATH         "/org/profd1"
#define BUS_SESSION_PATH BUS_PATH "/session"
#define BUS_MANAGER      BUS_NAME ".Manager"
#define BUS_SESSION      BUS_NAME ".Session"
#define BUS_ERROR_PREFIX BUS_NAME ".Error."

#define BUS_DICTIONARY   "a{sv}"
/* What methods answer. */
#define BUS_ANSWER  BUS_DICTIONARY     /* the answer's members */
#define BUS_STARTED "o" BUS_DICTIONARY /* a session's object, and the same */
#define BUS_TAKEN   "b" BUS_DICTIONARY /* whether the trace is new to the catalog, and the same */
#define BUS_FILE    "hst"              /* a descriptor to read from, the file's name and size */

struct bus_method {
    const char *interface, *name;
    /* Signatures. In: s is the {id} of the address, a{sv} its query's parameters (GET) or its body. */
    const char *in, *out;
    const char *names; /* of the arguments, in and then out, each followed by a NUL */
    const char *http_method, *pattern;
};

const struct bus_method *bus_method_at(size_t i); /* NULL after the last */
const struct bus_method *bus_method_find(const char *interface, const char *name);

/* Room for "BadRequest". */
#define BUS_ERROR_WORD_MAX 32
/* Problems and errors: "bad-request" and "BadRequest", into ret. */
void bus_error_of_code(const char *code, char ret[static BUS_ERROR_WORD_MAX]);
void bus_code_of_error(const char *word, char ret[static BUS_ERROR_WORD_MAX]);
