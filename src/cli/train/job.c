/* One training on this rank: its data, mesh and model, the training itself, the report. */
#include "cli/train/job.h"

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/train/types.h"

#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXCHANGES_SHOWN = 10 };

/* The steps of the training, where --steps or --epochs says how many. */
static long long steps_of(const gy_cli_train_job *job, const gy_train_options *chosen)
{
    const long long batch = chosen->batch * (chosen->accumulate > 0 ? chosen->accumulate : 1);
    return chosen->steps > 0 ? chosen->steps
                             : (job->train->count + batch - 1) / batch * chosen->epochs;
}

/* What the options leave open, by the recipe of the model. */
static void fill_from_recipe(const gy_cli_train_job *job, gy_train_options *chosen)
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
    if (job->settings->warmup < 0) { /* of a short training a tenth */
        const long long most = steps_of(job, chosen) / 10;
        chosen->warmup_steps = recipe.warmup_steps < most ? recipe.warmup_steps : (int)most;
    }
}

static gy_train_options train_options(gy_cli_train_job *job)
{
    const gy_cli_train_settings *said = job->settings;
    static const gy_optimizer_kind optimizers[] = {GY_OPTIMIZER_SGD, GY_OPTIMIZER_MOMENTUM,
                                                   GY_OPTIMIZER_NESTEROV, GY_OPTIMIZER_ADAM,
                                                   GY_OPTIMIZER_ADAMW};
    static const gy_schedule_kind schedules[] = {GY_SCHEDULE_CONSTANT, GY_SCHEDULE_STEP,
                                                 GY_SCHEDULE_COSINE, GY_SCHEDULE_LINEAR};
    gy_train_options chosen = {
        .epochs = (int)said->epochs,
        .steps = said->steps,
        .batch = said->batch,
        .accumulate = (int)said->accumulate,
        .micro_batches = (int)said->pipe.micros,
        .zero = (int)said->zero,
        .memory_bytes = (uint64_t)said->memory,
        .pins = said->read_pins.list,
        .pin_count = said->read_pins.count,
        .cut = said->pipe.cut,
        .pipe_schedule = said->pipe.lists == NULL ? said->pipe.schedule : NULL,
        .pipe_lists = said->pipe.lists,
        .chunks = (int)said->pipe.chunks,
        .optimizer = said->optimizer == NULL
                         ? gy_train_recipe(job->name).optimizer
                         : optimizers[gy_cli_options_choice(OPTIMIZERS, said->optimizer)],
        .rate = said->rate,
        .momentum = said->momentum,
        .weight_decay = said->weight_decay,
        .schedule = schedules[gy_cli_options_choice(SCHEDULES, said->schedule)],
        .schedule_factor = said->factor,
        .warmup_steps = (int)said->warmup,
        .clip_norm = said->clip,
        .seed = (uint64_t)said->seed,
        .patience = (int)said->patience,
        .checkpoint_folder = said->checkpoints,
        .checkpoint_every = said->checkpoint_every,
        .resume = said->resume,
        .step_limit = said->steps_max,
        .arg = job,
        .servers = job->update.is_ps ? &job->servers : NULL,
        .recompute = (gy_recompute)gy_cli_options_choice(RECOMPUTES, said->recompute),
        .precision = gy_cli_type_of(said->precision),
        .loss_scale = (double)said->loss_scale,
        .exchange = gy_cli_type_of(said->exchange),
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
    gy_cli_train_job *job = arg;
    if (progress->is_epoch_end && job->epoch_count < GY_CLI_EPOCHS_MAX) {
        job->epoch_steps[job->epoch_count] = (double)progress->step;
        job->epoch_losses[job->epoch_count++] = progress->test_loss;
    }
    if (job->bar != NULL) {
        gy_progress_bar_show(job->bar, progress);
    }
    return GY_OK;
}

static gy_status open_language(gy_cli_train_job *job)
{
    gy_corpus_options options_of_corpus = {.root = job->settings->data.items[0],
                                           .comm = job->comm};
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

static gy_status open_digits(gy_cli_train_job *job)
{
    GY_TRY(gy_dataset_open_mnist(job->settings->data.items[0], &job->train, &job->test));
    if (job->is_first) {
        printf("%lld digits to train, %lld to test\n", (long long)job->train->count,
               (long long)job->test->count);
        fflush(stdout);
    }
    return GY_OK;
}

/* A file of sparse rows; the folder of the digits otherwise. */
static gy_status open_rows(gy_cli_train_job *job)
{
    struct stat about;
    if (stat(job->settings->data.items[0], &about) != 0 || !S_ISREG(about.st_mode)) {
        return open_digits(job);
    }
    GY_TRY(gy_dataset_open_libsvm(job->settings->data.items[0], &job->train, &job->test));
    if (job->is_first) {
        printf("%lld rows to train, %lld to test, %lld features, %d classes\n",
               (long long)job->train->count, (long long)job->test->count,
               (long long)job->train->input_sizes[0], job->train->classes);
        fflush(stdout);
    }
    return GY_OK;
}

gy_status gy_cli_train_job_open_data(gy_cli_train_job *job)
{
    return job->is_language ? open_language(job)
           : job->is_text
               ? gy_cli_text_open(job->name, &job->settings->text, job->settings->data.items,
                                  job->is_first, &job->train, &job->test)
               : open_rows(job);
}

static gy_status make_model(gy_cli_train_job *job)
{
    gy_model_options chosen = {
        .dtype = strcmp(job->settings->dtype, "f64") == 0 ? GY_F64 : GY_F32,
        .seed = (uint64_t)job->settings->seed,
        .mesh = job->mesh,
        .workers = (int)job->workers,
        .has_no_overlap = strcmp(job->settings->overlap, "off") == 0,
    };
    if (job->is_language) {
        return gy_language_model(&chosen, &job->model);
    }
    chosen.input_rank = job->train->input_rank;
    memcpy(chosen.input_sizes, job->train->input_sizes, sizeof(chosen.input_sizes));
    if (job->is_text) {
        return gy_cli_text_model(job->name, &job->settings->text, job->train, &chosen,
                                 &job->model);
    }
    return gy_model_named(job->name, &chosen, job->train->classes, &job->model);
}

static const char *path_of(const gy_cli_train_job *job, const char *name,
                           char out[GY_CLI_TRAIN_PATH_BYTES])
{
    snprintf(out, GY_CLI_TRAIN_PATH_BYTES, "%s/%s", job->folder, name);
    return out;
}

static gy_status save_curve(const gy_cli_train_job *job)
{
    char title[128], path[GY_CLI_TRAIN_PATH_BYTES];
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
static gy_status save_results(const gy_cli_train_job *job)
{
    char path[GY_CLI_TRAIN_PATH_BYTES];
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

/* How many products have the operands of --precision, of rank 0's step. */
static void report_precision(const gy_cli_train_job *job)
{
    gy_precision_share share;
    const char *precision = job->settings->precision;
    if (!job->is_first || strcmp(precision, "f32") == 0 ||
        !gy_session_precision_share(gy_model_session(job->model), &share)) {
        return;
    }
    if (share.narrowed > 0) {
        printf("precision %s: %d of a step's %d products have it\n", precision, share.narrowed,
               share.products);
    } else {
        printf("precision %s: no product of a step has it: %s (--explain lists all)\n",
               precision, share.why);
    }
}

/* A training that --steps-max cut short, or that was done before, has not been tested at its
 * end.
 */
static gy_status test_at_end(gy_cli_train_job *job)
{
    gy_train_result *result = &job->result;
    double steps = (double)result->steps;
    if (job->is_language ||
        (job->epoch_count > 0 && job->epoch_steps[job->epoch_count - 1] >= steps)) {
        return GY_OK;
    }
    GY_TRY(gy_model_evaluate(job->model, job->test, 256, &result->test_loss,
                             &result->test_accuracy, NULL));
    if (job->epoch_count < GY_CLI_EPOCHS_MAX) {
        job->epoch_steps[job->epoch_count] = steps;
        job->epoch_losses[job->epoch_count++] = result->test_loss;
    }
    return GY_OK;
}

static void report_text(const gy_cli_train_job *job)
{
    const gy_train_result *result = &job->result;
    const double steps = (double)(result->steps - result->resumed_step);
    const double characters = steps * job->samples * (double)job->train->input_sizes[0];
    printf("\ntest loss: %.4f nats a character, accuracy %.2f %%; %.0f characters/s\n",
           result->test_loss, 100 * result->test_accuracy,
           result->update_s > 0 ? characters / result->update_s : 0);
}

/* The table of --stats; the memory is that of the largest rank. */
static gy_status report_stats(const gy_cli_train_job *job)
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
    return job->is_first && is_trained && job->comm != NULL && gy_comm_size(job->comm) > 1
               ? gy_cli_report_exchanges(job->model,
                                         job->settings->explain ? 0 : EXCHANGES_SHOWN)
               : GY_OK;
}

static gy_status report(gy_cli_train_job *job)
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
        gy_cli_report_time(&job->result, gy_model_device(job->model) != NULL);
        if (job->result.is_stopped_early) {
            printf("stopped early: no better test loss for %lld epochs\n",
                   job->settings->patience);
        }
    }
    return job->settings->stats ? report_stats(job) : GY_OK;
}

/* Every rank compiles, and one prints. */
static gy_status explain(const gy_cli_train_job *job, const gy_train_options *chosen)
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
    gy_cli_train_job *job = arg;
    job->mesh = mesh;
    job->model = NULL;
    gy_cli_mesh_count(!job->settings->quiet);
    const gy_status status = make_model(job);
    *model = job->model;
    job->model = NULL;
    job->mesh = NULL;
    return status;
}

void gy_cli_train_job_step(gy_cli_train_job *job, const gy_virtual_cluster *cluster,
                           gy_cli_step *step)
{
    *step = (gy_cli_step){.model = job->name,
                          .mesh = job->settings->mesh,
                          .options = train_options(job),
                          .unit = job->is_text ? "characters" : "samples",
                          .per_sample = job->is_text ? (double)job->train->input_sizes[0] : 1,
                          .search = GY_OPTIONS(gy_mesh_search, .cluster = *cluster,
                                               .options = &step->options, .train = job->train,
                                               .make = make_on, .arg = job)};
    if (step->search.cluster.memory_bytes == 0) {
        step->search.cluster.memory_bytes = (uint64_t)job->settings->memory;
    }
}

/* A mesh is chosen for the data, and made before the model. */
static gy_status open_mesh(gy_cli_train_job *job)
{
    gy_virtual_cluster cluster;
    gy_cli_step step;
    const long long given = job->workers;
    if (job->update.is_ps) {
        return GY_OK;
    }
    if (!gy_cli_mesh_is_auto(job->settings->mesh) || gy_comm_size(job->comm) == 1) {
        const bool is_auto = gy_cli_mesh_is_auto(job->settings->mesh); /* of one rank */
        return gy_mesh_new(job->comm, is_auto ? NULL : job->settings->mesh, &job->mesh);
    }
    GY_TRY(gy_cli_cluster_of(job->comm, job->settings->cluster, &cluster));
    gy_cli_train_job_step(job, &cluster, &step);
    if (given == 0) {
        job->workers = gy_cli_cores_of(gy_comm_local_size(job->comm));
    }
    const gy_status status = gy_mesh_choose(&step.search, job->comm, &job->choice);
    job->workers = given;
    if (job->is_first && (status >= 0 || status == GY_LIMIT)) {
        gy_cli_mesh_choice(&step, &job->choice, job->settings->explain);
    }
    GY_TRY(status);
    return gy_mesh_new(job->comm, job->choice.trials[0].mesh.axes, &job->mesh);
}

/* Before the data are read, which may take long. */
static gy_status find_device(gy_cli_train_job *job)
{
    gy_train_options chosen = {.epochs = 0};
    gy_cli_device_choose(&job->device, &chosen);
    if (job->is_first) {
        gy_cli_device_warn(&job->device);
    }
    return gy_train_find_device(&chosen, job->comm);
}

gy_status gy_cli_train_job_run(gy_cli_train_job *job)
{
    GY_TRY(find_device(job));
    GY_TRY(gy_cli_train_job_open_data(job));
    GY_TRY(open_mesh(job));
    GY_TRY(make_model(job));
    gy_train_options chosen = train_options(job);
    if (job->choice.count > 0) {
        GY_TRY(gy_mesh_trial_options(&job->choice.trials[0], &chosen, &chosen));
    }
    chosen.on_step = on_step;
    job->samples = (double)chosen.batch * (chosen.accumulate > 0 ? chosen.accumulate : 1);
    if (job->settings->explain) {
        GY_TRY(explain(job, &chosen));
    }
    gy_trace_begin();
    if (job->is_first && !job->settings->quiet) {
        GY_TRY(gy_progress_bar_new(STDERR_FILENO, &job->bar));
    }
    gy_status status = gy_train(job->model, job->train, job->test, &chosen, &job->result);
    gy_progress_bar_free(job->bar);
    job->bar = NULL;
    GY_TRY(status);
    report_precision(job);
    GY_TRY(gy_cli_device_report(&job->device, job->model, job->comm));
    if (job->update.is_ps && !job->is_first) {
        return GY_OK; /* worker 0 tests and saves what all have made */
    }
    GY_TRY(report(job));
    return save_results(job);
}

void gy_cli_train_job_end(gy_cli_train_job *job, gy_status done)
{
    gy_train_result_free(&job->result);
    gy_model_free(job->model);
    gy_dataset_free(job->train);
    gy_dataset_free(job->test);
    gy_corpus_free(job->corpus);
    gy_pipe_free(job->settings->pipe.lists);
    if (done == GY_OK) {
        gy_mesh_free(job->mesh);
    }
}
