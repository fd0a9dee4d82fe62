/* The last output of managers, as daemons send it, for users. */
#include "cluster/server/server_priv.h"

#include <string.h>

/* ---- requests ---- */

/* Write the output after the requested offset; false: there is none. */
static bool fill(const gy_server *server, const gy_names_job *job, uint32_t epoch,
                 uint64_t offset, Gy__Cluster__OutputSince *since)
{
    const server_output *row = gy_server_outputs_find(&server->outputs, job->key);
    const bool is_last = row != NULL && job->is_ended && row->epoch == job->epoch;
    since->epoch = epoch;
    since->offset = offset;
    since->code = is_last ? row->code : -1;
    if (row != NULL &&
        (row->epoch > epoch || (row->epoch == epoch && row->offset + row->size > offset))) {
        const uint64_t from = row->epoch > epoch ? row->offset : GY_MAX(offset, row->offset);
        since->epoch = row->epoch;
        since->offset = from;
        since->data.data = (uint8_t *)row->data + (from - row->offset);
        since->data.len = (size_t)(row->offset + row->size - from);
    }
    since->is_ended = job->is_ended;
    if (job->is_ended) {
        since->status = job->status;
        since->reason = (char *)(uintptr_t)job->reason;
        since->said = is_last ? row->whole : 0;
    }
    return since->data.len > 0 || job->is_ended;
}

static void answer(const gy_server *server, const gy_rpc_asked *asked,
                   const Gy__Cluster__OutputSince *since)
{
    if (gy_rpc_answer(server->rpc, asked, &since->base) < 0) {
        gy_rpc_refuse(server->rpc, asked, GY_NOMEM, gy_error_text());
    }
}

/* Answer all who wait for this job's output. */
static void answer_all(gy_server *server, gy_key key)
{
    gy_names_job job;
    if (server->names == NULL || !gy_names_find_job(server->names, key, &job)) {
        return; /* the clients repeat their calls */
    }
    for (size_t i = server->held_count; i > 0; i--) {
        const server_held held = server->held[i - 1];
        Gy__Cluster__OutputSince since;
        gy__cluster__output_since__init(&since);
        if (held.kind == HELD_OUTPUT && gy_key_is_same(held.key, key) &&
            fill(server, &job, held.epoch, held.offset, &since)) {
            gy_server_unhold(server, i - 1);
            answer(server, &held.asked, &since);
        }
    }
}

gy_status gy_server_ask_output(void *arg, const gy_rpc_asked *asked,
                               const ProtobufCMessage *request)
{
    gy_server *server = arg;
    const Gy__Cluster__AskOutput *asks = (const void *)request;
    gy_names_job job;
    Gy__Cluster__OutputSince since;
    gy__cluster__output_since__init(&since);
    if (server->names == NULL) {
        return gy_fail(GY_TIMEOUT, "the name server is not ready: try again");
    }
    GY_TRY(gy_net_check_job(asks->job, 1));
    if (!gy_names_find_job(server->names, gy_net_key(asks->job), &job)) {
        return gy_fail(GY_NOTFOUND, "there is no such job, or it ended long ago");
    }
    if (!fill(server, &job, asks->epoch, asks->offset, &since) && !asks->is_hasty) {
        return gy_server_hold(server,
                              &(server_held){.kind = HELD_OUTPUT,
                                             .asked = *asked,
                                             .key = job.key,
                                             .epoch = asks->epoch,
                                             .offset = asks->offset},
                              NULL);
    }
    answer(server, asked, &since);
    return GY_OK;
}

/* ---- reports of daemons ---- */

/* Append output; skip what was received before, and after a gap drop the earlier part. */
static gy_status add(server_outputs *outputs, server_output *row,
                     const Gy__Cluster__Output *told)
{
    const uint64_t end = row->offset + row->size;
    const uint64_t skip = end > told->offset ? end - told->offset : 0;
    if (skip >= told->data.len) {
        return GY_OK;
    }
    const char *data = (const char *)told->data.data + skip;
    const size_t size = told->data.len - (size_t)skip;
    if (told->offset > end) {
        row->size = 0;
        row->offset = told->offset;
    }
    if (row->room < GY_NET_OUTPUT_KEPT && row->room < row->size + size) {
        const size_t room =
            GY_MIN(GY_MAX(2 * row->room, row->size + size), (size_t)GY_NET_OUTPUT_KEPT);
        char *more = gy_alloc("server", room);
        if (more == NULL) {
            return GY_NOMEM;
        }
        if (row->size > 0) {
            memcpy(more, row->data, row->size);
        }
        gy_free(row->data);
        outputs->bytes += room - row->room;
        row->data = more;
        row->room = room;
    }
    if (row->size + size > row->room) {
        const size_t gone = row->size + size - row->room;
        memmove(row->data, row->data + gone, row->size - gone);
        row->size -= gone;
        row->offset += gone;
    }
    memcpy(row->data + row->size, data, size);
    row->size += size;
    return GY_OK;
}

gy_status gy_server_output(void *arg, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request)
{
    gy_server *server = arg;
    const Gy__Cluster__Output *told = (const void *)request;
    Gy__Cluster__Done done = GY__CLUSTER__DONE__INIT;
    gy_names_job job;
    server_output *row = NULL;
    if (server->names == NULL) {
        return gy_fail(GY_TIMEOUT, "the name server is not ready: try again");
    }
    GY_TRY(gy_net_check_job(told->job, told->epoch));
    if (told->data.len > GY_NET_OUTPUT_PIECE || told->offset > INT64_MAX) {
        return gy_fail(GY_FORMAT, "%zu bytes in one request, or an offset past the end",
                       told->data.len);
    }
    if (!gy_names_find_job(server->names, gy_net_key(told->job), &job)) {
        return gy_fail(GY_NOTFOUND, "there is no such job");
    }
    if (told->epoch == job.epoch && !job.is_ended) { /* output of an older manager is ignored */
        GY_TRY(gy_server_outputs_get(&server->outputs, job.key, told->epoch, &row));
        gy_server_outputs_make_room(&server->outputs, 2 * told->data.len);
        row = gy_server_outputs_find(&server->outputs, job.key);
        GY_TRY(row != NULL ? add(&server->outputs, row, told) : GY_OK);
        answer_all(server, job.key);
    }
    return gy_rpc_answer(server->rpc, asked, &done.base);
}

void gy_server_output_end(gy_server *server, const Gy__Cluster__JobEnd *end)
{
    gy_names_job known;
    server_output *row = NULL;
    const gy_key job = gy_net_key(end->job);
    if (!gy_names_find_job(server->names, job, &known) || known.epoch != end->epoch ||
        known.is_ended || end->said > INT64_MAX || end->last.len > end->said ||
        gy_server_outputs_get(&server->outputs, job, end->epoch, &row) < 0) {
        return;
    }
    if (end->last.len > 0) {
        Gy__Cluster__Output last;
        gy__cluster__output__init(&last);
        last.offset = end->said - end->last.len;
        last.data = end->last;
        gy_server_outputs_make_room(&server->outputs, 2 * end->last.len);
        row = gy_server_outputs_find(&server->outputs, job);
        if (row == NULL || add(&server->outputs, row, &last) < 0) {
            gy_debug(
                /* It was checked that so many bytes fit. */
                "cannot retain the log tail of a job");
        }
    }
    if (row != NULL) {
        row->code = end->code;
        row->whole = end->said;
    }
}

void gy_server_output_over(gy_server *server, gy_key job)
{
    answer_all(server, job);
    server_output *row = gy_server_outputs_find(&server->outputs, job);
    if (row != NULL) {
        row->is_ended = true;
        gy_server_outputs_cut(&server->outputs, row,
                              GY_MIN(row->size, (size_t)SERVER_OUTPUT_ENDED));
    }
}
