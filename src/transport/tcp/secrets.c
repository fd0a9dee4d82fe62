/* Parses the lines of a key file, and derives a launch's keys. */
#include "transport/secret.h"

#include <stdio.h>
#include <string.h>

enum { RAW_BYTES_MOST = 4096 };

static bool read_hex(const char *text, gy_secret *secret)
{
    GY_ASSERT(text != NULL);
    static const char digits[] = "0123456789abcdef";
    size_t size = strlen(text);
    if (size % 2 != 0 || size / 2 > sizeof(secret->bytes)) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        char digit = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] + ('a' - 'A') : text[i]);
        const char *at = strchr(digits, digit);
        if (at == NULL) {
            return false;
        }
        uint8_t half = (uint8_t)(at - digits);
        secret->bytes[i / 2] = (uint8_t)(i % 2 == 0 ? half << 4 : secret->bytes[i / 2] | half);
    }
    secret->size_bytes = size / 2;
    return true;
}

/* Messages never quote the text, which may be a misplaced secret. */
static gy_status read_words(const gy_lines *lines, gy_secret *secret)
{
    GY_ASSERT(lines->count >= 0);
    const char *last = lines->count > 0 ? lines->words[lines->count - 1] : "";
    int64_t epoch = 1;
    *secret = (gy_secret){.is_bare = lines->count == 1};
    if (lines->count < 1 || lines->count > 3) {
        return gy_fail(GY_FORMAT, "%d words: expected EPOCH HEX or EPOCH ROLE HEX",
                       lines->count);
    }
    if (!secret->is_bare &&
        (strlen(lines->words[0]) > 12 ||
         gy_word_count(lines->words[0], "epoch", (int64_t[]){1, 999999999999}, &epoch) < 0)) {
        return gy_fail(GY_FORMAT, "the first word is no epoch from 1 to 999999999999");
    }
    if (lines->count == 3 && strlen(lines->words[1]) >= sizeof(secret->who)) {
        return gy_fail(GY_FORMAT, "the second of three words is too long");
    }
    secret->epoch = (uint64_t)epoch;
    snprintf(secret->who, sizeof(secret->who), "%s", lines->count == 3 ? lines->words[1] : "");
    if (!read_hex(last, secret)) {
        return gy_fail(GY_FORMAT, "the last word is not a key in hexadecimal digits");
    }
    bool is_derived = secret->who[0] != '\0';
    if (secret->size_bytes < GY_SECRET_BYTES_LEAST ||
        (is_derived && secret->size_bytes != GY_KEY_BYTES)) {
        return gy_fail(GY_FORMAT, "a key of %zu bytes: expected %s%d", secret->size_bytes,
                       is_derived ? "" : "at least ", GY_SECRET_BYTES_LEAST);
    }
    return GY_OK;
}

gy_status gy_secret_next(gy_lines *lines, gy_secret *secret)
{
    GY_ASSERT(secret != NULL);
    for (;;) {
        gy_status status = gy_line_next(lines);
        if (status != GY_OK) {
            return status;
        }
        if (lines->line[0] == '#') {
            continue;
        }
        GY_TRY(gy_line_split(lines));
        if (lines->count > 0) {
            return read_words(lines, secret);
        }
    }
}

/* ---- Keys of launches ---- */

static bool is_one_of(char byte, const char *set)
{
    return byte != '\0' && strchr(set, byte) != NULL;
}

/* Does the first relevant line begin with an epoch and continue, or is it hexadecimal digits
 * only? Otherwise the whole file is one secret. */
static bool has_lines(const char *text, size_t size)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    size_t at = 0;
    while (at < size && is_one_of(text[at], "#\n\t ")) {
        const char *end = text[at] == '#' ? memchr(text + at, '\n', size - at) : text + at;
        at = end != NULL ? (size_t)(end - text) + 1 : size;
    }
    size_t number = 0, digits = 0;
    while (at + number < size && text[at + number] >= '0' && text[at + number] <= '9') {
        number++;
    }
    if (number > 0 && at + number < size && is_one_of(text[at + number], " \t")) {
        return true;
    }
    while (at + digits < size && is_one_of(text[at + digits], hex)) {
        digits++;
    }
    bool is_over = at + digits == size || text[at + digits] == '\n';
    return is_over && digits >= 2 * (size_t)GY_SECRET_BYTES_LEAST && digits % 2 == 0;
}

static gy_status add_key(gy_keys *keys, uint64_t epoch, const gy_transport_key *key)
{
    int at = keys->count;
    if (gy_keys_find(keys, epoch) != NULL) {
        return gy_fail(GY_FORMAT, "epoch %llu has two secrets", (unsigned long long)epoch);
    }
    if (keys->count == GY_KEYS_MOST) {
        return gy_fail(GY_LIMIT, "more than %d epochs: retire one", GY_KEYS_MOST);
    }
    for (; at > 0 && keys->items[at - 1].epoch < epoch; at--) {
        keys->items[at] = keys->items[at - 1];
    }
    keys->items[at].epoch = epoch;
    keys->items[at].key = *key;
    keys->count++;
    return GY_OK;
}

static gy_status add_secret(gy_keys *keys, const gy_secret *secret, const char *role,
                            const uint8_t *run)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * GY_SECRET_BYTES];
    gy_transport_key key;
    for (size_t i = 0; i < secret->size_bytes; i++) {
        text[2 * i] = digits[secret->bytes[i] >> 4];
        text[2 * i + 1] = digits[secret->bytes[i] & 15];
    }
    gy_status status =
        gy_transport_key_derive((const uint8_t *)text, 2 * secret->size_bytes, run, role, &key);
    status = status == GY_OK ? add_key(keys, secret->epoch, &key) : status;
    explicit_bzero(text, sizeof(text));
    explicit_bzero(&key, sizeof(key));
    return status;
}

static gy_status read_lines(const char *path, gy_lines *lines, const char *role,
                            const uint8_t *run, gy_keys *keys)
{
    gy_secret secret = {0};
    gy_status status = GY_OK;
    while (status == GY_OK) {
        status = gy_secret_next(lines, &secret);
        if (status == GY_OK && secret.who[0] == '\0') {
            status = add_secret(keys, &secret, role, run);
        }
    }
    explicit_bzero(&secret, sizeof(secret));
    if (status < 0) {
        gy_fail_within(status, "%s:%d", path, lines->number);
        return status;
    }
    return keys->count > 0
               ? GY_OK
               : gy_fail(
                     GY_STATE,
                     "the cluster key %s holds only keys of roles: a launch needs the secret",
                     path);
}

static gy_status read_raw(const char *path, const uint8_t *text, size_t size, const char *role,
                          const uint8_t *run, gy_keys *keys)
{
    GY_ASSERT(keys->count == 0);
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r')) {
        size--;
    }
    if (size < GY_SECRET_BYTES_LEAST || size > RAW_BYTES_MOST) {
        return gy_fail(size > RAW_BYTES_MOST ? GY_LIMIT : GY_FORMAT,
                       "the cluster key %s has %zu bytes: expected %d to %d", path, size,
                       GY_SECRET_BYTES_LEAST, RAW_BYTES_MOST);
    }
    keys->count = 1;
    keys->items[0].epoch = 1;
    return gy_transport_key_derive(text, size, run, role, &keys->items[0].key);
}

gy_status gy_keys_read(const char *path, const char *role, const uint8_t run[GY_RUN_ID_BYTES],
                       gy_keys *keys)
{
    GY_ASSERT(path != NULL);
    GY_ASSERT(role != NULL);
    static const uint8_t no_run[GY_RUN_ID_BYTES];
    uint8_t *text = gy_alloc("transport.keys", GY_KEY_FILE_BYTES);
    size_t size = 0;
    *keys = (gy_keys){0};
    if (text == NULL) {
        return GY_NOMEM;
    }
    gy_status status = gy_transport_key_load(path, text, GY_KEY_FILE_BYTES, &size);
    const uint8_t *salt = run != NULL ? run : no_run;
    if (status == GY_OK && has_lines((const char *)text, size)) {
        gy_lines lines = {.text = (const char *)text, .size_bytes = size};
        status = read_lines(path, &lines, role, salt, keys);
        explicit_bzero(&lines, sizeof(lines));
    } else if (status == GY_OK) {
        status = read_raw(path, text, size, role, salt, keys);
    }
    explicit_bzero(text, GY_KEY_FILE_BYTES);
    gy_free(text);
    if (status < 0) {
        gy_keys_wipe(keys);
    }
    return status;
}

const gy_transport_key *gy_keys_find(const gy_keys *keys, uint64_t epoch)
{
    GY_ASSERT(keys->count >= 0);
    GY_ASSERT(keys->count <= GY_KEYS_MOST);
    for (int i = 0; i < keys->count; i++) {
        if (keys->items[i].epoch == epoch) {
            return &keys->items[i].key;
        }
    }
    return NULL;
}

void gy_keys_wipe(gy_keys *keys)
{
    GY_ASSERT(keys != NULL);
    explicit_bzero(keys, sizeof(*keys));
}
