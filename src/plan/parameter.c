/* Parameters of algorithms: the text after the name and a colon. */
#include "plan/plan_priv.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* The decimal number that is the whole text, 1 to GY_PLAN_RANKS; 0: malformed. */
static int number_of(const char *text)
{
    int number = 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return 0;
        }
        number = number * 10 + (*text - '0');
        if (number > GY_PLAN_RANKS) {
            return 0;
        }
    }
    return number;
}

int gy_plan_request_number(const gy_plan_request *request, int otherwise)
{
    int number = number_of(request->parameter);
    return number > 0 ? number : otherwise;
}

/* The first or second name of the pair. */
static const char *name_of(const gy_plan_request *request, int which,
                           char name[GY_PLAN_PARAMETER])
{
    const char *plus = strchr(request->parameter, '+');
    const char *from = request->parameter;
    size_t length = strlen(from);
    if (plus != NULL) {
        length = which == 0 ? (size_t)(plus - from) : strlen(plus + 1);
        from = which == 0 ? from : plus + 1;
    }
    memcpy(name, from, length);
    name[length] = '\0';
    return name;
}

/* Inside a host blocks keep the numbers that the plan across gave them. */
static bool is_inner_cut(const gy_algorithm *row)
{
    bool is_by_rank =
        row->operation == GY_OPERATION_GATHER || row->operation == GY_OPERATION_SCATTER;
    return row->cut == (is_by_rank ? GY_CUT_RANKS : GY_CUT_CHUNKS);
}

/* The first row that can be a part of a hierarchy, with that name unless it is empty. */
static const gy_algorithm *part_row(gy_operation operation, const char *name, bool is_outer)
{
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        bool is_fit = row->operation == operation && row->need == GY_NEED_MESSAGES &&
                      row->parameter == GY_PARAMETER_NONE && (is_outer || is_inner_cut(row));
        if (is_fit && (*name == '\0' || strcmp(row->name, name) == 0)) {
            return row;
        }
    }
    return NULL;
}

const gy_algorithm *gy_plan_request_inner(const gy_plan_request *request,
                                          gy_operation operation)
{
    char name[GY_PLAN_PARAMETER];
    return part_row(operation, name_of(request, 0, name), false);
}

const gy_algorithm *gy_plan_request_outer(const gy_plan_request *request,
                                          gy_plan_request *outer)
{
    char name[GY_PLAN_PARAMETER];
    *outer =
        (gy_plan_request){.operation = request->operation,
                          .ranks = request->topology == NULL ? 1 : request->topology->hosts,
                          .chunks = request->chunks};
    return part_row(request->operation, name_of(request, 1, name), true);
}

static gy_status check_pair(const gy_algorithm *algorithm, const gy_plan_request *request)
{
    static const gy_operation inside[GY_OPERATION_COUNT][2] = {
        [GY_OPERATION_ALLREDUCE] = {GY_OPERATION_REDUCE, GY_OPERATION_BROADCAST},
        [GY_OPERATION_REDUCE_SCATTER] = {GY_OPERATION_REDUCE, GY_OPERATION_SCATTER},
        [GY_OPERATION_ALLGATHER] = {GY_OPERATION_GATHER, GY_OPERATION_BROADCAST},
        [GY_OPERATION_BROADCAST] = {GY_OPERATION_BROADCAST, GY_OPERATION_BROADCAST},
        [GY_OPERATION_REDUCE] = {GY_OPERATION_REDUCE, GY_OPERATION_REDUCE},
        [GY_OPERATION_BARRIER] = {GY_OPERATION_BARRIER, GY_OPERATION_BARRIER},
    };
    gy_plan_request outer;
    const gy_operation *needed = inside[algorithm->operation];
    const char *plus = strchr(request->parameter, '+');
    if (request->parameter[0] != '\0' && (plus == NULL || plus == request->parameter)) {
        return gy_fail(GY_ARG, "%s:%s: expected two names with a + between them",
                       algorithm->name, request->parameter);
    }
    for (int i = 0; i < 2; i++) {
        if (gy_plan_request_inner(request, needed[i]) == NULL) {
            return gy_fail(GY_ARG, "%s:%s: no algorithm of that name for %s inside a host",
                           algorithm->name, request->parameter, gy_operation_name(needed[i]));
        }
    }
    if (gy_plan_request_outer(request, &outer) == NULL) {
        return gy_fail(GY_ARG, "%s:%s: no algorithm of that name for %s across hosts",
                       algorithm->name, request->parameter,
                       gy_operation_name(algorithm->operation));
    }
    return GY_OK;
}

gy_status gy_plan_request_check_parameter(const gy_algorithm *algorithm,
                                          const gy_plan_request *request)
{
    bool is_given = request->parameter[0] != '\0';
    switch (algorithm->parameter) {
    case GY_PARAMETER_NUMBER:
        if (is_given && number_of(request->parameter) == 0) {
            return gy_fail(GY_ARG, "%s:%s: expected a number from 1 to %d", algorithm->name,
                           request->parameter, GY_PLAN_RANKS);
        }
        return GY_OK;
    case GY_PARAMETER_PAIR:
        return check_pair(algorithm, request);
    case GY_PARAMETER_NONE:
    default:
        return is_given ? gy_fail(GY_ARG, "%s takes no parameter, \"%s\" was given",
                                  algorithm->name, request->parameter)
                        : GY_OK;
    }
}
