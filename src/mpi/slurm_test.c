/*
 * Goal: under the real srun of a real Slurm (munged, slurmctld and slurmd of this machine, for
 * the time of the test) the command and unmodified MPI programs give what they give elsewhere.
 */
#include "slurm_kit.h"

typedef struct way {
    const char *library, *plugin; /* of MPI; of Slurm */
    bool is_built;
} way;

static int open_cluster(void **state)
{
    (void)state;
    return slurm_open(
        1, "the plain build runs it; under a sanitizer mpi_launchers covers the same code");
}

static int close_cluster(void **state)
{
    (void)state;
    return slurm_close();
}

static const way *way_of(void **state)
{
    const way *with = *state;
    char command[256];
    outcome look;
    if (slurm.why_not != NULL) {
        print_message("skipped: %s\n", slurm.why_not);
        skip();
    }
    if (!with->is_built) {
        print_message("skipped: the headers of %s were not there\n", with->library);
        skip();
    }
    snprintf(command, sizeof(command), "SLURM_CONF=%s/conf srun --mpi=list 2>&1 | grep -qw %s",
             slurm.folder, with->plugin);
    run_command(command, &look);
    if (look.status != 0) {
        print_message("skipped: this Slurm has no %s\n", with->plugin);
        skip();
    }
    return with;
}

static void the_command_trains_alike(void **state)
{
    const way *with = way_of(state);
    char how[512], name[32];
    snprintf(how, sizeof(how), "%s/gyre run -n 2", GYRE_BUILD);
    snprintf(name, sizeof(name), "%s-own", with->plugin);
    assert_int_equal(train(how, slurm.folder, name), 0);
    snprintf(how, sizeof(how), "env SLURM_CONF=%s/conf srun -n 2 --mpi=%s", slurm.folder,
             with->plugin);
    snprintf(name, sizeof(name), "%s-theirs", with->plugin);
    assert_int_equal(train(how, slurm.folder, name), 0);
    snprintf(how, sizeof(how), "cmp %s-own/model.safetensors %s-theirs/model.safetensors",
             with->plugin, with->plugin);
    assert_int_equal(slurm_line(how), 0);
}

static void programs_are_served(void **state)
{
    const way *with = way_of(state);
    char command[2048];
    outcome result;
    snprintf(command, sizeof(command),
             "SLURM_CONF=%s/conf timeout -k 5 60 srun -n 2 --mpi=%s "
             "--export=ALL,GYRE_LOG=info,LD_PRELOAD=%s/libgyre-mpi-%s.so "
             "%s/mpi_calls_%s 7 50 2>&1",
             slurm.folder, with->plugin, GYRE_BUILD, with->library, GYRE_BUILD, with->library);
    run_command(command, &result);
    if (result.status != 0) {
        fprintf(stderr, "%s\nended with %d:\n%s\n", command, result.status, result.said);
    }
    assert_int_equal(result.status, 0);
    assert_true(taken_over(result.said) > 10);
}

int main(void)
{
    way pmi2 = {"mpich", "pmi2", GYRE_HAS_MPICH}, pmix = {"openmpi", "pmix", GYRE_HAS_OPENMPI};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(the_command_trains_alike, &pmi2),
        cmocka_unit_test_prestate(programs_are_served, &pmi2),
        cmocka_unit_test_prestate(the_command_trains_alike, &pmix),
        cmocka_unit_test_prestate(programs_are_served, &pmix),
    };
    return cmocka_run_group_tests(tests, open_cluster, close_cluster);
}
