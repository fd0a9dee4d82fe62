/*
 * Goal: MPI's rules at their edges. With Gyre in front of the real launchers' ranks, what one
 * rank alone can see (a wrong argument, buffers that overlap, its language, the name that it
 * called, that it has no Gyre) ends in the right answer or an error on all ranks, never in a
 * wait; and what comes after it is right.
 */
#include "mpi_kit.h"

#include <unistd.h>

typedef struct launcher {
    const char *name, *other, *command;
    const char *set, *between; /* how a variable is given to the ranks that follow */
    bool is_built;
} launcher;

static launcher launchers[] = {
    {"openmpi", "mpich", "mpirun.openmpi --allow-run-as-root --oversubscribe", "-x", "=",
     GYRE_HAS_OPENMPI},
    {"mpich", "openmpi", "mpiexec.mpich", "-env", " ", GYRE_HAS_MPICH},
};

static void skip_for(const char *why, const char *what)
{
    print_message("skipped: %s %s\n", what, why);
    skip();
}

static const launcher *launcher_of(void **state)
{
    const launcher *with = *state;
    char command[128];
    outcome look;
    if (!with->is_built) {
        skip_for("had no headers here", with->name);
    }
    snprintf(command, sizeof(command), "command -v %.*s", (int)strcspn(with->command, " "),
             with->command);
    run_command(command, &look);
    if (look.status != 0) {
        skip_for("has no launcher here", with->name);
    }
    return with;
}

/* Under a sanitizer Gyre is linked into the programs: nothing is there to be left out. */
static void need_preload(void)
{
    if (strlen(GYRE_SANITIZE) > 0) {
        skip_for("is linked in", "Gyre");
    }
}

static const char *preload_of(const char *name)
{
    static char path[600];
    snprintf(path, sizeof(path), "%s/libgyre-mpi-%s.so", GYRE_BUILD, name);
    return path;
}

/* Ranks with Gyre in front: words of a launcher for `program words`. */
static void add_ranks(const launcher *with, char *command, size_t bytes, int ranks,
                      const char *words)
{
    size_t used = strlen(command), length = strcspn(words, " ");
    char front[700] = "";
    if (strlen(GYRE_SANITIZE) == 0) {
        snprintf(front, sizeof(front), "%s LD_PRELOAD%s%s", with->set, with->between,
                 preload_of(with->name));
    }
    snprintf(command + used, bytes - used, " -n %d %s %s GYRE_LOG%sinfo %s/mpi_%.*s_%s%s",
             ranks, front, with->set, with->between, GYRE_BUILD, (int)length, words, with->name,
             words + length);
}

static void start(const launcher *with, char *command, size_t bytes)
{
    snprintf(command, bytes, "%s GYRE_MPI_CHUNK=30000 timeout -k 5 60 %s", sanitizers(),
             with->command);
}

static void finish(char *command, size_t bytes, outcome *result)
{
    snprintf(command + strlen(command), bytes - strlen(command), " 2>&1");
    run_command(command, result);
}

static void run_case(const launcher *with, int ranks, const char *words, outcome *result)
{
    char command[4096];
    start(with, command, sizeof(command));
    add_ranks(with, command, sizeof(command), ranks, words);
    finish(command, sizeof(command), result);
    if (result->status != 0) {
        fprintf(stderr, "%s\nended with %d:\n%s\n", command, result->status, result->said);
    }
    assert_int_equal(result->status, 0);
}

static int times(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) {
        count++;
    }
    return count;
}

static void wrong_arguments_are_errors_and_nobody_waits(void **state)
{
    const launcher *with = launcher_of(state);
    outcome result;
    run_case(with, 3, "edges arguments", &result);
}

static void overlapping_buffers_make_nobody_wait(void **state)
{
    outcome result;
    run_case(launcher_of(state), 3, "edges overlap", &result);
}

static void calls_that_differ_fail_alone(void **state)
{
    outcome result;
    run_case(launcher_of(state), 3, "edges differ", &result);
}

static void every_name_leads_to_gyre(void **state)
{
    const launcher *with = launcher_of(state);
    outcome result;
    run_case(with, 3, "edges names", &result);
    assert_true(taken_over(result.said) >= 60);
    if (strcmp(with->name, "mpich") == 0) {
        run_case(with, 3, "edges large", &result);
        assert_true(taken_over(result.said) >= 5);
    }
}

static void types_may_have_any_form_and_size(void **state)
{
    const launcher *with = launcher_of(state);
    outcome result;
    run_case(with, 3, "edges types", &result);
    assert_true(taken_over(result.said) >= 8);
    run_case(with, 2, "edges makers", &result);
    assert_true(taken_over(result.said) >= 10);
    if (getenv("GYRE_SOAK") != NULL) { /* takes 4.6 GB */
        run_case(with, 2, "edges huge", &result);
    }
}

static void idle_communicators_cost_nothing(void **state)
{
    outcome result;
    run_case(launcher_of(state), 2, "edges idle", &result);
    run_case(launcher_of(state), 3, "edges used", &result);
    assert_true(taken_over(result.said) >= 24);
}

/* Open MPI sets variables for the ranks up to the next colon alone, MPICH's -env too. */
static void ranks_may_be_written_in_fortran(void **state)
{
    static const char *const halves[] = {"coupled", "coupled_f08"};
    const launcher *with = launcher_of(state);
    need_preload();
    for (size_t i = 0; i < GY_COUNT(halves); i++) {
        char command[4096], program[600];
        outcome result;
        snprintf(program, sizeof(program), "%s/mpi_%s_%s", GYRE_BUILD, halves[i], with->name);
        if (access(program, X_OK) != 0) {
            skip_for("could not be built: no gfortran here", program);
        }
        for (int first = 0; first < 2; first++) {
            start(with, command, sizeof(command));
            add_ranks(with, command, sizeof(command), 1,
                      first == 0 ? "edges coupled" : halves[i]);
            snprintf(command + strlen(command), sizeof(command) - strlen(command), " :");
            add_ranks(with, command, sizeof(command), 1,
                      first == 0 ? halves[i] : "edges coupled");
            finish(command, sizeof(command), &result);
            assert_int_equal(result.status, 0);
            assert_int_equal(times(result.said, "fortran ok"), 1);
            assert_int_equal(times(result.said, "c ok"), 1);
            assert_true(taken_over(result.said) >= 16);
        }
    }
}

/* `ranks` of three have Gyre in front, those from `first` on. */
static void run_some(const launcher *with, int first, int ranks, outcome *result)
{
    char command[4096];
    start(with, command, sizeof(command));
    for (int rank = 0; rank < 3; rank++) {
        size_t used = strlen(command);
        snprintf(command + used, sizeof(command) - used, "%s -n 1 ", rank > 0 ? " :" : "");
        used = strlen(command);
        if (rank >= first && rank < first + ranks) {
            snprintf(command + used, sizeof(command) - used, "env LD_PRELOAD=%s ",
                     preload_of(with->name));
            used = strlen(command);
        }
        snprintf(command + used, sizeof(command) - used, "%s/mpi_edges_%s names", GYRE_BUILD,
                 with->name);
    }
    finish(command, sizeof(command), result);
    if (result->status != 0) {
        fprintf(stderr, "%s\nended with %d:\n%s\n", command, result->status, result->said);
    }
}

static void a_rank_without_gyre_is_named(void **state)
{
    const launcher *with = launcher_of(state);
    outcome result;
    need_preload();
    for (int first = 0; first < 2; first++) {
        run_some(with, first, first + 1, &result);
        assert_int_equal(result.status, 0);
        assert_int_equal(times(result.said, " ends"), 3);
        assert_int_equal(times(result.said, first == 0 ? "rank 1 has not" : "rank 0 has not"),
                         1);
    }
}

static void the_wrong_library_says_so(void **state)
{
    const launcher *with = launcher_of(state);
    char command[4096];
    outcome result;
    need_preload();
    if (access(preload_of(with->other), R_OK) != 0) {
        skip_for("is not built", with->other);
    }
    start(with, command, sizeof(command));
    snprintf(command + strlen(command), sizeof(command) - strlen(command),
             " -n 1 env LD_PRELOAD=%s %s/mpi_edges_%s names", preload_of(with->other),
             GYRE_BUILD, with->name);
    finish(command, sizeof(command), &result);
    assert_int_not_equal(result.status, 0);
    assert_int_not_equal(result.status, 124);
    assert_int_equal(times(result.said, "is loaded in front of"), 1);
    assert_non_null(strstr(result.said, preload_of(with->name) + strlen(GYRE_BUILD) + 1));
    /* A program without MPI is left alone. */
    snprintf(command, sizeof(command), "LD_PRELOAD=%s /bin/echo unharmed",
             preload_of(with->name));
    finish(command, sizeof(command), &result);
    assert_int_equal(result.status, 0);
    assert_string_equal(result.said, "unharmed\n");
}

#define OF_EACH(test)                                                                          \
    cmocka_unit_test_prestate(test, &launchers[0]),                                            \
        cmocka_unit_test_prestate(test, &launchers[1])

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF_EACH(wrong_arguments_are_errors_and_nobody_waits),
        OF_EACH(overlapping_buffers_make_nobody_wait),
        OF_EACH(calls_that_differ_fail_alone),
        OF_EACH(every_name_leads_to_gyre),
        OF_EACH(types_may_have_any_form_and_size),
        OF_EACH(idle_communicators_cost_nothing),
        OF_EACH(ranks_may_be_written_in_fortran),
        OF_EACH(a_rank_without_gyre_is_named),
        OF_EACH(the_wrong_library_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
