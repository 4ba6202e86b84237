/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peers/settings.h"

#include "base/address.h"
#include "base/alloc.h"
#include "daemon/fleet/source.h"
#include <errno.h>

static void peer_config_done(struct peer_config *p)
{
    free(p->name);
    free(p->url);
    free(p->host_uuid);
    free(p->addresses);
    call_credentials_done(&p->credentials);
}

void hosts_settings_done(struct hosts_settings *s)
{
    for (size_t i = 0; i < s->n_peers; i++)
        peer_config_done(&s->peers[i]);
    for (size_t i = 0; i < s->n_sources; i++)
        free(s->sources[i]);
    free(s->peers);
    free(s->sources);
    free(s->name);
    call_credentials_done(&s->credentials);
    *s = (struct hosts_settings){0};
}

const struct call_credentials *hosts_credentials(const struct hosts_settings *s,
                                                 const struct peer_config *config)
{
    return config && call_credentials_any(&config->credentials) ? &config->credentials : &s->credentials;
}

int peer_source_check(const char *text, const char **reason)
{
    const struct source_config dns = {.source = &source_dns, .value = (char *)text + strlen("dns:")};
    const char *why;

    *reason = "dns:NAME:PORT, slurm, slurm:PORT or workers:PORT";
    if (starts_with(text, "dns:"))
        return source_dns.check(&dns, &why);
    if (starts_with(text, "workers:"))
        return port_parse(text + strlen("workers:")) > 0 ? 0 : -EINVAL;
    if (starts_with(text, "slurm:"))
        return port_parse(text + strlen("slurm:")) > 0 ? 0 : -EINVAL;
    return streq(text, "slurm") ? 0 : -EINVAL;
}
