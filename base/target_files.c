/* SPDX-License-Identifier: Apache-2.0 */
#include "base/target_files.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/util.h"
#include "base/yaml_json.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#define ERROR_MAX 300

static bool target_text_is_json(const char *name, const char *data, size_t size)
{
    if (ends_with(name, ".json"))
        return true;
    if (ends_with(name, ".yml") || ends_with(name, ".yaml"))
        return false;
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", data[i]))
        i++;
    return i < size && (data[i] == '[' || data[i] == '{');
}

int target_text_parse(const char *name, const char *data, size_t size, json_t **ret, char error[static 200])
{
    bool is_json = target_text_is_json(name, data, size);
    _cleanup_json_ list = is_json ? json_parse(data, size, error) : yaml_parse(data, size, error);

    /* The parsers' own words quote the text; who may name a file may not read it by that. */
    if (!list) {
        snprintf(error, 200, "it is not valid %s", is_json ? "JSON" : "YAML");
        return -EPROTO;
    }
    if (!json_is_array(list)) {
        snprintf(error, 200, "it is not a list of targets");
        return -EPROTO;
    }
    *ret = TAKE_PTR(list);
    return 0;
}

/* Follows links, as volumes of containers consist of them, and never waits for a FIFO. */
static int target_file_open(const char *path)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EINVAL;
}

/* Adds the entries of one file; n_bytes counts those of all. */
static int target_file_add(const char *path, size_t *n_bytes, json_t *all, char error[static ERROR_MAX])
{
    _cleanup_(freep) char *data = NULL;
    _cleanup_(closep) int fd = target_file_open(path);
    _cleanup_json_ list = NULL;
    char reason[200];
    size_t size = 0;

    int r = fd < 0 ? fd : read_fd(fd, TARGET_BYTES_MAX - *n_bytes, &data, &size);
    if (r < 0) {
        snprintf(error, ERROR_MAX, "%.200s: %s", path, r == -EINVAL ? "not a regular file" : strerror(-r));
        return r;
    }
    *n_bytes += size;
    r = target_text_parse(path, data, size, &list, reason);
    if (r < 0)
        snprintf(error, ERROR_MAX, "%.200s: %.80s", path, reason);
    else
        json_array_extend(all, list);
    return r;
}

static int target_files_add(const glob_t *files, json_t *all, char error[static ERROR_MAX])
{
    size_t n_bytes = 0;

    if (files->gl_pathc > TARGET_FILES_MAX) {
        snprintf(error, ERROR_MAX, "more than %d files match", TARGET_FILES_MAX);
        return -EFBIG;
    }
    for (size_t i = 0; i < files->gl_pathc; i++) {
        int r = target_file_add(files->gl_pathv[i], &n_bytes, all, error);
        if (r < 0)
            return r;
    }
    return 0;
}

int target_files_read(const char *path, json_t **ret, char error[static ERROR_MAX])
{
    _cleanup_json_ all = json_array();
    size_t n_bytes = 0;
    glob_t files;
    int r;

    if (!strpbrk(path, "*?[")) {
        r = target_file_add(path, &n_bytes, all, error);
    } else if (glob(path, 0, NULL, &files) != 0) {
        snprintf(error, ERROR_MAX, "%.200s: no file matches", path);
        r = -ENOENT;
    } else {
        r = target_files_add(&files, all, error);
        globfree(&files);
    }
    if (r == 0)
        *ret = TAKE_PTR(all);
    return r;
}
