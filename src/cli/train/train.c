/* gyre train: train one of the models that Gyre knows, and report. */
#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/report.h"
#include "cli/train/device.h"
#include "cli/train/mesh.h"
#include "cli/train/pipe.h"
#include "cli/train/simulate.h"
#include "cli/train/text.h"
#include "cli/train/types.h"
#include "cli/train/update.h"

#include <gyre/demo/language.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_EPOCHS = 1000, PATH_BYTES = 4096, EXCHANGES_SHOWN = 10 };

static struct {
    gy_option_list data;
    long long ranks, workers, epochs, steps, batch, accumulate, seed, patience,
        checkpoint_every, steps_max;
    long long zero, memory;
    long long warmup;
    gy_cli_text text;
    double rate, momentum, weight_decay, clip, factor;
    const char *output, *optimizer, *schedule, *dtype, *checkpoints, *overlap, *mesh;
    const char *precision, *exchange, *recompute, *update, *key, *simulate, *cluster, *device;
    gy_cli_pipe pipe;
    gy_option_list pins;
    bool is_plaintext, resume, explain, stats, quiet;
} settings = {.schedule = "cosine",
              .dtype = "f32",
              .precision = "f32",
              .exchange = "f32",
              .recompute = "none",
              .overlap = "on",
              .seed = 1,
              .momentum = 0.9,
              .warmup = -1,
              .text.dropout = -1};

#define OPTIMIZERS    "sgd|momentum|nesterov|adam|adamw"
#define SCHEDULES     "constant|step|cosine|linear"
#define RECOMPUTES    "none|layers|auto"
#define PLACE(member) offsetof(__typeof__(settings), member)

static const gy_option options[] = {
    {&gy_option_data, GY_OPTION_PATHS,
     "the folder of the digits' IDX files, or a libsvm file; gpt, lstm: text files; language: "
     "the folder that stands for /",
     PLACE(data), 0, 0, NULL},
    {&gy_option_layers, GY_OPTION_INTEGER, "default: gpt 4, lstm 2", PLACE(text.layers), 1,
     1000, NULL},
    {&gy_option_model_width, GY_OPTION_INTEGER, "gpt; a multiple of the heads; default: 128",
     PLACE(text.width), 1, 1 << 16, NULL},
    {&gy_option_heads, GY_OPTION_INTEGER, "gpt; default: 4", PLACE(text.heads), 1, 1 << 16,
     NULL},
    {&gy_option_context, GY_OPTION_INTEGER, "gpt; default: 64", PLACE(text.context), 1, 1 << 20,
     NULL},
    {&gy_option_hidden_size, GY_OPTION_INTEGER, "lstm; default: 256", PLACE(text.hidden), 1,
     1 << 16, NULL},
    {&gy_option_bptt, GY_OPTION_INTEGER, "lstm; default: 64", PLACE(text.bptt), 1, 1 << 12,
     NULL},
    {&gy_option_dropout, GY_OPTION_REAL, "gpt, and lstm between layers; default: 0",
     PLACE(text.dropout), 0, 0.999999, NULL},
    {&gy_option_output, GY_OPTION_PATH, "a folder; default: out/MODEL", PLACE(output), 0, 0,
     NULL},
    {&gy_option_ranks, GY_OPTION_INTEGER, "default: 1", PLACE(ranks), 1, GY_RUN_RANKS_MAX,
     NULL},
    {&gy_option_mesh, GY_OPTION_TEXT,
     "data cuts rows, model everything else, auto what is best, pipe the layers into stages; "
     "auto alone: the cheapest mesh; default: all ranks along data",
     PLACE(mesh), 0, 0, NULL},
    {&gy_option_cluster, GY_OPTION_TEXT,
     "of --mesh auto, in the words of --simulate; default: as the ranks are launched",
     PLACE(cluster), 0, 0, NULL},
    {&gy_option_cut, GY_OPTION_TEXT,
     "such as dense3.weight, one name less than --mesh pipe=N has stages; default: by cost",
     PLACE(pipe.cut), 0, 0, NULL},
    {&gy_option_workers, GY_OPTION_INTEGER, "threads of a rank; default: cores / ranks",
     PLACE(workers), 1, 1024, NULL},
    {&gy_option_epochs, GY_OPTION_INTEGER, "default: language 5, digits 10", PLACE(epochs), 1,
     MAX_EPOCHS, NULL},
    {&gy_option_steps, GY_OPTION_INTEGER, "default: gpt, lstm 2000", PLACE(steps), 1, INT_MAX,
     NULL},
    {&gy_option_batch, GY_OPTION_INTEGER, "default: 64, language 256, gpt 12, lstm 32",
     PLACE(batch), 1, 1 << 20, NULL},
    {&gy_option_accumulate, GY_OPTION_INTEGER, "default: 1", PLACE(accumulate), 1, 1 << 16,
     NULL},
    {&gy_option_micro_batches, GY_OPTION_INTEGER, "default: the batch is not split",
     PLACE(pipe.micros), 1, 1 << 16, NULL},
    {&gy_option_pipe_schedule, GY_OPTION_TEXT,
     "gpipe, 1f1b, interleaved, zb-h1, or a file with lists; default: 1f1b",
     PLACE(pipe.schedule), 0, 0, NULL},
    {&gy_option_chunks, GY_OPTION_INTEGER,
     "stages of a rank; default: of interleaved 2, else 1", PLACE(pipe.chunks), 1, 64, NULL},
    {&gy_option_zero, GY_OPTION_INTEGER,
     "1 the optimizer's state, 2 sums of gradients as well, 3 parameters as well; default: 0",
     PLACE(zero), 0, 3, NULL},
    {&gy_option_memory, GY_OPTION_SIZE,
     "do not start where a rank would hold more parameters, optimizer state and values, as "
     "predicted; default: none",
     PLACE(memory), 1, 0, NULL},
    {&gy_option_recompute, GY_OPTION_CHOICE,
     "layers: all but the last; auto: as few as --memory asks for; default: none",
     PLACE(recompute), 0, 0, RECOMPUTES},
    {&gy_option_pin, GY_OPTION_LIST, "such as 'dense*.weight:model=S1'", PLACE(pins), 0, 0,
     NULL},
    {&gy_option_optimizer, GY_OPTION_CHOICE, "default: adam, gpt adamw", PLACE(optimizer), 0, 0,
     OPTIMIZERS},
    {&gy_option_learning_rate, GY_OPTION_REAL,
     "default: adam 0.001 to 0.005 by model, gpt 0.003, sgd 0.01", PLACE(rate), 1e-12, 1e6,
     NULL},
    {&gy_option_momentum, GY_OPTION_REAL, "of momentum and nesterov; default: 0.9",
     PLACE(momentum), 1e-6, 0.999999, NULL},
    {&gy_option_weight_decay, GY_OPTION_REAL, "default: none, gpt 0.1 of matrices",
     PLACE(weight_decay), 1e-12, 1e3, NULL},
    {&gy_option_schedule, GY_OPTION_CHOICE,
     "of the learning rate; default: cosine, which reaches 0 after the last step",
     PLACE(schedule), 0, 0, SCHEDULES},
    {&gy_option_factor, GY_OPTION_REAL, "default: 0.1", PLACE(factor), 1e-6, 1, NULL},
    {&gy_option_warmup, GY_OPTION_INTEGER, "default: 0, gpt 100", PLACE(warmup), 0, 1 << 30,
     NULL},
    {&gy_option_clip, GY_OPTION_REAL, "default: no clipping, gpt and lstm 1", PLACE(clip),
     1e-12, 1e12, NULL},
    {&gy_option_patience, GY_OPTION_INTEGER, "default: never", PLACE(patience), 1, MAX_EPOCHS,
     NULL},
    {&gy_option_steps_max, GY_OPTION_INTEGER, "default: no limit", PLACE(steps_max), 1, INT_MAX,
     NULL},
    {&gy_option_seed, GY_OPTION_INTEGER, "parameters, dropout and sample order; default: 1",
     PLACE(seed), 0, INT_MAX, NULL},
    {&gy_option_dtype, GY_OPTION_CHOICE, "default: f32", PLACE(dtype), 0, 0, "f32|f64"},
    {&gy_option_precision, GY_OPTION_CHOICE,
     "16 bits are summed in f32, and all else stays f32; default: f32", PLACE(precision), 0, 0,
     PRECISIONS},
    {&gy_option_exchange, GY_OPTION_CHOICE, "bf16 halves the bytes; default: f32",
     PLACE(exchange), 0, 0, EXCHANGES},
    {&gy_option_device, GY_OPTION_TEXT, "default: GYRE_DEVICE", PLACE(device), 0, 0, NULL},
    {&gy_option_checkpoints, GY_OPTION_PATH, NULL, PLACE(checkpoints), 0, 0, NULL},
    {&gy_option_checkpoint_every, GY_OPTION_INTEGER, "default: one epoch",
     PLACE(checkpoint_every), 1, INT_MAX, NULL},
    {&gy_option_resume, GY_OPTION_FLAG, NULL, PLACE(resume), 0, 0, NULL},
    {&gy_option_update, GY_OPTION_TEXT,
     "allreduce, the default; ps:k=N starts servers, ps:at=HOST:PORT,... has some that run, "
     "ps:lead=HOST:PORT,... those of a lead",
     PLACE(update), 0, 0, NULL},
    {&gy_option_key, GY_OPTION_PATH,
     "of servers that run; default: the one that `gyre key` makes", PLACE(key), 0, 0, NULL},
    {&gy_option_plaintext, GY_OPTION_FLAG, "to servers at loopback addresses",
     PLACE(is_plaintext), 0, 0, NULL},
    {&gy_option_simulate, GY_OPTION_TEXT,
     "such as 'hosts=512,gpus=8,near=450GB/s,far=50GB/s'; trains nothing", PLACE(simulate), 0,
     0, NULL},
    {&gy_option_overlap, GY_OPTION_CHOICE, "default: on", PLACE(overlap), 0, 0, "on|off"},
    {&gy_option_explain, GY_OPTION_FLAG, "how one step is compiled and placed; then train",
     PLACE(explain), 0, 0, NULL},
    {&gy_option_stats, GY_OPTION_FLAG, "bytes and times of an update's exchanges, peak memory",
     PLACE(stats), 0, 0, NULL},
    {&gy_option_quiet, GY_OPTION_FLAG, NULL, PLACE(quiet), 0, 0, NULL},
};

static gy_cli_pins pins; /* of --pin */

/* The state of a training run; end_job frees it. */
typedef struct train_job {
    const char *name;
    bool is_language, is_text, is_first; /* rank 0 */
    gy_cli_update update;
    gy_train_servers servers; /* of update.is_ps */
    char key[PATH_BYTES];
    gy_cli_device device;
    gy_comm *comm; /* NULL: this process alone, as each worker of parameter servers is */
    gy_mesh *mesh;
    gy_mesh_choice choice; /* of --mesh auto */
    gy_corpus *corpus;
    gy_dataset *train, *test;
    gy_model *model;
    gy_progress_bar *bar;
    gy_train_result result;
    double samples /* of a step */, epoch_steps[MAX_EPOCHS], epoch_losses[MAX_EPOCHS];
    size_t epoch_count;
    char folder[PATH_BYTES / 2];
} train_job;

/* The steps of the training, where --steps or --epochs says how many. */
static long long steps_of(const train_job *job, const gy_train_options *chosen)
{
    const long long batch = chosen->batch * (chosen->accumulate > 0 ? chosen->accumulate : 1);
    return chosen->steps > 0 ? chosen->steps
                             : (job->train->count + batch - 1) / batch * chosen->epochs;
}

/* What the options leave open, by the recipe of the model. */
static void fill_from_recipe(const train_job *job, gy_train_options *chosen)
{
    const gy_train_options recipe = gy_train_recipe(job->name);
    if (chosen->epochs == 0 && chosen->steps == 0) {
        chosen->epochs = recipe.epochs;
        chosen->steps = recipe.steps;
    }
    chosen->batch = chosen->batch > 0 ? chosen->batch : recipe.batch;
    if (chosen->optimizer == recipe.optimizer) {
        chosen->rate = chosen->rate > 0 ? chosen->rate : recipe.rate;
        chosen->beta2 = recipe.beta2;
        chosen->weight_decay =
            chosen->weight_decay > 0 ? chosen->weight_decay : recipe.weight_decay;
    }
    chosen->weight_decay_rank_min = recipe.weight_decay_rank_min;
    chosen->clip_norm = chosen->clip_norm > 0 ? chosen->clip_norm : recipe.clip_norm;
    if (settings.warmup < 0) { /* of a short training a tenth */
        const long long most = steps_of(job, chosen) / 10;
        chosen->warmup_steps = recipe.warmup_steps < most ? recipe.warmup_steps : (int)most;
    }
}

static gy_train_options train_options(train_job *job)
{
    static const gy_optimizer_kind optimizers[] = {GY_OPTIMIZER_SGD, GY_OPTIMIZER_MOMENTUM,
                                                   GY_OPTIMIZER_NESTEROV, GY_OPTIMIZER_ADAM,
                                                   GY_OPTIMIZER_ADAMW};
    static const gy_schedule_kind schedules[] = {GY_SCHEDULE_CONSTANT, GY_SCHEDULE_STEP,
                                                 GY_SCHEDULE_COSINE, GY_SCHEDULE_LINEAR};
    gy_train_options chosen = {
        .epochs = (int)settings.epochs,
        .steps = settings.steps,
        .batch = settings.batch,
        .accumulate = (int)settings.accumulate,
        .micro_batches = (int)settings.pipe.micros,
        .zero = (int)settings.zero,
        .memory_bytes = (uint64_t)settings.memory,
        .pins = pins.list,
        .pin_count = pins.count,
        .cut = settings.pipe.cut,
        .pipe_schedule = settings.pipe.lists == NULL ? settings.pipe.schedule : NULL,
        .pipe_lists = settings.pipe.lists,
        .chunks = (int)settings.pipe.chunks,
        .optimizer = settings.optimizer == NULL
                         ? gy_train_recipe(job->name).optimizer
                         : optimizers[gy_cli_options_choice(OPTIMIZERS, settings.optimizer)],
        .rate = settings.rate,
        .momentum = settings.momentum,
        .weight_decay = settings.weight_decay,
        .schedule = schedules[gy_cli_options_choice(SCHEDULES, settings.schedule)],
        .schedule_factor = settings.factor,
        .warmup_steps = (int)settings.warmup,
        .clip_norm = settings.clip,
        .seed = (uint64_t)settings.seed,
        .patience = (int)settings.patience,
        .checkpoint_folder = settings.checkpoints,
        .checkpoint_every = settings.checkpoint_every,
        .resume = settings.resume,
        .step_limit = settings.steps_max,
        .arg = job,
        .servers = job->update.is_ps ? &job->servers : NULL,
        .recompute = (gy_recompute)gy_cli_options_choice(RECOMPUTES, settings.recompute),
        .precision = gy_cli_type_of(settings.precision),
        .exchange = gy_cli_type_of(settings.exchange),
    };
    gy_cli_device_choose(&job->device, &chosen);
    if (job->is_language) {
        gy_language_recipe(&chosen);
    }
    fill_from_recipe(job, &chosen);
    return chosen;
}

static gy_status on_step(void *arg, const gy_progress *progress)
{
    train_job *job = arg;
    if (progress->is_epoch_end && job->epoch_count < MAX_EPOCHS) {
        job->epoch_steps[job->epoch_count] = (double)progress->step;
        job->epoch_losses[job->epoch_count++] = progress->test_loss;
    }
    if (job->bar != NULL) {
        gy_progress_bar_show(job->bar, progress);
    }
    return GY_OK;
}

static gy_status open_language(train_job *job)
{
    gy_corpus_options options_of_corpus = {.root = settings.data.items[0], .comm = job->comm};
    gy_deadline begin = gy_deadline_after(0);
    GY_TRY(gy_corpus_read(&options_of_corpus, &job->corpus));
    double seconds = (double)(gy_deadline_after(0).at_ns - begin.at_ns) / 1e9;
    if (job->is_first) {
        gy_cli_report_corpus(job->corpus, seconds,
                             job->comm != NULL ? gy_comm_size(job->comm) : 1);
        fflush(stdout);
    }
    GY_TRY(gy_language_dataset(job->corpus, false, &job->train));
    return gy_language_dataset(job->corpus, true, &job->test);
}

static gy_status open_digits(train_job *job)
{
    GY_TRY(gy_dataset_open_mnist(settings.data.items[0], &job->train, &job->test));
    if (job->is_first) {
        printf("%lld digits to train, %lld to test\n", (long long)job->train->count,
               (long long)job->test->count);
        fflush(stdout);
    }
    return GY_OK;
}

/* A file of sparse rows; the folder of the digits otherwise. */
static gy_status open_rows(train_job *job)
{
    struct stat about;
    if (stat(settings.data.items[0], &about) != 0 || !S_ISREG(about.st_mode)) {
        return open_digits(job);
    }
    GY_TRY(gy_dataset_open_libsvm(settings.data.items[0], &job->train, &job->test));
    if (job->is_first) {
        printf("%lld rows to train, %lld to test, %lld features, %d classes\n",
               (long long)job->train->count, (long long)job->test->count,
               (long long)job->train->input_sizes[0], job->train->classes);
        fflush(stdout);
    }
    return GY_OK;
}

static gy_status open_data(train_job *job)
{
    return job->is_language ? open_language(job)
           : job->is_text   ? gy_cli_text_open(job->name, &settings.text, settings.data.items,
                                               job->is_first, &job->train, &job->test)
                            : open_rows(job);
}

static gy_status make_model(train_job *job)
{
    gy_model_options chosen = {
        .dtype = strcmp(settings.dtype, "f64") == 0 ? GY_F64 : GY_F32,
        .seed = (uint64_t)settings.seed,
        .mesh = job->mesh,
        .workers = (int)settings.workers,
        .has_no_overlap = strcmp(settings.overlap, "off") == 0,
    };
    if (job->is_language) {
        return gy_language_model(&chosen, &job->model);
    }
    chosen.input_rank = job->train->input_rank;
    memcpy(chosen.input_sizes, job->train->input_sizes, sizeof(chosen.input_sizes));
    if (job->is_text) {
        return gy_cli_text_model(job->name, &settings.text, job->train, &chosen, &job->model);
    }
    return gy_model_named(job->name, &chosen, job->train->classes, &job->model);
}

static const char *path_of(const train_job *job, const char *name, char out[PATH_BYTES])
{
    snprintf(out, PATH_BYTES, "%s/%s", job->folder, name);
    return out;
}

static gy_status save_curve(const train_job *job)
{
    char title[128], path[PATH_BYTES];
    snprintf(title, sizeof(title), "Training %s", job->name);
    const gy_series series[] = {
        {.name = "train", .y = job->result.losses, .count = (size_t)job->result.steps},
        {.name = "test",
         .x = job->epoch_steps,
         .y = job->epoch_losses,
         .count = job->epoch_count},
    };
    const gy_plot plot = {.title = title,
                          .x_label = "step",
                          .y_label = job->is_text ? "nats a character" : "cross entropy",
                          .series = series,
                          .series_count = job->epoch_count > 0 ? 2 : 1};
    return gy_plot_save(&plot, path_of(job, "loss.svg", path));
}

/* Rank 0 saves the model, to which ranks that have parts of it contribute, and the loss curve;
 * all ranks contribute to the trace. */
static gy_status save_results(const train_job *job)
{
    char path[PATH_BYTES];
    const char *const *notes = job->is_language ? gy_language_metadata() : NULL;
    if (job->is_first || gy_model_is_sharded(job->model)) {
        GY_TRY(gy_model_save(job->model, path_of(job, "model.safetensors", path), notes));
    }
    if (job->is_first) {
        GY_TRY(save_curve(job));
    }
    GY_TRY(gy_trace_save(job->comm, path_of(job, "trace.json", path)));
    if (job->is_first) {
        printf("saved in %s: model.safetensors, loss.svg, trace.json\n", job->folder);
    }
    return GY_OK;
}

/* A training that --steps-max cut short, or that was done before, has not been tested at its
 * end.
 */
static gy_status test_at_end(train_job *job)
{
    gy_train_result *result = &job->result;
    double steps = (double)result->steps;
    if (job->is_language ||
        (job->epoch_count > 0 && job->epoch_steps[job->epoch_count - 1] >= steps)) {
        return GY_OK;
    }
    GY_TRY(gy_model_evaluate(job->model, job->test, 256, &result->test_loss,
                             &result->test_accuracy, NULL));
    if (job->epoch_count < MAX_EPOCHS) {
        job->epoch_steps[job->epoch_count] = steps;
        job->epoch_losses[job->epoch_count++] = result->test_loss;
    }
    return GY_OK;
}

static void report_text(const train_job *job)
{
    const gy_train_result *result = &job->result;
    const double steps = (double)(result->steps - result->resumed_step);
    const double characters = steps * job->samples * (double)job->train->input_sizes[0];
    printf("\ntest loss: %.4f nats a character, accuracy %.2f %%; %.0f characters/s\n",
           result->test_loss, 100 * result->test_accuracy,
           result->update_s > 0 ? characters / result->update_s : 0);
}

/* The table of --stats; the memory is that of the largest rank. */
static gy_status report_stats(const train_job *job)
{
    struct rusage usage;
    const double per_sample = job->is_text ? (double)job->train->input_sizes[0] : 1;
    int64_t peak_bytes = getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss * 1024LL : 0;
    if (job->comm != NULL) {
        GY_TRY(gy_allreduce(job->comm, &peak_bytes, &peak_bytes, 1, GY_I64, GY_MAX));
    }
    if (job->is_first) {
        gy_cli_report_updates(&job->result, job->is_text ? "characters" : "samples", per_sample,
                              peak_bytes);
        gy_cli_device_report_counts(job->model);
    }
    const bool is_trained = job->result.steps > job->result.resumed_step;
    return job->is_first && is_trained && gy_comm_size(job->comm) > 1
               ? gy_cli_report_exchanges(job->model, settings.explain ? 0 : EXCHANGES_SHOWN)
               : GY_OK;
}

static gy_status report(train_job *job)
{
    GY_TRY(test_at_end(job));
    if (job->is_language) {
        gy_language_score score;
        GY_TRY(gy_language_evaluate(job->model, job->corpus, job->comm, &score));
        if (job->is_first) {
            gy_cli_report_score(&score);
        }
    } else if (job->is_first && job->is_text) {
        report_text(job);
    } else if (job->is_first) {
        printf("\ntest accuracy: %.2f %%, loss %.4f\n", 100 * job->result.test_accuracy,
               job->result.test_loss);
    }
    if (job->is_first) {
        gy_cli_report_time(&job->result);
        if (job->result.is_stopped_early) {
            printf("stopped early: no better test loss for %lld epochs\n", settings.patience);
        }
    }
    return settings.stats ? report_stats(job) : GY_OK;
}

/* Every rank compiles, and one prints. */
static gy_status explain(const train_job *job, const gy_train_options *chosen)
{
    char *text = NULL;
    GY_TRY(gy_train_explain(job->model, chosen, &text));
    if (job->is_first) {
        printf("%s", text);
        (void)fflush(stdout); /* before the training's progress, in a file that has both */
    }
    gy_string_free(text);
    return GY_OK;
}

static gy_status make_on(void *arg, gy_mesh *mesh, gy_model **model)
{
    train_job *job = arg;
    job->mesh = mesh;
    job->model = NULL;
    gy_cli_mesh_count(!settings.quiet);
    const gy_status status = make_model(job);
    *model = job->model;
    job->model = NULL;
    job->mesh = NULL;
    return status;
}

/* What is costed on meshes; `step` stays where it is. */
static void open_step(train_job *job, const gy_virtual_cluster *cluster, gy_cli_step *step)
{
    *step = (gy_cli_step){.model = job->name,
                          .mesh = settings.mesh,
                          .options = train_options(job),
                          .unit = job->is_text ? "characters" : "samples",
                          .per_sample = job->is_text ? (double)job->train->input_sizes[0] : 1,
                          .search = GY_OPTIONS(gy_mesh_search, .cluster = *cluster,
                                               .options = &step->options, .train = job->train,
                                               .make = make_on, .arg = job)};
    if (step->search.cluster.memory_bytes == 0) {
        step->search.cluster.memory_bytes = (uint64_t)settings.memory;
    }
}

/* A mesh is chosen for the data, and made before the model. */
static gy_status open_mesh(train_job *job)
{
    gy_virtual_cluster cluster;
    gy_cli_step step;
    const long long given = settings.workers;
    if (job->update.is_ps) {
        return GY_OK;
    }
    if (!gy_cli_mesh_is_auto(settings.mesh) || gy_comm_size(job->comm) == 1) {
        const bool is_auto = gy_cli_mesh_is_auto(settings.mesh); /* of one rank */
        return gy_mesh_new(job->comm, is_auto ? NULL : settings.mesh, &job->mesh);
    }
    GY_TRY(gy_cli_cluster_of(job->comm, settings.cluster, &cluster));
    open_step(job, &cluster, &step);
    if (given == 0) {
        settings.workers = gy_cli_cores_of(gy_comm_local_size(job->comm));
    }
    const gy_status status = gy_mesh_choose(&step.search, job->comm, &job->choice);
    settings.workers = given;
    if (job->is_first && (status >= 0 || status == GY_LIMIT)) {
        gy_cli_mesh_choice(&step, &job->choice, settings.explain);
    }
    GY_TRY(status);
    return gy_mesh_new(job->comm, job->choice.trials[0].mesh.axes, &job->mesh);
}

static gy_status do_job(train_job *job)
{
    GY_TRY(open_data(job));
    GY_TRY(open_mesh(job));
    GY_TRY(make_model(job));
    gy_train_options chosen = train_options(job);
    if (job->choice.count > 0) {
        GY_TRY(gy_mesh_trial_options(&job->choice.trials[0], &chosen, &chosen));
    }
    chosen.on_step = on_step;
    job->samples = (double)chosen.batch * (chosen.accumulate > 0 ? chosen.accumulate : 1);
    if (settings.explain) {
        GY_TRY(explain(job, &chosen));
    }
    gy_trace_begin();
    if (job->is_first && !settings.quiet) {
        GY_TRY(gy_progress_bar_new(STDERR_FILENO, &job->bar));
    }
    gy_status status = gy_train(job->model, job->train, job->test, &chosen, &job->result);
    gy_progress_bar_free(job->bar);
    job->bar = NULL;
    GY_TRY(status);
    GY_TRY(gy_cli_device_report(job->model, job->comm));
    if (job->update.is_ps && !job->is_first) {
        return GY_OK; /* worker 0 tests and saves what all have made */
    }
    GY_TRY(report(job));
    return save_results(job);
}

/* The groups of a mesh are left together. A rank that failed ends instead, for the others may
 * not know of the failure and wait for it elsewhere.
 */
static void end_job(train_job *job, gy_status done)
{
    gy_train_result_free(&job->result);
    gy_model_free(job->model);
    gy_dataset_free(job->train);
    gy_dataset_free(job->test);
    gy_corpus_free(job->corpus);
    gy_pipe_free(settings.pipe.lists);
    if (done == GY_OK) {
        gy_mesh_free(job->mesh);
    }
}

/* Each model has its data, and those of text options of their own. */
static int check_model(const char *name)
{
    static const char *const names = "language|softmax|mlp|lenet|logistic|gpt|lstm";
    const bool is_text = gy_cli_is_text(name);
    if (gy_cli_options_choice(names, name) < 0) {
        return gy_cli_report_usage("gyre train: no model '%s': expected one of %s", name,
                                   names);
    }
    if (settings.data.items[0] == NULL && strcmp(name, "language") != 0) {
        return gy_cli_report_usage(
            "gyre train: --data is missing: expected %s",
            is_text ? "a text file" : "the folder of the digits' IDX files, or a libsvm file");
    }
    if (!is_text && settings.data.items[0] != NULL && settings.data.items[1] != NULL) {
        return gy_cli_report_usage("gyre train: --data '%s': model '%s' takes one folder",
                                   settings.data.items[1], name);
    }
    return gy_cli_text_check(name, &settings.text);
}

/* What ranks that exchange gradients with each other have, and workers do not. */
static int check_update(gy_cli_update *update)
{
    const int read = gy_cli_update_read(settings.update, update);
    const struct {
        const char *name;
        bool is_given;
    } excluded[] = {{"mesh", settings.mesh != NULL},
                    {"zero", settings.zero > 0},
                    {"pin", settings.pins.items[0] != NULL},
                    {"accumulate", settings.accumulate > 1},
                    {"micro-batches", settings.pipe.micros > 0}};
    if (read != GY_EXIT_OK || !update->is_ps) {
        return read;
    }
    for (size_t i = 0; i < sizeof(excluded) / sizeof(excluded[0]); i++) {
        if (excluded[i].is_given) {
            return gy_cli_report_usage("gyre train: --%s and --update ps exclude each other",
                                       excluded[i].name);
        }
    }
    return gy_cli_update_check(update, settings.ranks > 0 ? settings.ranks : 1);
}

/* Check the options that depend on each other. */
static int check_settings(const char *name)
{
    const int status = check_model(name);
    if (status != GY_EXIT_OK) {
        return status;
    }
    if (settings.epochs > 0 && settings.steps > 0) {
        return gy_cli_report_usage("gyre train: --epochs and --steps: expected one of both");
    }
    if ((settings.resume || settings.checkpoint_every > 0) && settings.checkpoints == NULL) {
        return gy_cli_report_usage("gyre train: --%s needs --checkpoints FOLDER",
                                   settings.resume ? "resume" : "checkpoint-every");
    }
    if (strcmp(settings.recompute, "auto") == 0 && settings.memory == 0 &&
        settings.simulate == NULL) { /* which may say it, too */
        return gy_cli_report_usage("gyre train: --recompute auto needs --memory SIZE");
    }
    int typed = gy_cli_types_check(settings.dtype, settings.precision, settings.exchange);
    typed = typed == GY_EXIT_OK ? gy_cli_device_check(settings.device) : typed;
    const int clustered =
        typed != GY_EXIT_OK
            ? typed
            : gy_cli_cluster_check(settings.cluster, settings.mesh, settings.ranks);
    const int piped =
        clustered != GY_EXIT_OK ? clustered : gy_cli_pipe_check(&settings.pipe, settings.mesh);
    const int pinned =
        piped != GY_EXIT_OK ? piped : gy_cli_pins_check(&settings.pins, settings.mesh, &pins);
    return pinned != GY_EXIT_OK || settings.simulate != NULL
               ? pinned
               : gy_cli_ranks_check(settings.mesh, &settings.ranks);
}

static int train_here(train_job *job, bool is_rank)
{
    gy_status joined = gy_comm_world(&job->comm);
    if (joined != GY_OK) {
        return gy_cli_report_failure("train", joined);
    }
    const int rank = gy_comm_rank(job->comm), ranks = gy_comm_size(job->comm);
    job->is_first = rank == 0;
    job->device = gy_cli_device_of(settings.device, job->comm);
    if (is_rank && job->is_first && !gy_cli_make_folder("train", job->folder)) {
        return GY_EXIT_FAILURE;
    }
    if (job->update.is_ps) {
        job->servers =
            GY_OPTIONS(gy_train_servers, .worker = (uint32_t)rank, .workers = (uint32_t)ranks);
        const int found = gy_cli_update_find(&job->update, settings.key, settings.is_plaintext,
                                             job->key, &job->servers);
        if (found != GY_EXIT_OK) {
            return found;
        }
        job->comm = NULL; /* nobody waits for a worker, dead or alive */
    }
    gy_status done = do_job(job);
    end_job(job, done);
    if (done != GY_OK) {
        return gy_cli_report_failure("train", done);
    }
    gy_comm_world_close();
    return GY_EXIT_OK;
}

/* Here, or on ranks; with the servers that belong to it. */
static int start(train_job *job)
{
    const bool is_rank = getenv("GYRE_RANK") != NULL;
    gy_cli_servers servers = {.count = 0};
    if (!is_rank && !gy_cli_make_folder("train", job->folder)) {
        return GY_EXIT_FAILURE;
    }
    if (!is_rank && job->update.count > 0) {
        const int started = gy_cli_servers_start(&job->update, &servers);
        if (started != GY_EXIT_OK) {
            return started;
        }
    }
    const int status =
        is_rank || settings.ranks <= 1 ? train_here(job, is_rank)
        : job->update.is_ps
            ? gy_cli_workers_start(&job->update, (int)settings.ranks, job->folder)
            : gy_cli_start_ranks("train", (int)settings.ranks);
    gy_cli_servers_end(&servers);
    return status;
}

/* A step of this training on ranks that need not exist. */
static int simulate(train_job *job)
{
    gy_virtual_cluster cluster;
    gy_cli_step step;
    const struct {
        const char *name;
        bool is_given;
    } excluded[] = {
        {"ranks", settings.ranks > 0},         {"checkpoints", settings.checkpoints != NULL},
        {"explain", settings.explain},         {"stats", settings.stats},
        {"cluster", settings.cluster != NULL}, {"update", settings.update != NULL},
        {"device", settings.device != NULL}};
    for (size_t i = 0; i < sizeof(excluded) / sizeof(excluded[0]); i++) {
        if (excluded[i].is_given) {
            return gy_cli_report_usage("gyre train: --%s and --simulate exclude each other",
                                       excluded[i].name);
        }
    }
    if (gy_virtual_cluster_parse(settings.simulate, &cluster) < 0) {
        return gy_cli_report_usage("gyre train: --simulate: %s", gy_error_text());
    }
    if (settings.workers == 0) { /* as many as a rank of such a host has here */
        settings.workers = gy_cli_cores_of(cluster.ranks_per_host);
    }
    gy_status status = open_data(job);
    if (status >= 0) {
        open_step(job, &cluster, &step);
    }
    const int ended =
        status < 0 ? gy_cli_report_failure("train", status) : gy_cli_simulate_step(&step);
    end_job(job, status);
    return ended;
}

static int run(char **operands, int operand_count)
{
    static train_job job;
    (void)operand_count;
    int status = check_settings(operands[0]);
    status = status == GY_EXIT_OK ? check_update(&job.update) : status;
    if (status != GY_EXIT_OK) {
        return status;
    }
    job.name = operands[0];
    job.is_language = strcmp(job.name, "language") == 0;
    job.is_text = gy_cli_is_text(job.name);
    size_t room = sizeof(job.folder);
    int size = settings.output != NULL ? snprintf(job.folder, room, "%s", settings.output)
                                       : snprintf(job.folder, room, "out/%s", job.name);
    if (size < 0 || (size_t)size >= room) {
        return gy_cli_report_usage("gyre train: --output: the path is too long");
    }
    return settings.simulate != NULL ? simulate(&job) : start(&job);
}

const gy_command gy_command_train = {
    .name = "train",
    .summary = "train a model: language, softmax, mlp, lenet, logistic, gpt, lstm",
    .operands = "MODEL",
    .operands_least = 1,
    .operands_most = 1,
    .description =
        "Trains MODEL and saves the model, its loss curve and a trace of the training run.\n"
        "  language  classifies lines as C, Python, Perl, prose or shell; its data are the\n"
        "            files of this machine\n"
        "  softmax, mlp, lenet  classify the digits in --data FOLDER (MNIST's IDX files, "
        "plain\n"
        "            or .gz), or rows in --data FILE (libsvm, a tenth of them to test)\n"
        "  logistic  logistic regression: rows of two classes in --data FILE (libsvm)\n"
        "  gpt, lstm  learn the next character of the texts in --data FILE; 'gyre generate' "
        "writes\n"
        "            with them",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
