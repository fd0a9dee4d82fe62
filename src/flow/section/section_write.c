/* Writes an attempt's file: each section has a buffer, whose whole pages are appended to the
 * file and checksummed on the way. */
#include "base/base.h"
#include "flow/section/section_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum {
    BUFFER_LEAST = GY_SECTION_PAGE,
    /* bounded so that checksummed bytes are still in the cache when they are written */
    BUFFER_MOST = 256 << 10,
    MEMORY_DEFAULT = 32 << 20,
    PIECE_BYTES = 256 << 10,
};

typedef struct section {
    uint8_t *buffer;
    size_t used, capacity;
    size_t room; /* room that gy_section_room returned */
    bool is_elsewhere;
    uint64_t size_bytes;
    gy_section_extent *extents;
    size_t extent_count, extent_capacity;
    gy_hash_stream hash;
} section;

struct gy_section_writer {
    gy_env *env;
    gy_section_writer_options options;
    char *path;
    int file; /* -1: none, or closed */
    bool is_made, is_finished, is_full, is_small;
    gy_status failed;
    gy_error error;
    uint64_t position; /* position of the file's end */
    uint64_t total;    /* bytes of all sections */
    size_t buffer_max;
    gy_section_sum *sums;
    section *sections; /* (options.count) */
};

/* ---- the file ---- */

static gy_status disk_fails(gy_section_writer *writer, const char *verb, int64_t error)
{
    const char *text = strerrordesc_np((int)-error);
    if (error == -ENOSPC || error == -EDQUOT) {
        writer->is_full = true;
        return gy_fail(GY_LIMIT, "disk full: cannot %s %s: %s", verb, writer->path, text);
    }
    return gy_fail(error == -ENOMEM ? GY_NOMEM : GY_IO, "cannot %s %s: %s", verb, writer->path,
                   text != NULL ? text : "unknown error");
}

static gy_status write_all(gy_section_writer *writer, const void *data, size_t size_bytes)
{
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    const uint8_t *at = data;
    for (size_t left = size_bytes; left > 0;) {
        int64_t written = disk->write(writer->env, writer->file, at, left);
        if (written <= 0) {
            return disk_fails(writer, "write", written < 0 ? written : -EIO);
        }
        at += written;
        left -= (size_t)written;
    }
    writer->position += size_bytes;
    return GY_OK;
}

static gy_status make_file(gy_section_writer *writer)
{
    if (writer->is_made) {
        return GY_OK;
    }
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    /* nobody needs the file that an attempt of the same name left */
    int file =
        disk->open(writer->env, writer->path, O_WRONLY | O_CREAT | O_TRUNC, 0666 /* umask */);
    if (file < 0) {
        return disk_fails(writer, "make", file);
    }
    writer->file = file;
    writer->is_made = true;
    if (writer->options.is_plain) {
        return GY_OK;
    }
    gy_section_header header = gy_section_header_of(&writer->options.owner);
    return write_all(writer, &header, sizeof(header));
}

/* ---- extents ---- */

static gy_status pad_to_page(gy_section_writer *writer)
{
    static const uint8_t zeros[GY_SECTION_PAGE];
    size_t over = (size_t)(writer->position % GY_SECTION_PAGE);
    return over == 0 ? GY_OK : write_all(writer, zeros, GY_SECTION_PAGE - over);
}

/* Append bytes of a section to the file: whole pages, unless they are the section's last
 * bytes. */
static gy_status put(gy_section_writer *writer, section *to, const uint8_t *data,
                     size_t size_bytes, bool is_last)
{
    GY_ASSERT(is_last || writer->options.is_plain || size_bytes % GY_SECTION_PAGE == 0);
    GY_TRY(make_file(writer));
    gy_section_extent *last = to->extent_count > 0 ? &to->extents[to->extent_count - 1] : NULL;
    bool follows = last != NULL && last->offset + last->size_bytes == writer->position;
    if (!follows) {
        if (!writer->options.is_plain && (!is_last || last != NULL)) {
            GY_TRY(pad_to_page(writer));
        }
        GY_TRY(GY_GROW("flow.extents", to->extents, to->extent_capacity, to->extent_count + 1));
        last = &to->extents[to->extent_count++];
        *last = (gy_section_extent){.offset = writer->position};
    }
    /* checksummed and written while it is in the cache */
    for (size_t at = 0; at < size_bytes;) {
        size_t piece = GY_MIN(size_bytes - at, (size_t)PIECE_BYTES);
        gy_hash_feed(&to->hash, data + at, piece);
        GY_TRY(write_all(writer, data + at, piece));
        at += piece;
    }
    last->size_bytes += size_bytes;
    return GY_OK;
}

static size_t whole_pages(const gy_section_writer *writer, size_t size_bytes)
{
    return writer->options.is_plain ? size_bytes : size_bytes - size_bytes % GY_SECTION_PAGE;
}

/* Write the whole pages of a section's buffer; the rest moves to the front. */
static gy_status flush(gy_section_writer *writer, section *from)
{
    size_t size = whole_pages(writer, from->used);
    if (size == 0) {
        return GY_OK;
    }
    GY_TRY(put(writer, from, from->buffer, size, false));
    from->used -= size;
    memmove(from->buffer, from->buffer + size, from->used);
    /* after a large room, shrink the buffer: the next request may be small */
    if (from->capacity > 2 * writer->buffer_max) {
        void *buffer = gy_resize("flow.buffer", from->buffer, writer->buffer_max);
        from->capacity = buffer != NULL ? writer->buffer_max : from->capacity;
        from->buffer = buffer != NULL ? buffer : from->buffer;
    }
    return GY_OK;
}

static gy_status grow_buffer(section *to, size_t needed)
{
    if (needed <= to->capacity) {
        return GY_OK;
    }
    size_t capacity = GY_MAX(to->capacity, (size_t)BUFFER_LEAST);
    while (capacity < needed) {
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    }
    void *buffer = gy_resize("flow.buffer", to->buffer, capacity);
    if (buffer == NULL) {
        return GY_NOMEM;
    }
    to->buffer = buffer;
    to->capacity = capacity;
    return GY_OK;
}

/* ---- the interface ---- */

gy_key gy_section_content(const gy_section_sum *sums, size_t count)
{
    static_assert(sizeof(gy_section_sum) == 16, "hashed as it lies");
    return gy_key_of(sums, count * sizeof(*sums));
}

gy_status gy_section_writer_new(gy_env *env, const gy_section_writer_options *options,
                                gy_section_writer **writer)
{
    GY_ASSERT(options->count > 0 && options->count <= GY_SECTIONS_MAX);
    GY_ASSERT(!options->is_plain || (options->count == 1 && options->small_bytes == 0));
    gy_section_writer *made = gy_alloc_zero("flow.writer", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    made->file = -1;
    made->options = *options;
    made->path = gy_copy_text("flow.writer", options->path);
    made->sections = gy_alloc_zero("flow.writer", options->count, sizeof(section));
    made->sums = gy_alloc_zero("flow.writer", options->count, sizeof(gy_section_sum));
    if (made->path == NULL || made->sections == NULL || made->sums == NULL) {
        gy_section_writer_free(made);
        return GY_NOMEM;
    }
    size_t memory = options->memory_bytes > 0 ? options->memory_bytes : (size_t)MEMORY_DEFAULT;
    size_t each = memory / options->count;
    each -= each % GY_SECTION_PAGE;
    made->buffer_max = GY_MIN(GY_MAX(each, (size_t)BUFFER_LEAST), (size_t)BUFFER_MOST);
    for (uint32_t i = 0; i < options->count; i++) {
        gy_hash_begin(&made->sections[i].hash);
    }
    *writer = made;
    return GY_OK;
}

static gy_status keep_failure(gy_section_writer *writer, gy_status status)
{
    if (status < 0 && writer->failed == GY_OK) {
        writer->failed = status;
        gy_error_take(&writer->error, status);
    }
    return status;
}

static section *section_of(gy_section_writer *writer, uint32_t index)
{
    GY_ASSERT(index < writer->options.count && !writer->is_finished);
    return &writer->sections[index];
}

static gy_status room(gy_section_writer *writer, section *to, size_t size_bytes, void **out)
{
    if (to->used > 0 && to->used + size_bytes > writer->buffer_max) {
        GY_TRY(flush(writer, to));
    }
    if (size_bytes > SIZE_MAX / 2 - to->used) {
        return gy_fail(GY_NOMEM, "room for %zu bytes", size_bytes);
    }
    GY_TRY(grow_buffer(to, GY_MAX(to->used + size_bytes, (size_t)1)));
    to->room = size_bytes;
    *out = to->buffer + to->used;
    return GY_OK;
}

gy_status gy_section_room(gy_section_writer *writer, uint32_t index, size_t size_bytes,
                          void **out)
{
    section *to = section_of(writer, index);
    if (writer->failed < 0) {
        return gy_error_raise(&writer->error);
    }
    return keep_failure(writer, room(writer, to, size_bytes, out));
}

gy_status gy_section_wrote(gy_section_writer *writer, uint32_t index, size_t size_bytes)
{
    section *to = section_of(writer, index);
    GY_ASSERT(size_bytes <= to->room);
    if (writer->failed < 0) {
        return gy_error_raise(&writer->error);
    }
    to->room = 0;
    to->used += size_bytes;
    to->size_bytes += size_bytes;
    writer->total += size_bytes;
    bool is_due = to->used >= writer->buffer_max;
    return is_due ? keep_failure(writer, flush(writer, to)) : GY_OK;
}

static gy_status add(gy_section_writer *writer, section *to, const uint8_t *data,
                     size_t size_bytes)
{
    size_t left = size_bytes;
    while (left > 0) {
        /* written straight from the caller's memory */
        if (to->used == 0 && left >= writer->buffer_max) {
            size_t size = whole_pages(writer, left);
            GY_TRY(put(writer, to, data, size, false));
            data += size;
            left -= size;
            continue;
        }
        size_t piece = GY_MIN(left, writer->buffer_max - to->used);
        GY_TRY(grow_buffer(to, to->used + piece));
        memcpy(to->buffer + to->used, data, piece);
        to->used += piece;
        data += piece;
        left -= piece;
        if (to->used >= writer->buffer_max) {
            GY_TRY(flush(writer, to));
        }
    }
    to->size_bytes += size_bytes;
    writer->total += size_bytes;
    return GY_OK;
}

gy_status gy_section_add(gy_section_writer *writer, uint32_t index, const void *data,
                         size_t size_bytes)
{
    section *to = section_of(writer, index);
    to->room = 0;
    if (writer->failed < 0) {
        return gy_error_raise(&writer->error);
    }
    return keep_failure(writer, add(writer, to, data, size_bytes));
}

void gy_section_note(gy_section_writer *writer, uint32_t index, const gy_section_sum *sum)
{
    section *to = section_of(writer, index);
    GY_ASSERT(to->size_bytes == 0);
    to->is_elsewhere = true;
    writer->sums[index] = *sum;
}

/* ---- the end ---- */

static gy_status write_table(gy_section_writer *writer)
{
    gy_section_header header = gy_section_header_of(&writer->options.owner);
    gy_section_tail tail = {
        .table = writer->position,
        .sections = writer->options.count,
        .magic = GY_SECTION_END_MAGIC,
    };
    gy_text table = {.data = NULL};
    for (uint32_t i = 0; i < writer->options.count; i++) {
        const section *from = &writer->sections[i];
        gy_section_row row = {writer->sums[i].size_bytes, writer->sums[i].hash,
                              from->extent_count};
        gy_text_add_bytes(&table, &row, sizeof(row));
        tail.extents += from->extent_count;
    }
    for (uint32_t i = 0; i < writer->options.count; i++) {
        const section *from = &writer->sections[i];
        if (from->extent_count > 0) {
            gy_text_add_bytes(&table, from->extents,
                              from->extent_count * sizeof(gy_section_extent));
        }
    }
    gy_key content = gy_section_content(writer->sums, writer->options.count);
    tail.content[0] = content.high;
    tail.content[1] = content.low;
    gy_status status = table.status;
    if (status == GY_OK) {
        tail.hash = gy_section_tail_hash(&header, table.data, table.size_bytes, &tail);
        gy_text_add_bytes(&table, &tail, sizeof(tail)); /* one write for both */
        status =
            table.status < 0 ? table.status : write_all(writer, table.data, table.size_bytes);
    }
    gy_text_free(&table);
    return status;
}

static gy_status finish(gy_section_writer *writer)
{
    writer->is_small = !writer->is_made && !writer->options.is_plain &&
                       writer->total <= writer->options.small_bytes;
    for (uint32_t i = 0; i < writer->options.count; i++) {
        section *from = &writer->sections[i];
        if (from->is_elsewhere) {
            continue;
        }
        if (writer->is_small) {
            gy_hash_feed(&from->hash, from->buffer != NULL ? from->buffer : (uint8_t *)"",
                         from->used);
        } else if (from->used > 0) {
            GY_TRY(put(writer, from, from->buffer, from->used, true));
            from->used = 0;
        }
        writer->sums[i] = (gy_section_sum){from->size_bytes, gy_hash_end(&from->hash)};
    }
    if (writer->is_small) {
        return GY_OK;
    }
    GY_TRY(make_file(writer));
    if (!writer->options.is_plain) {
        GY_TRY(write_table(writer));
    }
    int file = writer->file;
    writer->file = -1;
    int error = gy_env_disk(writer->env)->close(writer->env, file);
    return error < 0 ? disk_fails(writer, "close", error) : GY_OK;
}

gy_status gy_section_finish(gy_section_writer *writer, bool *is_small)
{
    GY_ASSERT(!writer->is_finished);
    if (writer->failed < 0) {
        return gy_error_raise(&writer->error);
    }
    GY_TRY(keep_failure(writer, finish(writer)));
    writer->is_finished = true;
    *is_small = writer->is_small;
    return GY_OK;
}

const gy_section_sum *gy_section_sums(const gy_section_writer *writer)
{
    GY_ASSERT(writer->is_finished);
    return writer->sums;
}

const void *gy_section_small(const gy_section_writer *writer, uint32_t index)
{
    GY_ASSERT(writer->is_finished && writer->is_small && index < writer->options.count);
    const section *from = &writer->sections[index];
    return from->buffer != NULL ? from->buffer : (const uint8_t *)"";
}

bool gy_section_is_full(const gy_section_writer *writer)
{
    return writer->is_full;
}

void gy_section_writer_free(gy_section_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    const gy_disk_ops *disk = gy_env_disk(writer->env);
    if (writer->file >= 0) {
        (void)disk->close(writer->env, writer->file);
    }
    if (writer->is_made && !writer->is_finished) {
        (void)disk->unlink(writer->env, writer->path);
    }
    for (uint32_t i = 0; writer->sections != NULL && i < writer->options.count; i++) {
        gy_free(writer->sections[i].buffer);
        gy_free(writer->sections[i].extents);
    }
    gy_free(writer->sections);
    gy_free(writer->sums);
    gy_free(writer->path);
    gy_free(writer);
}
