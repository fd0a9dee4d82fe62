/* gyre train --simulate: a step on ranks that need not exist, on one mesh or on several. */
#include "cli/train/simulate.h"

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/train/update.h"

#include <string.h>

static gy_status play_all(const gy_cli_step *of, const gy_kernel_rates *rates,
                          gy_mesh_trial *trials, int count)
{
    for (int i = 0; i < count; i++) {
        GY_TRY(gy_mesh_trial_play(&of->search, rates, &trials[i]));
    }
    gy_mesh_trials_sort(trials, count);
    return GY_OK;
}

static int meshes_of(const gy_cli_step *of, gy_mesh_trial *rows)
{
    gy_virtual_mesh meshes[GY_VIRTUAL_MESHES_MAX];
    const int micros = of->options.micro_batches > 1 ? of->options.micro_batches : 1;
    const int found =
        gy_virtual_meshes(&of->search.cluster, of->options.batch / micros, meshes);
    int count = 0;
    for (int i = 0; i < found; i++) {
        if (of->options.zero == 0 || meshes[i].zero == 0) { /* --zero holds for all */
            rows[count] =
                (gy_mesh_trial){.mesh = meshes[i], .micro_batches = of->options.micro_batches};
            rows[count++].mesh.zero += of->options.zero;
        }
    }
    return count;
}

/* The mesh of --mesh does not fit: what does. */
static gy_status refuse(const gy_cli_step *of, const gy_kernel_rates *rates,
                        const gy_mesh_trial *given)
{
    gy_mesh_trial rows[GY_VIRTUAL_MESHES_MAX];
    char needs[32], has[32], takes[32], fit[128] = "no other mesh of these ranks does";
    const int count = meshes_of(of, rows);
    GY_TRY(play_all(of, rates, rows, count));
    if (count > 0 && rows[0].fits) {
        snprintf(fit, sizeof(fit), "%s%s fits with %s", rows[0].mesh.axes,
                 rows[0].mesh.zero == 3   ? " --zero 3"
                 : rows[0].mesh.zero == 1 ? " --zero 1"
                                          : "",
                 gy_cli_size_text((double)rows[0].step.memory_bytes, takes));
    }
    gy_print_to(stderr, "gyre train: mesh %s needs %s of a rank's %s: %s\n", given->mesh.axes,
                gy_cli_size_text((double)given->step.memory_bytes, needs),
                gy_cli_size_text((double)of->search.cluster.memory_bytes, has), fit);
    return GY_OK;
}

/* Why meshes with many ranks along data are missing. */
static void print_bound(const gy_cli_step *of)
{
    const int micros = of->options.micro_batches > 1 ? of->options.micro_batches : 1;
    const int64_t rows = of->options.batch / micros;
    if (of->mesh == NULL && rows < gy_virtual_cluster_ranks(&of->search.cluster)) {
        printf("left out: more than %lld ranks along data, each of which needs a row of a "
               "%s (--batch)\n",
               (long long)rows, micros > 1 ? "micro-batch" : "batch");
    }
}

static gy_status simulate(const gy_cli_step *of, const gy_kernel_rates *rates, int *status)
{
    gy_mesh_trial rows[GY_VIRTUAL_MESHES_MAX] = {
        {.mesh = {.zero = of->options.zero}, .micro_batches = of->options.micro_batches}};
    int count = 1;
    if (of->mesh != NULL) {
        snprintf(rows[0].mesh.axes, sizeof(rows[0].mesh.axes), "%s", of->mesh);
    } else {
        count = meshes_of(of, rows);
    }
    GY_TRY(play_all(of, rates, rows, count));
    if (count == 0 || !rows[0].is_played) {
        gy_cli_mesh_count(false);
        gy_print_to(stderr, "gyre train: --simulate: %s\n",
                    count > 0
                        ? rows[0].why
                        : "the batch has fewer rows than there are ranks along data on any "
                          "mesh: choose a larger --batch");
        *status = GY_EXIT_FAILURE;
        return GY_OK;
    }
    gy_cli_mesh_head(of, "on", "as measured here");
    gy_cli_mesh_table(of, rows, count, false);
    print_bound(of);
    if (rows[0].fits) {
        return GY_OK;
    }
    *status = GY_EXIT_FAILURE;
    if (of->mesh != NULL) {
        return refuse(of, rates, &rows[0]);
    }
    int least = 0;
    char needs[32], has[32];
    for (int i = 1; i < count && rows[i].is_played; i++) {
        least = rows[i].step.memory_bytes < rows[least].step.memory_bytes ? i : least;
    }
    gy_print_to(
        stderr,
        "gyre train: no mesh fits in a rank's %s: %s needs least, %s; choose more ranks, "
        "or a smaller model or batch\n",
        gy_cli_size_text((double)of->search.cluster.memory_bytes, has), rows[least].mesh.axes,
        gy_cli_size_text((double)rows[least].step.memory_bytes, needs));
    return GY_OK;
}

/* --mesh auto: all that it would look at. */
static gy_status choose(const gy_cli_step *of, int *exit_status)
{
    static gy_mesh_choice choice;
    const gy_status status = gy_mesh_choose(&of->search, NULL, &choice);
    if (status >= 0 || status == GY_LIMIT) {
        gy_cli_mesh_choice(of, &choice, true);
    }
    *exit_status = status < 0 ? GY_EXIT_FAILURE : *exit_status;
    return status;
}

static gy_status measure(const gy_cli_step *of, gy_kernel_rates **rates)
{
    gy_model *model = NULL;
    if (of->search.cluster.flops_s > 0) {
        return GY_OK;
    }
    gy_status status = of->search.make(of->search.arg, NULL, &model);
    if (status >= 0) {
        status = gy_train_measure(model, of->search.train, &of->options, rates);
    }
    gy_model_free(model);
    return status;
}

int gy_cli_simulate_step(const gy_cli_step *of)
{
    gy_kernel_rates *rates = NULL;
    int exit_status = GY_EXIT_OK;
    gy_status status = GY_OK;
    if (gy_cli_mesh_is_auto(of->mesh)) {
        status = choose(of, &exit_status);
    } else {
        status = measure(of, &rates);
        status = status >= 0 ? simulate(of, rates, &exit_status) : status;
    }
    gy_kernel_rates_free(rates);
    gy_cli_mesh_count(false);
    return status < 0 ? gy_cli_report_failure("train", status) : exit_status;
}
