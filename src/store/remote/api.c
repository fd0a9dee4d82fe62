/* <gyre/store.h>: places for users. */
#include "base/escape.h"
#include "store/remote/remote_priv.h"

#include <gyre/store.h>

#include <stdatomic.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20 };

typedef struct visiting {
    gy_store_visit visit;
    void *arg;
} visiting;

static gy_status show(void *arg, const gy_place_entry *entry)
{
    const visiting *to = arg;
    const gy_store_entry shown = {.uri = entry->uri,
                                  .name = entry->name,
                                  .size_bytes = entry->facts.size_bytes,
                                  .modified_ms = entry->facts.modified_ms,
                                  .version = entry->facts.version,
                                  .is_folder = entry->facts.is_folder};
    return to->visit(to->arg, &shown);
}

gy_status gy_store_list(const char *uri, gy_store_visit visit, void *arg)
{
    gy_place *place = NULL;
    GY_TRY(gy_place_open(gy_env_real(), uri, NULL, &place));
    visiting to = {visit, arg};
    const gy_status status = gy_place_list(place, show, &to);
    gy_place_close(place);
    return status;
}

gy_status gy_store_read(const char *uri, bool is_expanded, gy_store_sink take, void *arg)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_open_uri(
        gy_env_real(), uri, is_expanded ? GY_ENCODING_AUTO : GY_ENCODING_PLAIN, NULL, &source));
    char *data = gy_alloc("store.copy", PIECE_BYTES);
    gy_status status = data != NULL ? GY_OK : GY_NOMEM;
    size_t got = 1;
    while (status == GY_OK && got > 0) {
        status = gy_source_read(source, data, PIECE_BYTES, &got);
        if (status == GY_OK && got > 0) {
            status = take(arg, data, got);
        }
    }
    gy_free(data);
    gy_source_close(source);
    return status;
}

static _Atomic bool is_interrupted; /* all copies of this process must end */

void gy_store_interrupt(void)
{
    atomic_store_explicit(&is_interrupted, true, memory_order_relaxed); /* partner: add */
}

static gy_status add(void *arg, const void *data, size_t size_bytes)
{
    if (atomic_load_explicit(&is_interrupted, memory_order_relaxed)) {
        return gy_fail(GY_CANCELLED, "the copy was interrupted: nothing of it is left");
    }
    return gy_place_writer_add(arg, data, size_bytes);
}

gy_status gy_store_copy(const char *from, const char *to, gy_store_mode mode)
{
    gy_place *place = NULL;
    gy_place_writer *writer = NULL;
    GY_TRY(gy_place_open(gy_env_real(), to, NULL, &place));
    gy_status status = gy_place_writer_open(
        place, mode == GY_STORE_NEW ? GY_PLACE_NEW : GY_PLACE_REPLACE, &writer);
    if (status == GY_OK) {
        status = gy_store_read(from, false, add, writer);
        if (status == GY_OK) {
            status = gy_place_writer_finish(writer);
        } else { /* report the copy's failure, not that of the clean-up */
            gy_error error;
            gy_error_take(&error, status);
            gy_place_writer_abort(writer);
            status = gy_error_raise(&error);
        }
    }
    gy_place_close(place);
    return status;
}

gy_status gy_store_escape_name(const char *name, char *shown, size_t size_bytes)
{
    gy_text text = {0};
    gy_text_add_name(&text, name);
    gy_status status = text.status;
    if (status == GY_OK && text.size_bytes >= size_bytes) {
        status = gy_fail(GY_LIMIT, "a name of %zu bytes, expected at most %zu", text.size_bytes,
                         size_bytes - 1);
    } else if (status == GY_OK) {
        memcpy(shown, gy_text_get(&text), text.size_bytes + 1);
    }
    gy_text_free(&text);
    return status;
}

gy_status gy_store_check(const char *uri)
{
    gy_uri *parsed = gy_alloc("store.uri", sizeof(*parsed));
    gy_status status = parsed != NULL ? gy_uri_check_new(uri) : GY_NOMEM;
    status = status < 0 ? status : gy_uri_parse(uri, parsed);
    gy_free(parsed);
    return status;
}

gy_status gy_store_path(const char *text, char *path, size_t size_bytes)
{
    return gy_store_path_local(text, "the path", path, size_bytes);
}

gy_status gy_store_remove(const char *uri)
{
    gy_place *place = NULL;
    GY_TRY(gy_place_open(gy_env_real(), uri, NULL, &place));
    const gy_status status = gy_place_remove(place);
    gy_place_close(place);
    return status;
}
