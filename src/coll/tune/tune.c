/* `gyre tune`: measures, retains what the old table has for other numbers of ranks, writes the
 * table. */
#include "coll/tune/tune_priv.h"

#include <stdlib.h>
#include <string.h>

#include <gyre/tune.h>

enum { DEFAULT_SECONDS = 20 };

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

double gy_tune_median(double *values, size_t count)
{
    GY_ASSERT(count > 0);
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

gy_status gy_tune_agree(const gy_tuner *tuner, double *values, size_t count)
{
    GY_ASSERT(values != NULL && count > 0);
    return gy_allreduce(tuner->comm, values, values, count, GY_F64, GY_MAX);
}

/* Forces the algorithm `name`; NULL: restores what was forced before. No call is in flight. */
static void force(gy_comm *comm, gy_operation operation, const char *name,
                  const gy_forced *before)
{
    GY_ASSERT((unsigned)operation < GY_OPERATION_COUNT);
    gy_forced *forced = &comm->root->forced;
    gy_mutex_lock(&comm->root->lock);
    forced->names[operation] = name != NULL ? name : before->names[operation];
    forced->hash = name != NULL ? (uint32_t)gy_hash(name, strlen(name), 0) | 1 : before->hash;
    gy_mutex_unlock(&comm->root->lock);
}

gy_status gy_tune_time(gy_tuner *tuner, const gy_coll_call *call, const char *name, int calls,
                       double *seconds)
{
    GY_ASSERT(calls > 0);
    gy_comm *comm = tuner->comm;
    const gy_forced before = comm->root->forced;
    GY_TRY(gy_barrier(comm));
    force(comm, call->operation, name, &before);
    double begin = gy_tune_now(tuner);
    gy_status status = GY_OK;
    for (int i = 0; i < calls && status == GY_OK; i++) {
        status = gy_coll_run(comm, call);
    }
    *seconds = (gy_tune_now(tuner) - begin) / calls;
    force(comm, call->operation, NULL, &before);
    return status;
}

/* Copies from the old table the rules of other numbers of ranks and the links that were not
 * measured now. */
static gy_status keep_others(gy_tuner *tuner, const gy_tuning *old)
{
    GY_ASSERT(old != NULL && old != tuner->tuning);
    gy_tuning *tuning = tuner->tuning;
    bool has_shared = tuner->comm->shared != NULL;
    for (int i = 0; i < GY_LINK_CLASSES; i++) {
        if (!tuning->links[i].is_measured) {
            tuning->links[i] = old->links[i];
        }
    }
    for (size_t i = 0; i < old->count; i++) {
        const gy_rule *rule = &old->rules[i];
        bool is_same = rule->ranks == tuner->comm->size &&
                       rule->hosts == tuner->comm->site.hosts.hosts &&
                       (rule->memory != GY_MEMORY_MESSAGES) == has_shared;
        if (!is_same) {
            GY_TRY(gy_tuning_add(tuning, rule));
        }
    }
    return GY_OK;
}

static gy_status find_path(const gy_tune_options *options, char *path, size_t size_bytes)
{
    const char *named = options->path != NULL ? options->path : gy_tuning_named();
    if (named == NULL) {
        return gy_tuning_path(path, size_bytes);
    }
    size_t size = strlen(named);
    if (size >= size_bytes) {
        return gy_fail(GY_ARG, "the path of the table is too long");
    }
    memcpy(path, named, size + 1);
    return GY_OK;
}

/* On rank 0, opens the old table, if it was measured on this machine. */
static gy_status open_old(const char *path, gy_env *env, gy_tuning **old)
{
    GY_ASSERT(*old == NULL);
    char here[GY_MACHINE_BYTES];
    gy_status status = gy_tuning_read(path, env, old);
    if (status == GY_OK && strcmp((*old)->machine, gy_machine_text(here)) != 0) {
        gy_warn("%s was measured on %s: nothing of it stays", path, (*old)->machine);
        gy_tuning_free(*old);
        *old = NULL;
    }
    return status == GY_NOTFOUND ? GY_OK : status;
}

/* Returns this rank's failure, or that another rank has failed. */
static gy_status agree_status(gy_comm *comm, gy_status mine)
{
    GY_ASSERT(mine <= GY_OK);
    gy_error error = {.status = GY_OK};
    int32_t worst = mine;
    if (mine < 0) {
        gy_error_take(&error, mine);
    }
    GY_TRY(gy_allreduce(comm, &worst, &worst, 1, GY_I32, GY_MIN));
    if (mine < 0) {
        return gy_error_raise(&error);
    }
    return worst < 0 ? gy_fail((gy_status)worst, "another rank cannot tune: %s",
                               gy_status_text((gy_status)worst))
                     : GY_OK;
}

static gy_status take_buffers(gy_tuner *tuner)
{
    tuner->in = gy_alloc_zero("coll.tune", 2, GY_TUNE_LARGEST);
    tuner->out = tuner->in + GY_TUNE_LARGEST;
    if (tuner->comm->shared != NULL) {
        tuner->shared_in = gy_pool_take(tuner->comm->pool, 2 * (size_t)GY_TUNE_LARGEST);
        if (tuner->shared_in != NULL) {
            memset(tuner->shared_in, 0, 2 * (size_t)GY_TUNE_LARGEST);
            tuner->shared_out = tuner->shared_in + GY_TUNE_LARGEST;
        }
    }
    bool has_all =
        tuner->in != NULL && (tuner->comm->shared == NULL || tuner->shared_in != NULL);
    return has_all ? GY_OK : GY_NOMEM;
}

static gy_status measure(gy_tuner *tuner)
{
    gy_site *site = &tuner->comm->site;
    const gy_tuning *before = site->tuning;
    GY_ASSERT(tuner->comm->size > 1 && tuner->in != NULL);
    GY_TRY(gy_tune_links(tuner));
    GY_TRY(gy_tuning_seal(tuner->tuning));
    site->tuning = tuner->tuning; /* its links decide which candidates are measured */
    gy_status status = gy_tune_cells(tuner);
    site->tuning = before;
    return status;
}

static gy_status finish(gy_tuner *tuner, const gy_tuning *old, const char *path, char **report)
{
    GY_ASSERT(tuner->comm->rank == 0);
    gy_text text = {.data = NULL};
    if (old != NULL) {
        GY_TRY(keep_others(tuner, old));
    }
    GY_TRY(gy_tuning_seal(tuner->tuning));
    GY_TRY(gy_tuning_write(tuner->tuning, path, tuner->comm->transport->env));
    gy_text_add(&text, "table %08x of %zu choices in %s\n", tuner->tuning->hash,
                tuner->tuning->count, path);
    gy_tuning_show_links(tuner->tuning, &text);
    *report = text.data;
    return text.status;
}

static gy_status tune(gy_tuner *tuner, const gy_tune_options *options, char **report)
{
    gy_comm *comm = tuner->comm;
    gy_env *env = comm->transport->env;
    char path[4096];
    gy_tuning *old = NULL;
    double seconds = options->duration_s > 0 ? options->duration_s : DEFAULT_SECONDS;
    tuner->end_ns = gy_now_ns(env) + (int64_t)(seconds * 1e9);
    gy_machine_text(tuner->tuning->machine);
    gy_status status = find_path(options, path, sizeof(path));
    if (status == GY_OK && comm->rank == 0) {
        status = open_old(path, env, &old);
    }
    status = status == GY_OK ? take_buffers(tuner) : status;
    status = agree_status(comm, status);
    status = status == GY_OK ? measure(tuner) : status;
    if (status == GY_OK) {
        status = agree_status(comm, comm->rank == 0 ? finish(tuner, old, path, report) : GY_OK);
    }
    gy_tuning_free(old);
    return status;
}

gy_status gy_tune(gy_comm *comm, const gy_tune_options *options, char **report)
{
    GY_ASSERT(comm != NULL && report != NULL);
    gy_tune_options known;
    GY_TRY(gy_options_take(gy_tune_options, &known, options));
    options = &known;
    gy_tuner tuner = {.comm = comm};
    *report = NULL;
    if (comm->size < 2) {
        return gy_fail(GY_ARG, "one rank alone has nothing to tune: expected 2 or more");
    }
    tuner.tuning = gy_alloc_zero("coll.tune", 1, sizeof(*tuner.tuning));
    if (tuner.tuning == NULL) {
        return GY_NOMEM;
    }
    gy_status status = tune(&tuner, options, report);
    gy_free(tuner.in);
    if (tuner.shared_in != NULL) {
        gy_pool_give(comm->pool, tuner.shared_in);
    }
    gy_tuning_free(tuner.tuning);
    return status;
}
