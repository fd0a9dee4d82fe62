/* gyre train: train one of the models that Gyre knows, and report. */
#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/report.h"
#include "cli/train/job.h"
#include "cli/train/simulate.h"
#include "cli/train/types.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static gy_cli_train_settings settings = {.schedule = "cosine",
                                         .dtype = "f32",
                                         .precision = "f32",
                                         .exchange = "f32",
                                         .recompute = "none",
                                         .overlap = "on",
                                         .seed = 1,
                                         .momentum = 0.9,
                                         .warmup = -1,
                                         .text.dropout = -1};

#define PLACE(member) offsetof(gy_cli_train_settings, member)

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
     GY_CLI_EPOCHS_MAX, NULL},
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
    {&gy_option_patience, GY_OPTION_INTEGER, "default: never", PLACE(patience), 1,
     GY_CLI_EPOCHS_MAX, NULL},
    {&gy_option_steps_max, GY_OPTION_INTEGER, "default: no limit", PLACE(steps_max), 1, INT_MAX,
     NULL},
    {&gy_option_seed, GY_OPTION_INTEGER, "parameters, dropout and sample order; default: 1",
     PLACE(seed), 0, INT_MAX, NULL},
    /* TEXT: of bf16 gy_cli_types_check says more than that it is none of them. */
    {&gy_option_dtype, GY_OPTION_TEXT, "default: f32", PLACE(dtype), 0, 0, DTYPES},
    {&gy_option_precision, GY_OPTION_CHOICE,
     "16 bits are summed in f32, and all else stays f32; default: f32", PLACE(precision), 0, 0,
     PRECISIONS},
    {&gy_option_loss_scale, GY_OPTION_INTEGER,
     "of --precision f16, a power of two; --resume goes on with the checkpoint's; default: "
     "65536",
     PLACE(loss_scale), 1, 1 << 24, NULL},
    {&gy_option_exchange, GY_OPTION_CHOICE, "bf16 halves the bytes; default: f32",
     PLACE(exchange), 0, 0, EXCHANGES},
    {&gy_option_device, GY_OPTION_WORDS,
     "0,1: one for each rank of a host; auto: all that it has, in turn; default: GYRE_DEVICE, "
     "else none",
     PLACE(device), 0, 0, NULL},
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
    {&gy_option_stats, GY_OPTION_FLAG,
     "bytes and times of an update's exchanges, peak memory, what a device did", PLACE(stats),
     0, 0, NULL},
    {&gy_option_quiet, GY_OPTION_FLAG, NULL, PLACE(quiet), 0, 0, NULL},
};

/* What --data of the model is; NULL: it needs none. */
static const char *data_of(const char *name)
{
    return strcmp(name, "language") == 0 ? NULL
           : gy_cli_is_text(name)        ? "a text file"
           : strcmp(name, "lenet") == 0  ? "the folder of the digits' IDX files"
           : strcmp(name, "logistic") == 0
               ? "a libsvm file"
               : "the folder of the digits' IDX files, or a libsvm file";
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
    if (settings.data.items[0] == NULL && data_of(name) != NULL) {
        return gy_cli_report_usage("gyre train: --data is missing: expected %s", data_of(name));
    }
    struct stat about;
    if (strcmp(name, "lenet") == 0 && settings.data.items[0] != NULL &&
        stat(settings.data.items[0], &about) == 0 && S_ISREG(about.st_mode)) {
        return gy_cli_report_usage("gyre train: --data '%s': model 'lenet' takes images: "
                                   "expected %s",
                                   settings.data.items[0], data_of(name));
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
                    {"precision f16", strcmp(settings.precision, "f16") == 0},
                    {"exchange", strcmp(settings.exchange, "f32") != 0}, /* it has codec= */
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
    int typed = gy_cli_types_check(&settings);
    typed = typed == GY_EXIT_OK ? gy_cli_device_check(settings.device) : typed;
    const int clustered =
        typed != GY_EXIT_OK
            ? typed
            : gy_cli_cluster_check(settings.cluster, settings.mesh, settings.ranks);
    const int piped =
        clustered != GY_EXIT_OK ? clustered : gy_cli_pipe_check(&settings.pipe, settings.mesh);
    const int pinned = piped != GY_EXIT_OK ? piped
                                           : gy_cli_pins_check(&settings.pins, settings.mesh,
                                                               &settings.read_pins);
    return pinned != GY_EXIT_OK || settings.simulate != NULL
               ? pinned
               : gy_cli_ranks_check(settings.mesh, &settings.ranks);
}

static int train_here(gy_cli_train_job *job, bool is_rank)
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
    gy_status done = gy_cli_train_job_run(job);
    gy_cli_train_job_end(job, done);
    if (done != GY_OK) {
        return gy_cli_report_failure("train", done);
    }
    gy_comm_world_close();
    return GY_EXIT_OK;
}

/* Here, or on ranks; with the servers that belong to it. */
static int start(gy_cli_train_job *job)
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
static int simulate(gy_cli_train_job *job)
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
    if (job->workers == 0) { /* as many as a rank of such a host has here */
        job->workers = gy_cli_cores_of(cluster.ranks_per_host);
    }
    gy_status status = gy_cli_train_job_open_data(job);
    if (status >= 0) {
        gy_cli_train_job_step(job, &cluster, &step);
    }
    const int ended =
        status < 0 ? gy_cli_report_failure("train", status) : gy_cli_simulate_step(&step);
    gy_cli_train_job_end(job, status);
    return ended;
}

static int run(char **operands, int operand_count)
{
    static gy_cli_train_job job;
    (void)operand_count;
    int status = check_settings(operands[0]);
    status = status == GY_EXIT_OK ? check_update(&job.update) : status;
    if (status != GY_EXIT_OK) {
        return status;
    }
    job.settings = &settings;
    job.workers = settings.workers;
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
        "            or .gz); softmax and mlp also rows in --data FILE (libsvm, a tenth of "
        "them\n"
        "            to test)\n"
        "  logistic  logistic regression: rows of two classes in --data FILE (libsvm)\n"
        "  gpt, lstm  learn the next character of the texts in --data FILE; 'gyre generate' "
        "writes\n"
        "            with them",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
