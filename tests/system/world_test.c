/*
 * Goal: the two communicators that nobody makes by hand. A failed rendezvous ends every rank
 * with its reason and exit status 1, never as a launch of one rank; GY_COMM_SELF exists in
 * every process, whatever its launcher and settings say; a communicator that was never made is
 * a misuse that ends the process and names the function. With arguments this program plays a
 * rank.
 */
#include "base/base.h"
#include "coll/coll.h"
#include "launch_kit.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

enum { RANKS = 3, TEXT = 1024, NAME = 256 };

static char own_path[4096];

static const char *name_of(const char *folder, const char *rank, char out[NAME])
{
    snprintf(out, NAME, "%s/%s", folder, rank);
    return out;
}

/* Join, or write the reason to the rank's file and end with 1, as every program should. */
static int part_join(const char *folder)
{
    char name[NAME];
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) == GY_OK) {
        gy_comm_world_close();
        return 0;
    }
    gy_error first;
    gy_error_take(&first, GY_PEER);
    bool is_alike = comm == NULL && gy_comm_world(&comm) < 0 && comm == NULL &&
                    strcmp(gy_error_text(), first.text) == 0;
    FILE *file = fopen(name_of(folder, getenv("GYRE_RANK"), name), "w");
    bool is_written = file != NULL && fputs(gy_error_text(), file) >= 0;
    is_written = file != NULL && fclose(file) == 0 && is_written;
    return is_alike && is_written ? 1 : 80;
}

/* The last rank comes when the others have given up waiting for it. */
static int part_late(const char *folder)
{
    char name[NAME];
    const char *rank = getenv("GYRE_RANK");
    if (rank != NULL && strcmp(rank, "2") == 0) {
        gy_deadline deadline = gy_deadline_after(30);
        while ((access(name_of(folder, "0", name), F_OK) != 0 ||
                access(name_of(folder, "1", name), F_OK) != 0) &&
               gy_now_ns(gy_env_real()) < deadline.at_ns) {
            gy_env_real()->ops->pause(gy_env_real(), 1000000);
        }
    }
    return part_join(folder);
}

static int part_self(void)
{
    double one = 3, sum = 0;
    gy_comm *comm = NULL, *copy = NULL;
    if (gy_comm_size(GY_COMM_SELF) != 1 || gy_comm_rank(GY_COMM_SELF) != 0 ||
        gy_comm_world(&comm) < 0 || gy_comm_size(comm) != RANKS || comm == GY_COMM_SELF) {
        return 81;
    }
    if (gy_allreduce(GY_COMM_SELF, &one, &sum, 1, GY_F64, GY_SUM) < 0 || sum != 3 ||
        gy_comm_dup(GY_COMM_SELF, &copy) < 0 || gy_barrier(copy) < 0 ||
        gy_allreduce(comm, &one, &sum, 1, GY_F64, GY_SUM) < 0 || sum != 3 * RANKS) {
        return 82;
    }
    gy_comm_free(copy);
    gy_comm_free(GY_COMM_SELF);
    gy_comm_world_close();
    return gy_barrier(GY_COMM_SELF) < 0 ? 83 : 0;
}

static int run(const char *part, const char *folder, gy_run_failure on_failure)
{
    char words[2][NAME];
    snprintf(words[0], NAME, "%s", part);
    snprintf(words[1], NAME, "%s", folder);
    char *const argv[] = {own_path, words[0], words[1], NULL};
    const char *const environment[] = {"GYRE_TIMEOUT=1", NULL};
    const gy_run_options options = {
        .ranks = RANKS, .timeout_s = 60, .on_failure = on_failure, .environment = environment};
    return launch_run(&options, argv);
}

GY_TEST(failed_rendezvous_ends_every_rank_with_its_reason)
{
    char folder[] = "/tmp/gyre-world-XXXXXX", name[NAME], text[TEXT];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(run("join", folder, GY_RUN_CONTINUE), 0);
    assert_int_equal(run("late", folder, GY_RUN_CONTINUE), 1);
    for (int rank = 0; rank < RANKS; rank++) {
        char digit[2] = {(char)('0' + rank), '\0'};
        FILE *file = fopen(name_of(folder, digit, name), "r");
        assert_non_null(file);
        text[fread(text, 1, TEXT - 1, file)] = '\0';
        fclose(file);
        assert_non_null(strstr(text, rank < 2 ? "rank 2" : "rank "));
        unlink(name);
    }
    rmdir(folder);
}

GY_TEST(a_process_alone_exists_in_every_rank)
{
    assert_int_equal(run("self", "", GY_RUN_END), 0);
}

GY_TEST(a_process_alone_needs_no_settings)
{
    pid_t child = fork();
    if (child == 0) {
        gy_comm *comm = NULL;
        setenv("GYRE_COLL", "nonsense", 1);
        setenv("GYRE_TIMEOUT", "soon", 1);
        setenv("GYRE_TUNE", "/nonsense", 1);
        bool is_right = gy_comm_world(&comm) < 0 && comm == NULL &&
                        gy_comm_size(GY_COMM_SELF) == 1 && gy_barrier(GY_COMM_SELF) == GY_OK;
        _exit(is_right ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- Misuse ---- */

static const uint64_t never_made[16]; /* as a struct that nobody filled in */

static void call_rank(gy_comm *comm)
{
    (void)gy_comm_rank(comm);
}

static void call_size(gy_comm *comm)
{
    (void)gy_comm_size(comm);
}

static void call_allreduce(gy_comm *comm)
{
    int32_t x = 0;
    (void)!gy_allreduce(comm, &x, &x, 1, GY_I32, GY_SUM);
}

static void call_split(gy_comm *comm)
{
    gy_comm *group = NULL;
    (void)!gy_comm_split(comm, 0, 0, &group);
}

static void call_send(gy_comm *comm)
{
    int32_t x = 0;
    (void)!gy_send(comm, &x, 1, GY_I32, 0, 0);
}

/* What the child says on standard error before abort(3) ends it. */
static void expect_misuse(void (*call)(gy_comm *), gy_comm *comm, const char *expected)
{
    int ends[2];
    char text[TEXT];
    size_t size = 0;
    ssize_t got = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        call(comm);
        _exit(0);
    }
    close(ends[1]);
    while (size < TEXT - 1 && (got = read(ends[0], text + size, TEXT - 1 - size)) > 0) {
        size += (size_t)got;
    }
    text[size] = '\0';
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, expected));
}

GY_TEST(a_communicator_never_made_is_a_named_misuse)
{
    gy_comm *nothing = (gy_comm *)(uintptr_t)never_made;
    expect_misuse(call_rank, NULL, "gy_comm_rank: the communicator is NULL: it was never made");
    expect_misuse(call_size, NULL, "gy_comm_size: the communicator is NULL");
    expect_misuse(call_allreduce, NULL, "gy_allreduce: the communicator is NULL");
    expect_misuse(call_split, NULL, "gy_comm_split: the communicator is NULL");
    expect_misuse(call_send, NULL, "gy_send: the communicator is NULL");
    expect_misuse(call_rank, nothing, "gy_comm_rank: the communicator at 0x");
    expect_misuse(gy_comm_free, nothing, "gy_comm_free: the communicator at 0x");
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        return strcmp(argv[1], "join") == 0   ? part_join(argv[2])
               : strcmp(argv[1], "late") == 0 ? part_late(argv[2])
                                              : part_self();
    }
    ssize_t size = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    if (size <= 0) {
        return 1;
    }
    return GY_TESTS_RUN(NULL, NULL);
}
