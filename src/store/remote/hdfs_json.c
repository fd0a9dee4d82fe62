/*
 * Decodes WebHDFS answers with jansson. An answer is not trusted: sizes, kinds and names are
 * checked before use.
 *
 * Source: Apache Hadoop, "WebHDFS REST API", its JSON schemas.
 */
#include "store/remote/remote_priv.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MOST = 255, HOSTS_MOST = 64 };

gy_status gy_store_hdfs_read(const char *data, size_t size_bytes, json_t **document)
{
    json_error_t error;
    json_t *made = json_loadb(data, size_bytes, JSON_REJECT_DUPLICATES, &error);
    if (made == NULL && json_error_code(&error) == json_error_out_of_memory) {
        return gy_fail(GY_NOMEM, "out of memory reading an answer");
    }
    if (!json_is_object(made)) {
        json_decref(made);
        return gy_fail(GY_FORMAT, "the answer is no JSON object: byte %d: %s",
                       made == NULL ? error.position : 0,
                       made == NULL ? error.text : "another");
    }
    *document = made;
    return GY_OK;
}

void gy_store_hdfs_free(json_t *document)
{
    json_decref(document);
}

static gy_status get_count(const json_t *object, const char *name, uint64_t *value)
{
    const json_t *item = json_object_get(object, name);
    const json_int_t number = json_integer_value(item);
    if (!json_is_integer(item) || number < 0) {
        return gy_fail(GY_FORMAT, "the answer's \"%s\" is no count", name);
    }
    *value = (uint64_t)number;
    return GY_OK;
}

static gy_status read_item(const json_t *from, gy_hdfs_item *item)
{
    memset(item, 0, sizeof(*item));
    const char *type = json_string_value(json_object_get(from, "type"));
    const json_t *name = json_object_get(from, "pathSuffix");
    if (type == NULL || !json_is_string(name)) {
        return gy_fail(GY_FORMAT, "the answer has a file without type and pathSuffix");
    }
    item->name = json_string_value(name);
    if (strlen(item->name) != json_string_length(name) || strlen(item->name) > NAME_MOST ||
        strchr(item->name, '/') != NULL || strcmp(item->name, ".") == 0 ||
        strcmp(item->name, "..") == 0) {
        return gy_fail(GY_FORMAT, "the answer has a file with a name that none can have");
    }
    item->is_folder = strcmp(type, "DIRECTORY") == 0;
    item->is_link = strcmp(type, "SYMLINK") == 0;
    if (!item->is_folder && !item->is_link && strcmp(type, "FILE") != 0) {
        return gy_fail(GY_FORMAT, "the answer has a %.40s: expected FILE, DIRECTORY or SYMLINK",
                       type);
    }
    uint64_t changed = 0;
    GY_TRY(get_count(from, "modificationTime", &changed));
    item->modified_ms = (int64_t)changed;
    if (json_object_get(from, "fileId") != NULL) { /* HttpFS does not return it */
        GY_TRY(get_count(from, "fileId", &item->number));
    }
    return item->is_folder ? GY_OK : get_count(from, "length", &item->size_bytes);
}

gy_status gy_store_hdfs_status(const json_t *document, gy_hdfs_item *item)
{
    const json_t *status = json_object_get(document, "FileStatus");
    return json_is_object(status) ? read_item(status, item)
                                  : gy_fail(GY_FORMAT, "the answer has no FileStatus");
}

gy_status gy_store_hdfs_listed(const json_t *document, size_t index, gy_hdfs_item *item)
{
    const json_t *listing = json_object_get(document, "DirectoryListing");
    const json_t *partial = json_object_get(listing, "partialListing");
    const json_t *list =
        json_object_get(json_object_get(partial, "FileStatuses"), "FileStatus");
    if (!json_is_array(list)) {
        return gy_fail(GY_FORMAT, "the answer has no list of FileStatus");
    }
    return index < json_array_size(list) ? read_item(json_array_get(list, index), item)
                                         : GY_NOTFOUND;
}

uint64_t gy_store_hdfs_remaining(const json_t *document)
{
    const json_t *count =
        json_object_get(json_object_get(document, "DirectoryListing"), "remainingEntries");
    return json_integer_value(count) > 0 ? (uint64_t)json_integer_value(count) : 0;
}

bool gy_store_hdfs_exception(const json_t *document, gy_hdfs_words *words)
{
    const json_t *exception = json_object_get(document, "RemoteException");
    const char *name = json_string_value(json_object_get(exception, "exception"));
    const char *text = json_string_value(json_object_get(exception, "message"));
    if (name == NULL) {
        return false;
    }
    text = text != NULL ? text : "";
    snprintf(words->name, sizeof(words->name), "%s", name);
    /* the rest is a Java stack trace */
    snprintf(words->text, sizeof(words->text), "%.*s", (int)strcspn(text, "\n"), text);
    return true;
}

gy_status gy_store_hdfs_boolean(const json_t *document, bool *value)
{
    const json_t *said = json_object_get(document, "boolean");
    *value = json_is_true(said);
    return json_is_boolean(said) ? GY_OK : gy_fail(GY_FORMAT, "the answer has no boolean");
}

static gy_status visit_block(const json_t *from, gy_place_block_visit visit, void *arg)
{
    gy_place_block block = {.at = 0};
    const char *hosts[HOSTS_MOST];
    GY_TRY(get_count(from, "offset", &block.at));
    GY_TRY(get_count(from, "length", &block.size_bytes));
    const json_t *list = json_object_get(from, "hosts");
    for (size_t i = 0; i < json_array_size(list) && block.host_count < HOSTS_MOST; i++) {
        const char *host = json_string_value(json_array_get(list, i));
        if (host == NULL || host[0] == '\0' || strlen(host) > NAME_MOST) {
            return gy_fail(GY_FORMAT, "the answer has a block on a host without a name");
        }
        hosts[block.host_count++] = host;
    }
    block.hosts = hosts;
    return visit(arg, &block);
}

gy_status gy_store_hdfs_blocks(const json_t *document, gy_place_block_visit visit, void *arg)
{
    const json_t *list =
        json_object_get(json_object_get(document, "BlockLocations"), "BlockLocation");
    if (!json_is_array(list)) {
        return gy_fail(GY_FORMAT, "the answer has no BlockLocations");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        GY_TRY(visit_block(json_array_get(list, i), visit, arg));
    }
    return GY_OK;
}
