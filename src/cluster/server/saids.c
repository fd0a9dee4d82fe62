/* What is kept of jobs in memory, the least recently used of those that have ended going first.
 */
#include "cluster/server/server_priv.h"

#include <string.h>

server_said *gy_saids_find(const server_saids *saids, gy_key key)
{
    const uint32_t row = gy_index_find(&saids->by_key, key);
    return row == GY_NONE ? NULL : &saids->rows[row];
}

void gy_saids_cut(server_saids *saids, server_said *row, size_t left)
{
    if (row->size > left) {
        memmove(row->data, row->data + (row->size - left), left);
        row->offset += row->size - left;
        row->size = left;
    }
    if (row->room > left) { /* shrinking needs no memory that is not there */
        char *less = left > 0 ? gy_alloc("server", left) : NULL;
        if (less != NULL || left == 0) {
            if (less != NULL && row->size > 0) {
                memcpy(less, row->data, row->size);
            }
            saids->bytes -= row->room - left;
            gy_free(row->data);
            row->data = less;
            row->room = left;
        }
    }
}

static void drop(server_saids *saids, server_said *row)
{
    const uint32_t at = (uint32_t)(row - saids->rows);
    gy_saids_cut(saids, row, 0);
    saids->bytes -= row->view_bytes;
    gy_free(row->view);
    gy_index_remove(&saids->by_key, row->key);
    const server_said *last = &saids->rows[--saids->count];
    if (last != row) {
        gy_index_remove(&saids->by_key, last->key);
        saids->rows[at] = *last;
        gy_status put = gy_index_put(&saids->by_key, last->key, at);
        GY_ASSERT(put == GY_OK); /* there was room for it just now */
    }
}

static void make_room(server_saids *saids, size_t most, size_t more)
{
    while (saids->count > 0 &&
           (saids->count >= most || saids->bytes + more > SERVER_SAID_BYTES)) {
        GY_ASSERT(saids->rows != NULL);
        server_said *worst = &saids->rows[0];
        for (size_t i = 1; i < saids->count; i++) {
            server_said *row = &saids->rows[i];
            if (row->is_ended != worst->is_ended ? row->is_ended : row->used < worst->used) {
                worst = row;
            }
        }
        drop(saids, worst);
    }
}

void gy_saids_make_room(server_saids *saids, size_t more)
{
    make_room(saids, SIZE_MAX, more);
}

gy_status gy_saids_get(server_saids *saids, gy_key key, uint32_t epoch, server_said **row)
{
    *row = gy_saids_find(saids, key);
    if (*row == NULL) {
        make_room(saids, saids->most, 0);
        GY_TRY(GY_GROW("server", saids->rows, saids->capacity, saids->count + 1));
        GY_TRY(gy_index_put(&saids->by_key, key, (uint32_t)saids->count));
        *row = &saids->rows[saids->count++];
        **row = (server_said){.key = key, .epoch = epoch, .code = -1};
    }
    if (epoch > (*row)->epoch) {
        (*row)->epoch = epoch;
        (*row)->offset = (*row)->whole = 0;
        (*row)->size = 0;
        (*row)->code = -1;
        (*row)->is_ended = false; /* it may have been resumed */
    }
    (*row)->used = ++saids->clock;
    return GY_OK;
}

gy_status gy_saids_view(server_saids *saids, gy_key key, const ProtobufCMessage *view)
{
    const size_t size = protobuf_c_message_get_packed_size(view);
    gy_saids_make_room(saids, size);
    server_said *row = gy_saids_find(saids, key);
    uint8_t *packed = row != NULL ? gy_alloc("server", size) : NULL;
    if (packed == NULL) {
        return GY_NOMEM;
    }
    (void)protobuf_c_message_pack(view, packed);
    saids->bytes += size - row->view_bytes;
    gy_free(row->view);
    row->view = packed;
    row->view_bytes = size;
    return GY_OK;
}

gy_status gy_saids_read_view(const server_saids *saids, gy_key key, Gy__Cluster__View **view)
{
    const server_said *row = gy_saids_find(saids, key);
    *view = NULL;
    if (row == NULL || row->view == NULL) {
        return GY_OK;
    }
    *view = gy__cluster__view__unpack(NULL, row->view_bytes, row->view);
    return *view != NULL ? GY_OK : GY_NOMEM; /* it was one when it came */
}

void gy_saids_free(server_saids *saids)
{
    while (saids->count > 0) {
        GY_ASSERT(saids->rows != NULL);
        drop(saids, &saids->rows[saids->count - 1]);
    }
    gy_free(saids->rows);
    gy_index_free(&saids->by_key);
    *saids = (server_saids){.most = saids->most};
}
