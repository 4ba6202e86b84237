/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which engine a worker is, by what its answers prove: one table, one line for each piece of evidence.
 *
 * A line names something that only one engine has. What several engines have proves nothing and is in no line:
 * {"version": ...} of /version (vLLM, TensorRT-LLM), tp_size in /server_info (SGLang, ATOM). Where lines of two engines
 * hold, the worker is unknown: what gave both answers is none of them, but a proxy or a router in front of them.
 *
 * Pure: answers in, a line of the table out. The table borrows nothing and owns nothing.
 */
#pragma once

#include "daemon/fleet/engine.h"

enum evidence_form {
    EVIDENCE_OWNER = 1, /* /v1/models: owned_by of the first model is `what` */
    EVIDENCE_MEMBERS, /* an object with all members of `what` (separated by spaces), each of one of `types` */
    /* {"error": `what`, "message": which names the question's path}, whatever the status, from a server whose /metrics
     * has all of `bits` (enum engine_metrics) */
    EVIDENCE_ERROR,
    EVIDENCE_PATHS,    /* openapi.json has all of `bits` (enum engine_endpoint), and none of `but_not` */
    EVIDENCE_ANY_PATH, /* one of `bits` */
    EVIDENCE_METRICS,  /* /metrics has all of `bits` (enum engine_metrics), and none of `but_not` */
};

/* Bits for the types of JSON values. */
enum json_types {
    TYPE_OBJECT = 1 << JSON_OBJECT,
    TYPE_ARRAY = 1 << JSON_ARRAY,
    TYPE_STRING = 1 << JSON_STRING,
    TYPE_INTEGER = 1 << JSON_INTEGER,
};

/* A server that is known, and no engine that profd can profile: what it is, and what to do instead. */
struct evidence_other {
    const char *title, *remedy;
};

struct evidence {
    enum engine engine; /* ENGINE_UNKNOWN: of `other` */
    enum question question;
    enum evidence_form form;
    const char *what;
    unsigned types, bits, but_not;
    /* Each server of this engine answers this question too: where the answer to it is 404 or 405, the line proves
     * nothing. QUESTION_NONE: there is no such question. */
    enum question needs;
    const struct evidence_other *other;
};

struct evidence_result {
    const struct evidence *proof;         /* NULL: nothing is proven */
    const struct evidence *contradiction; /* of another engine than proof; NULL: none */
};

struct evidence_result evidence_judge(const struct answers *a);
/* What a line that holds was found in, for people: "owned_by \"vllm\" in /v1/models". The caller frees it. */
char *evidence_describe(const struct evidence *e);
/* What the answers contain that may help people to find out what this server is; the caller frees it. NULL: nothing. */
char *evidence_seen(const struct answers *a);

/* Lines of optional modules (extras/); the last has no form. */
extern const struct evidence extra_evidence[];
