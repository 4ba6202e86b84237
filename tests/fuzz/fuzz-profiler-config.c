/* SPDX-License-Identifier: Apache-2.0 */
/* A command line, the byte 0xff, an environment, 0xff, a configuration file. */
#include "base/alloc.h"
#include "daemon/fleet/profiler_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cuts the next part off, as its own text with a NUL behind it. */
static char *take_part(const uint8_t **data, size_t *size, size_t *ret_size)
{
    const uint8_t *mark = memchr(*data, 0xff, *size);
    size_t n = mark ? (size_t)(mark - *data) : *size;
    char *part = xcalloc(n + 1, 1);
    memcpy(part, *data, n);
    *ret_size = n;
    *data += n + (mark != NULL);
    *size -= n + (mark != NULL);
    return part;
}

static void read_as(enum engine engine, const char *version, const struct worker_launch *launch)
{
    struct profiler_launch found;
    profiler_launch_read(engine, version, launch, &found);
    if (found.dir) {
        _cleanup_(freep) char *path =
            path_is_uri(found.dir) ? NULL : path_absolute(found.dir, "/srv", "/home");
        if (path && (path[0] != '/' || strstr(path, "/../") || strstr(path, "//")))
            abort();
    }
    profiler_launch_done(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct worker_launch launch = {0};
    if (size == 0)
        return 0;
    _cleanup_(freep) char *args = take_part(&data, &size, &launch.args.size);
    _cleanup_(freep) char *env = take_part(&data, &size, &launch.env.size);
    _cleanup_(freep) char *config = take_part(&data, &size, &launch.config_size);

    launch.args.data = args;
    launch.env.data = env;
    launch.config = launch.config_size ? config : NULL;
    read_as(ENGINE_VLLM, "0.15.1", &launch);
    read_as(ENGINE_VLLM, "0.19.1", &launch);
    read_as(ENGINE_SGLANG, NULL, &launch);
    read_as(ENGINE_RTP_LLM, NULL, &launch);
    read_as(ENGINE_TENSORRT_LLM, NULL, &launch);
    read_as(ENGINE_ATOM, NULL, &launch);
    read_as(ENGINE_TOKENSPEED, NULL, &launch);
    flag_value(&launch.args, "--config");
    return 0;
}
