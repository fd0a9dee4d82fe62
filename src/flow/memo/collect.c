/* Shrinks the memo folder to its size limit. */
#include "flow/memo/memo_priv.h"

#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gyre/flow.h>

static int compare_used(const void *left, const void *right)
{
    const gy_memo_entry *a = *(gy_memo_entry *const *)left, *b = *(gy_memo_entry *const *)right;
    return (a->used_ns > b->used_ns) - (a->used_ns < b->used_ns);
}

/* Mark the entries beyond the limit as gone, the least recently used first. */
static gy_status choose(gy_memo_store *store, uint64_t limit)
{
    gy_memo_entry **order = gy_alloc("flow.collect", (store->entry_count + 1) * sizeof(*order));
    if (order == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < store->entry_count; i++) {
        order[i] = &store->entries[i];
    }
    qsort(order, store->entry_count, sizeof(*order), compare_used);
    for (size_t i = 0; i < store->entry_count && store->bytes > limit; i++) {
        /* an entry without files costs only its place in the index */
        if (order[i]->bytes > 0) {
            order[i]->is_gone = true;
            store->bytes -= order[i]->bytes;
        }
    }
    gy_free(order);
    return GY_OK;
}

/* Does the index still name this object? */
static bool is_named(const gy_memo_store *store, const char *name)
{
    unsigned long long high = 0, low = 0;
    unsigned epoch = 0, attempt = 0;
    if (sscanf(name, "%16llx%16llx.%u.%u", &high, &low, &epoch, &attempt) != 4) {
        return false;
    }
    const gy_memo_entry *entry = gy_flow_memo_find(store, (gy_key){.high = high, .low = low});
    return entry != NULL && entry->epoch == epoch && entry->attempt == attempt;
}

typedef struct sweeping {
    const gy_memo_store *store;
    int64_t freed_bytes;
    char folder[GY_MEMO_PATH];
} sweeping;

/* Also removes unfinished copies that a crash left: the exclusive lock excludes other
 * writers. */
static gy_status sweep_one(void *arg, const char *name)
{
    sweeping *of = arg;
    char path[GY_MEMO_PATH];
    struct stat about;
    if (is_named(of->store, name)) {
        return GY_OK;
    }
    if (snprintf(path, sizeof(path), "%s/%s", of->folder, name) >= (int)sizeof(path)) {
        return gy_fail(GY_ARG, "the path %.100s.../%s is too long", of->folder, name);
    }
    if (lstat(path, &about) != 0 || unlink(path) != 0) {
        return gy_fail(GY_IO, "cannot remove %s: %s", path, strerror(errno));
    }
    of->freed_bytes += (int64_t)gy_round_up((uint64_t)about.st_size, GY_MEMO_PAGE);
    return GY_OK;
}

static gy_status sweep(const gy_memo_store *store, int64_t *freed_bytes)
{
    sweeping of = {.store = store};
    GY_TRY(gy_flow_memo_path(store, "objects", of.folder));
    const gy_status status = gy_disk_each(store->env, of.folder, sweep_one, &of);
    *freed_bytes += of.freed_bytes;
    return status;
}

/* Write a new index of the remaining entries. */
static gy_status rewrite(gy_memo_store *store)
{
    char path[GY_MEMO_PATH];
    GY_TRY(gy_flow_memo_path(store, "index", path));
    if (ftruncate(store->index, (off_t)(sizeof(GY_MEMO_MAGIC) - 1)) != 0) {
        return gy_fail(GY_IO, "cannot cut %s: %s", path, strerror(errno));
    }
    for (size_t i = 0; i < store->by_file.count; i++) {
        GY_TRY(gy_flow_memo_append(store, GY_MEMO_CONTENT, &store->contents[i],
                                   sizeof(store->contents[i]), NULL, 0));
    }
    for (size_t i = 0; i < store->entry_count; i++) {
        gy_memo_entry kept = store->entries[i];
        kept.report = NULL;
        if (!kept.is_gone) {
            GY_TRY(gy_flow_memo_append(store, GY_MEMO_KEPT, &kept, sizeof(kept),
                                       store->entries[i].report, kept.report_bytes));
        }
    }
    return GY_OK;
}

gy_status gy_flow_collect(const char *memo, int64_t limit_bytes, int64_t *freed_bytes)
{
    int64_t freed = 0;
    char index[GY_MEMO_PATH];
    if (limit_bytes < 0 ||
        snprintf(index, sizeof(index), "%s/index", memo) >= (int)sizeof(index)) {
        return gy_fail(GY_ARG,
                       "a limit of %lld bytes for %.100s: expected 0 or more, and a path",
                       (long long)limit_bytes, memo);
    }
    if (access(index, F_OK) != 0) {
        return gy_fail(GY_NOTFOUND, "%s is no memo folder: it has no index", memo);
    }
    gy_memo_store *store = NULL;
    gy_status status = gy_flow_memo_open(gy_env_real(), memo, &store);
    if (status != GY_OK) {
        return status;
    }
    if (flock(store->lock, LOCK_EX | LOCK_NB) != 0) {
        status = gy_fail(GY_STATE, "a job uses the memo folder %s", memo);
    }
    status = status == GY_OK ? choose(store, (uint64_t)limit_bytes) : status;
    status = status == GY_OK ? sweep(store, &freed) : status;
    status = status == GY_OK ? rewrite(store) : status;
    gy_flow_memo_close(store);
    if (freed_bytes != NULL) {
        *freed_bytes = freed;
    }
    return status;
}
