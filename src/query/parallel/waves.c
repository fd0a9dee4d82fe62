/* A source as waves of pieces. */
#include "query/parallel/parallel_priv.h"

int gy_parallel_workers(const gy_rows_limits *limits)
{
    return limits->engine == NULL ? 1 : gy_engine_workers(limits->engine);
}

static gy_status next_frame(gy_parallel_waves *waves)
{
    const int64_t begin_ns = gy_now_ns(waves->env);
    gy_frame_drop(waves->rest);
    waves->rest = NULL;
    waves->rest_at = 0;
    const gy_status status = gy_rows_next(waves->in, waves->counts, &waves->rest);
    waves->source_ns += gy_now_ns(waves->env) - begin_ns;
    waves->is_read = status == GY_DONE;
    return status == GY_DONE ? GY_OK : status;
}

gy_status gy_parallel_waves_next(gy_parallel_waves *waves)
{
    gy_rows_list *list = &waves->list;
    gy_rows_list_free(list);
    while (!waves->is_read && list->rows < waves->rows && list->bytes < waves->bytes &&
           list->count < waves->pieces) {
        const int64_t rows = waves->rest == NULL ? 0 : gy_frame_rows(waves->rest);
        if (waves->rest_at == rows) {
            GY_TRY(next_frame(waves));
            continue;
        }
        const int64_t end = GY_MIN(rows, waves->rest_at + waves->piece_rows);
        gy_frame *piece = NULL;
        GY_ASSERT(waves->piece_rows > 0);
        GY_TRY(gy_frame_slice(waves->rest, waves->rest_at, end, &piece));
        waves->rest_at = end;
        GY_TRY(gy_rows_list_add(list, piece));
    }
    return GY_OK;
}

void gy_parallel_waves_fini(gy_parallel_waves *waves)
{
    gy_rows_list_free(&waves->list);
    gy_frame_drop(waves->rest);
    waves->rest = NULL;
}
