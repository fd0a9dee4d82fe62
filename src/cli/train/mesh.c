/* Tables of meshes and what a step on them costs, and the choice of --mesh auto. */
#include "cli/train/mesh.h"

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/train/update.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN = 3, LEFT_SHOWN = 3 };

static int counted; /* steps that stand on the terminal; 0: none */

int gy_cli_cores_of(int ranks)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN) / ranks;
    return cores > 1 ? (int)cores : 1;
}

void gy_cli_mesh_count(bool is_counted)
{
    if (isatty(STDERR_FILENO) != 1) {
        return;
    }
    if (is_counted) {
        gy_print_to(stderr, "\r%d steps simulated", ++counted);
    } else if (counted > 0) {
        gy_print_to(stderr, "\r%28s\r", "");
        counted = 0;
    }
    (void)fflush(stderr);
}

void gy_cli_mesh_head(const gy_cli_step *of, const char *what, const char *kernels)
{
    const gy_virtual_cluster *c = &of->search.cluster;
    gy_cli_mesh_count(false);
    const int ranks = gy_virtual_cluster_ranks(c);
    printf("%s, batch %lld, %s %d host%s of %d: %d rank%s", of->model,
           (long long)of->options.batch, what, c->hosts, c->hosts == 1 ? "" : "s",
           c->ranks_per_host, ranks, ranks == 1 ? "" : "s");
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
        printf(", kernels %s", kernels);
    }
    if (of->options.micro_batches > 0) {
        printf(", %d micro-batches", of->options.micro_batches);
    }
    printf("\n");
}

/* "1.5 GB", as --memory and the description write it. */
const char *gy_cli_size_text(double bytes, char out[32])
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

/* What its stages work by; "" where it has none. */
static const char *schedule_of(const gy_cli_step *of, const gy_mesh_trial *r)
{
    const gy_train_options *o = &of->options;
    return r->step.stages < 2         ? ""
           : r->schedule[0] != '\0'   ? r->schedule
           : o->pipe_lists != NULL    ? "lists"
           : o->pipe_schedule != NULL ? o->pipe_schedule
                                      : "1f1b";
}

static void print_row(const gy_cli_step *of, const gy_mesh_trial *r, bool has_micros)
{
    char step[32], memory[32], sent[32];
    if (!r->is_played) {
        printf("%-28s  %4d  %s\n", r->mesh.axes, r->mesh.zero, r->why);
        return;
    }
    const double rate = (double)r->step.samples * of->per_sample / r->step.time_s;
    printf("%-28s  %4d  %11s  %12.*f  %7.1f%%  %6.1f%%  %6.1f%%  %10s  %10s", r->mesh.axes,
           r->mesh.zero, time_text(r->step.time_s, step), rate < 100 ? 2 : 0, rate,
           share_of(r->step.compute_s, &r->step), share_of(r->step.exposed_s, &r->step),
           share_of(r->step.bubble_s, &r->step),
           gy_cli_size_text((double)r->step.memory_bytes, memory),
           gy_cli_size_text(r->step.sent_bytes, sent));
    if (has_micros && r->micro_batches > 0) {
        const char *schedule = schedule_of(of, r);
        printf("  %13d%s%s", r->micro_batches, schedule[0] != '\0' ? " " : "", schedule);
    }
    printf("%s\n", r->fits ? "" : "  does not fit");
}

void gy_cli_mesh_table(const gy_cli_step *of, const gy_mesh_trial *trials, int count,
                       bool has_micros)
{
    char unit[32];
    snprintf(unit, sizeof(unit), "%s/s", of->unit);
    printf("%-28s  %4s  %11s  %12s  %8s  %7s  %7s  %10s  %10s%s\n", "mesh", "zero", "step",
           unit, "compute", "exposed", "bubble", "memory", "sent",
           has_micros ? "  micro-batches" : "");
    for (int i = 0; i < count; i++) {
        print_row(of, &trials[i], has_micros);
    }
}

/* "left out: pipe=8: REASON"; returns how many there are. */
static int print_left(const gy_cli_step *of, const gy_mesh_choice *choice, int shown_max)
{
    char needs[32], has[32];
    int count = 0;
    for (int i = 0; i < choice->count; i++) {
        const gy_mesh_trial *t = &choice->trials[i];
        if ((t->is_played && t->fits) || ++count > shown_max) {
            continue;
        }
        if (t->is_played) {
            printf("left out: %s: needs %s of a rank's %s\n", t->mesh.axes,
                   gy_cli_size_text((double)t->step.memory_bytes, needs),
                   gy_cli_size_text((double)of->search.cluster.memory_bytes, has));
        } else {
            printf("left out: %s: %s\n", t->mesh.axes, t->why);
        }
    }
    return count;
}

void gy_cli_mesh_choice(const gy_cli_step *of, const gy_mesh_choice *choice, bool is_all)
{
    int fitting = 0;
    while (fitting < choice->count && choice->trials[fitting].is_played &&
           choice->trials[fitting].fits) {
        fitting++;
    }
    gy_cli_mesh_head(of, "mesh auto on",
                     choice->is_nominal
                         ? "by their operations and bytes, for one rank cannot hold the model"
                         : "as measured here");
    if (fitting > 0) {
        gy_cli_mesh_table(of, choice->trials, is_all || fitting < SHOWN ? fitting : SHOWN,
                          true);
    }
    const int shown = is_all ? GY_MESH_TRIALS_MAX : LEFT_SHOWN;
    const int left = print_left(of, choice, shown);
    if (left > shown) {
        printf("left out: %d more, which --explain names\n", left - shown);
    }
    if (choice->left > 0) {
        printf("not looked at: %d more meshes\n", choice->left);
    }
    fflush(stdout);
}

/* ---- --cluster ---- */

int gy_cli_cluster_check(const char *text, const char *mesh, long long ranks)
{
    gy_virtual_cluster cluster = {.hosts = 1, .ranks_per_host = (int)ranks};
    if (text == NULL) {
        return GY_EXIT_OK;
    }
    if (!gy_cli_mesh_is_auto(mesh)) {
        return gy_cli_report_usage("gyre train: --cluster needs --mesh auto");
    }
    return ranks == 0 || gy_virtual_cluster_adjust(text, &cluster) >= 0
               ? GY_EXIT_OK
               : gy_cli_report_usage("gyre train: --%s", gy_error_text()); /* "cluster: ..." */
}

gy_status gy_cli_cluster_of(gy_comm *comm, const char *text, gy_virtual_cluster *cluster)
{
    GY_TRY(gy_virtual_cluster_of(comm, cluster));
    return text != NULL ? gy_virtual_cluster_adjust(text, cluster) : GY_OK;
}
