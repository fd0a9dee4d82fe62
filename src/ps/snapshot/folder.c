/* Which snapshots a folder has. */
#include "ps/snapshot/snapshot.h"

#include "base/disk.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

void gy_ps_snapshots_free(gy_ps_snapshot_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        gy_ps_manifest_free(list->at[i].manifest);
    }
    *list = (gy_ps_snapshot_list){.count = 0};
}

/* Where a snapshot of this number belongs; GY_PS_SNAPSHOTS_KEPT: it is too old. */
static uint32_t place_of(const gy_ps_snapshot_list *list, uint64_t number)
{
    uint32_t at = 0;
    while (at < list->count && list->at[at].manifest->number > number) {
        at++;
    }
    return at;
}

static void insert(gy_ps_snapshot_list *list, Gy__Ps__Snapshot *manifest)
{
    GY_ASSERT(manifest != NULL);
    uint32_t at = place_of(list, manifest->number);
    list->number = GY_MAX(list->number, manifest->number);
    if (at == GY_PS_SNAPSHOTS_KEPT) {
        gy_ps_manifest_free(manifest);
        return;
    }
    if (list->count == GY_PS_SNAPSHOTS_KEPT) {
        gy_ps_manifest_free(list->at[--list->count].manifest);
    }
    memmove(&list->at[at + 1], &list->at[at], (list->count - at) * sizeof(list->at[0]));
    list->at[at] = (gy_ps_snapshot_found){.manifest = manifest};
    list->count++;
}

static void mark(gy_ps_snapshot_found *found, uint32_t part)
{
    found->part_count += !gy_ps_snapshot_has(found, part);
    found->parts[part / 64] |= (uint64_t)1 << part % 64;
}

void gy_ps_snapshots_add(gy_ps_snapshot_list *list, Gy__Ps__Snapshot *manifest, uint32_t part)
{
    GY_ASSERT(part < manifest->n_files);
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->at[i].manifest->id == manifest->id) {
            mark(&list->at[i], part);
            gy_ps_manifest_free(manifest);
            return;
        }
    }
    uint32_t at = place_of(list, manifest->number);
    insert(list, manifest);
    if (at < GY_PS_SNAPSHOTS_KEPT) {
        mark(&list->at[at], part);
    }
}

/* ---- Looking ---- */

typedef struct looking {
    gy_env *env;
    const char *folder;
    gy_ps_snapshot_list *list;
} looking;

static gy_status look_at(void *arg, const char *name)
{
    const looking *at = arg;
    char path[PATH_BYTES];
    gy_bytes bytes;
    Gy__Ps__Snapshot *manifest = NULL;
    if (name[0] == '.' ||
        snprintf(path, sizeof(path), "%s/%s/manifest", at->folder, name) >= (int)sizeof(path)) {
        return GY_OK;
    }
    struct stat there;
    if (stat(path, &there) != 0) { /* a file, or a snapshot that did not become whole */
        return GY_OK;
    }
    gy_status status = gy_store_file_read(at->env, path, GY_PS_MANIFEST_BYTES_MAX, &bytes);
    if (status == GY_OK) {
        status = gy_ps_manifest_unpack(bytes.data, bytes.size_bytes, &manifest);
        gy_free(bytes.data);
    }
    if (status == GY_OK && strcmp(manifest->name, name) != 0) {
        status = gy_fail(GY_MISMATCH, "the manifest of snapshot %s", manifest->name);
        gy_ps_manifest_free(manifest);
    }
    if (status < 0) {
        gy_warn("%s is left out: %s", path, gy_error_text());
        return status == GY_NOMEM ? status : GY_OK;
    }
    insert(at->list, manifest);
    return GY_OK;
}

/* Which parts are here? A file that is not there may be at another server. */
static gy_status find_parts(const looking *at, gy_ps_snapshot_found *found)
{
    for (uint32_t part = 0; part < found->manifest->n_files; part++) {
        gy_bytes file = {.data = NULL};
        gy_status status =
            gy_ps_snapshot_read(at->env, at->folder, found->manifest, part, &file);
        gy_free(file.data);
        if (status == GY_OK) {
            mark(found, part);
        } else if (status != GY_NOTFOUND) {
            gy_warn("a part of snapshot %s is left out: %s", found->manifest->name,
                    gy_error_text());
            GY_TRY(status == GY_NOMEM ? status : GY_OK);
        }
    }
    return GY_OK;
}

gy_status gy_ps_snapshots_find(gy_env *env, const char *folder, gy_ps_snapshot_list *list)
{
    looking at = {.env = env, .folder = folder, .list = list};
    *list = (gy_ps_snapshot_list){.count = 0};
    char path[PATH_BYTES];
    if (snprintf(path, sizeof(path), "%s/", folder) >= (int)sizeof(path)) {
        return gy_fail(GY_ARG, "folder %.80s...: too long", folder);
    }
    int error = gy_disk_make_folders(path);
    if (error == 0 && mkdir(folder, 0700) != 0 && errno != EEXIST) {
        error = -errno;
    }
    if (error < 0) {
        return gy_store_file_fail("make", folder, error);
    }
    gy_status status = gy_disk_each(env, folder, look_at, &at);
    for (uint32_t i = 0; i < list->count && status == GY_OK; i++) {
        status = find_parts(&at, &list->at[i]);
    }
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_ps_snapshots_free(list);
        return gy_error_raise(&why);
    }
    return GY_OK;
}
