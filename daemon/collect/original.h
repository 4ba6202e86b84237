/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes a worker's file once its copy is safe, and no other file, whatever the worker puts under its name
 * or in the place of its directory meanwhile. Blocks: for the offload's threads.
 *
 * The directory is opened as it was when the file was copied (place.h), and the file is removed beneath it.
 * profd that is root does this by the rights of the file's owner: what they do not allow does not happen. The
 * file is first renamed to a name that nobody else uses, so that what is compared is what is removed; where
 * it turns out to be another file, it gets its name back.
 */
#pragma once

#include "daemon/collect/place.h"

struct original {
    char *dir_path, *name;
    struct place place; /* of the directory, when the file was opened */
    int64_t size, mtime_ns;
    dev_t device;
    ino_t inode;
    uid_t uid;
    gid_t gid;
    char *left_as; /* filled where another file, taken for this one, could not have its name back */
};

/* 0: it is gone. -ESTALE: its name is another file's, which stays. -ELOOP with *ret_refusal as of
 * place_open(). */
int original_remove(struct original *o, char **ret_refusal);
void original_free(struct original *o);
