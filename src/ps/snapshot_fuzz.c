/* Fuzz target: any bytes as a snapshot's manifest, or as a part's image with the right
 * checksums around them, are taken or refused; what was taken can be used. The first byte says
 * which of the two. */
#include "base/hash.h"
#include "ps/server_priv.h"
#include "ps/snapshot/snapshot.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MANIFEST_HEAD = 16, WORDS = GY_PS_SNAPSHOT_HEAD_BYTES / 8 };

static const uint64_t manifest_mark = 0x314e414d50535947, part_mark = 0x31414e5350535947;

static void use_manifest(const Gy__Ps__Snapshot *snapshot)
{
    uint64_t clock = 0;
#ifdef GYRE_PLANTED_BUG
    /* room for two tables: a third is written beyond it */
    uint64_t *clocks = gy_alloc_zero("fuzz", 2, sizeof(*clocks));
    for (size_t i = 0; clocks != NULL && i < snapshot->n_tables; i++) {
        ((volatile uint64_t *)clocks)[i] = snapshot->tables[i]->clock;
    }
    gy_free(clocks);
#endif
    for (size_t i = 0; i < snapshot->n_tables; i++) {
        GY_ASSERT(gy_ps_manifest_clock(snapshot, snapshot->tables[i]->table, &clock) == GY_OK &&
                  clock <= snapshot->clock);
    }
}

static void read_manifest(const uint8_t *data, size_t size)
{
    uint8_t *bytes = gy_alloc("fuzz", MANIFEST_HEAD + size);
    Gy__Ps__Snapshot *snapshot = NULL;
    if (bytes == NULL) {
        return;
    }
    const uint64_t head[2] = {manifest_mark, gy_hash(data, size, manifest_mark)};
    memcpy(bytes, head, sizeof(head));
    memcpy(bytes + sizeof(head), data, size);
    gy_status status = gy_ps_manifest_unpack(bytes, sizeof(head) + size, &snapshot);
    GY_ASSERT((status == GY_OK) == (snapshot != NULL));
    if (snapshot != NULL) {
        use_manifest(snapshot);
    }
    gy_ps_manifest_free(snapshot);
    gy_free(bytes);
}

static void read_image(const uint8_t *data, size_t size)
{
    gy_ps_server server;
    Gy__Ps__Snapshot snapshot;
    Gy__Ps__SnapshotFile file;
    Gy__Ps__SnapshotFile *files[] = {&file};
    uint8_t *bytes = gy_alloc("fuzz", GY_PS_SNAPSHOT_HEAD_BYTES + size);
    if (bytes == NULL || gy_ps_server_init(&server, gy_env_real()) < 0) {
        gy_free(bytes);
        return;
    }
    uint64_t head[WORDS] = {part_mark, 7, 0, 0, size, gy_hash(data, size, 7)};
    head[WORDS - 1] = gy_hash(head, sizeof(head) - sizeof(head[0]), part_mark);
    memcpy(bytes, head, sizeof(head));
    memcpy(bytes + sizeof(head), data, size);
    gy__ps__snapshot__init(&snapshot);
    gy__ps__snapshot_file__init(&file);
    snapshot.id = 7;
    snapshot.n_files = 1;
    snapshot.files = files;
    file.size_bytes = size;
    file.hash = head[5];
    if (gy_ps_snapshot_judge(&snapshot, 0, "fuzz", bytes, sizeof(head) + size) < 0) {
        gy_panic("a file that was made right: %s", gy_error_text());
    }
    if (gy_ps_server_load(&server, 0, 1, bytes + sizeof(head), size) == GY_OK) {
        for (uint32_t i = 0; i < server.table_count; i++) {
            gy_ps_part_rewind(server.tables[i]->part, 5);
        }
    } else {
        GY_ASSERT(server.table_count == 0);
    }
    gy_ps_server_fini(&server);
    gy_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_log_set_level(GY_LOG_ERROR);
    if (size > 0 && data[0] == 'M') {
        read_manifest(data + 1, size - 1);
    } else if (size > 0) {
        read_image(data + 1, size - 1);
    }
    return 0;
}
