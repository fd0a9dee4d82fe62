/* gyre plan pipe: schedules of pipelines, drawn, costed, printed and read. */
#include "cli/plans/plan.h"

#include "cli/cli.h"
#include "cli/lists.h"
#include "cli/report.h"

#include <gyre/data.h>
#include <gyre/pipe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int report(gy_status status)
{
    int code = gy_cli_report_failure("plan pipe", status);
    return status == GY_ARG ? GY_EXIT_USAGE : code;
}

/* "1,2,1" and "1,1,1,0.1": F, I, W and a transfer. */
static bool read_costs(const char *text, double costs[4])
{
    for (int i = 0; i < 4; i++) {
        char *end = NULL;
        costs[i] = strtod(text, &end);
        if (end == text || !(costs[i] >= 0 && costs[i] <= 1e9)) {
            return false;
        }
        if (*end == '\0') {
            return i >= 2;
        }
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
    return false;
}

static void print_step(const gy_pipe_schedule *schedule, const gy_pipe_step *step,
                       const gy_pipe_facts *facts, bool has_bytes)
{
    char bytes[32];
    printf("time %.6g, bubble %.4g %%, at most %d micro-batch%s alive on a rank%s\n",
           step->time_s, 100 * step->bubble, facts->alive_max,
           facts->alive_max == 1 ? "" : "es",
           schedule->stages > schedule->ranks ? " (counted for each of its stages)" : "");
    printf("room for %d message%s from a rank to another, gradients added %s order of "
           "micro-batches\n",
           facts->buffers_min, facts->buffers_min == 1 ? "" : "s",
           facts->is_ordered ? "in the" : "in another order than the");
    printf("rank  computing    waiting  alive%s\n", has_bytes ? "  sent" : "");
    for (int rank = 0; rank < schedule->ranks; rank++) {
        const gy_pipe_rank *each = &step->ranks[rank];
        printf("%4d %10.6g %10.6g %6d%s%s\n", rank, each->busy_s, step->time_s - each->busy_s,
               each->alive_max, has_bytes ? "  " : "",
               has_bytes ? gy_cli_bytes_text((double)each->sent_bytes, bytes) : "");
    }
}

/* The last part of a path. */
static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static gy_status show(const gy_pipe_request *request, const gy_pipe_schedule *schedule,
                      const gy_pipe_cost *cost)
{
    gy_pipe_facts facts;
    static gy_pipe_rank ranks[GY_PIPE_RANKS_MAX];
    gy_pipe_step step = {.ranks = ranks};
    char title[96], *text = NULL;
    GY_TRY(gy_pipe_check(schedule, NULL, &facts));
    if (request->lists != NULL) {
        bool is_all = strcmp(request->lists, "all") == 0;
        GY_TRY(gy_pipe_print(schedule, is_all ? GY_PIPE_ALL : GY_PIPE_COMPUTING, &text));
        fputs(text, stdout);
        gy_string_free(text);
        return GY_OK;
    }
    snprintf(title, sizeof(title), "%.40s: %d rank%s, %d stage%s, %d micro-batch%s",
             request->read != NULL ? name_in(request->read) : request->query.schedule,
             schedule->ranks, schedule->ranks == 1 ? "" : "s", schedule->stages,
             schedule->stages == 1 ? "" : "s", schedule->micros,
             schedule->micros == 1 ? "" : "es");
    GY_TRY(gy_pipe_picture(schedule, cost, 1, title, request->svg != NULL ? 0 : request->width,
                           &text));
    gy_status status = GY_OK;
    if (request->svg != NULL) {
        status = gy_save_file(request->svg, text, strlen(text));
        printf("%s%s", status >= 0 ? title : "", status >= 0 ? "\n" : "");
    } else {
        printf("%s\n\n%s\n", title, text);
    }
    gy_string_free(text);
    GY_TRY(status);
    GY_TRY(gy_pipe_simulate(schedule, cost, 1, &step));
    print_step(schedule, &step, &facts, cost->send_bytes > 0);
    return GY_OK;
}

int gy_cli_plan_pipe(const gy_pipe_request *request)
{
    double costs[4] = {1, 1, 1, 0};
    gy_pipe_schedule *schedule = NULL;
    if (request->costs != NULL && !read_costs(request->costs, costs)) {
        gy_print_to(stderr,
                    "gyre plan: --costs: '%s' is not valid: expected F,I,W or F,I,W,SEND\n",
                    request->costs);
        return GY_EXIT_USAGE;
    }
    int code = GY_EXIT_OK;
    if (request->read != NULL) {
        code = gy_cli_lists_read("plan pipe", request->read, &schedule);
    } else {
        gy_status planned = gy_pipe_plan(&request->query, &schedule);
        code = planned == GY_OK ? GY_EXIT_OK : report(planned);
    }
    if (code == GY_EXIT_OK) {
        double chunks = (double)schedule->stages / schedule->ranks;
        gy_status status = show(request, schedule,
                                &(gy_pipe_cost){.forward = costs[0] / chunks,
                                                .input = costs[1] / chunks,
                                                .weight = costs[2] / chunks,
                                                .send = costs[3],
                                                .send_bytes = request->bytes});
        code = status == GY_OK ? GY_EXIT_OK : report(status);
    }
    gy_pipe_free(schedule);
    return code;
}
