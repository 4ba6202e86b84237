/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a connection over loopback is: by the text of /proc/net/tcp, and by the kernel's. */
#include "client/transport/peer_user.h"

#include "tests/unit/cmocka-all.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in end_of(const char *address, int port)
{
    struct sockaddr_in end = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    assert_int_equal(inet_pton(AF_INET, address, &end.sin_addr), 1);
    return end;
}

static void test_text(void **state)
{
    static const char table[] =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 1 1 0 "
        "100\n"
        "   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000   999        0 2 1 0 "
        "20\n"
        "   2: 0100007F:C350 0100007F:1F90 01 00000001:00000000 02:000005A1 00000000  1000        0 3 2 0 "
        "20\n"
        "  10: 0200007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 4 2 0";
    const struct sockaddr_in relay = end_of("127.0.0.1", 8080), client = end_of("127.0.0.1", 50000),
                             other = end_of("127.0.0.2", 50000);

    assert_int_equal(peer_user_find(table, &client, &relay), 1000);
    assert_int_equal(peer_user_find(table, &relay, &client), 999);
    assert_int_equal(peer_user_find(table, &other, &relay), 1001);
    assert_int_equal(peer_user_find(table, &relay, &other), (uid_t)-1);
    assert_int_equal(peer_user_find("", &client, &relay), (uid_t)-1);
    assert_int_equal(peer_user_find("\n\n2: zz", &client, &relay), (uid_t)-1);
}

static void test_connection(void **state)
{
    struct sockaddr_in address = end_of("127.0.0.1", 0);
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, size), 0);
    int accepted = accept(listener, NULL, NULL);
    assert_int_equal(peer_user(accepted), geteuid());
    assert_int_equal(peer_user(STDIN_FILENO), (uid_t)-1);
    close(accepted);
    close(client);
    close(listener);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_connection)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
