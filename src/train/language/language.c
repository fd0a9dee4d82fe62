/* The job's parts between corpus and trainer: data set, network, recipe, scores. */
#include "train/language/language_priv.h"

#include "base/base.h"
#include "train/language/ngrams.h"
#include "train/train_priv.h"

#include <assert.h>
#include <string.h>

enum { HIDDEN_UNITS = 128, SCORE_ROWS = 256 };

static const char *const class_names[GY_LANGUAGE_COUNT] = {
#define GY_X(name, text, folders) text,
    GY_LANGUAGE_LIST(GY_X)
#undef GY_X
};

/* ---- data set ---- */

typedef struct line_dataset {
    gy_dataset base;
    const gy_corpus *corpus;
    bool is_test;
} line_dataset;

void gy_language_rows(const gy_sample *samples, int64_t count, gy_view *x)
{
    GY_ASSERT(x->dtype == GY_F32 || x->dtype == GY_F64);
    for (int64_t i = 0; i < count; i++) {
        size_t size = (size_t)samples[i].size_bytes;
        if (x->dtype == GY_F32) {
            float *row = (float *)x->data + i * GY_NGRAM_WIDTH;
            gy_train_ngrams_row(samples[i].text, size, GY_NGRAM_WIDTH, row);
        } else {
            float narrow[GY_NGRAM_WIDTH];
            double *row = (double *)x->data + i * GY_NGRAM_WIDTH;
            gy_train_ngrams_row(samples[i].text, size, GY_NGRAM_WIDTH, narrow);
            for (int k = 0; k < GY_NGRAM_WIDTH; k++) {
                row[k] = (double)narrow[k];
            }
        }
    }
}

static gy_status fill_lines(gy_dataset *dataset, const int64_t *indices, int64_t count,
                            gy_view *x, gy_view *labels)
{
    line_dataset *own = (line_dataset *)dataset;
    GY_ASSERT(gy_view_count(x) == count * GY_NGRAM_WIDTH);
    for (int64_t i = 0; i < count; i++) {
        gy_sample sample = gy_corpus_sample(own->corpus, own->is_test, indices[i]);
        gy_view row = *x;
        row.data = (char *)x->data + (size_t)(i * GY_NGRAM_WIDTH) * gy_dtype_bytes(x->dtype);
        gy_language_rows(&sample, 1, &row);
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = sample.label;
        }
    }
    return GY_OK;
}

static void free_lines(gy_dataset *dataset)
{
    gy_free(dataset);
}

static const gy_dataset_ops line_ops = {
    .name = "language", .fill = fill_lines, .free = free_lines};

gy_status gy_language_dataset(const gy_corpus *corpus, bool is_test, gy_dataset **dataset)
{
    line_dataset *made = gy_alloc_zero("train.language", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->base = (gy_dataset){
        .ops = &line_ops,
        .count = gy_corpus_count(corpus, is_test),
        .classes = GY_LANGUAGE_COUNT,
        .class_names = class_names,
        .input_rank = 1,
        .input_sizes = {GY_NGRAM_WIDTH},
    };
    made->corpus = corpus;
    made->is_test = is_test;
    *dataset = &made->base;
    return GY_OK;
}

/* ---- network and recipe ---- */

gy_status gy_language_model(const gy_model_options *base, gy_model **model)
{
    const gy_layer layers[] = {gy_layer_dense(HIDDEN_UNITS), gy_layer_relu(),
                               gy_layer_dense(GY_LANGUAGE_COUNT)};
    gy_model_options options = *base;
    options.name = GY_LANGUAGE_MODEL;
    options.layers = layers;
    options.layer_count = (int)GY_COUNT(layers);
    options.input_rank = 1;
    options.input_sizes[0] = GY_NGRAM_WIDTH;
    options.class_names = class_names;
    options.class_count = GY_LANGUAGE_COUNT;
    return gy_model_new(&options, model);
}

/* Found by trials, docs/decisions/009-language-corpus.md. */
void gy_language_recipe(gy_train_options *options)
{
    options->epochs = options->epochs > 0 ? options->epochs : 5;
    options->batch = options->batch > 0 ? options->batch : 256;
    bool is_adam =
        options->optimizer == GY_OPTIMIZER_ADAM || options->optimizer == GY_OPTIMIZER_ADAMW;
    if (options->rate <= 0 && is_adam) {
        options->rate = 0.002;
    }
}

const char *const *gy_language_metadata(void)
{
    static const char *const pairs[] = {"features", GY_LANGUAGE_FEATURES, NULL};
    return pairs;
}

/* ---- scores ---- */

/* Lines of the test part that this rank scores, a batch at a time, files in order. */
typedef struct line_scorer {
    gy_model *model;
    const gy_corpus *corpus;
    gy_language_score *score;
    gy_sample samples[SCORE_ROWS];
    int64_t count;
    int32_t file; /* whose lines are being summed up; -1: none */
    int label;
    double sums[GY_LANGUAGE_COUNT]; /* of its log-probabilities */
} line_scorer;

static int best_of(const double *values)
{
    int best = 0;
    for (int k = 1; k < GY_LANGUAGE_COUNT; k++) {
        best = values[k] > values[best] ? k : best;
    }
    return best;
}

static void end_file(line_scorer *scorer)
{
    if (scorer->file >= 0) {
        scorer->score->files++;
        scorer->score->files_right += best_of(scorer->sums) == scorer->label ? 1 : 0;
    }
    memset(scorer->sums, 0, sizeof(scorer->sums));
}

static void count_line(line_scorer *scorer, const gy_sample *sample, const double *values)
{
    int said = best_of(values);
    scorer->score->lines++;
    scorer->score->lines_right += said == sample->label ? 1 : 0;
    scorer->score->confusion[sample->label][said]++;
    if (sample->file != scorer->file) {
        end_file(scorer);
        scorer->file = sample->file;
        scorer->label = sample->label;
    }
    for (int k = 0; k < GY_LANGUAGE_COUNT; k++) {
        scorer->sums[k] += values[k];
    }
}

static gy_status score_batch(line_scorer *scorer)
{
    double values[SCORE_ROWS * GY_LANGUAGE_COUNT];
    GY_TRY(gy_language_predict(scorer->model, scorer->samples, scorer->count, values));
    for (int64_t i = 0; i < scorer->count; i++) {
        count_line(scorer, &scorer->samples[i], values + i * GY_LANGUAGE_COUNT);
    }
    scorer->count = 0;
    return GY_OK;
}

/* Whole files go to ranks in turn: a file's sum is made on one rank, in one order. */
static gy_status score_share(line_scorer *scorer, int rank, int ranks)
{
    int64_t count = gy_corpus_count(scorer->corpus, true);
    int32_t last_file = -1;
    int64_t file_index = -1;
    for (int64_t i = 0; i < count; i++) {
        gy_sample sample = gy_corpus_sample(scorer->corpus, true, i);
        file_index += sample.file != last_file ? 1 : 0;
        last_file = sample.file;
        if (file_index % ranks != rank) {
            continue;
        }
        scorer->samples[scorer->count++] = sample;
        if (scorer->count == SCORE_ROWS) {
            GY_TRY(score_batch(scorer));
        }
    }
    if (scorer->count > 0) {
        GY_TRY(score_batch(scorer));
    }
    end_file(scorer);
    return GY_OK;
}

/* The same network on this rank alone: what a model spread over ranks computes is a part of a
 * common batch, but here every rank has a number of lines of its own. */
static gy_status copy_alone(gy_model *model, gy_model **copy)
{
    gy_model *made = NULL;
    gy_model_options base = {.dtype = model->dtype, .seed = model->seed, .workers = 1};
    GY_TRY(gy_language_model(&base, &made));
    gy_status status = GY_OK;
    for (size_t i = 0; i < model->slot_count && status == GY_OK; i++) {
        const gy_train_slot *slot = &model->slots[i];
        if (slot->kind != GY_SLOT_STATE) {
            gy_tensor *whole = NULL;
            status = gy_session_gather(model->session, slot->name, &whole);
            status = status < 0 ? status : gy_session_scatter(made->session, slot->name, whole);
            gy_tensor_drop(whole);
        }
    }
    if (status != GY_OK) {
        gy_model_free(made);
        return status;
    }
    *copy = made;
    return GY_OK;
}

static gy_status score_with(gy_model *model, const gy_corpus *corpus, gy_comm *comm,
                            gy_language_score *score)
{
    gy_language_score sum = {.lines = 0};
    line_scorer *state = gy_alloc_zero("train.language", 1, sizeof(*state));
    if (state == NULL) {
        return GY_NOMEM;
    }
    state->model = model;
    state->corpus = corpus;
    state->score = &sum;
    state->file = -1;
    int rank = comm != NULL ? gy_comm_rank(comm) : 0;
    int ranks = comm != NULL ? gy_comm_size(comm) : 1;
    gy_status status = score_share(state, rank, ranks);
    gy_free(state);
    if (status == GY_OK && ranks > 1) {
        static_assert(sizeof(sum) % sizeof(int64_t) == 0, "counts and nothing else");
        status = gy_allreduce(comm, &sum, &sum, sizeof(sum) / sizeof(int64_t), GY_I64, GY_SUM);
    }
    if (status == GY_OK) {
        *score = sum;
    }
    return status;
}

gy_status gy_language_evaluate(gy_model *model, const gy_corpus *corpus, gy_comm *comm,
                               gy_language_score *score)
{
    if (comm == NULL || gy_comm_size(comm) == 1) {
        return score_with(model, corpus, comm, score);
    }
    gy_model *alone = NULL;
    GY_TRY(gy_train_tell(comm, copy_alone(model, &alone)));
    gy_status status = score_with(alone, corpus, comm, score);
    gy_model_free(alone);
    return gy_train_tell(comm, status);
}
