/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of kineto-client, a double of the client's side of Kineto's on-demand protocol: options, the
 * configuration text, the messages, and the profiler.
 *
 * All of it follows pytorch/kineto @114171dfba68 (2026-08-20), below libkineto/; each file names the source that it
 * follows. What older releases did differently is in struct kineto_release.
 */
#pragma once

#include "base/clock.h"
#include "base/util.h"
#include <sys/types.h>

/* What differs between the releases of libkineto that people run. */
struct kineto_release {
    const char *name;
    int looks;       /* for an answer, 10 ms apart */
    bool events_bit; /* the type's bit 1 is set always */
    bool restricts;  /* a configuration names files below the allowed directory only */
    const char *help;
};

enum client_end { END_NEVER, END_FETCHED, END_WARMUP, END_RECORDING, END_WRITING };

struct client_options {
    const struct kineto_release *release;
    int64_t interval_ns, tick_ns, flush_ns, delay_ns, life_ns;
    int pid; /* as the process itself sees it */
    enum client_end end;
    bool writes_nothing;
};

/* One line of text on standard output, flushed: what tests wait for. */
void client_log(const char *format, ...) _printf_(1, 2);
/* Ends the process at once where the options say so. */
void client_reach(const struct client_options *o, enum client_end at);

/* kineto-config.c: src/Config.cpp, src/AbstractConfig.cpp. */
struct client_config {
    char *log_file;   /* where the trace goes, as it will be named; owned */
    char *trace_id;   /* owned; NULL: none */
    int64_t start_ms; /* since the epoch; 0: none */
    int64_t duration_ms, warmup_ms;
    int64_t start_iteration, iterations;
    bool enabled;
    bool has_types; /* some activities are recorded */
    bool with_stack, with_shapes;
};
/* False for a text that does not parse to its end: what was read until then is in ret all the same. */
bool client_config_parse(const char *text, size_t size, const struct client_options *o,
                         struct client_config *ret);
void client_config_done(struct client_config *c);

/* kineto-fabric.c: src/IpcFabricConfigClient.cpp and dynolog's FabricManager.h and Endpoint.h. */
struct fabric;
struct fabric *fabric_new(void);
/*
 * Polls once: sends a "req" and looks for an answer, which the caller frees. NULL: none in time. An answer that comes
 * later stays queued, and is the answer to the next poll.
 */
char *fabric_poll(struct fabric *f, int type, const struct client_options *o, size_t *ret_size);

/* kineto-profiler.c: src/AsyncActivityProfilerHandler.cpp, with a thread of its own. */
struct client_profiler;
struct client_profiler *profiler_new(const struct client_options *o);
/* Whether it takes a configuration: the type's bit 2. */
bool profiler_can_accept(struct client_profiler *p);
/* Takes the configuration over, or drops it. */
void profiler_accept(struct client_profiler *p, struct client_config *config);
/* A profiler that is started or stopped inside the process, as by torch.profiler: it cancels what is recorded. */
void profiler_set_local(struct client_profiler *p, bool active);
