/*
 * S3: signs requests, and stats, lists, reads and removes objects.
 *
 * libcurl signs (SigV4). Some work is left for this file: libcurl 7.88 signs the query as it
 * stands, so names must be sorted and every value encoded once; and S3 requires the payload's
 * hash as a header, which is computed here.
 *
 * Source: AWS, "Signing AWS API requests" and "Amazon S3 API Reference".
 */
#include "base/text.h"
#include "store/remote/s3_priv.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHA256_BYTES = 32, PAGE_KEYS = 1000, EMPTY_PAGES_MOST = 100 };

/* ---- settings ---- */

static gy_status set_server(gy_s3 *s3, const char *endpoint, const char *variable)
{
    const size_t scheme = strncmp(endpoint, "https://", 8) == 0  ? 8
                          : strncmp(endpoint, "http://", 7) == 0 ? 7
                                                                 : 0;
    const char *rest = endpoint + scheme;
    size_t size = strlen(rest);
    while (size > 0 && rest[size - 1] == '/') {
        size--;
    }
    if (scheme == 0 || size == 0 || size >= sizeof(s3->server) ||
        strpbrk(rest, "@?# ") != NULL) {
        return gy_fail(GY_ARG, "%s is no endpoint: expected https://HOST[:PORT]", variable);
    }
    memcpy(s3->scheme, endpoint, scheme);
    memcpy(s3->server, rest, size);
    return GY_OK;
}

static gy_status find_server(gy_s3 *s3, const gy_uri *uri)
{
    static const char *const variables[] = {"GYRE_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3",
                                            "AWS_ENDPOINT_URL"};
    const char *endpoint = NULL;
    for (size_t i = 0; endpoint == NULL && i < sizeof(variables) / sizeof(variables[0]); i++) {
        endpoint = gy_setting_get(variables[i]);
        if (endpoint != NULL) {
            GY_TRY(set_server(s3, endpoint, variables[i]));
        }
    }
    if (endpoint == NULL) {
        snprintf(s3->scheme, sizeof(s3->scheme), "https://");
        snprintf(s3->server, sizeof(s3->server), "s3.%s.amazonaws.com", s3->login.region);
    }
    /* a bucket name with dots does not match the wildcard certificate */
    int style = endpoint != NULL || strpbrk(uri->host, "._") != NULL ? 0 : 1;
    GY_TRY(gy_setting_choice("GYRE_S3_STYLE", "path|host", &style));
    s3->is_path_style = style == 0;
    return GY_OK;
}

static gy_status s3_open(gy_place *place)
{
    gy_s3 *s3 = gy_alloc_zero("store.s3", 1, sizeof(*s3));
    if (s3 == NULL) {
        return GY_NOMEM;
    }
    place->s3 = s3;
    GY_TRY(gy_login_find(&s3->login));
    GY_TRY(find_server(s3, &place->uri));
    if (!s3->login.is_anonymous) {
        snprintf(s3->sign, sizeof(s3->sign), "aws:amz:%s:s3", s3->login.region);
    }
    return GY_OK;
}

static void s3_close(gy_place *place)
{
    if (place->s3 != NULL) {
        gy_login_wipe(&place->s3->login);
        gy_free(place->s3);
    }
}

/* ---- requests ---- */

void gy_s3_begin(gy_s3_call *call, gy_place *place, const char *method, const char *key,
                 const char *query)
{
    const gy_s3 *s3 = place->s3;
    memset(call, 0, sizeof(*call));
    call->place = place;
    call->request.method = method;
    if (s3->is_path_style) {
        gy_text_add(&call->url, "%s%s/%s/", s3->scheme, s3->server, place->uri.host);
    } else {
        gy_text_add(&call->url, "%s%s.%s/", s3->scheme, place->uri.host, s3->server);
    }
    gy_http_encode(&call->url, key, strlen(key), "/");
    gy_text_add(&call->url, "%s%s", query[0] != '\0' ? "?" : "", query);
}

void gy_s3_begin_with(gy_s3_call *call, gy_place *place, const char *method, const char *key,
                      gy_text *query)
{
    gy_s3_begin(call, place, method, key, gy_text_get(query));
    call->url.status = query->status < 0 ? query->status : call->url.status;
    gy_text_free(query);
}

void gy_s3_header(gy_s3_call *call, const char *line)
{
    GY_ASSERT(call->header_count < GY_HTTP_HEADERS - 1);
    call->request.headers[call->header_count++] = line;
}

static gy_status add_hash(gy_s3_call *call)
{
    unsigned char hash[SHA256_BYTES];
    const void *body = call->request.body != NULL ? call->request.body : "";
    size_t size = 0;
    if (EVP_Q_digest(NULL, "SHA256", NULL, body, call->request.body_bytes, hash, &size) != 1 ||
        size != sizeof(hash)) {
        return gy_fail(GY_UNSUPPORTED, "OpenSSL gives no SHA-256");
    }
    size_t used = gy_print(call->hash, sizeof(call->hash), "x-amz-content-sha256: ");
    for (size_t i = 0; i < sizeof(hash); i++) {
        used += gy_print(call->hash + used, sizeof(call->hash) - used, "%02x", hash[i]);
    }
    gy_s3_header(call, call->hash);
    return GY_OK;
}

static gy_status sign(gy_s3_call *call)
{
    const gy_s3 *s3 = call->place->s3;
    if (s3->login.is_anonymous) {
        return GY_OK;
    }
    GY_TRY(add_hash(call));
    if (s3->login.session[0] != '\0') {
        snprintf(call->session, sizeof(call->session), "x-amz-security-token: %s",
                 s3->login.session);
        gy_s3_header(call, call->session);
    }
    call->request.sign = s3->sign;
    call->request.key = s3->login.key;
    call->request.secret = s3->login.secret;
    return GY_OK;
}

gy_status gy_s3_ask(gy_s3_call *call)
{
    gy_status status = sign(call);
    status = status < 0 ? status : call->url.status;
    if (status == GY_OK) {
        call->request.url = gy_text_get(&call->url);
        status = gy_place_ask(call->place, &call->request, &call->answer, &call->tries);
    }
    explicit_bzero(call->session, sizeof(call->session));
    gy_text_free(&call->url);
    return status;
}

gy_status gy_s3_ask_page(gy_s3_call *call)
{
    const gy_status status = gy_place_page(call->place, &call->request);
    call->url.status = status < 0 ? status : call->url.status;
    return gy_s3_ask(call);
}

gy_status gy_s3_fail(const gy_s3_call *call, const char *words)
{
    const gy_http_answer *answer = &call->answer;
    const char *uri = call->place->uri.text;
    gy_s3_answer said = {.root = ""};
    if (answer->error_bytes > 0 &&
        gy_s3_answer_read(answer->error, answer->error_bytes, &said) < 0) {
        /* the body is a proxy's page: only the status number is reported */
        said.code[0] = said.message[0] = '\0';
    }
    char told[768];
    snprintf(told, sizeof(told), "%d%s%s%s%s", answer->status, said.code[0] != '\0' ? " " : "",
             said.code, said.message[0] != '\0' ? ": " : "", said.message);
    const bool is_empty_bucket = strcmp(said.code, "NoSuchBucket") == 0,
               is_archived = strcmp(said.code, "InvalidObjectState") == 0;
    gy_s3_answer_free(&said);
    switch (answer->status) {
    case 404:
        return gy_fail(GY_NOTFOUND, "cannot %s %s: %s (%s)", words, uri,
                       is_empty_bucket ? "there is no such bucket" : "not found", told);
    case 401:
    case 403:
        if (is_archived) {
            return gy_fail(
                GY_IO, "cannot %s %s: its storage class is an archive: restore it first (%s)",
                words, uri, told);
        }
        return gy_fail(GY_IO, "cannot %s %s: access denied (%s); credentials: %s", words, uri,
                       told, call->place->s3->login.source);
    case 412:
        return gy_fail(GY_STATE, "cannot %s %s: it was changed meanwhile (%s)", words, uri,
                       told);
    case 501:
        return gy_fail(GY_UNSUPPORTED, "cannot %s %s: the server does not do it (%s)", words,
                       uri, told);
    default:
        break;
    }
    if (answer->region[0] != '\0' &&
        strcmp(answer->region, call->place->s3->login.region) != 0) {
        return gy_fail(GY_IO, "cannot %s %s: its bucket is in %s: set AWS_REGION (%s)", words,
                       uri, answer->region, told);
    }
    return gy_fail(answer->status == 503 || answer->status == 429 ? GY_TIMEOUT : GY_IO,
                   "cannot %s %s: the server answers %s", words, uri, told);
}

/* ---- metadata and lists ---- */

/* Get one page of the keys that begin with `prefix`, up to the next slash. */
static gy_status ask_page(gy_place *place, const char *prefix, const char *token, int keys,
                          gy_s3_answer *answer)
{
    gy_text query = {0};
    if (token[0] != '\0') {
        gy_text_add(&query, "continuation-token=");
        gy_http_encode(&query, token, strlen(token), "");
        gy_text_add(&query, "&");
    }
    gy_text_add(&query,
                "delimiter=%%2F&encoding-type=url&list-type=2&max-keys=%d&prefix=", keys);
    gy_http_encode(&query, prefix, strlen(prefix), "");
    gy_s3_call call;
    gy_s3_begin_with(&call, place, "GET", "", &query);
    GY_TRY(gy_s3_ask_page(&call));
    if (!gy_s3_is_good(&call)) {
        return gy_s3_fail(&call, "list");
    }
    gy_status status = gy_s3_answer_read(place->answer, call.answer.body_bytes, answer);
    if (status == GY_OK && strcmp(answer->root, "ListBucketResult") != 0) {
        status = gy_fail(GY_FORMAT, "the answer is a <%s>, expected <ListBucketResult>",
                         answer->root);
    }
    return status < 0 ? gy_fail_within(status, "cannot list %s", place->uri.text) : GY_OK;
}

/* "dir" and "dir/" list the same; a whole bucket has no prefix. */
static gy_status make_prefix(const gy_place *place, char prefix[GY_URI_BYTES])
{
    const size_t size = strlen(place->uri.path);
    memcpy(prefix, place->uri.path, size + 1);
    if (size > 0 && prefix[size - 1] != '/') {
        memcpy(prefix + size, "/", 2); /* a key is much shorter than the buffer */
    }
    return GY_OK;
}

static gy_status find_folder(gy_place *place, bool *is_folder)
{
    char prefix[GY_URI_BYTES];
    GY_TRY(make_prefix(place, prefix));
    gy_s3_answer answer = {.root = ""};
    gy_status status = ask_page(place, prefix, "", 1, &answer);
    *is_folder = status == GY_OK && (answer.item_count > 0 || prefix[0] == '\0');
    gy_s3_answer_free(&answer);
    return status;
}

/* Get the object of this key. GY_NOTFOUND: there is none; records no error. */
static gy_status look_at_object(gy_place *place, gy_place_facts *facts)
{
    gy_s3_call call = {.place = place};
    gy_s3_begin(&call, place, "HEAD", place->uri.path, "");
    GY_TRY(gy_s3_ask(&call));
    if (!gy_s3_is_good(&call)) {
        return gy_s3_fail(&call, "look at");
    }
    if (call.answer.content_bytes > (uint64_t)INT64_MAX) {
        return gy_fail(GY_FORMAT, "%s: the server reports no size", place->uri.text);
    }
    *facts = (gy_place_facts){.size_bytes = call.answer.content_bytes,
                              .modified_ms = call.answer.modified_ms};
    memcpy(facts->version, call.answer.etag, sizeof(facts->version));
    return GY_OK;
}

static bool has_slash(const gy_place *place)
{
    const size_t size = strlen(place->uri.path);
    return size > 0 && place->uri.path[size - 1] == '/';
}

/* A key that ends with a slash marks a folder, unless it has bytes. */
static gy_status s3_stat(gy_place *place, gy_place_facts *facts)
{
    if (place->uri.path[0] != '\0') {
        const gy_status status = look_at_object(place, facts);
        if (status != GY_NOTFOUND &&
            !(status == GY_OK && has_slash(place) && facts->size_bytes == 0)) {
            return status;
        }
        memset(facts, 0, sizeof(*facts));
    }
    GY_TRY(find_folder(place, &facts->is_folder));
    return facts->is_folder
               ? GY_OK
               : gy_fail(GY_NOTFOUND, "cannot look at %s: not found (404)", place->uri.text);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const gy_s3_item *)a)->key, ((const gy_s3_item *)b)->key);
}

typedef struct listing {
    gy_place *place;
    gy_place_visit visit;
    void *arg;
    gy_text before; /* the last key */
    uint64_t count;
    bool has_itself; /* the place itself is an object too, and was visited */
    char prefix[GY_URI_BYTES];
} listing;

/* The last component of a key, including a slash at its end. */
static const char *last_name(const char *key)
{
    const char *at = key + strlen(key);
    at -= at > key && at[-1] == '/';
    while (at > key && at[-1] != '/') {
        at--;
    }
    return at;
}

static gy_status visit_item(listing *list, const gy_s3_item *item)
{
    const size_t prefix = strlen(list->prefix);
    if (strncmp(item->key, list->prefix, prefix) != 0) {
        return gy_fail(GY_FORMAT, "%s: the server lists %.80s, which does not begin with %s",
                       list->place->uri.text, item->key, list->prefix);
    }
    list->count++;
    if (item->key[prefix] == '\0' && item->size_bytes == 0) {
        return GY_OK; /* the folder's own marker */
    }
    GY_TRY(gy_place_in_order(list->place, &list->before, item->key));
    gy_text uri = {0};
    gy_text_add(&uri, "s3://%s/%s", list->place->uri.host, item->key);
    gy_place_entry entry = {.uri = gy_text_get(&uri),
                            .name = item->key[prefix] != '\0' ? item->key + prefix
                                                              : last_name(item->key)};
    entry.facts = (gy_place_facts){.size_bytes = item->size_bytes,
                                   .is_folder = item->is_prefix,
                                   .modified_ms = item->modified_ms};
    memcpy(entry.facts.version, item->etag, sizeof(entry.facts.version));
    const gy_status status = uri.status < 0 ? uri.status : list->visit(list->arg, &entry);
    gy_text_free(&uri);
    return status;
}

static gy_status list_pages(listing *list)
{
    char token[sizeof(((gy_s3_answer *)0)->token)] = "";
    bool is_more = true;
    for (int empty = 0; is_more && empty < EMPTY_PAGES_MOST;) {
        gy_s3_answer answer = {.root = ""};
        gy_status status = ask_page(list->place, list->prefix, token, PAGE_KEYS, &answer);
        if (status == GY_OK && answer.item_count > 1) {
            qsort(answer.items, answer.item_count, sizeof(*answer.items), by_key);
        }
        for (size_t i = 0; status == GY_OK && i < answer.item_count; i++) {
            status = visit_item(list, &answer.items[i]);
        }
        is_more = answer.is_truncated;
        empty = answer.item_count > 0 ? 0 : empty + 1;
        memcpy(token, answer.token, sizeof(token));
        gy_s3_answer_free(&answer);
        GY_TRY(status);
        if (is_more && token[0] == '\0') {
            return gy_fail(GY_FORMAT, "%s: a page without the token of the next",
                           list->place->uri.text);
        }
    }
    return is_more ? gy_fail(GY_FORMAT, "%s: %d empty pages, one behind the other",
                             list->place->uri.text, EMPTY_PAGES_MOST)
                   : GY_OK;
}

/* Visit the object whose key is the prefix without its slash. */
static gy_status visit_itself(listing *list)
{
    gy_place *place = list->place;
    gy_place_entry entry = {.uri = place->uri.text, .name = last_name(place->uri.path)};
    if (place->uri.path[0] == '\0' || has_slash(place)) {
        return GY_OK;
    }
    GY_TRY(look_at_object(place, &entry.facts));
    list->has_itself = true;
    return list->visit(list->arg, &entry);
}

static gy_status s3_list(gy_place *place, gy_place_visit visit, void *arg)
{
    listing *list = gy_alloc_zero("store.listing", 1, sizeof(*list));
    if (list == NULL) {
        return GY_NOMEM;
    }
    *list = (listing){.place = place, .visit = visit, .arg = arg};
    gy_error itself = {.status = GY_OK};
    gy_status status = visit_itself(list);
    if (status < 0 && !list->has_itself) { /* then a missing prefix is no error */
        gy_error_take(&itself, status);
        status = status == GY_NOTFOUND || status == GY_IO ? GY_OK : status;
    }
    status = status < 0 ? status : make_prefix(place, list->prefix);
    status = status < 0 ? status : list_pages(list);
    const bool is_empty = list->count == 0 && !list->has_itself && place->uri.path[0] != '\0';
    const bool is_denied = itself.status == GY_IO && list->count > 0;
    gy_text_free(&list->before);
    gy_free(list);
    if (status == GY_OK && is_denied) {
        gy_warn("cannot find out whether %s is an object, too: %s", place->uri.text,
                itself.text);
    }
    if (status < 0 || !is_empty) {
        return status;
    }
    return itself.status < 0
               ? gy_error_raise(&itself)
               : gy_fail(GY_NOTFOUND, "cannot look at %s: not found (404)", place->uri.text);
}

/* ---- reading and removing ---- */

static gy_status s3_read(gy_place *place, const char *version, uint64_t at, void *data,
                         size_t wanted, size_t *got)
{
    gy_s3_call call;
    gy_s3_begin(&call, place, "GET", place->uri.path, "");
    call.request.into = data;
    call.request.into_bytes = wanted;
    call.request.is_range = true;
    call.request.at = at;
    call.request.version = version != NULL && version[0] != '\0' ? version : NULL;
    GY_TRY(gy_s3_ask(&call));
    if (call.answer.status == 416) { /* behind the end of the object */
        return GY_OK;
    }
    if (!gy_s3_is_good(&call)) {
        return gy_s3_fail(&call, "read");
    }
    *got = call.answer.body_bytes;
    return GY_OK;
}

static gy_status s3_remove(gy_place *place)
{
    const size_t size = strlen(place->uri.path);
    if (size == 0 || place->uri.path[size - 1] == '/') {
        return gy_fail(GY_IO, "cannot remove %s: it is a folder, expected an object",
                       place->uri.text);
    }
    gy_s3_call call;
    gy_s3_begin(&call, place, "DELETE", place->uri.path, "");
    GY_TRY(gy_s3_ask(&call));
    return gy_s3_is_good(&call) || call.answer.status == 404 ? GY_OK
                                                             : gy_s3_fail(&call, "remove");
}

const gy_place_ops gy_place_s3 = {
    .name = "s3",
    .open = s3_open,
    .close = s3_close,
    .stat = s3_stat,
    .list = s3_list,
    .read = s3_read,
    .remove = s3_remove,
    .guarantee = gy_s3_guarantee,
    .write_open = gy_s3_write_open,
    .write_part = gy_s3_write_part,
    .write_finish = gy_s3_write_finish,
    .write_abort = gy_s3_write_abort,
};
