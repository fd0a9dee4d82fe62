/* Places: a checking wrapper around each scheme's table of functions. */
#include "base/setting_numbers.h"
#include "store/remote/remote_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCK_RANK = 10, BUFFER_FIRST_BYTES = 64 << 10, PARTS_BEFORE_LARGER = 1000 };
static const double patience_usual_s = 60, take_back_s = 10;

static gy_status find_patience(const gy_place_options *options, double *patience_s)
{
    *patience_s = patience_usual_s;
    if (options != NULL && options->patience_s > 0) {
        *patience_s = options->patience_s;
        return GY_OK;
    }
    return gy_base_setting_seconds("GYRE_STORE_TIMEOUT", patience_s);
}

gy_status gy_place_open(gy_env *env, const char *uri, const gy_place_options *options,
                        gy_place **place)
{
    static const gy_place_ops *const schemes[] = {
        [GY_SCHEME_FILE] = &gy_place_file,
        [GY_SCHEME_S3] = &gy_place_s3,
        [GY_SCHEME_HDFS] = &gy_place_hdfs,
    };
    gy_place *made = gy_alloc_zero("store.place", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    gy_mutex_init(&made->lock, LOCK_RANK);
    gy_cond_init(&made->wakes);
    gy_status status = gy_uri_parse(uri, &made->uri);
    status = status < 0 ? status : find_patience(options, &made->patience_s);
    if (status == GY_OK) {
        made->authorities = gy_setting_get("GYRE_CA_FILE");
        made->authorities =
            made->authorities != NULL ? made->authorities : gy_setting_get("AWS_CA_BUNDLE");
        made->ops = schemes[made->uri.scheme];
        status = made->ops->open(made);
    }
    if (status < 0) {
        gy_place_close(made);
        return status;
    }
    *place = made;
    return GY_OK;
}

void gy_place_close(gy_place *place)
{
    if (place == NULL) {
        return;
    }
    if (place->ops != NULL) {
        place->ops->close(place);
    }
    gy_http_close(place->http);
    gy_free(place->answer);
    gy_cond_fini(&place->wakes);
    gy_mutex_fini(&place->lock);
    gy_free(place);
}

const char *gy_place_uri(const gy_place *place)
{
    return place->uri.text;
}

void gy_place_cancel(gy_place *place)
{
    gy_mutex_lock(&place->lock);
    place->is_cancelled_next = place->is_taking_back;
    if (!place->is_taking_back) {
        __atomic_store_n(&place->is_cancelled, true,
                         __ATOMIC_RELEASE); /* partner: drive in http.c */
        if (place->http != NULL) {
            gy_http_wake(place->http);
        }
        gy_cond_broadcast(&place->wakes);
    }
    gy_mutex_unlock(&place->lock);
}

gy_status gy_place_stat(gy_place *place, gy_place_facts *facts)
{
    memset(facts, 0, sizeof(*facts));
    return place->ops->stat(place, facts);
}

gy_status gy_place_list(gy_place *place, gy_place_visit visit, void *arg)
{
    return place->ops->list(place, visit, arg);
}

gy_status gy_place_read(gy_place *place, const char *version, uint64_t at, void *data,
                        size_t wanted, size_t *got)
{
    *got = 0;
    if (wanted == 0) {
        return GY_OK;
    }
    if (at > (uint64_t)INT64_MAX - wanted) {
        return gy_fail(GY_ARG, "%s: no file has %llu bytes", place->uri.text,
                       (unsigned long long)at);
    }
    return place->ops->read(place, version, at, data, wanted, got);
}

gy_status gy_place_remove(gy_place *place)
{
    return place->ops->remove(place);
}

gy_status gy_place_guarantee(gy_place *place, gy_place_guarantees *guarantees)
{
    memset(guarantees, 0, sizeof(*guarantees));
    return place->ops->guarantee(place, guarantees);
}

gy_status gy_place_blocks(gy_place *place, uint64_t at, uint64_t size_bytes,
                          gy_place_block_visit visit, void *arg)
{
    return place->ops->blocks != NULL ? place->ops->blocks(place, at, size_bytes, visit, arg)
                                      : GY_OK;
}

void gy_place_token(gy_place *place, char out[GY_TOKEN_BYTES])
{
    const uint64_t high = place->env->ops->random(place->env, GY_CHANCE_DISK),
                   low = place->env->ops->random(place->env, GY_CHANCE_DISK);
    snprintf(out, GY_TOKEN_BYTES, "%016llx%016llx", (unsigned long long)high,
             (unsigned long long)low);
}

gy_status gy_place_in_order(const gy_place *place, gy_text *before, const char *name)
{
    if (before->size_bytes > 0 && strcmp(before->data, name) >= 0) {
        return gy_fail(GY_FORMAT, "%s: the server lists %s behind %s: expected rising names",
                       place->uri.text, name, before->data);
    }
    before->size_bytes = 0;
    gy_text_add(before, "%s", name);
    return before->status;
}

/* ---- writers ---- */

gy_status gy_place_writer_open(gy_place *place, gy_place_mode mode, gy_place_writer **writer)
{
    gy_place_writer *made = gy_alloc_zero("store.upload", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->place = place;
    made->mode = mode;
    gy_place_token(place, made->token);
    gy_status status = place->ops->write_open(made);
    if (status < 0) {
        gy_place_writer_abort(made);
        return status;
    }
    *writer = made;
    return GY_OK;
}

/* The size of a part grows with the object, because S3 accepts at most 10,000 parts. */
static size_t part_bytes(const gy_place_writer *writer)
{
    return (size_t)GY_PART_BYTES << (writer->part_count / PARTS_BEFORE_LARGER);
}

static gy_status reserve(gy_place_writer *writer, size_t needed)
{
    if (needed <= writer->capacity) {
        return GY_OK;
    }
    size_t larger = GY_MAX(writer->capacity * 2, (size_t)BUFFER_FIRST_BYTES);
    larger = GY_MIN(GY_MAX(larger, needed), part_bytes(writer));
    void *data = gy_resize("store.upload", writer->buffer, larger);
    if (data == NULL) {
        return GY_NOMEM;
    }
    writer->buffer = data;
    writer->capacity = larger;
    return GY_OK;
}

static gy_status add(gy_place_writer *writer, const char *data, size_t size_bytes)
{
    while (size_bytes > 0) {
        const size_t most = part_bytes(writer);
        /* there is more than one part, so a full buffer can be sent */
        if (writer->used == most) {
            GY_TRY(writer->place->ops->write_part(writer, writer->buffer, writer->used));
            writer->part_count++;
            writer->used = 0;
            continue;
        }
        const size_t taken = GY_MIN(size_bytes, most - writer->used);
        GY_TRY(reserve(writer, writer->used + taken));
        memcpy(writer->buffer + writer->used, data, taken);
        writer->used += taken;
        data += taken;
        size_bytes -= taken;
    }
    return GY_OK;
}

gy_status gy_place_writer_add(gy_place_writer *writer, const void *data, size_t size_bytes)
{
    if (writer->error.status < 0) {
        return gy_error_raise(&writer->error);
    }
    return gy_error_keep(&writer->error, add(writer, data, size_bytes));
}

static void free_writer(gy_place_writer *writer)
{
    gy_free(writer->buffer);
    gy_text_free(&writer->upload);
    gy_text_free(&writer->parts);
    gy_free(writer);
}

gy_status gy_place_writer_finish(gy_place_writer *writer)
{
    gy_status status =
        writer->error.status < 0
            ? gy_error_raise(&writer->error)
            : writer->place->ops->write_finish(writer, writer->buffer, writer->used);
    if (status < 0) { /* report the writer's failure, not that of the clean-up */
        gy_error error;
        gy_error_take(&error, status);
        gy_place_writer_abort(writer);
        return gy_error_raise(&error);
    }
    free_writer(writer);
    return GY_OK;
}

/* A cancelled writer must remove what it wrote, with a time limit of its own. */
static void begin_taking_back(gy_place *place)
{
    gy_mutex_lock(&place->lock);
    place->is_taking_back = true;
    place->is_cancelled_next = place->is_cancelled;
    __atomic_store_n(&place->is_cancelled, false, __ATOMIC_RELEASE);
    gy_mutex_unlock(&place->lock);
}

static void end_taking_back(gy_place *place)
{
    gy_mutex_lock(&place->lock);
    place->is_taking_back = false;
    __atomic_store_n(&place->is_cancelled, place->is_cancelled_next, __ATOMIC_RELEASE);
    gy_mutex_unlock(&place->lock);
}

void gy_place_writer_abort(gy_place_writer *writer)
{
    if (writer != NULL) {
        gy_place *place = writer->place;
        const double patience_s = place->patience_s;
        begin_taking_back(place);
        place->patience_s = GY_MIN(patience_s, take_back_s);
        place->ops->write_abort(writer);
        place->patience_s = patience_s;
        end_taking_back(place);
        free_writer(writer);
    }
}

gy_status gy_place_write(gy_place *place, gy_place_mode mode, const void *data,
                         size_t size_bytes)
{
    gy_place_writer *writer = NULL;
    GY_TRY(gy_place_writer_open(place, mode, &writer));
    gy_status status = gy_place_writer_add(writer, data, size_bytes);
    if (status < 0) {
        gy_place_writer_abort(writer);
        return status;
    }
    return gy_place_writer_finish(writer);
}
