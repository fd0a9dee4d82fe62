/*
 * HDFS through WebHDFS: the name node answers questions about files, and redirects reads and
 * writes to a data node. This file follows redirects itself: only from a name node to a data
 * node, only once, and never from TLS to plain HTTP.
 *
 * Source: Apache Hadoop, "WebHDFS REST API".
 */
#include "store/remote/hdfs_priv.h"

#include <stdio.h>
#include <string.h>

enum { JSON_MOST = 2 << 20, DATA_NODES_TRIED = 3 };

static gy_status hdfs_open(gy_place *place)
{
    const char *user = gy_setting_get("HADOOP_USER_NAME");
    if (place->uri.user[0] == '\0' && user != NULL) {
        if (strlen(user) >= sizeof(place->uri.user)) {
            return gy_fail(GY_LIMIT, "HADOOP_USER_NAME has %zu bytes, expected fewer than %zu",
                           strlen(user), sizeof(place->uri.user));
        }
        memcpy(place->uri.user, user, strlen(user) + 1);
    }
    return GY_OK;
}

static void hdfs_close(gy_place *place)
{
    (void)place;
}

static void make_url(const gy_hdfs_call *call, gy_text *url)
{
    const gy_uri *uri = &call->place->uri;
    gy_text_add(url, "%s://%s:%d/webhdfs/v1", uri->is_tls ? "https" : "http", uri->host,
                uri->port);
    gy_http_encode(url, call->path, strlen(call->path), "/");
    gy_text_add(url, "?op=%s", call->operation);
    if (uri->user[0] != '\0') {
        gy_text_add(url, "&user.name=");
        gy_http_encode(url, uri->user, strlen(uri->user), "");
    }
}

gy_status gy_store_hdfs_ask(gy_hdfs_call *call)
{
    gy_text url = {0};
    make_url(call, &url);
    gy_http_request request = {
        .method = call->method, .url = gy_text_get(&url), .is_once = call->is_once};
    gy_status status = url.status < 0 ? url.status : gy_place_page(call->place, &request);
    if (status == GY_OK) {
        request.into_bytes = call->into != NULL ? GY_PAGE_BYTES : JSON_MOST;
        status = gy_place_ask(call->place, &request, &call->answer, NULL);
    }
    gy_text_free(&url);
    return status;
}

/* Check that the name node may redirect us there; host and port go to call->data_node. */
static gy_status check_redirect(gy_hdfs_call *call)
{
    const char *location = call->answer.location;
    const bool is_tls = strncmp(location, "https://", 8) == 0;
    const bool is_plain = strncmp(location, "http://", 7) == 0 && !call->place->uri.is_tls;
    const char *host = location + (is_tls ? 8 : 7);
    const size_t size = is_tls || is_plain ? strcspn(host, "/?#") : 0;
    if (size == 0 || size >= sizeof(call->data_node)) {
        return gy_fail(GY_FORMAT, "%s: the name node sends to \"%.200s\", expected %s://HOST…",
                       call->place->uri.text, location,
                       call->place->uri.is_tls ? "https" : "http");
    }
    memcpy(call->data_node, host, size);
    call->data_node[size] = '\0';
    return GY_OK;
}

/* Ask the name node, then the data node that its answer names, if any. */
static gy_status ask_both(gy_hdfs_call *call)
{
    call->data_node[0] = '\0';
    const bool is_once = call->is_once;
    /* the name node itself changes nothing yet, so a repeat is harmless */
    call->is_once = false;
    gy_status status = gy_store_hdfs_ask(call);
    call->is_once = is_once;
    if (status < 0 || call->answer.status != 307) {
        return status; /* a refusal, or a 200 without a data node, which the caller handles */
    }
    GY_TRY(check_redirect(call));
    gy_text url = {0};
    gy_text_add(&url, "%s", call->answer.location);
    gy_http_request request = {.method = call->method,
                               .url = gy_text_get(&url),
                               .headers = {"Content-Type: application/octet-stream"},
                               .body = call->body,
                               .body_bytes = call->body_bytes,
                               .into = call->into,
                               .into_bytes = call->into_bytes,
                               .is_once = is_once};
    status =
        url.status < 0 ? url.status : gy_place_ask(call->place, &request, &call->answer, NULL);
    gy_text_free(&url);
    return status < 0 ? gy_fail_within(status, "data node %s", call->data_node) : GY_OK;
}

gy_status gy_store_hdfs_ask_data(gy_hdfs_call *call)
{
    const char *operation = call->operation;
    gy_text excluding = {0};
    gy_status status = GY_AGAIN;
    for (int i = 0; status == GY_AGAIN && i < DATA_NODES_TRIED; i++) {
        status = ask_both(call);
        const bool is_the_node = call->data_node[0] != '\0' && !call->is_once &&
                                 (status == GY_IO || status == GY_TIMEOUT);
        if (is_the_node && i + 1 < DATA_NODES_TRIED) { /* another data node has the block too */
            gy_text_add(&excluding, "%s", i == 0 ? operation : "");
            gy_text_add(&excluding, "%s", i == 0 ? "&excludedatanodes=" : "%2C");
            gy_http_encode(&excluding, call->data_node, strlen(call->data_node), "");
            call->operation = gy_text_get(&excluding);
            status = excluding.status < 0 ? excluding.status : GY_AGAIN;
        }
    }
    call->operation = operation;
    gy_text_free(&excluding);
    return status;
}

gy_status gy_store_hdfs_document(const gy_hdfs_call *call, json_t **document)
{
    const gy_status status =
        gy_store_hdfs_read(call->place->answer, call->answer.body_bytes, document);
    return status < 0 ? gy_fail_within(status, "%s", call->place->uri.text) : GY_OK;
}

gy_status gy_store_hdfs_fail(const gy_hdfs_call *call, const char *words)
{
    const gy_http_answer *answer = &call->answer;
    const gy_uri *uri = &call->place->uri;
    gy_hdfs_words said = {.name = ""};
    json_t *document = NULL;
    if (answer->error_bytes > 0 &&
        gy_store_hdfs_read(answer->error, answer->error_bytes, &document) == GY_OK) {
        /* without a parsable body only the status number is reported */
        (void)gy_store_hdfs_exception(document, &said);
        gy_store_hdfs_free(document);
    }
    char told[704];
    snprintf(told, sizeof(told), "%d%s%s%s%s", answer->status, said.name[0] != '\0' ? " " : "",
             said.name, said.text[0] != '\0' ? ": " : "", said.text);
    const bool is_denied = strcmp(said.name, "AccessControlException") == 0 ||
                           strcmp(said.name, "SecurityException") == 0;
    if (answer->status == 404) {
        return gy_fail(GY_NOTFOUND, "cannot %s %s: not found (%s)", words, uri->text, told);
    }
    if (strcmp(said.name, "FileAlreadyExistsException") == 0) {
        return gy_fail(GY_EXISTS, "cannot %s %s: it is there already (%s)", words, uri->text,
                       told);
    }
    if (answer->status == 401 || is_denied || (answer->status == 403 && said.name[0] == '\0')) {
        return gy_fail(GY_IO, "cannot %s %s: access denied (%s); user: %s", words, uri->text,
                       told,
                       uri->user[0] != '\0' ? uri->user : "none, HADOOP_USER_NAME is not set");
    }
    return gy_fail(answer->status == 503 ? GY_TIMEOUT : GY_IO,
                   "cannot %s %s: the server answers %s", words, uri->text, told);
}

/* ---- metadata ---- */

gy_status gy_store_hdfs_look(gy_place *place, const char *path, gy_hdfs_item *item)
{
    gy_hdfs_call call = {
        .place = place, .method = "GET", .path = path, .operation = "GETFILESTATUS"};
    GY_TRY(gy_store_hdfs_ask(&call));
    if (!gy_hdfs_is_good(&call)) {
        return gy_store_hdfs_fail(&call, "look at");
    }
    json_t *document = NULL;
    GY_TRY(gy_store_hdfs_document(&call, &document));
    const gy_status status = gy_store_hdfs_status(document, item);
    item->name = NULL; /* the name belongs to the document, which is freed */
    gy_store_hdfs_free(document);
    return status < 0 ? gy_fail_within(status, "%s", place->uri.text) : GY_OK;
}

static void fill_facts(const gy_hdfs_item *item, gy_place_facts *facts)
{
    *facts = (gy_place_facts){.size_bytes = item->size_bytes,
                              .is_folder = item->is_folder,
                              .is_link = item->is_link,
                              .modified_ms = item->modified_ms};
    if (!item->is_folder) {
        snprintf(facts->version, sizeof(facts->version), "%llu-%llu-%lld",
                 (unsigned long long)item->number, (unsigned long long)item->size_bytes,
                 (long long)item->modified_ms);
    }
}

static gy_status hdfs_stat(gy_place *place, gy_place_facts *facts)
{
    gy_hdfs_item item = {.name = NULL};
    GY_TRY(gy_store_hdfs_look(place, place->uri.path, &item));
    fill_facts(&item, facts);
    return GY_OK;
}

/* ---- listing ---- */

typedef struct listing {
    gy_place *place;
    gy_place_visit visit;
    void *arg;
    gy_text before, uri; /* the last name; the URI that the visitor gets */
    size_t folder_bytes; /* of the URI: length of the listed folder's URI with its slash */
} listing;

static gy_status visit_item(listing *list, const gy_hdfs_item *item)
{
    if (item->name[0] == '\0') {
        return gy_fail(GY_FORMAT, "%s: the server lists a file without a name",
                       list->place->uri.text);
    }
    GY_TRY(gy_place_in_order(list->place, &list->before, item->name));
    list->uri.size_bytes = list->folder_bytes;
    gy_text_add(&list->uri, "%s%s", item->name, item->is_folder ? "/" : "");
    GY_TRY(list->uri.status);
    gy_place_entry entry = {.uri = list->uri.data, .name = list->uri.data + list->folder_bytes};
    fill_facts(item, &entry.facts);
    return list->visit(list->arg, &entry);
}

static gy_status visit_page(listing *list, const json_t *document, size_t *count)
{
    gy_status status = GY_OK;
    for (*count = 0; status == GY_OK; (*count)++) {
        gy_hdfs_item item = {.name = NULL};
        status = gy_store_hdfs_listed(document, *count, &item);
        if (status == GY_NOTFOUND) {
            return GY_OK;
        }
        status = status < 0 ? gy_fail_within(status, "%s", list->place->uri.text)
                            : visit_item(list, &item);
    }
    return status;
}

/* Get the page after the name list->before. */
static gy_status list_page(listing *list, size_t *count, bool *is_more)
{
    gy_text operation = {0};
    gy_text_add(&operation, "LISTSTATUS_BATCH");
    if (list->before.size_bytes > 0) {
        gy_text_add(&operation, "&startAfter=");
        gy_http_encode(&operation, list->before.data, list->before.size_bytes, "");
    }
    gy_hdfs_call call = {.place = list->place,
                         .method = "GET",
                         .path = list->place->uri.path,
                         .operation = gy_text_get(&operation)};
    gy_status status = operation.status < 0 ? operation.status : gy_store_hdfs_ask(&call);
    gy_text_free(&operation);
    GY_TRY(status);
    if (!gy_hdfs_is_good(&call)) {
        return gy_store_hdfs_fail(&call, "list");
    }
    json_t *document = NULL;
    GY_TRY(gy_store_hdfs_document(&call, &document));
    *is_more = gy_store_hdfs_remaining(document) > 0;
    status = visit_page(list, document, count);
    gy_store_hdfs_free(document);
    return status;
}

static gy_status hdfs_list(gy_place *place, gy_place_visit visit, void *arg)
{
    gy_place_entry entry = {.uri = place->uri.text};
    GY_TRY(hdfs_stat(place, &entry.facts));
    if (!entry.facts.is_folder) {
        entry.name = gy_store_path_name(place->uri.path);
        return visit(arg, &entry);
    }
    listing list = {.place = place, .visit = visit, .arg = arg};
    const size_t size = strlen(place->uri.text);
    gy_text_add(&list.uri, "%s%s", place->uri.text,
                place->uri.text[size - 1] == '/' ? "" : "/");
    list.folder_bytes = list.uri.size_bytes;
    gy_status status = list.uri.status;
    bool is_more = true;
    while (status == GY_OK && is_more) {
        size_t count = 0;
        status = list_page(&list, &count, &is_more);
        if (status == GY_OK && is_more && count == 0) {
            status = gy_fail(GY_FORMAT, "%s: an empty page, and more to come", place->uri.text);
        }
    }
    gy_text_free(&list.before);
    gy_text_free(&list.uri);
    return status;
}

/* ---- reading and removing ---- */

/* Read bytes [at, at + wanted), which must exist. */
static gy_status open_range(gy_place *place, uint64_t at, char *data, size_t wanted)
{
    char operation[96];
    snprintf(operation, sizeof(operation), "OPEN&offset=%llu&length=%zu",
             (unsigned long long)at, wanted);
    gy_hdfs_call call = {.place = place,
                         .method = "GET",
                         .path = place->uri.path,
                         .operation = operation,
                         .into = data,
                         .into_bytes = wanted};
    GY_TRY(gy_store_hdfs_ask_data(&call));
    if (!gy_hdfs_is_good(&call)) {
        return gy_store_hdfs_fail(&call, "read");
    }
    if (call.answer.body_bytes != wanted) {
        return gy_fail(GY_IO, "cannot read %s: %zu bytes came of %zu", place->uri.text,
                       call.answer.body_bytes, wanted);
    }
    if (call.data_node[0] == '\0') { /* a gateway returned the bytes itself */
        memcpy(data, place->answer, wanted);
    }
    return GY_OK;
}

static gy_status check_version(gy_place *place, const char *version, gy_hdfs_item *item)
{
    gy_place_facts facts;
    GY_TRY(gy_store_hdfs_look(place, place->uri.path, item));
    fill_facts(item, &facts);
    if (item->is_folder) {
        return gy_fail(GY_IO, "cannot read %s: it is a folder, expected a file",
                       place->uri.text);
    }
    if (version != NULL && version[0] != '\0' && strcmp(version, facts.version) != 0) {
        return gy_fail(GY_STATE, "%s: it was changed meanwhile: version %s, expected %s",
                       place->uri.text, facts.version, version);
    }
    return GY_OK;
}

static gy_status hdfs_read(gy_place *place, const char *version, uint64_t at, void *data,
                           size_t wanted, size_t *got)
{
    gy_hdfs_item item = {.name = NULL};
    GY_TRY(check_version(place, version, &item));
    if (at >= item.size_bytes) {
        return GY_OK;
    }
    wanted = (size_t)GY_MIN((uint64_t)wanted, item.size_bytes - at);
    GY_TRY(open_range(place, at, data, wanted));
    /* WebHDFS has no If-Match, so the version is checked before and after the read */
    if (version != NULL) {
        GY_TRY(check_version(place, version, &item));
    }
    *got = wanted;
    return GY_OK;
}

static gy_status hdfs_remove(gy_place *place)
{
    gy_hdfs_item item = {.name = NULL};
    const gy_status found = gy_store_hdfs_look(place, place->uri.path, &item);
    if (found < 0) {
        return found == GY_NOTFOUND ? GY_OK : found;
    }
    if (item.is_folder) {
        return gy_fail(GY_IO, "cannot remove %s: it is a folder, expected a file",
                       place->uri.text);
    }
    gy_hdfs_call call = {.place = place,
                         .method = "DELETE",
                         .path = place->uri.path,
                         .operation = "DELETE&recursive=false"};
    GY_TRY(gy_store_hdfs_ask(&call));
    return gy_hdfs_is_good(&call) || call.answer.status == 404
               ? GY_OK
               : gy_store_hdfs_fail(&call, "remove");
}

static gy_status hdfs_blocks(gy_place *place, uint64_t at, uint64_t size_bytes,
                             gy_place_block_visit visit, void *arg)
{
    char operation[128];
    snprintf(operation, sizeof(operation), "GETFILEBLOCKLOCATIONS&offset=%llu&length=%llu",
             (unsigned long long)at, (unsigned long long)size_bytes);
    gy_hdfs_call call = {
        .place = place, .method = "GET", .path = place->uri.path, .operation = operation};
    GY_TRY(gy_store_hdfs_ask(&call));
    if (!gy_hdfs_is_good(&call)) {
        return gy_store_hdfs_fail(&call, "get the block locations of");
    }
    json_t *document = NULL;
    GY_TRY(gy_store_hdfs_document(&call, &document));
    const gy_status status = gy_store_hdfs_blocks(document, visit, arg);
    gy_store_hdfs_free(document);
    return status < 0 ? gy_fail_within(status, "%s", place->uri.text) : GY_OK;
}

const gy_place_ops gy_place_hdfs = {
    .name = "hdfs",
    .open = hdfs_open,
    .close = hdfs_close,
    .stat = hdfs_stat,
    .list = hdfs_list,
    .read = hdfs_read,
    .remove = hdfs_remove,
    .guarantee = gy_hdfs_guarantee,
    .blocks = hdfs_blocks,
    .write_open = gy_store_hdfs_write_open,
    .write_part = gy_store_hdfs_write_part,
    .write_finish = gy_store_hdfs_write_finish,
    .write_abort = gy_store_hdfs_write_abort,
};
