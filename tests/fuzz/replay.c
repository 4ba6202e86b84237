/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over every file of the directories it is given, and over every prefix of the small ones.
 */
#include "base/alloc.h"
#include "base/fs.h"
#include <dirent.h>
#include <fcntl.h>

#define INPUT_MAX        (16 << 20)
#define PREFIX_INPUT_MAX 2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Exactly-sized copies, so that a read past the end is one that the sanitizer sees. */
static void run_copy(const char *data, size_t size)
{
    _cleanup_(freep) uint8_t *copy = xcalloc(size, 1);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
}

static int replay_directory(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int n = 0;

    if (!dir)
        return -1;
    while ((entry = readdir(dir))) {
        _cleanup_(freep) char *data = NULL;
        size_t size;
        if (entry->d_name[0] == '.' || read_file(dirfd(dir), entry->d_name, INPUT_MAX, &data, &size) < 0)
            continue;
        run_copy(data, size);
        for (size_t k = 0; k < size && size <= PREFIX_INPUT_MAX; k++)
            run_copy(data, k);
        n++;
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int n = replay_directory(argv[i]);
        printf("%s: %d inputs\n", argv[i], n);
        if (n <= 0)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
