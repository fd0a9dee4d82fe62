/* gyre ps simulate: rules of consistency against stragglers, in virtual time. */
#include "cli/ps/ps.h"

#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/data.h>
#include <gyre/train.h>

#include <stdio.h>
#include <string.h>

enum { RULES_MAX = 16, CALIBRATION_CLOCKS = 100, CLOCKS_MAX = 2000, MODEL_CLOCKS_MAX = 800 };

/* Logistic regression of rows, or a model and its digits. */
typedef struct subject {
    gy_libsvm *rows;
    gy_model *model;
    gy_dataset *train, *test;
    gy_ps_stragglers first, last; /* scenarios */
    bool is_csv;
} subject;

static gy_status simulate(const subject *of, gy_ps_simulation *o, gy_ps_simulated *result)
{
    return of->model != NULL ? gy_train_simulate(of->model, of->train, o, result)
                             : gy_ps_simulate(of->rows, o, result);
}

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
static gy_status print_rule(const subject *of, gy_ps_simulation o,
                            const double bsp_s[GY_PS_STRAGGLERS])
{
    char rule[32];
    gy_ps_sync_print(o.sync, rule, sizeof(rule));
    printf(of->is_csv ? "%s" : "%-10s", rule);
    for (o.stragglers = of->first; o.stragglers <= of->last; o.stragglers++) {
        gy_ps_simulated result = {.struct_size = sizeof(result)};
        GY_TRY(simulate(of, &o, &result));
        const double ratio = result.time_s / bsp_s[o.stragglers];
        if (!result.is_reached) {
            printf(of->is_csv ? ",,,," : "  %16s", "not reached");
        } else if (of->is_csv) {
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

static gy_status print_table(const subject *of, gy_ps_simulation o, const gy_ps_sync *rules,
                             int count)
{
    double bsp_s[GY_PS_STRAGGLERS];
    gy_ps_simulated result = {.struct_size = sizeof(result)};
    o.sync = gy_ps_bsp();
    o.clocks = CALIBRATION_CLOCKS;
    GY_TRY(simulate(of, &o, &result));
    o.target_loss = result.loss;
    o.clocks = of->model != NULL ? MODEL_CLOCKS_MAX : CLOCKS_MAX;
    for (o.stragglers = of->first; o.stragglers <= of->last; o.stragglers++) {
        GY_TRY(simulate(of, &o, &result));
        bsp_s[o.stragglers] = result.time_s;
    }
    if (of->is_csv) {
        printf("rule");
        for (gy_ps_stragglers i = of->first; i <= of->last; i++) {
            printf(",%s s,of bsp,loss,dropped", scenarios[i]);
        }
        printf("\n");
    } else {
        printf("virtual seconds to a loss of %.4f, which bsp reaches in %d clocks, and their "
               "share of bsp's\n%-10s",
               o.target_loss, CALIBRATION_CLOCKS, "rule");
        for (gy_ps_stragglers i = of->first; i <= of->last; i++) {
            printf("  %16s", scenarios[i]);
        }
        printf("\n");
    }
    for (int i = 0; i < count; i++) {
        o.sync = rules[i];
        GY_TRY(print_rule(of, o, bsp_s));
    }
    return GY_OK;
}

/* Lecture C's test of a codec: is T I below that of none, T being the time of a clock's pushes
 * on a server's link, I the clocks to the target? */
static gy_status print_codecs(const subject *of, gy_ps_simulation o)
{
    static const char *const codecs[] = {"none", "bf16", "int8", "topk:0.1", "topk:0.01"};
    static const double bits_per_s = 1e9;
    gy_ps_simulated result = {.struct_size = sizeof(result)};
    double none = 0;
    o.clocks = CALIBRATION_CLOCKS;
    GY_TRY(simulate(of, &o, &result));
    o.target_loss = result.loss;
    o.clocks = of->model != NULL ? MODEL_CLOCKS_MAX : CLOCKS_MAX;
    printf(of->is_csv
               ? "codec,bytes a push,T us at 1 Gbit/s,I clocks,T I us,of none\n"
               : "\ncodec       bytes a push  T, us at 1 Gbit/s  I, clocks      T I, us  "
                 "of none's\n");
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        GY_TRY(gy_codec_read(codecs[i], &o.codec));
        GY_TRY(simulate(of, &o, &result));
        const double clocks = (double)result.pushes / o.workers;
        const double t_us = 1e6 * 8 * (double)result.push_bytes * o.workers / bits_per_s;
        none = i == 0 ? t_us * clocks : none;
        printf(of->is_csv ? "%s,%llu,%.2f,%.0f,%.1f,%.3f%s\n"
                          : "%-10s  %12llu  %17.2f  %9.0f  %11.1f  %9.3f%s\n",
               codecs[i], (unsigned long long)result.push_bytes, t_us, clocks, t_us * clocks,
               t_us * clocks / none, result.is_reached ? "" : " (target not reached)");
    }
    return GY_OK;
}

/* Digits and a model that learns them, with the rate that suits it. */
static gy_status open_model(subject *of, const gy_cli_simulation *s, gy_ps_simulation *o)
{
    gy_model_options options = GY_OPTIONS(gy_model_options, .seed = (uint64_t)s->seed);
    GY_TRY(gy_dataset_open_mnist(s->data, &of->train, &of->test));
    options.input_rank = of->train->input_rank;
    for (int i = 0; i < options.input_rank; i++) {
        options.input_sizes[i] = of->train->input_sizes[i];
    }
    of->first = GY_PS_ONE_SLOW;
    of->last = GY_PS_SLOW_STEPS;
    o->rate = s->rate > 0 ? s->rate : 0.1;
    return gy_model_named(s->model, &options, of->train->classes, &of->model);
}

static gy_status open_subject(subject *of, const gy_cli_simulation *s, gy_ps_simulation *o)
{
    if (strcmp(s->model, "logistic") != 0) {
        return open_model(of, s, o);
    }
    of->last = GY_PS_SKEWED;
    o->rate = s->rate > 0 ? s->rate : 0.5;
    return gy_read_libsvm(s->data, &of->rows);
}

int gy_cli_ps_simulate(const gy_cli_simulation *s)
{
    gy_ps_sync rules[RULES_MAX];
    const bool is_logistic = strcmp(s->model, "logistic") == 0;
    const char *all =
        is_logistic ? "bsp,ssp:1,ssp:4,ssp:16,asp,backup:1,backup:2" : "bsp,ssp:4,asp,backup:1";
    const int count = read_rules(s->sync != NULL ? s->sync : all, rules);
    if (count < 0) {
        return GY_EXIT_USAGE;
    }
    if (!is_logistic && strcmp(s->model, "softmax") != 0 && strcmp(s->model, "mlp") != 0 &&
        strcmp(s->model, "lenet") != 0) {
        return gy_cli_report_usage("gyre ps simulate: no model '%s': expected logistic, "
                                   "softmax, mlp or lenet",
                                   s->model);
    }
    if (s->data == NULL || s->more_data != NULL) {
        return gy_cli_report_usage("gyre ps simulate: --data: expected one %s",
                                   is_logistic ? "libsvm file" : "folder of digits");
    }
    for (int i = 0; i < count; i++) {
        if (rules[i].rule == GY_PS_BACKUP && rules[i].bound >= s->workers) {
            return gy_cli_report_usage("gyre ps simulate: --sync: backup:%u of %lld workers: "
                                       "expected fewer",
                                       rules[i].bound, s->workers);
        }
    }
    subject of = {.is_csv = s->is_csv};
    gy_ps_simulation o =
        GY_OPTIONS(gy_ps_simulation, .workers = (uint32_t)s->workers,
                   .batch = (uint32_t)((s->batch + s->workers - 1) / s->workers),
                   .seed = (uint64_t)s->seed);
    gy_status status = open_subject(&of, s, &o);
    if (status == GY_OK) {
        status = print_table(&of, o, rules, count);
    }
    if (status == GY_OK && is_logistic) {
        status = print_codecs(&of, o);
    }
    const int result = status < 0 ? gy_cli_report_failure("ps simulate", status) : GY_EXIT_OK;
    gy_libsvm_free(of.rows);
    gy_model_free(of.model);
    gy_dataset_free(of.train);
    gy_dataset_free(of.test);
    return result;
}
