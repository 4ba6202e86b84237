/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer join: what two or more hosts need to know each other. Contacts no profd and changes no configuration: it prints
 * what the administrators of both sides add, or, with --directory, writes everything for hosts that share a directory.
 */
#include "base/address.h"
#include "base/alloc.h"
#include "client/local/peer_certs.h"
#include "client/verbs/verbs.h"
#include <ctype.h>
#include <errno.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#define PORT_DEFAULT   9460
#define HOSTS_MAX      4096
#define HOST_BYTES_MAX 253
#define NAME_BYTES_MAX 64 /* of [peer NAME] */
/* Where packages keep what profd reads. */
#define CONFIG_DIR "/etc/profd"

struct peer_options {
    const char *directory, *this_host;
    int64_t port;
};

/* clang-format off */
static const struct option_def peer_options[] = {
    {"this", 0, "NAME", OPTION_TEXT, offsetof(struct peer_options, this_host), "Name or address by which HOST reaches this host (default: its host name)"},
    {"port", 0, "PORT", OPTION_COUNT, offsetof(struct peer_options, port), "TCP port of profd on all hosts (default: 9460)"},
    {"directory", 'd', "DIR", OPTION_TEXT, offsetof(struct peer_options, directory), "Write configuration, token and certificates of all HOSTs into a new directory"},
};
/* clang-format on */

/* -- Names ---------------------------------------------------------------------------------------------- */

static bool host_is_valid(const char *host)
{
    struct in6_addr address;
    size_t n = strlen(host);

    if (address_parse(host, &address) == 0)
        return true;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)host[i]) && !strchr(".-_", host[i]))
            return false;
    return n > 0 && n <= HOST_BYTES_MAX && isalnum((unsigned char)host[0]);
}

/* Of a section, a token and a file: an IPv6 address has colons, and a long name its first bytes. */
static char *host_name(const char *host)
{
    char *name = xstrndup(host, NAME_BYTES_MAX);

    for (char *c = name; *c; c++)
        if (*c == ':')
            *c = '-';
    return name;
}

static char *host_url(const char *host, int64_t port)
{
    return xasprintf(strchr(host, ':') ? "https://[%s]:%lld" : "https://%s:%lld", host, (long long)port);
}

static bool host_is_name(const char *host)
{
    struct in6_addr address;
    return address_parse(host, &address) < 0;
}

/* Where profd listens on the host: at the address that it is known by, else at all. */
static char *host_listen(const char *host, int64_t port)
{
    if (host_is_name(host))
        return xasprintf("0.0.0.0:%lld", (long long)port);
    return xasprintf(strchr(host, ':') ? "[%s]:%lld" : "%s:%lld", host, (long long)port);
}

static int peer_check_hosts(struct client *c, char **hosts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!host_is_valid(hosts[i]))
            return client_refuse(c, "profctl peer join gpu2", "'%s' is not the name or address of a host",
                                 hosts[i]);
        for (size_t k = 0; k < i; k++)
            if (strcasecmp(hosts[i], hosts[k]) == 0)
                return client_refuse(c, NULL, "%s is named twice", hosts[i]);
    }
    return EXIT_DONE;
}

/* -- Two hosts ------------------------------------------------------------------------------------------ */

/* What one side adds so that it can call the other, and be called by it. */
struct peer_side {
    const char *host;
    char *name;                                         /* in sections */
    char token[TOKEN_TEXT_SIZE], hash[TOKEN_HASH_SIZE]; /* that it shows to the other */
};

static json_t *side_file(const char *path, const char *mode, char *take_text, const char *what)
{
    json_t *j = json_object();

    json_put_str(j, "path", path);
    json_put_str(j, "mode", mode);
    json_put_str(j, "text", take_text);
    json_put_str(j, "what", what);
    free(take_text);
    return j;
}

static json_t *side_to_json(const struct peer_side *own, const struct peer_side *other, int64_t port)
{
    json_t *j = json_object(), *files = json_array();
    _cleanup_(freep) char *url = host_url(other->host, port), *listen = host_listen(own->host, port);
    _cleanup_(freep) char *conf = NULL;
    /* profd refuses a tokens file with two lines of one name. */
    _cleanup_(freep) char *accepts = xasprintf(
        "a line to add, or to put in place of the line \"%s peer ...\": the token that this host accepts",
        other->name);
    _cleanup_(freep) char *token_file = xasprintf(CONFIG_DIR "/peers/%s.token", other->name);
    _cleanup_(freep) char *ca_file = xasprintf(CONFIG_DIR "/peers/%s-ca.pem", other->name);

    append_str(&conf, "[profd]\nlisten=%s\n", listen);
    append_str(&conf, "[http]\ntokens_file=" CONFIG_DIR "/tokens\ncert_file=" CONFIG_DIR
                      "/profd.pem\nkey_file=" CONFIG_DIR "/profd.key\n");
    if (host_is_name(own->host))
        append_str(&conf, "host=%s\n", own->host);
    append_str(&conf, "[peer %s]\nurl=%s\ntoken_file=%s\nca_file=%s\n", other->name, url, token_file,
               ca_file);
    json_put_str(j, "host", own->host);
    json_array_append_new(files, side_file(token_file, "0600", xasprintf("%s\n", own->token),
                                           "the token that this host shows"));
    json_array_append_new(files, side_file(CONFIG_DIR "/tokens", "0640",
                                           xasprintf("%s peer %s\n", other->name, other->hash), accepts));
    json_array_append_new(files, side_file(CONFIG_DIR "/profd.conf", "0644", TAKE_PTR(conf),
                                           "lines to add, where they are missing"));
    json_object_set_new(j, "files", files);
    return j;
}

static void side_print(struct client *c, const json_t *side, const struct peer_side *other)
{
    FILE *out = c->out.file;
    json_t *file;
    size_t i;

    fprintf(out, "%s# On %s%s\n", screen_colour(&c->out, COLOUR_BOLD), json_get_str(side, "host"),
            screen_plain(&c->out));
    json_array_foreach(json_object_get(side, "files"), i, file)
        fprintf(out, "# %s (mode %s): %s\n%s", json_get_str(file, "path"), json_get_str(file, "mode"),
                json_get_str(file, "what"), json_get_str(file, "text"));
    fprintf(out, "# " CONFIG_DIR "/peers/%s-ca.pem: the authority that signed the certificate of %s\n\n",
            other->name, other->host);
}

static int peer_join_two(struct client *c, const struct peer_options *o, const char *host, int64_t port)
{
    char own_name[HOST_BYTES_MAX + 1] = "";
    struct peer_side sides[2];
    int status = EXIT_DONE;

    if (gethostname(own_name, sizeof(own_name) - 1) < 0 || !*own_name)
        snprintf(own_name, sizeof(own_name), "localhost");
    const char *hosts[] = {o->this_host ? o->this_host : own_name, host};
    if (!host_is_valid(hosts[0]))
        return client_refuse(c, "--this NAME", "'%s' is not the name or address of a host", hosts[0]);
    if (strcasecmp(hosts[0], hosts[1]) == 0)
        return client_refuse(c, "profctl peer join gpu2", "%s is this host", host);
    for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
        sides[i] = (struct peer_side){.host = hosts[i], .name = host_name(hosts[i])};
        if (status == EXIT_DONE)
            status = token_make(c, sides[i].token, sides[i].hash);
    }
    if (status == EXIT_DONE) {
        _cleanup_json_ own = side_to_json(&sides[0], &sides[1], port),
                       *other = side_to_json(&sides[1], &sides[0], port);
        _cleanup_json_ list = json_array();
        json_array_append(list, own);
        json_array_append(list, other);
        if (c->json) {
            _cleanup_json_ answer = json_object();
            json_object_set(answer, "hosts", list);
            client_print_json(c, answer);
        } else {
            side_print(c, own, &sides[1]);
            side_print(c, other, &sides[0]);
            client_note(
                c, "Tokens are shown only once. Then, on both: systemctl restart profd; profctl list-hosts");
            client_note(c,
                        "Without certificates: profctl peer join HOST HOST --directory DIR makes them, too.");
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
        explicit_bzero(sides[i].token, sizeof(sides[i].token));
        free(sides[i].name);
    }
    return status;
}

/* -- A directory for all hosts -------------------------------------------------------------------------- */

static char *peer_config(const char *directory, char **hosts, size_t n, size_t own, int64_t port)
{
    _cleanup_(freep) char *listen = host_listen(hosts[own], port);
    char *text = NULL;

    append_str(&text, "# profd --config %s/%s.conf\n[profd]\nlisten=%s\n\n", directory, hosts[own], listen);
    append_str(&text, "[http]\ntokens_file=%s/tokens\ncert_file=%s/%s.pem\nkey_file=%s/%s.key\n", directory,
               directory, hosts[own], directory, hosts[own]);
    if (host_is_name(hosts[own]))
        append_str(&text, "host=%s\n", hosts[own]);
    append_str(&text, "\n[hosts]\nname=%s\ntoken_file=%s/token\nca_file=%s/ca.pem\n", hosts[own], directory,
               directory);
    for (size_t i = 0; i < n; i++) {
        _cleanup_(freep) char *url = host_url(hosts[i], port), *name = host_name(hosts[i]);
        if (i != own)
            append_str(&text, "\n[peer %s]\nurl=%s\n", name, url);
    }
    return text;
}

static int peer_write_all(const char *directory, char **hosts, size_t n, const char *token, const char *hash,
                          int64_t port, struct problem *p)
{
    _cleanup_(peer_authority_freep) struct peer_authority *authority = NULL;
    _cleanup_(freep) char *token_text = xasprintf("%s\n", token), *line = xasprintf("peers peer %s\n", hash);

    int r = peer_authority_new(directory, &authority, p);
    if (r == 0)
        r = peer_file_write(directory, "token", token_text, p);
    if (r == 0)
        r = peer_file_write(directory, "tokens", line, p);
    for (size_t i = 0; i < n && r == 0; i++) {
        _cleanup_(freep) char *text = peer_config(directory, hosts, n, i, port);
        _cleanup_(freep) char *name = xasprintf("%s.conf", hosts[i]);
        r = peer_authority_issue(authority, hosts[i], p);
        if (r == 0)
            r = peer_file_write(directory, name, text, p);
    }
    explicit_bzero(token_text, strlen(token_text));
    return r;
}

static int peer_join_directory(struct client *c, const char *word, char **hosts, size_t n, int64_t port)
{
    _cleanup_(problem_done) struct problem p = {0};
    char token[TOKEN_TEXT_SIZE], hash[TOKEN_HASH_SIZE];

    if (mkdir(word, 0700) < 0)
        return client_refuse(c, "--directory DIR names a directory that does not exist yet.",
                             "cannot create %s: %s", word, strerror(errno));
    _cleanup_(freep) char *directory = realpath(word, NULL);
    int status = directory ? token_make(c, token, hash) : EXIT_FAILED;
    if (status == EXIT_DONE && peer_write_all(directory, hosts, n, token, hash, port, &p) < 0)
        status = client_fail(c, &p);
    explicit_bzero(token, sizeof(token));
    if (status != EXIT_DONE)
        return status;
    if (c->json) {
        _cleanup_json_ answer = json_object(), *list = json_array();
        for (size_t i = 0; i < n; i++) {
            _cleanup_(freep) char *file = xasprintf("%s/%s.conf", directory, hosts[i]);
            json_t *one = json_object();
            json_put_str(one, "host", hosts[i]);
            json_put_str(one, "config", file);
            json_array_append_new(list, one);
        }
        json_put_str(answer, "directory", directory);
        json_object_set(answer, "hosts", list);
        return client_print_json(c, answer);
    }
    fprintf(c->out.file, "%s\n", directory);
    client_note(c,
                "on each HOST: profd --config %s/HOST.conf (the directory is readable by you only; keep "
                "ca.key there)",
                directory);
    return EXIT_DONE;
}

static int peer_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct peer_options *o = values;
    const int64_t port = o->port != OPTION_ABSENT ? o->port : PORT_DEFAULT;
    const size_t n = (size_t)n_words - 1;

    if (!streq(words[0], "join"))
        return client_refuse(c, "profctl peer join HOST", "unknown command: peer %s", words[0]);
    if (port < 1 || port > UINT16_MAX)
        return client_refuse(c, NULL, "--port: must be 1 to 65535");
    int status = peer_check_hosts(c, words + 1, n);
    if (status != EXIT_DONE)
        return status;
    if (o->directory && o->this_host)
        return client_refuse(c, "Name this host among the others.",
                             "--this and --directory exclude each other");
    if (o->directory)
        return peer_join_directory(c, o->directory, words + 1, n, port);
    if (n > 1)
        return client_refuse(c, "profctl peer join gpu1 gpu2 gpu3 --directory DIR",
                             "several hosts need --directory DIR, where their files are written");
    return peer_join_two(c, o, words[1], port);
}

const struct verb verb_peer = {
    .name = "peer",
    .summary = "Print what two hosts need to record together",
    .details = "Prints tokens, their lines for the tokens files, and the sections of profd.conf, for this "
               "host and HOST. With "
               "--directory, writes all of it and certificates, for several hosts. Contacts no profd.",
    .words = "join HOST...",
    .min_words = 2,
    .max_words = HOSTS_MAX + 1,
    VERB_OPTIONS(peer_options, struct peer_options),
    .is_offline = true,
    .run = peer_run,
};
