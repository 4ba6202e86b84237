/* SPDX-License-Identifier: Apache-2.0 */
/* Adds, chooses, lists and removes contexts (transport/contexts.h). Contacts no profd. */
#include "client/transport/contexts.h"

#include "base/alloc.h"
#include "client/cli/screen.h"
#include "client/cli/text.h"
#include "client/transport/endpoint.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include <errno.h>

#define TOKEN_BYTES_MAX 4096

struct context_options {
    bool token_stdin, use, force;
};

#define AT(member) offsetof(struct context_options, member)

/* clang-format off */
static const struct option_def context_options[] = {
    {"use", 0, NULL, OPTION_FLAG, AT(use), "Use the new context from now on (add)"},
    {"token-stdin", 0, NULL, OPTION_FLAG, AT(token_stdin), "Read the token from standard input and store it in a file of mode 0600 (add)"},
    {"force", 0, NULL, OPTION_FLAG, AT(force), "Replace a context of the same name (add)"},
};
/* clang-format on */

/* -- add ---------------------------------------------------------------------------------------------- */

static int context_take_token(const char *name, struct problem *p)
{
    char token[TOKEN_BYTES_MAX + 1];
    size_t n = fread(token, 1, TOKEN_BYTES_MAX, stdin);

    token[n] = '\0';
    if (n > 0 && !ferror(stdin))
        return context_keep_token(name, token, p);
    problem_remedy(p, "profctl context add %s --host URL --token-stdin < FILE", name);
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "no token on standard input");
}

/* Token and certificates are checked now, not at the first call. */
static int context_check(const struct connection_options *at, const char *token_file, struct problem *p)
{
    _cleanup_(endpoint_done) struct endpoint endpoint = {0};
    _cleanup_(credentials_done) struct credentials credentials = {0};
    struct credential_options options_of = at->credentials;

    int r = endpoint_find(at->socket, at->host, &endpoint, p);
    if (r < 0 || !at->host)
        return r;
    options_of.token_file = token_file;
    return token_file ? credentials_find(&options_of, endpoint.url, &credentials, p) : 0;
}

/* Paths are kept absolute: a context is used from anywhere. */
static int context_make(const struct context_options *o, const struct connection_options *at,
                        const char *name, json_t *context, struct problem *p)
{
    int r = o->token_stdin ? context_take_token(name, p) : 0;
    _cleanup_(freep) char *new = o->token_stdin ? context_token_path(name, CONTEXT_TOKEN_NEW) : NULL,
                          *kept = o->token_stdin ? context_token_path(name, NULL) : NULL;

    for (size_t i = 0; i < N_CONTEXT_MEMBERS && r == 0; i++) {
        const char *value = *(const char *const *)((const char *)at + context_members[i].offset);
        bool is_path = !streq(context_members[i].key, "host");
        _cleanup_(freep) char *absolute = value && is_path ? realpath(value, NULL) : NULL;
        if (value && is_path && !absolute)
            r = problem_set(p, -errno, PROBLEM_BAD_REQUEST, "cannot open %s: %s", value, strerror(errno));
        json_put_str(context, context_members[i].key, is_path ? absolute : value);
    }
    json_put_str(context, "token_file", kept);
    if (at->credentials.plain_http)
        json_put_bool(context, "plain_http", true);
    return r < 0 ? r : context_check(at, new ? new : at->credentials.token_file, p);
}

static int context_add(struct client *c, const struct context_options *o, json_t *contexts, const char *name)
{
    _cleanup_(problem_done) struct problem p = {0};
    const struct connection_options *at = c->connection_options;
    bool existed = contexts_find(contexts, name);

    if (!name || !context_name_is_valid(name))
        return client_refuse(
            c, "profctl context add prod --host https://10.0.0.1:9460 --token-file FILE",
            "a context's name is letters, digits, '.', '_' and '-', at most 64, and not \"default\"");
    if (!at->host == !at->socket)
        return client_refuse(c, "profctl context add NAME --host URL --token-file FILE",
                             "a context needs --host or --socket");
    if (o->token_stdin && at->credentials.token_file)
        return client_refuse(c, NULL, "--token-stdin and --token-file exclude each other");
    if (existed && !o->force)
        return client_refuse(c, "--force replaces it.", "context %s exists", name);
    json_t *context = json_object();
    if (context_make(o, at, name, context, &p) < 0) {
        json_decref(context);
        context_forget_token(name, CONTEXT_TOKEN_NEW);
        return client_fail(c, &p);
    }
    json_object_set_new(json_object_get(contexts, "contexts"), name, context);
    if (o->use)
        json_put_str(contexts, "current", name);
    if ((o->token_stdin ? contexts_write_with_token(contexts, name, &p) : contexts_write(contexts, &p)) < 0)
        return client_fail(c, &p);
    if (o->use)
        client_note(c, "Context %s is added and in use.", name);
    else
        client_note(c, "Context %s is added; profctl context use %s makes it the default.", name, name);
    return EXIT_DONE;
}

/* -- The others --------------------------------------------------------------------------------------- */

static const char *current_name(const json_t *contexts)
{
    const char *current = json_get_str(contexts, "current");
    return current ? current : CONTEXT_DEFAULT;
}

static int context_use(struct client *c, const struct context_options *o, json_t *contexts, const char *name)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (!streq(name, CONTEXT_DEFAULT) && !contexts_find(contexts, name)) {
        contexts_unknown(contexts, name, &p);
        return client_fail(c, &p);
    }
    if (streq(name, CONTEXT_DEFAULT))
        json_object_del(contexts, "current");
    else
        json_put_str(contexts, "current", name);
    if (contexts_write(contexts, &p) < 0)
        return client_fail(c, &p);
    client_note(
        c, streq(name, CONTEXT_DEFAULT) ? "The profd of this machine is in use." : "Context %s is in use.",
        name);
    return EXIT_DONE;
}

static int context_list(struct client *c, const struct context_options *o, json_t *contexts, const char *name)
{
    static const struct table_column columns[] = {{"NAME", 0, IMPORTANCE_KEY},
                                                  {"CURRENT", 0, IMPORTANCE_HIGH},
                                                  {"PROFD", 0, IMPORTANCE_HIGH},
                                                  {"TOKEN FILE", COLUMN_SHORTEN | COLUMN_PATH}};
    const char *current = current_name(contexts), *one;
    _cleanup_(table_freep) struct table *table = NULL;
    json_t *context;

    int status = listing_table(c, columns, ARRAY_SIZE(columns), &table);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, contexts);
    table_add(table, (const char *[]){CONTEXT_DEFAULT, streq(current, CONTEXT_DEFAULT) ? "yes" : NULL,
                                      "this machine", NULL});
    json_object_foreach(json_object_get(contexts, "contexts"), one, context) {
        const char *host = json_get_str(context, "host");
        table_add(table, (const char *[]){one, streq(current, one) ? "yes" : NULL,
                                          host ? host : json_get_str(context, "socket"),
                                          json_get_str(context, "token_file")});
    }
    listing_print(c, table);
    return EXIT_DONE;
}

static int context_show(struct client *c, const struct context_options *o, json_t *contexts, const char *name)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *shown = name ? name : current_name(contexts);
    const json_t *context = contexts_find(contexts, shown);

    if (!context && !streq(shown, CONTEXT_DEFAULT)) {
        contexts_unknown(contexts, shown, &p);
        return client_fail(c, &p);
    }
    if (c->json) {
        _cleanup_json_ answer = context ? json_copy((json_t *)context) : json_object();
        json_put_str(answer, "name", shown);
        json_put_bool(answer, "current", streq(shown, current_name(contexts)));
        return client_print_json(c, answer);
    }
    field_printf(&c->out, "Context:", "%s%s", shown, streq(shown, current_name(contexts)) ? " (in use)" : "");
    if (!context)
        field_print(&c->out, "Host:", "this machine");
    for (size_t i = 0; i < N_CONTEXT_MEMBERS; i++)
        field_print(&c->out, context_members[i].heading, json_get_str(context, context_members[i].key));
    if (json_get_bool(context, "plain_http", false))
        field_print(&c->out, "Token over:", "http:// too (--plain-http)");
    return EXIT_DONE;
}

static int context_delete(struct client *c, const struct context_options *o, json_t *contexts,
                          const char *name)
{
    _cleanup_(problem_done) struct problem p = {0};
    bool was_current = streq(name, current_name(contexts));

    if (!contexts_find(contexts, name)) {
        contexts_unknown(contexts, name, &p);
        return client_fail(c, &p);
    }
    json_object_del(json_object_get(contexts, "contexts"), name);
    if (was_current)
        json_object_del(contexts, "current");
    if (contexts_write(contexts, &p) < 0)
        return client_fail(c, &p);
    context_forget_token(name, NULL);
    client_note(c, "Context %s is deleted%s.", name,
                was_current ? "; the profd of this machine is in use" : "");
    return EXIT_DONE;
}

static const struct {
    const char *name;
    unsigned n_names, min_names;
    int (*run)(struct client *c, const struct context_options *o, json_t *contexts, const char *name);
} commands[] = {
    {"add", 1, 1, context_add}, {"use", 1, 1, context_use},   {"list", 0, 0, context_list},
    {"ls", 0, 0, context_list}, {"show", 1, 0, context_show}, {"rm", 1, 1, context_delete},
};

static int context_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct context_options *o = values;
    const char *command = n_words > 0 ? words[0] : "list";
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ contexts = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        unsigned n_names = n_words > 0 ? (unsigned)n_words - 1 : 0;
        if (!streq(commands[i].name, command))
            continue;
        if (n_names < commands[i].min_names || n_names > commands[i].n_names)
            return client_refuse(c, "profctl context --help", "context %s takes %s", command,
                                 commands[i].n_names == 0     ? "no name"
                                 : commands[i].min_names == 0 ? "at most one name"
                                                              : "a name");
        if ((o->use || o->token_stdin || o->force) && commands[i].run != context_add)
            return client_refuse(c, "profctl context --help",
                                 "--use, --token-stdin and --force are for context add");
        if (contexts_read(&contexts, &p) < 0)
            return client_fail(c, &p);
        return commands[i].run(c, o, contexts, n_names > 0 ? words[1] : NULL);
    }
    _cleanup_(freep) char *clean = text_clean(command, false);
    return client_refuse(c, "Commands: add, use, list, show, rm.", "unknown command: context %s", clean);
}

const struct verb verb_context = {
    .name = "context",
    .summary = "Manage named connections to profd on other machines",
    .details = "A context stores --host (or --socket), --token-file, --cacert, --cert, --key and "
               "--plain-http under a name, for --context NAME, $PROFD_CONTEXT, or every call once it is in "
               "use. \"default\" is the profd of this machine.",
    .words = "[add NAME|use NAME|list|show [NAME]|rm NAME]",
    .max_words = 2,
    VERB_OPTIONS(context_options, struct context_options),
    .has_listing = true,
    .is_offline = true,
    .run = context_run,
};
