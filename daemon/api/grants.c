/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/grants.h"

#include "base/alloc.h"
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/random.h>

void grant_done(struct grant *g)
{
    free(g->user);
    free(g->token);
    free(g->target);
    *g = (struct grant){0};
}

void grants_done(struct grants *t)
{
    for (size_t i = 0; i < t->n; i++)
        grant_done(&t->items[i]);
    free(t->items);
    *t = (struct grants){0};
}

static int grant_hash(const char *secret, unsigned char ret[static EVP_MAX_MD_SIZE])
{
    size_t size = strlen(secret);

    return size <= TOKEN_TEXT_MAX && EVP_Digest(secret, size, ret, NULL, EVP_sha256(), NULL) == 1 ? 0
                                                                                                  : -EINVAL;
}

static void grants_remove_at(struct grants *t, size_t i)
{
    grant_done(&t->items[i]);
    memmove(&t->items[i], &t->items[i + 1], (t->n - i - 1) * sizeof(*t->items));
    t->n--;
}

void grants_remove_if(struct grants *t, bool (*is_gone)(const struct grant *g, const void *arg),
                      const void *arg)
{
    for (size_t i = t->n; i-- > 0;)
        if (is_gone(&t->items[i], arg))
            grants_remove_at(t, i);
}

static bool grant_has_ended(const struct grant *g, const void *now_ns)
{
    return g->ends_ns <= *(const int64_t *)now_ns;
}

/* Grants are in the order of their creation: the first of a user is the oldest. */
static void grants_make_room(struct grants *t, const char *user)
{
    size_t n = 0, oldest = t->n;

    for (size_t i = t->n; i-- > 0;) {
        if (!streq(t->items[i].user, user))
            continue;
        oldest = i;
        n++;
    }
    if (n >= t->user_max)
        grants_remove_at(t, oldest);
}

static int grant_make_secret(const char *prefix, char ret[static GRANT_SECRET_SIZE], struct problem *p)
{
    unsigned char random[TOKEN_RANDOM_BYTES];
    int n = snprintf(ret, GRANT_SECRET_SIZE, "%s", prefix);

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return problem_set(p, -EIO, PROBLEM_INTERNAL, "cannot get random bytes from the kernel");
    for (size_t i = 0; i < sizeof(random); i++)
        n += snprintf(ret + n, GRANT_SECRET_SIZE - (size_t)n, "%02x", random[i]);
    explicit_bzero(random, sizeof(random));
    return 0;
}

int grants_add(struct grants *t, const struct grant *of, const char *prefix, int64_t now_ns,
               char ret_secret[static GRANT_SECRET_SIZE], struct problem *p)
{
    unsigned char hash[EVP_MAX_MD_SIZE];

    grants_remove_if(t, grant_has_ended, &now_ns);
    grants_make_room(t, of->user);
    if (t->n >= t->max) {
        problem_remedy(p, "Wait until some of them end.");
        return problem_set(p, -EAGAIN, PROBLEM_TOO_MANY,
                           "there are too many log-ins or downloads at the moment");
    }
    int r = grant_make_secret(prefix, ret_secret, p);
    if (r == 0 && grant_hash(ret_secret, hash) < 0)
        r = problem_set(p, -EIO, PROBLEM_INTERNAL, "cannot compute a hash");
    if (r < 0)
        return r;
    VEC_GROW(t->items, t->n, t->cap);
    struct grant *g = &t->items[t->n++];
    *g = *of;
    g->user = xstrdup(of->user);
    g->token = xstrdup(of->token);
    g->target = xstrdup(of->target);
    g->number = ++t->last_number;
    memcpy(g->hash, hash, sizeof(g->hash));
    return 0;
}

const struct grant *grants_find(const struct grants *t, const char *secret, int64_t now_ns)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    const struct grant *found = NULL;

    if (grant_hash(secret, hash) < 0)
        return NULL;
    for (size_t i = 0; i < t->n; i++)
        if (CRYPTO_memcmp(t->items[i].hash, hash, TOKEN_HASH_BYTES) == 0)
            found = &t->items[i];
    return found && !grant_has_ended(found, &now_ns) ? found : NULL;
}

int grants_take(struct grants *t, const char *secret, int64_t now_ns, struct grant *ret)
{
    const struct grant *found = grants_find(t, secret, now_ns);

    if (!found)
        return -ENOENT;
    size_t i = (size_t)(found - t->items);
    *ret = *found;
    t->items[i] = (struct grant){0};
    grants_remove_at(t, i);
    return 0;
}
