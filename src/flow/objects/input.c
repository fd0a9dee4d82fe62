/* Reads an object: one source for the range, and further sources beyond its end. */
#include "flow/objects/input.h"

#include "flow/objects/prefetch.h"

#include "base/base.h"
#include "flow/channel/vertex.h"
#include "store/remote/remote.h"
#include "worker/sandbox/sandbox.h"

#include <stdatomic.h>
#include <string.h>

enum {
    /* nearly all records that begin in the range end within so many bytes */
    BEYOND_BYTES = 64 << 10,
    AHEAD_LEAST = 256 << 10,
    AHEAD_SHARE = 16, /* each of the two buffers takes this share of the vertex's memory */
};

struct gy_object_input {
    gy_env *env;
    const gy_flow_task_input *from;
    const _Atomic bool *is_cancelled;
    size_t ahead_bytes;
    uint64_t end;      /* end of the range */
    uint64_t at;       /* position of the next byte */
    gy_source *source; /* NULL: to be opened at `at` */
    uint64_t until;    /* where the source ends */
    uint64_t step;     /* size of the next source beyond the range */
    char *piece;       /* (GY_OBJECT_PIECE_BYTES) NULL until first used */
    /* may have prefetched the range; NULL: already asked, or no prefetching */
    gy_objects_prefetch *ahead;
    uint32_t index; /* number of the input, for the prefetcher */
    char *whole;    /* the whole range as prefetched; NULL: not prefetched */
};

gy_status gy_object_input_open(gy_env *env, const gy_flow_task_input *from, size_t memory_bytes,
                               const _Atomic bool *is_cancelled, gy_object_input **input)
{
    if ((gy_sandbox_parts() & GY_SANDBOX_NETWORK) != 0) {
        return gy_fail(GY_UNSUPPORTED,
                       "cannot read %s: the sandbox part `network` forbids connections",
                       from->path);
    }
    gy_object_input *made = gy_alloc_zero("flow.object", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    const size_t share = memory_bytes / AHEAD_SHARE;
    *made = (gy_object_input){
        .env = env,
        .from = from,
        .is_cancelled = is_cancelled,
        .ahead_bytes = memory_bytes == 0 ? (size_t)GY_READ_AHEAD_BYTES
                                         : GY_MIN(GY_MAX(share, (size_t)AHEAD_LEAST),
                                                  (size_t)GY_READ_AHEAD_BYTES),
        .at = from->offset,
        .end = from->size_bytes < from->total_bytes - from->offset
                   ? from->offset + from->size_bytes
                   : from->total_bytes,
        .step = BEYOND_BYTES,
    };
    *input = made;
    return GY_OK;
}

void gy_object_input_close(gy_object_input *input)
{
    if (input != NULL) {
        gy_source_close(input->source);
        gy_free(input->whole);
        gy_free(input->piece);
        gy_free(input);
    }
}

/* Make a source from the prefetched range; NULL: it was not prefetched. */
static gy_status open_fetched(gy_object_input *input)
{
    size_t size = 0;
    gy_objects_prefetch *ahead = input->ahead;
    input->ahead = NULL;
    if (ahead == NULL || input->at != input->from->offset) {
        return GY_OK;
    }
    GY_TRY(gy_objects_prefetch_take(ahead, input->index, &input->whole, &size));
    input->until = input->end;
    return input->whole != NULL ? gy_source_of(input->whole, size, input->from->path,
                                               GY_ENCODING_PLAIN, &input->source)
                                : GY_OK;
}

/* Open a source at the current position: to the range's end (plus the rest of its last
 * record), or one step beyond the range. */
static gy_status open_source(gy_object_input *input, bool is_beyond)
{
    const uint64_t total = input->from->total_bytes;
    GY_TRY(open_fetched(input));
    if (input->source != NULL) {
        return GY_OK;
    }
    uint64_t until = input->end;
    if (is_beyond) {
        const uint64_t from = GY_MAX(input->at, input->end);
        until = from + GY_MIN(input->step, total - from);
        input->step = GY_MIN(input->step * 2, (uint64_t)GY_READ_AHEAD_BYTES);
    }
    const gy_source_part part = {.version = input->from->version,
                                 .begin = input->at,
                                 .end = until,
                                 .ahead_bytes = input->ahead_bytes,
                                 .is_cancelled = input->is_cancelled};
    input->until = until;
    return gy_source_open_part(input->env, input->from->path, &part, &input->source);
}

gy_status gy_object_input_fill(gy_object_input *input, bool is_beyond, char *data,
                               size_t wanted, size_t *got)
{
    const uint64_t last = is_beyond ? input->from->total_bytes : input->end;
    *got = 0;
    while (*got < wanted && input->at < last) {
        if (input->source == NULL) {
            GY_TRY(open_source(input, is_beyond));
        }
        size_t more = 0;
        const uint64_t left = GY_MIN(last, input->until) - input->at;
        GY_TRY(gy_source_read(input->source, data + *got,
                              (size_t)GY_MIN((uint64_t)(wanted - *got), left), &more));
        if (more == 0) {
            return gy_fail(GY_STATE, "%s: it ends at byte %llu, expected %llu",
                           input->from->path, (unsigned long long)input->at,
                           (unsigned long long)input->until);
        }
        *got += more;
        input->at += more;
        if (input->at == input->until) {
            gy_source_close(input->source);
            input->source = NULL;
            gy_free(input->whole);
            input->whole = NULL;
        }
    }
    return GY_OK;
}

gy_status gy_object_input_next(gy_object_input *input, const void **data, size_t *size_bytes)
{
    if (input->piece == NULL) {
        input->piece = gy_alloc("flow.object", GY_OBJECT_PIECE_BYTES);
    }
    if (input->piece == NULL) {
        return GY_NOMEM;
    }
    *data = input->piece;
    return gy_object_input_fill(input, false, input->piece, GY_OBJECT_PIECE_BYTES, size_bytes);
}

/* ---- for a vertex ---- */

bool gy_vertex_is_object(const gy_vertex *vertex, int input)
{
    GY_ASSERT(input >= 0 && (uint32_t)input < vertex->order->input_count);
    return vertex->order->inputs[input].kind == GY_INPUT_OBJECT;
}

uint64_t gy_vertex_object_bytes(const gy_vertex *vertex, int input)
{
    GY_ASSERT(gy_vertex_is_object(vertex, input));
    return vertex->order->inputs[input].total_bytes;
}

bool gy_vertex_has_object_end(const gy_vertex *vertex, int input)
{
    GY_ASSERT(gy_vertex_is_object(vertex, input));
    const gy_flow_task_input *from = &vertex->order->inputs[input];
    return from->size_bytes >= from->total_bytes - from->offset;
}

void gy_vertex_object_budget(gy_vertex *vertex, int input, size_t memory_bytes)
{
    GY_ASSERT(gy_vertex_is_object(vertex, input));
    vertex->inputs[input].memory_bytes = memory_bytes;
}

/* A missing or changed object stays so in every attempt; an unresponsive store may be
 * unreachable from this host only. */
static gy_cause cause_of(gy_status status)
{
    return status == GY_IO || status == GY_TIMEOUT || status == GY_NOMEM ? GY_CAUSE_OWN
                                                                         : GY_CAUSE_FATAL;
}

/* Suspend the record timeout until `end`: a store may take longer than the timeout, and the
 * last record is not to blame. */
static gy_status use(gy_vertex *vertex, uint32_t at, gy_object_input **input)
{
    gy_in_port *port = &vertex->inputs[at];
    atomic_store_explicit(&vertex->task.is_waiting, true, memory_order_relaxed);
    GY_TRY(gy_vertex_check(vertex));
    if (port->state == GY_PORT_NEW) {
        const size_t memory =
            port->memory_bytes != 0 ? port->memory_bytes : vertex->order->memory_bytes;
        GY_TRY(gy_object_input_open(vertex->env, &vertex->order->inputs[at], memory,
                                    vertex->is_cancelled, &port->object));
        port->state = GY_PORT_OPEN;
        if (!vertex->has_begun_ahead) {
            vertex->has_begun_ahead = true;
            GY_TRY(gy_objects_prefetch_begin(vertex->env, vertex->order, at,
                                             port->object->ahead_bytes, vertex->is_cancelled,
                                             &vertex->ahead));
        }
        port->object->ahead = vertex->ahead;
        port->object->index = at;
    }
    *input = port->object;
    return GY_OK;
}

static gy_status end(gy_vertex *vertex, uint32_t at, gy_status status, size_t got)
{
    atomic_store_explicit(&vertex->task.is_waiting, false, memory_order_relaxed);
    if (status < 0) {
        return vertex->cause != GY_CAUSE_NONE
                   ? status
                   : gy_vertex_fail(vertex, status, cause_of(status));
    }
    if (got > 0) {
        gy_vertex_count(vertex, "bytes of objects", (int64_t)got);
    } else {
        gy_object_input_close(vertex->inputs[at].object);
        vertex->inputs[at].object = NULL;
        vertex->inputs[at].state = GY_PORT_ENDED;
    }
    return GY_OK;
}

gy_status gy_vertex_fill(gy_vertex *vertex, int input, bool is_beyond, char *data,
                         size_t wanted, size_t *got)
{
    GY_ASSERT(gy_vertex_is_object(vertex, input) && wanted > 0);
    const uint32_t at = (uint32_t)input;
    *got = 0;
    if (vertex->inputs[at].state == GY_PORT_ENDED) {
        return gy_vertex_check(vertex);
    }
    gy_object_input *from = NULL;
    gy_status status = use(vertex, at, &from);
    if (status == GY_OK) {
        status = gy_object_input_fill(from, is_beyond, data, wanted, got);
    }
    return end(vertex, at, status, *got);
}

gy_status gy_vertex_read_object(gy_vertex *vertex, uint32_t at, const void **data,
                                size_t *size_bytes)
{
    *data = "";
    *size_bytes = 0;
    if (vertex->inputs[at].state == GY_PORT_ENDED) {
        return gy_vertex_check(vertex);
    }
    gy_object_input *from = NULL;
    gy_status status = use(vertex, at, &from);
    if (status == GY_OK) {
        status = gy_object_input_next(from, data, size_bytes);
    }
    status = end(vertex, at, status, *size_bytes);
    *data = *size_bytes > 0 ? *data : "";
    return status;
}
