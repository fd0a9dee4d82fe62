/* What bare sockets take: nobody who sends through them can be faster. */
#include "wires.h"

#include "base/base.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOPS = 500, HOP_BYTES = 96, PIECE_BYTES = 256 * 1024, FLOW_BYTES = 32 << 20, FLOWS = 9 };

static bool is_crowded;                        /* more ranks than cores */
static int next_rank = -1, previous_rank = -1; /* sockets */

static double now(void)
{
    return (double)gy_now_ns(gy_env_real()) * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "wires: %s: %s\n", what, strerror(errno));
    exit(1);
}

void wires_floor_open(int rank, int size, wires_exchange exchange)
{
    struct sockaddr_in mine = {.sin_family = AF_INET,
                               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    is_crowded = size > sysconf(_SC_NPROCESSORS_ONLN);
    struct sockaddr_in *all = gy_alloc_zero("bench", (size_t)size, sizeof(*all));
    socklen_t bytes = sizeof(mine);
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    next_rank = socket(AF_INET, SOCK_STREAM, 0);
    if (all == NULL || listener < 0 || next_rank < 0 ||
        bind(listener, (struct sockaddr *)&mine, bytes) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&mine, &bytes) != 0) {
        die("a socket");
    }
    exchange(&mine, sizeof(mine), all);
    if (connect(next_rank, (struct sockaddr *)&all[(rank + 1) % size], sizeof(mine)) != 0) {
        die("calling the next rank");
    }
    previous_rank = accept(listener, NULL, NULL);
    if (previous_rank < 0 ||
        setsockopt(next_rank, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0) {
        die("being called");
    }
    close(listener);
    gy_free(all);
}

/* Send `size` bytes on while as many come in. */
static void flow(uint8_t *out, uint8_t *in, size_t size)
{
    size_t sent = 0, got = 0;
    while (sent < size || got < size) {
        size_t most = GY_MIN(size - sent, (size_t)PIECE_BYTES);
        ssize_t put = most == 0 ? 0 : send(next_rank, out, most, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += put > 0 ? (size_t)put : 0;
        most = GY_MIN(size - got, (size_t)PIECE_BYTES);
        ssize_t came = most == 0 ? 0 : recv(previous_rank, in, most, MSG_DONTWAIT);
        got += came > 0 ? (size_t)came : 0;
        if (is_crowded && put <= 0 && came < 0) {
            sched_yield();
        }
        if (came == 0 && most > 0) {
            die("a bare socket");
        }
    }
}

static double least(const double *times)
{
    double best = times[0];
    for (int i = 1; i < FLOWS; i++) {
        best = times[i] < best ? times[i] : best;
    }
    return best;
}

double wires_floor_hop(void)
{
    static uint8_t out[HOP_BYTES], in[HOP_BYTES];
    double times[FLOWS];
    for (int i = 0; i < FLOWS; i++) {
        double start = now();
        for (int hop = 0; hop < HOPS; hop++) {
            flow(out, in, HOP_BYTES);
        }
        times[i] = (now() - start) / HOPS;
    }
    return least(times);
}

double wires_floor_rate(void)
{
    static uint8_t out[PIECE_BYTES], in[PIECE_BYTES];
    double times[FLOWS];
    for (int i = 0; i < FLOWS; i++) {
        double start = now();
        flow(out, in, FLOW_BYTES);
        times[i] = now() - start;
    }
    return FLOW_BYTES / least(times);
}

void wires_floor_close(void)
{
    close(next_rank);
    close(previous_rank);
}
