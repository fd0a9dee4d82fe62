/* What was heard of objects, kept for the process: open addressing by a hash of the URI. */
#include "store/remote/remote_priv.h"

#include "base/hash.h"

#include <pthread.h>
#include <string.h>

enum { SLOTS_FIRST = 64 };

typedef struct fact {
    uint64_t key[2]; /* of the URI; both 0: the slot is free */
    uint64_t size_bytes;
    const char *version; /* in the arena */
} fact;

static struct known {
    pthread_mutex_t lock;
    fact *slots;
    size_t capacity, count;
    gy_arena texts;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void key_of(const char *uri, uint64_t key[2])
{
    gy_hash_wide(uri, strlen(uri), key);
    key[0] |= 1; /* never the key of a free slot */
}

/* Where it is or belongs; there is a free slot. */
static fact *find(fact *slots, size_t capacity, const uint64_t key[2])
{
    size_t at = key[1] & (capacity - 1);
    while (slots[at].key[0] != 0 &&
           (slots[at].key[0] != key[0] || slots[at].key[1] != key[1])) {
        at = (at + 1) & (capacity - 1);
    }
    return &slots[at];
}

static gy_status grow(void)
{
    if (known.capacity > 2 * known.count) {
        return GY_OK;
    }
    const size_t larger = known.capacity > 0 ? known.capacity * 2 : SLOTS_FIRST;
    fact *slots = gy_alloc_zero("store.facts", larger, sizeof(*slots));
    if (slots == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < known.capacity; i++) {
        if (known.slots[i].key[0] != 0) {
            *find(slots, larger, known.slots[i].key) = known.slots[i];
        }
    }
    gy_free(known.slots);
    known.slots = slots;
    known.capacity = larger;
    return GY_OK;
}

static gy_status keep(const uint64_t key[2], const gy_place_facts *facts)
{
    const size_t size = strlen(facts->version) + 1;
    GY_TRY(grow());
    fact *row = find(known.slots, known.capacity, key);
    const bool is_new = row->key[0] == 0;
    if (is_new || strcmp(row->version, facts->version) != 0) {
        char *version = gy_arena_alloc(&known.texts, size);
        if (version == NULL) {
            return GY_NOMEM;
        }
        row->version = memcpy(version, facts->version, size);
    }
    known.count += is_new;
    memcpy(row->key, key, sizeof(row->key));
    row->size_bytes = facts->size_bytes;
    return GY_OK;
}

gy_status gy_store_facts_keep(const char *uri, const gy_place_facts *facts)
{
    uint64_t key[2];
    key_of(uri, key);
    GY_ASSERT(pthread_mutex_lock(&known.lock) == 0);
    const gy_status status = keep(key, facts);
    GY_ASSERT(pthread_mutex_unlock(&known.lock) == 0);
    return status;
}

static bool look_up(const char *uri, gy_place_facts *facts)
{
    uint64_t key[2];
    key_of(uri, key);
    GY_ASSERT(pthread_mutex_lock(&known.lock) == 0);
    const fact *row = known.capacity > 0 ? find(known.slots, known.capacity, key) : NULL;
    const bool is_known = row != NULL && row->key[0] != 0;
    if (is_known) {
        *facts = (gy_place_facts){.size_bytes = row->size_bytes};
        memcpy(facts->version, row->version, strlen(row->version) + 1);
    }
    GY_ASSERT(pthread_mutex_unlock(&known.lock) == 0);
    return is_known;
}

bool gy_store_facts_are_known(const char *uri)
{
    gy_place_facts facts;
    return look_up(uri, &facts);
}

gy_status gy_store_facts_of(gy_env *env, const char *uri, gy_place_facts *facts)
{
    if (look_up(uri, facts)) {
        return GY_OK;
    }
    gy_place *place = NULL;
    GY_TRY(gy_place_open(env, uri, NULL, &place));
    gy_status status = gy_place_stat(place, facts);
    if (status == GY_OK && facts->is_folder) {
        status = gy_fail(GY_IO, "cannot read %s: it is a folder, expected a file",
                         gy_place_uri(place));
    }
    if (status == GY_OK && facts->is_link) {
        status = gy_fail(GY_UNSUPPORTED,
                         "cannot read %s: it is a link, which its server does "
                         "not follow",
                         gy_place_uri(place));
    }
    gy_place_close(place);
    return status == GY_OK ? gy_store_facts_keep(uri, facts) : status;
}

typedef struct asking {
    gy_env *env;
    const char **uris;
} asking;

static gy_status ask_one(void *arg, size_t index)
{
    const asking *of = arg;
    gy_place_facts facts;
    return gy_store_facts_of(of->env, of->uris[index], &facts);
}

gy_status gy_store_facts_ask(gy_env *env, const char *const *names)
{
    size_t count = 0, unknown = 0;
    while (names[count] != NULL) {
        count++;
    }
    const char **uris = gy_alloc("store.facts", (count + 1) * sizeof(*uris));
    if (uris == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        uris[unknown] = names[i];
        unknown += gy_uri_is_remote(names[i]) && !gy_store_facts_are_known(names[i]);
    }
    asking of = {env, uris};
    const gy_status status = gy_remote_each(unknown, ask_one, &of);
    gy_free(uris);
    return status;
}

void gy_store_facts_forget(void)
{
    GY_ASSERT(pthread_mutex_lock(&known.lock) == 0);
    gy_free(known.slots);
    gy_arena_free(&known.texts);
    known.slots = NULL;
    known.capacity = known.count = 0;
    GY_ASSERT(pthread_mutex_unlock(&known.lock) == 0);
}
