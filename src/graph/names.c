/* Names that outlive the graphs they come from: traces are written when all are gone. */
#include "graph/graph_priv.h"

#include <string.h>

typedef struct kept {
    struct kept *next;
    char name[];
} kept;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept *buckets[256]; /* never freed: bounded by the distinct names that were traced */

const char *gy_name_keep(const char *name)
{
    GY_ASSERT(name != NULL);
    const size_t size = strlen(name) + 1;
    kept **bucket = &buckets[gy_hash(name, size, 0) % GY_COUNT(buckets)];
    pthread_mutex_lock(&lock);
    kept *found = *bucket;
    while (found != NULL && strcmp(found->name, name) != 0) {
        found = found->next;
    }
    if (found == NULL) {
        found = gy_alloc("graph.names", sizeof(*found) + size);
        if (found != NULL) {
            memcpy(found->name, name, size);
            found->next = *bucket;
            *bucket = found;
        }
    }
    pthread_mutex_unlock(&lock);
    return found != NULL ? found->name : "node";
}
