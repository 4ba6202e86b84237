/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of what a host thread does, derived from the names of its calls, operators, annotations and Python
 * frames. A class shows where the time goes; rules decide whether that is a finding.
 */
#pragma once

#include "trace/columns/columns.h"
#include "trace/reports/host.h"

/* H(identifier, name in sentences) */
#define HOST_CLASSES(H)                                                                                      \
    H(NOTHING, "no recorded call")                                                                           \
    H(QUEUED, "queued GPU events")                                                                           \
    H(ALLOCATION, "memory allocation")                                                                       \
    H(SYNC, "synchronisation")                                                                               \
    H(COPY, "copy calls")                                                                                    \
    H(LAUNCH, "launch calls")                                                                                \
    H(RUNTIME, "other runtime calls")                                                                        \
    H(COMPILE, "compilation")                                                                                \
    H(TOKENIZER, "tokenizer")                                                                                \
    H(SCHEDULER, "scheduler")                                                                                \
    H(DATA, "data loader")                                                                                   \
    H(COLLECTOR, "garbage collection")                                                                       \
    H(IO, "I/O")                                                                                             \
    H(OPERATOR, "operators")                                                                                 \
    H(PYTHON, "Python")                                                                                      \
    H(ANNOTATION, "annotated code")                                                                          \
    H(OTHER, "other recorded events")

enum host_class {
#define H(identifier, name) HOST_CLASS_##identifier,
    HOST_CLASSES(H)
#undef H
        _HOST_CLASS_MAX,
};

const char *host_class_name(enum host_class class);

/* Answers for the slices of one trace; the class of a name is computed once for each name. */
struct host_classes {
    const struct columns *c;
    const struct slice_table *slices;
    uint8_t *known;     /* of each text, + 1 */
    uint8_t *runtime;   /* the same of calls of the GPU's runtime */
    uint8_t *inherited; /* of each slice: the class that it or what it lies in has, + 1; 0: not known yet */
    uint32_t n;
};

/* -ENOMEM. */
int host_classes_new(const struct columns *c, const struct slice_table *slices, struct host_classes *ret);
void host_classes_done(struct host_classes *h);
/* The class of the self time of the slice on the host: by its own name if it is a call of the GPU's runtime
 * that allocates, waits or copies, else by the innermost frame around it whose name has a class, else by the
 * kind of the event. */
enum host_class host_classes_of(struct host_classes *h, uint64_t slice);
