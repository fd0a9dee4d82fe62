/*
 * Goal: unmodified MPI programs, started by the real mpirun of Open MPI and mpiexec of MPICH
 * with Gyre loaded in front, get the library's answers, never hang, and are really served by
 * Gyre.
 */
#include "mpi_kit.h"

typedef struct launcher {
    const char *name, *command;
    const char *option, *between; /* how a variable is given to the ranks */
    const char *single_copy_off;
    const char *network_only; /* NULL: it hangs in MPI_Finalize now and then over TCP */
    bool is_built;            /* its headers were there */
} launcher;

static const launcher launchers[] = {
    {"openmpi", "mpirun.openmpi --allow-run-as-root --oversubscribe", "-x", "=",
     "--mca btl_vader_single_copy_mechanism none", "--mca btl tcp,self", GYRE_HAS_OPENMPI},
    {"mpich", "mpiexec.mpich", "-genv", " ", "-genv UCX_TLS posix,self", NULL, GYRE_HAS_MPICH},
};

/* `words` follow the program's name; `more` are words of the launcher's. */
static void launch(const launcher *with, int ranks, const char *more, const char *words,
                   outcome *result)
{
    char preload[600] = "", command[2048], program[32];
    size_t length = strcspn(words, " ");
    if (strlen(GYRE_SANITIZE) == 0) { /* else Gyre is linked in */
        snprintf(preload, sizeof(preload), "%s LD_PRELOAD%s%s/libgyre-mpi-%s.so", with->option,
                 with->between, GYRE_BUILD, with->name);
    }
    snprintf(program, sizeof(program), "%.*s", (int)length, words);
    snprintf(command, sizeof(command),
             "%s timeout -k 5 60 %s -n %d %s %s GYRE_LOG%sinfo %s %s/mpi_%s_%s%s 2>&1",
             sanitizers(), with->command, ranks, more, with->option, with->between, preload,
             GYRE_BUILD, program, with->name, words + length);
    run_command(command, result);
    if (result->status != 0) {
        fprintf(stderr, "%s\nended with %d:\n%s\n", command, result->status, result->said);
    }
}

/* The first launcher's turn, or the second's. Skips where it is not here. */
static const launcher *launcher_of(void **state)
{
    const launcher *with = *state;
    char command[128];
    outcome look;
    if (!with->is_built) {
        print_message("skipped: the headers of %s were not there\n", with->name);
        skip();
    }
    snprintf(command, sizeof(command), "command -v %.*s", (int)strcspn(with->command, " "),
             with->command);
    run_command(command, &look);
    if (look.status != 0) {
        print_message("skipped: %s has no launcher here\n", with->name);
        skip();
    }
    return with;
}

static void answers_are_the_librarys(void **state)
{
    const launcher *with = launcher_of(state);
    const uint64_t seed = gy_test_seed() % 100000;
    const long rounds = GY_MAX(gy_test_cases(200), 30);
    for (int ranks = 2; ranks <= 4; ranks++) { /* with rounds of their own */
        char words[80];
        outcome result;
        snprintf(words, sizeof(words), "calls %llu %ld",
                 (unsigned long long)(seed + (uint64_t)ranks), rounds);
        launch(with, ranks, "", words, &result);
        assert_int_equal(result.status, 0);
        snprintf(words, sizeof(words), "%ld rounds", rounds);
        assert_non_null(strstr(result.said, words));
        assert_true(taken_over(result.said) > rounds / 3);
    }
}

/* Of a program that is linked with libgyre and uses <gyre/mpi.h>. */
static void communicators_are_adopted(void **state)
{
    const launcher *with = launcher_of(state);
    for (int ranks = 1; ranks <= 4; ranks += ranks) {
        outcome result;
        launch(with, ranks, "", "adopt", &result);
        assert_int_equal(result.status, 0);
        assert_non_null(strstr(result.said, "all adopted"));
    }
}

static void waiting_drives_the_library(void **state)
{
    const launcher *with = launcher_of(state);
    for (int ranks = 2; ranks <= 3; ranks++) {
        outcome result;
        launch(with, ranks, with->single_copy_off, "progress", &result);
        assert_int_equal(result.status, 0);
        assert_non_null(strstr(result.said, "all cases end"));
        assert_true(taken_over(result.said) > 10);
    }
}

static void the_command_runs_unchanged(void **state)
{
    const launcher *with = launcher_of(state);
    char name[] = "/tmp/gyre-mpi-XXXXXX", how[512], command[512];
    outcome result;
    assert_non_null(mkdtemp(name));
    snprintf(how, sizeof(how), "%s/gyre run -n 2", GYRE_BUILD);
    assert_int_equal(train(how, name, "own"), 0);
    snprintf(how, sizeof(how), "%s -n 2", with->command);
    assert_int_equal(train(how, name, "theirs"), 0);
    snprintf(command, sizeof(command),
             "cd %s && cmp own/model.safetensors theirs/model.safetensors 2>&1", name);
    run_command(command, &result);
    assert_int_equal(result.status, 0);
    snprintf(command, sizeof(command), "rm -r %s", name);
    run_command(command, &result);
}

/* Ranks 0 and 1 here, the others where another /proc is seen: as on another host. */
#define ON_TWO_HOSTS                                                                           \
    "sh -c 'if [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} -lt 2 ]; then exec \"$@\"; "               \
    "else exec unshare --pid --fork --kill-child --mount-proc \"$@\"; fi' rank"

/* The same plan gives the same bits whatever carries its messages. */
static void messages_of_mpi_give_what_tcp_gives(void **state)
{
    const launcher *with = launcher_of(state);
    char name[] = "/tmp/gyre-mpi-XXXXXX", how[1024], command[512];
    outcome result;
    run_command("unshare --pid --fork --mount-proc true 2>&1", &result);
    bool has_hosts = result.status == 0 && with->network_only != NULL;
    if (!has_hosts) {
        print_message("no second /proc, or no network that works: one host only\n");
    }
    assert_non_null(mkdtemp(name));
    snprintf(how, sizeof(how), "env GYRE_COLL=ring %s/gyre run -n 3 --transport tcp",
             GYRE_BUILD);
    assert_int_equal(train(how, name, "own"), 0);
    /* Slow under a sanitizer: there two hosts alone, where both ways are taken. */
    int first = has_hosts && strlen(GYRE_SANITIZE) > 0 ? 2 : 1;
    for (int hosts = first; hosts <= (has_hosts ? 2 : 1); hosts++) {
        snprintf(how, sizeof(how), "env GYRE_LOG=info GYRE_COLL=ring %s %s -n 3 %s",
                 hosts == 1 ? "GYRE_TRANSPORT=mpi" : "", with->command,
                 hosts == 1 ? "" : with->network_only);
        if (hosts == 2) {
            snprintf(how + strlen(how), sizeof(how) - strlen(how), " %s", ON_TWO_HOSTS);
        }
        assert_int_equal(train(how, name, "theirs"), 0);
        snprintf(command, sizeof(command),
                 "cd %s && cmp own/model.safetensors theirs/model.safetensors 2>&1 && "
                 "rm -r theirs",
                 name);
        run_command(command, &result);
        assert_int_equal(result.status, 0);
    }
    snprintf(command, sizeof(command), "rm -r %s", name);
    run_command(command, &result);
}

int main(void)
{
    launcher first = launchers[0], second = launchers[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(answers_are_the_librarys, &first),
        cmocka_unit_test_prestate(communicators_are_adopted, &first),
        cmocka_unit_test_prestate(waiting_drives_the_library, &first),
        cmocka_unit_test_prestate(the_command_runs_unchanged, &first),
        cmocka_unit_test_prestate(messages_of_mpi_give_what_tcp_gives, &first),
        cmocka_unit_test_prestate(answers_are_the_librarys, &second),
        cmocka_unit_test_prestate(communicators_are_adopted, &second),
        cmocka_unit_test_prestate(waiting_drives_the_library, &second),
        cmocka_unit_test_prestate(the_command_runs_unchanged, &second),
        cmocka_unit_test_prestate(messages_of_mpi_give_what_tcp_gives, &second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
