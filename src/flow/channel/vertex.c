/* What a vertex's function can ask and report; ports.c has its inputs and outputs. */
#include "flow/channel/vertex.h"
#include "base/base.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

gy_status gy_vertex_fail(gy_vertex *vertex, gy_status status, gy_cause cause)
{
    GY_ASSERT(status < 0 && cause != GY_CAUSE_NONE);
    if (vertex->cause == GY_CAUSE_NONE) {
        vertex->cause = status == GY_CANCELLED ? GY_CAUSE_CANCELLED : cause;
        vertex->status = status;
        gy_error_take(&vertex->error, status);
    }
    return status;
}

gy_status gy_vertex_check(gy_vertex *vertex)
{
    if (vertex->cause != GY_CAUSE_NONE) {
        return gy_error_raise(&vertex->error);
    }
    if (gy_vertex_is_cancelled(vertex)) {
        return gy_vertex_fail(vertex, gy_fail(GY_CANCELLED, "the job no longer needs it"),
                              GY_CAUSE_CANCELLED);
    }
    return GY_OK;
}

int gy_vertex_inputs(const gy_vertex *vertex)
{
    return (int)vertex->order->input_count;
}

int gy_vertex_outputs(const gy_vertex *vertex)
{
    return (int)vertex->order->output_count;
}

int gy_vertex_index(const gy_vertex *vertex)
{
    return (int)vertex->order->index;
}

int gy_vertex_clones(const gy_vertex *vertex)
{
    return (int)vertex->order->copies;
}

const void *gy_vertex_parameter(const gy_vertex *vertex, size_t *size_bytes)
{
    *size_bytes = vertex->order->parameter_bytes;
    return vertex->order->parameter;
}

gy_any_work gy_vertex_user(const gy_vertex *vertex)
{
    return vertex->order->user;
}

gy_any_work gy_vertex_function(const gy_vertex *vertex, const char *name)
{
    const gy_flow_task *order = vertex->order;
    for (uint32_t low = 0, high = order->function_count; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        const int compared = strcmp(order->functions[middle].name, name);
        if (compared == 0) {
            return order->functions[middle].user;
        }
        if (compared < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

size_t gy_vertex_memory(const gy_vertex *vertex)
{
    return vertex->order->memory_bytes;
}

bool gy_vertex_is_cancelled(const gy_vertex *vertex)
{
    return atomic_load_explicit(vertex->is_cancelled, memory_order_relaxed);
}

/* ---- state cached for the next vertex ---- */

void gy_keep_init(gy_launch_keep *keep)
{
    gy_mutex_init(&keep->lock, 1);
    keep->state = NULL;
}

void gy_keep_fini(gy_launch_keep *keep)
{
    gy_keep_drop(keep, NULL);
    gy_mutex_fini(&keep->lock);
}

void gy_vertex_keep(gy_vertex *vertex, void *state, void (*drop)(void *state))
{
    gy_launch_keep *keep = vertex->order->keep;
    if (keep != NULL && state != NULL) {
        gy_mutex_lock(&keep->lock);
        if (keep->state == NULL) {
            keep->stage = vertex->order->stage;
            keep->state = state;
            keep->drop = drop;
            state = NULL;
        }
        gy_mutex_unlock(&keep->lock);
    }
    if (state != NULL) {
        drop(state);
    }
}

void *gy_vertex_kept(gy_vertex *vertex)
{
    gy_launch_keep *keep = vertex->order->keep;
    void *state = NULL;
    if (keep != NULL) {
        gy_mutex_lock(&keep->lock);
        if (keep->state != NULL && keep->stage == vertex->order->stage) {
            state = keep->state;
            keep->state = NULL;
        }
        gy_mutex_unlock(&keep->lock);
    }
    return state;
}

void gy_keep_drop(gy_launch_keep *keep, const char *stage)
{
    gy_mutex_lock(&keep->lock);
    if (keep->state != NULL && keep->stage != stage) {
        keep->drop(keep->state);
        keep->state = NULL;
    }
    gy_mutex_unlock(&keep->lock);
}

/* ---- scratch folder ---- */

static int remove_entry(const char *path, const struct stat *status, int kind,
                        struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

gy_status gy_flow_folder_remove(const char *path)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
        return gy_fail(GY_IO, "cannot remove folder %s: %s", path, strerrordesc_np(errno));
    }
    return GY_OK;
}

static gy_status make_scratch(gy_vertex *vertex)
{
    const gy_flow_task *order = vertex->order;
    const char *slash = strrchr(order->path, '/');
    gy_text path = {.data = NULL};
    gy_text_add(&path, "%s/scratch/%s", order->folder, slash != NULL ? slash + 1 : order->path);
    if (path.status < 0) {
        gy_text_free(&path);
        return GY_NOMEM;
    }
    int error = gy_disk_make_folders(path.data);
    if (error == 0 && mkdir(path.data, 0700) != 0) {
        error = -errno;
    }
    /* an attempt of the same name that died left it: its files are not ours */
    if (error == -EEXIST) {
        gy_status status = gy_flow_folder_remove(path.data);
        error = status < 0 || mkdir(path.data, 0700) != 0 ? -EEXIST : 0;
    }
    if (error != 0) {
        gy_status status =
            gy_fail(GY_IO, "cannot make folder %s: %s", path.data, strerrordesc_np(-error));
        gy_text_free(&path);
        return status;
    }
    vertex->scratch = path.data; /* the vertex owns the text's memory now */
    return GY_OK;
}

const char *gy_vertex_scratch(gy_vertex *vertex)
{
    if (vertex->scratch == NULL) {
        gy_status status = make_scratch(vertex);
        if (status < 0) {
            (void)gy_vertex_fail(vertex, status, GY_CAUSE_OWN);
        }
    }
    return vertex->scratch;
}

/* ---- counters, samples ---- */

void gy_vertex_count(gy_vertex *vertex, const char *counter, int64_t by)
{
    int at = vertex->tally_last;
    if (at >= vertex->tally_count || strcmp(vertex->tallies[at].name, counter) != 0) {
        at = 0;
        while (at < vertex->tally_count && strcmp(vertex->tallies[at].name, counter) != 0) {
            at++;
        }
    }
    if (at == vertex->tally_count) {
        char *name = NULL;
        if (at == GY_COUNTERS_MAX) {
            (void)gy_vertex_fail(
                vertex,
                gy_fail(GY_LIMIT, "counter %s is one more than %d", counter, GY_COUNTERS_MAX),
                GY_CAUSE_OWN);
            return;
        }
        name = gy_copy_text("flow.counter", counter);
        if (name == NULL) {
            (void)gy_vertex_fail(vertex, GY_NOMEM, GY_CAUSE_OWN);
            return;
        }
        vertex->tallies[vertex->tally_count++] = (gy_tally){.name = name};
    }
    vertex->tallies[at].value += by;
    vertex->tally_last = at;
}

gy_status gy_vertex_set_sample(gy_vertex *vertex, const void *data, size_t size_bytes)
{
    if (size_bytes > GY_SAMPLE_BYTES_MAX) {
        return gy_vertex_fail(vertex,
                              gy_fail(GY_LIMIT, "a report of %zu bytes: at most %d", size_bytes,
                                      GY_SAMPLE_BYTES_MAX),
                              GY_CAUSE_OWN);
    }
    gy_text_free(&vertex->sample);
    gy_text_add_bytes(&vertex->sample, data, size_bytes);
    gy_status status = vertex->sample.status;
    return status < 0 ? gy_vertex_fail(vertex, status, GY_CAUSE_OWN) : GY_OK;
}

/* ---- records ---- */

void gy_vertex_at_record(gy_vertex *vertex, uint32_t source, uint64_t offset)
{
    gy_fault_board *board = vertex->board;
    uint64_t records = atomic_load_explicit(&board->records, memory_order_relaxed);
    atomic_store_explicit(&board->source, source, memory_order_relaxed);
    atomic_store_explicit(&board->offset, offset, memory_order_relaxed);
    atomic_store_explicit(&board->records, records + 1, memory_order_relaxed);
    atomic_store_explicit(&board->has_place, 1, memory_order_relaxed);
}

void gy_vertex_at_key(gy_vertex *vertex, const void *key, size_t size_bytes)
{
    char *text = vertex->board->text;
    size_t size = GY_MIN(size_bytes, (size_t)GY_FAULT_KEY_BYTES - 1);
    memcpy(text, key, size);
    text[size] = '\0';
    gy_vertex_at_record(vertex, GY_PLACE_KEY, gy_hash(key, size_bytes, 0));
}

void gy_vertex_at_none(gy_vertex *vertex)
{
    atomic_store_explicit(&vertex->board->has_place, 0, memory_order_relaxed);
}

bool gy_vertex_has_bad_records(const gy_vertex *vertex)
{
    return vertex->order->bad_count > 0;
}

bool gy_vertex_is_bad_record(gy_vertex *vertex, uint32_t source, uint64_t offset)
{
    size_t low = 0, high = vertex->order->bad_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const gy_flow_record_id *place = &vertex->order->bad[middle];
        if (place->source == source && place->offset == offset) {
            vertex->skipped++;
            return true;
        }
        bool is_below =
            place->source < source || (place->source == source && place->offset < offset);
        low = is_below ? middle + 1 : low;
        high = is_below ? high : middle;
    }
    return false;
}

bool gy_vertex_is_bad_key(gy_vertex *vertex, const void *key, size_t size_bytes)
{
    return gy_vertex_has_bad_records(vertex) &&
           gy_vertex_is_bad_record(vertex, GY_PLACE_KEY, gy_hash(key, size_bytes, 0));
}
