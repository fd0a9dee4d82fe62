/* The key ring as a node uses it: read, derived, cached, and read again after a change. */
#include "rpc/keyring_priv.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static_assert((int)GY_KEYRING_NAME_BYTES == (int)GY_KEY_NAME_BYTES,
              "names go to TLS as they are");
static_assert((int)GY_KEYRING_KEY_BYTES == (int)GY_KEY_BYTES, "keys go to TLS as they are");

const char *const gy_keyring_roles[GY_RPC_ROLES] = {
    [GY_RPC_NAMESERVER] = "nameserver",
    [GY_RPC_DAEMON] = "daemon",
    [GY_RPC_MANAGER] = "manager",
    [GY_RPC_SUBMITTER] = "submitter",
    [GY_RPC_WATCHER] = "watcher",
    [GY_RPC_OPERATOR] = "operator",
    [GY_RPC_SERVER] = "server",
    [GY_RPC_WORKER] = "worker",
    [GY_RPC_LEAD] = "lead",
};

typedef struct ring_key {
    uint64_t epoch;
    gy_rpc_role role;
    char subject[GY_RPC_SUBJECT_BYTES]; /* "": for the whole role */
    gy_transport_key key;
    char name[GY_KEY_NAME_BYTES];
} ring_key;

typedef struct ring_keys {
    ring_key *items;
    size_t count, capacity;
} ring_keys;

struct gy_keyring {
    char *path;
    ring_keys keys;
    struct stat facts; /* stat data of the file that was read or refused */
    char text[256];
};

const char *gy_rpc_role_one(gy_rpc_role role)
{
    static const char *const texts[GY_RPC_ROLES] = {
        [GY_RPC_NAMESERVER] = "a name server",
        [GY_RPC_DAEMON] = "a daemon",
        [GY_RPC_MANAGER] = "a manager",
        [GY_RPC_SUBMITTER] = "a submitter",
        [GY_RPC_WATCHER] = "a watcher",
        [GY_RPC_OPERATOR] = "an operator",
        [GY_RPC_SERVER] = "a server",
        [GY_RPC_WORKER] = "a worker",
        [GY_RPC_LEAD] = "a lead",
    };
    GY_ASSERT(role < GY_RPC_ROLES);
    return texts[role];
}

const char *gy_rpc_role_text(gy_rpc_role role)
{
    return strchr(gy_rpc_role_one(role), ' ') + 1;
}

bool gy_rpc_subject_is_good(const char *subject)
{
    size_t size = strnlen(subject, GY_RPC_SUBJECT_BYTES);
    for (size_t i = 0; i < size; i++) {
        if (subject[i] <= ' ' || subject[i] > '~') {
            return false;
        }
    }
    return size > 0 && size < GY_RPC_SUBJECT_BYTES;
}

/* ---- Lines ---- */

gy_status gy_rpc_ring_who(const char *text, gy_keyring_who *who)
{
    const char *slash = strchr(text, '/');
    size_t size = slash != NULL ? (size_t)(slash - text) : strlen(text);
    int role = 0;
    while (role < GY_RPC_ROLES && (strlen(gy_keyring_roles[role]) != size ||
                                   memcmp(gy_keyring_roles[role], text, size) != 0)) {
        role++;
    }
    if (role == GY_RPC_ROLES) {
        return gy_fail(GY_ARG, "no role: expected nameserver, daemon, manager, submitter, "
                               "watcher, operator, server, worker or lead");
    }
    if (slash != NULL && !gy_rpc_subject_is_good(slash + 1)) {
        return gy_fail(GY_ARG, "no subject: expected 1 to %d printable characters",
                       GY_RPC_SUBJECT_BYTES - 1);
    }
    *who = (gy_keyring_who){.role = (gy_rpc_role)role};
    snprintf(who->subject, sizeof(who->subject), "%s", slash != NULL ? slash + 1 : "");
    return GY_OK;
}

void gy_rpc_ring_who_text(gy_rpc_role role, const char *subject, char out[GY_SECRET_WHO_BYTES])
{
    snprintf(out, GY_SECRET_WHO_BYTES, "%s%s%s", gy_keyring_roles[role],
             subject[0] != '\0' ? "/" : "", subject);
}

gy_status gy_rpc_ring_line_next(gy_lines *lines, ring_line *line)
{
    gy_keyring_who who;
    gy_status status = gy_secret_next(lines, &line->secret);
    line->role = -1;
    line->subject[0] = '\0';
    if (status != GY_OK || line->secret.who[0] == '\0') {
        return status;
    }
    if (gy_rpc_ring_who(line->secret.who, &who) < 0) {
        return gy_fail(GY_FORMAT, "the second of three words is neither ROLE nor ROLE/SUBJECT");
    }
    line->role = (int)who.role;
    memcpy(line->subject, who.subject, sizeof(line->subject));
    return GY_OK;
}

bool gy_rpc_ring_has(const ring_line *line, gy_rpc_role role, const char *subject)
{
    return line->role < 0 || (line->role == (int)role && (line->subject[0] == '\0' ||
                                                          strcmp(line->subject, subject) == 0));
}

/* Derive the next key on the way from a secret to a subject: HKDF, with its purpose as info. */
static gy_status derive(const uint8_t *secret, size_t size_bytes, uint64_t epoch,
                        const char *info, gy_transport_key *key)
{
    uint8_t salt[GY_RUN_ID_BYTES] = {0};
    for (size_t i = 0; i < sizeof(epoch); i++) {
        salt[i] = (uint8_t)(epoch >> (8 * i));
    }
    return gy_transport_key_derive(secret, size_bytes, salt, info, key);
}

static gy_status derive_subject(const gy_transport_key *from, uint64_t epoch, gy_rpc_role role,
                                const char *subject, gy_transport_key *key)
{
    char info[GY_SECRET_WHO_BYTES + 16];
    snprintf(info, sizeof(info), "gyre rpc %s %s", gy_keyring_roles[role], subject);
    return derive(from->bytes, GY_KEY_BYTES, epoch, info, key);
}

gy_status gy_rpc_ring_derive(const ring_line *line, gy_rpc_role role, const char *subject,
                             gy_transport_key *key)
{
    const gy_secret *secret = &line->secret;
    char info[32];
    gy_transport_key of_role;
    gy_status status = GY_OK;
    GY_ASSERT(gy_rpc_ring_has(line, role, subject));
    if (line->role < 0) {
        snprintf(info, sizeof(info), "gyre rpc %s", gy_keyring_roles[role]);
        status = derive(secret->bytes, secret->size_bytes, secret->epoch, info, &of_role);
    } else {
        memcpy(of_role.bytes, secret->bytes, GY_KEY_BYTES);
    }
    if (status == GY_OK && strcmp(line->subject, subject) != 0) {
        status = derive_subject(&of_role, secret->epoch, role, subject, key);
    } else if (status == GY_OK) {
        *key = of_role;
    }
    explicit_bzero(&of_role, sizeof(of_role));
    return status;
}

static gy_status name_key(uint64_t epoch, gy_rpc_role role, const char *subject,
                          const gy_transport_key *key, char name[GY_KEY_NAME_BYTES])
{
    char who[GY_SECRET_WHO_BYTES], words[GY_KEY_NAME_BYTES];
    gy_rpc_ring_who_text(role, subject, who);
    snprintf(words, sizeof(words), "gyre rpc %s %llu", who, (unsigned long long)epoch);
    return gy_transport_key_name(key, words, name);
}

/* ---- The keys of a ring ---- */

static gy_status add_key(ring_keys *keys, const ring_line *line, gy_rpc_role role)
{
    uint64_t epoch = line->secret.epoch;
    for (size_t i = 0; i < keys->count; i++) {
        const ring_key *one = &keys->items[i];
        bool is_another = one->subject[0] != '\0' && line->subject[0] != '\0' &&
                          strcmp(one->subject, line->subject) != 0;
        if (one->epoch == epoch && one->role == role && !is_another) {
            return gy_fail(GY_FORMAT, "epoch %llu has two keys for one role",
                           (unsigned long long)epoch);
        }
    }
    /* allocate and copy instead of a realloc, which would leave keys in freed memory */
    if (keys->count == keys->capacity) {
        size_t capacity = GY_MAX(2 * keys->capacity, (size_t)16);
        ring_key *items = gy_alloc_zero("rpc.keyring", capacity, sizeof(*items));
        if (items == NULL) {
            return GY_NOMEM;
        }
        if (keys->count > 0) {
            memcpy(items, keys->items, keys->count * sizeof(*items));
            explicit_bzero(keys->items, keys->count * sizeof(*items));
        }
        gy_free(keys->items);
        keys->items = items;
        keys->capacity = capacity;
    }
    ring_key *key = &keys->items[keys->count];
    *key = (ring_key){.epoch = epoch, .role = role};
    memcpy(key->subject, line->subject, sizeof(key->subject));
    GY_TRY(gy_rpc_ring_derive(line, role, key->subject, &key->key));
    GY_TRY(name_key(epoch, role, key->subject, &key->key, key->name));
    keys->count++;
    return GY_OK;
}

static gy_status read_keys(gy_lines *lines, ring_keys *keys)
{
    ring_line line = {0};
    gy_status status = gy_rpc_ring_line_next(lines, &line);
    while (status == GY_OK) {
        int first = line.role >= 0 ? line.role : 0;
        int last = line.role >= 0 ? line.role : GY_RPC_ROLES - 1;
        for (int role = first; role <= last && status == GY_OK; role++) {
            status = add_key(keys, &line, (gy_rpc_role)role);
        }
        status = status == GY_OK ? gy_rpc_ring_line_next(lines, &line) : status;
    }
    explicit_bzero(&line, sizeof(line));
    return status == GY_AGAIN ? GY_OK : status;
}

static void wipe(ring_keys *keys)
{
    if (keys->items != NULL) {
        explicit_bzero(keys->items, keys->capacity * sizeof(*keys->items));
        gy_free(keys->items);
    }
    *keys = (ring_keys){0};
}

static bool is_first_of_kind(const ring_keys *keys, size_t which)
{
    for (size_t i = 0; i < which; i++) {
        if (keys->items[i].role == keys->items[which].role &&
            strcmp(keys->items[i].subject, keys->items[which].subject) == 0) {
            return false;
        }
    }
    return true;
}

static void describe(gy_keyring *ring)
{
    uint64_t first = UINT64_MAX, last = 0;
    char kinds[sizeof(ring->text)] = "", who[GY_SECRET_WHO_BYTES];
    uint32_t roles = 0;
    for (size_t i = 0; i < ring->keys.count; i++) {
        const ring_key *key = &ring->keys.items[i];
        size_t used = strlen(kinds);
        first = GY_MIN(first, key->epoch);
        last = GY_MAX(last, key->epoch);
        roles |= key->subject[0] == '\0' ? GY_RPC_MAY(key->role) : 0;
        if (is_first_of_kind(&ring->keys, i)) {
            gy_rpc_ring_who_text(key->role, key->subject, who);
            snprintf(kinds + used, sizeof(kinds) - used, "%s%s", used > 0 ? ", " : "", who);
        }
    }
    snprintf(ring->text, sizeof(ring->text),
             first == last ? "epoch %llu" : "epochs %llu to %llu", (unsigned long long)first,
             (unsigned long long)last);
    if (roles != GY_RPC_MAY(GY_RPC_ROLES) - 1) {
        size_t used = strlen(ring->text);
        snprintf(ring->text + used, sizeof(ring->text) - used, " of %.180s alone", kinds);
    }
}

static gy_status take(gy_keyring *ring, const char *text, size_t size_bytes)
{
    ring_keys fresh = {0};
    gy_lines lines = {.text = text, .size_bytes = size_bytes};
    gy_status status = read_keys(&lines, &fresh);
    if (status == GY_OK && fresh.count == 0) {
        status = gy_fail(GY_FORMAT, "no key in it");
    }
    if (status < 0) {
        gy_fail_within(status, "%s:%d", ring->path, lines.number);
        wipe(&fresh);
    } else {
        wipe(&ring->keys);
        ring->keys = fresh;
        describe(ring);
    }
    explicit_bzero(&lines, sizeof(lines));
    return status;
}

static gy_status load(gy_keyring *ring)
{
    size_t size = 0;
    uint8_t *text = gy_alloc("rpc.keyring", GY_KEY_FILE_BYTES);
    if (text == NULL) {
        return GY_NOMEM;
    }
    gy_status status = gy_transport_key_load(ring->path, text, GY_KEY_FILE_BYTES, &size);
    if (status >= 0) {
        status = take(ring, (const char *)text, size);
    }
    explicit_bzero(text, GY_KEY_FILE_BYTES);
    gy_free(text);
    return status;
}

static gy_status make(const char *path, gy_keyring **ring)
{
    gy_keyring *made = gy_alloc_zero("rpc.keyring", 1, sizeof(*made));
    if (made == NULL || (made->path = gy_copy_text("rpc.keyring", path)) == NULL) {
        gy_free(made);
        return GY_NOMEM;
    }
    *ring = made;
    return GY_OK;
}

gy_status gy_keyring_read(const char *path, const char *text, size_t size_bytes,
                          gy_keyring **ring)
{
    gy_keyring *made = NULL;
    GY_TRY(make(path, &made));
    gy_status status = take(made, text, size_bytes);
    if (status < 0) {
        gy_keyring_free(made);
        return status;
    }
    *ring = made;
    return GY_OK;
}

gy_status gy_keyring_open(const char *path, gy_keyring **ring)
{
    gy_keyring *made = NULL;
    GY_TRY(make(path, &made));
    (void)lstat(path, &made->facts); /* the reader reports a missing file */
    gy_status status = load(made);
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
        gy_warn("%s; the previous keys stay in use", gy_error_text());
        return status;
    }
    return GY_AGAIN;
}

/* ---- Choice of a key ---- */

/* The only subject that the role's keys are for; NULL: none, or several. */
static const char *only_subject(const gy_keyring *ring, gy_rpc_role role)
{
    const char *only = NULL;
    for (size_t i = 0; i < ring->keys.count; i++) {
        const ring_key *one = &ring->keys.items[i];
        if (one->role == role && only != NULL && strcmp(only, one->subject) != 0) {
            return NULL;
        }
        only = one->role == role ? one->subject : only;
    }
    return only;
}

/* The newest key of the role, or of one of its subjects, below an epoch. */
static const ring_key *newest(const gy_keyring *ring, gy_rpc_role role, const char *subject,
                              uint64_t below)
{
    const ring_key *best = NULL;
    for (size_t i = 0; i < ring->keys.count; i++) {
        const ring_key *one = &ring->keys.items[i];
        bool is_good = one->role == role &&
                       (one->subject[0] == '\0' || strcmp(one->subject, subject) == 0);
        if (is_good && one->epoch < below && (best == NULL || one->epoch > best->epoch)) {
            best = one;
        }
    }
    return best;
}

gy_status gy_keyring_offer(const gy_keyring *ring, gy_keyring_who *who, uint32_t skipped,
                           char name[GY_KEYRING_NAME_BYTES], uint8_t key[GY_KEYRING_KEY_BYTES])
{
    const ring_key *best = newest(ring, who->role, who->subject, UINT64_MAX);
    const char *only = only_subject(ring, who->role);
    gy_transport_key made;
    if (best == NULL && who->subject[0] == '\0' && only != NULL) {
        snprintf(who->subject, sizeof(who->subject), "%s", only);
        best = newest(ring, who->role, only, UINT64_MAX);
    }
    for (; best != NULL && skipped > 0; skipped--) {
        best = newest(ring, who->role, who->subject, best->epoch);
        best = best != NULL ? best : newest(ring, who->role, who->subject, UINT64_MAX);
    }
    if (best == NULL) {
        return gy_fail(GY_STATE, "%s has no key of %s%s%s", ring->path,
                       gy_rpc_role_one(who->role), who->subject[0] != '\0' ? " for " : "",
                       who->subject);
    }
    if (strcmp(best->subject, who->subject) == 0) {
        memcpy(name, best->name, GY_KEYRING_NAME_BYTES);
        memcpy(key, best->key.bytes, GY_KEYRING_KEY_BYTES);
        return GY_OK;
    }
    GY_TRY(derive_subject(&best->key, best->epoch, who->role, who->subject, &made));
    gy_status status = name_key(best->epoch, who->role, who->subject, &made, name);
    memcpy(key, made.bytes, GY_KEYRING_KEY_BYTES);
    explicit_bzero(&made, sizeof(made));
    return status;
}

/* For the name "gyre rpc ROLE/SUBJECT EPOCH DIGITS" of a role and an epoch whose key is here:
 * derive the subject's key. A malformed name, or that of another key, does not match the
 * derived key's name. */
static bool find_subject(const gy_keyring *ring, const char *name, gy_keyring_who *who,
                         gy_transport_key *key)
{
    static const char prefix[] = "gyre rpc ";
    const char *from = name + sizeof(prefix) - 1;
    char words[GY_KEY_NAME_BYTES], right[GY_KEY_NAME_BYTES];
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0) {
        return false;
    }
    size_t size = strcspn(from, " ");
    snprintf(words, sizeof(words), "%.*s", (int)size, from);
    if (strchr(words, '/') == NULL || gy_rpc_ring_who(words, who) < 0) {
        return false;
    }
    for (size_t i = 0; i < ring->keys.count; i++) {
        const ring_key *one = &ring->keys.items[i];
        char epoch[24];
        size_t epoch_size =
            gy_print(epoch, sizeof(epoch), " %llu ", (unsigned long long)one->epoch);
        if (one->role == who->role && one->subject[0] == '\0' &&
            strncmp(from + size, epoch, epoch_size) == 0) {
            return derive_subject(&one->key, one->epoch, who->role, who->subject, key) ==
                       GY_OK &&
                   name_key(one->epoch, who->role, who->subject, key, right) == GY_OK &&
                   strcmp(name, right) == 0;
        }
    }
    return false;
}

bool gy_keyring_find(const gy_keyring *ring, const char *name, gy_keyring_who *who,
                     uint8_t key[GY_KEYRING_KEY_BYTES])
{
    gy_keyring_who found = {.role = GY_RPC_NAMESERVER};
    gy_transport_key made;
    for (size_t i = 0; i < ring->keys.count; i++) {
        const ring_key *one = &ring->keys.items[i];
        if (strcmp(one->name, name) == 0) {
            *who = (gy_keyring_who){.role = one->role};
            memcpy(who->subject, one->subject, sizeof(who->subject));
            memcpy(key, one->key.bytes, GY_KEYRING_KEY_BYTES);
            return true;
        }
    }
    bool is_here = find_subject(ring, name, &found, &made);
    if (is_here) {
        *who = found;
        memcpy(key, made.bytes, GY_KEYRING_KEY_BYTES);
    }
    explicit_bzero(&made, sizeof(made));
    return is_here;
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
