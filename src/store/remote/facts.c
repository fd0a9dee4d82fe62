/* What was heard of objects, kept for the process: by a hash of the URI. */
#include "store/remote/remote_priv.h"

#include "base/index.h"

#include <pthread.h>
#include <string.h>

typedef struct fact {
    uint64_t size_bytes;
    const char *version; /* in the arena */
} fact;

static struct known {
    pthread_mutex_t lock;
    gy_index rows; /* by the hash of a URI */
    fact *facts;
    size_t capacity;
    gy_arena texts;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static gy_status keep(gy_key key, const gy_place_facts *facts)
{
    const size_t size = strlen(facts->version) + 1;
    uint32_t row = gy_index_find(&known.rows, key);
    if (row == GY_NONE || strcmp(known.facts[row].version, facts->version) != 0) {
        char *version = gy_arena_alloc(&known.texts, size);
        if (version == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(GY_GROW("store.facts", known.facts, known.capacity, known.rows.count + 1));
        GY_TRY(gy_index_number(&known.rows, key, &row));
        known.facts[row].version = memcpy(version, facts->version, size);
    }
    known.facts[row].size_bytes = facts->size_bytes;
    return GY_OK;
}

gy_status gy_store_facts_keep(const char *uri, const gy_place_facts *facts)
{
    const gy_key key = gy_key_of(uri, strlen(uri));
    GY_ASSERT(pthread_mutex_lock(&known.lock) == 0);
    const gy_status status = keep(key, facts);
    GY_ASSERT(pthread_mutex_unlock(&known.lock) == 0);
    return status;
}

static bool look_up(const char *uri, gy_place_facts *facts)
{
    const gy_key key = gy_key_of(uri, strlen(uri));
    GY_ASSERT(pthread_mutex_lock(&known.lock) == 0);
    const uint32_t row = gy_index_find(&known.rows, key);
    if (row != GY_NONE) {
        const fact *found = &known.facts[row];
        *facts = (gy_place_facts){.size_bytes = found->size_bytes};
        memcpy(facts->version, found->version, strlen(found->version) + 1);
    }
    GY_ASSERT(pthread_mutex_unlock(&known.lock) == 0);
    return row != GY_NONE;
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
    gy_index_free(&known.rows);
    gy_free(known.facts);
    gy_arena_free(&known.texts);
    known.facts = NULL;
    known.capacity = 0;
    GY_ASSERT(pthread_mutex_unlock(&known.lock) == 0);
}
