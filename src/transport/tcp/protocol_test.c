/* Goal: what another build of Gyre made is refused in one line that names both protocols, by
 * whoever meets it: a rank its launcher, a rank a host's memory, a rank the peer over TCP. */
#include "transport/rendezvous.h"
#include "transport/tcp/bytes_priv.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gy_test.h"

enum { OTHER_PROTOCOL = GY_RANK_PROTOCOL + 1, MAGIC = 0x676a6f6a, HELLO_BYTES = 28 };

static void expect_named(const char *who, int theirs)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "%s has rank protocol %d, this process %d (gyre ", who,
                   theirs, GY_RANK_PROTOCOL);
    assert_ptr_equal(strstr(gy_error_text(), text), gy_error_text());
    assert_null(strchr(gy_error_text(), '\n'));
}

/* A launcher's greeting of `count` numbers, with a descriptor as all greetings have. */
static gy_status take_greeting(const int32_t *numbers, size_t count)
{
    int sockets[2], segment = -1;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } beside;
    memset(&beside, 0, sizeof(beside));
    assert_ok(gy_transport_rendezvous_pair(sockets));
    int32_t words[8];
    memcpy(words, numbers, count * sizeof(*words));
    struct iovec piece = {.iov_base = words, .iov_len = count * sizeof(*words)};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = beside.bytes,
                             .msg_controllen = sizeof(beside.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(head), &sockets[0], sizeof(int));
    assert_int_equal(sendmsg(sockets[0], &message, MSG_NOSIGNAL), piece.iov_len);
    gy_run_place place;
    const gy_status status = gy_transport_rendezvous_take(sockets[1], &place, &segment);
    assert_true((status == GY_OK) == (segment >= 0));
    if (segment >= 0) {
        assert_int_equal(place.rank, 3);
        assert_int_equal(place.size, 4);
        close(segment);
    }
    close(sockets[0]);
    close(sockets[1]);
    return status;
}

GY_TEST(a_launcher_of_another_build_is_named)
{
    const int32_t same[] = {MAGIC, GY_RANK_PROTOCOL, 3, 4, 0},
                  later[] = {MAGIC, OTHER_PROTOCOL, 3, 4, 0, 9},
                  old[] = {MAGIC, GY_RANK_PROTOCOL, 8, 0}, /* its second number is its rank */
        stranger[] = {1, GY_RANK_PROTOCOL, 3, 4, 0};
    assert_ok(take_greeting(same, 5));
    assert_status(take_greeting(later, 6), GY_FORMAT);
    expect_named("the launcher", OTHER_PROTOCOL);
    assert_status(take_greeting(later, 5), GY_FORMAT);
    expect_named("the launcher", OTHER_PROTOCOL);
    assert_status(take_greeting(old, 4), GY_FORMAT);
    expect_named("the launcher", 6);
    assert_status(take_greeting(stranger, 5), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "sent no greeting of a launcher"));
}

GY_TEST(memory_of_another_build_is_named)
{
    int fd = -1;
    gy_transport *transport = NULL;
    const uint32_t other = OTHER_PROTOCOL, same = GY_RANK_PROTOCOL;
    const off_t at = 8; /* of a segment's protocol: behind its magic number */
    const gy_transport_segment_options options = {.ranks = 1, .pool_bytes = 1 << 20};
    assert_ok(gy_transport_segment_make(&options, &fd));
    assert_int_equal(pwrite(fd, &other, sizeof(other), at), sizeof(other));
    assert_status(gy_transport_shm_open(dup(fd), 0, gy_env_real(), &transport), GY_FORMAT);
    expect_named("the maker of the shared memory", OTHER_PROTOCOL);
    assert_int_equal(pwrite(fd, &same, sizeof(same), at), sizeof(same));
    assert_ok(gy_transport_shm_open(dup(fd), 0, gy_env_real(), &transport));
    gy_transport_close(transport);
    close(fd);
}

static gy_status agree(void *arg, const gy_hello *theirs)
{
    (void)arg;
    (void)theirs;
    return GY_OK;
}

/* What the called end of a connection says of a hello whose first number is `protocol`. */
static gy_status hear_hello(uint64_t protocol)
{
    int sockets[2];
    gy_tcp_wire *wire = NULL, *agreed = NULL;
    gy_greeting *greeting = NULL;
    gy_hello theirs;
    uint8_t words[GY_FRAME_BYTES + HELLO_BYTES] = {0};
    gy_transport_frame_write(
        &(gy_transport_frame){.type = GY_FRAME_HELLO, .size_bytes = HELLO_BYTES}, words);
    gy_mapreduce_put_number(words + GY_FRAME_BYTES, protocol, 4);
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    assert_ok(gy_tcp_wire_new(sockets[1], NULL, false, &wire));
    assert_ok(gy_greeting_new(wire, false, &(gy_hello){.index = 0}, &greeting));
    assert_int_equal(send(sockets[0], words, sizeof(words), MSG_NOSIGNAL), sizeof(words));
    gy_status status = GY_AGAIN;
    for (int round = 0; round < 1000 && status == GY_AGAIN; round++) {
        status = gy_greeting_step(greeting, agree, NULL, &agreed, &theirs);
    }
    gy_error error;
    if (status < 0) {
        gy_error_take(&error, status);
    }
    gy_tcp_wire_close(agreed);
    gy_greeting_free(greeting);
    close(sockets[0]);
    return status < 0 ? gy_error_raise(&error) : status;
}

GY_TEST(a_peer_of_another_build_is_named)
{
    assert_ok(hear_hello(GY_RANK_PROTOCOL));
    assert_status(hear_hello(1), GY_FORMAT);
    expect_named("the peer", 1);
}

GY_TEST_MAIN(NULL, NULL)
