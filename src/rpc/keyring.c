/* The key ring as a node uses it: read, derived, kept, read again. */
#include "rpc/keyring_priv.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static_assert((int)GY_KEYRING_NAME_BYTES == (int)GY_KEY_NAME_BYTES,
              "names go to TLS as they are");
static_assert((int)GY_KEYRING_KEY_BYTES == (int)GY_KEY_BYTES, "keys go to TLS as they are");

const char *const gy_keyring_roles[GY_RPC_ROLES] = {
    [GY_RPC_NAMESERVER] = "nameserver", [GY_RPC_DAEMON] = "daemon",
    [GY_RPC_MANAGER] = "manager",       [GY_RPC_SUBMITTER] = "submitter",
    [GY_RPC_WATCHER] = "watcher",
};

typedef struct ring_key {
    uint64_t epoch;
    gy_rpc_role role;
    gy_key key;
    char name[GY_KEY_NAME_BYTES];
} ring_key;

typedef struct ring_keys {
    ring_key *items;
    size_t count, capacity;
} ring_keys;

struct gy_keyring {
    char *path;
    ring_keys keys;
    struct stat facts; /* of the file that was read, or that was refused */
    char text[64];
};

const char *gy_rpc_role_text(gy_rpc_role role)
{
    static const char *const texts[GY_RPC_ROLES] = {
        [GY_RPC_NAMESERVER] = "name server", [GY_RPC_DAEMON] = "daemon",
        [GY_RPC_MANAGER] = "manager",        [GY_RPC_SUBMITTER] = "submitter",
        [GY_RPC_WATCHER] = "watcher",
    };
    GY_ASSERT(role < GY_RPC_ROLES);
    return texts[role];
}

static bool read_hex(const char *text, ring_line *line)
{
    static const char digits[] = "0123456789abcdef";
    size_t size = strlen(text);
    if (size % 2 != 0 || size / 2 > sizeof(line->secret)) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        char digit = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] + ('a' - 'A') : text[i]);
        const char *at = strchr(digits, digit);
        if (at == NULL) {
            return false;
        }
        uint8_t half = (uint8_t)(at - digits);
        line->secret[i / 2] = (uint8_t)(i % 2 == 0 ? half << 4 : line->secret[i / 2] | half);
    }
    line->secret_bytes = size / 2;
    return true;
}

/* What is found is never said: it may be a secret that stands in the wrong place. */
static gy_status read_words(gy_lines *lines, ring_line *line)
{
    int64_t epoch = 0;
    int role = 0;
    if (lines->count < 2 || lines->count > 3) {
        return gy_fail(GY_FORMAT, "%d words: expected EPOCH HEX or EPOCH ROLE HEX",
                       lines->count);
    }
    if (strlen(lines->words[0]) > 12 ||
        gy_word_count(lines->words[0], "epoch", (int64_t[]){1, 999999999999}, &epoch) < 0) {
        return gy_fail(GY_FORMAT, "the first word is no epoch from 1 to 999999999999");
    }
    if (lines->count == 3 &&
        (strlen(lines->words[1]) > 16 ||
         gy_word_index(lines->words[1], "role", gy_keyring_roles, GY_RPC_ROLES, &role) < 0)) {
        return gy_fail(GY_FORMAT, "the second of three words is no role");
    }
    line->epoch = (uint64_t)epoch;
    line->role = lines->count == 3 ? role : -1;
    if (!read_hex(lines->words[lines->count - 1], line)) {
        return gy_fail(GY_FORMAT, "the last word is not a key in hexadecimal digits");
    }
    bool is_derived = line->role >= 0;
    if (line->secret_bytes < GY_KEY_BYTES ||
        (is_derived && line->secret_bytes != GY_KEY_BYTES)) {
        return gy_fail(GY_FORMAT, "a key of %zu bytes: expected %s%d", line->secret_bytes,
                       is_derived ? "" : "at least ", GY_KEY_BYTES);
    }
    return GY_OK;
}

gy_status gy_ring_line_next(gy_lines *lines, ring_line *line)
{
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
            return read_words(lines, line);
        }
    }
}

gy_status gy_ring_derive(const ring_line *line, gy_rpc_role role, gy_key *key)
{
    uint8_t salt[GY_RUN_ID_BYTES] = {0};
    char info[32];
    if (line->role >= 0) {
        memcpy(key->bytes, line->secret, GY_KEY_BYTES);
        return GY_OK;
    }
    for (size_t i = 0; i < sizeof(line->epoch); i++) {
        salt[i] = (uint8_t)(line->epoch >> (8 * i));
    }
    snprintf(info, sizeof(info), "gyre rpc %s", gy_keyring_roles[role]);
    return gy_key_derive(line->secret, line->secret_bytes, salt, info, key);
}

static gy_status add_key(ring_keys *keys, const ring_line *line, gy_rpc_role role)
{
    char words[GY_KEY_NAME_BYTES];
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->items[i].epoch == line->epoch && keys->items[i].role == role) {
            return gy_fail(GY_FORMAT, "epoch %llu has two keys for one role",
                           (unsigned long long)line->epoch);
        }
    }
    if (keys->count == keys->capacity) { /* not by a resize, which would leave keys behind */
        size_t capacity = GY_MAX(2 * keys->capacity, (size_t)16);
        ring_key *items = gy_alloc_zero("rpc.keyring", capacity, sizeof(*items));
        if (items == NULL) {
            return GY_NOMEM;
        }
        if (keys->count > 0) {
            memcpy(items, keys->items, keys->count * sizeof(*items));
            OPENSSL_cleanse(keys->items, keys->count * sizeof(*items));
        }
        gy_free(keys->items);
        keys->items = items;
        keys->capacity = capacity;
    }
    ring_key *key = &keys->items[keys->count];
    *key = (ring_key){.epoch = line->epoch, .role = role};
    GY_TRY(gy_ring_derive(line, role, &key->key));
    snprintf(words, sizeof(words), "gyre rpc %s %llu", gy_keyring_roles[role],
             (unsigned long long)line->epoch);
    GY_TRY(gy_key_name(&key->key, words, key->name));
    keys->count++;
    return GY_OK;
}

static gy_status read_keys(gy_lines *lines, ring_keys *keys)
{
    ring_line line = {0};
    gy_status status = gy_ring_line_next(lines, &line);
    while (status == GY_OK) {
        int first = line.role >= 0 ? line.role : 0;
        int last = line.role >= 0 ? line.role : GY_RPC_ROLES - 1;
        for (int role = first; role <= last && status == GY_OK; role++) {
            status = add_key(keys, &line, (gy_rpc_role)role);
        }
        status = status == GY_OK ? gy_ring_line_next(lines, &line) : status;
    }
    OPENSSL_cleanse(&line, sizeof(line));
    return status == GY_AGAIN ? GY_OK : status;
}

static void wipe(ring_keys *keys)
{
    if (keys->items != NULL) {
        OPENSSL_cleanse(keys->items, keys->capacity * sizeof(*keys->items));
        gy_free(keys->items);
    }
    *keys = (ring_keys){0};
}

static void describe(gy_keyring *ring)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < ring->keys.count; i++) {
        first = GY_MIN(first, ring->keys.items[i].epoch);
        last = GY_MAX(last, ring->keys.items[i].epoch);
    }
    snprintf(ring->text, sizeof(ring->text),
             first == last ? "epoch %llu" : "epochs %llu to %llu", (unsigned long long)first,
             (unsigned long long)last);
}

static gy_status load(gy_keyring *ring)
{
    ring_keys fresh = {0};
    gy_lines lines = {0};
    uint8_t *text = gy_alloc("rpc.keyring", GY_RING_BYTES);
    if (text == NULL) {
        return GY_NOMEM;
    }
    size_t size = 0;
    gy_status status = gy_key_load(ring->path, text, GY_RING_BYTES, &size);
    if (status >= 0) {
        lines = (gy_lines){.text = (const char *)text, .size_bytes = size};
        status = read_keys(&lines, &fresh);
        if (status == GY_OK && fresh.count == 0) {
            status = gy_fail(GY_FORMAT, "no key in it");
        }
        if (status < 0) {
            gy_fail_within(status, "%s:%d", ring->path, lines.number);
        }
    }
    OPENSSL_cleanse(text, GY_RING_BYTES);
    OPENSSL_cleanse(&lines, sizeof(lines));
    gy_free(text);
    if (status < 0) {
        wipe(&fresh);
        return status;
    }
    wipe(&ring->keys);
    ring->keys = fresh;
    describe(ring);
    return GY_OK;
}

gy_status gy_keyring_open(const char *path, gy_keyring **ring)
{
    gy_keyring *made = gy_alloc_zero("rpc.keyring", 1, sizeof(*made));
    gy_status status = GY_NOMEM;
    if (made != NULL && (made->path = gy_copy_text("rpc.keyring", path)) != NULL) {
        (void)lstat(path, &made->facts); /* what it does not see, the reader says */
        status = load(made);
    }
    if (status < 0) {
        gy_keyring_free(made);
        return status;
    }
    *ring = made;
    return GY_OK;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mode == b->st_mode && a->st_uid == b->st_uid &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

gy_status gy_keyring_refresh(gy_keyring *ring)
{
    struct stat facts;
    if (lstat(ring->path, &facts) != 0) {
        memset(&facts, 0, sizeof(facts));
    }
    if (is_same(&facts, &ring->facts)) {
        return GY_OK;
    }
    ring->facts = facts;
    gy_status status = load(ring);
    if (status < 0) {
        gy_warn("%s; the keys that were there are kept", gy_error_text());
        return status;
    }
    return GY_AGAIN;
}

gy_status gy_keyring_offer(const gy_keyring *ring, gy_rpc_role role,
                           char name[GY_KEYRING_NAME_BYTES], uint8_t key[GY_KEYRING_KEY_BYTES])
{
    const ring_key *best = NULL;
    for (size_t i = 0; i < ring->keys.count; i++) {
        const ring_key *one = &ring->keys.items[i];
        if (one->role == role && (best == NULL || one->epoch > best->epoch)) {
            best = one;
        }
    }
    if (best == NULL) {
        return gy_fail(GY_STATE, "%s has no key of a %s", ring->path, gy_rpc_role_text(role));
    }
    memcpy(name, best->name, GY_KEYRING_NAME_BYTES);
    memcpy(key, best->key.bytes, GY_KEYRING_KEY_BYTES);
    return GY_OK;
}

const uint8_t *gy_keyring_find(const gy_keyring *ring, const char *name, gy_rpc_role *role)
{
    for (size_t i = 0; i < ring->keys.count; i++) {
        if (strcmp(ring->keys.items[i].name, name) == 0) {
            *role = ring->keys.items[i].role;
            return ring->keys.items[i].key.bytes;
        }
    }
    return NULL;
}

const char *gy_keyring_text(const gy_keyring *ring)
{
    return ring->text;
}

void gy_keyring_free(gy_keyring *ring)
{
    if (ring != NULL) {
        wipe(&ring->keys);
        gy_free(ring->path);
        gy_free(ring);
    }
}
