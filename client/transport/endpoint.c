/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/endpoint.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/fs.h"
#include "base/runtime_paths.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define TOKEN_FILE_MAX 4096
#define BLANKS         " \t\r\n"

int endpoint_socket_error(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path))
        return ENAMETOOLONG;
    strcpy(address.sun_path, path);
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return errno;
    return 0;
}

bool endpoint_has_home(void)
{
    _cleanup_(freep) char *state = user_state_dir();
    return state;
}

static char *endpoint_default_socket(void)
{
    _cleanup_(freep) char *state = user_state_dir();
    _cleanup_(freep) char *own = state ? user_socket(state) : xstrdup(SYSTEM_SOCKET);

    if (streq(own, SYSTEM_SOCKET))
        return TAKE_PTR(own);
    int system_error = endpoint_socket_error(SYSTEM_SOCKET);
    /* Without a per-user instance, the system's "permission denied" is the error that helps. */
    if (system_error == 0 || (system_error == EACCES && endpoint_socket_error(own) != 0))
        return xstrdup(SYSTEM_SOCKET);
    return TAKE_PTR(own);
}

static int endpoint_of_host(const char *host, struct endpoint *ret, struct problem *p)
{
    size_t n = strlen(host);

    while (n > 0 && host[n - 1] == '/')
        n--;
    _cleanup_(freep) char *url = xasprintf("%s%.*s", strstr(host, "://") ? "" : "http://", (int)n, host);
    CURLU *parsed = curl_url();
    CURLUcode code = parsed ? curl_url_set(parsed, CURLUPART_URL, url, 0) : CURLUE_OUT_OF_MEMORY;
    curl_url_cleanup(parsed);
    if (code == CURLUE_OK && (starts_with(url, "http://") || starts_with(url, "https://"))) {
        *ret = (struct endpoint){.url = TAKE_PTR(url)};
        return 0;
    }
    problem_remedy(p, "Pass the URL of profd: --host https://HOST:PORT.");
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--host: '%s' is not a URL: %s", host,
                       code == CURLUE_OK ? "neither http:// nor https://" : curl_url_strerror(code));
}

int endpoint_find(const char *socket, const char *host, struct endpoint *ret, struct problem *p)
{
    const char *environment = getenv("PROFD_SOCKET");

    if (socket && host)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--socket and --host exclude each other");
    if (host)
        return endpoint_of_host(host, ret, p);
    char *path = socket                        ? xstrdup(socket)
                 : environment && *environment ? xstrdup(environment)
                                               : endpoint_default_socket();
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        problem_set(p, -ENAMETOOLONG, PROBLEM_BAD_REQUEST,
                    "cannot connect to %s: the path of the socket is too long", path);
        free(path);
        return -ENAMETOOLONG;
    }
    *ret = (struct endpoint){.socket = path,
                             .url = xstrdup("http://localhost"),
                             .is_named =
                                 (socket || (environment && *environment)) && !streq(path, SYSTEM_SOCKET)};
    return 0;
}

void endpoint_done(struct endpoint *e)
{
    free(e->socket);
    free(e->url);
    *e = (struct endpoint){0};
}

/* -- Credentials -------------------------------------------------------------------------------------- */

void credentials_done(struct credentials *c)
{
    free(c->token);
    free(c->cacert);
    free(c->cert);
    free(c->key);
    *c = (struct credentials){0};
}

/* "http://localhost:9460", "http://127.0.0.1", "http://[::1]:80". */
static bool is_loopback_url(const char *url)
{
    CURLU *u = curl_url();
    char *host = NULL;
    struct in6_addr ip;

    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK)
        curl_url_get(u, CURLUPART_HOST, &host, 0);
    bool here =
        host && (streq(host, "localhost") || (address_of_host(host, &ip) && address_is_loopback(&ip)));
    curl_free(host);
    curl_url_cleanup(u);
    return here;
}

char *config_file_path(const char *name)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (config && *config == '/')
        return xasprintf("%s/profd/%s", config, name);
    return home && *home == '/' ? xasprintf("%s/.config/profd/%s", home, name) : NULL;
}

int config_file_check_mode(const char *path, const char *subject, struct problem *p)
{
    struct stat st;

    if (stat(path, &st) < 0 || !(st.st_mode & (S_IRWXG | S_IRWXO)))
        return 0;
    problem_remedy(p, "chmod 600 %s", path);
    return problem_set(p, -EPERM, PROBLEM_DENIED, "%s is accessible by other users (mode %04o)", subject,
                       st.st_mode & 07777);
}

/* Errors never quote the file. */
static int credentials_read_token(const char *path, bool named, char **ret, struct problem *p)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;

    int r = read_file(AT_FDCWD, path, TOKEN_FILE_MAX, &data, &size);
    if (r == -ENOENT && !named)
        return 0;
    if (r < 0) {
        if (named && r != -EACCES)
            problem_remedy(p, "Check the path of the token file.");
        problem_remedy(p, "Ask an administrator of that profd for a token: profctl token new NAME.");
        return problem_set(p, r, PROBLEM_BAD_REQUEST, "cannot read the token in %s: %s", path, strerror(-r));
    }
    _cleanup_(freep) char *subject = xasprintf("the token in %s", path);
    r = config_file_check_mode(path, subject, p);
    if (r < 0)
        return r;
    const char *start = data + strspn(data, BLANKS);
    size_t n = strcspn(start, BLANKS);
    bool is_token = n > 0 && start[n + strspn(start + n, BLANKS)] == '\0';
    for (size_t i = 0; i < n; i++)
        is_token = is_token && start[i] > ' ' && start[i] < 0x7f;
    if (!is_token) {
        problem_remedy(p, "Put into it the token as profctl token new prints it.");
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "%s is not a token file: it must contain one word", path);
    }
    *ret = xstrndup(start, n);
    return 0;
}

static int credentials_find_token(const char *option, char **ret, struct problem *p)
{
    const char *environment = getenv("PROFD_TOKEN_FILE");
    _cleanup_(freep) char *fallback = config_file_path("token");

    if (!option && environment && *environment)
        option = environment;
    if (option)
        return credentials_read_token(option, true, ret, p);
    return fallback ? credentials_read_token(fallback, false, ret, p) : 0;
}

int credentials_find(const struct credential_options *o, const char *url, struct credentials *ret,
                     struct problem *p)
{
    _cleanup_(credentials_done) struct credentials c = {
        .cacert = xstrdup(o->cacert), .cert = xstrdup(o->cert), .key = xstrdup(o->key)};

    int r = credentials_find_token(o->token_file, &c.token, p);
    if (r < 0)
        return r;
    if (c.token && starts_with(url, "http://") && !o->plain_http && !is_loopback_url(url)) {
        problem_remedy(p, "Use https://, or --plain-http if the network is protected otherwise.");
        return problem_set(p, -EPERM, PROBLEM_DENIED,
                           "cannot send a token to %s: the connection is not encrypted", url);
    }
    *ret = c;
    c = (struct credentials){0}; // NOLINT(clang-analyzer-deadcode.DeadStores): its cleanup reads it
    return 0;
}

void credentials_prepare(const struct credentials *c, CURL *curl)
{
    if (c->token) {
        curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, c->token);
    }
    if (c->cacert)
        curl_easy_setopt(curl, CURLOPT_CAINFO, c->cacert);
    if (c->cert)
        curl_easy_setopt(curl, CURLOPT_SSLCERT, c->cert);
    if (c->key)
        curl_easy_setopt(curl, CURLOPT_SSLKEY, c->key);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
}
