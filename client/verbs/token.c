/* SPDX-License-Identifier: Apache-2.0 */
/* Creates a token for profd over TCP. Contacts no profd: an administrator adds the printed line to its file. */
#include "base/alloc.h"
#include "client/verbs/verbs.h"
#include <errno.h>
#include <openssl/evp.h>
#include <sys/random.h>

#define NAME_SIZE_MAX 64
#define NAME_BYTES    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-"

struct token_options {
    const char *role;
};

/* clang-format off */
static const struct option_def token_options[] = {
    {"role", 0, "ROLE", OPTION_TEXT, offsetof(struct token_options, role), "Permissions: read, operate, admin or peer (default: read)"},
};
/* clang-format on */

static void token_hex(char *ret, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sprintf(ret + 2 * i, "%02x", bytes[i]);
}

static int token_print(struct client *c, const char *name, const char *role, const char *token,
                       const char *line)
{
    if (c->json) {
        _cleanup_json_ answer = json_object();
        json_put_str(answer, "name", name);
        json_put_str(answer, "role", role);
        json_put_str(answer, "token", token);
        json_put_str(answer, "line", line);
        return client_print_json(c, answer);
    }
    client_note(c, "token for the user, shown only once; store it in a file of mode 0600 for --token-file:");
    fprintf(c->out.file, "%s\n", token);
    fflush(c->out.file);
    client_note(c, "line for profd, in the file of [http] tokens_file=; then run systemctl reload profd:");
    fprintf(c->out.file, "%s\n", line);
    return EXIT_DONE;
}

int token_make(struct client *c, char token[static TOKEN_TEXT_SIZE], char hash[static TOKEN_HASH_SIZE])
{
    unsigned char random[TOKEN_RANDOM_BYTES], digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return client_error(c, PROBLEM_INTERNAL, NULL, "cannot get random bytes from the kernel");
    strcpy(token, TOKEN_PREFIX);
    token_hex(token + strlen(TOKEN_PREFIX), random, sizeof(random));
    if (EVP_Digest(token, strlen(token), digest, &size, EVP_sha256(), NULL) != 1 ||
        size * 2 + 1 != TOKEN_HASH_SIZE)
        abort();
    token_hex(hash, digest, size);
    explicit_bzero(random, sizeof(random));
    return EXIT_DONE;
}

static int token_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct token_options *o = values;
    const char *name = words[1], *role = o->role ? o->role : right_name(RIGHT_READ);
    char token[TOKEN_TEXT_SIZE], hash[TOKEN_HASH_SIZE];
    size_t n = strlen(name);

    if (!streq(words[0], "new"))
        return client_refuse(c, "profctl token new NAME", "unknown command: token %s", words[0]);
    if (n == 0 || n > NAME_SIZE_MAX || strspn(name, NAME_BYTES) != n)
        return client_refuse(c, "profctl token new grafana",
                             "a token's name is letters, digits, '.', '_', '@' and '-', at most %d of them",
                             NAME_SIZE_MAX);
    if (right_from_name(role) <= RIGHT_NONE)
        return client_refuse(c, "profctl token --help", "--role: '%s' is not read, operate, admin or peer",
                             role);
    int status = token_make(c, token, hash);
    if (status != EXIT_DONE)
        return status;
    _cleanup_(freep) char *line = xasprintf("%s %s %s", name, role, hash);
    return token_print(c, name, role, token, line);
}

const struct verb verb_token = {
    .name = "token",
    .summary = "Create a token for the HTTP API of profd over TCP",
    .details = "Prints the token and the line for the file of [http] tokens_file=, which contains only a "
               "hash. Contacts no profd and stores nothing.",
    .words = "new NAME",
    .min_words = 2,
    .max_words = 2,
    VERB_OPTIONS(token_options, struct token_options),
    .is_offline = true,
    .run = token_run,
};
