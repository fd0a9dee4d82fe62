/* The last sender as each daemon and each job's manager: messages to these go there. */
#include "cluster/server/server_priv.h"

server_speaker *gy_server_speakers_find(const server_speakers *speakers, gy_key key)
{
    uint32_t row = gy_index_find(&speakers->by_key, key);
    return row == GY_NONE ? NULL : &speakers->rows[row];
}

gy_status gy_server_speakers_put(server_speakers *speakers, gy_key key, gy_rpc_peer peer,
                                 uint32_t epoch)
{
    server_speaker *known = gy_server_speakers_find(speakers, key);
    if (known != NULL) {
        known->peer = peer;
        known->epoch = epoch;
        return GY_OK;
    }
    if (speakers->count >= speakers->most) {
        return gy_fail(GY_LIMIT, "%zu clients are connected already", speakers->count);
    }
    GY_TRY(GY_GROW("server", speakers->rows, speakers->capacity, speakers->count + 1));
    GY_TRY(gy_index_put(&speakers->by_key, key, (uint32_t)speakers->count));
    speakers->rows[speakers->count++] =
        (server_speaker){.key = key, .peer = peer, .epoch = epoch};
    return GY_OK;
}

void gy_server_speakers_remove(server_speakers *speakers, gy_key key)
{
    uint32_t row = gy_index_find(&speakers->by_key, key);
    if (row == GY_NONE) {
        return;
    }
    gy_free(speakers->rows[row].progress);
    gy_index_remove(&speakers->by_key, key);
    server_speaker *last = &speakers->rows[--speakers->count];
    if (last != &speakers->rows[row]) {
        gy_index_remove(&speakers->by_key, last->key);
        speakers->rows[row] = *last;
        gy_status put = gy_index_put(&speakers->by_key, last->key, row);
        GY_ASSERT(put == GY_OK); /* room was reserved just before */
    }
}

void gy_server_speakers_leave(server_speakers *speakers, gy_rpc_peer peer)
{
    for (size_t i = speakers->count; i > 0; i--) {
        if (speakers->rows[i - 1].peer == peer) {
            gy_server_speakers_remove(speakers, speakers->rows[i - 1].key);
        }
    }
}

void gy_server_speakers_free(server_speakers *speakers)
{
    for (size_t i = 0; i < speakers->count; i++) {
        gy_free(speakers->rows[i].progress);
    }
    gy_index_free(&speakers->by_key);
    gy_free(speakers->rows);
    *speakers = (server_speakers){.most = speakers->most};
}
