/*
 * Files of a simulated node, in memory. Two copies of each: what programs see, and what the
 * disk holds. A sync copies the sectors written since the last one; a crash keeps each of the
 * others by the toss of a coin. Names work alike: making, renaming and removing go into a
 * journal that a sync of the folder writes out; a crash keeps a random beginning of the rest. A
 * sync that fails forgets what was to be written, as Linux does: a later sync that succeeds
 * does not bring it back.
 *
 * Source: Pillai et al., "All file systems are not created equal", OSDI 2014, for what may be
 * lost.
 */
#include "sim/sim_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

typedef struct sim_bytes {
    uint8_t *data;
    size_t size_bytes, capacity;
} sim_bytes;

typedef struct inode {
    struct inode *next; /* of the disk */
    sim_bytes seen, held;
    uint8_t *is_dirty; /* a sector each */
    size_t dirty_capacity;
} inode;

typedef struct name {
    char *path;
    inode *file;
} name;

typedef struct name_list {
    name *items;
    size_t count, capacity;
} name_list;

/* A change of names that the disk may not hold yet: `path` becomes `file` (NULL: goes). */
typedef struct change {
    char *path;
    inode *file;
    bool is_with_next; /* a rename is two changes, both or none */
} change;

typedef struct sim_handle {
    inode *file; /* NULL: a folder, or not open */
    char *folder;
    uint64_t position;
    bool is_open, may_write, is_append;
} sim_handle;

typedef struct sim_disk {
    name_list seen, held;
    change *journal;
    size_t journal_count, journal_capacity;
    inode *inodes;
    sim_handle *handles;
    size_t handle_count, handle_capacity;
    uint64_t used_bytes;
} sim_disk;

/* ---- Contents ---- */

static int resize(sim_bytes *content, size_t size_bytes)
{
    if (GY_GROW("sim.file", content->data, content->capacity, size_bytes) < 0) {
        return -ENOMEM;
    }
    if (size_bytes > content->size_bytes) {
        memset(content->data + content->size_bytes, 0, size_bytes - content->size_bytes);
    }
    content->size_bytes = size_bytes;
    return 0;
}

static int mark_dirty(inode *file, size_t first_byte, size_t end_byte)
{
    size_t sectors = (end_byte + GY_SIM_SECTOR_BYTES - 1) / GY_SIM_SECTOR_BYTES;
    size_t before = file->dirty_capacity;
    if (GY_GROW("sim.dirty", file->is_dirty, file->dirty_capacity, sectors) < 0) {
        return -ENOMEM;
    }
    memset(file->is_dirty + before, 0, file->dirty_capacity - before);
    for (size_t at = first_byte / GY_SIM_SECTOR_BYTES; at < sectors; at++) {
        file->is_dirty[at] = 1;
    }
    return 0;
}

/* Write sector `at` as it is seen to the disk. */
static void hold_sector(inode *file, size_t at)
{
    size_t first = at * GY_SIM_SECTOR_BYTES;
    size_t end = GY_MIN(first + GY_SIM_SECTOR_BYTES, file->seen.size_bytes);
    if (first >= end) {
        return;
    }
    if (file->held.size_bytes < end && resize(&file->held, end) < 0) {
        gy_panic("no memory for a simulated disk");
    }
    memcpy(file->held.data + first, file->seen.data + first, end - first);
}

static void hold_all(inode *file)
{
    for (size_t at = 0; at < file->dirty_capacity; at++) {
        if (file->is_dirty[at] != 0) {
            hold_sector(file, at);
            file->is_dirty[at] = 0;
        }
    }
    if (file->held.size_bytes > file->seen.size_bytes) {
        file->held.size_bytes = file->seen.size_bytes;
    }
}

/* ---- Names ---- */

static name *find(const name_list *names, const char *path)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i].path, path) == 0) {
            return &names->items[i];
        }
    }
    return NULL;
}

/* path becomes file; NULL removes it. */
static int put(name_list *names, const char *path, inode *file)
{
    name *old = find(names, path);
    if (old != NULL && file != NULL) {
        old->file = file;
    } else if (old != NULL) {
        gy_free(old->path);
        *old = names->items[--names->count];
    } else if (file != NULL) {
        char *copy = gy_copy_text("sim.path", path);
        if (copy == NULL ||
            GY_GROW("sim.names", names->items, names->capacity, names->count + 1) < 0) {
            gy_free(copy);
            return -ENOMEM;
        }
        names->items[names->count++] = (name){.path = copy, .file = file};
    }
    return 0;
}

static int change_name(sim_disk *disk, const char *path, inode *file, bool is_with_next)
{
    char *copy = gy_copy_text("sim.path", path);
    if (copy == NULL || GY_GROW("sim.journal", disk->journal, disk->journal_capacity,
                                disk->journal_count + 1) < 0) {
        gy_free(copy);
        return -ENOMEM;
    }
    disk->journal[disk->journal_count++] =
        (change){.path = copy, .file = file, .is_with_next = is_with_next};
    return put(&disk->seen, path, file);
}

/* Write the first `count` changes out. */
static void hold_names(sim_disk *disk, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (put(&disk->held, disk->journal[i].path, disk->journal[i].file) < 0) {
            gy_panic("no memory for a simulated disk");
        }
        gy_free(disk->journal[i].path);
    }
    disk->journal_count -= count;
    if (count > 0 && disk->journal_count > 0) {
        memmove(disk->journal, disk->journal + count, disk->journal_count * sizeof(change));
    }
}

/* ---- The table ---- */

static sim_disk *disk_of(gy_env *env)
{
    gy_sim_node *node = gy_sim_node_of(env);
    if (node->disk == NULL) {
        node->disk = gy_alloc_zero("sim.disk", 1, sizeof(sim_disk));
    }
    return node->disk;
}

static sim_handle *handle_of(gy_env *env, int file)
{
    sim_disk *disk = gy_sim_node_of(env)->disk;
    bool is_there = disk != NULL && file >= 0 && (size_t)file < disk->handle_count;
    return is_there && disk->handles[file].is_open ? &disk->handles[file] : NULL;
}

static int new_handle(sim_disk *disk, sim_handle handle)
{
    size_t at = 0;
    while (at < disk->handle_count && disk->handles[at].is_open) {
        at++;
    }
    if (at == disk->handle_count) {
        if (GY_GROW("sim.handles", disk->handles, disk->handle_capacity, at + 1) < 0) {
            return -ENOMEM;
        }
        disk->handle_count++;
    }
    handle.is_open = true;
    disk->handles[at] = handle;
    return (int)at;
}

static inode *new_inode(sim_disk *disk)
{
    inode *file = gy_alloc_zero("sim.inode", 1, sizeof(*file));
    if (file != NULL) {
        file->next = disk->inodes;
        disk->inodes = file;
    }
    return file;
}

static int sim_open(gy_env *env, const char *path, int flags, unsigned mode)
{
    (void)mode;
    sim_disk *disk = disk_of(env);
    if (disk == NULL) {
        return -ENOMEM;
    }
    bool may_write = (flags & O_ACCMODE) != O_RDONLY;
    if ((flags & O_DIRECTORY) != 0) { /* any folder is there, unless a file has its name */
        if (find(&disk->seen, path) != NULL) {
            return -ENOTDIR;
        }
        char *folder = gy_copy_text("sim.path", path);
        return folder == NULL ? -ENOMEM : new_handle(disk, (sim_handle){.folder = folder});
    }
    name *known = find(&disk->seen, path);
    if (known != NULL && (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) {
        return -EEXIST;
    }
    if (known == NULL && (flags & O_CREAT) == 0) {
        return -ENOENT;
    }
    inode *file = known != NULL ? known->file : new_inode(disk);
    if (file == NULL || (known == NULL && change_name(disk, path, file, false) < 0)) {
        return -ENOMEM;
    }
    if ((flags & O_TRUNC) != 0 && may_write) {
        disk->used_bytes -= file->seen.size_bytes;
        file->seen.size_bytes = 0;
    }
    return new_handle(disk, (sim_handle){.file = file,
                                         .may_write = may_write,
                                         .is_append = (flags & O_APPEND) != 0});
}

static int sim_close(gy_env *env, int file)
{
    sim_handle *handle = handle_of(env, file);
    if (handle == NULL) {
        return -EBADF;
    }
    gy_free(handle->folder);
    memset(handle, 0, sizeof(*handle));
    return 0;
}

static int64_t sim_size(gy_env *env, int file)
{
    const sim_handle *handle = handle_of(env, file);
    if (handle == NULL || handle->file == NULL) {
        return handle == NULL ? -EBADF : -EISDIR;
    }
    return (int64_t)handle->file->seen.size_bytes;
}

static int64_t sim_read(gy_env *env, int file, void *data, size_t size_bytes)
{
    sim_handle *handle = handle_of(env, file);
    gy_sim_node *node = gy_sim_node_of(env);
    if (handle == NULL || handle->file == NULL) {
        return handle == NULL ? -EBADF : -EISDIR;
    }
    if (gy_sim_happens(node, GY_CHANCE_DISK, node->faults.read_error)) {
        return -EIO;
    }
    const sim_bytes *seen = &handle->file->seen;
    size_t at = (size_t)GY_MIN(handle->position, (uint64_t)seen->size_bytes);
    size_t size = GY_MIN(size_bytes, seen->size_bytes - at);
    if (size > 0) {
        memcpy(data, seen->data + at, size);
    }
    handle->position += size;
    return (int64_t)size;
}

static int64_t sim_write(gy_env *env, int file, const void *data, size_t size_bytes)
{
    sim_handle *handle = handle_of(env, file);
    gy_sim_node *node = gy_sim_node_of(env);
    if (handle == NULL || handle->file == NULL || !handle->may_write) {
        return -EBADF;
    }
    if (gy_sim_happens(node, GY_CHANCE_DISK, node->faults.write_error)) {
        return -EIO;
    }
    sim_bytes *seen = &handle->file->seen;
    size_t at = handle->is_append ? seen->size_bytes : (size_t)handle->position;
    size_t end = at + size_bytes, grown = end > seen->size_bytes ? end - seen->size_bytes : 0;
    uint64_t capacity = node->faults.capacity_bytes;
    if (capacity > 0 && node->disk->used_bytes + grown > capacity) {
        /* As much as fits; nothing more: the disk is full. */
        uint64_t left = capacity - GY_MIN(capacity, node->disk->used_bytes);
        end -= GY_MIN(size_bytes, grown - (size_t)left);
        if (end <= at) {
            return -ENOSPC;
        }
    }
    size_t before = seen->size_bytes;
    if ((end > before && resize(seen, end) < 0) ||
        mark_dirty(handle->file, GY_MIN(at, before), end) < 0) {
        return -ENOMEM;
    }
    node->disk->used_bytes += seen->size_bytes - before;
    memcpy(seen->data + at, data, end - at);
    handle->position = end;
    return (int64_t)(end - at);
}

static bool is_in_folder(const char *path, const char *folder)
{
    size_t size = strlen(folder);
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return strcmp(folder, ".") == 0;
    }
    return (size_t)(slash - path) == size && memcmp(path, folder, size) == 0;
}

static int sim_sync(gy_env *env, int file)
{
    sim_handle *handle = handle_of(env, file);
    gy_sim_node *node = gy_sim_node_of(env);
    if (handle == NULL) {
        return -EBADF;
    }
    bool has_failed = gy_sim_happens(node, GY_CHANCE_DISK, node->faults.sync_error);
    gy_sim_note(node->sim, "sync", node->index, has_failed);
    if (handle->file != NULL) {
        if (has_failed && handle->file->dirty_capacity > 0) {
            memset(handle->file->is_dirty, 0, handle->file->dirty_capacity);
        }
        if (!has_failed) {
            hold_all(handle->file);
        }
        return has_failed ? -EIO : 0;
    }
    /* The journal is one: syncing a folder writes all up to its last change. */
    size_t count = node->disk->journal_count;
    while (count > 0 && !is_in_folder(node->disk->journal[count - 1].path, handle->folder)) {
        count--;
    }
    if (!has_failed) {
        hold_names(node->disk, count);
    }
    return has_failed ? -EIO : 0;
}

static size_t count_names(const name_list *names, const inode *file)
{
    size_t count = 0;
    for (size_t i = 0; i < names->count; i++) {
        count += names->items[i].file == file;
    }
    return count;
}

/* A name is about to go: with a file's last one its bytes are free. */
static void lose_name(sim_disk *disk, const char *path)
{
    const name *known = find(&disk->seen, path);
    if (known != NULL && count_names(&disk->seen, known->file) == 1) {
        disk->used_bytes -= known->file->seen.size_bytes;
    }
}

static int sim_rename(gy_env *env, const char *from, const char *to)
{
    sim_disk *disk = disk_of(env);
    const name *known = disk != NULL ? find(&disk->seen, from) : NULL;
    if (known == NULL) {
        return disk != NULL ? -ENOENT : -ENOMEM;
    }
    inode *file = known->file;
    if (strcmp(from, to) == 0) {
        return 0;
    }
    lose_name(disk, to);
    int error = change_name(disk, to, file, true);
    return error < 0 ? error : change_name(disk, from, NULL, false);
}

static int sim_unlink(gy_env *env, const char *path)
{
    sim_disk *disk = disk_of(env);
    if (disk == NULL || find(&disk->seen, path) == NULL) {
        return disk != NULL ? -ENOENT : -ENOMEM;
    }
    lose_name(disk, path);
    return change_name(disk, path, NULL, false);
}

static int64_t sim_links(gy_env *env, const char *path)
{
    const sim_disk *disk = disk_of(env);
    const name *known = disk != NULL ? find(&disk->seen, path) : NULL;
    if (known == NULL) {
        return disk != NULL ? -ENOENT : -ENOMEM;
    }
    return (int64_t)count_names(&disk->seen, known->file);
}

static int sim_link(gy_env *env, const char *from, const char *to)
{
    sim_disk *disk = disk_of(env);
    const name *known = disk != NULL ? find(&disk->seen, from) : NULL;
    if (known == NULL) {
        return disk != NULL ? -ENOENT : -ENOMEM;
    }
    return find(&disk->seen, to) != NULL ? -EEXIST : change_name(disk, to, known->file, false);
}

static int sim_list(gy_env *env, const char *folder, gy_disk_visit visit, void *arg)
{
    const sim_disk *disk = disk_of(env);
    int ended = disk != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; ended == 0 && i < disk->seen.count; i++) {
        const char *path = disk->seen.items[i].path, *slash = strrchr(path, '/');
        if (is_in_folder(path, folder)) {
            ended = visit(arg, slash != NULL ? slash + 1 : path);
        }
    }
    return ended;
}

const gy_disk_ops gy_sim_disk_ops = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .size = sim_size,
    .read = sim_read,
    .write = sim_write,
    .sync = sim_sync,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .link = sim_link,
    .links = sim_links,
    .list = sim_list,
};

/* ---- Crash ---- */

static void free_names(name_list *names)
{
    for (size_t i = 0; i < names->count; i++) {
        gy_free(names->items[i].path);
    }
    gy_free(names->items);
    memset(names, 0, sizeof(*names));
}

static void crash_file(gy_sim_node *node, inode *file)
{
    for (size_t at = 0; at < file->dirty_capacity; at++) {
        if (file->is_dirty[at] != 0 && gy_sim_happens(node, GY_CHANCE_CRASH, 0.5)) {
            hold_sector(file, at);
        }
        file->is_dirty[at] = 0;
    }
    if (resize(&file->seen, file->held.size_bytes) < 0) {
        gy_panic("no memory to simulate a crash");
    }
    if (file->held.size_bytes > 0) {
        memcpy(file->seen.data, file->held.data, file->held.size_bytes);
    }
}

void gy_sim_disk_crash(gy_sim_node *node)
{
    sim_disk *disk = node->disk;
    if (disk == NULL) {
        return;
    }
    for (size_t i = 0; i < disk->handle_count; i++) {
        gy_free(disk->handles[i].folder);
    }
    disk->handle_count = 0;
    size_t kept = (size_t)(gy_sim_draw(node, GY_CHANCE_CRASH) % (disk->journal_count + 1));
    while (kept > 0 && disk->journal[kept - 1].is_with_next) {
        kept--;
    }
    hold_names(disk, kept);
    for (size_t i = 0; i < disk->journal_count; i++) {
        gy_free(disk->journal[i].path);
    }
    disk->journal_count = 0;
    free_names(&disk->seen);
    disk->used_bytes = 0;
    for (inode *file = disk->inodes; file != NULL; file = file->next) {
        crash_file(node, file);
    }
    for (size_t i = 0; i < disk->held.count; i++) {
        if (put(&disk->seen, disk->held.items[i].path, disk->held.items[i].file) < 0) {
            gy_panic("no memory to simulate a crash");
        }
        const inode *file = disk->held.items[i].file;
        disk->used_bytes += count_names(&disk->seen, file) == 1 ? file->seen.size_bytes : 0;
    }
}

void gy_sim_disk_free(gy_sim_node *node)
{
    sim_disk *disk = node->disk;
    if (disk == NULL) {
        return;
    }
    for (size_t i = 0; i < disk->handle_count; i++) {
        gy_free(disk->handles[i].folder);
    }
    for (size_t i = 0; i < disk->journal_count; i++) {
        gy_free(disk->journal[i].path);
    }
    free_names(&disk->seen);
    free_names(&disk->held);
    while (disk->inodes != NULL) {
        inode *file = disk->inodes;
        disk->inodes = file->next;
        gy_free(file->seen.data);
        gy_free(file->held.data);
        gy_free(file->is_dirty);
        gy_free(file);
    }
    gy_free(disk->journal);
    gy_free(disk->handles);
    gy_free(disk);
    node->disk = NULL;
}
