/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two groups of benchmark runs, each of one or several: the change of each figure, and whether it is larger than the
 * difference between repeated runs. Pure.
 *
 * Several runs of a group are the units of the sample. A single run is one unit, whatever the number of its
 * requests: its figures are taken to drift from run to run as they do from block to block within it, with
 * COMPARE_RUN_VARIANCE times the variance.
 */
#pragma once

#include "base/estimate.h"
#include "base/json.h"

/* Blocks of neighbouring requests that a single run is divided into, and the requests that these need. */
#define COMPARE_BLOCKS       10
#define COMPARE_REQUESTS_MIN 20
/* The ratio of the variance between runs to that between blocks of one run: slow drift adds to the former only. */
#define COMPARE_RUN_VARIANCE 2.0

struct compared_side {
    json_t *runs;     /* a list of runs as profd gives them */
    json_t *requests; /* the rows of the only run's requests; NULL: unknown, or several runs */
};

enum compared_result {
    COMPARED_HIGHER,
    COMPARED_LOWER,
    COMPARED_UNCLEAR,    /* the interval includes no difference */
    COMPARED_TOO_FEW,    /* too few runs or requests */
    COMPARED_NOT_TESTED, /* the variation of the figure is unknown */
};

struct compared_figure {
    const char *group;  /* "latency", "throughput", "requests" */
    const char *metric; /* "ttft_ms" */
    const char *figure; /* "mean", "p50", ...; NULL: the metric has only one */
    struct estimate a, b;
    size_t n_a, n_b;     /* requests of single runs, else runs */
    size_t requests_min; /* that a run needs for this figure; 0: there are enough */
    enum compared_result result;
    struct contrast difference;
    size_t runs_needed; /* of each side, to show a difference of this size; 0: unknown or very many */
};

struct runs_comparison {
    struct compared_figure *figures;
    size_t n;
    json_t *workload; /* [{member, a, b}] */
    json_t *a, *b;    /* lists of the runs' numbers */
    bool has_several; /* a side has several runs, which are the units then */
};

void runs_compare(const struct compared_side *a, const struct compared_side *b, struct runs_comparison *ret);
void runs_comparison_done(struct runs_comparison *c);

/* A figure by its name in --fail-if: "ttft.p99", "output_tokens_per_s". NULL: unknown. */
const struct compared_figure *runs_comparison_find(const struct runs_comparison *c, const char *name);

/*
 * {a, b: [numbers], unit: "run" or "request", workload, requests, throughput, latency}. requests and
 * throughput are lists of {metric, a, b, n_a, n_b, difference, percent, ci95, percent_ci95, result,
 * runs_needed} latency is a list of {metric, result, figures: [the same with figure instead of metric]}; its
 * result is that of the mean: "slower", "faster", "not distinguishable", "too few samples". Figures that
 * neither sample supports are absent.
 */
json_t *runs_comparison_json(const struct runs_comparison *c);
const char *compared_result_name(const struct compared_figure *f);
