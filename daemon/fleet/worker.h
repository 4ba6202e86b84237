/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of one worker, and of a fleet of them: plain data, filled by discovery, read by everyone
 * after it.
 *
 * A fleet owns its workers and every string in them. Secrets never get in here.
 */
#pragma once

#include "base/json.h"
#include "proto/names.h"
#include <stdatomic.h>
#include <sys/types.h>

/* Sizes of the parallel groups; 0 where unknown. */
struct parallel {
    int tp, pp, dp, ep, nodes;
    /* Of a worker over several nodes: how many ranks are recorded as its own, where that is not all of them, and the number
     * of the first. */
    int ranks, first_rank;
};

/* How the worker's profiler was set at its launch, where that can be known; -1 is unknown. */
struct profiler_setup {
    char *kind;       /* "torch", "cuda", "proton", "none"; NULL unknown */
    char *activities; /* "CPU,CUDA", where its launch names them; NULL: it does not, or unknown */
    int64_t with_stack, record_shapes, use_gzip, ignore_frontend; /* 0 or 1 */
    int64_t each_request; /* 0 or 1: it records every request, unasked (RTP-LLM) */
    int64_t own_windows;  /* 0 or 1: it records iterations that its launch names (TensorRT-LLM) */
    int64_t delay_iterations, max_iterations, wait_iterations, warmup_iterations, active_iterations;
};

/* A directory that other hosts may mount as well (shared_fs.h); texts are NULL where it is on a disk of its host, or not
 * known. */
struct shared_dir {
    char *source; /* of the mount: "filer:", "JuiceFS:data" */
    char *fstype; /* "NFS" */
    char *root;   /* the directory, as the source has it: "/export/traces" */
};

/* Where its traces appear. */
struct trace_location {
    char *dir;       /* as the worker names it; NULL unknown */
    char *local_dir; /* as profd can open it; NULL: not on this host, or not readable */
    char *found_by;  /* "/server_info", "--profiler-config of process 4711", "profd.conf", ... */
    char *note;      /* why local_dir is NULL, or what else to know of it */
    char *remedy;    /* the line to add */
    char *temp_dir;  /* the worker's $TMPDIR as profd can see it; NULL unknown */
    /* Something on this host, named by the note, keeps traces from being written or collected. */
    bool blocked_here;
};

/* A process that registered for Kineto's on-demand recording (engine pytorch); numbers are -1 where unknown. */
struct worker_process {
    char *command, *unit;
    char *gpus;       /* CUDA_VISIBLE_DEVICES */
    char *trace_root; /* below which Kineto may write, as the process names it; NULL unknown */
    char *transport;  /* "abstract", or the directory of the socket */
    int64_t start_ticks, inner_pid;
    int64_t slurm_job, rank, local_rank, world_size;
    int64_t registered_at; /* wall ns */
    int64_t recording;     /* 0 or 1: its profiler is active */
};

struct worker {
    /* normalised: scheme://host:port, no trailing slash, no @rank; of a process kineto://PID.TICKS */
    char *url;
    char *listed_url; /* as the router lists it, where that differs */
    /* As the source of the fleet knows it, NULL where that has none: what no other worker ever has, not even a later one
     * at the same address (a pod's uid); a name for people; the node that it runs on. */
    char *identity, *name, *node;
    char *hint;       /* what a label says of its engine: "model.aibrix.ai/engine=vllm"; never proof; NULL */
    bool terminating; /* while a source is read: it is about to end, and will be left out */
    enum role role;
    enum health health;
    char *model;
    int64_t load;     /* requests, as the router counts; -1 unknown */
    char *connection; /* "http", "grpc", ... */
    enum engine engine;
    enum engine backend; /* what a Dynamo worker runs, where that is known; ENGINE_UNKNOWN for all others */
    char *version;
    struct parallel sizes;
    char *group; /* where the workers of its multi-node or data-parallel group meet: "10.0.0.1:5000"; NULL */
    bool speculative; /* speculative decoding is on (SGLang) */
    int64_t sleeping; /* 1 asleep, 0 awake, -1 unknown */
    bool profilable;
    char *reason; /* why not, one line */
    char *remedy; /* what to do, may have several lines */
    char *note;   /* shown even if profilable: a rewritten loopback URL, ... */
    struct profiler_setup setup;
    struct trace_location location;
    struct shared_dir shared; /* of location.local_dir */
    /* 1: workers of other hosts that its session records write there as well; -1 unknown */
    int64_t shares_dir;
    /* "gpu2, gpu3": hosts that report the directory as theirs as well, so that what their workers, or ranks of this one, write
     * is looked for there; NULL: none. Of a target of a session. */
    char *shares_with;
    struct worker_process process;
    char
        *ranks_of; /* of ranks without a server (process_ranks.h): the URL of their server; NULL: it is one */
    char *same_as; /* of a process: the worker of the fleet that it, its parent or its child is; NULL none */
    bool local;    /* its process runs on this host */
    pid_t pid;     /* of the process that listens on its port; 0 unknown */
    uid_t uid;     /* that process's user, where pid is known */
    /* Its host, where peers are configured; NULL: not known to run a profd. host_uuid is the UUID of the catalog there,
     * peer the name of that peer (NULL: this profd). location.local_dir is a path on that host. */
    char *host, *host_uuid, *peer;
    char *held_by;      /* "session UUID of HOST" that records it; NULL: nobody, or unknown */
    int64_t latency_ns; /* of the quickest call; 0 unknown */
    bool clock_known;
    int64_t clock_offset_ns; /* worker's clock minus ours, to the second or so (Date header) */
};

/* What the doctor makes of a note; everywhere else all are shown alike. */
enum fleet_note_kind {
    NOTE_REMARK,  /* nothing is wrong */
    NOTE_WARNING, /* something failed, or is left out for an error */
    NOTE_HOST,    /* a host failed, which the check of hosts reports with its remedy */
};

struct fleet_note {
    enum fleet_note_kind kind;
    char *text;
};

struct fleet {
    char *name;    /* of profd.conf's section, NULL */
    char *router;  /* URL, NULL for a static list */
    char *dialect; /* "vllm-router", ..., "static", or the key of a source: "targets" */
    int64_t latency_ns;
    struct worker *workers;
    size_t n_workers, cap_workers;
    struct fleet_note *notes; /* shown to the user: what was rewritten, merged, ignored */
    size_t n_notes, cap_notes;
    /* While a thread looks at processes: the number of the worker that it is at, 0 before the first. */
    atomic_size_t looking_at;
};

struct worker *fleet_add_worker(struct fleet *f); /* zeroed but for unknown marks; valid until the next add */
void fleet_add_note(struct fleet *f, const char *format, ...) _printf_(2, 3); /* a remark */
void fleet_add_note_of(struct fleet *f, enum fleet_note_kind kind, const char *format, ...) _printf_(3, 4);
void worker_init(struct worker *w); /* zero, with the unknown marks */
void worker_done(struct worker *w);
/* Appends to the notes of the worker, unless they already contain the text. */
void worker_add_note(struct worker *w, const char *format, ...) _printf_(2, 3);
struct fleet *fleet_free(struct fleet *f);
DEFINE_CLEANUP(struct fleet *, fleet_free)

/* Notes where its group meets. A loopback address names a place on every host, and so no group. */
void worker_join_group(struct worker *w, const char *address);
/* Whose profiler it has: of a Dynamo worker the engine in it. */
enum engine worker_profiler(const struct worker *w);
/* How many rank traces one recording of this worker should give: tp * pp * dp, at least 1. */
unsigned worker_ranks_expected(const struct worker *w);

/* Whether the trace files of a recording can be collected. */
enum worker_collection {
    COLLECTION_POSSIBLE,
    COLLECTION_NOT_NEEDED,        /* the profiler writes no trace file for profd */
    COLLECTION_BLOCKED_HERE,      /* something on this host prevents it */
    COLLECTION_BLOCKED_ELSEWHERE, /* the files are on another host or in an object store */
};
/* Sets *ret_reason and *ret_remedy where the result is one of the two BLOCKED ones; both borrow from the
 * worker or are static. */
enum worker_collection worker_collection(const struct worker *w, const char **ret_reason,
                                         const char **ret_remedy);
/*
 * The text with what only this worker has (its URL, address, port, process id and, with_dir, directory)
 * replaced by URL, HOST:PORT, PORT, PID and DIR, so that the same trouble of many workers can be recognised.
 * NULL for NULL; the caller frees it.
 */
char *worker_generic_text(const struct worker *w, const char *text, bool with_dir);

/*
 * The path with the worker's name for each "{name}" in it; NULL where there is one, and the worker has no name that can be
 * part of a path. The caller frees it.
 */
char *worker_fill_path(const struct worker *w, const char *path);

/* As in openapi.yaml, schemas Worker and Fleet. worker_from_json() reads what worker_to_json() wrote, for
 * recovery. */
json_t *worker_to_json(const struct worker *w);
int worker_from_json(const json_t *j, struct worker *ret);
json_t *fleet_to_json(const struct fleet *f);
