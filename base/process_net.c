/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process_net.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/process_info.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <sys/stat.h>

#define PROC_PATH_MAX       64
#define TABLE_PIECE         (64 << 10)
#define ADDRESS_TABLE_MAX   (4 << 20)
#define TCP_STATE_LISTEN    0x0a
#define TCP_STATE_SYN_RECV  0x03 /* old kernels list these among the listening ones */
#define TABLE_LINE_SIZE_MAX 512

static void net_space_add(struct net_space *space, const struct in6_addr *address)
{
    if (space->n_addresses == NET_ADDRESSES_MAX)
        return;
    VEC_GROW(space->addresses, space->n_addresses, space->cap_addresses);
    space->addresses[space->n_addresses++] = *address;
}

/* The kernel prints addresses as words in the host's order: 8 digits, or 32 of them. */
static bool net_parse_hex_address(const char *text, size_t n, struct in6_addr *ret)
{
    uint32_t words[4];
    char digits[9] = "";

    if (n != 8 && n != 32)
        return false;
    for (size_t i = 0; i < n / 8; i++) {
        memcpy(digits, text + i * 8, 8);
        if (strspn(digits, "0123456789abcdefABCDEF") != 8)
            return false;
        words[i] = (uint32_t)strtoul(digits, NULL, 16);
    }
    if (n == 8)
        *ret = address_v4(words[0]);
    else
        memcpy(ret, words, sizeof(*ret));
    return true;
}

/* "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0  67890 ..." */
static bool net_parse_line(const char *line, struct net_listener *ret, unsigned *ret_state)
{
    char local[64];
    unsigned port, uid;
    unsigned long long inode;
    int used = 0;

    if (sscanf(line, "%*d: %63[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*4x %2x %n", local, &port, ret_state, &used) !=
            3 ||
        used == 0)
        return false;
    *ret = (struct net_listener){.port = (uint16_t)port};
    if (*ret_state != TCP_STATE_LISTEN)
        return true;
    if (sscanf(line + used, "%*x:%*x %*x:%*x %*x %u %*u %llu", &uid, &inode) != 2)
        return false;
    ret->uid = uid;
    ret->inode = (ino_t)inode;
    return net_parse_hex_address(local, strlen(local), &ret->address);
}

size_t net_table_parse(const char *data, size_t size, unsigned space, struct net_survey *survey,
                       bool *ret_ended)
{
    char line[TABLE_LINE_SIZE_MAX];
    size_t used = 0;
    const char *newline;

    *ret_ended = false;
    while (!*ret_ended && (newline = memchr(data + used, '\n', size - used))) {
        size_t n = (size_t)(newline - data) - used;
        struct net_listener listener;
        unsigned state;

        snprintf(line, sizeof(line), "%.*s", (int)MIN(n, sizeof(line) - 1), data + used);
        used += n + 1;
        if (!net_parse_line(line, &listener, &state))
            continue;
        if (state == TCP_STATE_LISTEN && survey->n_listeners < NET_LISTENERS_MAX) {
            VEC_GROW(survey->listeners, survey->n_listeners, survey->cap_listeners);
            listener.space = space;
            survey->listeners[survey->n_listeners++] = listener;
        }
        *ret_ended = state != TCP_STATE_LISTEN && state != TCP_STATE_SYN_RECV;
    }
    return used;
}

/* Takes the next line of [*p, end) and moves *p after it; false at the end. A longer line is cut. */
static bool net_next_line(const char **p, const char *end, char line[static TABLE_LINE_SIZE_MAX])
{
    if (*p >= end)
        return false;
    const char *newline = memchr(*p, '\n', (size_t)(end - *p));
    size_t n = (size_t)((newline ? newline : end) - *p);

    snprintf(line, TABLE_LINE_SIZE_MAX, "%.*s", (int)MIN(n, (size_t)TABLE_LINE_SIZE_MAX - 1), *p);
    *p += n + 1;
    return true;
}

/* "|-- 10.0.0.5" names a leaf; "/32 host LOCAL" below it marks the address as one of the namespace. */
void net_fib_trie_parse(const char *data, size_t size, struct net_space *space)
{
    const char *end = data + size;
    struct in6_addr leaf;
    char line[TABLE_LINE_SIZE_MAX];
    bool have_leaf = false;

    while (net_next_line(&data, end, line)) {
        char *mark = strstr(line, "|-- ");
        if (mark) {
            have_leaf = address_parse(mark + 4, &leaf) == 0;
        } else if (have_leaf && strstr(line, "/32 host LOCAL")) {
            net_space_add(space, &leaf);
            have_leaf = false;
        }
    }
}

/* "fe80000000000000aabbccfffeddeeff 02 40 20 80 eth0": the digits are in the network's order. */
void net_if_inet6_parse(const char *data, size_t size, struct net_space *space)
{
    const char *end = data + size;
    char line[TABLE_LINE_SIZE_MAX];

    while (net_next_line(&data, end, line)) {
        struct in6_addr address;

        if (strspn(line, "0123456789abcdefABCDEF") != 32 || line[32] != ' ')
            continue;
        for (size_t i = 0; i < 16; i++) {
            const char digits[3] = {line[2 * i], line[2 * i + 1]};
            address.s6_addr[i] = (uint8_t)strtoul(digits, NULL, 16);
        }
        net_space_add(space, &address);
    }
}

/* Reads the listening part of a table piece by piece: a hundred thousand connections may follow it. */
static void net_read_table(pid_t pid, const char *name, unsigned space, struct net_survey *s)
{
    char path[PROC_PATH_MAX];
    snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, name);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    _cleanup_(freep) char *piece = xcalloc(TABLE_PIECE, 1);
    size_t held = 0, total = 0;
    bool ended = fd < 0;

    while (!ended && total < NET_TABLE_MAX && held < TABLE_PIECE) {
        ssize_t n = TEMP_FAILURE_RETRY(read(fd, piece + held, TABLE_PIECE - held));
        if (n <= 0)
            return;
        total += (size_t)n;
        held += (size_t)n;
        size_t used = net_table_parse(piece, held, space, s, &ended);
        held -= used;
        memmove(piece, piece + used, held);
    }
}

bool net_address_is_own(const struct in6_addr *wanted)
{
    struct ifaddrs *list = NULL;
    struct in6_addr address;
    bool found = address_is_loopback(wanted) && !address_is_wildcard(wanted);

    if (found || getifaddrs(&list) < 0)
        return found;
    for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next)
        found =
            i->ifa_addr && address_of_socket(i->ifa_addr, &address) && IN6_ARE_ADDR_EQUAL(&address, wanted);
    freeifaddrs(list);
    return found;
}

static void net_read_own_addresses(struct net_space *space)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) < 0)
        return;
    for (struct ifaddrs *i = list; i; i = i->ifa_next) {
        struct in6_addr address;
        if (i->ifa_addr && address_of_socket(i->ifa_addr, &address))
            net_space_add(space, &address);
    }
    freeifaddrs(list);
}

static void net_read_addresses(struct net_space *space)
{
    _cleanup_(freep) char *v4 = NULL;
    _cleanup_(freep) char *v6 = NULL;
    size_t size;

    if (process_read(space->member, "net/fib_trie", ADDRESS_TABLE_MAX, &v4, &size) == 0)
        net_fib_trie_parse(v4, size, space);
    if (process_read(space->member, "net/if_inet6", ADDRESS_TABLE_MAX, &v6, &size) == 0)
        net_if_inet6_parse(v6, size, space);
}

/*
 * The index of a process's network namespace, which is added if it is new. The inode of the table identifies the
 * namespace and, unlike /proc/PID/ns/net, is readable without privileges.
 */
static int net_space_of(struct net_survey *s, pid_t pid)
{
    char path[PROC_PATH_MAX];
    struct stat st;

    snprintf(path, sizeof(path), "/proc/%d/net/tcp", (int)pid);
    if (stat(path, &st) < 0)
        return -errno;
    /* From the end: processes of one container have neighbouring numbers. */
    for (size_t i = s->n_spaces; i > 0; i--)
        if (s->spaces[i - 1].id == st.st_ino)
            return (int)i - 1;
    if (s->n_spaces == NET_SPACES_MAX)
        return -E2BIG;
    VEC_GROW(s->spaces, s->n_spaces, s->cap_spaces);
    s->spaces[s->n_spaces] = (struct net_space){.id = st.st_ino, .member = pid};
    return (int)s->n_spaces++;
}

static void net_add_process(struct net_survey *s, pid_t pid)
{
    char path[PROC_PATH_MAX];
    struct process_stat process;
    struct stat st;
    int space = net_space_of(s, pid);

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (space < 0 || process_stat_read(pid, &process) < 0 || stat(path, &st) < 0)
        return;
    VEC_GROW(s->processes, s->n_processes, s->cap_processes);
    s->processes[s->n_processes++] = (struct net_process){
        .pid = pid, .uid = st.st_uid, .started = process.started, .space = (unsigned)space};
}

static int net_compare_age(const void *a, const void *b)
{
    const struct net_process *x = a, *y = b;
    if ((x->pid == 1) != (y->pid == 1))
        return x->pid == 1 ? 1 : -1;
    if (x->started != y->started)
        return x->started < y->started ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int net_compare_port(const void *a, const void *b)
{
    const struct net_listener *x = a, *y = b;
    if (x->port != y->port)
        return x->port < y->port ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

void net_survey_read(struct net_survey *ret)
{
    _cleanup_(freep) pid_t *pids = NULL;
    size_t n = process_list(&pids);

    *ret = (struct net_survey){0};
    net_space_of(ret, getpid());
    for (size_t i = 0; i < n; i++)
        net_add_process(ret, pids[i]);
    for (unsigned i = 0; i < ret->n_spaces; i++) {
        struct net_space *space = &ret->spaces[i];
        if (i == 0)
            net_read_own_addresses(space);
        else
            net_read_addresses(space);
        net_read_table(space->member, "tcp", i, ret);
        net_read_table(space->member, "tcp6", i, ret);
    }
    if (ret->n_processes > 0)
        qsort(ret->processes, ret->n_processes, sizeof(*ret->processes), net_compare_age);
    if (ret->n_listeners > 0)
        qsort(ret->listeners, ret->n_listeners, sizeof(*ret->listeners), net_compare_port);
}

void net_survey_done(struct net_survey *s)
{
    for (size_t i = 0; i < s->n_spaces; i++)
        free(s->spaces[i].addresses);
    free(s->spaces);
    free(s->listeners);
    free(s->processes);
    *s = (struct net_survey){0};
}

bool net_space_has(const struct net_space *space, const struct in6_addr *address)
{
    for (size_t i = 0; i < space->n_addresses; i++)
        if (IN6_ARE_ADDR_EQUAL(&space->addresses[i], address))
            return true;
    return false;
}

/* The first listener of the port or of a higher one. */
static size_t net_first_of_port(const struct net_survey *s, uint16_t port)
{
    size_t low = 0, high = s->n_listeners;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->listeners[middle].port < port)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How well a listening address fits: 3 the same address, 2 the wildcard of its family, 1 the other wildcard,
 * 0 not at all. */
static int net_address_fit(const struct in6_addr *listening, const struct in6_addr *wanted)
{
    const struct in6_addr any4 = address_v4(INADDR_ANY);
    if (IN6_ARE_ADDR_EQUAL(listening, wanted))
        return 3;
    if (IN6_IS_ADDR_V4MAPPED(wanted) && IN6_ARE_ADDR_EQUAL(listening, &any4))
        return 2;
    if (IN6_IS_ADDR_UNSPECIFIED(listening))
        return IN6_IS_ADDR_V4MAPPED(wanted) ? 1 : 2;
    return 0;
}

struct net_listener *net_survey_find(const struct net_survey *s, unsigned space,
                                     const struct in6_addr *address, uint16_t port)
{
    struct net_listener *best = NULL;
    int best_fit = 0;

    for (size_t i = net_first_of_port(s, port); i < s->n_listeners && s->listeners[i].port == port; i++) {
        struct net_listener *l = &s->listeners[i];
        int fit = l->space == space ? net_address_fit(&l->address, address) : 0;
        if (fit > best_fit) {
            best = l;
            best_fit = fit;
        }
    }
    return best;
}

struct net_listener *net_survey_elsewhere(const struct net_survey *s, uint16_t port)
{
    struct net_listener *found = NULL;
    for (size_t i = net_first_of_port(s, port); i < s->n_listeners && s->listeners[i].port == port; i++) {
        struct net_listener *l = &s->listeners[i];
        if (l->space == 0 || (found && found->space == l->space))
            continue;
        if (found)
            return NULL;
        found = l;
    }
    return found;
}

static int net_compare_inode(const void *a, const void *b)
{
    const struct net_listener *x = *(struct net_listener *const *)a, *y = *(struct net_listener *const *)b;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Attributes to a process the wanted sockets that its descriptors hold. Returns their number. */
static size_t net_attribute_sockets(const struct net_process *process, struct net_listener **by_inodes,
                                    size_t n)
{
    char path[PROC_PATH_MAX], target[64];
    struct dirent *entry;
    size_t n_attributed = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)process->pid);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        if (length < 0)
            continue;
        target[length] = '\0';
        unsigned long long inode;
        if (sscanf(target, "socket:[%llu]", &inode) != 1)
            continue;
        struct net_listener key = {.inode = (ino_t)inode}, *key_p = &key;
        struct net_listener **found = bsearch(&key_p, by_inodes, n, sizeof(*by_inodes), net_compare_inode);
        if (found && (*found)->pid == 0) {
            (*found)->pid = process->pid;
            (*found)->started = process->started;
            n_attributed++;
        }
    }
    if (dir)
        closedir(dir);
    return n_attributed;
}

size_t net_survey_find_owners(const struct net_survey *s, struct net_listener **wanted, size_t n)
{
    size_t missing = 0;

    if (n == 0)
        return 0;
    _cleanup_(freep) struct net_listener **sorted = xcalloc(n, sizeof(struct net_listener *));
    memcpy(sorted, wanted, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), net_compare_inode);
    for (size_t i = 0; i < n; i++)
        if (sorted[i]->pid == 0 && (i == 0 || sorted[i] != sorted[i - 1]))
            missing++;
    for (size_t i = 0; i < s->n_processes && missing > 0; i++)
        missing -= net_attribute_sockets(&s->processes[i], sorted, n);
    return missing;
}
