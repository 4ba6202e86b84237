/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/config.h"
#include "daemon/config_keys.h"
#include "tests/unit/cmocka-all.h"
#include <stdlib.h>
#include <sys/syslog.h>

struct parsed {
    struct config config;
    struct config_errors errors;
};

static struct parsed parse_bytes(const char *data, size_t size)
{
    struct parsed p = {0};
    config_init(&p.config);
    int r = config_parse(&p.config, "x.conf", data, size, &p.errors);
    assert_int_equal(r, p.errors.n ? -EINVAL : 0);
    return p;
}

static struct parsed parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static void parsed_done(struct parsed *p)
{
    config_done(&p->config);
    config_errors_done(&p->errors);
}

static void test_defaults(void **state)
{
    _cleanup_(parsed_done) struct parsed p = parse("");

    assert_null(p.config.state_dir);
    assert_null(p.config.api.listen);
    assert_string_equal(p.config.api.group, "profd");
    assert_int_equal(p.config.log_level, LOG_INFO);
    assert_int_equal(p.config.session.connect_timeout_ns, 3 * NS_PER_S);
    assert_int_equal(p.config.fleet.identify_timeout_ns, 5 * NS_PER_S);
    assert_int_equal(p.config.session.start_timeout_ns, 30 * NS_PER_S);
    assert_int_equal(p.config.session.clean_timeout_ns, 60 * NS_PER_S);
    assert_int_equal(p.config.session.stop_timeout_ns, 1800 * NS_PER_S);
    assert_int_equal(p.config.session.session_limit_ns, 600 * NS_PER_S);
    assert_int_equal(p.config.session.sessions_max, 32);
    assert_int_equal(p.config.fleet.workers_max, FLEET_WORKERS_MAX_DEFAULT);
    assert_int_equal(p.config.collect.collect_mode, COLLECT_COPY);
    assert_int_equal(p.config.collect.remove_original, 0);
    assert_int_equal(p.config.collect.file_max, INT64_C(64) << 30);
    assert_int_equal(p.config.store.max_use, 0);
    assert_int_equal(p.config.store.per_user, 0);
    assert_int_equal(p.config.fleet.n_fleets, 0);
}

static void test_every_section(void **state)
{
    _cleanup_(parsed_done) struct parsed p =
        parse("\xef\xbb\xbf# a comment behind an editor's mark\r\n"
              "[profd]\r\n"
              "  state_dir = /srv/a path  ; with a comment\r\n"
              "listen=localhost:9460 # and another\n"
              "log_level: debug\n"
              "[timeouts]\n"
              "stop=1h30min\n"
              "[limits]\nworkers=7\nsessions=2\n"
              "[collect]\nmode=reference\nwatch=/a\nwatch=/b\nremove_original=yes\n"
              "[store]\nmax_use=1.5T\nkeep_free=auto\nper_user=20%\n"
              "[fleet east-1]\n"
              "worker=10.0.0.1:8000/\nworker=http://[::1]:8001\n"
              "map_path=/a:/b\nmap_path=/c:/d\n"
              "token_file=/t\n"
              "[worker http://[2001:db8::1]:15000/]\nrole=decode\n"
              "admin_token_file=/admin");
    const struct config *c = &p.config;

    for (size_t i = 0; i < p.errors.n; i++)
        fprintf(stderr, "%s\n", p.errors.items[i]);
    assert_int_equal(p.errors.n, 0);
    assert_string_equal(c->state_dir, "/srv/a path");
    assert_string_equal(c->api.listen, "localhost:9460");
    assert_int_equal(c->log_level, LOG_DEBUG);
    assert_int_equal(c->session.stop_timeout_ns, 5400 * NS_PER_S);
    assert_int_equal(c->fleet.workers_max, 7);
    assert_int_equal(c->session.sessions_max, 2);
    assert_int_equal(c->collect.collect_mode, COLLECT_REFERENCE);
    assert_int_equal(c->collect.remove_original, 1);
    assert_int_equal(c->collect.n_watch, 2);
    assert_string_equal(c->collect.watch[1], "/b");
    assert_int_equal(c->store.max_use, (INT64_C(3) << 40) / 2);
    assert_int_equal(c->store.per_user, -20);
    assert_int_equal(c->fleet.n_fleets, 1);
    assert_string_equal(c->fleet.fleets[0].name, "east-1");
    assert_int_equal(c->fleet.fleets[0].n_workers, 2);
    assert_string_equal(c->fleet.fleets[0].workers[0], "http://10.0.0.1:8000");
    assert_string_equal(c->fleet.fleets[0].workers[1], "http://[::1]:8001");
    assert_int_equal(c->fleet.fleets[0].n_maps, 2);
    assert_string_equal(c->fleet.fleets[0].maps[1].from, "/c");
    assert_string_equal(c->fleet.fleets[0].maps[1].to, "/d");
    assert_string_equal(c->fleet.fleets[0].credentials.token_file, "/t");
    assert_string_equal(c->fleet.fleets[0].dialect, "auto");
    assert_int_equal(c->fleet.n_workers, 1);
    assert_string_equal(c->fleet.workers[0].url, "http://[2001:db8::1]:15000");
    assert_int_equal(c->fleet.workers[0].role, ROLE_DECODE);
    assert_string_equal(c->fleet.workers[0].credentials.admin_token_file, "/admin");
}

/* Each alone, so that none hides behind another. */
static void test_garbage(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"[timeouts]\n\nstop=fast\n",
         "x.conf:3: [timeouts] stop=fast: must be a duration such as 30min, from 100ms to 7d"},
        {"[timeouts]\nstop=infinity\n",
         "x.conf:2: [timeouts] stop=infinity: must be a duration such as 30min, from 100ms to 7d"},
        {"[timeouts]\nstop=0\n",
         "x.conf:2: [timeouts] stop=0: must be a duration such as 30min, from 100ms to 7d"},
        {"[timeouts]\nstopp=3s\n", "x.conf:2: [timeouts] stopp: no such key; did you mean stop?"},
        {"[limits]\nanswers=64M\n", "x.conf:2: [limits] answers: this key was renamed to response_memory"},
        {"[store]\nxyzzy=3\n",
         "x.conf:2: [store] xyzzy: no such key; there are max_use, keep_free, per_user"},
        {"[timeots]\nstop=1s\n", "x.conf:1: [timeots]: no such section; did you mean [timeouts]?"},
        {"[fleet]\n", "x.conf:1: [fleet]: no such section; did you mean [fleet NAME]?"},
        {"[quux 1]\n",
         "x.conf:1: [quux 1]: no such section; there are [profd], [timeouts], [limits], "
         "[collect], [store], [load], [http], [web], [network], [kineto], [hosts], [peer NAME], "
         "[archive], [mirror], [fleet NAME] and [worker URL]"},
        {"[profd\nlog_level=info\n", "x.conf:1: [profd: must be a heading such as [profd]"},
        {"log_level=info\n", "x.conf:1: log_level: stands before the first [heading]"},
        {"[profd]\nloud\n", "x.conf:2: must be KEY = VALUE, a [heading] or a # comment"},
        {"[profd]\nlog_level=\n",
         "x.conf:2: [profd] log_level=: must be error, warning, notice, info or debug"},
        {"[profd]\nstate_dir=here\n", "x.conf:2: [profd] state_dir=here: must be an absolute path"},
        {"[profd]\ngroup=a b\n", "x.conf:2: [profd] group=a b: must be the name of a group"},
        {"[limits]\nworkers=1e3\n", "x.conf:2: [limits] workers=1e3: must be a number from 1 to 100000"},
        {"[limits]\nsessions=-1\n", "x.conf:2: [limits] sessions=-1: must be a number from 1 to 1000"},
        {"[limits]\nsessions=99999999999999999999\n",
         "x.conf:2: [limits] sessions=99999999999999999999: must be a number from 1 to 1000"},
        {"[collect]\nmode=move\n", "x.conf:2: [collect] mode=move: must be copy or reference"},
        {"[collect]\nremove_original=maybe\n",
         "x.conf:2: [collect] remove_original=maybe: must be yes or no"},
        {"[store]\nper_user=0%\n", "x.conf:2: [store] per_user=0%: must be a size such as 50G, at least 1M, "
                                   "a part of max_use= such as 20%, or auto"},
        {"[store]\nper_user=101%\n", "x.conf:2: [store] per_user=101%: must be a size"},
        {"[store]\nper_user=5\n", "x.conf:2: [store] per_user=5: must be a size"},
        {"[store]\nper_user=%\n", "x.conf:2: [store] per_user=%: must be a size"},
        {"[store]\nper_user=-5%\n", "x.conf:2: [store] per_user=-5%: must be a size"},
        {"[store]\nmax_use=10%\n",
         "x.conf:2: [store] max_use=10%: must be a size such as 200G, at least 1M, or auto"},
        {"[fleet a]\nworker=http://x:1\ndialect=latin\n",
         "x.conf:3: [fleet a] dialect=latin: must be one of auto, "},
        {"[fleet a]\nworker=ftp://x\n",
         "x.conf:2: [fleet a] worker=ftp://x: must be a URL such as http://10.0.0.1:3521: "},
        {"[fleet a]\nworker=http://x:1\nmap_path=/a\n",
         "x.conf:3: [fleet a] map_path=/a: must be two absolute paths, /in/the/container:/on/this/host"},
        {"[fleet a]\nworker=http://x:1\ntrace_dir=s3://b\n",
         "x.conf:3: [fleet a] trace_dir=s3://b: must be an absolute path on the worker's host"},
        {"[profd]\n\n[fleet a]\nworker=http://x:1\nrouter=http://y:2\n",
         "x.conf:3: [fleet a]: router= and worker= exclude each other"},
        {"[fleet a]\n", "x.conf:1: [fleet a]: must have one of router=, router_log=, worker=, targets="},
        {"[fleet a]\nrouter_log=/log\ntargets=/t.json\n",
         "x.conf:1: [fleet a]: router_log= and targets= exclude each other"},
        {"[fleet a]\ntargets=t.json\n",
         "x.conf:1: [fleet a]: targets=t.json must be an absolute path or a URL"},
        {"[fleet a]\nrouter=http://x:1\nport=8000\n", "x.conf:1: [fleet a]: port is for "},
        {"[fleet ../a]\n", "x.conf:1: [fleet ../a]: the name must be letters"},
        {"[worker grpc://x:1]\n",
         "x.conf:1: [worker grpc://x:1]: must be a URL such as http://10.0.0.1:3521: "},
        {"[worker http://x:1]\nrole=chief\n",
         "x.conf:2: [worker http://x:1] role=chief: must be regular, prefill, decode, encode or unknown"},
        {"[profd]\nlisten=127.0.0.1:1, node7:9460\n",
         "x.conf:2: [profd] listen=127.0.0.1:1, node7:9460: must be an address and a port"},
        {"[http]\nopen_to=10.0.0.0/33\n",
         "x.conf:2: [http] open_to=10.0.0.0/33: the prefix must be from 0 to 32 bits"},
        {"[http]\nopen_to=10.0.0.1/8\n", "x.conf:2: [http] open_to=10.0.0.1/8: bits are set "},
        {"[http]\nopen_to=node7\n",
         "x.conf:2: [http] open_to=node7: must be an address, or a range of them such as 10.0.0.0/8"},
        {"[http]\nhost=node7:9460\n",
         "x.conf:2: [http] host=node7:9460: must be the name of a host, without a port"},
        {"[profd]\nlisten=127.0.0.1\n", "x.conf:2: [profd] listen=127.0.0.1: must be an address and a port"},
        {"[profd]\nlisten=127.0.0.1:99999\n",
         "x.conf:2: [profd] listen=127.0.0.1:99999: must be an address and a port"},
        {"[network]\nallow=example.com\n",
         "x.conf:2: [network] allow=example.com: example.com is no address, network, "},
        {"[network]\nallow=10.0.0.1/8\n", "x.conf:2: [network] allow=10.0.0.1/8: 10.0.0.1/8: bits are set "},
        {"[fleet a]\nrouter=http://203.0.113.9:1\n[network]\nallow=10.0.0.0/8\n",
         "x.conf:1: [fleet a] router=http://203.0.113.9:1: 203.0.113.9 is outside of [network] allow="},
        {"[fleet a]\nworker=http://10.0.0.1:1\nworker=http://[2001:db8::9]:1\n",
         "x.conf:1: [fleet a] worker=http://[2001:db8::9]:1: [2001:db8::9] is outside of [network] allow="},
        {"[network]\nallow=0.0.0.0/0\n[fleet a]\nrouter=http://169.254.169.254:1\n",
         "x.conf:3: [fleet a] router=http://169.254.169.254:1: 169.254.169.254 is where a cloud hands out "},
        {"[profd]\nlog_level=in\x07"
         "fo\n",
         "x.conf:2: there is a control character (byte 0x07)"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(parsed_done) struct parsed p = parse(cases[i].text);
        if (p.errors.n != 1 || !starts_with(p.errors.items[0], cases[i].error))
            fail_msg("%s gave %zu errors, the first: %s", cases[i].text, p.errors.n,
                     p.errors.n ? p.errors.items[0] : "-");
    }
}

static void test_all_errors_at_once(void **state)
{
    _cleanup_(parsed_done) struct parsed p =
        parse("[profd]\nlog_level=loud\n[timeots]\nanything=1\n[limits]\nworkers=0\nsessions=3\n");

    assert_int_equal(p.errors.n, 3);
    assert_true(starts_with(p.errors.items[0], "x.conf:2: "));
    assert_true(starts_with(p.errors.items[1], "x.conf:3: "));
    assert_true(starts_with(p.errors.items[2], "x.conf:6: "));
    assert_int_equal(p.config.session.sessions_max, 3);
}

static void test_errors_are_bounded(void **state)
{
    _cleanup_(freep) char *text = xcalloc(1, 100 * 4 + 16);

    strcpy(text, "[profd]\n");
    for (int i = 0; i < 100; i++)
        strcat(text, "x=1\n");
    _cleanup_(parsed_done) struct parsed p = parse(text);
    assert_int_equal(p.errors.n, CONFIG_ERRORS_MAX + 1);
    assert_string_equal(p.errors.items[CONFIG_ERRORS_MAX], "... and more");
}

static void test_long_lines(void **state)
{
    char path[1200], text[1400];

    memset(path, 'x', sizeof(path));
    path[0] = '/';
    snprintf(text, sizeof(text), "[profd]\nstate_dir=%.900s\n", path);
    _cleanup_(parsed_done) struct parsed fits = parse(text);
    assert_int_equal(fits.errors.n, 0);
    assert_int_equal(strlen(fits.config.state_dir), 900);

    snprintf(text, sizeof(text), "[profd]\nstate_dir=%.1100s\nlog_level=err\n", path);
    _cleanup_(parsed_done) struct parsed longer = parse(text);
    assert_int_equal(longer.errors.n, 2);
    assert_string_equal(longer.errors.items[0], "x.conf:2: the line is longer than 1000 bytes");
    assert_null(longer.config.state_dir);
    assert_true(starts_with(longer.errors.items[1], "x.conf:3: "));
}

/* inih cuts a heading after 49 bytes and at the first ']'. */
static void test_long_headings(void **state)
{
    _cleanup_(parsed_done) struct parsed p = parse(
        "[worker http://a-host-with-a-rather-long-name.of-a-cluster.example.com:15000]\nrole=decode\n"
        "[worker http://a-host-with-a-rather-long-name.of-a-cluster.example.com:15001]\nrole=prefill\n");

    assert_int_equal(p.errors.n, 0);
    assert_int_equal(p.config.fleet.n_workers, 2);
    assert_string_equal(p.config.fleet.workers[1].url,
                        "http://a-host-with-a-rather-long-name.of-a-cluster.example.com:15001");
    assert_int_equal(p.config.fleet.workers[1].role, ROLE_PREFILL);
}

static void test_nul_bytes(void **state)
{
    static const char text[] = "[profd]\nlog_level=debug\0garbage\n[limits]\nsessions=5";
    _cleanup_(parsed_done) struct parsed p = parse_bytes(text, sizeof(text) - 1);

    assert_int_equal(p.errors.n, 1);
    assert_string_equal(p.errors.items[0], "x.conf:2: there is a control character (byte 0x00)");
    assert_int_equal(p.config.session.sessions_max, 5);
}

static void test_load_orders(void **state)
{
    char dir[] = "/tmp/test-config-XXXXXX", path[64];
    _cleanup_(config_errors_done) struct config_errors errors = {0};
    _cleanup_(config_done) struct config c = {0};
    _cleanup_(freep) char *file = NULL;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/profd.conf", dir);
    FILE *f = fopen(path, "w");
    fputs("[profd]\nstate_dir=/of/the/file\nsocket=/of/the/"
          "file.sock\nlog_level=error\n[timeouts]\nconnect=9s\n",
          f);
    fclose(f);

    struct config_overrides o = {.file = path, .state_dir = "relative", .log_level = "debug"};
    unsetenv("PROFD_SOCKET");
    assert_int_equal(config_load(&o, &c, &file, &errors), 0);
    _cleanup_(freep) char *cwd = getcwd(NULL, 0);
    _cleanup_(freep) char *expected = xasprintf("%s/relative", cwd);
    _cleanup_(freep) char *store = xasprintf("%s/traces", expected);
    assert_string_equal(file, path);
    assert_string_equal(c.state_dir, expected);
    assert_string_equal(c.store.path, store);
    assert_string_equal(c.api.socket, "/of/the/file.sock");
    assert_int_equal(c.log_level, LOG_DEBUG);
    assert_int_equal(c.fleet.connect_timeout_ns, 9 * NS_PER_S);

    _cleanup_(config_done) struct config in_place = {0};
    _cleanup_(freep) char *same_file = NULL;
    setenv("PROFD_SOCKET", "/of/the/environment.sock", 1);
    assert_int_equal(config_load(&o, &in_place, &same_file, &errors), 0);
    assert_string_equal(in_place.api.socket, "/of/the/environment.sock");
    config_done(&in_place);
    replace_str(&same_file, NULL);
    o.socket = "/of/the/option.sock";
    assert_int_equal(config_load(&o, &in_place, &same_file, &errors), 0);
    assert_string_equal(in_place.api.socket, "/of/the/option.sock");
    unsetenv("PROFD_SOCKET");
    unlink(path);

    struct config unused;
    char *no_file;
    assert_int_equal(config_load(&o, &unused, &no_file, &errors), -EINVAL);
    assert_int_equal(errors.n, 1);
    assert_true(starts_with(errors.items[0], "cannot read "));
    rmdir(dir);
}

static void test_exchange(void **state)
{
    static const char shared[] = "[profd]\nstate_dir=/a\nlisten=127.0.0.1:1\n";
    _cleanup_(freep) char *text = xasprintf("%s[profd]\nlog_level=debug\n[limits]\nsessions=7\nconnections="
                                            "9\n[collect]\nwatch=/w\n[store]\nmax_use=5G\n"
                                            "[fleet east]\nrouter=http://10.0.0.1:1\n",
                                            shared);
    _cleanup_(parsed_done) struct parsed live = parse(shared), next = parse(text);
    const char *state_dir = live.config.state_dir;

    assert_null(config_fixed_change(&live.config, &next.config));
    config_exchange(&live.config, &next.config);
    assert_int_equal(live.config.log_level, LOG_DEBUG);
    assert_int_equal(live.config.session.sessions_max, 7);
    assert_int_equal(live.config.api.connections_max, 9);
    assert_int_equal(live.config.store.max_use, INT64_C(5) << 30);
    assert_string_equal(live.config.collect.watch[0], "/w");
    assert_string_equal(live.config.fleet.fleets[0].name, "east");
    assert_ptr_equal(live.config.state_dir, state_dir);
    assert_int_equal(next.config.fleet.n_fleets, 0);
}

static void test_fixed_keys(void **state)
{
    static const struct {
        const char *text, *key;
    } cases[] = {
        {"[profd]\nstate_dir=/a\nsocket=/s\ngroup=g\n", NULL},
        {"[profd]\nstate_dir=/b\nsocket=/s\ngroup=g\n", "state_dir"},
        {"[profd]\nstate_dir=/a\nsocket=/t\ngroup=g\n", "socket"},
        {"[profd]\nstate_dir=/a\ngroup=g\n", "socket"},
        {"[profd]\nstate_dir=/a\nsocket=/s\n", "group"},
        {"[profd]\nstate_dir=/a\nsocket=/s\ngroup=g\nlisten=127.0.0.1:1\n", "listen"},
        {"[profd]\nstate_dir=/a\nsocket=/s\ngroup=g\n[kineto]\nlisten=abstract\n", "listen"},
    };
    _cleanup_(parsed_done) struct parsed live = parse(cases[0].text);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(parsed_done) struct parsed next = parse(cases[i].text);
        const struct config_key *key = config_fixed_change(&live.config, &next.config);
        assert_true(streq(key ? key->name : NULL, cases[i].key));
        if (key)
            assert_int_equal(key->section, i == ARRAY_SIZE(cases) - 1 ? SECTION_KINETO : SECTION_PROFD);
    }
}

/* Everything that the file can say of fleets and workers, and nothing shared. */
static void test_settings_copy(void **state)
{
    struct parsed p =
        parse("[fleet a]\nworker=10.0.0.1:1\nworker=10.0.0.2:1\nmap_path=/a:/b\ntrace_dir=/t\noutput_dir=/o\n"
              "token_file=/1\nadmin_token_file=/2\nca_file=/3\ncert_file=/4\nkey_file=/5\ndialect=auto\n"
              "[fleet b]\nrouter=http://10.0.0.3:1\n[fleet c]\nrouter_log=/log\n"
              "[worker 10.0.0.1:1]\nrole=decode\ntrace_dir=/w\noutput_dir=/v\nkey_file=/k\n");
    struct fleet_settings copy;

    assert_int_equal(p.errors.n, 0);
    fleet_settings_copy(&p.config.fleet, &copy);
    parsed_done(&p);
    assert_int_equal(copy.n_fleets, 3);
    assert_string_equal(copy.fleets[0].workers[1], "http://10.0.0.2:1");
    assert_string_equal(copy.fleets[0].maps[0].to, "/b");
    assert_string_equal(copy.fleets[0].output_dir, "/o");
    assert_string_equal(copy.fleets[0].credentials.key_file, "/5");
    assert_string_equal(copy.fleets[1].router, "http://10.0.0.3:1");
    assert_string_equal(copy.fleets[2].router_log, "/log");
    assert_string_equal(settings_worker(&copy, "http://10.0.0.1:1")->output_dir, "/v");
    assert_int_equal(copy.workers[0].role, ROLE_DECODE);
    assert_string_equal(settings_credentials(&copy, "a", "http://10.0.0.1:1")->key_file, "/k");
    assert_int_equal(copy.workers_max, FLEET_WORKERS_MAX_DEFAULT);
    fleet_settings_done(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_section),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_all_errors_at_once),
        cmocka_unit_test(test_errors_are_bounded),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_long_headings),
        cmocka_unit_test(test_nul_bytes),
        cmocka_unit_test(test_load_orders),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_fixed_keys),
        cmocka_unit_test(test_settings_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
