/* gy_flow_start: reads the list of functions, and serves vertices instead when this process
 * was started for that. */
#include "driver/heartbeat.h"
#include "flow/dag.h"
#include "flow/flow.h"
#include "flow/memo/key.h"
#include "store/remote/remote.h"
#include "store/versions/stamp.h"
#include "worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FUNCTIONS_MAX = 1 << 16 };

static int compare_functions(const void *left, const void *right)
{
    const gy_function *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static gy_status check_functions(const gy_function *functions, int count)
{
    if (count < 0 || count > FUNCTIONS_MAX || (functions == NULL && count > 0)) {
        return gy_fail(GY_ARG, "%d functions: expected 0 to %d", count, FUNCTIONS_MAX);
    }
    for (int i = 0; i < count; i++) {
        const char *name = functions[i].name;
        if (name == NULL || name[0] == '\0' || strlen(name) >= GY_DAG_NAME_BYTES - 12) {
            return gy_fail(GY_ARG,
                           "function %d has the name \"%.140s\": expected 1 to %d letters", i,
                           name != NULL ? name : "", GY_DAG_NAME_BYTES - 13);
        }
        if (functions[i].run == NULL) {
            return gy_fail(GY_ARG, "function %s has nothing to run", name);
        }
    }
    return GY_OK;
}

gy_status gy_flow_new(const gy_function *functions, int count, gy_flow **flow)
{
    GY_TRY(check_functions(functions, count));
    gy_flow *made = gy_alloc_zero("flow.door", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->count = (uint32_t)count;
    made->functions = gy_alloc("flow.door", (size_t)count * sizeof(*functions));
    if (made->functions == NULL) {
        gy_free(made);
        return GY_NOMEM;
    }
    if (count > 0) {
        memcpy(made->functions, functions, (size_t)count * sizeof(*functions));
        qsort(made->functions, (size_t)count, sizeof(*functions), compare_functions);
    }
    for (int i = 0; i < count; i++) {
        const char *name = made->functions[i].name;
        made->hash = gy_hash(name, strlen(name) + 1, made->hash);
        if (i > 0 && strcmp(name, made->functions[i - 1].name) == 0) {
            gy_flow_end(made);
            return gy_fail(GY_ARG, "two functions have the name %s", name);
        }
    }
    *flow = made;
    return GY_OK;
}

/* Work until the job needs this process no more, be it as the fork server or as one of the
 * processes that it forked. */
static gy_status work(gy_flow *flow, int socket)
{
    const int status = gy_flow_serve(flow, socket);
    gy_flow_end(flow);
    return status == 0
               ? GY_DONE
               : gy_fail(GY_STATE, "a worker of a job could not work: its log says why");
}

gy_status gy_flow_start(const int *argc, char ***argv, const gy_function *functions, int count,
                        gy_flow **flow)
{
    GY_ASSERT(argc != NULL && argv != NULL);
    GY_ASSERT(flow != NULL);
    gy_flow *made = NULL;
    gy_reserve_standard_files();
    GY_TRY(gy_flow_new(functions, count, &made));
    GY_ASSERT(made != NULL);
    made->argv = *argv;
    const int socket = gy_worker_socket();
    if (socket >= 0) {
        return work(made, socket);
    }
    gy_ticket ticket;
    /* otherwise gy_flow_run reports what is wrong with the ticket */
    if (gy_ticket_read(&ticket) == GY_OK) {
        gy_driver_heartbeat_start(gy_env_real(), &ticket);
    }
    *flow = made;
    return GY_OK;
}

void gy_flow_end(gy_flow *flow)
{
    if (flow != NULL) {
        gy_free(flow->functions);
        gy_free(flow);
    }
}

gy_status gy_flow_input(const char *path, uint64_t *size_bytes)
{
    gy_file_range range;
    GY_TRY(gy_file_range_read(path, &range));
    if (range.is_object) {
        gy_place_facts facts = {.size_bytes = 0};
        GY_TRY(gy_store_facts_of(gy_env_real(), range.path, &facts));
        *size_bytes = facts.size_bytes;
        return GY_OK;
    }
    if (range.hosts[0] != '\0') {
        return gy_fail(GY_IO, "%s is on another host and can be read only there", path);
    }
    gy_stamp stamp;
    GY_TRY(gy_stamp_look(range.path, &stamp));
    *size_bytes = stamp.disk.size_bytes;
    return GY_OK;
}

uint32_t gy_flow_find(const gy_flow *flow, const char *name)
{
    uint32_t low = 0, high = flow->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(flow->functions[middle].name, name);
        if (order == 0) {
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return UINT32_MAX;
}
