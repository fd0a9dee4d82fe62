/* A file without a name: frames as bytes, each at an offset that its run keeps. */
#include "query/rows/rows_priv.h"

#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <unistd.h>

struct gy_rows_spill {
    gy_env *env;
    gy_rows_counts *counts;
    int file;
    char *folder; /* where it is, for messages */
    uint64_t size_bytes;
    gy_rows_buffer buffer; /* what is written or read */
};

enum { NAME_TRIES = 100 };

/* Open a file and take its name away, so that nothing is left behind whatever happens. */
static gy_status open_file(gy_rows_spill *spill, const char *folder)
{
    static atomic_uint number;
    const gy_disk_ops *disk = gy_env_disk(spill->env);
    const size_t size = strlen(folder) + 64;
    char *path = gy_alloc("query.path", size);
    if (path == NULL) {
        return GY_NOMEM;
    }
    int file = -EEXIST;
    for (int i = 0; i < NAME_TRIES && file == -EEXIST; i++) {
        snprintf(path, size, "%s/rows-%ld-%u", folder, (long)getpid(),
                 atomic_fetch_add_explicit(&number, 1, memory_order_relaxed));
        file = disk->open(spill->env, path, O_RDWR | O_CREAT | O_EXCL, 0600);
    }
    gy_status status = GY_OK;
    if (file < 0) {
        status =
            gy_fail(GY_IO, "no file for rows that memory does not hold can be made in %s: %s",
                    folder, strerror(-file));
    } else {
        spill->file = file;
        const int gone = disk->unlink(spill->env, path);
        status = gone < 0 ? gy_fail(GY_IO, "%s: %s", path, strerror(-gone)) : GY_OK;
    }
    gy_free(path);
    return status;
}

gy_status gy_rows_spill_new(const gy_rows_limits *limits, gy_rows_spill **spill)
{
    gy_rows_spill *made = gy_alloc_zero("query.spill", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = (gy_rows_spill){.env = limits->env, .counts = limits->counts, .file = -1};
    made->folder = gy_copy_text("query.path", limits->spill_folder);
    const gy_status status =
        made->folder != NULL ? open_file(made, limits->spill_folder) : GY_NOMEM;
    if (status < 0) {
        gy_rows_spill_free(made);
        return status;
    }
    *spill = made;
    return GY_OK;
}

void gy_rows_spill_free(gy_rows_spill *spill)
{
    if (spill == NULL) {
        return;
    }
    if (spill->file >= 0) {
        gy_env_disk(spill->env)->close(spill->env, spill->file);
    }
    gy_free(spill->buffer.data);
    gy_free(spill->folder);
    gy_free(spill);
}

static gy_status write_all(gy_rows_spill *spill)
{
    const gy_disk_ops *disk = gy_env_disk(spill->env);
    for (size_t done = 0; done < spill->buffer.size_bytes;) {
        const int64_t wrote =
            disk->write_at(spill->env, spill->file, spill->buffer.data + done,
                           spill->buffer.size_bytes - done, spill->size_bytes + done);
        if (wrote <= 0) {
            return gy_fail(GY_IO, "rows that memory does not hold cannot be written in %s: %s",
                           spill->folder,
                           wrote < 0 ? strerror((int)-wrote) : "nothing is written");
        }
        done += (size_t)wrote;
    }
    spill->size_bytes += spill->buffer.size_bytes;
    return GY_OK;
}

static gy_status add(gy_rows_spill *spill, gy_rows_run *run, const gy_frame *frame)
{
    spill->buffer.size_bytes = 0;
    GY_TRY(gy_rows_bytes_write(frame, &spill->buffer));
    GY_TRY(GY_GROW("query.run", run->offsets, run->capacity, run->count + 1));
    const uint64_t at = spill->size_bytes;
    GY_TRY(write_all(spill));
    run->offsets[run->count++] = at;
    run->rows += gy_frame_rows(frame);
    run->bytes += gy_rows_bytes(frame);
    if (spill->counts != NULL) {
        spill->counts->spilled_bytes += spill->buffer.size_bytes;
    }
    return GY_OK;
}

gy_status gy_rows_spill_add(gy_rows_spill *spill, gy_rows_run *run, const gy_frame *frame)
{
    /* in pieces, so that a reader of many runs keeps little of each */
    const int64_t rows = gy_frame_rows(frame);
    for (int64_t begin = 0; begin < rows; begin += GY_ROWS_SPILL_FRAME) {
        gy_frame *piece = NULL;
        GY_TRY(gy_frame_slice(frame, begin, GY_MIN(begin + GY_ROWS_SPILL_FRAME, rows), &piece));
        const gy_status status = add(spill, run, piece);
        gy_frame_drop(piece);
        GY_TRY(status);
    }
    return GY_OK;
}

static gy_status read_all(gy_rows_spill *spill, size_t size_bytes, uint64_t offset)
{
    const gy_disk_ops *disk = gy_env_disk(spill->env);
    gy_rows_buffer *buffer = &spill->buffer;
    GY_TRY(GY_GROW("query.bytes", buffer->data, buffer->capacity, size_bytes));
    while (buffer->size_bytes < size_bytes) {
        const int64_t got =
            disk->read_at(spill->env, spill->file, buffer->data + buffer->size_bytes,
                          size_bytes - buffer->size_bytes, offset + buffer->size_bytes);
        if (got <= 0) {
            return gy_fail(GY_IO, "rows of a spill file at byte %" PRIu64 ": %s", offset,
                           got < 0 ? strerror((int)-got) : "the file ends there");
        }
        buffer->size_bytes += (size_t)got;
    }
    return GY_OK;
}

gy_status gy_rows_spill_get(gy_rows_spill *spill, gy_schema *schema, const gy_rows_run *run,
                            size_t index, gy_frame **frame)
{
    GY_ASSERT(index < run->count);
    gy_rows_buffer *buffer = &spill->buffer;
    size_t used = GY_ROWS_HEAD_BYTES;
    buffer->size_bytes = 0;
    for (gy_status status = GY_AGAIN; status == GY_AGAIN;) {
        GY_TRY(read_all(spill, used, run->offsets[index]));
        status = gy_rows_bytes_read(schema, buffer->data, buffer->size_bytes, &used, frame);
        if (status != GY_AGAIN) {
            return status;
        }
    }
    return GY_OK;
}

void gy_rows_run_free(gy_rows_run *run)
{
    gy_free(run->offsets);
    *run = (gy_rows_run){.count = 0};
}

/* ---- a run as a source ---- */

typedef struct run_source {
    gy_rows_spill *spill;
    gy_schema *schema;
    const gy_rows_run *run;
    size_t at;
} run_source;

static gy_status run_next(void *arg, gy_frame **frame)
{
    run_source *source = arg;
    if (source->at == source->run->count) {
        return GY_DONE;
    }
    return gy_rows_spill_get(source->spill, source->schema, source->run, source->at++, frame);
}

gy_status gy_rows_run_source(gy_rows_spill *spill, gy_schema *schema, const gy_rows_run *run,
                             gy_frame_source *out)
{
    run_source *source = gy_alloc_zero("query.run", 1, sizeof(*source));
    if (source == NULL) {
        return GY_NOMEM;
    }
    *source = (run_source){.spill = spill, .schema = schema, .run = run};
    *out = (gy_frame_source){.next = run_next, .close = gy_free, .arg = source};
    return GY_OK;
}

/* ---- a file with one run ---- */

struct gy_rows_file {
    gy_schema *schema;
    gy_rows_spill *spill;
    gy_rows_run run;
    size_t at;
};

gy_status gy_rows_file_new(gy_schema *schema, const gy_rows_limits *limits, gy_rows_file **file)
{
    gy_rows_limits own = *limits;
    gy_rows_file *made = gy_alloc_zero("query.file", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    own.env = own.env == NULL ? gy_env_real() : own.env;
    made->schema = gy_schema_hold(schema);
    const gy_status status = gy_rows_spill_new(&own, &made->spill);
    if (status < 0) {
        gy_rows_file_free(made);
        return status;
    }
    *file = made;
    return GY_OK;
}

void gy_rows_file_free(gy_rows_file *file)
{
    if (file == NULL) {
        return;
    }
    gy_rows_run_free(&file->run);
    gy_rows_spill_free(file->spill);
    gy_schema_drop(file->schema);
    gy_free(file);
}

gy_status gy_rows_file_add(gy_rows_file *file, const gy_frame *frame)
{
    GY_ASSERT(file->at == 0);
    return gy_rows_spill_add(file->spill, &file->run, frame);
}

static gy_status file_next(void *arg, gy_frame **frame)
{
    gy_rows_file *file = arg;
    if (file->at == file->run.count) {
        return GY_DONE;
    }
    return gy_rows_spill_get(file->spill, file->schema, &file->run, file->at++, frame);
}

static void file_close(void *arg)
{
    gy_rows_file_free(arg);
}

gy_frame_source gy_rows_file_source(gy_rows_file *file)
{
    return (gy_frame_source){.next = file_next, .close = file_close, .arg = file};
}

gy_status gy_rows_file_again(gy_rows_file *file, gy_frame_source *source)
{
    return gy_rows_run_source(file->spill, file->schema, &file->run, source);
}
