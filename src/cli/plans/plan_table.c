/* gyre plan table: the cost of an operation's algorithms, computed from their plans, beside the
 * formulas of the literature. */
#include "cli/plans/plan.h"

#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The formulas give seconds for ranks, bytes and servers. */
typedef struct formula_values {
    double p, n, k, alpha, beta, gamma;
} formula_values;

static double log2_up(double p)
{
    return ceil(log2(p));
}

static double by_server(const formula_values *v)
{
    return fmax(v->n * v->beta, v->p * v->n / v->k * v->beta);
}

static double by_naive(const formula_values *v)
{
    return v->alpha + (v->p - 1) * v->n * v->beta;
}

static double by_one(const formula_values *v)
{
    return v->p * (v->p - 1) * (v->alpha + v->n * v->beta);
}

static double by_pipeline(const formula_values *v)
{
    return (v->p - 1) * (v->alpha + v->n * v->beta);
}

static double by_partition(const formula_values *v)
{
    return 2 * v->alpha + 2 * (v->p - 1) / v->p * v->n * v->beta;
}

static double by_ring(const formula_values *v)
{
    return 2 * (v->p - 1) * v->alpha + 2 * (v->p - 1) / v->p * v->n * v->beta;
}

static double by_tree(const formula_values *v)
{
    return 2 * log2_up(v->p) * (v->alpha + v->n * v->beta);
}

static double by_doubling(const formula_values *v)
{
    return log2_up(v->p) * (v->alpha + v->n * v->beta);
}

static double by_halving(const formula_values *v)
{
    return 2 * log2_up(v->p) * v->alpha + 2 * (v->p - 1) / v->p * v->n * v->beta;
}

/* The lectures' names of the allreduce algorithms, and their formulas. */
typedef struct lecture_row {
    const char *name, *title, *formula;
    double (*seconds)(const formula_values *values);
} lecture_row;

static const lecture_row lecture_rows[] = {
    {"flat", "parameter server", "max(n, pn) b", by_server},
    {"servers", "k parameter servers", "max(n/B, pn/(kB))", by_server},
    {"copies", "naive allreduce", "a + (p-1) n b", by_naive},
    {"one-by-one", "decentralised, one by one", "p (p-1) (a + n b)", by_one},
    {"pipeline", "decentralised, pipelined", "(p-1) (a + n b)", by_pipeline},
    {"partitioned", "reduce-scatter, allgather", "2a + 2 (p-1)/p n b", by_partition},
    {"ring", "ring", "2(p-1) a + 2 (p-1)/p n b", by_ring},
    {"tree", "tree", "2 log p (a + n b)", by_tree},
    {"doubling", "latency-optimal recursive doubling", "log p (a + n b)", by_doubling},
    {"halving", "bandwidth-optimal recursive doubling", "2 log p a + 2 (p-1)/p n b",
     by_halving},
};

static const lecture_row *lecture_of(const char *operation, const char *name)
{
    size_t size = strcspn(name, ":");
    for (size_t i = 0; i < sizeof(lecture_rows) / sizeof(lecture_rows[0]); i++) {
        const lecture_row *row = &lecture_rows[i];
        if (strcmp(operation, "allreduce") == 0 && strlen(row->name) == size &&
            strncmp(row->name, name, size) == 0) {
            return row;
        }
    }
    return NULL;
}

static void print_seconds(double seconds, char out[32])
{
    static const struct {
        double least;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (seconds >= units[i].least) {
            snprintf(out, 32, "%.4g %s", seconds / units[i].least, units[i].name);
            return;
        }
    }
    snprintf(out, 32, "%.4g ns", seconds * 1e9);
}

static void print_csv(const gy_plan_query *query, const gy_plan_costs *price,
                      const lecture_row *lecture, double by_formula)
{
    printf("%s,%s,%d,%lld,%d,%d,%lld,%lld,%lld,%d,%.9g,", query->operation, query->algorithm,
           query->ranks, (long long)query->bytes, price->depth, price->rounds,
           (long long)price->sent_max, (long long)price->received_max,
           (long long)price->sent_sum, price->fan_in_max, price->time_s);
    if (lecture == NULL) {
        printf(",,\n");
    } else {
        printf("%.9g,\"%s\",\"%s\"\n", by_formula, lecture->formula, lecture->title);
    }
}

static void print_line(const gy_plan_query *query, const gy_plan_costs *price,
                       const lecture_row *lecture, double by_formula)
{
    char sent[32], received[32], seconds[32], formula[32] = "";
    print_seconds(price->time_s, seconds);
    if (lecture != NULL) {
        print_seconds(by_formula, formula);
    }
    printf("%-20s %6d %6d %9s %9s %6d %9s  %9s", query->algorithm, price->depth, price->rounds,
           gy_cli_bytes_text((double)price->sent_max, sent),
           gy_cli_bytes_text((double)price->received_max, received), price->fan_in_max, seconds,
           formula);
    if (lecture != NULL) {
        printf("  %-24s  %s", lecture->formula, lecture->title);
    }
    printf("\n");
}

/* seconds: by the formula; negative: there is none. */
static void print_too_long(const char *name, double steps, const gy_table_format *format,
                           double seconds)
{
    char formula[32];
    if (format->is_csv) {
        return;
    }
    print_seconds(seconds, formula);
    printf("%-20s is too long for a cost: %.3g steps (--plan-steps-max)%s%s\n", name, steps,
           seconds < 0 ? "" : "; by its formula ", seconds < 0 ? "" : formula);
}

/* One row: `k` servers where the algorithm takes a number, 0: its default. */
static gy_status print_row(const gy_plan_query *asked, const gy_table_format *format,
                           const char *name, int k)
{
    char text[64];
    gy_plan_query query = *asked;
    gy_plan_costs price;
    int64_t steps = 0;
    snprintf(text, sizeof(text), k > 0 ? "%s:%d" : "%s", name, k);
    query.algorithm = text;
    gy_status status = gy_plan_length(&query, &steps);
    if (status == GY_ARG || status == GY_LIMIT) {
        if (!format->is_csv) {
            printf("%-20s does not apply: %s\n", text, gy_error_text());
        }
        return GY_OK;
    }
    GY_TRY(status);
    const lecture_row *lecture = lecture_of(query.operation, name);
    formula_values values = {.p = query.ranks,
                             .n = (double)query.bytes,
                             .k = k > 0 ? k : 1,
                             .alpha = query.links.alpha,
                             .beta = query.links.beta,
                             .gamma = query.links.gamma};
    double by_formula = lecture != NULL ? lecture->seconds(&values) : 0;
    if ((double)steps * query.ranks > format->steps_most) {
        print_too_long(text, (double)steps * query.ranks, format,
                       lecture != NULL ? by_formula : -1);
        return GY_OK;
    }
    GY_TRY(gy_plan_cost(&query, &price));
    (format->is_csv ? print_csv : print_line)(&query, &price, lecture, by_formula);
    return GY_OK;
}

static gy_status print_rows(const gy_plan_query *query, const gy_table_format *format,
                            int *left_out)
{
    gy_plan_algorithm row;
    *left_out = 0;
    for (int i = 0; gy_plan_algorithm_at(query->operation, i, &row); i++) {
        if (!format->has_all && strcmp(row.needs, "messages") != 0) {
            ++*left_out;
        } else if (strcmp(row.name, "servers") == 0) {
            for (int k = 4; k <= query->ranks; k *= k < query->ranks / 4 ? 4 : query->ranks) {
                GY_TRY(print_row(query, format, row.name, k));
            }
            GY_TRY(print_row(query, format, row.name, query->ranks));
        } else {
            GY_TRY(print_row(query, format, row.name, 0));
        }
    }
    return GY_OK;
}

/* Lecture A's example: what one parameter server's link would have to carry. */
static void print_server(const gy_plan_query *query, const gy_table_format *format)
{
    char total[32], each[32], link[32];
    double bytes = (double)query->bytes, sum = query->ranks * format->rate * bytes;
    printf("\nOne parameter server for %d nodes that each send %s %g times a second takes\n"
           "%d x %g x %s/s = %s/s",
           query->ranks, gy_cli_bytes_text(bytes, each), format->rate, query->ranks,
           format->rate, each, gy_cli_bytes_text(sum, total));
    if (query->links.beta > 0) {
        printf(", %.3g times its link of %s/s", sum * query->links.beta,
               gy_cli_bytes_text(1 / query->links.beta, link));
    }
    printf(".\n");
    if (query->ranks == 256 && query->bytes == 97500000 && format->rate == 3) {
        printf("(Lecture A's ResNet-50 on 256 V100s; its 73.1 GB/s is 74880 MB/s divided by "
               "1024.)\n");
    }
}

gy_status gy_cli_print_plan_table(const gy_plan_query *query, const gy_table_format *format)
{
    gy_plan_algorithm first;
    char bytes[32];
    int left_out = 0;
    if (!gy_plan_algorithm_at(query->operation, 0, &first)) {
        int64_t steps;
        gy_plan_query wrong = *query;
        wrong.algorithm = "";
        return gy_plan_length(&wrong, &steps); /* the failure lists the operations */
    }
    if (format->is_csv) {
        printf("operation,algorithm,ranks,bytes,depth,rounds,sent,received,sent_by_all,fan_in,"
               "seconds,formula_seconds,formula,lectures_name\n");
        return print_rows(query, format, &left_out);
    }
    printf("%s of %s over %d ranks", query->operation,
           gy_cli_bytes_text((double)query->bytes, bytes), query->ranks);
    if (query->hosts > 1) {
        printf(" on %d hosts", query->hosts);
    }
    printf(": a message %g s, a byte %g s, combining it %g s\n\n", query->links.alpha,
           query->links.beta, query->links.gamma);
    printf("%-20s %6s %6s %9s %9s %6s %9s  %9s\n", "algorithm", "depth", "rounds", "sent",
           "received", "fan-in", "time", "formula");
    GY_TRY(print_rows(query, format, &left_out));
    printf("\ndepth: messages that must follow each other; rounds: the same where a rank sends "
           "one and takes\none at a time; sent, received: the maximum over the ranks; fan-in: "
           "ranks that one rank gets data from.\n");
    printf("Formulas without combining: a seconds a message, b a byte, B = 1/b, n bytes, p "
           "ranks, k servers.\n");
    if (left_out > 0) {
        printf("Not shown: %d over the memory of one host (--all).\n", left_out);
    }
    if (strcmp(query->operation, "allreduce") == 0) {
        print_server(query, format);
    }
    return GY_OK;
}
