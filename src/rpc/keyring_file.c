/* Key rings as files: make, rotate, retire, derive. A ring is replaced whole. */
#include "rpc/keyring_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NEW_SECRET_BYTES = 64 };

/* A text that is wiped. */
typedef struct ring_text {
    size_t size_bytes;
    char data[GY_RING_BYTES + 1];
} ring_text;

static gy_status add(ring_text *text, const char *line, size_t size_bytes)
{
    if (size_bytes > GY_RING_BYTES - text->size_bytes) {
        return gy_fail(GY_LIMIT, "a key ring of more than %d bytes: retire an epoch",
                       GY_RING_BYTES);
    }
    memcpy(text->data + text->size_bytes, line, size_bytes);
    text->size_bytes += size_bytes;
    return GY_OK;
}

static gy_status add_key(ring_text *text, uint64_t epoch, const char *role, const uint8_t *key,
                         size_t size_bytes)
{
    static const char digits[] = "0123456789abcdef";
    char line[64 + 2 * NEW_SECRET_BYTES];
    int used = snprintf(line, sizeof(line), "%llu %s%s", (unsigned long long)epoch,
                        role != NULL ? role : "", role != NULL ? " " : "");
    GY_ASSERT(size_bytes <= NEW_SECRET_BYTES && used > 0 && used < 64);
    size_t size = (size_t)used;
    for (size_t i = 0; i < size_bytes; i++) {
        line[size++] = digits[key[i] >> 4];
        line[size++] = digits[key[i] & 15];
    }
    line[size++] = '\n';
    gy_status status = add(text, line, size);
    OPENSSL_cleanse(line, sizeof(line));
    return status;
}

static gy_status add_new(ring_text *text, uint64_t epoch)
{
    uint8_t secret[NEW_SECRET_BYTES];
    if (RAND_priv_bytes(secret, sizeof(secret)) != 1) {
        return gy_fail(GY_IO, "the system gives no random numbers");
    }
    gy_status status = add_key(text, epoch, NULL, secret, sizeof(secret));
    OPENSSL_cleanse(secret, sizeof(secret));
    return status;
}

static ring_text *text_new(void)
{
    return gy_alloc_zero("rpc.keyring", 1, sizeof(ring_text));
}

static void text_free(ring_text *text)
{
    if (text != NULL) {
        OPENSSL_cleanse(text, sizeof(*text));
        gy_free(text);
    }
}

static gy_status read_text(const char *path, ring_text *text)
{
    GY_TRY(gy_key_load(path, (uint8_t *)text->data, GY_RING_BYTES, &text->size_bytes));
    bool is_cut = text->size_bytes > 0 && text->data[text->size_bytes - 1] != '\n';
    return is_cut ? add(text, "\n", 1) : GY_OK;
}

/* What was written is what a crash leaves: the folder is synced as well. */
static gy_status sync_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)(slash - path + 1),
             slash == NULL ? "." : path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    gy_status status = GY_OK;
    if (fd < 0 || fsync(fd) != 0) {
        status = gy_fail(GY_IO, "cannot sync the folder of %s: %s", path, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

static gy_status replace(const char *path, const ring_text *text)
{
    char beside[4096];
    if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside)) {
        return gy_fail(GY_ARG, "the name of the key ring is too long");
    }
    gy_status status = gy_key_save(beside, text->data, text->size_bytes);
    if (status == GY_EXISTS) {
        return gy_fail(GY_EXISTS,
                       "%s is there: another change of the ring is under way, or was cut off",
                       beside);
    }
    GY_TRY(status);
    if (rename(beside, path) != 0) {
        status = gy_fail(GY_IO, "cannot replace %s: %s", path, strerror(errno));
        (void)unlink(beside);
        return status;
    }
    return sync_folder(path);
}

gy_status gy_keyring_make(const char *path)
{
    ring_text *text = text_new();
    gy_status status = text != NULL ? add_new(text, 1) : GY_NOMEM;
    if (status == GY_OK) {
        status = gy_key_save(path, text->data, text->size_bytes);
    }
    text_free(text);
    return status == GY_OK ? sync_folder(path) : status;
}

/* What each line does to the new text. */
typedef gy_status (*each_line)(ring_text *to, const ring_line *line, const char *from,
                               size_t size_bytes, void *arg);

static gy_status walk(const char *path, ring_text *to, each_line each, void *arg)
{
    ring_text *from = text_new();
    ring_line line = {0};
    gy_lines lines = {0};
    gy_status status = from != NULL ? read_text(path, from) : GY_NOMEM;
    if (status == GY_OK) {
        lines = (gy_lines){.text = from->data, .size_bytes = from->size_bytes};
        size_t at = 0;
        while (status == GY_OK) {
            status = gy_ring_line_next(&lines, &line);
            if (status == GY_OK) {
                status = each(to, &line, from->data + at, lines.at - at, arg);
                at = lines.at;
            }
        }
        if (status < 0) {
            gy_fail_within(status, "%s:%d", path, lines.number);
        } else {
            status = add(to, from->data + at, lines.at - at); /* words after the last line */
        }
    }
    OPENSSL_cleanse(&line, sizeof(line));
    OPENSSL_cleanse(&lines, sizeof(lines));
    text_free(from);
    return status;
}

typedef struct rotation {
    uint64_t newest;
    bool has_secret;
} rotation;

static gy_status keep_all(ring_text *to, const ring_line *line, const char *from,
                          size_t size_bytes, void *arg)
{
    rotation *found = arg;
    found->newest = GY_MAX(found->newest, line->epoch);
    found->has_secret = found->has_secret || line->role < 0;
    return add(to, from, size_bytes);
}

gy_status gy_keyring_rotate(const char *path, uint64_t *epoch)
{
    ring_text *to = text_new();
    rotation found = {0};
    gy_status status = to != NULL ? walk(path, to, keep_all, &found) : GY_NOMEM;
    if (status == GY_OK && !found.has_secret) {
        status = gy_fail(GY_STATE, "%s holds keys of roles alone: rotate where they come from",
                         path);
    }
    if (status == GY_OK) {
        status = add_new(to, found.newest + 1);
    }
    if (status == GY_OK) {
        status = replace(path, to);
    }
    text_free(to);
    *epoch = status == GY_OK ? found.newest + 1 : 0;
    return status;
}

typedef struct retirement {
    uint64_t epoch;
    uint32_t dropped, kept;
} retirement;

static gy_status keep_others(ring_text *to, const ring_line *line, const char *from,
                             size_t size_bytes, void *arg)
{
    retirement *what = arg;
    bool is_kept = line->epoch != what->epoch;
    what->kept += is_kept;
    what->dropped += !is_kept;
    return is_kept ? add(to, from, size_bytes) : GY_OK;
}

gy_status gy_keyring_retire(const char *path, uint64_t epoch)
{
    ring_text *to = text_new();
    retirement what = {.epoch = epoch};
    gy_status status = to != NULL ? walk(path, to, keep_others, &what) : GY_NOMEM;
    if (status == GY_OK && what.dropped == 0) {
        status = gy_fail(GY_NOTFOUND, "%s has no epoch %llu", path, (unsigned long long)epoch);
    } else if (status == GY_OK && what.kept == 0) {
        status = gy_fail(GY_STATE, "epoch %llu is the only one in %s: rotate first",
                         (unsigned long long)epoch, path);
    }
    if (status == GY_OK) {
        status = replace(path, to);
    }
    text_free(to);
    return status;
}

typedef struct derivation {
    gy_rpc_role role;
    uint32_t count;
} derivation;

static gy_status derive_line(ring_text *to, const ring_line *line, const char *from,
                             size_t size_bytes, void *arg)
{
    (void)from;
    (void)size_bytes;
    derivation *what = arg;
    gy_key key;
    if (line->role >= 0 && line->role != (int)what->role) {
        return GY_OK;
    }
    what->count++;
    gy_status status = gy_ring_derive(line, what->role, &key);
    if (status == GY_OK) {
        status =
            add_key(to, line->epoch, gy_keyring_roles[what->role], key.bytes, GY_KEY_BYTES);
    }
    OPENSSL_cleanse(&key, sizeof(key));
    return status;
}

gy_status gy_keyring_derive(const char *path, gy_rpc_role role, const char *to)
{
    ring_text *text = text_new();
    derivation what = {.role = role};
    GY_ASSERT(role < GY_RPC_ROLES);
    gy_status status = text != NULL ? walk(path, text, derive_line, &what) : GY_NOMEM;
    if (status == GY_OK && what.count == 0) {
        status = gy_fail(GY_STATE, "%s has no key of a %s", path, gy_rpc_role_text(role));
    }
    if (status == GY_OK) {
        status = gy_key_save(to, text->data, text->size_bytes);
    }
    text_free(text);
    return status == GY_OK ? sync_folder(to) : status;
}
