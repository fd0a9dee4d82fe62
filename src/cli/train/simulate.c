/* gyre train --simulate: a step on ranks that need not exist, on one mesh or on several. */
#include "cli/train/simulate.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One mesh, and what came of it. */
typedef struct row {
    gy_virtual_mesh mesh;
    gy_virtual_step step;
    bool is_played, fits;
    char why[256]; /* it was not played */
} row;

static void print_cluster(const gy_cli_step *of)
{
    const gy_virtual_cluster *c = &of->cluster;
    const int ranks = gy_virtual_cluster_ranks(c);
    printf("%s, batch %lld, on %d host%s of %d: %d rank%s", of->model,
           (long long)of->options.batch, c->hosts, c->hosts == 1 ? "" : "s", c->ranks_per_host,
           ranks, ranks == 1 ? "" : "s");
    if (c->near_bytes_s > 0) {
        printf(", %g GB/s near", c->near_bytes_s / 1e9);
    } else if (c->ranks_per_host > 1) {
        printf(", shared memory");
    }
    if (c->hosts > 1) {
        printf(", %g GB/s far, of a host", c->far_bytes_s / 1e9);
    }
    if (c->flops_s > 0) {
        const double bandwidth = c->memory_bytes_s > 0 ? c->memory_bytes_s : c->flops_s / 100;
        printf(", %g TFLOP/s, memory at %g GB/s", c->flops_s / 1e12, bandwidth / 1e9);
    } else {
        printf(", kernels as measured here");
    }
    if (of->options.micro_batches > 0) {
        printf(", %d micro-batches", of->options.micro_batches);
    }
    printf("\n");
}

/* "1.5 GB", as --memory and the description write it. */
static const char *size_text(double bytes, char out[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1000;
        unit++;
    }
    snprintf(out, 32, "%.*f %s", unit > 0 && bytes < 100 ? 1 : 0, bytes, units[unit]);
    return out;
}

static const char *time_text(double seconds, char out[32])
{
    const bool is_long = seconds >= 10;
    snprintf(out, 32, "%.*f %s",
             seconds >= 1e-3 && !is_long ? 2
             : is_long                   ? 1
                                         : 4,
             is_long ? seconds : seconds * 1e3, is_long ? "s" : "ms");
    return out;
}

static double share_of(double part_s, const gy_virtual_step *step)
{
    return step->time_s > 0 ? 100 * part_s / step->time_s : 0;
}

static void print_row(const gy_cli_step *of, const row *r)
{
    char step[32], memory[32], sent[32];
    if (!r->is_played) {
        printf("%-28s  %4d  %s\n", r->mesh.axes, r->mesh.zero, r->why);
        return;
    }
    printf("%-28s  %4d  %11s  %12.4g  %7.1f%%  %6.1f%%  %6.1f%%  %10s  %10s%s\n", r->mesh.axes,
           r->mesh.zero, time_text(r->step.time_s, step),
           (double)r->step.samples * of->per_sample / r->step.time_s,
           share_of(r->step.compute_s, &r->step), share_of(r->step.exposed_s, &r->step),
           share_of(r->step.bubble_s, &r->step),
           size_text((double)r->step.memory_bytes, memory), size_text(r->step.sent_bytes, sent),
           r->fits ? "" : "  does not fit");
}

/* Those that fit first, then the faster ones. */
static int by_use(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->is_played != y->is_played) {
        return x->is_played ? -1 : 1;
    }
    if (x->fits != y->fits) {
        return x->fits ? -1 : 1;
    }
    return x->step.time_s < y->step.time_s ? -1 : x->step.time_s > y->step.time_s ? 1 : 0;
}

/* A mesh that cannot be is no failure of the table: its row says why. */
static gy_status play(const gy_cli_step *of, const gy_kernel_rates *rates, row *r)
{
    gy_train_options options = of->options;
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    gy_virtual_step step = GY_OPTIONS(gy_virtual_step, .ranks = 0);
    options.zero = r->mesh.zero;
    options.memory_bytes = 0;
    gy_status status = gy_mesh_virtual(&of->cluster, r->mesh.axes, &mesh);
    if (status >= 0) {
        status = of->make(of->arg, mesh, &model);
    }
    if (status >= 0) {
        status = gy_train_simulate_step(model, &options, &of->cluster, rates, &step);
    }
    if (status < 0 && status != GY_NOMEM) {
        snprintf(r->why, sizeof(r->why), "%s", gy_error_text());
    }
    gy_model_free(model);
    gy_mesh_free(mesh);
    r->is_played = status >= 0;
    r->step = step;
    r->fits = r->is_played &&
              (of->cluster.memory_bytes == 0 || step.memory_bytes <= of->cluster.memory_bytes);
    return status == GY_NOMEM ? status : GY_OK;
}

static gy_status play_all(const gy_cli_step *of, const gy_kernel_rates *rates, row *rows,
                          int count)
{
    for (int i = 0; i < count; i++) {
        GY_TRY(play(of, rates, &rows[i]));
    }
    qsort(rows, (size_t)count, sizeof(*rows), by_use);
    return GY_OK;
}

static void print_table(const gy_cli_step *of, const row *rows, int count)
{
    char unit[32];
    snprintf(unit, sizeof(unit), "%s/s", of->unit);
    printf("%-28s  %4s  %11s  %12s  %8s  %7s  %7s  %10s  %10s\n", "mesh", "zero", "step", unit,
           "compute", "exposed", "bubble", "memory", "sent");
    for (int i = 0; i < count; i++) {
        print_row(of, &rows[i]);
    }
}

static int meshes_of(const gy_cli_step *of, row *rows)
{
    gy_virtual_mesh meshes[GY_VIRTUAL_MESHES_MAX];
    const int micros = of->options.micro_batches > 1 ? of->options.micro_batches : 1;
    const int found = gy_virtual_meshes(&of->cluster, of->options.batch / micros, meshes);
    int count = 0;
    for (int i = 0; i < found; i++) {
        if (of->options.zero == 0 || meshes[i].zero == 0) { /* --zero holds for all */
            rows[count] = (row){.mesh = meshes[i]};
            rows[count++].mesh.zero += of->options.zero;
        }
    }
    return count;
}

/* The mesh of --mesh does not fit: what does. */
static gy_status refuse(const gy_cli_step *of, const gy_kernel_rates *rates, const row *given)
{
    row rows[GY_VIRTUAL_MESHES_MAX];
    char needs[32], has[32], takes[32], fit[128] = "no other mesh of these ranks does";
    const int count = meshes_of(of, rows);
    GY_TRY(play_all(of, rates, rows, count));
    if (count > 0 && rows[0].fits) {
        snprintf(fit, sizeof(fit), "%s%s fits with %s", rows[0].mesh.axes,
                 rows[0].mesh.zero == 3   ? " --zero 3"
                 : rows[0].mesh.zero == 1 ? " --zero 1"
                                          : "",
                 size_text((double)rows[0].step.memory_bytes, takes));
    }
    gy_print_to(stderr, "gyre train: mesh %s needs %s of a rank's %s: %s\n", given->mesh.axes,
                size_text((double)given->step.memory_bytes, needs),
                size_text((double)of->cluster.memory_bytes, has), fit);
    return GY_OK;
}

static gy_status simulate(const gy_cli_step *of, const gy_kernel_rates *rates, int *status)
{
    row rows[GY_VIRTUAL_MESHES_MAX] = {{.mesh = {.zero = of->options.zero}}};
    int count = 1;
    if (of->mesh != NULL) {
        snprintf(rows[0].mesh.axes, sizeof(rows[0].mesh.axes), "%s", of->mesh);
    } else {
        count = meshes_of(of, rows);
    }
    GY_TRY(play_all(of, rates, rows, count));
    if (count == 0 || !rows[0].is_played) {
        gy_print_to(stderr, "gyre train: --simulate: %s\n",
                    count > 0
                        ? rows[0].why
                        : "the batch has fewer rows than there are ranks along data on any "
                          "mesh: choose a larger --batch");
        *status = GY_EXIT_FAILURE;
        return GY_OK;
    }
    print_cluster(of);
    print_table(of, rows, count);
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
        size_text((double)of->cluster.memory_bytes, has), rows[least].mesh.axes,
        size_text((double)rows[least].step.memory_bytes, needs));
    return GY_OK;
}

int gy_cli_simulate_step(const gy_cli_step *of)
{
    gy_kernel_rates *rates = NULL;
    gy_model *model = NULL;
    int exit_status = GY_EXIT_OK;
    gy_status status = GY_OK;
    if (of->cluster.flops_s == 0) {
        status = of->make(of->arg, NULL, &model);
        if (status >= 0) {
            status = gy_train_measure(model, of->train, &of->options, &rates);
        }
        gy_model_free(model);
    }
    if (status >= 0) {
        status = simulate(of, rates, &exit_status);
    }
    gy_kernel_rates_free(rates);
    return status < 0 ? gy_cli_report_failure("train", status) : exit_status;
}
