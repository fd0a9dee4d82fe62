/*
 * Goal: ranks of three hosts that are killed come back and catch up with the bits of an
 * undisturbed run; groups of before say why they are of no use; what cannot be made up for ends
 * the run on all hosts, by name. With arguments this program plays a rank.
 */
#include "hosts_kit.h"
#include "replay_kit.h"

#include <gyre/launch.h>

#include <sys/time.h>

static char own_path[4096];

enum { STEPS = 60, EVERY = 17, DEATH_STEP = 31 };

/* ---- Parts of a rank: words are PART FOLDER ---- */

static const char *path_of(const char *folder, const char *kind, int rank, char out[KIT_PATH])
{
    snprintf(out, KIT_PATH, "%s/%s-%d", folder, kind, rank);
    return out;
}

/* Whole or not there. */
static bool note(const char *folder, const char *kind, int rank, const void *data, size_t size)
{
    char path[KIT_PATH], part[KIT_PATH];
    FILE *file = fopen(path_of(folder, "part", rank, part), "wb");
    bool is_written = file != NULL && fwrite(data, 1, size, file) == size;
    return file != NULL && fclose(file) == 0 && is_written &&
           rename(part, path_of(folder, kind, rank, path)) == 0;
}

static int say(int status, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gy_error_text());
    return status;
}

/* The first life of a rank ends here; its second one goes on. */
static void die_once(const char *folder, int rank)
{
    char path[KIT_PATH];
    int marker = open(path_of(folder, "dead", rank, path), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (marker >= 0) {
        close(marker);
        raise(SIGKILL);
    }
}

static void kill_self(int number)
{
    raise(number == SIGALRM ? SIGKILL : number);
}

/* Two lives in three end within 60 ms, wherever the rank is. */
static void draw_death(void)
{
    gy_random random = {.key = (uint64_t)getpid()};
    if (gy_random_below(&random, 3) > 0) {
        long after_us = (long)gy_random_below(&random, 60000) + 1;
        struct itimerval timer = {.it_value = {.tv_usec = after_us}};
        signal(SIGALRM, kill_self);
        setitimer(ITIMER_REAL, &timer, NULL);
    }
}

/* "calm": nobody dies. "one": rank 3, in the middle. "many": any, often. "two": ranks 2 and 3,
 * of two hosts, at one step, with one replica. */
static int part_work(const char *mode, const char *folder)
{
    static replay_work state;
    int64_t version = 0;
    gy_recoverable *replay = NULL;
    bool is_two = strcmp(mode, "two") == 0, is_one = strcmp(mode, "one") == 0;
    if (strcmp(mode, "many") == 0) {
        draw_death();
    }
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0 ||
        gy_recoverable_new(comm, &(gy_recoverable_options){.replicas = is_two ? 1 : 5},
                           &replay) < 0) {
        return say(70, "new");
    }
    int rank = gy_comm_rank(comm);
    if (is_two) {
        (void)signal(SIGTERM, SIG_IGN); /* the keeper must not end us before we have said it */
    }
    gy_status status = gy_recoverable_load(replay, &state, replay_state_bytes(rank), &version);
    while (status >= 0 && state.step < STEPS) {
        if (state.step == DEATH_STEP && (rank == 3 || (is_two && rank == 2)) &&
            (is_one || is_two)) {
            die_once(folder, rank);
        }
        status = replay_step(replay, &state, EVERY);
    }
    if (status < 0) {
        (void)note(folder, "why", rank, gy_error_text(), strlen(gy_error_text()));
        gy_recoverable_free(replay);
        gy_comm_world_close();
        return 71;
    }
    if (!note(folder, "result", rank, &state, sizeof(state)) ||
        gy_recoverable_finish(replay) < 0) {
        return say(72, "finish");
    }
    gy_recoverable_free(replay);
    gy_comm_world_close();
    return 0;
}

/* Ranks of even numbers, and of odd ones: each on all hosts. */
static gy_status sum_group(gy_comm *group, int rank, int *sum)
{
    *sum = rank;
    return gy_allreduce(group, sum, sum, 1, GY_I32, GY_SUM);
}

static bool names_rank_3(gy_status status)
{
    return status < 0 && strstr(gy_error_text(), "rank 3") != NULL;
}

/* The old group says that rank 3 is gone, also after the recovery, at once; a new one works. */
static int part_groups(const char *folder)
{
    gy_comm *old = NULL, *group = NULL, *whole = NULL, *fresh = NULL;
    char path[KIT_PATH];
    if (gy_comm_world(&old) < 0) {
        return say(70, "world");
    }
    int rank = gy_comm_rank(old), sum = 0;
    bool is_new = rank == 3 && access(path_of(folder, "dead", 3, path), F_OK) == 0;
    if (!is_new) {
        gy_request *request = NULL;
        if (gy_comm_split(old, rank % 2, rank, &group) < 0 ||
            sum_group(group, rank, &sum) < 0 || sum != (rank % 2 == 0 ? 6 : 9) ||
            gy_barrier(old) < 0) {
            return say(71, "group");
        }
        if (rank == 3) {
            die_once(folder, 3);
        }
        gy_status status = gy_request_begin_recv(
            group, &(gy_message){.data = &sum, .count = 1, .dtype = GY_I32, .tag = 5},
            &request);
        status = status < 0 ? status : gy_request_wait(request, GY_NEVER);
        if (!names_rank_3(status) || !names_rank_3(sum_group(group, rank, &sum)) ||
            gy_comm_recover(group, &whole) != GY_ARG) {
            return say(72, "a lost group");
        }
        gy_request_free(request);
        if (gy_comm_recover(old, &whole) < 0) {
            return say(73, "recover");
        }
        gy_comm *none = NULL;
        if (!names_rank_3(sum_group(group, rank, &sum)) ||
            !names_rank_3(gy_comm_split(old, 0, 0, &none)) || gy_comm_in_flight(old) != 0) {
            return say(74, "an old group");
        }
    } else {
        whole = old;
    }
    if (gy_comm_split(whole, rank % 2, rank, &fresh) < 0 || sum_group(fresh, rank, &sum) < 0 ||
        sum != (rank % 2 == 0 ? 6 : 9)) {
        return say(75, "a new group");
    }
    gy_comm_free(fresh);
    gy_comm_free(group);
    if (!is_new) {
        gy_comm_free(old);
    }
    gy_comm_world_close();
    return note(folder, "grouped", rank, "", 0) ? 0 : 76;
}

/* Who waits for the end of others says whose child it is. */
static int part_stay(const char *folder, bool is_first_to_die)
{
    char text[32];
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0 || gy_barrier(comm) < 0) {
        return say(70, "world");
    }
    snprintf(text, sizeof(text), "%d", (int)getppid());
    (void)note(folder, "keeper", gy_comm_rank(comm), text, strlen(text));
    if (is_first_to_die && gy_comm_rank(comm) == 0) {
        raise(SIGKILL);
    }
    for (;;) {
        pause();
    }
}

static int play(char **words)
{
    return strcmp(words[1], "groups") == 0 ? part_groups(words[2])
           : strcmp(words[1], "stay") == 0 ? part_stay(words[2], false)
           : strcmp(words[1], "die") == 0  ? part_stay(words[2], true)
                                           : part_work(words[1], words[2]);
}

/* ---- The test's side ---- */

static void start_one(int host, const char *part, const char *restarts)
{
    const char *const options[] = {
        "-n",     "2", "--key", kit_own.key, "--on-failure", "restart", "--restarts-max",
        restarts, NULL};
    const char *const program[] = {own_path, part, kit_own.folder, NULL};
    kit_start(&kit_own, KIT_HOSTS, host, options, program);
}

static void start_all(const char *part, const char *restarts)
{
    char line[2 * KIT_PATH];
    snprintf(line, sizeof(line), "rm -f %s/*-[0-9]", kit_own.folder);
    assert_int_equal(kit_command(line), 0);
    kit_next_run(&kit_own);
    for (int host = KIT_HOSTS - 1; host >= 0; host--) {
        start_one(host, part, restarts);
    }
}

static const char *said_by(int host, char text[8192])
{
    char name[32];
    snprintf(name, sizeof(name), "node-%d.err", host);
    return kit_read(&kit_own, name, text, 8192);
}

static void read_result(int rank, replay_work *state)
{
    char path[KIT_PATH];
    FILE *file = fopen(path_of(kit_own.folder, "result", rank, path), "rb");
    assert_non_null(file);
    assert_int_equal(fread(state, sizeof(*state), 1, file), 1);
    fclose(file);
}

GY_TEST(killed_ranks_of_any_host_catch_up)
{
    static replay_work expected[6], got;
    char text[8192];
    start_all("calm", "1");
    kit_expect_all(&kit_own, 0);
    for (int rank = 0; rank < 6; rank++) {
        read_result(rank, &expected[rank]);
    }
    int runs = 1 + (int)gy_test_cases(5), deaths = 0;
    for (int i = 0; i < runs; i++) {
        start_all(i == 0 ? "one" : "many", "1000");
        kit_expect_all(&kit_own, 0);
        for (int rank = 0; rank < 6; rank++) {
            read_result(rank, &got);
            assert_true(replay_is_same(&got, &expected[rank]));
        }
        for (int host = 0; i == 0 && host < KIT_HOSTS; host++) {
            assert_non_null(strstr(said_by(host, text), "gyre: rank 3 (process"));
            assert_non_null(strstr(text, "killed by signal 9"));
            assert_non_null(strstr(text, "restarted, 999 restarts left"));
        }
        for (const char *at = said_by(0, text); (at = strstr(at, "; restarted")) != NULL;
             at++) {
            deaths++;
        }
    }
    printf("%d runs: %d ranks started anew\n", runs, deaths);
    assert_true(deaths > 0);
}

GY_TEST(groups_are_made_anew)
{
    char path[KIT_PATH];
    start_all("groups", "1");
    kit_expect_all(&kit_own, 0);
    for (int rank = 0; rank < 6; rank++) {
        assert_int_equal(access(path_of(kit_own.folder, "grouped", rank, path), F_OK), 0);
    }
}

GY_TEST(more_lost_than_replicas_ends_the_run)
{
    char text[8192], name[32];
    start_all("two", "5");
    kit_expect_all(&kit_own, 71);
    int told = 0;
    for (int rank = 0; rank < 6; rank++) {
        snprintf(name, sizeof(name), "why-%d", rank);
        told +=
            strstr(kit_read(&kit_own, name, text, sizeof(text)), "no live rank has") != NULL;
    }
    assert_int_equal(told, 6);
    for (int host = 0; host < KIT_HOSTS; host++) {
        assert_non_null(strstr(said_by(host, text), "gyre: rank "));
        assert_non_null(strstr(text, "has 2 copies"));
    }
}

GY_TEST(used_up_restarts_end_all_hosts)
{
    char text[8192];
    kit_next_run(&kit_own);
    start_all("many", "1");
    int first = kit_wait(&kit_own, 0);
    for (int host = 1; host < KIT_HOSTS; host++) {
        assert_int_equal(kit_wait(&kit_own, host), first);
    }
    assert_true(first == 0 || first == 128 + SIGKILL);
    if (first != 0) {
        assert_non_null(strstr(said_by(0, text), "killed by signal 9"));
    }
}

GY_TEST(a_dead_keeper_ends_the_run_by_name)
{
    char text[8192];
    start_all("stay", "3");
    for (int rank = 0; rank < 6; rank++) {
        char name[32];
        snprintf(name, sizeof(name), "keeper-%d", rank);
        kit_wait_for_file(&kit_own, name);
    }
    kit_read(&kit_own, "keeper-5", text, sizeof(text));
    int keeper = (int)strtol(text, NULL, 10);
    assert_true(keeper > 1);
    assert_int_equal(kill(keeper, SIGKILL), 0);
    kit_expect_all(&kit_own, 1);
    assert_non_null(strstr(said_by(2, text), "keeper of the ranks was killed by signal 9"));
    for (int host = 0; host < 2; host++) {
        assert_non_null(strstr(said_by(host, text), "gyre: node 2 "));
        assert_non_null(strstr(text, "is lost"));
    }
}

GY_TEST(all_hosts_must_want_restarts)
{
    char text[8192];
    const char *const options[] = {"-n", "2", "--key", kit_own.key, NULL};
    const char *const program[] = {own_path, "die", kit_own.folder, NULL};
    kit_next_run(&kit_own);
    start_one(2, "die", "3");
    kit_start(&kit_own, KIT_HOSTS, 1, options, program);
    start_one(0, "die", "3");
    for (int host = 0; host < KIT_HOSTS; host++) {
        assert_int_equal(kit_wait(&kit_own, host), 128 + SIGKILL);
        assert_non_null(strstr(said_by(host, text), "rank 0 (process"));
        assert_non_null(strstr(text, "but node 1 was not started with --on-failure=restart"));
    }
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        return play(argv);
    }
    ssize_t size = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    own_path[size > 0 ? size : 0] = '\0';
    return GY_TESTS_RUN(kit_open_hosts, kit_close_hosts);
}
