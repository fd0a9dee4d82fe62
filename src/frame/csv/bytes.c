/* The bytes of a file, an object or memory: at any offset, or as a stream when they are
 * compressed. */
#include "frame/csv/csv_priv.h"

#include "store/remote/remote.h"
#include "store/store.h"

#include <errno.h>
#include <string.h>

enum { STREAM_READ_BYTES = 256 << 10 };

/* ---- reading at an offset ---- */

static gy_status read_file(const gy_csv_bytes *bytes, uint64_t offset, char *data,
                           size_t wanted, size_t *got)
{
    gy_env *env = gy_env_real();
    size_t done = 0;
    while (done < wanted) {
        const int64_t size = gy_env_disk(env)->read_at(env, bytes->file, data + done,
                                                       wanted - done, offset + done);
        if (size < 0) {
            return gy_store_file_fail("read", bytes->name, size);
        }
        if (size == 0) {
            break;
        }
        done += (size_t)size;
    }
    *got = done;
    return gy_stamp_check(env, bytes->file, bytes->name, &bytes->stamp);
}

static gy_status read_object(const gy_csv_bytes *bytes, uint64_t offset, char *data,
                             size_t wanted, size_t *got)
{
    gy_source *source = NULL;
    const gy_source_part part = {.version = bytes->version,
                                 .begin = offset,
                                 .end = offset + wanted,
                                 .ahead_bytes = wanted};
    GY_TRY(gy_source_open_part(gy_env_real(), bytes->name, &part, &source));
    const gy_status status = gy_source_read(source, data, wanted, got);
    gy_source_close(source);
    return status;
}

/* Bytes at an offset, fewer only at the end. */
static gy_status read_at(const gy_csv_bytes *bytes, uint64_t offset, char *data, size_t wanted,
                         size_t *got)
{
    GY_ASSERT(!bytes->is_stream && offset <= bytes->size_bytes);
    wanted = (size_t)GY_MIN((uint64_t)wanted, bytes->size_bytes - offset);
    *got = 0;
    if (wanted == 0) {
        return GY_OK;
    }
    if (bytes->memory != NULL) {
        memcpy(data, bytes->memory + offset, wanted);
        *got = wanted;
        return GY_OK;
    }
    GY_TRY(bytes->is_remote ? read_object(bytes, offset, data, wanted, got)
                            : read_file(bytes, offset, data, wanted, got));
    return *got == wanted ? GY_OK
                          : gy_fail(GY_STATE, "%s: ends at byte %llu: expected %llu bytes",
                                    bytes->name, (unsigned long long)(offset + *got),
                                    (unsigned long long)bytes->size_bytes);
}

/* ---- opening ---- */

/* Look at the first bytes: a stream if they are compressed. */
static gy_status choose_stream(gy_csv_bytes *bytes)
{
    char head[GY_FORMAT_HEAD_BYTES];
    size_t got = 0;
    GY_TRY(read_at(bytes, 0, head, sizeof(head), &got));
    bytes->is_stream = gy_store_format_is_packed(bytes->encoding, head, got);
    if (bytes->encoding == GY_ENCODING_AUTO && !bytes->is_stream) {
        GY_TRY(gy_store_format_check_text(bytes->name, false, head, got));
    }
    return GY_OK;
}

static gy_status open_stream(gy_csv_bytes *bytes)
{
    gy_env *env = gy_env_real();
    bytes->size_bytes = UINT64_MAX;
    if (bytes->memory != NULL) {
        return gy_source_of(bytes->memory, bytes->memory_bytes, bytes->name, bytes->encoding,
                            &bytes->stream);
    }
    if (bytes->is_remote) {
        return gy_source_open_uri(env, bytes->name, bytes->encoding, NULL, &bytes->stream);
    }
    GY_TRY(gy_stamp_check(env, bytes->file, bytes->name, &bytes->stamp));
    return gy_source_open(env, bytes->name, bytes->encoding, &bytes->stream);
}

static gy_status open_file(gy_csv_bytes *bytes)
{
    gy_env *env = gy_env_real();
    GY_TRY(gy_store_file_open(env, bytes->name, &bytes->file, &bytes->size_bytes));
    GY_TRY(gy_stamp_take(env, bytes->file, bytes->name, &bytes->stamp));
    bytes->is_stream = bytes->size_bytes == 0; /* those of /proc say 0 and have bytes */
    return bytes->is_stream ? GY_OK : choose_stream(bytes);
}

static gy_status open_object(gy_csv_bytes *bytes)
{
    gy_place_facts facts;
    GY_TRY(gy_store_facts_of(gy_env_real(), bytes->name, &facts));
    bytes->is_remote = true;
    bytes->size_bytes = facts.size_bytes;
    bytes->version = gy_copy_text("frame.csv", facts.version);
    return bytes->version != NULL ? choose_stream(bytes) : GY_NOMEM;
}

static gy_status open_named(gy_csv_bytes *bytes, const char *uri)
{
    char path[GY_URI_BYTES];
    const bool is_remote = gy_uri_is_remote(uri);
    if (!is_remote) {
        GY_TRY(gy_store_path_local(uri, "a CSV file", path, sizeof(path)));
    }
    bytes->name = gy_copy_text("frame.csv", is_remote ? uri : path);
    if (bytes->name == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(is_remote ? open_object(bytes) : open_file(bytes));
    return bytes->is_stream ? open_stream(bytes) : GY_OK;
}

gy_status gy_csv_bytes_open(const char *uri, gy_encoding encoding, gy_csv_bytes *bytes)
{
    *bytes = (gy_csv_bytes){.file = -1, .encoding = encoding};
    const gy_status status = open_named(bytes, uri);
    if (status < 0) {
        gy_csv_bytes_close(bytes);
    }
    return status;
}

gy_status gy_csv_bytes_open_memory(gy_text_view memory, const char *name, gy_encoding encoding,
                                   gy_csv_bytes *bytes)
{
    *bytes = (gy_csv_bytes){.file = -1,
                            .encoding = encoding,
                            .memory = memory.data,
                            .memory_bytes = memory.size_bytes,
                            .size_bytes = memory.size_bytes,
                            .name = gy_copy_text("frame.csv", name)};
    gy_status status = bytes->name != NULL ? choose_stream(bytes) : GY_NOMEM;
    if (status == GY_OK && bytes->is_stream) {
        status = open_stream(bytes);
    }
    if (status < 0) {
        gy_csv_bytes_close(bytes);
    }
    return status;
}

gy_status gy_csv_bytes_open_source(gy_source *source, const char *name, gy_csv_bytes *bytes)
{
    *bytes = (gy_csv_bytes){.file = -1,
                            .name = gy_copy_text("frame.csv", name),
                            .stream = source,
                            .is_stream = true,
                            .size_bytes = UINT64_MAX};
    if (bytes->name == NULL) {
        gy_csv_bytes_close(bytes);
        return GY_NOMEM;
    }
    return GY_OK;
}

gy_status gy_csv_bytes_rewind(gy_csv_bytes *bytes)
{
    if (!bytes->is_stream) {
        return GY_OK;
    }
    gy_source_close(bytes->stream);
    bytes->stream = NULL;
    return open_stream(bytes);
}

void gy_csv_bytes_close(gy_csv_bytes *bytes)
{
    gy_source_close(bytes->stream);
    if (bytes->file >= 0) {
        (void)gy_env_disk(gy_env_real())->close(gy_env_real(), bytes->file);
    }
    gy_free(bytes->name);
    gy_free(bytes->version);
    *bytes = (gy_csv_bytes){.file = -1};
}

/* ---- windows ---- */

static gy_status reserve(gy_csv_window *window, size_t size_bytes)
{
    if (window->data != NULL && window->capacity >= size_bytes) {
        return GY_OK;
    }
    char *data = gy_resize("frame.csv", window->data, size_bytes + GY_CSV_SLACK_BYTES);
    if (data == NULL) {
        return GY_NOMEM;
    }
    window->data = data;
    window->capacity = size_bytes;
    return GY_OK;
}

/* More bytes of a stream, up to `wanted` in all. */
static gy_status fill_stream(gy_csv_bytes *bytes, gy_csv_window *window, size_t wanted)
{
    while (window->size_bytes < wanted && !window->is_end) {
        size_t got = 0;
        const size_t more = GY_MIN(wanted - window->size_bytes, (size_t)STREAM_READ_BYTES);
        GY_TRY(gy_source_read(bytes->stream, window->data + window->size_bytes, more, &got));
        window->size_bytes += got;
        window->is_end = got < more;
    }
    return GY_OK;
}

gy_status gy_csv_fill(gy_csv_bytes *bytes, gy_csv_window *window, size_t wanted)
{
    GY_TRY(reserve(window, wanted));
    if (window->size_bytes < wanted && !window->is_end) {
        if (bytes->is_stream) {
            GY_TRY(fill_stream(bytes, window, wanted));
        } else {
            size_t got = 0;
            const uint64_t at = window->offset + window->size_bytes;
            GY_TRY(read_at(bytes, at, window->data + window->size_bytes,
                           wanted - window->size_bytes, &got));
            window->size_bytes += got;
            window->is_end = window->offset + window->size_bytes == bytes->size_bytes;
        }
    }
    memset(window->data + window->size_bytes, 0, GY_CSV_SLACK_BYTES);
    return GY_OK;
}

void gy_csv_skip(const gy_csv_bytes *bytes, gy_csv_window *window, size_t size_bytes)
{
    GY_ASSERT(size_bytes <= window->size_bytes);
    if (bytes->is_stream) { /* of others lines are counted when somebody asks */
        const gy_text_view gone = {window->data, size_bytes};
        window->lines += gy_csv_count_lines(gone, window->data[size_bytes]);
    }
    window->size_bytes -= size_bytes;
    window->offset += size_bytes;
    memmove(window->data, window->data + size_bytes, window->size_bytes + GY_CSV_SLACK_BYTES);
}

void gy_csv_window_fini(gy_csv_window *window)
{
    gy_free(window->data);
    *window = (gy_csv_window){.data = NULL};
}

/* Line ends of the bytes before an offset that are read again. */
static gy_status count_before(gy_csv_bytes *bytes, uint64_t end, uint64_t *lines)
{
    gy_csv_window window = {.data = NULL};
    gy_status status = GY_OK;
    *lines = 0;
    while (status == GY_OK && window.offset < end) {
        const uint64_t left = end - window.offset;
        status = gy_csv_fill(bytes, &window, (size_t)GY_MIN(left + 1, (uint64_t)1 << 20));
        if (status == GY_OK) {
            const size_t size =
                (size_t)GY_MIN(left, (uint64_t)window.size_bytes - (window.is_end ? 0 : 1));
            const gy_text_view text = {window.data, size};
            *lines += gy_csv_count_lines(text, window.data[size]);
            gy_csv_skip(bytes, &window, size);
        }
    }
    gy_csv_window_fini(&window);
    return status;
}

gy_status gy_csv_line(gy_csv_bytes *bytes, const gy_csv_window *window, size_t at,
                      uint64_t *line)
{
    GY_ASSERT(at <= window->size_bytes);
    uint64_t before = window->lines;
    if (!bytes->is_stream) {
        GY_TRY(count_before(bytes, window->offset, &before));
    }
    const gy_text_view text = {window->data, at};
    *line = 1 + before + gy_csv_count_lines(text, window->data[at]);
    return GY_OK;
}
