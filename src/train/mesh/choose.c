/*
 * The mesh that a training takes by itself: a step of it is played on every mesh of the ranks
 * (room graph/simulate), as --simulate plays it, and the cheapest one that fits is taken.
 *
 * Rank 0 looks for all, since measured kernels differ from rank to rank; the others hear of
 * each trial, so that none waits for longer than one takes.
 */
#include "graph/simulate/simulate.h"
#include "train/train.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    MICROS_A_STAGE = 4, /* a bubble of about a fifth */
    REFINED = 3,        /* trials that are tried in other ways */
    WAIT_S = 600        /* a rank waits so long for one trial */
};

/* ---- one mesh ---- */

gy_status gy_mesh_trial_options(const gy_mesh_trial *trial, const gy_train_options *given,
                                gy_train_options *options)
{
    gy_train_options o;
    GY_TRY(gy_options_take(gy_train_options, &o, given));
    GY_ASSERT(trial->micro_batches >= 0);
    o.zero = trial->mesh.zero;
    o.micro_batches = trial->micro_batches;
    if (strstr(trial->mesh.axes, "pipe=") == NULL) {
        o.cut = NULL;
    }
    if (strstr(trial->mesh.axes, "pipe=") == NULL || o.micro_batches == 0) {
        o.pipe_schedule = NULL;
        o.pipe_lists = NULL;
        o.chunks = 0;
    } else if (trial->schedule[0] != '\0') {
        o.pipe_schedule = trial->schedule;
    }
    *options = o;
    return GY_OK;
}

gy_status gy_mesh_trial_play(const gy_mesh_search *search, const gy_kernel_rates *rates,
                             gy_mesh_trial *trial)
{
    gy_train_options options;
    gy_mesh *mesh = NULL;
    gy_model *model = NULL;
    gy_virtual_step step = GY_OPTIONS(gy_virtual_step, .ranks = 0);
    const uint64_t limit_bytes = search->cluster.memory_bytes;
    GY_ASSERT(search->make != NULL);
    GY_TRY(gy_mesh_trial_options(trial, search->options, &options));
    options.memory_bytes = 0;
    gy_status status = gy_mesh_virtual(&search->cluster, trial->mesh.axes, &mesh);
    if (status >= 0) {
        status = search->make(search->arg, mesh, &model);
    }
    if (status >= 0) {
        status = gy_train_simulate_step(model, &options, &search->cluster, rates, &step);
    }
    trial->why[0] = '\0';
    if (status < 0 && status != GY_NOMEM) {
        gy_print(trial->why, sizeof(trial->why), "%s", gy_error_text());
    }
    gy_model_free(model);
    gy_mesh_free(mesh);
    trial->is_played = status >= 0;
    trial->step = step;
    trial->fits = trial->is_played && (limit_bytes == 0 || step.memory_bytes <= limit_bytes);
    return status == GY_NOMEM ? status : GY_OK;
}

/* Below 0: `x` is of more use. What costs the same is decided by fewer axes, then by name. */
static int by_use(const void *a, const void *b)
{
    const gy_mesh_trial *x = a, *y = b;
    if (x->is_played != y->is_played) {
        return x->is_played ? -1 : 1;
    }
    if (x->fits != y->fits) {
        return x->fits ? -1 : 1;
    }
    if (x->step.time_s != y->step.time_s) {
        return x->step.time_s < y->step.time_s ? -1 : 1;
    }
    const size_t length = strlen(x->mesh.axes), other = strlen(y->mesh.axes);
    return length != other ? (length < other ? -1 : 1) : strcmp(x->mesh.axes, y->mesh.axes);
}

void gy_mesh_trials_sort(gy_mesh_trial *trials, int count)
{
    GY_ASSERT(count >= 0);
    qsort(trials, (size_t)count, sizeof(*trials), by_use);
}

/* ---- all of them ---- */

typedef struct chooser {
    gy_mesh_search search;
    gy_comm *comm;                /* NULL: nobody waits */
    const gy_kernel_rates *rates; /* NULL: by search.cluster.flops_s */
    gy_kernel_rates *measured;    /* NULL: none are */
    gy_mesh_choice *choice;
} chooser;

/* All ranks say that rank 0 goes on, or not. */
static gy_status meet(gy_comm *comm, int64_t *is_going_on)
{
    if (comm == NULL || gy_comm_size(comm) == 1) {
        return GY_OK;
    }
    gy_coll_call call = gy_broadcast_call(is_going_on, 1, GY_I64, 0);
    call.timeout_s = WAIT_S;
    return gy_coll_run(comm, &call);
}

static gy_status play(chooser *c, gy_mesh_trial *trial)
{
    int64_t is_going_on = 1;
    GY_ASSERT(c->rates != NULL || c->search.cluster.flops_s > 0);
    GY_TRY(gy_mesh_trial_play(&c->search, c->rates, trial));
    return meet(c->comm, &is_going_on);
}

/* As placement reckons. */
static void count_nominally(gy_virtual_cluster *cluster)
{
    GY_ASSERT(cluster->flops_s == 0);
    cluster->flops_s = gy_simulate_nominal_flops_s;
    cluster->memory_bytes_s =
        cluster->memory_bytes_s > 0 ? cluster->memory_bytes_s : gy_simulate_nominal_bytes_s;
}

/* What one rank would hold: its share of the rows is measured. */
static gy_status check_whole(const chooser *c, const gy_train_options *options, bool *fits)
{
    gy_mesh_search alone = c->search;
    gy_mesh_trial trial = {.mesh = {.axes = "data=1"}};
    *fits = true;
    if (c->search.cluster.memory_bytes == 0) {
        return GY_OK;
    }
    alone.options = options;
    alone.cluster.hosts = alone.cluster.ranks_per_host = 1;
    count_nominally(&alone.cluster);
    GY_TRY(gy_mesh_trial_play(&alone, NULL, &trial));
    *fits = !trial.is_played || trial.fits; /* what cannot be played says why on each mesh */
    return GY_OK;
}

static gy_status find_rates(chooser *c)
{
    gy_model *model = NULL;
    gy_train_options options;
    bool fits = false;
    int64_t is_going_on = 1;
    c->rates = c->search.rates;
    if (c->rates != NULL || c->search.cluster.flops_s > 0) {
        return GY_OK;
    }
    GY_TRY(gy_options_take(gy_train_options, &options, c->search.options));
    const int ranks = gy_virtual_cluster_ranks(&c->search.cluster);
    options.batch = GY_MAX(options.batch / ranks, 1);
    options.cut = NULL;
    options.pins = NULL; /* of axes that one rank does not have */
    options.pin_count = 0;
    GY_TRY(check_whole(c, &options, &fits));
    if (!fits) {
        c->choice->is_nominal = true;
        count_nominally(&c->search.cluster);
        return GY_OK;
    }
    gy_status status = c->search.make(c->search.arg, NULL, &model);
    if (status >= 0) {
        status = gy_train_measure(model, c->search.train, &options, &c->measured);
    }
    gy_model_free(model);
    GY_TRY(status);
    c->rates = c->measured;
    return meet(c->comm, &is_going_on);
}

/* Micro-batches of so many a stage, as the rows of a rank allow; 0: they are not split. */
static int micros_of(const chooser *c, const gy_virtual_mesh *mesh, int a_stage)
{
    const int64_t rows = c->search.options->batch / mesh->data;
    const int64_t wanted = (int64_t)a_stage * mesh->pipe;
    GY_ASSERT(mesh->data >= 1 && mesh->pipe >= 1);
    if (c->search.options->micro_batches > 0) {
        return c->search.options->micro_batches;
    }
    return mesh->pipe > 1 && rows > 1 ? (int)GY_MIN(wanted, rows) : 0;
}

static gy_status try_instead(chooser *c, gy_mesh_trial other, gy_mesh_trial *trial)
{
    GY_ASSERT(other.mesh.pipe > 1);
    GY_TRY(play(c, &other));
    if (by_use(&other, trial) < 0) {
        *trial = other;
    }
    return GY_OK;
}

/* Stages may also take turns on whole batches: where micro-batches are refused, and where the
 * graph is a wave or small parts of a batch cost much. */
static gy_status try_mesh(chooser *c, gy_mesh_trial *trial)
{
    trial->micro_batches = micros_of(c, &trial->mesh, MICROS_A_STAGE);
    GY_TRY(play(c, trial));
    if (trial->micro_batches > 0 && c->search.options->micro_batches == 0) {
        gy_mesh_trial whole = *trial;
        whole.micro_batches = 0;
        GY_TRY(try_instead(c, whole, trial));
    }
    return GY_OK;
}

/* Other numbers of micro-batches, then a schedule whose bubble is smaller. */
static gy_status refine(chooser *c, gy_mesh_trial *trial)
{
    static const int a_stage[] = {1, MICROS_A_STAGE / 2, MICROS_A_STAGE * 2};
    const gy_train_options *o = c->search.options;
    const int first = trial->micro_batches;
    gy_mesh_trial other = *trial;
    if (trial->mesh.pipe == 1 || !trial->is_played || first == 0) {
        return GY_OK;
    }
    for (size_t i = 0; i < GY_COUNT(a_stage); i++) {
        other.micro_batches = micros_of(c, &trial->mesh, a_stage[i]);
        if (other.micro_batches != first) {
            GY_TRY(try_instead(c, other, trial));
        }
    }
    if (o->pipe_schedule != NULL || o->pipe_lists != NULL || o->chunks > 1) {
        return GY_OK;
    }
    other = *trial;
    gy_print(other.schedule, sizeof(other.schedule), "zb-h1");
    return try_instead(c, other, trial);
}

static gy_status try_all(chooser *c)
{
    gy_mesh_choice *choice = c->choice;
    gy_virtual_mesh *meshes = gy_alloc_zero("train.mesh", GY_MESH_TRIALS_MAX, sizeof(*meshes));
    if (meshes == NULL) {
        return GY_NOMEM;
    }
    const int found = gy_virtual_meshes_all(&c->search.cluster, c->search.options->batch,
                                            meshes, GY_MESH_TRIALS_MAX);
    choice->count = GY_MIN(found, GY_MESH_TRIALS_MAX);
    choice->left = found - choice->count;
    gy_status status = GY_OK;
    for (int i = 0; i < choice->count; i++) {
        meshes[i].zero = c->search.options->zero;
        choice->trials[i].mesh = meshes[i];
        status = status >= 0 ? try_mesh(c, &choice->trials[i]) : status;
    }
    gy_free(meshes);
    GY_TRY(status);
    gy_mesh_trials_sort(choice->trials, choice->count);
    for (int i = 0; i < GY_MIN(choice->count, REFINED); i++) {
        GY_TRY(refine(c, &choice->trials[i]));
    }
    gy_mesh_trials_sort(choice->trials, choice->count);
    return GY_OK;
}

/* Is the first one of use? */
static gy_status check_choice(const gy_mesh_choice *choice, uint64_t limit_bytes)
{
    const gy_mesh_trial *trials = choice->trials, *least = trials;
    char needs[32], has[32];
    GY_ASSERT(choice->count > 0);
    if (trials[0].is_played && trials[0].fits) {
        return GY_OK;
    }
    if (!trials[0].is_played) {
        return gy_fail(GY_ARG, "mesh auto: no mesh of these ranks can be used: %s: %s",
                       trials[0].mesh.axes, trials[0].why);
    }
    for (int i = 1; i < choice->count && trials[i].is_played; i++) {
        least = trials[i].step.memory_bytes < least->step.memory_bytes ? &trials[i] : least;
    }
    return gy_fail(GY_LIMIT,
                   "mesh auto: no mesh fits in a rank's %s: %s needs least, %s; choose more "
                   "ranks, a higher stage of zero, or a smaller model or batch",
                   gy_text_bytes(has, limit_bytes), least->mesh.axes,
                   gy_text_bytes(needs, least->step.memory_bytes));
}

static gy_status look(const gy_mesh_search *search, gy_comm *comm, gy_mesh_choice *choice)
{
    chooser c = {.search = *search, .comm = comm, .choice = choice};
    if (search->cluster.flops_s <= 0) {
        GY_TRY(gy_train_can_measure(search->options));
    }
    gy_status status = search->options->batch >= 1
                           ? find_rates(&c)
                           : gy_fail(GY_ARG,
                                     "mesh auto: a batch of %lld rows, expected at "
                                     "least 1",
                                     (long long)search->options->batch);
    if (status >= 0) {
        status = try_all(&c);
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_kernel_rates_free(c.measured);
    return status < 0 ? gy_error_raise(&error)
                      : check_choice(choice, search->cluster.memory_bytes);
}

gy_status gy_mesh_choose(const gy_mesh_search *search, gy_comm *comm, gy_mesh_choice *choice)
{
    gy_mesh_search taken;
    int64_t is_going_on = 0;
    const int ranks = comm != NULL ? gy_comm_size(comm) : 1;
    GY_TRY(gy_options_take(gy_mesh_search, &taken, search));
    memset(choice, 0, sizeof(*choice));
    if (comm == NULL || gy_comm_rank(comm) == 0) {
        GY_TRY(gy_train_tell(comm, look(&taken, comm, choice)));
        GY_TRY(meet(comm, &is_going_on));
    } else {
        do {
            GY_TRY(meet(comm, &is_going_on));
        } while (is_going_on != 0);
        choice->count = 1;
    }
    static_assert(sizeof(gy_mesh_trial) % sizeof(int64_t) == 0, "sent as words");
    return ranks > 1 ? gy_broadcast(comm, &choice->trials[0],
                                    sizeof(gy_mesh_trial) / sizeof(int64_t), GY_I64, 0)
                     : GY_OK;
}
