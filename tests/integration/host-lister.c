/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the hosts of a list, as `scontrol show hostnames LIST` does, for a comparison with it. */
#include "base/host_list.h"

#define HOSTS_MAX 200000

int main(int argc, char **argv)
{
    struct host_list list = {0};
    const char *reason = "";

    if (argc != 2)
        return 2;
    int r = host_list_expand(argv[1], strlen(argv[1]), HOSTS_MAX, &list, &reason);
    for (size_t i = 0; i < list.n && r == 0; i++)
        puts(list.names[i]);
    host_list_done(&list);
    return r == 0 ? 0 : 1;
}
