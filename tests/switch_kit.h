/*
 * Test hosts whose network is a process of ours: each is a network namespace with a tunnel
 * device, and a switch carries packets between them, or does not: it can lose some, hold them
 * up, and cut one way or both, without the kernel's help. Needs /dev/net/tun.
 */
#ifndef GY_TESTS_SWITCH_KIT_H
#define GY_TESTS_SWITCH_KIT_H

#include "hosts_kit.h"

#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* One more than kit_hosts has: the user's and the name server's. */
enum { SWITCH_HOSTS = KIT_HOSTS + 1, SWITCH_QUEUE = 8192, SWITCH_PACKET = 2048 };

/* Shared with the switch. */
typedef struct switch_rules {
    _Atomic uint32_t lost[SWITCH_HOSTS][SWITCH_HOSTS]; /* of 1000, from a host to another */
    _Atomic uint32_t delay_ms;
    _Atomic uint64_t passed, dropped;
} switch_rules;

typedef struct kit_switch {
    kit_hosts *hosts;
    switch_rules *rules;
    int files[SWITCH_HOSTS];
    pid_t process;
} kit_switch;

typedef struct switch_packet {
    int64_t due_ns;
    int to;
    uint16_t size_bytes;
    uint8_t data[SWITCH_PACKET];
} switch_packet;

/* The switch's whole life. Packets keep their order: all wait as long. */
static inline void switch_run(const kit_switch *at, uint64_t seed)
{
    switch_packet *queue = gy_alloc("test", SWITCH_QUEUE * sizeof(*queue));
    size_t head = 0, count = 0;
    while (queue != NULL) {
        struct pollfd looks[SWITCH_HOSTS];
        int64_t now_ns = gy_now_ns(gy_env_real());
        for (; count > 0 && queue[head].due_ns <= now_ns; count--) {
            switch_packet *first = &queue[head];
            (void)!write(at->files[first->to], first->data, first->size_bytes);
            head = (head + 1) % SWITCH_QUEUE;
        }
        for (int i = 0; i < SWITCH_HOSTS; i++) {
            looks[i] = (struct pollfd){.fd = at->files[i], .events = POLLIN};
        }
        int wait_ms = count > 0 ? (int)((queue[head].due_ns - now_ns) / 1000000 + 1) : 1000;
        (void)poll(looks, SWITCH_HOSTS, wait_ms);
        for (int i = 0; i < SWITCH_HOSTS; i++) {
            switch_packet *next = &queue[(head + count) % SWITCH_QUEUE];
            ssize_t size = (looks[i].revents & POLLIN) != 0 && count < SWITCH_QUEUE
                               ? read(at->files[i], next->data, sizeof(next->data))
                               : 0;
            int to = size >= 20 && next->data[0] >> 4 == 4 ? next->data[19] - 1 : -1;
            if (to < 0 || to >= SWITCH_HOSTS) {
                continue;
            }
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if ((seed >> 33) % 1000 < atomic_load(&at->rules->lost[i][to])) {
                atomic_fetch_add(&at->rules->dropped, 1);
                continue;
            }
            atomic_fetch_add(&at->rules->passed, 1);
            next->to = to;
            next->size_bytes = (uint16_t)size;
            next->due_ns =
                gy_now_ns(gy_env_real()) + (int64_t)atomic_load(&at->rules->delay_ms) * 1000000;
            count++;
        }
    }
    _exit(1);
}

/* A tunnel device in a host's namespace; -1: not here. */
static inline int switch_device(const char *name)
{
    char path[64];
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(path, sizeof(path), "/run/netns/%s", name);
    snprintf(request.ifr_name, sizeof(request.ifr_name), "eth0");
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int other = open(path, O_RDONLY | O_CLOEXEC);
    int file = -1;
    if (own >= 0 && other >= 0 && setns(other, CLONE_NEWNET) == 0) {
        file = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
        if (file >= 0 && ioctl(file, TUNSETIFF, &request) != 0) {
            close(file);
            file = -1;
        }
        assert_int_equal(setns(own, CLONE_NEWNET), 0);
    }
    close(own);
    close(other);
    return file;
}

static inline bool switch_join(kit_switch *at, int host)
{
    char line[512], name[32];
    kit_name(at->hosts, host, name);
    snprintf(line, sizeof(line), "ip netns add %s", name);
    if (kit_command(line) != 0) {
        return false;
    }
    at->files[host] = switch_device(name);
    snprintf(line, sizeof(line),
             "ip -n %s link set lo up && ip -n %s addr add 10.7.7.%d/24 dev eth0 && "
             "ip -n %s link set eth0 up",
             name, name, host + 1, name);
    return at->files[host] >= 0 && kit_command(line) == 0;
}

/* False: there can be none here, which is said. */
static inline bool switch_open(kit_switch *at, kit_hosts *hosts, uint64_t seed)
{
    kit_sweep_hosts();
    *hosts = (kit_hosts){.port = 20000 + (int)getpid() % 10000, .owner = (int)getpid()};
    snprintf(hosts->folder, sizeof(hosts->folder), "/tmp/gyre-hosts-XXXXXX");
    assert_non_null(mkdtemp(hosts->folder));
    *at = (kit_switch){.hosts = hosts, .files = {-1, -1, -1, -1}};
    hosts->is_real = true;
    for (int host = 0; host < SWITCH_HOSTS && hosts->is_real; host++) {
        hosts->is_real = switch_join(at, host);
    }
    if (!hosts->is_real) {
        printf("no network namespaces with tunnel devices here: the hosts are loopback\n");
    }
    at->rules = mmap(NULL, sizeof(*at->rules), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at->rules != MAP_FAILED);
    fflush(NULL);
    at->process = hosts->is_real ? fork() : 0;
    assert_true(at->process >= 0);
    if (hosts->is_real && at->process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        switch_run(at, seed);
    }
    return hosts->is_real;
}

static inline void switch_close(kit_switch *at)
{
    if (at->process > 0) {
        kill(at->process, SIGKILL);
        (void)waitpid(at->process, NULL, 0);
    }
    for (int host = 0; host < SWITCH_HOSTS; host++) {
        if (at->files[host] >= 0) {
            close(at->files[host]);
        }
    }
    (void)munmap(at->rules, sizeof(*at->rules));
    kit_hosts_close(at->hosts);
}

/* So many of 1000 packets are lost on the way out of a host, and on the way in. */
static inline void switch_lose(kit_switch *at, int host, uint32_t out, uint32_t in)
{
    for (int i = 0; i < SWITCH_HOSTS; i++) {
        if (i != host) {
            atomic_store(&at->rules->lost[host][i], out);
            atomic_store(&at->rules->lost[i][host], in);
        }
    }
}

#endif
