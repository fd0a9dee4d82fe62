/* Local files as places. */
#include "store/remote/remote_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gy_status file_open(gy_place *place)
{
    (void)place;
    return GY_OK;
}

static void file_close(gy_place *place)
{
    (void)place;
}

static void fill_facts(const struct stat *found, gy_place_facts *facts)
{
    memset(facts, 0, sizeof(*facts));
    facts->modified_ms =
        (int64_t)found->st_mtim.tv_sec * 1000 + found->st_mtim.tv_nsec / 1000000;
    facts->is_folder = S_ISDIR(found->st_mode);
    if (!facts->is_folder) {
        facts->size_bytes = (uint64_t)found->st_size;
        snprintf(facts->version, sizeof(facts->version), "%llx-%llx-%llx.%lx",
                 (unsigned long long)found->st_ino, (unsigned long long)found->st_size,
                 (unsigned long long)found->st_mtim.tv_sec,
                 (unsigned long)found->st_mtim.tv_nsec);
    }
}

static gy_status file_stat(gy_place *place, gy_place_facts *facts)
{
    struct stat found;
    if (stat(place->uri.path, &found) != 0) {
        return gy_store_file_fail("look at", place->uri.path, -errno);
    }
    if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
        return gy_fail(GY_IO, "%s is a device, pipe or socket, expected a file",
                       place->uri.path);
    }
    fill_facts(&found, facts);
    return GY_OK;
}

typedef struct name_list {
    char **items;
    size_t count, capacity;
} name_list;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static gy_status add_name(void *arg, const char *name)
{
    name_list *names = arg;
    GY_TRY(GY_GROW("store.names", names->items, names->capacity, names->count + 1));
    char *copy = gy_copy_text("store.names", name);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    names->items[names->count++] = copy;
    return GY_OK;
}

static gy_status visit_name(gy_place *place, const char *name, gy_place_visit visit, void *arg)
{
    const char *folder = place->uri.path;
    const bool has_slash = folder[strlen(folder) - 1] == '/';
    gy_text path = {0}, shown = {0};
    gy_text_add(&path, "%s%s%s", folder, has_slash ? "" : "/", name);
    struct stat found;
    gy_status status = path.status;
    bool is_link = false, is_there = false;
    if (status == GY_OK && stat(path.data, &found) == 0) {
        is_there = true;
    } else if (status == GY_OK) { /* a dangling or circular link, or a file removed meanwhile */
        is_there = is_link = lstat(path.data, &found) == 0;
        if (!is_there && errno != ENOENT) {
            status = gy_store_file_fail("look at", path.data, -errno);
        }
    }
    if (status == GY_OK && is_there) {
        gy_place_entry entry;
        fill_facts(&found, &entry.facts);
        entry.facts.is_link = is_link;
        gy_text_add(&path, "%s", entry.facts.is_folder ? "/" : "");
        gy_text_add(&shown, "%s%s", name, entry.facts.is_folder ? "/" : "");
        entry.uri = gy_text_get(&path);
        entry.name = gy_text_get(&shown);
        status = path.status < 0 ? path.status : shown.status;
        status = status < 0 ? status : visit(arg, &entry);
    }
    gy_text_free(&path);
    gy_text_free(&shown);
    return status;
}

static gy_status file_list(gy_place *place, gy_place_visit visit, void *arg)
{
    gy_place_entry entry = {.uri = place->uri.text};
    GY_TRY(file_stat(place, &entry.facts));
    if (!entry.facts.is_folder) {
        entry.name = gy_store_path_name(place->uri.path);
        return visit(arg, &entry);
    }
    name_list names = {.items = NULL};
    gy_status status = gy_disk_each(place->env, place->uri.path, add_name, &names);
    if (status == GY_OK && names.count > 1) {
        qsort(names.items, names.count, sizeof(char *), by_text);
    }
    for (size_t i = 0; status == GY_OK && i < names.count; i++) {
        status = visit_name(place, names.items[i], visit, arg);
    }
    for (size_t i = 0; i < names.count; i++) {
        gy_free(names.items[i]);
    }
    gy_free(names.items);
    return status;
}

/* Returns 0 or a negated errno. */
static int read_at(int file, uint64_t at, char *data, size_t wanted, size_t *got)
{
    ssize_t more = 1;
    while (more > 0 && *got < wanted) {
        more = pread(file, data + *got, wanted - *got, (off_t)(at + *got));
        if (more < 0 && errno == EINTR) {
            more = 1;
            continue;
        }
        *got += more > 0 ? (size_t)more : 0;
    }
    return more < 0 ? -errno : 0;
}

static gy_status file_read(gy_place *place, const char *version, uint64_t at, void *data,
                           size_t wanted, size_t *got)
{
    const char *path = place->uri.path;
    int file = -1;
    uint64_t size = 0;
    struct stat found;
    GY_TRY(gy_store_file_open(place->env, path, &file, &size));
    int error = read_at(file, at, data, wanted, got);
    error = error == 0 && fstat(file, &found) != 0 ? -errno : error;
    (void)gy_env_disk(place->env)->close(place->env, file);
    if (error != 0) {
        *got = 0;
        return gy_store_file_fail("read", path, error);
    }
    gy_place_facts facts;
    fill_facts(&found, &facts);
    if (version != NULL && version[0] != '\0' && strcmp(version, facts.version) != 0) {
        *got = 0;
        return gy_fail(GY_STATE, "%s: it was changed meanwhile: version %s, expected %s", path,
                       facts.version, version);
    }
    return GY_OK;
}

static gy_status file_remove(gy_place *place)
{
    const int error = gy_env_disk(place->env)->unlink(place->env, place->uri.path);
    return error == 0 || error == -ENOENT
               ? GY_OK
               : gy_store_file_fail("remove", place->uri.path, error);
}

static gy_status file_guarantee(gy_place *place, gy_place_guarantees *guarantees)
{
    char folder[GY_URI_BYTES];
    memcpy(folder, place->uri.path, sizeof(folder));
    struct stat found;
    if (stat(folder, &found) != 0 || !S_ISDIR(found.st_mode)) {
        gy_store_path_cut(folder);
    }
    gy_share share;
    GY_TRY(gy_share_look(folder, &share));
    guarantees->is_exclusive = share.is_exclusive;
    snprintf(guarantees->reason, sizeof(guarantees->reason), "%s: %s", share.name,
             !share.is_exclusive ? "it is not known that links create exclusively there"
             : share.is_network
                 ? "a link creates exclusively for all hosts"
                 : "a link creates exclusively on this host, which alone has it");
    return GY_OK;
}

static gy_status file_write_open(gy_place_writer *writer)
{
    gy_place *place = writer->place;
    if (writer->mode == GY_PLACE_NEW) {
        gy_place_guarantees guarantees = {.is_exclusive = false};
        GY_TRY(file_guarantee(place, &guarantees));
        if (!guarantees.is_exclusive) {
            return gy_fail(GY_UNSUPPORTED, "cannot create %s exclusively: %s", place->uri.path,
                           guarantees.reason);
        }
    }
    return gy_writer_open(place->env, place->uri.path, &writer->file);
}

static gy_status file_write_part(gy_place_writer *writer, const void *data, size_t size_bytes)
{
    return gy_writer_add(writer->file, data, size_bytes);
}

static gy_status file_write_finish(gy_place_writer *writer, const void *data, size_t size_bytes)
{
    if (size_bytes > 0) {
        GY_TRY(gy_writer_add(writer->file, data, size_bytes));
    }
    gy_writer *file = writer->file;
    writer->file = NULL;
    return writer->mode == GY_PLACE_NEW ? gy_writer_create(file) : gy_writer_finish(file);
}

static void file_write_abort(gy_place_writer *writer)
{
    gy_writer_abort(writer->file);
    writer->file = NULL;
}

const gy_place_ops gy_place_file = {
    .name = "file",
    .open = file_open,
    .close = file_close,
    .stat = file_stat,
    .list = file_list,
    .read = file_read,
    .remove = file_remove,
    .guarantee = file_guarantee,
    .write_open = file_write_open,
    .write_part = file_write_part,
    .write_finish = file_write_finish,
    .write_abort = file_write_abort,
};
