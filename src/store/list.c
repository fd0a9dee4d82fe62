/* Files and folders as a list of files, also of object stores. */
#include "store/host_file.h"
#include "store/remote/remote.h"
#include "store/store.h"

#include "base/alloc.h"
#include "base/disk.h"
#include "base/fail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, DEPTH_MAX = 64, WINDOW = 256 /* paths at once */ };

typedef struct making {
    gy_file_list list;
    gy_arena arena;
    char **paths;
    size_t capacity;
} making;

static char *keep_text(making *list, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = gy_arena_alloc(&list->arena, size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

static gy_status add_file(making *list, const char *path)
{
    void *paths = list->paths;
    GY_TRY(gy_reserve("store.list", &paths, &list->capacity, list->list.count + 2,
                      sizeof(*list->paths)));
    list->paths = paths;
    char *copy = keep_text(list, path);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    list->paths[list->list.count++] = copy;
    list->paths[list->list.count] = NULL;
    list->list.paths = (const char *const *)list->paths;
    return GY_OK;
}

static bool is_left_out(const char *name)
{
    return name[0] == '.' || name[0] == '_' || strcmp(name, "MANIFEST.json") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef struct name_list {
    making *list; /* whose arena has the names */
    char **items;
    size_t count, capacity;
} name_list;

static gy_status add_name(void *arg, const char *name)
{
    name_list *names = arg;
    if (is_left_out(name)) {
        return GY_OK;
    }
    void *items = names->items;
    GY_TRY(
        gy_reserve("store.list", &items, &names->capacity, names->count + 1, sizeof(char *)));
    names->items = items;
    names->items[names->count] = keep_text(names->list, name);
    return names->items[names->count++] != NULL ? GY_OK : GY_NOMEM;
}

/* It is left out, but not in silence where its file is missing. */
static gy_status pass_link(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) == 0) {
        return GY_OK;
    }
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
               ? gy_fail(GY_NOTFOUND, "cannot read %s: it is a link to nothing", path)
               : gy_fail(GY_IO, "cannot look at %s: %s", path, strerror(errno));
}

static gy_status add_folder(making *list, const char *folder, int depth)
{
    if (depth > DEPTH_MAX) {
        return gy_fail(GY_LIMIT, "folders deeper than %d: %s", DEPTH_MAX, folder);
    }
    name_list names = {.list = list};
    gy_status status = gy_disk_each(gy_env_real(), folder, add_name, &names);
    if (status == GY_OK && names.count > 0) {
        qsort(names.items, names.count, sizeof(char *), by_name);
    }
    for (size_t i = 0; status == GY_OK && i < names.count; i++) {
        char path[PATH_BYTES];
        struct stat facts;
        if (snprintf(path, sizeof(path), "%s/%s", folder, names.items[i]) >=
            (int)sizeof(path)) {
            status = gy_fail(GY_LIMIT, "a path longer than %d bytes in %s", PATH_BYTES, folder);
        } else if (lstat(path, &facts) != 0) {
            status = gy_fail(GY_IO, "cannot look at %s: %s", path, strerror(errno));
        } else if (S_ISDIR(facts.st_mode)) {
            status = add_folder(list, path, depth + 1);
        } else if (S_ISREG(facts.st_mode)) {
            status = add_file(list, path);
        } else if (S_ISLNK(facts.st_mode)) {
            status = pass_link(path);
        }
    }
    gy_free(names.items);
    return status;
}

/* ---- objects ---- */

static gy_status add_prefix(making *list, const char *uri, int depth);

typedef struct listing {
    making *list;
    const char *uri; /* that is listed */
    int depth;
} listing;

static gy_status visit_entry(void *arg, const gy_place_entry *entry)
{
    const listing *at = arg;
    const bool is_itself = at->depth == 0 && strcmp(entry->uri, at->uri) == 0;
    if (!is_itself && is_left_out(entry->name)) {
        return GY_OK;
    }
    if (entry->facts.is_folder) {
        return add_prefix(at->list, entry->uri, at->depth + 1);
    }
    GY_TRY(gy_facts_keep(entry->uri, &entry->facts));
    return add_file(at->list, entry->uri);
}

/* The objects below, in the order of their names' bytes; of an object itself. */
static gy_status add_prefix(making *list, const char *uri, int depth)
{
    gy_place *place = NULL;
    if (depth > DEPTH_MAX) {
        return gy_fail(GY_LIMIT, "folders deeper than %d: %s", DEPTH_MAX, uri);
    }
    GY_TRY(gy_place_open(gy_env_real(), uri, NULL, &place));
    listing at = {list, gy_place_uri(place), depth};
    const gy_status status = gy_place_list(place, visit_entry, &at);
    gy_place_close(place);
    return status;
}

/* ---- whatever it is ---- */

static gy_status add_path(making *list, const char *text)
{
    struct stat facts;
    gy_host_file file;
    if (gy_uri_is_remote(text)) {
        return add_prefix(list, text, 0);
    }
    GY_TRY(gy_host_file_read(text, &file));
    if (file.hosts[0] != '\0') {
        return add_file(list, text); /* nothing is known of it here */
    }
    const char *path = file.path;
    if (stat(path, &facts) != 0) {
        return gy_fail(errno == ENOENT ? GY_NOTFOUND : GY_IO, "cannot read %s: %s", path,
                       strerror(errno));
    }
    return S_ISDIR(facts.st_mode) ? add_folder(list, path, 0) : add_file(list, path);
}

/* ---- all of them ---- */

/* Paths, and what those stand for of which stores are asked, several at once. */
typedef struct window {
    const char *const *paths;
    size_t remote[WINDOW]; /* which of them are */
    making lists[WINDOW];  /* of each path */
} window;

static gy_status expand_one(void *arg, size_t index)
{
    window *at = arg;
    const size_t path = at->remote[index];
    return add_path(&at->lists[path], at->paths[path]);
}

static void free_making(making *made)
{
    gy_free(made->paths);
    gy_arena_free(&made->arena);
}

static gy_status add_window(making *list, window *at, size_t count)
{
    size_t remote_count = 0;
    for (size_t i = 0; i < count; i++) {
        at->remote[remote_count] = i;
        remote_count += gy_uri_is_remote(at->paths[i]);
        at->lists[i] = (making){.paths = NULL};
    }
    gy_status status = gy_remote_each(remote_count, expand_one, at);
    for (size_t i = 0; i < count; i++) {
        making *own = &at->lists[i];
        if (status == GY_OK && !gy_uri_is_remote(at->paths[i])) {
            status = add_path(list, at->paths[i]);
        }
        for (size_t k = 0; status == GY_OK && k < own->list.count; k++) {
            status = add_file(list, own->paths[k]);
        }
        free_making(own);
    }
    return status;
}

gy_status gy_file_list_make(const char *const *paths, gy_file_list **list)
{
    size_t count = 0;
    while (paths[count] != NULL) {
        count++;
    }
    making *made = gy_alloc_zero("store.list", 1, sizeof(*made));
    window *at = gy_alloc("store.list", sizeof(*at));
    gy_status status = made == NULL || at == NULL ? GY_NOMEM : GY_OK;
    for (size_t i = 0; status == GY_OK && i < count; i += WINDOW) {
        at->paths = paths + i;
        status = add_window(made, at, GY_MIN(count - i, (size_t)WINDOW));
    }
    gy_free(at);
    if (status == GY_OK && made->list.count == 0) {
        status =
            gy_fail(GY_NOTFOUND, "there is no file in %s", paths[0] ? paths[0] : "nothing");
    }
    if (status != GY_OK) {
        gy_file_list_free(made != NULL ? &made->list : NULL);
        return status;
    }
    *list = &made->list;
    return GY_OK;
}

void gy_file_list_free(gy_file_list *list)
{
    if (list != NULL) {
        making *made = (making *)list;
        free_making(made);
        gy_free(made);
    }
}
