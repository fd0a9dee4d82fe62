/**
 * A link between two network namespaces that delays packets and loses some: a process that
 * joins two TUN devices. The same seed loses the same packets of each direction.
 */
#ifndef LINK_KIT_H
#define LINK_KIT_H

#include "hosts_kit.h"

#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

enum { LINK_PACKETS = 4096, LINK_BYTES = 2048, LINK_ENDS = 2 };

typedef struct link_options {
    uint64_t seed;
    double delay_s, loss; /* one way; share of packets */
} link_options;

typedef struct link_packet {
    int64_t due_ns;
    size_t size_bytes;
    uint8_t bytes[LINK_BYTES];
} link_packet;

/* Packets on their way out of one end; one that finds no room is lost, as in any queue. */
typedef struct link_way {
    gy_random random;
    size_t first, count;
    link_packet packets[LINK_PACKETS];
} link_way;

/* Does the next packet of this way get lost? */
static inline bool link_loses(link_way *way, double loss)
{
    return gy_random_unit(&way->random) < loss;
}

static inline void link_take(link_way *way, int from, const link_options *options)
{
    link_packet *packet = &way->packets[(way->first + way->count) % LINK_PACKETS];
    ssize_t size = read(from, packet->bytes, sizeof(packet->bytes));
    if (size > 0 && way->count < LINK_PACKETS - 1 && !link_loses(way, options->loss)) {
        packet->size_bytes = (size_t)size;
        packet->due_ns = gy_now_ns(gy_env_real()) + (int64_t)(options->delay_s * 1e9);
        way->count++;
    }
}

/* Pass on what is due; nanoseconds until the next one is. */
static inline int64_t link_give(link_way *way, int to)
{
    int64_t now_ns = gy_now_ns(gy_env_real());
    while (way->count > 0 && way->packets[way->first].due_ns <= now_ns) {
        const link_packet *packet = &way->packets[way->first];
        (void)!write(to, packet->bytes, packet->size_bytes);
        way->first = (way->first + 1) % LINK_PACKETS;
        way->count--;
    }
    return way->count > 0 ? way->packets[way->first].due_ns - now_ns : 1000000000;
}

/* In the link's process: a TUN device in the namespace of `host`; -1 not permitted. */
static inline int link_device(const kit_hosts *hosts, int host)
{
    char path[64], name[32];
    snprintf(path, sizeof(path), "/run/netns/%s", kit_name(hosts, host, name));
    int space = open(path, O_RDONLY | O_CLOEXEC);
    struct ifreq request = {.ifr_name = "far0"};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) {
        return -1;
    }
    close(space);
    int device = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    return device >= 0 && ioctl(device, TUNSETIFF, &request) == 0 ? device : -1;
}

_Noreturn static inline void link_run(const int *devices, const link_options *options)
{
    static link_way ways[LINK_ENDS]; /* into end 0, into end 1 */
    for (int end = 0; end < LINK_ENDS; end++) {
        ways[end].random.key = options->seed + (uint64_t)end;
    }
    for (;;) {
        struct pollfd looks[LINK_ENDS];
        int64_t wait_ns = INT64_MAX;
        for (int end = 0; end < LINK_ENDS; end++) {
            int64_t next_ns = link_give(&ways[end], devices[end]);
            wait_ns = GY_MIN(wait_ns, next_ns);
            looks[end] = (struct pollfd){.fd = devices[end], .events = POLLIN};
        }
        struct timespec wait = {.tv_nsec = GY_MAX(GY_MIN(wait_ns, 999999999), 0)};
        (void)ppoll(looks, LINK_ENDS, &wait, NULL);
        for (int end = 0; end < LINK_ENDS; end++) {
            if ((looks[end].revents & POLLIN) != 0) {
                link_take(&ways[1 - end], devices[end], options);
            }
        }
    }
}

/* Join hosts 0 (10.7.8.1) and 1 (10.7.8.2). The process of the link; -1: not permitted here. */
static inline pid_t link_start(const kit_hosts *hosts, const link_options *options)
{
    int ready[2];
    char byte = 0, line[512], name[32];
    if (!hosts->is_real || pipe(ready) != 0) {
        return -1;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int devices[LINK_ENDS] = {link_device(hosts, 0), link_device(hosts, 1)};
        if (devices[0] < 0 || devices[1] < 0 || write(ready[1], "r", 1) != 1) {
            _exit(1);
        }
        link_run(devices, options);
    }
    close(ready[1]);
    bool is_good = child > 0 && read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    for (int host = 0; host < LINK_ENDS && is_good; host++) {
        kit_name(hosts, host, name);
        snprintf(
            line, sizeof(line),
            "ip -n %s addr add 10.7.8.%d/24 dev far0 && ip -n %s link set far0 mtu 1400 up",
            name, host + 1, name);
        is_good = kit_command(line) == 0;
    }
    if (!is_good && child > 0) {
        kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    }
    return is_good ? child : -1;
}

static inline void link_stop(pid_t link)
{
    kill(link, SIGKILL);
    (void)waitpid(link, NULL, 0);
}

#endif
