/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C names of what daemon, clients and catalog agree on: states, engines, roles. Words are what
 * catalog.sql stores and openapi.yaml documents. No logic: enums, their words, and ids as people write them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* State of a session and of each target. Order is the order of life; everything from STATE_COMPLETE on is
 * final. */
enum state {
    STATE_REQUESTED,
    STATE_STARTING,
    STATE_RECORDING,
    STATE_STOPPING,
    STATE_COLLECTING,
    STATE_COMPLETE,
    STATE_PARTIAL,
    STATE_FAILED,
    STATE_CANCELLED,
    _STATE_MAX,
};

/* State of a run of a workload, in the order of life; everything from RUN_COMPLETE on is final. */
enum run_state {
    RUN_REQUESTED,
    RUN_WARMING,  /* until the first request that counts, also while profilers are started */
    RUN_LOADING,  /* requests are sent */
    RUN_DRAINING, /* requests in flight may end */
    RUN_COMPLETE,
    RUN_PARTIAL, /* some requests failed, or it was cut */
    RUN_FAILED,
    RUN_CANCELLED,
    _RUN_STATE_MAX,
};

enum engine {
    ENGINE_UNKNOWN,
    ENGINE_VLLM,
    ENGINE_SGLANG,
    ENGINE_RTP_LLM,
    ENGINE_DYNAMO,
    ENGINE_TENSORRT_LLM,
    ENGINE_ATOM,
    ENGINE_TOKENSPEED,
    ENGINE_PYTORCH, /* any process with PyTorch, by Kineto's on-demand protocol */
    ENGINE_EXTRA,   /* the first engine of optional modules (extras/) */
    _ENGINE_MAX = ENGINE_EXTRA + 4,
};
/* Names of ENGINE_EXTRA and the engines after it; NULL at the end. */
extern const char *const extra_engine_names[_ENGINE_MAX - ENGINE_EXTRA + 1];

enum role {
    ROLE_UNKNOWN,
    ROLE_REGULAR,
    ROLE_PREFILL,
    ROLE_DECODE,
    ROLE_ENCODE,
    _ROLE_MAX,
};

enum health {
    HEALTH_UNKNOWN,
    HEALTH_HEALTHY,
    HEALTH_UNHEALTHY,
    _HEALTH_MAX,
};

/* The state of a trace's file in the catalog. */
enum trace_state {
    TRACE_COMPLETE,
    TRACE_TRUNCATED,  /* readable up to a point; the reason has the offset */
    TRACE_EMPTY,      /* 0 bytes */
    TRACE_CORRUPT,    /* checksum wrong, not JSON, ... */
    TRACE_UNREADABLE, /* could not be opened, or the child that read it died */
    TRACE_DUPLICATE,  /* same bytes as another trace of the session */
    TRACE_MISSING,    /* the catalog knows it, its file is gone */
    _TRACE_STATE_MAX,
};

enum trace_kind {
    TRACE_KIND_TRACE,
    TRACE_KIND_FRONTEND,
    TRACE_KIND_ATTACHMENT,
    _TRACE_KIND_MAX,
};

/* What somebody may do; right_includes() compares them. */
enum right {
    RIGHT_NONE,    /* what everybody may who can connect */
    RIGHT_READ,    /* the catalog */
    RIGHT_OPERATE, /* start and stop profilers, import files */
    RIGHT_ADMIN,   /* remove what is kept */
    RIGHT_PEER,    /* what the profd of another host needs: outside of the order of the others */
    _RIGHT_MAX,
};

/* A token is this and 64 hexadecimal digits; profd knows only its SHA-256. */
#define TOKEN_PREFIX       "profd_"
#define TOKEN_RANDOM_BYTES 32

/* A client of the Unix socket that passes on what others sent to it names itself in this header: such a request is treated as
 * one over TCP, and has the rights of its token instead of those of the socket. */
#define RELAY_HEADER "Profd-Relay"

const char *state_name(enum state s);
const char *run_state_name(enum run_state s);
const char *engine_name(enum engine e); /* NULL: no engine of this build */
const char *role_name(enum role r);
const char *health_name(enum health h);
const char *trace_state_name(enum trace_state s);
const char *trace_kind_name(enum trace_kind k);
const char *right_name(enum right r);

/* Whether a role has a right. From none to admin each includes those before it. A peer may read in addition to what only
 * peers may, and no other role is a peer. */
static inline bool right_includes(enum right have, enum right need)
{
    if (have == RIGHT_PEER || need == RIGHT_PEER)
        return have == need || need == RIGHT_NONE || (have == RIGHT_PEER && need == RIGHT_READ);
    return have >= need;
}

/* The value of a word, or -1 where it is none. */
int state_from_name(const char *word);
int run_state_from_name(const char *word);
int engine_from_name(const char *word);
int role_from_name(const char *word);
int health_from_name(const char *word);
int trace_state_from_name(const char *word);
int trace_kind_from_name(const char *word);
int right_from_name(const char *word);

static inline bool state_is_final(enum state s)
{
    return s >= STATE_COMPLETE;
}

/*
 * "s7", "t12", "r3", or a bare number which is of the verb's own kind. Returns the kind's letter, 0 where the
 * text is no id.
 */
char parse_ref(const char *text, char own_kind, int64_t *ret_id);

/* Exit status of profctl. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_PARTIAL = 3,
    EXIT_NOT_FOUND = 4,
    EXIT_CONDITION = 5, /* a condition that was asked to fail */
    EXIT_UNDECIDED = 6, /* samples are too small to decide on a condition */
};

#define PERFETTO_ORIGIN "https://ui.perfetto.dev"
