/**
 * What the tests of training share: digits made of noise, and ranks that are threads.
 */
#ifndef GY_TRAINING_KIT_H
#define GY_TRAINING_KIT_H

#include "coll/coll.h"
#include "train/train_priv.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

/* ---- Digits: one fixed pattern a class, noise of its own on each sample ---- */

enum { KIT_CLASSES = 10, KIT_RANKS_MAX = 8 };

static inline double kit_pixel(int64_t sample, int64_t pixel)
{
    gy_random pattern = {.key = 1, .next = (uint64_t)(sample % KIT_CLASSES * 100000 + pixel)};
    gy_random noise = {.key = 2, .next = (uint64_t)(sample * 100000 + pixel)};
    return 0.5 * gy_random_unit(&pattern) + 0.5 * gy_random_unit(&noise);
}

static inline gy_status kit_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                                 gy_view *x, gy_view *labels)
{
    int64_t size = dataset->input_sizes[1] * dataset->input_sizes[2];
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < size; j++) {
            double value = kit_pixel(indices[i], j);
            if (x->dtype == GY_F64) {
                ((double *)x->data)[i * size + j] = value;
            } else {
                ((float *)x->data)[i * size + j] = (float)value;
            }
        }
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = (int32_t)(indices[i] % KIT_CLASSES);
        }
    }
    return GY_OK;
}

static inline void kit_free(gy_dataset *dataset)
{
    (void)dataset;
}

static const gy_dataset_ops kit_digits_ops = {
    .name = "noisy digits", .fill = kit_fill, .free = kit_free};

/* `count` pictures of side * side. */
static inline gy_dataset kit_digits(int64_t count, int64_t side)
{
    return (gy_dataset){.ops = &kit_digits_ops,
                        .count = count,
                        .classes = KIT_CLASSES,
                        .input_rank = 3,
                        .input_sizes = {1, side, side}};
}

/* A model of layers for them. */
static inline gy_model *kit_digits_model(const gy_layer *layers, int count, int64_t side,
                                         int workers)
{
    gy_model *model = NULL;
    const gy_model_options options =
        GY_OPTIONS(gy_model_options, .layers = layers, .layer_count = count, .input_rank = 3,
                   .input_sizes = {1, side, side}, .seed = 11, .workers = workers);
    assert_ok(gy_model_new(&options, &model));
    return model;
}

/* ---- Ranks that are threads of this process ---- */

typedef struct kit_rank {
    gy_thread thread;
    gy_transport *transport; /* borrowed; NULL when alone */
    gy_comm *comm;           /* NULL when alone */
    int rank, ranks;
    gy_status (*run)(struct kit_rank *me);
    void *arg;
    gy_error error;
} kit_rank;

static inline void *kit_rank_main(void *arg)
{
    kit_rank *me = arg;
    gy_error_take(&me->error, me->run(me));
    return NULL;
}

/* Run on ranks of these transports, which are taken; NULL: one rank without. What each said is
 * in members[rank].error. */
static inline void kit_run_on(gy_transport **transports, const gy_comm_options *options,
                              int ranks, gy_status (*run)(kit_rank *me), void *arg,
                              kit_rank members[KIT_RANKS_MAX])
{
    memset(members, 0, KIT_RANKS_MAX * sizeof(*members));
    for (int rank = 0; rank < ranks; rank++) {
        kit_rank *member = &members[rank];
        *member = (kit_rank){.rank = rank,
                             .ranks = ranks,
                             .transport = transports != NULL ? transports[rank] : NULL,
                             .run = run,
                             .arg = arg};
        GY_ASSERT(transports == NULL ||
                  gy_comm_new(transports[rank], options, &member->comm) == GY_OK);
    }
    for (int rank = 0; rank < ranks; rank++) {
        GY_ASSERT(gy_thread_start(&members[rank].thread, "rank", kit_rank_main,
                                  &members[rank]) == GY_OK);
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&members[rank].thread);
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_comm_free(members[rank].comm);
    }
}

/* Run on `ranks` ranks that share memory and wait for all. */
static inline void kit_run_ranks(int ranks, gy_status (*run)(kit_rank *me), void *arg,
                                 kit_rank members[KIT_RANKS_MAX])
{
    gy_transport *transports[KIT_RANKS_MAX];
    const gy_transport_segment_options segment = {.ranks = ranks, .pool_bytes = 128 << 20};
    GY_ASSERT(ranks == 1 ||
              gy_transport_shm_open_all(&segment, gy_env_real(), transports) == GY_OK);
    kit_run_on(ranks == 1 ? NULL : transports, NULL, ranks, run, arg, members);
}

/* ---- files ---- */

/* Remove the files of a folder. */
static inline void kit_empty_folder(const char *path)
{
    DIR *entries = opendir(path);
    for (struct dirent *e = entries == NULL ? NULL : readdir(entries); e != NULL;
         e = readdir(entries)) {
        (void)unlinkat(dirfd(entries), e->d_name, 0);
    }
    if (entries != NULL) {
        closedir(entries);
    }
}

static inline void kit_remove_folder(const char *path)
{
    kit_empty_folder(path);
    (void)rmdir(path);
}

#endif
