/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive in a directory that several hosts share: a key is a path below it.
 *
 * A file appears complete or not at all: it is written under a temporary name, synced, and renamed, and the directory is
 * synced. Temporary files are in .profd-tmp below the root; those that nobody wrote to for a week are removed. Symbolic links
 * below the root are not followed, so that who may write there leads no other host elsewhere. The SHA-256 of a file is
 * kept in an extended attribute where the file system has those.
 *
 * Everything blocks. Any thread may call it.
 */
#pragma once

#include "archive/archive.h"

struct archive_directory {
    char *path, *name; /* name: "file:///shared/dir" */
    int64_t rate;      /* bytes per second; 0: unlimited */
};

int archive_directory_perform(const struct archive_directory *d, const struct archive_request *q,
                              struct archive_result *ret);
