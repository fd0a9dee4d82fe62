/* Expands files and folders, also of object stores, into a list of files. */
#include "store/host_file.h"
#include "store/remote/remote.h"
#include "store/store.h"
#include "store/store_priv.h"

#include "base/alloc.h"
#include "base/disk.h"
#include "base/escape.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    PATH_BYTES = 4096,
    DEPTH_MAX = 64,
    WINDOW = 256 /* WINDOW: paths that are processed together */
};

/* Why an entry of a folder is left out. */
typedef enum left_out { LEFT_HIDDEN, LEFT_LINK, LEFT_LOOP, LEFT_SPECIAL, LEFT_KINDS } left_out;

typedef struct making {
    gy_file_list list;
    gy_arena arena;
    char **paths;
    size_t capacity;
    gy_file_list_options options;
    uint64_t left[LEFT_KINDS];
    /* (kinds) first name of each kind, in the arena; NULL: none so far */
    const char *first_left[LEFT_KINDS];
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
    GY_TRY(GY_GROW("store.list", list->paths, list->capacity, list->list.count + 2));
    char *copy = keep_text(list, path);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    list->paths[list->list.count++] = copy;
    list->paths[list->list.count] = NULL;
    list->list.paths = (const char *const *)list->paths;
    return GY_OK;
}

static gy_status leave_out(making *list, left_out why, const char *path)
{
    if (list->left[why]++ == 0) {
        list->first_left[why] = keep_text(list, path);
    }
    return list->first_left[why] != NULL ? GY_OK : GY_NOMEM;
}

static const char manifest_name[] = "MANIFEST.json";

static bool is_hidden(const char *name)
{
    return name[0] == '.' || name[0] == '_' || strcmp(name, manifest_name) == 0;
}

/* A job's own manifest is no data, so leaving it out needs no message. */
static bool is_own_manifest(const char *path)
{
    static const char begin[] = "{\"format\": \"gyre output ";
    char head[sizeof(begin) - 1];
    size_t got = 0;
    gy_place *place = NULL;
    if (strcmp(gy_store_path_name(path), manifest_name) != 0 ||
        gy_place_open(gy_env_real(), path, NULL, &place) < 0) {
        return false;
    }
    const gy_status status = gy_place_read(place, NULL, 0, head, sizeof(head), &got);
    gy_place_close(place);
    return status == GY_OK && got == sizeof(head) && memcmp(head, begin, got) == 0;
}

static gy_status leave_hidden(making *list, const char *path)
{
    return is_own_manifest(path) ? GY_OK : leave_out(list, LEFT_HIDDEN, path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef struct name_list {
    making *list; /* its arena has the names */
    char **items;
    size_t count, capacity;
} name_list;

static gy_status add_name(void *arg, const char *name)
{
    name_list *names = arg;
    GY_TRY(GY_GROW("store.list", names->items, names->capacity, names->count + 1));
    names->items[names->count] = keep_text(names->list, name);
    return names->items[names->count++] != NULL ? GY_OK : GY_NOMEM;
}

/* A folder and its ancestors: a link to one of them would loop. */
typedef struct folder_at {
    const struct folder_at *above;
    const char *path;
    dev_t device;
    ino_t inode;
    int depth;
} folder_at;

static bool is_in(const folder_at *folder, const struct stat *facts)
{
    while (folder != NULL &&
           (folder->inode != facts->st_ino || folder->device != facts->st_dev)) {
        folder = folder->above;
    }
    return folder != NULL;
}

static gy_status add_folder(making *list, const folder_at *above, const char *path,
                            const struct stat *facts);

/* Add an entry after following links. */
static gy_status add_found(making *list, const folder_at *in, const char *path,
                           const struct stat *facts)
{
    if (S_ISDIR(facts->st_mode)) {
        return is_in(in, facts) ? leave_out(list, LEFT_LOOP, path)
                                : add_folder(list, in, path, facts);
    }
    return S_ISREG(facts->st_mode) ? add_file(list, path) : leave_out(list, LEFT_SPECIAL, path);
}

/* Add a link's target. A dangling link is refused, because a file is missing. */
static gy_status add_link(making *list, const folder_at *in, const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? gy_fail(GY_NOTFOUND, "cannot read %s: it is a link to nothing", path)
                   : gy_fail(GY_IO, "cannot look at %s: %s", path, strerror(errno));
    }
    return list->options.takes_links ? add_found(list, in, path, &facts)
                                     : leave_out(list, LEFT_LINK, path);
}

static gy_status add_entry(making *list, const folder_at *in, const char *name)
{
    char path[PATH_BYTES];
    struct stat facts;
    const size_t size = strlen(in->path);
    if (snprintf(path, sizeof(path), "%s%s%s", in->path,
                 size > 0 && in->path[size - 1] == '/' ? "" : "/", name) >= (int)sizeof(path)) {
        return gy_fail(GY_LIMIT, "a path longer than %d bytes in %s", PATH_BYTES, in->path);
    }
    if (is_hidden(name) && !list->options.takes_hidden) {
        return leave_hidden(list, path);
    }
    if (lstat(path, &facts) != 0) {
        return gy_fail(GY_IO, "cannot look at %s: %s", path, strerror(errno));
    }
    return S_ISLNK(facts.st_mode) ? add_link(list, in, path)
                                  : add_found(list, in, path, &facts);
}

static gy_status add_folder(making *list, const folder_at *above, const char *path,
                            const struct stat *facts)
{
    const folder_at folder = {above, path, facts->st_dev, facts->st_ino,
                              above != NULL ? above->depth + 1 : 0};
    if (folder.depth > DEPTH_MAX) {
        return gy_fail(GY_LIMIT, "folders deeper than %d: %s", DEPTH_MAX, path);
    }
    name_list names = {.list = list};
    gy_status status = gy_disk_each(gy_env_real(), path, add_name, &names);
    if (status == GY_OK && names.count > 0) {
        qsort(names.items, names.count, sizeof(char *), by_name);
    }
    for (size_t i = 0; status == GY_OK && i < names.count; i++) {
        status = add_entry(list, &folder, names.items[i]);
    }
    gy_free(names.items);
    return status;
}

/* ---- objects ---- */

static gy_status add_prefix(making *list, const char *uri, int depth);

typedef struct listing {
    making *list;
    const char *uri; /* the URI being listed */
    int depth;
} listing;

/* Add a link of HDFS; its target is looked up by its own name. */
static gy_status add_remote_link(making *list, const char *uri, int depth)
{
    gy_place *place = NULL;
    gy_place_facts facts;
    if (!list->options.takes_links) {
        return leave_out(list, LEFT_LINK, uri);
    }
    GY_TRY(gy_place_open(gy_env_real(), uri, NULL, &place));
    gy_status status = gy_place_stat(place, &facts);
    gy_place_close(place);
    GY_TRY(status);
    if (facts.is_link) {
        return gy_fail(GY_UNSUPPORTED, "cannot read %s: its server does not follow links", uri);
    }
    if (facts.is_folder) {
        return add_prefix(list, uri, depth + 1);
    }
    GY_TRY(gy_store_facts_keep(uri, &facts));
    return add_file(list, uri);
}

static gy_status visit_entry(void *arg, const gy_place_entry *entry)
{
    const listing *at = arg;
    const bool is_itself = at->depth == 0 && strcmp(entry->uri, at->uri) == 0;
    if (!is_itself && is_hidden(entry->name) && !at->list->options.takes_hidden) {
        return leave_hidden(at->list, entry->uri);
    }
    if (entry->facts.is_link) {
        return add_remote_link(at->list, entry->uri, at->depth);
    }
    if (entry->facts.is_folder) {
        return add_prefix(at->list, entry->uri, at->depth + 1);
    }
    GY_TRY(gy_store_facts_keep(entry->uri, &entry->facts));
    return add_file(at->list, entry->uri);
}

/* Add the objects below a prefix in the byte order of their names, or a single object. */
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

/* ---- any path ---- */

static gy_status add_path(making *list, const char *text)
{
    struct stat facts;
    gy_host_file file;
    if (strcmp(text, "-") == 0) { /* standard input */
        return add_file(list, text);
    }
    if (gy_uri_is_remote(text)) {
        return add_prefix(list, text, 0);
    }
    GY_TRY(gy_host_file_read(text, &file));
    if (file.hosts[0] != '\0') {
        return add_file(list, text); /* only another host knows the file */
    }
    const char *path = file.path;
    if (stat(path, &facts) != 0) {
        return gy_fail(errno == ENOENT ? GY_NOTFOUND : GY_IO, "cannot read %s: %s", path,
                       strerror(errno));
    }
    return S_ISDIR(facts.st_mode) ? add_folder(list, NULL, path, &facts) : add_file(list, path);
}

/* ---- all paths ---- */

/* Paths, with the results of the requests to stores, several of which run at once. */
typedef struct window {
    const char *const *paths;
    size_t remote[WINDOW]; /* indices of the remote paths */
    making lists[WINDOW];  /* one list for each path */
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
        at->lists[i] = (making){.options = list->options};
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
        for (int why = 0; status == GY_OK && why < LEFT_KINDS; why++) {
            const uint64_t more = own->left[why];
            status = more > 0 ? leave_out(list, (left_out)why, own->first_left[why]) : GY_OK;
            list->left[why] += more > 0 ? more - 1 : 0;
        }
        free_making(own);
    }
    return status;
}

/* "2 hidden names (in/.a, ...), which --hidden takes" */
static void tell_left_out(const making *list)
{
    static const struct {
        const char *one, *more, *taken;
    } words[LEFT_KINDS] = {
        [LEFT_HIDDEN] = {"hidden name", "hidden names", ", which --hidden takes"},
        [LEFT_LINK] = {"link", "links", ", which --follow-links takes"},
        [LEFT_LOOP] = {"link back to a folder above it", "links back to folders above them",
                       ""},
        [LEFT_SPECIAL] = {"pipe, socket or device", "pipes, sockets and devices", ""},
    };
    gy_text line = {0};
    for (int why = 0; why < LEFT_KINDS; why++) {
        const uint64_t count = list->left[why];
        if (count > 0) {
            gy_text_add(&line, "%s%llu %s (", line.size_bytes > 0 ? "; " : "",
                        (unsigned long long)count,
                        count == 1 ? words[why].one : words[why].more);
            gy_text_add_name(&line, list->first_left[why]);
            gy_text_add(&line, "%s)%s", count > 1 ? ", ..." : "", words[why].taken);
        }
    }
    if (line.size_bytes > 0) {
        gy_warn("left out of the inputs' folders: %s", gy_text_get(&line));
    }
    gy_text_free(&line);
}

gy_status gy_file_list_make_with(const char *const *paths, const gy_file_list_options *options,
                                 gy_file_list **list)
{
    gy_file_list_options known;
    GY_TRY(gy_options_take(gy_file_list_options, &known, options));
    size_t count = 0;
    while (paths[count] != NULL) {
        count++;
    }
    making *made = gy_alloc_zero("store.list", 1, sizeof(*made));
    window *at = gy_alloc("store.list", sizeof(*at));
    gy_status status = made == NULL || at == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        made->options = known;
    }
    for (size_t i = 0; status == GY_OK && i < count; i += WINDOW) {
        at->paths = paths + i;
        status = add_window(made, at, GY_MIN(count - i, (size_t)WINDOW));
    }
    gy_free(at);
    if (status == GY_OK) {
        tell_left_out(made);
    }
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

gy_status gy_file_list_make(const char *const *paths, gy_file_list **list)
{
    return gy_file_list_make_with(paths, NULL, list);
}

void gy_file_list_free(gy_file_list *list)
{
    if (list != NULL) {
        making *made = (making *)list;
        free_making(made);
        gy_free(made);
    }
}
