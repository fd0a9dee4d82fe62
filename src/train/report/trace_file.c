/* The events of all ranks as one file that Chrome and Perfetto show. */
#include "base/base.h"
#include "store/store.h"
#include "train/report/gather.h"
#include "train/train.h"

#include <gyre/report.h>

#include <stdio.h>

enum { TRACE_EVENTS = 16384, TRACE_RANKS = 1024 };

void gy_trace_begin(void)
{
    gy_trace_start(TRACE_EVENTS);
}

static gy_status write_all(const gy_text *all, const size_t *begins, int ranks,
                           const char *path)
{
    gy_text file = {.data = NULL};
    gy_text_add(&file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (int r = 0; r < ranks; r++) {
        gy_text_add(&file, r > 0 ? ",\n" : "");
        gy_text_add_bytes(&file, all->data + begins[r], begins[r + 1] - begins[r]);
    }
    gy_text_add(&file, "\n]}\n");
    gy_status status = file.status;
    if (status == GY_OK) {
        status = gy_store_file_write(gy_env_real(), path, file.data, file.size_bytes);
    }
    gy_text_free(&file);
    return status;
}

gy_status gy_trace_save(gy_comm *comm, const char *path)
{
    int rank = comm != NULL ? gy_comm_rank(comm) : 0;
    int ranks = comm != NULL ? gy_comm_size(comm) : 1;
    if (ranks > TRACE_RANKS) {
        return gy_fail(GY_LIMIT, "trace: %d ranks, at most %d", ranks, TRACE_RANKS);
    }
    char name[32];
    snprintf(name, sizeof(name), "rank %d", rank);
    gy_text own = {.data = NULL}, all = {.data = NULL};
    gy_trace_write(&own, rank, name);
    size_t begins[TRACE_RANKS + 1];
    gy_status status = gy_train_tell(comm, own.status);
    if (status == GY_OK) {
        status = gy_train_gather_bytes(comm, own.data, own.size_bytes, &all, begins);
    }
    if (status == GY_OK && rank == 0) {
        status = write_all(&all, begins, ranks, path);
    }
    gy_text_free(&own);
    gy_text_free(&all);
    return status;
}
