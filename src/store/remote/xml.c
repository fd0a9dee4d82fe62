/*
 * Parses S3's XML answers with expat. Answers are not trusted: a document type (the only
 * source of expanding entities) is refused, and depth, names and counts are bounded.
 *
 * Source: AWS, "Amazon S3 API Reference": ListObjectsV2, CreateMultipartUpload, errors.
 */
#include "store/remote/remote_priv.h"

#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 16, TEXT_MOST = 4096, ITEMS_MOST = 10000, NAME_MOST = 64 };

typedef struct xml_reading {
    XML_Parser parser;
    gy_s3_answer *answer;
    gy_status failed;
    int depth;
    char names[3][NAME_MOST]; /* names of the open elements of depth 0 to 2 */
    bool is_child;            /* the element has no child so far */
    char text[TEXT_MOST + 1];
    size_t text_bytes;
} xml_reading;

static void *expat_alloc(size_t size)
{
    return gy_alloc("store.xml", size);
}

static void *expat_resize(void *pointer, size_t size)
{
    return gy_resize("store.xml", pointer, size);
}

static void stop(xml_reading *reading, gy_status status)
{
    if (reading->failed == GY_OK) {
        reading->failed = status;
        (void)XML_StopParser(reading->parser, XML_FALSE);
    }
}

static void XMLCALL on_doctype(void *arg, const char *name, const char *system,
                               const char *public_name, int has_inner)
{
    (void)name, (void)system, (void)public_name, (void)has_inner;
    stop(arg, gy_fail(GY_FORMAT, "a document type, which no answer of S3 has"));
}

/* "Contents" also as "s3:Contents": the namespace prefix is ignored. */
static const char *local_name(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon != NULL ? colon + 1 : name;
}

static bool is_item(const char *name)
{
    return strcmp(name, "Contents") == 0 || strcmp(name, "CommonPrefixes") == 0;
}

static gy_status begin_item(gy_s3_answer *answer, bool is_prefix)
{
    if (answer->item_count >= ITEMS_MOST) {
        return gy_fail(GY_LIMIT, "more than %d items on a page", ITEMS_MOST);
    }
    GY_TRY(
        GY_GROW("store.items", answer->items, answer->item_capacity, answer->item_count + 1));
    answer->items[answer->item_count++] = (gy_s3_item){.is_prefix = is_prefix};
    return GY_OK;
}

static void XMLCALL on_begin(void *arg, const char *full_name, const char **attributes)
{
    xml_reading *reading = arg;
    (void)attributes;
    const char *name = local_name(full_name);
    if (reading->depth >= DEPTH_MOST) {
        stop(reading, gy_fail(GY_FORMAT, "elements deeper than %d", DEPTH_MOST));
        return;
    }
    if (reading->depth < 3) {
        snprintf(reading->names[reading->depth], NAME_MOST, "%s", name);
    }
    if (reading->depth == 1 && is_item(name)) {
        const gy_status status =
            begin_item(reading->answer, strcmp(name, "CommonPrefixes") == 0);
        if (status < 0) {
            stop(reading, status);
        }
    }
    reading->depth++;
    reading->is_child = true;
    reading->text_bytes = 0;
}

static void XMLCALL on_text(void *arg, const char *text, int size)
{
    xml_reading *reading = arg;
    const size_t more = (size_t)size;
    if (!reading->is_child) {
        return; /* whitespace between elements */
    }
    if (reading->text_bytes + more > TEXT_MOST) {
        stop(reading, gy_fail(GY_LIMIT, "a text of more than %d bytes", TEXT_MOST));
        return;
    }
    memcpy(reading->text + reading->text_bytes, text, more);
    reading->text_bytes += more;
}

/* Copy text for people, truncated to the room. */
static void keep(char *out, size_t size_bytes, const xml_reading *reading)
{
    const size_t size = GY_MIN(reading->text_bytes, size_bytes - 1);
    memcpy(out, reading->text, size);
    out[size] = '\0';
}

/* Copy text that must be complete to be useful. */
static void keep_whole(char *out, size_t size_bytes, xml_reading *reading)
{
    if (reading->text_bytes >= size_bytes) {
        stop(reading, gy_fail(GY_LIMIT, "a token of %zu bytes, expected fewer than %zu",
                              reading->text_bytes, size_bytes));
        return;
    }
    memcpy(out, reading->text, reading->text_bytes + 1);
}

static void keep_of_root(xml_reading *reading, const char *name)
{
    gy_s3_answer *answer = reading->answer;
    if (strcmp(name, "Code") == 0) {
        keep(answer->code, sizeof(answer->code), reading);
    } else if (strcmp(name, "Message") == 0) {
        keep(answer->message, sizeof(answer->message), reading);
    } else if (strcmp(name, "UploadId") == 0) {
        keep_whole(answer->upload, sizeof(answer->upload), reading);
    } else if (strcmp(name, "NextContinuationToken") == 0) {
        keep_whole(answer->token, sizeof(answer->token), reading);
    } else if (strcmp(name, "ETag") == 0) {
        gy_store_version_keep(answer->etag, reading->text, reading->text_bytes);
    } else if (strcmp(name, "IsTruncated") == 0) {
        answer->is_truncated = strcmp(reading->text, "true") == 0;
    } else if (strcmp(name, "EncodingType") == 0) {
        answer->is_encoded = strcmp(reading->text, "url") == 0;
    }
}

static bool parse_size(const char *text, uint64_t *size_bytes)
{
    uint64_t size = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || size > (uint64_t)INT64_MAX / 10 - 1) {
            return false;
        }
        size = size * 10 + (uint64_t)(*at - '0');
    }
    *size_bytes = size;
    return text[0] != '\0';
}

/* Days since 1970 for a Gregorian date (Hinnant, "chrono-compatible low-level date
 * algorithms"). */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    const int64_t era = year / 400, of_era = year - era * 400;
    const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Parse "2026-01-31T12:00:00.000Z"; 0 when malformed. */
static int64_t parse_time_ms(const char *text)
{
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute, &second) !=
            6 ||
        year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 ||
        minute < 0 || second < 0) {
        return 0;
    }
    const int64_t minutes = (days_of(year, month, day) * 24 + hour) * 60 + minute;
    return (minutes * 60 + second) * 1000;
}

static void keep_of_item(xml_reading *reading, const char *name)
{
    gy_s3_answer *answer = reading->answer;
    gy_s3_item *item = &answer->items[answer->item_count - 1];
    if (strcmp(name, item->is_prefix ? "Prefix" : "Key") == 0) {
        char *key = gy_arena_alloc(&answer->arena, reading->text_bytes + 1);
        if (key == NULL) {
            stop(reading, GY_NOMEM);
            return;
        }
        memcpy(key, reading->text, reading->text_bytes + 1);
        item->key = key;
    } else if (strcmp(name, "Size") == 0 && !parse_size(reading->text, &item->size_bytes)) {
        stop(reading, gy_fail(GY_FORMAT, "a size of \"%.40s\"", reading->text));
    } else if (strcmp(name, "LastModified") == 0) {
        item->modified_ms = parse_time_ms(reading->text);
    } else if (strcmp(name, "ETag") == 0) {
        gy_store_version_keep(item->etag, reading->text, reading->text_bytes);
    }
}

static void XMLCALL on_end(void *arg, const char *full_name)
{
    xml_reading *reading = arg;
    reading->depth--;
    if (reading->failed < 0) {
        return;
    }
    const char *name = local_name(full_name);
    reading->text[reading->is_child ? reading->text_bytes : 0] = '\0';
    if (reading->is_child && reading->depth == 1) {
        keep_of_root(reading, name);
    } else if (reading->is_child && reading->depth == 2 && is_item(reading->names[1])) {
        keep_of_item(reading, name);
    }
    if (reading->depth == 1 && is_item(name) &&
        reading->answer->items[reading->answer->item_count - 1].key == NULL) {
        stop(reading, gy_fail(GY_FORMAT, "an item of a list without its key"));
    }
    reading->is_child = false;
}

/* Decode %20 and +; a key has no NUL. */
static gy_status decode(char *key)
{
    char *to = key;
    for (const char *from = key; *from != '\0'; from++) {
        char byte = *from;
        if (byte == '+') {
            byte = ' ';
        }
        if (byte == '%') {
            byte = gy_uri_byte(from);
            if (byte == '\0') {
                return gy_fail(GY_FORMAT, "a key with a %% that begins no byte");
            }
            from += 2;
        }
        *to++ = byte;
    }
    *to = '\0';
    return GY_OK;
}

static gy_status finish(xml_reading *reading, enum XML_Status parsed)
{
    gy_s3_answer *answer = reading->answer;
    if (reading->failed < 0) {
        return reading->failed == GY_NOMEM
                   ? GY_NOMEM
                   : gy_fail_within(reading->failed, "line %lu of the answer",
                                    XML_GetCurrentLineNumber(reading->parser));
    }
    if (parsed != XML_STATUS_OK) {
        const enum XML_Error error = XML_GetErrorCode(reading->parser);
        return gy_fail(error == XML_ERROR_NO_MEMORY ? GY_NOMEM : GY_FORMAT,
                       "line %lu of the answer is no XML: %s",
                       XML_GetCurrentLineNumber(reading->parser), XML_ErrorString(error));
    }
    for (size_t i = 0; answer->is_encoded && i < answer->item_count; i++) {
        GY_TRY(decode(answer->items[i].key));
    }
    return GY_OK;
}

gy_status gy_s3_answer_read(const char *data, size_t size_bytes, gy_s3_answer *answer)
{
    static const XML_Memory_Handling_Suite memory = {expat_alloc, expat_resize, gy_free};
    GY_ASSERT(size_bytes <= INT32_MAX);
    xml_reading *reading = gy_alloc_zero("store.xml", 1, sizeof(*reading));
    if (reading == NULL) {
        return GY_NOMEM;
    }
    reading->answer = answer;
    reading->parser = XML_ParserCreate_MM("UTF-8", &memory, NULL);
    if (reading->parser == NULL) {
        gy_free(reading);
        return gy_fail(GY_NOMEM, "out of memory: no room to read XML");
    }
    XML_SetUserData(reading->parser, reading);
    XML_SetElementHandler(reading->parser, on_begin, on_end);
    XML_SetCharacterDataHandler(reading->parser, on_text);
    XML_SetStartDoctypeDeclHandler(reading->parser, on_doctype);
    const enum XML_Status parsed = XML_Parse(reading->parser, data, (int)size_bytes, XML_TRUE);
    memcpy(answer->root, reading->names[0], sizeof(answer->root));
    const gy_status status = finish(reading, parsed);
    XML_ParserFree(reading->parser);
    gy_free(reading);
    return status;
}

void gy_s3_answer_free(gy_s3_answer *answer)
{
    gy_free(answer->items);
    gy_arena_free(&answer->arena);
    memset(answer, 0, sizeof(*answer));
}
