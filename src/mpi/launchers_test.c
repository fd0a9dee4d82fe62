/*
 * Goal: unmodified MPI programs, started by the real mpirun of Open MPI and mpiexec of MPICH
 * with Gyre loaded in front, get the library's answers, never hang, and are really served by
 * Gyre.
 */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "gy_test.h"

typedef struct launcher {
    const char *name, *command;
    const char *option, *between; /* how a variable is given to the ranks */
    const char *single_copy_off;
    bool is_built; /* its headers were there */
} launcher;

#ifndef GYRE_HAS_OPENMPI
#define GYRE_HAS_OPENMPI 0
#endif
#ifndef GYRE_HAS_MPICH
#define GYRE_HAS_MPICH 0
#endif

static const launcher launchers[] = {
    {"openmpi", "mpirun.openmpi --allow-run-as-root --oversubscribe", "-x", "=",
     "--mca btl_vader_single_copy_mechanism none", GYRE_HAS_OPENMPI},
    {"mpich", "mpiexec.mpich", "-genv", " ", "-genv UCX_TLS posix,self", GYRE_HAS_MPICH},
};

/*
 * The MPI libraries keep memory to the end and are not instrumented. UCX patches madvise, which
 * a thread that ends calls after TSan has let go of it: even an empty MPI program dies of that.
 */
static const char *sanitizers(void)
{
    return strlen(GYRE_SANITIZE) > 0
               ? "ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1 "
                 "UCX_MEM_EVENTS=no"
               : "";
}

typedef struct outcome {
    int status; /* of the launcher; 124: it was ended by the time limit */
    char said[8192];
} outcome;

static void run_command(const char *command, outcome *result)
{
    FILE *pipe = popen(command, "r");
    size_t used = 0;
    assert_non_null(pipe);
    for (;;) {
        char rest[512];
        bool is_full = used + 1 >= sizeof(result->said);
        size_t got = is_full
                         ? fread(rest, 1, sizeof(rest), pipe)
                         : fread(result->said + used, 1, sizeof(result->said) - 1 - used, pipe);
        if (got == 0) {
            break;
        }
        used += is_full ? 0 : got;
    }
    result->said[used] = '\0';
    int status = pclose(pipe);
    result->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

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
        print_error("%s\nended with %d:\n%s\n", command, result->status, result->said);
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

static long taken_over(const char *said)
{
    const char *at = strstr(said, " collectives taken over");
    while (at != NULL && at > said && at[-1] != ' ') {
        at--;
    }
    return at != NULL ? strtol(at, NULL, 10) : -1;
}

static void answers_are_the_librarys(void **state)
{
    const launcher *with = launcher_of(state);
    const uint64_t seed = gy_test_seed();
    for (int ranks = 2; ranks <= 4; ranks++) {
        char words[80];
        outcome result;
        snprintf(words, sizeof(words), "calls %llu 250", (unsigned long long)(seed % 100000));
        launch(with, ranks, "", words, &result);
        assert_int_equal(result.status, 0);
        assert_non_null(strstr(result.said, "250 rounds"));
        assert_true(taken_over(result.said) > 100);
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

/* Trains with `how` in front of the command; out: 0 or what failed. */
static int train(const char *how, const char *digits, const char *folder)
{
    char command[4096];
    outcome result;
    snprintf(command, sizeof(command),
             "%s timeout -k 5 60 %s %s/gyre train softmax --data %s "
             "--steps 20 --output %s 2>&1",
             sanitizers(), how, GYRE_BUILD, digits, folder);
    run_command(command, &result);
    if (result.status != 0) {
        print_error("%s\nended with %d:\n%s\n", command, result.status, result.said);
    }
    return result.status;
}

static void the_command_runs_unchanged(void **state)
{
    const launcher *with = launcher_of(state);
    char digits[1024], name[] = "/tmp/gyre-mpi-XXXXXX", folder[64], how[512], command[512];
    outcome result;
    if (gy_test_data(digits, "mnist/t10k-labels-idx1-ubyte.gz") == NULL) {
        print_message("skipped: no digits to train on\n");
        skip();
    }
    *strrchr(digits, '/') = '\0';
    assert_non_null(mkdtemp(name));
    snprintf(how, sizeof(how), "%s/gyre run -n 2", GYRE_BUILD);
    snprintf(folder, sizeof(folder), "%s/own", name);
    assert_int_equal(train(how, digits, folder), 0);
    snprintf(how, sizeof(how), "%s -n 2", with->command);
    snprintf(folder, sizeof(folder), "%s/theirs", name);
    assert_int_equal(train(how, digits, folder), 0);
    snprintf(command, sizeof(command),
             "cd %s && cmp own/model.safetensors theirs/model.safetensors 2>&1", name);
    run_command(command, &result);
    assert_int_equal(result.status, 0);
    snprintf(command, sizeof(command), "rm -r %s", name);
    run_command(command, &result);
}

int main(void)
{
    launcher first = launchers[0], second = launchers[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(answers_are_the_librarys, &first),
        cmocka_unit_test_prestate(waiting_drives_the_library, &first),
        cmocka_unit_test_prestate(the_command_runs_unchanged, &first),
        cmocka_unit_test_prestate(answers_are_the_librarys, &second),
        cmocka_unit_test_prestate(waiting_drives_the_library, &second),
        cmocka_unit_test_prestate(the_command_runs_unchanged, &second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
