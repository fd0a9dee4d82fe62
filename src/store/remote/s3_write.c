/*
 * Writes to S3: one PUT, or parts that a last request turns into an object. Every object has a
 * token of its writer, so that after a lost answer the writer recognises its own object.
 *
 * Source: AWS, "Amazon S3 API Reference": PutObject, CreateMultipartUpload, UploadPart,
 * CompleteMultipartUpload (which may fail after a 200), conditional writes.
 */
#include "base/text.h"
#include "store/remote/s3_priv.h"

#include <stdio.h>
#include <string.h>

enum { KNOWN_MOST = 16, COMPLETE_TRIES = 3, PARTS_MOST = 10000 };

static const char new_line[] = "If-None-Match: *",
                  type_line[] = "Content-Type: application/octet-stream";

/* ---- what the server guarantees ---- */

typedef struct known {
    char where[800];
    bool is_exclusive;
} known;

/* Cache of probed buckets; the oldest one is replaced. */
static struct {
    pthread_mutex_t lock;
    known items[KNOWN_MOST];
    int count, next;
} knowledge = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool recall(const char *where, bool *is_exclusive)
{
    bool is_found = false;
    GY_ASSERT(pthread_mutex_lock(&knowledge.lock) == 0);
    for (int i = 0; !is_found && i < knowledge.count; i++) {
        is_found = strcmp(knowledge.items[i].where, where) == 0;
        *is_exclusive = is_found ? knowledge.items[i].is_exclusive : *is_exclusive;
    }
    GY_ASSERT(pthread_mutex_unlock(&knowledge.lock) == 0);
    return is_found;
}

static void learn(const char *where, bool is_exclusive)
{
    GY_ASSERT(pthread_mutex_lock(&knowledge.lock) == 0);
    known *item = &knowledge.items[knowledge.next];
    knowledge.next = (knowledge.next + 1) % KNOWN_MOST;
    knowledge.count = GY_MIN(knowledge.count + 1, KNOWN_MOST);
    snprintf(item->where, sizeof(item->where), "%s", where);
    item->is_exclusive = is_exclusive;
    GY_ASSERT(pthread_mutex_unlock(&knowledge.lock) == 0);
}

/* Create the probe object; *status becomes the HTTP status. */
static gy_status put_probe(gy_place *place, const char *key, int *status)
{
    gy_s3_call call;
    gy_s3_begin(&call, place, "PUT", key, "");
    gy_s3_header(&call, new_line);
    gy_s3_header(&call, type_line);
    GY_TRY(gy_s3_ask(&call));
    *status = call.answer.status;
    const bool is_telling = gy_s3_is_good(&call) || *status == 412 || *status == 409 ||
                            *status == 501 || *status == 400;
    return is_telling ? GY_OK : gy_s3_fail(&call, "try what is guaranteed beside");
}

static gy_status probe(gy_place *place, bool *is_exclusive)
{
    char key[GY_URI_BYTES], token[GY_TOKEN_BYTES];
    const char *slash = strrchr(place->uri.path, '/');
    const int folder = slash != NULL ? (int)(slash + 1 - place->uri.path) : 0;
    gy_place_token(place, token);
    if (!gy_print_whole(key, sizeof(key), "%.*s.gyre-probe-%s", folder, place->uri.path,
                        token)) {
        return gy_fail(GY_LIMIT, "%s is too long for a key of a probe beside it",
                       place->uri.path);
    }
    int first = 0, second = 0;
    GY_TRY(put_probe(place, key, &first));
    if (first >= 300) { /* the server knows the header and refuses it */
        *is_exclusive = false;
        return GY_OK;
    }
    gy_status status = put_probe(place, key, &second);
    *is_exclusive = second == 412 || second == 409;
    gy_error error;
    gy_error_take(&error, status);
    gy_s3_call call;
    gy_s3_begin(&call, place, "DELETE", key, "");
    gy_status removed = gy_s3_ask(&call);
    removed = removed == GY_OK && !gy_s3_is_good(&call)
                  ? gy_s3_fail(&call, "remove a probe beside")
                  : removed;
    return status < 0 ? gy_error_raise(&error) : removed;
}

gy_status gy_s3_guarantee(gy_place *place, gy_place_guarantees *guarantees)
{
    char where[sizeof(((known *)0)->where)];
    snprintf(where, sizeof(where), "%s%s %s", place->s3->scheme, place->s3->server,
             place->uri.host);
    if (!recall(where, &guarantees->is_exclusive)) {
        GY_TRY(probe(place, &guarantees->is_exclusive));
        learn(where, guarantees->is_exclusive);
    }
    snprintf(guarantees->reason, sizeof(guarantees->reason), "%s",
             guarantees->is_exclusive
                 ? "the server obeys If-None-Match (tried)"
                 : "the server does not obey If-None-Match: of two that create, both succeed");
    return GY_OK;
}

/* ---- writing ---- */

gy_status gy_s3_write_open(gy_place_writer *writer)
{
    gy_place *place = writer->place;
    const size_t size = strlen(place->uri.path);
    if (size == 0 || place->uri.path[size - 1] == '/') {
        return gy_fail(GY_ARG, "cannot write %s: expected s3://BUCKET/KEY", place->uri.text);
    }
    if (writer->mode == GY_PLACE_NEW) {
        gy_place_guarantees guarantees = {.is_exclusive = false};
        GY_TRY(gy_s3_guarantee(place, &guarantees));
        if (!guarantees.is_exclusive) {
            return gy_fail(GY_UNSUPPORTED, "cannot create %s exclusively: %s", place->uri.text,
                           guarantees.reason);
        }
    }
    return GY_OK;
}

static void add_token(gy_s3_call *call, const gy_place_writer *writer)
{
    snprintf(call->token, sizeof(call->token), "x-amz-meta-gyre-token: %s", writer->token);
    gy_s3_header(call, call->token);
}

/* Does the name refer to this writer's object? */
static gy_status look_whose(const gy_place_writer *writer, bool *is_ours)
{
    gy_s3_call call;
    gy_s3_begin(&call, writer->place, "HEAD", writer->place->uri.path, "");
    GY_TRY(gy_s3_ask(&call));
    *is_ours = gy_s3_is_good(&call) && strcmp(call.answer.token, writer->token) == 0;
    return GY_OK;
}

/* Decide the result of the request that makes the object visible: it succeeded now, or before
 * and its answer was lost. */
static gy_status settle(const gy_place_writer *writer, const gy_s3_call *call)
{
    if (gy_s3_is_good(call)) {
        return GY_OK;
    }
    const int status = call->answer.status;
    if (status == 404 || status == 409 || status == 412) {
        bool is_ours = false;
        GY_TRY(look_whose(writer, &is_ours));
        if (is_ours) {
            return GY_OK;
        }
        if (writer->mode == GY_PLACE_NEW && status != 404) {
            return gy_fail(GY_EXISTS, "cannot create %s: it is there already",
                           writer->place->uri.text);
        }
    }
    return gy_s3_fail(call, "write");
}

static gy_status put_whole(gy_place_writer *writer, const void *data, size_t size_bytes)
{
    gy_s3_call call;
    gy_s3_begin(&call, writer->place, "PUT", writer->place->uri.path, "");
    gy_s3_header(&call, type_line);
    add_token(&call, writer);
    if (writer->mode == GY_PLACE_NEW) {
        gy_s3_header(&call, new_line);
    }
    call.request.body = data;
    call.request.body_bytes = size_bytes;
    GY_TRY(gy_s3_ask(&call));
    return settle(writer, &call);
}

static gy_status begin_upload(gy_place_writer *writer)
{
    gy_place *place = writer->place;
    gy_s3_call call;
    gy_s3_begin(&call, place, "POST", place->uri.path, "uploads=");
    gy_s3_header(&call, type_line);
    add_token(&call, writer);
    GY_TRY(gy_s3_ask_page(&call));
    if (!gy_s3_is_good(&call)) {
        return gy_s3_fail(&call, "begin to write");
    }
    gy_s3_answer answer = {.root = ""};
    gy_status status = gy_s3_answer_read(place->answer, call.answer.body_bytes, &answer);
    if (status == GY_OK && answer.upload[0] == '\0') {
        status = gy_fail(GY_FORMAT, "the answer names no upload");
    }
    if (status == GY_OK) {
        gy_http_encode(&writer->upload, answer.upload, strlen(answer.upload), "");
        status = writer->upload.status;
    }
    gy_s3_answer_free(&answer);
    return status < 0 ? gy_fail_within(status, "cannot write %s", place->uri.text) : GY_OK;
}

static void add_escaped(gy_text *text, const char *from)
{
    for (; *from != '\0'; from++) {
        if (strchr("<>&\"'", *from) != NULL) {
            gy_text_add(text, "&#%d;", *from);
        } else {
            gy_text_add_bytes(text, from, 1);
        }
    }
}

gy_status gy_s3_write_part(gy_place_writer *writer, const void *data, size_t size_bytes)
{
    const int number = writer->part_count + 1;
    if (number > PARTS_MOST) {
        return gy_fail(GY_LIMIT, "%s: an object of more than %d parts", writer->place->uri.text,
                       PARTS_MOST);
    }
    if (writer->upload.size_bytes == 0) {
        GY_TRY(begin_upload(writer));
    }
    gy_text query = {0};
    gy_text_add(&query, "partNumber=%d&uploadId=%s", number, gy_text_get(&writer->upload));
    gy_s3_call call;
    gy_s3_begin_with(&call, writer->place, "PUT", writer->place->uri.path, &query);
    gy_s3_header(&call, type_line);
    call.request.body = data;
    call.request.body_bytes = size_bytes;
    GY_TRY(gy_s3_ask(&call));
    if (!gy_s3_is_good(&call)) {
        return gy_s3_fail(&call, "write a part of");
    }
    gy_text_add(&writer->parts, "<Part><PartNumber>%d</PartNumber><ETag>&quot;", number);
    add_escaped(&writer->parts, call.answer.etag);
    gy_text_add(&writer->parts, "&quot;</ETag></Part>");
    return writer->parts.status;
}

/* Try once to make the object from the parts; GY_AGAIN: the server asks for another try. */
static gy_status complete(gy_place_writer *writer, const gy_text *body, const char *query)
{
    gy_place *place = writer->place;
    gy_s3_call call;
    gy_s3_begin(&call, place, "POST", place->uri.path, query);
    gy_s3_header(&call, "Content-Type: application/xml");
    if (writer->mode == GY_PLACE_NEW) {
        gy_s3_header(&call, new_line);
    }
    call.request.body = body->data;
    call.request.body_bytes = body->size_bytes;
    GY_TRY(gy_s3_ask_page(&call));
    if (!gy_s3_is_good(&call)) {
        return settle(writer, &call);
    }
    gy_s3_answer answer = {.root = ""};
    gy_status status = gy_s3_answer_read(place->answer, call.answer.body_bytes, &answer);
    if (status < 0) {
        status = gy_fail_within(status, "cannot write %s", place->uri.text);
    } else if (strcmp(answer.root, "Error") == 0) {
        (void)gy_fail(GY_IO, "cannot write %s: %s: %s", place->uri.text, answer.code,
                      answer.message);
        status = GY_AGAIN;
    }
    gy_s3_answer_free(&answer);
    return status;
}

static gy_status complete_upload(gy_place_writer *writer)
{
    gy_text body = {0}, query = {0};
    gy_text_add(&body, "<CompleteMultipartUpload>%s</CompleteMultipartUpload>",
                gy_text_get(&writer->parts));
    gy_text_add(&query, "uploadId=%s", gy_text_get(&writer->upload));
    gy_status status = body.status < 0 ? body.status : query.status;
    if (status == GY_OK) {
        status = GY_AGAIN;
        for (int i = 0; status == GY_AGAIN && i < COMPLETE_TRIES; i++) {
            status = complete(writer, &body, gy_text_get(&query));
        }
        status =
            status == GY_AGAIN ? GY_IO : status; /* the thread's last failure has the text */
    }
    gy_text_free(&body);
    gy_text_free(&query);
    return status;
}

gy_status gy_s3_write_finish(gy_place_writer *writer, const void *data, size_t size_bytes)
{
    if (writer->upload.size_bytes == 0) {
        return put_whole(writer, data, size_bytes);
    }
    /* never empty: a full buffer is sent only when more bytes come */
    GY_TRY(gy_s3_write_part(writer, data, size_bytes));
    return complete_upload(writer);
}

void gy_s3_write_abort(gy_place_writer *writer)
{
    if (writer->upload.size_bytes == 0) {
        return;
    }
    gy_text query = {0};
    gy_text_add(&query, "uploadId=%s", gy_text_get(&writer->upload));
    gy_s3_call call;
    gy_s3_begin_with(&call, writer->place, "DELETE", writer->place->uri.path, &query);
    const gy_status status = gy_s3_ask(&call);
    if (status < 0) {
        gy_warn("%s: an unfinished upload is left behind: %s", writer->place->uri.text,
                gy_error_text());
    } else if (!gy_s3_is_good(&call) && call.answer.status != 404) {
        gy_warn("%s: an unfinished upload is left behind: the server answers %d",
                writer->place->uri.text, call.answer.status);
    }
}
