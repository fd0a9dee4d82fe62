/* Manifests: what a snapshot has, as bytes and back. */
#include "ps/snapshot/snapshot.h"

#include "base/hash.h"

#include <string.h>

static const uint64_t manifest_mark = 0x314e414d50535947; /* "GYSPMAN1" */

enum { HEAD_BYTES = 16 };

gy_status gy_ps_snapshot_check_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_.";
    size_t size = strlen(name);
    return size > 0 && size < GY_PS_SNAPSHOT_NAME_BYTES && name[0] != '.' &&
                   strspn(name, allowed) == size
               ? GY_OK
               : gy_fail(GY_ARG,
                         "a snapshot's name is '%.80s': expected 1 to %d letters, digits, "
                         "'-', '_' and '.', the first no '.'",
                         name, GY_PS_SNAPSHOT_NAME_BYTES - 1);
}

gy_status gy_ps_manifest_pack(const Gy__Ps__Snapshot *snapshot, gy_text *out)
{
    size_t size = gy__ps__snapshot__get_packed_size(snapshot);
    uint8_t *packed = gy_alloc("ps.manifest", size + 1);
    if (packed == NULL) {
        return GY_NOMEM;
    }
    gy__ps__snapshot__pack(snapshot, packed);
    uint64_t hash = gy_hash(packed, size, manifest_mark);
    gy_text_add_bytes(out, &manifest_mark, sizeof(manifest_mark));
    gy_text_add_bytes(out, &hash, sizeof(hash));
    gy_text_add_bytes(out, packed, size);
    gy_free(packed);
    return out->status;
}

static gy_status check_tables(const Gy__Ps__Snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->n_tables; i++) {
        const Gy__Ps__Cut *table = snapshot->tables[i];
        size_t size = strlen(table->table);
        if (size == 0 || size >= GY_PS_SNAPSHOT_NAME_BYTES || table->clock > snapshot->clock) {
            return gy_fail(GY_FORMAT, "a manifest with table '%.80s' at clock %llu of %llu",
                           table->table, (unsigned long long)table->clock,
                           (unsigned long long)snapshot->clock);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(snapshot->tables[k]->table, table->table) == 0) {
                return gy_fail(GY_FORMAT, "a manifest with table %s twice", table->table);
            }
        }
    }
    return GY_OK;
}

static gy_status check(const Gy__Ps__Snapshot *snapshot)
{
    if (snapshot->id == 0 || snapshot->number == 0 || snapshot->n_files == 0 ||
        snapshot->n_files > GY_PS_SNAPSHOT_PARTS_MAX ||
        snapshot->n_tables > GY_PS_SNAPSHOT_TABLES_MAX) {
        return gy_fail(GY_FORMAT, "a manifest %llu of %zu parts and %zu tables",
                       (unsigned long long)snapshot->number, snapshot->n_files,
                       snapshot->n_tables);
    }
    GY_TRY(gy_ps_snapshot_check_name(snapshot->name));
    for (size_t i = 0; i < snapshot->n_files; i++) {
        if (snapshot->files[i]->part != i) {
            return gy_fail(GY_FORMAT, "a manifest whose file %zu is of part %u", i,
                           snapshot->files[i]->part);
        }
    }
    return check_tables(snapshot);
}

gy_status gy_ps_manifest_unpack(const void *data, size_t size_bytes,
                                Gy__Ps__Snapshot **snapshot)
{
    const uint8_t *bytes = data;
    uint64_t head[2];
    if (size_bytes < HEAD_BYTES || size_bytes > GY_PS_MANIFEST_BYTES_MAX) {
        return gy_fail(GY_FORMAT, "a manifest of %zu bytes", size_bytes);
    }
    memcpy(head, bytes, HEAD_BYTES);
    if (head[0] != manifest_mark) {
        return gy_fail(GY_FORMAT, "no manifest of a snapshot: another version of Gyre?");
    }
    bytes += HEAD_BYTES;
    size_bytes -= HEAD_BYTES;
    if (gy_hash(bytes, size_bytes, manifest_mark) != head[1]) {
        return gy_fail(GY_FORMAT, "a manifest whose checksum is wrong");
    }
    Gy__Ps__Snapshot *made = gy__ps__snapshot__unpack(NULL, size_bytes, bytes);
    if (made == NULL) {
        return gy_fail(GY_FORMAT, "a manifest that cannot be read: another version of Gyre?");
    }
    gy_status status = check(made);
    if (status < 0) {
        gy__ps__snapshot__free_unpacked(made, NULL);
        return status;
    }
    *snapshot = made;
    return GY_OK;
}

void gy_ps_manifest_free(Gy__Ps__Snapshot *snapshot)
{
    if (snapshot != NULL) {
        gy__ps__snapshot__free_unpacked(snapshot, NULL);
    }
}

gy_status gy_ps_manifest_clock(const Gy__Ps__Snapshot *snapshot, const char *table,
                               uint64_t *clock)
{
    for (size_t i = 0; i < snapshot->n_tables; i++) {
        if (strcmp(snapshot->tables[i]->table, table) == 0) {
            *clock = snapshot->tables[i]->clock;
            return GY_OK;
        }
    }
    return gy_fail(GY_FORMAT, "snapshot %s has no clock of table %s", snapshot->name, table);
}
