/* Fuzz target: arbitrary bytes as an answer from etcd give keys, values and numbers within
 * their bounds, or a failure. */
#include "persist/table/etcd_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 24 };

static void take_bytes(const json_t *text)
{
    size_t size = 0, room = ROOM;
#ifdef GYRE_PLANTED_BUG
    room = ROOM + 8; /* more room than the input has */
#endif
    uint8_t *out = gy_alloc("fuzz", ROOM);
    if (out != NULL && gy_etcd_bytes(text, out, room, &size) == GY_OK) {
        GY_ASSERT(size <= room);
    }
    gy_free(out);
}

static void take_range(const json_t *range)
{
    gy_etcd_record record;
    for (size_t i = 0; gy_etcd_kv(range, i, &record) == GY_OK; i++) {
        GY_ASSERT(record.version > 0 && record.changed > 0);
        take_bytes(record.key);
        take_bytes(record.value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *answer = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(answer)) {
        json_decref(answer);
        return 0;
    }
    uint64_t number = 0;
    gy_status status = gy_etcd_revision(answer, &number);
    GY_ASSERT(status < 0 || number > 0);
    status = gy_etcd_number(json_object_get(answer, "result"), "TTL", &number);
    GY_ASSERT(status <= 0);
    take_range(answer);
    const json_t *nested = NULL;
    gy_etcd_record record = {.version = 0};
    for (size_t i = 0; i < json_array_size(json_object_get(answer, "responses")); i++) {
        if (gy_etcd_found(answer, i, &record) == GY_OK) {
            take_bytes(record.value);
        }
        if (gy_etcd_response(answer, i, "response_txn", &nested) == GY_OK &&
            !gy_etcd_has_succeeded(nested) && gy_etcd_found(nested, 0, &record) == GY_OK) {
            take_bytes(record.value);
        }
    }
    json_decref(answer);
    return 0;
}
