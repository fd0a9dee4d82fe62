/* Goal: pipes and FIFOs return the bytes that were written, for any graph and ring size;
 * deadlocks are resolved, slow readers bound their writers, and a member's death is reported
 * to the others. */
#include "base/base.h"
#include "flow/channel/cohort_priv.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "gy_test.h"

enum { MEMBERS_MOST = 10, CHANNELS_MOST = 24 };

static char folder[64], path[128];
static int meetings;

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-cohort-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails when a test left a file */
}

/* ---- a graph whose members act on a seed ---- */

typedef struct graph {
    gy_flow_task_channel channels[CHANNELS_MOST];
    uint32_t width, count;
    size_t ring_bytes, bytes[CHANNELS_MOST];
    uint64_t seed;
    const _Atomic bool *is_cancelled;
    gy_env *env; /* NULL: the real one */
    /* how a member uses its channels; NULL: all inputs and outputs in random order */
    gy_status (*work)(const struct graph *graph, uint32_t member, gy_cohort *cohort);
    gy_status results[MEMBERS_MOST];
    uint64_t spilled;
} graph;

static const _Atomic bool never;

static uint8_t byte_at(const graph *of, uint32_t channel, uint64_t at)
{
    return (uint8_t)((at * 2654435761u + channel * 40503u + of->seed) >> 7);
}

static gy_status write_some(const graph *of, gy_cohort *cohort, uint32_t channel, uint64_t from,
                            size_t size)
{
    static _Thread_local uint8_t bytes[70000];
    uint8_t *to = bytes;
    void *room = NULL;
    bool is_in_place = (from + size) % 3 == 0;
    if (is_in_place) {
        GY_TRY(gy_cohort_room(cohort, channel, size + from % 5, &room));
        to = room;
    }
    for (size_t i = 0; i < size; i++) {
        to[i] = byte_at(of, channel, from + i);
    }
    return is_in_place ? gy_cohort_wrote(cohort, channel, size)
                       : gy_cohort_write(cohort, channel, bytes, size);
}

/* Read once; *at advances; *is_over at the end. */
static gy_status read_some(const graph *of, gy_cohort *cohort, uint32_t channel, uint64_t *at,
                           bool *is_over)
{
    const void *data = NULL;
    size_t size = 0;
    GY_TRY(gy_cohort_read(cohort, channel, &data, &size));
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != byte_at(of, channel, *at + i)) {
            return gy_fail(GY_FORMAT, "byte %llu of channel %u is wrong",
                           (unsigned long long)*at + i, channel);
        }
    }
    *at += size;
    *is_over = size == 0;
    if (size == 0 && *at != of->bytes[channel]) {
        return gy_fail(GY_FORMAT, "channel %u ended after %llu of %zu bytes", channel,
                       (unsigned long long)*at, of->bytes[channel]);
    }
    return GY_OK;
}

static gy_status mix(const graph *of, uint32_t member, gy_cohort *cohort)
{
    gy_random random = {.key = of->seed * 31 + member};
    uint64_t at[CHANNELS_MOST] = {0};
    bool is_over[CHANNELS_MOST];
    uint32_t left = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        is_over[i] = of->channels[i].from != member && of->channels[i].to != member;
        left += is_over[i] ? 0 : 1;
    }
    while (left > 0) {
        uint32_t channel = (uint32_t)gy_random_below(&random, of->count);
        for (uint64_t turns = gy_random_below(&random, 4); turns < 5 && !is_over[channel];
             turns++) {
            if (of->channels[channel].to == member) {
                GY_TRY(read_some(of, cohort, channel, &at[channel], &is_over[channel]));
            } else {
                uint64_t missing = of->bytes[channel] - at[channel];
                uint64_t wanted = 1 + gy_random_below(&random, 9000);
                size_t size = (size_t)GY_MIN(missing, wanted);
                GY_TRY(write_some(of, cohort, channel, at[channel], size));
                at[channel] += size;
                is_over[channel] = at[channel] == of->bytes[channel];
            }
            left -= is_over[channel] ? 1 : 0;
        }
    }
    return GY_OK;
}

static gy_status be_member(graph *of, uint32_t member)
{
    gy_cohort_options options = {
        .path = path,
        .folder = folder,
        .width = of->width,
        .member = member,
        .channels = of->channels,
        .channel_count = of->count,
        .ring_bytes = of->ring_bytes,
        .token = {of->seed, 77},
        .is_cancelled = of->is_cancelled,
        .deadline = gy_deadline_after(60),
    };
    gy_cohort *cohort = NULL;
    GY_TRY(gy_cohort_join(of->env != NULL ? of->env : gy_env_real(), &options, &cohort));
    gy_status status =
        of->work != NULL ? of->work(of, member, cohort) : mix(of, member, cohort);
    if (status == GY_OK) {
        status = gy_cohort_close(cohort);
    }
    for (uint32_t i = 0; i < of->count; i++) {
        uint64_t spilled = 0;
        (void)gy_cohort_bytes(cohort, i, &spilled);
        __atomic_fetch_add(&of->spilled, spilled, __ATOMIC_RELAXED);
    }
    gy_cohort_leave(cohort, status == GY_OK);
    return status;
}

typedef struct cohort_member {
    graph *of;
    uint32_t member;
} cohort_member;

static void *sit(void *arg)
{
    const cohort_member *here = arg;
    here->of->results[here->member] = be_member(here->of, here->member);
    if (here->of->results[here->member] < 0) {
        gy_test_say("member %u: %s\n", here->member, gy_error_text());
    }
    return NULL;
}

static void run_threads(graph *of)
{
    snprintf(path, sizeof(path), "%s/cohort.%d", folder, meetings++);
    of->is_cancelled = of->is_cancelled != NULL ? of->is_cancelled : &never;
    gy_thread threads[MEMBERS_MOST];
    cohort_member members[MEMBERS_MOST];
    for (uint32_t i = 0; i < of->width; i++) {
        members[i] = (cohort_member){of, i};
        assert_ok(gy_thread_start(&threads[i], "member", sit, &members[i]));
    }
    for (uint32_t i = 0; i < of->width; i++) {
        gy_thread_join(&threads[i]);
    }
    assert_int_equal(unlink(path), 0);
}

static void assert_all_well(const graph *of)
{
    for (uint32_t i = 0; i < of->width; i++) {
        assert_int_equal(of->results[i], GY_OK);
    }
}

/* ---- tests ---- */

GY_TEST(random_graphs_end_with_the_right_bytes)
{
    uint64_t seed = gy_test_seed();
    for (long round = 0; round < gy_test_cases(80); round++) {
        gy_random random = {.key = seed + (uint64_t)round};
        graph of = {
            .width = 2 + (uint32_t)gy_random_below(&random, MEMBERS_MOST - 1),
            .ring_bytes = (size_t)4096 << gy_random_below(&random, 4),
            .seed = seed + (uint64_t)round,
        };
        of.count = 1 + (uint32_t)gy_random_below(&random, CHANNELS_MOST);
        uint64_t pipes = gy_random_below(&random, 4);
        for (uint32_t i = 0; i < of.count; i++) {
            uint32_t from = (uint32_t)gy_random_below(&random, of.width - 1);
            uint32_t to = from + 1 + (uint32_t)gy_random_below(&random, of.width - 1 - from);
            of.channels[i] = (gy_flow_task_channel){(uint16_t)from, (uint16_t)to,
                                                    gy_random_below(&random, 3) < pipes};
            of.bytes[i] = (size_t)gy_random_below(&random, 120000);
        }
        run_threads(&of);
        for (uint32_t i = 0; i < of.width; i++) {
            if (of.results[i] != GY_OK) {
                fail_msg("round %ld: member %u of %u failed", round, i, of.width);
            }
        }
    }
}

/* Member 0 writes to both channels in turn; member 1 reads the first to its end before the
 * second. */
static gy_status join_by_hash(const graph *of, uint32_t member, gy_cohort *cohort)
{
    for (uint64_t at = 0; member == 0 && at < of->bytes[0]; at += 10000) {
        GY_TRY(write_some(of, cohort, 0, at, 10000));
        GY_TRY(write_some(of, cohort, 1, at, 10000));
    }
    for (uint32_t i = 0; member == 1 && i < 2; i++) {
        uint64_t at = 0;
        for (bool is_over = false; !is_over;) {
            GY_TRY(read_some(of, cohort, 1 - i, &at, &is_over));
        }
    }
    return GY_OK;
}

GY_TEST(a_hash_join_ends_on_any_ring)
{
    for (int kinds = 0; kinds < 4; kinds++) {
        for (size_t ring = 4096; ring <= 1 << 20; ring *= 16) {
            graph of = {
                .channels = {{0, 1, (kinds & 1) != 0}, {0, 1, (kinds & 2) != 0}},
                .width = 2,
                .count = 2,
                .ring_bytes = ring,
                .bytes = {8000000, 8000000},
                .seed = (uint64_t)kinds,
                .work = join_by_hash,
            };
            run_threads(&of);
            assert_all_well(&of);
            assert_true(of.spilled > 0 || (kinds & 1) != 0);
        }
    }
}

/* Member 0 writes to 1 and 2, both write to 3, which reads all of 1's bytes before any of
 * 2's. */
static gy_status diamond(const graph *of, uint32_t member, gy_cohort *cohort)
{
    uint64_t in = 0, other = 0;
    bool is_over = member == 0;
    for (uint64_t at = 0; member == 0 && at < of->bytes[0]; at += 5000) {
        GY_TRY(write_some(of, cohort, 1, at, 5000));
        GY_TRY(write_some(of, cohort, 0, at, 5000));
    }
    while (!is_over && member < 3) {
        uint64_t before = in;
        GY_TRY(read_some(of, cohort, member - 1, &in, &is_over));
        for (uint64_t at = before; at < in; at += 5000) {
            GY_TRY(write_some(of, cohort, member + 1, at, (size_t)GY_MIN(in - at, 5000)));
        }
    }
    while (!is_over) {
        GY_TRY(read_some(of, cohort, 2, &in, &is_over));
    }
    for (is_over = member != 3; !is_over;) {
        GY_TRY(read_some(of, cohort, 3, &other, &is_over));
    }
    return GY_OK;
}

static const graph diamond_graph = {
    .channels = {{0, 1, false}, {0, 2, false}, {1, 3, false}, {2, 3, false}},
    .width = 4,
    .count = 4,
    .ring_bytes = 4096,
    .bytes = {1000000, 1000000, 1000000, 1000000},
    .work = diamond,
};

GY_TEST(diamonds_end)
{
    for (int pipe = -1; pipe < 4; pipe++) {
        graph of = diamond_graph;
        if (pipe >= 0) {
            of.channels[pipe].is_pipe = true;
        }
        run_threads(&of);
        assert_all_well(&of);
    }
}

/* The same with a process for each member. */
GY_TEST(diamonds_end_in_processes)
{
    snprintf(path, sizeof(path), "%s/cohort.%d", folder, meetings++);
    graph of = diamond_graph;
    of.is_cancelled = &never;
    of.channels[2].is_pipe = true;
    pid_t pids[4];
    for (uint32_t i = 0; i < 4; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            _exit(be_member(&of, i) == GY_OK ? 0 : 1);
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(unlink(path), 0);
}

/* The reader is slow but waits for nobody else, so its writer waits and nothing is spilled. */
static gy_status chain(const graph *of, uint32_t member, gy_cohort *cohort)
{
    uint64_t in = 0, out = 0;
    for (bool is_over = member == 0; !is_over;) {
        GY_TRY(read_some(of, cohort, member - 1, &in, &is_over));
        while (member < 2 && out < in) {
            size_t size = (size_t)GY_MIN(in - out, 3000);
            GY_TRY(write_some(of, cohort, member, out, size));
            out += size;
        }
    }
    while (member == 0 && out < of->bytes[0]) {
        GY_TRY(write_some(of, cohort, 0, out, 3000));
        out += 3000;
    }
    return GY_OK;
}

GY_TEST(a_slow_reader_makes_nobody_spill)
{
    graph of = {
        .channels = {{0, 1, false}, {1, 2, false}},
        .width = 3,
        .count = 2,
        .ring_bytes = 4096,
        .bytes = {3000000, 3000000},
        .work = chain,
    };
    run_threads(&of);
    assert_all_well(&of);
    assert_int_equal(of.spilled, 0);
}

/* Member 1 ends in order after a few bytes; member 0's further bytes are discarded. */
static gy_status leave_early(const graph *of, uint32_t member, gy_cohort *cohort)
{
    bool is_over = false;
    uint64_t at = 0;
    for (; member == 0 && at < of->bytes[0]; at += 60000) {
        GY_TRY(write_some(of, cohort, 0, at, 60000));
    }
    return member == 0 ? GY_OK : read_some(of, cohort, 0, &at, &is_over);
}

GY_TEST(a_reader_may_leave_early)
{
    for (int pipe = 0; pipe < 2; pipe++) {
        graph of = {
            .channels = {{0, 1, pipe == 1}},
            .width = 2,
            .count = 1,
            .ring_bytes = 4096,
            .bytes = {60000 * 300},
            .work = leave_early,
        };
        run_threads(&of);
        assert_all_well(&of);
    }
}

/* Member 1 fails; or is killed, if it is a process. */
static gy_status fail_one(const graph *of, uint32_t member, gy_cohort *cohort)
{
    uint64_t at = 0;
    bool is_over = false;
    if (member == 1) {
        GY_TRY(read_some(of, cohort, 0, &at, &is_over));
        if (of->seed == 1) {
            (void)raise(SIGKILL);
        }
        return gy_fail(GY_NUMERIC, "as asked");
    }
    for (; member == 0; at += 30000) {
        GY_TRY(write_some(of, cohort, 0, at, 30000));
    }
    for (; !is_over;) {
        GY_TRY(read_some(of, cohort, 1, &at, &is_over));
    }
    return GY_OK;
}

static const graph failing_graph = {
    .channels = {{0, 1, false}, {1, 2, false}},
    .width = 3,
    .count = 2,
    .ring_bytes = 4096,
    .bytes = {SIZE_MAX, SIZE_MAX},
    .work = fail_one,
};

GY_TEST(a_failure_breaks_the_cohort)
{
    for (int pipe = 0; pipe < 2; pipe++) {
        graph of = failing_graph;
        of.channels[0].is_pipe = of.channels[1].is_pipe = pipe == 1;
        run_threads(&of);
        assert_int_equal(of.results[0], GY_PEER);
        assert_int_equal(of.results[1], GY_NUMERIC);
        assert_int_equal(of.results[2], GY_PEER);
    }
}

GY_TEST(a_killed_member_is_noticed)
{
    for (int pipe = 0; pipe < 2; pipe++) {
        snprintf(path, sizeof(path), "%s/cohort.%d", folder, meetings++);
        graph of = failing_graph;
        of.is_cancelled = &never;
        of.seed = 1;
        of.channels[0].is_pipe = of.channels[1].is_pipe = pipe == 1;
        pid_t pids[3];
        for (uint32_t i = 0; i < 3; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) {
                _exit(-be_member(&of, i));
            }
        }
        /* the dead process is a zombie while member 0 checks */
        for (uint32_t i = 0; i < 3; i++) {
            int status = 0;
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(i == 1 ? WIFSIGNALED(status)
                               : WIFEXITED(status) && WEXITSTATUS(status) == -GY_PEER);
        }
        assert_int_equal(unlink(path), 0);
    }
}

/* Member 1 writes to 2 and then waits for 0, which waits until 2 has read it. */
static _Atomic bool is_heard;

static gy_status wait_after_a_word(const graph *of, uint32_t member, gy_cohort *cohort)
{
    uint64_t at = 0;
    bool is_over = false;
    if (member == 0) {
        while (!atomic_load(&is_heard)) {
            GY_TRY(gy_cohort_check(cohort));
        }
        return write_some(of, cohort, 0, 0, of->bytes[0]);
    }
    if (member == 1) {
        GY_TRY(write_some(of, cohort, 1, 0, of->bytes[1]));
    }
    for (; !is_over;) {
        GY_TRY(read_some(of, cohort, member - 1, &at, &is_over));
        atomic_store(&is_heard, atomic_load(&is_heard) || member == 2);
    }
    return GY_OK;
}

GY_TEST(a_word_arrives_while_its_speaker_waits)
{
    for (int pipe = 0; pipe < 2; pipe++) {
        atomic_store(&is_heard, false);
        graph of = {
            .channels = {{0, 1, false}, {1, 2, pipe == 1}},
            .width = 3,
            .count = 2,
            .bytes = {7, 5},
            .work = wait_after_a_word,
        };
        run_threads(&of);
        assert_all_well(&of);
    }
}

/* ---- unauthenticated callers ---- */

static gy_status pipe_of_strangers(const graph *of, uint32_t member, gy_cohort *cohort)
{
    uint64_t at = 0;
    bool is_over = false;
    if (member == 0) { /* a caller without the token comes first, and one that sends nothing */
        struct sockaddr_in address = {.sin_family = AF_INET};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons((uint16_t)atomic_load(&cohort->channels[0].port));
        int callers[2];
        for (int i = 0; i < 2; i++) {
            callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            assert_int_equal(connect(callers[i], (void *)&address, sizeof(address)), 0);
        }
        assert_int_equal(send(callers[0], "01234567890123456789", 20, MSG_NOSIGNAL), 20);
        close(callers[1]);
        gy_status status = write_some(of, cohort, 0, 0, of->bytes[0]);
        if (status == GY_OK) {
            status = gy_pipe_flush(cohort, 0);
        }
        close(callers[0]);
        return status;
    }
    while (!is_over) {
        GY_TRY(read_some(of, cohort, 0, &at, &is_over));
    }
    return GY_OK;
}

GY_TEST(strangers_are_sent_away)
{
    graph of = {
        .channels = {{0, 1, true}},
        .width = 2,
        .count = 1,
        .bytes = {50000},
        .work = pipe_of_strangers,
    };
    run_threads(&of);
    assert_all_well(&of);
}

/* A caller that knows the token sends it byte by byte, one byte each time the reader reads the
 * clock, which advances a ninth of a second each time. */
/* guards the caller and its bytes */
static pthread_mutex_t slow_lock = PTHREAD_MUTEX_INITIALIZER;
static int slow_caller;
static _Atomic int64_t slow_ns;
static uint8_t slow_words[20];
static size_t slow_said;
static _Thread_local bool is_slow_reader;

static int64_t slow_now(gy_env *env)
{
    (void)env;
    pthread_mutex_lock(&slow_lock);
    if (is_slow_reader && slow_caller >= 0 && slow_said < sizeof(slow_words) &&
        send(slow_caller, &slow_words[slow_said], 1, MSG_NOSIGNAL) ==
            1) { /* after it has connected */
        slow_said++;
        atomic_fetch_add(&slow_ns, 111111111);
    }
    pthread_mutex_unlock(&slow_lock);
    return gy_env_real()->ops->now_ns(gy_env_real()) + atomic_load(&slow_ns);
}

static gy_status pipe_of_a_slow_caller(const graph *of, uint32_t member, gy_cohort *cohort)
{
    uint64_t at = 0;
    bool is_over = false;
    if (member == 0) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons((uint16_t)atomic_load(&cohort->channels[0].port));
        pthread_mutex_lock(&slow_lock); /* it sends only after it was accepted */
        slow_caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        memcpy(slow_words, cohort->options.token, sizeof(cohort->options.token));
        memset(slow_words + sizeof(cohort->options.token), 0, sizeof(uint32_t)); /* channel 0 */
        assert_int_equal(connect(slow_caller, (void *)&address, sizeof(address)), 0);
        pthread_mutex_unlock(&slow_lock);
        return write_some(of, cohort, 0, 0, of->bytes[0]);
    }
    is_slow_reader = true;
    while (!is_over) {
        GY_TRY(read_some(of, cohort, 0, &at, &is_over));
    }
    return GY_OK;
}

GY_TEST(a_greeting_has_a_second_in_all)
{
    gy_env_ops ops = *gy_env_real()->ops;
    ops.now_ns = slow_now;
    gy_env env = {&ops};
    graph of = {
        .channels = {{0, 1, true}},
        .width = 2,
        .count = 1,
        .bytes = {50000},
        .env = &env,
        .work = pipe_of_a_slow_caller,
    };
    slow_said = 0;
    slow_caller = -1;
    run_threads(&of);
    assert_all_well(&of); /* the writer's own connection, which came later */
    assert_in_range(slow_said, 8, sizeof(slow_words) - 1);
    close(slow_caller);
}

/* The reader's process has no descriptor left when its writer connects. */
static gy_status pipe_without_descriptors(const graph *of, uint32_t member, gy_cohort *cohort)
{
    uint64_t at = 0;
    bool is_over = false;
    if (member == 0) {
        for (;; at += 30000) {
            GY_TRY(write_some(of, cohort, 0, at, 30000));
        }
    }
    const int next = dup(STDIN_FILENO);
    struct rlimit limit;
    assert_true(next >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    close(next);
    limit.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return read_some(of, cohort, 0, &at, &is_over);
}

GY_TEST(a_reader_without_descriptors_fails)
{
    static const gy_status expected[] = {GY_PEER, GY_LIMIT};
    pid_t pids[2];
    snprintf(path, sizeof(path), "%s/cohort.%d", folder, meetings++);
    graph of = {
        .channels = {{0, 1, true}},
        .width = 2,
        .count = 1,
        .bytes = {SIZE_MAX},
        .is_cancelled = &never,
        .work = pipe_without_descriptors,
    };
    for (uint32_t i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            (void)alarm(20); /* ends a reader that would wait for a descriptor forever */
            _exit(-be_member(&of, i));
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(-WEXITSTATUS(status), expected[i]);
    }
    assert_int_equal(unlink(path), 0);
}

/* ---- cancellation ends waits ---- */

static _Atomic bool is_wanted_no_more;

static gy_status wait_for_nothing(const graph *of, uint32_t member, gy_cohort *cohort)
{
    uint64_t at = 0;
    bool is_over = false;
    if (member == 1) {
        return read_some(of, cohort, 0, &at, &is_over);
    }
    while (atomic_load(&cohort->members[1].waits) == 0) {
        gy_spin();
    }
    atomic_store(&is_wanted_no_more, true);
    while (gy_cohort_check(cohort) == GY_OK) {
        gy_spin();
    }
    return gy_cohort_check(cohort);
}

GY_TEST(cancelling_ends_every_wait)
{
    graph of = {
        .channels = {{0, 1, false}},
        .width = 2,
        .count = 1,
        .bytes = {10},
        .is_cancelled = &is_wanted_no_more,
        .work = wait_for_nothing,
    };
    run_threads(&of);
    for (int i = 0; i < 2; i++) {
        assert_true(of.results[i] == GY_CANCELLED || of.results[i] == GY_PEER);
    }
}

GY_TEST_MAIN(make_folder, remove_folder)
