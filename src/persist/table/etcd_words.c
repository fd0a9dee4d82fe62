/*
 * JSON of etcd's gateway: numbers are texts of digits, members that are 0 or false are missing,
 * bytes are base64. Answers are untrusted: each kind is checked before use.
 *
 * Source: etcd 3.4, "api_reference_v3" and rpc.swagger.json; RFC 4648 (base64).
 */
#include "persist/table/etcd_priv.h"

#include <string.h>

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
enum { PAD = 64 };

void gy_etcd_add_bytes(gy_text *text, const void *data, size_t size_bytes)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size_bytes; i += 3) {
        const size_t left = GY_MIN(size_bytes - i, (size_t)3);
        const uint32_t word = (uint32_t)bytes[i] << 16 |
                              (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                              (left > 2 ? bytes[i + 2] : 0);
        const char four[4] = {letters[word >> 18], letters[word >> 12 & 63],
                              letters[left > 1 ? word >> 6 & 63 : PAD],
                              letters[left > 2 ? word & 63 : PAD]};
        gy_text_add_bytes(text, four, sizeof(four));
    }
}

void gy_etcd_add_key(gy_text *text, const char *key)
{
    gy_text_add(text, "\"key\":\"");
    gy_etcd_add_bytes(text, key, strlen(key));
    gy_text_add(text, "\"");
}

static int letter_value(char letter)
{
    const char *at = letter != '\0' ? strchr(letters, letter) : NULL;
    return at != NULL && at < letters + PAD ? (int)(at - letters) : -1;
}

gy_status gy_etcd_bytes(const json_t *text, void *out, size_t room, size_t *size_bytes)
{
    const char *from = json_string_value(text);
    size_t size = json_string_length(text);
    uint8_t *to = out;
    *size_bytes = 0;
    if (text == NULL) {
        return GY_OK; /* the gateway leaves empty values out */
    }
    if (from == NULL || size % 4 != 0) {
        return gy_fail(GY_FORMAT, "etcd's answer has bytes that are no base64");
    }
    while (size > 0 && from[size - 1] == '=' && json_string_length(text) - size < 2) {
        size--;
    }
    uint32_t word = 0;
    for (size_t i = 0; i < size; i++) {
        const int value = letter_value(from[i]);
        if (value < 0) {
            return gy_fail(GY_FORMAT, "etcd's answer has bytes that are no base64");
        }
        word = word << 6 | (uint32_t)value;
        if (i % 4 == 0) {
            continue;
        }
        if (*size_bytes == room) {
            return gy_fail(GY_LIMIT, "etcd's answer has a value of over %zu bytes", room);
        }
        to[(*size_bytes)++] = (uint8_t)(word >> (6 - 2 * (i % 4)));
    }
    return GY_OK;
}

gy_status gy_etcd_number(const json_t *object, const char *name, uint64_t *value)
{
    const json_t *item = json_object_get(object, name);
    *value = 0;
    if (item == NULL) {
        return GY_OK;
    }
    const char *digits = json_string_value(item);
    uint64_t number = 0;
    size_t count = 0;
    while (digits != NULL && digits[count] >= '0' && digits[count] <= '9' && count < 19) {
        number = number * 10 + (uint64_t)(digits[count++] - '0');
    }
    if (count == 0 || count != json_string_length(item)) {
        return gy_fail(GY_FORMAT, "etcd's answer has a \"%s\" that is no number", name);
    }
    *value = number;
    return GY_OK;
}

gy_status gy_etcd_revision(const json_t *answer, uint64_t *revision)
{
    GY_TRY(gy_etcd_number(json_object_get(answer, "header"), "revision", revision));
    return *revision > 0 ? GY_OK : gy_fail(GY_FORMAT, "etcd's answer has no revision");
}

gy_status gy_etcd_kv(const json_t *range, size_t index, gy_etcd_record *record)
{
    memset(record, 0, sizeof(*record));
    const json_t *list = json_object_get(range, "kvs");
    if (list != NULL && !json_is_array(list)) {
        return gy_fail(GY_FORMAT, "etcd's answer has a \"kvs\" that is no list");
    }
    const json_t *item = json_array_get(list, index);
    if (item == NULL) {
        return GY_NOTFOUND;
    }
    record->key = json_object_get(item, "key");
    record->value = json_object_get(item, "value");
    GY_TRY(gy_etcd_number(item, "version", &record->version));
    GY_TRY(gy_etcd_number(item, "mod_revision", &record->changed));
    GY_TRY(gy_etcd_number(item, "lease", &record->lease));
    return record->version > 0 && record->changed > 0
               ? GY_OK
               : gy_fail(GY_FORMAT, "etcd's answer has a key without a version");
}

gy_status gy_etcd_response(const json_t *answer, size_t index, const char *kind,
                           const json_t **response)
{
    *response =
        json_object_get(json_array_get(json_object_get(answer, "responses"), index), kind);
    return json_is_object(*response)
               ? GY_OK
               : gy_fail(GY_FORMAT, "etcd's answer has no \"%s\" at %zu", kind, index);
}

gy_status gy_etcd_found(const json_t *answer, size_t index, gy_etcd_record *record)
{
    const json_t *range = NULL;
    GY_TRY(gy_etcd_response(answer, index, "response_range", &range));
    const gy_status status = gy_etcd_kv(range, 0, record);
    return status == GY_NOTFOUND ? GY_OK : status; /* all members are 0 then */
}

bool gy_etcd_has_succeeded(const json_t *answer)
{
    return json_is_true(json_object_get(answer, "succeeded"));
}
