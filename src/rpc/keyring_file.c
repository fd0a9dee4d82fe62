/* Key rings as files: makes, rotates, retires, derives and lists. A ring is replaced
 * atomically. */
#include "base/text.h"
#include "rpc/keyring_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NEW_SECRET_BYTES = 64, HEAD_BYTES = GY_SECRET_WHO_BYTES + 24 };

/* A text that is wiped before it is freed. */
typedef struct ring_text {
    size_t size_bytes;
    char data[GY_KEY_FILE_BYTES + 1];
} ring_text;

static gy_status add(ring_text *text, const char *line, size_t size_bytes)
{
    if (size_bytes > GY_KEY_FILE_BYTES - text->size_bytes) {
        return gy_fail(GY_LIMIT, "a key ring of more than %d bytes: retire an epoch",
                       GY_KEY_FILE_BYTES);
    }
    memcpy(text->data + text->size_bytes, line, size_bytes);
    text->size_bytes += size_bytes;
    return GY_OK;
}

static gy_status add_key(ring_text *text, uint64_t epoch, const char *who, const uint8_t *key,
                         size_t size_bytes)
{
    static const char digits[] = "0123456789abcdef";
    char line[HEAD_BYTES + 2 * NEW_SECRET_BYTES];
    int used = snprintf(line, sizeof(line), "%llu %s%s", (unsigned long long)epoch,
                        who != NULL ? who : "", who != NULL ? " " : "");
    GY_ASSERT(size_bytes <= NEW_SECRET_BYTES && used > 0 && used < HEAD_BYTES);
    size_t size = (size_t)used;
    for (size_t i = 0; i < size_bytes; i++) {
        line[size++] = digits[key[i] >> 4];
        line[size++] = digits[key[i] & 15];
    }
    line[size++] = '\n';
    gy_status status = add(text, line, size);
    explicit_bzero(line, sizeof(line));
    return status;
}

static gy_status add_new(ring_text *text, uint64_t epoch)
{
    uint8_t secret[NEW_SECRET_BYTES];
    if (RAND_priv_bytes(secret, sizeof(secret)) != 1) {
        return gy_fail(GY_IO, "the system gives no random numbers");
    }
    gy_status status = add_key(text, epoch, NULL, secret, sizeof(secret));
    explicit_bzero(secret, sizeof(secret));
    return status;
}

static ring_text *text_new(void)
{
    return gy_alloc_zero("rpc.keyring", 1, sizeof(ring_text));
}

static void text_free(ring_text *text)
{
    if (text != NULL) {
        explicit_bzero(text, sizeof(*text));
        gy_free(text);
    }
}

static gy_status read_text(const char *path, ring_text *text)
{
    GY_TRY(gy_transport_key_load(path, (uint8_t *)text->data, GY_KEY_FILE_BYTES,
                                 &text->size_bytes));
    bool is_cut = text->size_bytes > 0 && text->data[text->size_bytes - 1] != '\n';
    return is_cut ? add(text, "\n", 1) : GY_OK;
}

/* Sync the folder too, so that the new file survives a crash. */
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
    gy_status status = gy_transport_key_save(beside, text->data, text->size_bytes);
    if (status == GY_EXISTS) {
        return gy_fail(
            GY_EXISTS,
            "%s exists: another change of the keyring is under way, or was interrupted",
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

/* Remove the temporary file of an interrupted replacement. */
static void drop_beside(const char *path)
{
    char beside[4096];
    if (snprintf(beside, sizeof(beside), "%s.new", path) < (int)sizeof(beside)) {
        (void)unlink(beside);
    }
}

gy_status gy_keyring_make(const char *path)
{
    GY_TRY(gy_transport_key_make(path));
    return sync_folder(path);
}

/* Writes a line's part of the new text. */
typedef gy_status (*each_line)(ring_text *to, const ring_line *line, const char *from,
                               size_t size_bytes, void *arg);

/* `keeps_rest`: also keep text after the last line. */
static gy_status walk(const char *path, ring_text *to, bool keeps_rest, each_line each,
                      void *arg)
{
    ring_text *from = text_new();
    ring_line line = {0};
    gy_lines lines = {0};
    gy_status status = from != NULL ? read_text(path, from) : GY_NOMEM;
    if (status == GY_OK) {
        lines = (gy_lines){.text = from->data, .size_bytes = from->size_bytes};
        size_t at = 0;
        while (status == GY_OK) {
            status = gy_rpc_ring_line_next(&lines, &line);
            if (status == GY_OK) {
                status = each(to, &line, from->data + at, lines.at - at, arg);
                at = lines.at;
            }
        }
        if (status < 0) {
            gy_fail_within(status, "%s:%d", path, lines.number);
        } else {
            status = keeps_rest ? add(to, from->data + at, lines.at - at) : GY_OK;
        }
    }
    explicit_bzero(&line, sizeof(line));
    explicit_bzero(&lines, sizeof(lines));
    text_free(from);
    return status;
}

typedef struct rotation {
    uint64_t newest;
    bool has_secret;
    int count; /* number of secrets */
} rotation;

/* A line with only digits gets its epoch number, before other lines are added. */
static gy_status keep(ring_text *to, const ring_line *line, const char *from, size_t size_bytes)
{
    size_t before = size_bytes - 1;
    if (!line->secret.is_bare) {
        return add(to, from, size_bytes);
    }
    while (before > 0 && from[before - 1] != '\n') {
        before--;
    }
    GY_TRY(add(to, from, before));
    GY_TRY(add(to, "1 ", 2));
    return add(to, from + before, size_bytes - before);
}

static gy_status keep_all(ring_text *to, const ring_line *line, const char *from,
                          size_t size_bytes, void *arg)
{
    rotation *found = arg;
    found->newest = GY_MAX(found->newest, line->secret.epoch);
    found->has_secret = found->has_secret || line->role < 0;
    found->count += line->role < 0;
    return keep(to, line, from, size_bytes);
}

gy_status gy_keyring_rotate(const char *path, uint64_t *epoch)
{
    ring_text *to = text_new();
    rotation found = {0};
    gy_status status = to != NULL ? walk(path, to, true, keep_all, &found) : GY_NOMEM;
    if (status == GY_OK && !found.has_secret) {
        status = gy_fail(GY_STATE, "%s holds keys of roles alone: rotate where they come from",
                         path);
    }
    if (status == GY_OK && found.count >= GY_KEYS_MOST) {
        status = gy_fail(GY_LIMIT, "%s has %d epochs: retire one first", path, found.count);
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
    bool is_kept = line->secret.epoch != what->epoch;
    what->kept += is_kept;
    what->dropped += !is_kept;
    return is_kept ? keep(to, line, from, size_bytes) : GY_OK;
}

gy_status gy_keyring_retire(const char *path, uint64_t epoch)
{
    ring_text *to = text_new();
    retirement what = {.epoch = epoch};
    gy_status status = to != NULL ? walk(path, to, true, keep_others, &what) : GY_NOMEM;
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

/* ---- Restricted keys ---- */

typedef struct derivation {
    uint32_t roles; /* bits GY_RPC_MAY(...) */
    const char *subject;
    uint32_t count;
    bool has_others; /* result: the ring has other keys too */
    bool is_alone;   /* the caller is the only one that makes this ring */
} derivation;

static gy_status derive_line(ring_text *to, const ring_line *line, const char *from,
                             size_t size_bytes, void *arg)
{
    (void)from;
    (void)size_bytes;
    derivation *what = arg;
    char who[GY_SECRET_WHO_BYTES];
    gy_status status = GY_OK;
    gy_transport_key key;
    for (int role = 0; role < GY_RPC_ROLES && status == GY_OK; role++) {
        if ((what->roles & GY_RPC_MAY(role)) == 0 ||
            !gy_rpc_ring_has(line, (gy_rpc_role)role, what->subject)) {
            continue;
        }
        what->count++;
        gy_rpc_ring_who_text((gy_rpc_role)role, what->subject, who);
        status = gy_rpc_ring_derive(line, (gy_rpc_role)role, what->subject, &key);
        if (status == GY_OK) {
            status = add_key(to, line->secret.epoch, who, key.bytes, GY_KEY_BYTES);
        }
    }
    explicit_bzero(&key, sizeof(key));
    return status;
}

static gy_status compare_line(ring_text *to, const ring_line *line, const char *from,
                              size_t size_bytes, void *arg)
{
    (void)to;
    (void)from;
    (void)size_bytes;
    derivation *what = arg;
    what->count++;
    what->has_others = what->has_others || line->role < 0 ||
                       (what->roles & GY_RPC_MAY(line->role)) == 0 ||
                       strcmp(line->subject, what->subject) != 0;
    return GY_OK;
}

/* Refuse to replace an existing ring unless it was derived for the same roles and subject. */
static gy_status save_derived(const ring_text *text, const derivation *what, const char *to)
{
    struct stat facts;
    derivation there = {.roles = what->roles, .subject = what->subject};
    if (lstat(to, &facts) != 0) {
        GY_TRY(gy_transport_key_save(to, text->data, text->size_bytes));
        return sync_folder(to);
    }
    ring_text *none = text_new();
    gy_status status = none != NULL ? walk(to, none, false, compare_line, &there) : GY_NOMEM;
    text_free(none);
    if (status != GY_NOMEM && (status < 0 || there.has_others || there.count == 0)) {
        return gy_fail(GY_EXISTS, "%s is there and holds other keys: none is overwritten", to);
    }
    GY_TRY(status);
    if (what->is_alone) {
        drop_beside(to);
    }
    return replace(to, text);
}

static gy_status derive_ring(const char *path, derivation *what, const char *who,
                             const char *to)
{
    ring_text *text = text_new();
    gy_status status = text != NULL ? walk(path, text, false, derive_line, what) : GY_NOMEM;
    if (status == GY_OK && what->count == 0) {
        status = gy_fail(GY_STATE, "%s has no key from which that of %s comes", path, who);
    }
    if (status == GY_OK) {
        status = save_derived(text, what, to);
    }
    text_free(text);
    return status;
}

gy_status gy_keyring_derive(const char *path, const char *who, const char *to)
{
    derivation what = {.subject = ""};
    gy_keyring_who one = {0};
    char words[GY_SECRET_WHO_BYTES], *rest = NULL;
    if (strlen(who) >= sizeof(words)) {
        return gy_fail(GY_ARG, "\"%.20s...\" is too long: expected ROLE,ROLE or ROLE/SUBJECT",
                       who);
    }
    if (strchr(who, '/') != NULL) {
        GY_TRY(gy_rpc_ring_who(who, &one));
        what.roles = GY_RPC_MAY(one.role);
        what.subject = one.subject;
        return derive_ring(path, &what, who, to);
    }
    snprintf(words, sizeof(words), "%s", who);
    for (char *word = strtok_r(words, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        GY_TRY(gy_rpc_ring_who(word, &one));
        what.roles |= GY_RPC_MAY(one.role);
    }
    return what.roles != 0 ? derive_ring(path, &what, who, to)
                           : gy_fail(GY_ARG, "no role: expected ROLE,ROLE or ROLE/SUBJECT");
}

gy_status gy_keyring_scope(const char *path, gy_rpc_role role, const char *subject,
                           const char *to)
{
    derivation what = {.roles = GY_RPC_MAY(role), .subject = subject, .is_alone = true};
    char who[GY_SECRET_WHO_BYTES];
    GY_ASSERT(role < GY_RPC_ROLES);
    if (!gy_rpc_subject_is_good(subject)) {
        return gy_fail(GY_ARG, "no subject: expected 1 to %d printable characters",
                       GY_RPC_SUBJECT_BYTES - 1);
    }
    gy_rpc_ring_who_text(role, subject, who);
    return derive_ring(path, &what, who, to);
}

/* ---- Listing ---- */

static gy_status note_line(ring_text *to, const ring_line *line, const char *from,
                           size_t size_bytes, void *arg)
{
    (void)from;
    (void)size_bytes;
    (void)arg;
    char words[HEAD_BYTES];
    size_t used = gy_print(words, sizeof(words), "%llu %s",
                           (unsigned long long)line->secret.epoch, line->secret.who);
    return add(to, words, used + 1);
}

gy_status gy_keyring_list(const char *path, gy_keyring_visit visit, void *arg)
{
    gy_keyring *ring = NULL;
    ring_text *text = text_new();
    gy_status status = text != NULL ? gy_keyring_open(path, &ring) : GY_NOMEM;
    gy_keyring_free(ring); /* opened only to check it; a failure has been recorded */
    status = status == GY_OK ? walk(path, text, false, note_line, NULL) : status;
    for (size_t at = 0; status == GY_OK && at < text->size_bytes;) {
        char *who = NULL;
        uint64_t epoch = strtoull(text->data + at, &who, 10);
        status = visit(arg, &(gy_keyring_entry){.epoch = epoch, .restriction = who + 1});
        at += strlen(text->data + at) + 1;
    }
    text_free(text);
    return status;
}
