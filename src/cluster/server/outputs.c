/* A cache of jobs' output and status in memory; the least recently used of ended jobs are
 * dropped first. */
#include "cluster/server/server_priv.h"

#include <string.h>

server_output *gy_server_outputs_find(const server_outputs *outputs, gy_key key)
{
    const uint32_t row = gy_index_find(&outputs->by_key, key);
    return row == GY_NONE ? NULL : &outputs->rows[row];
}

void gy_server_outputs_cut(server_outputs *outputs, server_output *row, size_t left)
{
    if (row->size > left) {
        memmove(row->data, row->data + (row->size - left), left);
        row->offset += row->size - left;
        row->size = left;
    }
    if (row->room > left) { /* a failed shrink changes nothing */
        char *less = left > 0 ? gy_alloc("server", left) : NULL;
        if (less != NULL || left == 0) {
            if (less != NULL && row->size > 0) {
                memcpy(less, row->data, row->size);
            }
            outputs->bytes -= row->room - left;
            gy_free(row->data);
            row->data = less;
            row->room = left;
        }
    }
}

static void drop(server_outputs *outputs, server_output *row)
{
    const uint32_t at = (uint32_t)(row - outputs->rows);
    gy_server_outputs_cut(outputs, row, 0);
    outputs->bytes -= row->view_bytes;
    gy_free(row->view);
    gy_index_remove(&outputs->by_key, row->key);
    const server_output *last = &outputs->rows[--outputs->count];
    if (last != row) {
        gy_index_remove(&outputs->by_key, last->key);
        outputs->rows[at] = *last;
        gy_status put = gy_index_put(&outputs->by_key, last->key, at);
        GY_ASSERT(put == GY_OK); /* room was reserved just before */
    }
}

static void make_room(server_outputs *outputs, size_t most, size_t more)
{
    while (outputs->count > 0 &&
           (outputs->count >= most || outputs->bytes + more > SERVER_OUTPUT_BYTES)) {
        GY_ASSERT(outputs->rows != NULL);
        server_output *worst = &outputs->rows[0];
        for (size_t i = 1; i < outputs->count; i++) {
            server_output *row = &outputs->rows[i];
            if (row->is_ended != worst->is_ended ? row->is_ended : row->used < worst->used) {
                worst = row;
            }
        }
        drop(outputs, worst);
    }
}

void gy_server_outputs_make_room(server_outputs *outputs, size_t more)
{
    make_room(outputs, SIZE_MAX, more);
}

gy_status gy_server_outputs_get(server_outputs *outputs, gy_key key, uint32_t epoch,
                                server_output **row)
{
    *row = gy_server_outputs_find(outputs, key);
    if (*row == NULL) {
        make_room(outputs, outputs->most, 0);
        GY_TRY(GY_GROW("server", outputs->rows, outputs->capacity, outputs->count + 1));
        GY_TRY(gy_index_put(&outputs->by_key, key, (uint32_t)outputs->count));
        *row = &outputs->rows[outputs->count++];
        **row = (server_output){.key = key, .epoch = epoch, .code = -1};
    }
    if (epoch > (*row)->epoch) {
        (*row)->epoch = epoch;
        (*row)->offset = (*row)->whole = 0;
        (*row)->size = 0;
        (*row)->code = -1;
        (*row)->is_ended = false; /* it may have been resumed */
    }
    (*row)->used = ++outputs->clock;
    return GY_OK;
}

gy_status gy_server_outputs_view(server_outputs *outputs, gy_key key,
                                 const ProtobufCMessage *view)
{
    const size_t size = protobuf_c_message_get_packed_size(view);
    gy_server_outputs_make_room(outputs, size);
    server_output *row = gy_server_outputs_find(outputs, key);
    uint8_t *packed = row != NULL ? gy_alloc("server", size) : NULL;
    if (packed == NULL) {
        return GY_NOMEM;
    }
    (void)protobuf_c_message_pack(view, packed);
    outputs->bytes += size - row->view_bytes;
    gy_free(row->view);
    row->view = packed;
    row->view_bytes = size;
    return GY_OK;
}

gy_status gy_server_outputs_read_view(const server_outputs *outputs, gy_key key,
                                      Gy__Cluster__View **view)
{
    const server_output *row = gy_server_outputs_find(outputs, key);
    *view = NULL;
    if (row == NULL || row->view == NULL) {
        return GY_OK;
    }
    *view = gy__cluster__view__unpack(NULL, row->view_bytes, row->view);
    return *view != NULL ? GY_OK : GY_NOMEM; /* it was valid when it came */
}

void gy_server_outputs_free(server_outputs *outputs)
{
    while (outputs->count > 0) {
        GY_ASSERT(outputs->rows != NULL);
        drop(outputs, &outputs->rows[outputs->count - 1]);
    }
    gy_free(outputs->rows);
    gy_index_free(&outputs->by_key);
    *outputs = (server_outputs){.most = outputs->most};
}
