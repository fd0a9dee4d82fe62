/*
 * Writes to HDFS: creates a file under a unique temporary name, appends to it, and renames it.
 * The name node's rename is atomic, and replaces nothing unless asked to.
 *
 * Source: Apache Hadoop, "WebHDFS REST API"; Options.Rename for renameoptions.
 */
#include "store/remote/hdfs_priv.h"

#include <stdio.h>
#include <string.h>

gy_status gy_hdfs_guarantee(gy_place *place, gy_place_guarantees *guarantees)
{
    (void)place;
    guarantees->is_exclusive = true;
    snprintf(guarantees->reason, sizeof(guarantees->reason),
             "the name node renames onto nothing that is there");
    return GY_OK;
}

gy_status gy_store_hdfs_write_open(gy_place_writer *writer)
{
    const char *path = writer->place->uri.path, *slash = strrchr(path, '/');
    if (slash == NULL || slash[1] == '\0') {
        return gy_fail(GY_ARG, "cannot write %s: expected the name of a file",
                       writer->place->uri.text);
    }
    gy_text_add(&writer->upload, "%.*s.gyre-%s.tmp", (int)(slash + 1 - path), path,
                writer->token);
    return writer->upload.status;
}

static gy_status create(gy_place_writer *writer, const void *data, size_t size_bytes)
{
    gy_hdfs_call call = {.place = writer->place,
                         .method = "PUT",
                         .path = gy_text_get(&writer->upload),
                         /* the name is unique to this writer, so a repeat is harmless */
                         .operation = "CREATE&overwrite=true",
                         .body = data,
                         .body_bytes = size_bytes};
    writer->is_begun = true;
    GY_TRY(gy_store_hdfs_ask_data(&call));
    if (!gy_hdfs_is_good(&call) || call.data_node[0] == '\0') {
        return gy_store_hdfs_fail(&call, "write");
    }
    gy_hdfs_item item = {.name = NULL};
    GY_TRY(gy_store_hdfs_look(writer->place, gy_text_get(&writer->upload), &item));
    writer->number = item.number;
    writer->written_bytes = item.size_bytes;
    return item.size_bytes == size_bytes
               ? GY_OK
               : gy_fail(GY_IO, "cannot write %s: %llu bytes arrived of %zu",
                         writer->place->uri.text, (unsigned long long)item.size_bytes,
                         size_bytes);
}

/* An append whose answer was lost may have succeeded: the file's length decides. */
static gy_status append(gy_place_writer *writer, const void *data, size_t size_bytes)
{
    gy_hdfs_call call = {.place = writer->place,
                         .method = "POST",
                         .path = gy_text_get(&writer->upload),
                         .operation = "APPEND",
                         .body = data,
                         .body_bytes = size_bytes,
                         .is_once = true};
    gy_status status = gy_store_hdfs_ask_data(&call);
    if (status == GY_OK && (!gy_hdfs_is_good(&call) || call.data_node[0] == '\0')) {
        status = gy_store_hdfs_fail(&call, "append to");
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_hdfs_item item = {.name = NULL};
    GY_TRY(gy_store_hdfs_look(writer->place, gy_text_get(&writer->upload), &item));
    if (item.size_bytes == writer->written_bytes + size_bytes) {
        writer->written_bytes = item.size_bytes;
        return GY_OK;
    }
    if (status < 0) {
        return gy_error_raise(&error);
    }
    return gy_fail(GY_IO, "cannot write %s: %llu bytes are there of %llu",
                   writer->place->uri.text, (unsigned long long)item.size_bytes,
                   (unsigned long long)(writer->written_bytes + size_bytes));
}

gy_status gy_store_hdfs_write_part(gy_place_writer *writer, const void *data, size_t size_bytes)
{
    return writer->is_begun ? append(writer, data, size_bytes)
                            : create(writer, data, size_bytes);
}

/* Does the final name refer to this writer's file? */
static gy_status look_whose(const gy_place_writer *writer, bool *is_ours, bool *is_there)
{
    gy_hdfs_item item = {.name = NULL};
    const gy_status found = gy_store_hdfs_look(writer->place, writer->place->uri.path, &item);
    *is_there = found == GY_OK;
    *is_ours = found == GY_OK && !item.is_folder && item.number == writer->number &&
               item.size_bytes == writer->written_bytes;
    return found == GY_NOTFOUND ? GY_OK : found;
}

static gy_status refuse_folder(const gy_place_writer *writer)
{
    gy_hdfs_item item = {.name = NULL};
    const gy_status found = gy_store_hdfs_look(writer->place, writer->place->uri.path, &item);
    if (found < 0) {
        return found == GY_NOTFOUND ? GY_OK : found;
    }
    if (item.is_folder) { /* a rename would move the file into the folder */
        return gy_fail(GY_IO, "cannot write %s: it is a folder, expected a file",
                       writer->place->uri.text);
    }
    return writer->mode != GY_PLACE_NEW
               ? GY_OK
               : gy_fail(GY_EXISTS, "cannot create %s: it is there already",
                         writer->place->uri.text);
}

static gy_status rename_file(gy_place_writer *writer)
{
    const gy_place *place = writer->place;
    gy_text operation = {0};
    gy_text_add(&operation, "RENAME&destination=");
    gy_http_encode(&operation, place->uri.path, strlen(place->uri.path), "/");
    gy_text_add(&operation, "%s",
                writer->mode == GY_PLACE_REPLACE ? "&renameoptions=OVERWRITE" : "");
    gy_hdfs_call call = {.place = writer->place,
                         .method = "PUT",
                         .path = gy_text_get(&writer->upload),
                         .operation = gy_text_get(&operation)};
    gy_status status = operation.status < 0 ? operation.status : gy_store_hdfs_ask(&call);
    gy_text_free(&operation);
    bool is_ours = false, is_there = false;
    GY_TRY(status);
    /* whatever the answer was, check the actual state */
    GY_TRY(look_whose(writer, &is_ours, &is_there));
    if (is_ours) {
        writer->is_begun = false;
        return GY_OK;
    }
    if (!gy_hdfs_is_good(&call)) {
        return gy_store_hdfs_fail(&call, "write");
    }
    if (is_there && writer->mode == GY_PLACE_NEW) {
        return gy_fail(GY_EXISTS, "cannot create %s: it is there already", place->uri.text);
    }
    return gy_fail(GY_UNSUPPORTED, "cannot write %s: the server renames no file onto another",
                   place->uri.text);
}

gy_status gy_store_hdfs_write_finish(gy_place_writer *writer, const void *data,
                                     size_t size_bytes)
{
    GY_TRY(refuse_folder(writer));
    if (size_bytes > 0 || !writer->is_begun) {
        GY_TRY(gy_store_hdfs_write_part(writer, data, size_bytes));
    }
    return rename_file(writer);
}

void gy_store_hdfs_write_abort(gy_place_writer *writer)
{
    if (!writer->is_begun) {
        return;
    }
    gy_hdfs_call call = {.place = writer->place,
                         .method = "DELETE",
                         .path = gy_text_get(&writer->upload),
                         .operation = "DELETE&recursive=false"};
    const gy_status status = gy_store_hdfs_ask(&call);
    if (status < 0) {
        gy_warn("%s is left behind: %s", call.path, gy_error_text());
    } else if (!gy_hdfs_is_good(&call) && call.answer.status != 404) {
        gy_warn("%s is left behind: the server answers %d", call.path, call.answer.status);
    }
}
