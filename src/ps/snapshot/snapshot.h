/**
 * Snapshots on disk: a folder of each, with a file of every part and a manifest that is written
 * last and names each part's file with its checksum. Parts may lie in folders of different
 * servers; the manifest lies beside each.
 *
 *     FOLDER/NAME/part-3     mark · id · cluster · part · size · hash of it · hash of all this
 *                            (56 bytes), and the part as gy_ps_part_save makes it, for all
 *                            tables
 *     FOLDER/NAME/manifest   mark · hash · message Snapshot
 *
 * All files appear whole or not at all. Whatever is read back is checked before it is used.
 */
#ifndef GY_PS_SNAPSHOT_SNAPSHOT_H
#define GY_PS_SNAPSHOT_SNAPSHOT_H

#include "base/base.h"
#include "base/env.h"
#include "base/text.h"
#include "ps/proto/ps.pb-c.h"
#include "store/store.h"

enum {
    GY_PS_SNAPSHOT_NAME_BYTES = 64,
    GY_PS_SNAPSHOT_PARTS_MAX = 1024,
    GY_PS_SNAPSHOT_TABLES_MAX = 4096,
    GY_PS_SNAPSHOT_HEAD_BYTES = 56,
    GY_PS_MANIFEST_BYTES_MAX = 1 << 20,
    GY_PS_SNAPSHOTS_KEPT = 4, /* as many of the newest of a folder are looked at */
};

/* ---- manifest.c ---- */

/** A snapshot's name is one of a folder: 1 to 63 letters, digits, '-', '_', '.', the first no
 * '.'. GY_ARG */
GY_MUST_CHECK gy_status gy_ps_snapshot_check_name(const char *name);
/** Append a manifest, as it is stored. GY_NOMEM */
GY_MUST_CHECK gy_status gy_ps_manifest_pack(const Gy__Ps__Snapshot *snapshot, gy_text *out);
/**
 * Read a manifest; free it with gy_ps_manifest_free.
 * @return GY_OK; GY_FORMAT it is none, a bit of it has flipped, or it says what cannot be
 */
GY_MUST_CHECK gy_status gy_ps_manifest_unpack(const void *data, size_t size_bytes,
                                              Gy__Ps__Snapshot **snapshot);
/** NULL is fine. */
void gy_ps_manifest_free(Gy__Ps__Snapshot *snapshot);
/** The clock at which a table was saved. GY_FORMAT the snapshot has no such table */
GY_MUST_CHECK gy_status gy_ps_manifest_clock(const Gy__Ps__Snapshot *snapshot,
                                             const char *table, uint64_t *clock);

/* ---- files.c ---- */

/** What a part's file is of. */
typedef struct gy_ps_snapshot_part {
    uint64_t id, cluster;
    uint32_t part;
} gy_ps_snapshot_part;

/** Write a part's file, the folder of the snapshot being made where it is not there; *hash
 * becomes that of the image. GY_IO; GY_NOMEM. @threads any */
GY_MUST_CHECK gy_status gy_ps_snapshot_write(gy_env *env, const char *folder, const char *name,
                                             const gy_ps_snapshot_part *of,
                                             const gy_text *image, uint64_t *hash);
/** Write the manifest, when all files are there. As above, and GY_EXISTS: another snapshot has
 * the name */
GY_MUST_CHECK gy_status gy_ps_snapshot_finish(gy_env *env, const char *folder,
                                              const Gy__Ps__Snapshot *snapshot);
/** GY_EXISTS: the folder has a whole snapshot of that name, which is another one. */
GY_MUST_CHECK gy_status gy_ps_snapshot_check_free(gy_env *env, const char *folder,
                                                  const char *name, uint64_t id);
/** Remove a part's file of a snapshot that did not become whole, and its folder with the last
 * one; of a whole one nothing. GY_IO */
GY_MUST_CHECK gy_status gy_ps_snapshot_remove(gy_env *env, const char *folder, const char *name,
                                              uint32_t part);
/**
 * Judge the bytes of a part's file: the image, borrowed, is behind its head. Pure.
 * @param name  of the file, for messages
 * @return GY_OK; GY_FORMAT it is none, half of it is missing, a bit has flipped; GY_MISMATCH it
 *     is of another snapshot or part than the manifest says
 */
GY_MUST_CHECK gy_status gy_ps_snapshot_judge(const Gy__Ps__Snapshot *snapshot, uint32_t part,
                                             const char *name, const void *data,
                                             size_t size_bytes);
/** Read and judge a part's file; the image begins GY_PS_SNAPSHOT_HEAD_BYTES in. GY_NOTFOUND;
 * GY_IO; GY_NOMEM; as gy_ps_snapshot_judge */
GY_MUST_CHECK gy_status gy_ps_snapshot_read(gy_env *env, const char *folder,
                                            const Gy__Ps__Snapshot *snapshot, uint32_t part,
                                            gy_bytes *file);

/* ---- folder.c ---- */

/** A snapshot of a folder, and which of its parts are there, whole. */
typedef struct gy_ps_snapshot_found {
    Gy__Ps__Snapshot *manifest;
    uint64_t parts[GY_PS_SNAPSHOT_PARTS_MAX / 64];
    uint32_t part_count;
} gy_ps_snapshot_found;

static inline bool gy_ps_snapshot_has(const gy_ps_snapshot_found *found, uint32_t part)
{
    return (found->parts[part / 64] >> part % 64 & 1) != 0;
}

/** The newest snapshots of a folder, the newest first, with at least one part here. */
typedef struct gy_ps_snapshot_list {
    gy_ps_snapshot_found at[GY_PS_SNAPSHOTS_KEPT];
    uint32_t count;
    uint64_t number; /* the highest of all; 0: none */
} gy_ps_snapshot_list;

/**
 * Look through a folder, which is made if it is not there: files are read to their ends. What
 * is damaged is left out with a warning that names it.
 * @return GY_OK; GY_IO the folder cannot be read or made; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_ps_snapshots_find(gy_env *env, const char *folder,
                                             gy_ps_snapshot_list *list);
/** Put a snapshot of which `part` was just written here at its place. Takes the manifest. */
void gy_ps_snapshots_add(gy_ps_snapshot_list *list, Gy__Ps__Snapshot *manifest, uint32_t part);
void gy_ps_snapshots_free(gy_ps_snapshot_list *list);

#endif
