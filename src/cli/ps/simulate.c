/* gyre ps simulate: rules of consistency against stragglers, in virtual time. */
#include "cli/ps/ps.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/data.h>

#include <stdio.h>
#include <string.h>

enum { RULES_MAX = 16, CALIBRATION_CLOCKS = 100, CLOCKS_MAX = 2000 };

static const char *const scenarios[] = {"even", "one 4x slow", "5% of steps 10x", "skewed"};
_Static_assert(sizeof(scenarios) / sizeof(scenarios[0]) == GY_PS_STRAGGLERS, "a name for each");

/* "bsp,ssp:4,asp"; the number of rules, or -1 and a message. */
static int read_rules(const char *text, gy_ps_sync rules[RULES_MAX])
{
    int count = 0;
    for (const char *at = text; *at != '\0';) {
        char rule[32];
        const size_t size = strcspn(at, ",");
        if (count == RULES_MAX || size >= sizeof(rule)) {
            break;
        }
        memcpy(rule, at, size);
        rule[size] = '\0';
        if (gy_ps_sync_read(rule, &rules[count++]) < 0) {
            (void)gy_cli_report_usage("gyre ps simulate: --sync: %s", gy_error_text());
            return -1;
        }
        at += size + (at[size] == ',');
    }
    if (count == 0) {
        (void)gy_cli_report_usage("gyre ps simulate: --sync: '%s': expected rules such as "
                                  "bsp,ssp:4,asp",
                                  text);
        return -1;
    }
    return count;
}

/* One line: times of all scenarios and, in brackets, their share of BSP's. */
static gy_status print_rule(const gy_libsvm *rows, gy_ps_simulation o,
                            const double bsp_s[GY_PS_STRAGGLERS], bool is_csv)
{
    char rule[32];
    gy_ps_sync_print(o.sync, rule, sizeof(rule));
    printf(is_csv ? "%s" : "%-10s", rule);
    for (o.stragglers = GY_PS_EVEN; o.stragglers < GY_PS_STRAGGLERS; o.stragglers++) {
        gy_ps_simulated result = {.struct_size = sizeof(result)};
        GY_TRY(gy_ps_simulate(rows, &o, &result));
        const double ratio = result.time_s / bsp_s[o.stragglers];
        if (!result.is_reached) {
            printf(is_csv ? ",,,," : "  %16s", "not reached");
        } else if (is_csv) {
            printf(",%.1f,%.2f,%.4f,%llu", result.time_s, ratio, result.loss,
                   (unsigned long long)result.dropped);
        } else {
            printf("  %8.1f (%5.2f)", result.time_s, ratio);
        }
    }
    printf("\n");
    fflush(stdout);
    return GY_OK;
}

static gy_status print_table(const gy_libsvm *rows, gy_ps_simulation o, const gy_ps_sync *rules,
                             int count, bool is_csv)
{
    double bsp_s[GY_PS_STRAGGLERS];
    gy_ps_simulated result = {.struct_size = sizeof(result)};
    o.sync = gy_ps_bsp();
    o.clocks = CALIBRATION_CLOCKS;
    GY_TRY(gy_ps_simulate(rows, &o, &result));
    o.target_loss = result.loss;
    o.clocks = CLOCKS_MAX;
    for (o.stragglers = GY_PS_EVEN; o.stragglers < GY_PS_STRAGGLERS; o.stragglers++) {
        GY_TRY(gy_ps_simulate(rows, &o, &result));
        bsp_s[o.stragglers] = result.time_s;
    }
    if (is_csv) {
        printf("rule");
        for (size_t i = 0; i < GY_PS_STRAGGLERS; i++) {
            printf(",%s s,of bsp,loss,dropped", scenarios[i]);
        }
        printf("\n");
    } else {
        printf("virtual seconds to a loss of %.4f, which bsp reaches in %d clocks, and their "
               "share of bsp's\n%-10s",
               o.target_loss, CALIBRATION_CLOCKS, "rule");
        for (size_t i = 0; i < GY_PS_STRAGGLERS; i++) {
            printf("  %16s", scenarios[i]);
        }
        printf("\n");
    }
    for (int i = 0; i < count; i++) {
        o.sync = rules[i];
        GY_TRY(print_rule(rows, o, bsp_s, is_csv));
    }
    return GY_OK;
}

/* Lecture C's test of a codec: is T I below that of none, T being the time of a clock's pushes
 * on a server's link, I the clocks to the target? */
static gy_status print_codecs(const gy_libsvm *rows, gy_ps_simulation o, bool is_csv)
{
    static const char *const codecs[] = {"none", "bf16", "int8", "topk:0.1", "topk:0.01"};
    static const double bits_per_s = 1e9;
    gy_ps_simulated result = {.struct_size = sizeof(result)};
    double none = 0;
    o.clocks = CALIBRATION_CLOCKS;
    GY_TRY(gy_ps_simulate(rows, &o, &result));
    o.target_loss = result.loss;
    o.clocks = CLOCKS_MAX;
    printf(is_csv ? "codec,bytes a push,T us at 1 Gbit/s,I clocks,T I us,of none\n"
                  : "\ncodec       bytes a push  T, us at 1 Gbit/s  I, clocks      T I, us  "
                    "of none's\n");
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        GY_TRY(gy_codec_read(codecs[i], &o.codec));
        GY_TRY(gy_ps_simulate(rows, &o, &result));
        const double clocks = (double)result.pushes / o.workers;
        const double t_us = 1e6 * 8 * (double)result.push_bytes * o.workers / bits_per_s;
        none = i == 0 ? t_us * clocks : none;
        printf(is_csv ? "%s,%llu,%.2f,%.0f,%.1f,%.3f%s\n"
                      : "%-10s  %12llu  %17.2f  %9.0f  %11.1f  %9.3f%s\n",
               codecs[i], (unsigned long long)result.push_bytes, t_us, clocks, t_us * clocks,
               t_us * clocks / none, result.is_reached ? "" : " (target not reached)");
    }
    return GY_OK;
}

int gy_cli_ps_simulate(const gy_cli_simulation *s)
{
    gy_ps_sync rules[RULES_MAX];
    gy_libsvm *rows = NULL;
    const int count = read_rules(s->sync, rules);
    if (count < 0) {
        return GY_EXIT_USAGE;
    }
    if (strcmp(s->model, "logistic") != 0) {
        return gy_cli_report_usage("gyre ps simulate: no model '%s': expected logistic",
                                   s->model);
    }
    if (s->data == NULL || s->more_data != NULL) {
        return gy_cli_report_usage("gyre ps simulate: --data: expected one libsvm file");
    }
    for (int i = 0; i < count; i++) {
        if (rules[i].rule == GY_PS_BACKUP && rules[i].bound >= s->workers) {
            return gy_cli_report_usage("gyre ps simulate: --sync: backup:%u of %lld workers: "
                                       "expected fewer",
                                       rules[i].bound, s->workers);
        }
    }
    const gy_ps_simulation o =
        GY_OPTIONS(gy_ps_simulation, .workers = (uint32_t)s->workers,
                   .batch = (uint32_t)((s->batch + s->workers - 1) / s->workers),
                   .rate = s->rate, .seed = (uint64_t)s->seed);
    gy_status status = gy_read_libsvm(s->data, &rows);
    if (status == GY_OK) {
        status = print_table(rows, o, rules, count, s->is_csv);
    }
    if (status == GY_OK) {
        status = print_codecs(rows, o, s->is_csv);
    }
    gy_libsvm_free(rows);
    return status < 0 ? gy_cli_report_failure("ps simulate", status) : GY_EXIT_OK;
}
