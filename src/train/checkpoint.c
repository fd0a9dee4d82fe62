/**
 * Checkpoints: all parameters, the optimizer's state and the place in the data, in one file
 * that is there whole or not at all; each rank writes and reads its parts. The two newest are
 * kept.
 *
 * What a resumed training must agree on (data, batch, seed, optimizer, layers) is written
 * beside and compared, so that a resume either continues the same run bit for bit or says what
 * differs.
 */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT = 2, SEEN_LIMIT = 4096, PATH_BYTES = 4096, ITEM_BYTES = 160 };

/* Of the file's metadata; raised when a reader of the old one would go wrong. */
static const char format_version[] = "1";

/* Micro-batches give the update of the whole batch unless something normalises by its rows. */
static bool has_row_norm(const gy_model *model)
{
    GY_ASSERT(model->graph != NULL);
    for (int32_t i = 0; i < model->graph->node_count; i++) {
        const gy_op *op = model->graph->nodes[i].op;
        if (op == &gy_ops_row_batch_norm || op == &gy_ops_row_variance) {
            return true;
        }
    }
    return false;
}

/* Everything that decides the results of a run beyond rounding, as one text. */
static void fingerprint(const gy_model *model, const gy_train_options *o, gy_dataset *train,
                        gy_text *text)
{
    gy_text_add(text, "samples %lld, batch %lld, accumulate %d, seed %llu, ",
                (long long)train->count, (long long)o->batch, o->accumulate,
                (unsigned long long)o->seed);
    gy_text_add(text, "optimizer %d, rate %.17g, momentum %.17g, beta1 %.17g, beta2 %.17g, ",
                (int)o->optimizer, o->rate, o->momentum, o->beta1, o->beta2);
    gy_text_add(text, "epsilon %.17g, weight decay %.17g, clip %.17g, ", o->epsilon,
                o->weight_decay, o->clip_norm);
    gy_text_add(text, "schedule %d %.17g %d, warmup %d, ", (int)o->schedule, o->schedule_factor,
                o->schedule_every, o->warmup_steps);
    if (o->micro_batches > 0 && has_row_norm(model)) {
        gy_text_add(text, "micro-batches %d, ", o->micro_batches);
    }
    if (o->weight_decay_rank_min > 0) {
        gy_text_add(text, "weight decay from rank %d, ", o->weight_decay_rank_min);
    }
    if (o->steps > 0) {
        gy_text_add(text, "steps %lld, ", (long long)o->steps);
    }
    if (gy_train_is_narrow(o)) {
        gy_text_add(text, "precision %s, ", gy_dtype_name(o->precision));
    }
    if (o->exchange == GY_BF16) {
        gy_text_add(text, "exchange bf16, ");
    }
    if (o->servers != NULL) {
        char sync[32];
        gy_ps_sync_print(o->servers->sync, sync, sizeof(sync));
        gy_text_add(text, "parameter servers for %u workers, sync %s, fetch %d, ",
                    o->servers->workers, sync, o->servers->fetch);
        gy_text_add(text, "codec %d of %.17g, ", (int)o->servers->codec.kind,
                    o->servers->codec.share);
    }
    gy_text_add(text, "epochs %d, model seed %llu, type %s, ", o->epochs,
                (unsigned long long)model->seed, gy_dtype_name(model->dtype));
    if (model->layers != NULL) {
        gy_text_add(text, "layers ");
        gy_train_layers_text(model->layers, model->layer_count, text);
    } else {
        gy_model_describe(model, text);
    }
}

/* "0, 2", or "none". */
static void frozen_text(const gy_model *model, gy_text *text)
{
    int count = 0;
    for (int i = 0; i < model->layer_count; i++) {
        if (model->is_frozen[i]) {
            gy_text_add(text, "%s%d", count++ == 0 ? "" : ", ", i);
        }
    }
    gy_text_add(text, "%s", count == 0 ? "none" : "");
}

enum { PROBES = 16 };

/* A hash of some samples, evenly spread, and the last: other data of the same number are
 * another run. */
static gy_status data_text(const gy_model *model, gy_dataset *train, char out[32])
{
    int64_t indices[PROBES];
    const int64_t count = GY_MIN(train->count, PROBES);
    for (int64_t i = 0; i < count; i++) {
        indices[i] = count == 1 ? 0 : (train->count - 1) / (count - 1) * i;
    }
    indices[count - 1] = train->count - 1;
    gy_batch batch;
    gy_tensor *x = NULL, *labels = NULL;
    GY_TRY(gy_batch_new(model, count, &batch));
    gy_status status = gy_batch_fill(&batch, train, indices, count, &x, &labels);
    if (status == GY_OK) {
        gy_tensor *const both[] = {x, labels};
        uint64_t hash = 0;
        for (size_t i = 0; i < GY_COUNT(both); i++) {
            const gy_view view = gy_tensor_pin(both[i]);
            hash = gy_hash(view.data, (size_t)gy_view_count(&view) * gy_dtype_bytes(view.dtype),
                           hash);
            gy_tensor_unpin(both[i]);
            gy_tensor_drop(both[i]);
        }
        snprintf(out, 32, "%016llx", (unsigned long long)hash);
    }
    gy_batch_free(&batch);
    return status;
}

/* Older checkpoints say nothing of the samples. */
static gy_status check_data(const gy_bundle *bundle, const gy_model *model, gy_dataset *train)
{
    const char *kept = gy_bundle_get(bundle, "gyre.data");
    char own[32] = "";
    if (kept == NULL) {
        return GY_OK;
    }
    GY_TRY(data_text(model, train, own));
    return strcmp(kept, own) == 0
               ? GY_OK
               : gy_fail(GY_MISMATCH,
                         "of another training run: the %lld samples of data set %s are others "
                         "now (resume with the same data, or choose an empty folder)",
                         (long long)train->count, train->ops->name);
}

static gy_status set_texts(gy_bundle *bundle, const gy_model *model,
                           const gy_train_options *options, gy_dataset *train,
                           const gy_train_state *state)
{
    char number[64];
    gy_text print = {.data = NULL};
    fingerprint(model, options, train, &print);
    gy_status status = print.status;
    if (status == GY_OK) {
        status = gy_bundle_set(bundle, "gyre.checkpoint", gy_text_get(&print));
    }
    gy_text_free(&print);
    GY_TRY(status);
    gy_text frozen = {.data = NULL};
    frozen_text(model, &frozen);
    status = frozen.status < 0
                 ? frozen.status
                 : gy_bundle_set(bundle, "gyre.frozen_layers", gy_text_get(&frozen));
    gy_text_free(&frozen);
    GY_TRY(status);
    GY_TRY(data_text(model, train, number));
    GY_TRY(gy_bundle_set(bundle, "gyre.data", number));
    GY_TRY(gy_bundle_set(bundle, "gyre.format", format_version));
    snprintf(number, sizeof(number), "%lld", (long long)state->step);
    GY_TRY(gy_bundle_set(bundle, "gyre.step", number));
    snprintf(number, sizeof(number), "%a", state->best_loss);
    GY_TRY(gy_bundle_set(bundle, "gyre.best_loss", number));
    snprintf(number, sizeof(number), "%llu", (unsigned long long)state->updates);
    GY_TRY(state->updates > 0 ? gy_bundle_set(bundle, "gyre.updates", number) : GY_OK);
    snprintf(number, sizeof(number), "%d", state->epochs_worse);
    return gy_bundle_set(bundle, "gyre.epochs_worse", number);
}

static gy_status add_losses(gy_bundle *bundle, const gy_train_state *state)
{
    gy_tensor *losses = NULL;
    GY_TRY(gy_tensor_from(NULL, GY_F64, &state->step, 1, state->losses, &losses));
    gy_status status = gy_bundle_add(bundle, GY_TRAIN_LOSSES, losses);
    gy_tensor_drop(losses);
    return status;
}

/* "step-000000000042.safetensors" -> 42; -1 for other names. */
static int64_t step_of(const char *name)
{
    static const char before[] = "step-";
    size_t head = sizeof(before) - 1;
    if (strncmp(name, before, head) != 0 || strspn(name + head, "0123456789") != 12 ||
        strcmp(name + head + 12, ".safetensors") != 0) {
        return -1;
    }
    return strtoll(name + head, NULL, 10);
}

static void path_of(const char *folder, int64_t step, char *path, size_t size)
{
    snprintf(path, size, "%s/step-%012lld.safetensors", folder, (long long)step);
}

/* The newest `limit` steps of the folder's checkpoints, newest first; none without a folder. */
static gy_status list_steps(const char *folder, int64_t *steps, int limit, int *count)
{
    *count = 0;
    DIR *entries = opendir(folder);
    if (entries == NULL) {
        return errno == ENOENT ? GY_OK
                               : gy_fail(GY_IO, "%s: cannot list: %s", folder, strerror(errno));
    }
    const struct dirent *entry = NULL;
    while (errno = 0, (entry = readdir(entries)) != NULL) {
        int64_t step = step_of(entry->d_name);
        if (step < 0) {
            continue;
        }
        int at = *count < limit ? (*count)++ : limit;
        for (; at > 0 && steps[at - 1] < step; at--) {
            if (at < limit) {
                steps[at] = steps[at - 1];
            }
        }
        if (at < limit) {
            steps[at] = step;
        }
    }
    gy_status status =
        errno == 0 ? GY_OK : gy_fail(GY_IO, "%s: cannot list: %s", folder, strerror(errno));
    closedir(entries);
    return status;
}

/* Only the newest stay; one that cannot be removed is named and harms nobody. */
static gy_status remove_old(const char *folder)
{
    int64_t *steps = gy_alloc("train.checkpoint", SEEN_LIMIT * sizeof(*steps));
    if (steps == NULL) {
        return GY_NOMEM;
    }
    int count = 0;
    gy_status status = list_steps(folder, steps, SEEN_LIMIT, &count);
    for (int i = KEPT; status == GY_OK && i < count; i++) {
        char path[PATH_BYTES];
        path_of(folder, steps[i], path, sizeof(path));
        if (unlink(path) != 0) {
            gy_warn("%s: cannot remove: %s", path, strerror(errno));
        }
    }
    gy_free(steps);
    return status;
}

/* Texts are rank 0's; the losses, too, which all ranks have alike. */
static gy_status fill_bundle(gy_bundle *bundle, const gy_model *model,
                             const gy_train_options *options, gy_dataset *train,
                             const gy_train_state *state)
{
    GY_TRY(gy_train_slots_outline(model, true, bundle));
    GY_TRY(add_losses(bundle, state));
    return model->comm == NULL || gy_comm_rank(model->comm) == 0
               ? set_texts(bundle, model, options, train, state)
               : GY_OK;
}

/* What a killed run left behind in the middle of writing; the folder is this run's alone. */
static void remove_unfinished(const char *folder)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry = NULL;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        const char *name = entry->d_name;
        size_t size = strlen(name);
        if (strncmp(name, ".gyre-", 6) == 0 && size > 4 &&
            strcmp(name + size - 4, ".tmp") == 0) {
            (void)unlinkat(dirfd(entries), name, 0); /* in vain at worst */
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
}

gy_status gy_train_checkpoint_check_folder(const gy_train_options *options)
{
    const char *folder = options->checkpoint_folder;
    if (strlen(folder) + 64 > PATH_BYTES) {
        return gy_fail(GY_ARG, "checkpoint folder: path too long: %.60s…", folder);
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return gy_fail(GY_IO, "%s: cannot make the checkpoint folder: %s", folder,
                       strerror(errno));
    }
    struct stat about;
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode)) {
        return gy_fail(GY_IO, "%s: cannot keep checkpoints here: it is not a folder", folder);
    }
    if (access(folder, W_OK | X_OK) != 0) {
        return gy_fail(GY_IO, "%s: cannot write checkpoints: %s", folder, strerror(errno));
    }
    int64_t newest = -1;
    int count = 0;
    GY_TRY(list_steps(folder, &newest, 1, &count));
    if (count > 0 && !options->resume) {
        return gy_fail(GY_EXISTS,
                       "%s: has a checkpoint of an earlier training run (step %lld): resume "
                       "it, or choose an empty folder",
                       folder, (long long)newest);
    }
    return GY_OK;
}

static gy_status prepare_here(const gy_train_options *options)
{
    GY_TRY(gy_train_checkpoint_check_folder(options));
    remove_unfinished(options->checkpoint_folder);
    return GY_OK;
}

gy_status gy_train_checkpoint_prepare(gy_model *model, const gy_train_options *options)
{
    gy_status status = GY_OK;
    if (model->comm == NULL || gy_comm_rank(model->comm) == 0) {
        status = prepare_here(options);
    }
    return gy_session_agree(model->comm, status);
}

gy_status gy_train_checkpoint_write(gy_model *model, const gy_train_options *options,
                                    gy_dataset *train, const gy_train_state *state)
{
    char path[PATH_BYTES];
    gy_bundle *bundle = NULL;
    const char *folder = options->checkpoint_folder;
    const bool is_first = model->comm == NULL || gy_comm_rank(model->comm) == 0;
    path_of(folder, state->step, path, sizeof(path));
    gy_status status = gy_bundle_new(&bundle);
    if (status == GY_OK) {
        status = fill_bundle(bundle, model, options, train, state);
    }
    status = gy_session_agree(model->comm, status);
    if (status == GY_OK) {
        status = gy_session_save(model->session, model->comm, bundle, path);
    }
    gy_bundle_free(bundle);
    GY_TRY(status);
    return gy_session_agree(model->comm, is_first ? remove_old(folder) : GY_OK);
}

/* Where the first item of two fingerprints that differs begins; items are set off by commas,
 * layers by semicolons. */
static size_t first_difference(const char *a, const char *b)
{
    size_t at = 0;
    while (a[at] == b[at] && a[at] != '\0') {
        at++;
    }
    while (at > 0 && !(at > 1 && strchr(",;", a[at - 2]) != NULL && a[at - 1] == ' ')) {
        at--;
    }
    return at;
}

/* The item of a fingerprint at `from`, with names for the numbers of kinds. */
static const char *item_text(const char *from, char out[ITEM_BYTES])
{
    static const char *const optimizers[] = {"sgd", "momentum", "nesterov", "adam", "adamw"};
    static const char *const schedules[] = {"constant", "step", "cosine", "linear"};
    int kind = -1;
    if (sscanf(from, "optimizer %d", &kind) == 1 && kind >= 0 &&
        kind < (int)GY_COUNT(optimizers)) {
        snprintf(out, ITEM_BYTES, "optimizer %s", optimizers[kind]);
    } else if (sscanf(from, "schedule %d", &kind) == 1 && kind >= 0 &&
               kind < (int)GY_COUNT(schedules)) {
        double factor = 0;
        int every = 0;
        (void)sscanf(from, "schedule %*d %lf %d", &factor, &every);
        snprintf(out, ITEM_BYTES, "schedule %s, factor %g every %d", schedules[kind], factor,
                 every);
    } else {
        snprintf(out, ITEM_BYTES, "%.*s", (int)strcspn(from, ",;"), from);
    }
    return out;
}

/* The item of `all` at `from`, in quotes; where the other text has one here that `all` has
 * nowhere, "no " and its first word: "no zero"; of types that are left out 'precision f32'. */
static const char *item_beside(const char *from, const char *other, const char *all,
                               char out[ITEM_BYTES])
{
    char item[ITEM_BYTES], key[ITEM_BYTES];
    GY_ASSERT(from >= all);
    snprintf(key, sizeof(key), "%.*s ", (int)strcspn(other, " ,;"), other);
    if (strncmp(from, key, strlen(key)) == 0 || strstr(all, key) != NULL) {
        snprintf(out, ITEM_BYTES, "'%.*s'", ITEM_BYTES - 4, item_text(from, item));
    } else if (strcmp(key, "precision ") == 0 || strcmp(key, "exchange ") == 0) {
        /* f32 is not in the text */
        snprintf(out, ITEM_BYTES, "'%.*sf32'", ITEM_BYTES - 8, key);
    } else {
        snprintf(out, ITEM_BYTES, "no %.*s", (int)strlen(key) - 1, key);
    }
    return out;
}

/* ---- ranks that train together ---- */

enum { SHOWN_WORDS = 512 }; /* of a text, eight bytes each: enough to say what differs */

/* What a resumed training may choose anew, but not each rank for itself. */
static gy_status shared_text(const gy_model *model, const gy_train_options *o,
                             gy_dataset *train, const gy_dataset *test, gy_text *text)
{
    GY_ASSERT(model->comm != NULL && o->pin_count >= 0);
    gy_text_add(text,
                "tests %lld, zero %d, recompute %d, micro-batches %d, chunks %d, patience %d, ",
                (long long)(test != NULL ? test->count : 0), o->zero, (int)o->recompute,
                o->micro_batches, o->chunks, o->patience);
    gy_text_add(text, "loss scale %.17g, ", o->loss_scale);
    gy_text_add(text, "memory %llu, cut %s, pipe-schedule %s, ",
                (unsigned long long)o->memory_bytes, o->cut != NULL ? o->cut : "-",
                o->pipe_schedule != NULL ? o->pipe_schedule : "-");
    for (int i = 0; i < o->pin_count; i++) {
        const gy_parameter_pin *pin = &o->pins[i];
        gy_text_add(text, "pin %s:%s=%d.%d, ", pin->name, pin->axis, (int)pin->placement.kind,
                    (int)pin->placement.dim);
    }
    if (o->pipe_lists != NULL) {
        char *lists = NULL;
        GY_TRY(gy_pipe_print(o->pipe_lists, GY_PIPE_ALL, &lists));
        gy_text_add(text, "lists %016llx, ",
                    (unsigned long long)gy_hash(lists, strlen(lists), 0));
        gy_string_free(lists);
    }
    fingerprint(model, o, train, text);
    return text->status;
}

/* `other` and rank 0 differ: all ranks say what `other` finds. */
static gy_status tell_difference(gy_comm *comm, int other, const char *text)
{
    int64_t shown[SHOWN_WORDS] = {0};
    char theirs[ITEM_BYTES], ours[ITEM_BYTES], *words = (char *)shown;
    const int rank = gy_comm_rank(comm);
    GY_ASSERT(other > 0 && other < gy_comm_size(comm));
    if (rank == 0) {
        snprintf(words, sizeof(shown), "%s", text);
    }
    GY_TRY(gy_broadcast(comm, shown, SHOWN_WORDS, GY_I64, 0));
    if (rank == other) {
        char found[2 * ITEM_BYTES + 64];
        const size_t from = first_difference(words, text);
        snprintf(found, sizeof(found), "rank %d has %s, rank 0 %s", other,
                 item_beside(text + from, words + from, text, ours),
                 item_beside(words + from, text + from, words, theirs));
        memset(shown, 0, sizeof(shown));
        snprintf(words, sizeof(shown), "%s", found);
    }
    GY_TRY(gy_broadcast(comm, shown, SHOWN_WORDS, GY_I64, other));
    return gy_fail(GY_MISMATCH, "training: %s: all ranks of a training have the same", words);
}

gy_status gy_train_check_alike(const gy_model *model, const gy_train_options *options,
                               gy_dataset *train, const gy_dataset *test)
{
    gy_text text = {.data = NULL};
    gy_comm *comm = model->comm;
    if (comm == NULL || gy_comm_size(comm) == 1) {
        return GY_OK;
    }
    const int ranks = gy_comm_size(comm);
    int64_t *hashes = gy_alloc("train.alike", (size_t)ranks * sizeof(*hashes));
    gy_status status = shared_text(model, options, train, test, &text);
    status = gy_train_tell(comm, hashes == NULL ? GY_NOMEM : status);
    if (status >= 0) {
        const char *own = gy_text_get(&text);
        const int64_t hash = (int64_t)gy_hash(own, strlen(own), 0);
        status = gy_allgather(comm, &hash, hashes, 1, GY_I64);
    }
    for (int rank = 1; rank < ranks && status >= 0; rank++) {
        GY_ASSERT(hashes != NULL);
        if (hashes[rank] != hashes[0]) {
            status = tell_difference(comm, rank, gy_text_get(&text));
        }
    }
    gy_free(hashes);
    gy_text_free(&text);
    return status;
}

/* ---- reading ---- */

/* Older checkpoints do not say: none were. */
static gy_status check_frozen(const gy_bundle *bundle, const gy_model *model)
{
    const char *kept = gy_bundle_get(bundle, "gyre.frozen_layers");
    gy_text own = {.data = NULL};
    frozen_text(model, &own);
    gy_status status = own.status;
    kept = kept != NULL ? kept : "none";
    if (status == GY_OK && strcmp(kept, gy_text_get(&own)) != 0) {
        status =
            gy_fail(GY_MISMATCH,
                    "of another training run: its frozen layers are %s, this training run's %s",
                    kept, gy_text_get(&own));
    }
    gy_text_free(&own);
    return status;
}

static gy_status check_fingerprint(const gy_bundle *bundle, const gy_model *model,
                                   const gy_train_options *options, gy_dataset *train)
{
    const char *kept = gy_bundle_get(bundle, "gyre.checkpoint");
    if (kept == NULL) {
        return gy_fail(GY_FORMAT, "no 'gyre.checkpoint' in the metadata: not a checkpoint");
    }
    gy_text print = {.data = NULL};
    fingerprint(model, options, train, &print);
    gy_status status = print.status;
    if (status == GY_OK && strcmp(kept, gy_text_get(&print)) != 0) {
        char theirs[ITEM_BYTES], ours[ITEM_BYTES];
        const char *own = gy_text_get(&print);
        const size_t from = first_difference(kept, own);
        status = gy_fail(GY_MISMATCH,
                         "of another training run: it has %s, this training run %s (resume "
                         "with what it has, or choose an empty folder)",
                         item_beside(kept + from, own + from, kept, theirs),
                         item_beside(own + from, kept + from, own, ours));
    }
    gy_text_free(&print);
    GY_TRY(status);
    GY_TRY(check_frozen(bundle, model));
    return check_data(bundle, model, train);
}

static gy_status get_number(const gy_bundle *bundle, const char *key, double *value)
{
    const char *text = gy_bundle_get(bundle, key);
    char *end = NULL;
    *value = text == NULL ? 0 : strtod(text, &end);
    return text != NULL && end != text && *end == '\0'
               ? GY_OK
               : gy_fail(GY_FORMAT, "'%s' is missing or no number", key);
}

/* Sums of gradients are zeros between updates: a checkpoint of batches that were not split has
 * none, and says nothing by that. */
static bool is_in(const gy_bundle *bundle, const gy_train_slot *slot)
{
    size_t index = 0;
    GY_ASSERT(slot->name[0] != '\0');
    return !gy_train_is_gradient_sum(slot) || gy_bundle_index(bundle, slot->name, &index);
}

static gy_status restore(const gy_bundle *bundle, gy_model *model, gy_train_state *state)
{
    double step = 0;
    double worse = 0;
    double best = 0;
    double updates = 0;
    GY_TRY(get_number(bundle, "gyre.step", &step));
    GY_TRY(get_number(bundle, "gyre.best_loss", &best));
    GY_TRY(get_number(bundle, "gyre.epochs_worse", &worse));
    if (gy_bundle_get(bundle, "gyre.updates") != NULL) {
        GY_TRY(get_number(bundle, "gyre.updates", &updates));
    }
    size_t losses = 0;
    const bool has_losses = gy_bundle_index(bundle, GY_TRAIN_LOSSES, &losses);
    const gy_view shape = has_losses ? gy_bundle_shape(bundle, losses) : (gy_view){.rank = 0};
    if (!(step >= 0 && step < 1e15) || !has_losses || shape.dtype != GY_F64 ||
        gy_view_count(&shape) != (int64_t)step) {
        return gy_fail(GY_FORMAT, "step %g does not fit the saved losses", step);
    }
    if (!(worse >= 0 && worse <= 1e9)) {
        return gy_fail(GY_FORMAT, "'gyre.epochs_worse' is %g, expected 0 to 1e9", worse);
    }
    if (!(updates >= 0 && updates <= 1e15)) {
        return gy_fail(GY_FORMAT, "'gyre.updates' is %g, expected 0 to 1e15", updates);
    }
    /* All are looked at, and memory is taken, before any is changed. */
    GY_TRY(GY_GROW("train.losses", state->losses, state->loss_capacity, (size_t)step));
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *made = NULL;
        GY_TRY(is_in(bundle, &model->slots[i])
                   ? gy_train_slot_check(model, &model->slots[i], bundle)
                   : GY_OK);
        if (!gy_session_is_elsewhere(model->session, model->slots[i].name)) {
            GY_TRY(gy_train_slot_tensor(model, model->slots[i].name, &made));
        }
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        GY_TRY(is_in(bundle, &model->slots[i])
                   ? gy_session_read_part(model->session, model->slots[i].name, bundle)
                   : GY_OK);
    }
    const gy_box all = gy_box_whole(&shape);
    GY_TRY(gy_bundle_read_box(bundle, losses, &all, 0, (int64_t)step, state->losses));
    state->step = (int64_t)step;
    state->updates = (uint64_t)updates;
    state->best_loss = best;
    state->epochs_worse = (int)worse;
    return GY_OK;
}

/* Whole, and of a format that this version knows: a newer one is no damage to pass over. */
static gy_status check_format(const gy_bundle *bundle)
{
    if (!gy_bundle_is_verified(bundle)) {
        return gy_fail(GY_FORMAT, "no checksum: not a checkpoint that this program wrote");
    }
    const char *format = gy_bundle_get(bundle, "gyre.format");
    if (format == NULL) {
        return gy_fail(GY_FORMAT, "no 'gyre.format' in the metadata: not a checkpoint");
    }
    return strcmp(format, format_version) == 0
               ? GY_OK
               : gy_fail(GY_UNSUPPORTED, "checkpoint format %.20s, this version reads %s",
                         format, format_version);
}

/* What is wrong with a file is found before any value changes. */
static gy_status check(gy_bundle *bundle, const gy_model *model,
                       const gy_train_options *options, gy_dataset *train, double *scale)
{
    GY_TRY(gy_session_verify(model->comm, bundle));
    gy_status status = check_format(bundle);
    if (status == GY_OK) {
        status = check_fingerprint(bundle, model, options, train);
    }
    if (status == GY_OK) {
        status = gy_train_scale_kept(bundle, options, scale);
    }
    return gy_session_agree(model->comm, status);
}

/* The scale of a checkpoint (0: none) is gone on from, whatever the options say. */
static void warn_scale(const char *path, const gy_model *model, double given, double scale)
{
    GY_ASSERT(given >= 0 && scale >= 0);
    const bool is_first = model->comm == NULL || gy_comm_rank(model->comm) == 0;
    if (given > 0 && scale > 0 && given != scale && is_first) {
        gy_warn("%s: the loss scale goes on from the checkpoint's %.12g, not from %.12g, which "
                "was given",
                path, scale, given);
    }
}

static gy_status read_one(const char *path, gy_model *model, const gy_train_options *options,
                          gy_dataset *train, gy_train_state *state)
{
    gy_bundle *bundle = NULL;
    double scale = 0;
    gy_status status = gy_bundle_open(gy_env_real(), path, &bundle);
    status = gy_session_agree(model->comm, status);
    if (status == GY_OK) {
        status = check(bundle, model, options, train, &scale);
    }
    if (status == GY_OK) {
        status = gy_session_agree(model->comm, restore(bundle, model, state));
    }
    if (status == GY_OK) {
        warn_scale(path, model, options->loss_scale, scale);
    }
    gy_bundle_free(bundle);
    return status < 0 && strstr(gy_error_text(), path) == NULL
               ? gy_fail_within(status, "%s", path)
               : status;
}

/* The newest that is whole; a damaged one is named and passed over. */
static gy_status read_newest(gy_model *model, const gy_train_options *options,
                             gy_dataset *train, gy_train_state *state, const int64_t *steps,
                             int count)
{
    gy_status status = GY_NOTFOUND;
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        path_of(options->checkpoint_folder, steps[i], path, sizeof(path));
        status = read_one(path, model, options, train, state);
        if ((status != GY_FORMAT && status != GY_LIMIT) || i + 1 == count) {
            break;
        }
        gy_warn("skipped a damaged checkpoint: %s", gy_error_text());
    }
    return status;
}

/* All ranks must go on from one step: a folder that only some of them see is no answer. */
static gy_status check_steps(const gy_model *model, const int64_t *steps, int count)
{
    if (model->comm == NULL) {
        return GY_OK;
    }
    const int64_t step = count > 0 ? steps[0] : -1;
    int64_t range[4] = {step, -step, count, -count};
    GY_TRY(gy_allreduce(model->comm, range, range, GY_COUNT(range), GY_I64, GY_MIN));
    return range[0] == -range[1] && range[2] == -range[3]
               ? GY_OK
               : gy_fail(GY_MISMATCH,
                         "ranks found different checkpoints, of steps %lld and %lld (-1: none)",
                         (long long)range[0], (long long)-range[1]);
}

gy_status gy_train_checkpoint_read_step(gy_model *model, const gy_train_options *options,
                                        gy_dataset *train, int64_t step, gy_train_state *state)
{
    char path[PATH_BYTES];
    path_of(options->checkpoint_folder, step, path, sizeof(path));
    return read_one(path, model, options, train, state);
}

gy_status gy_train_checkpoint_read(gy_model *model, const gy_train_options *options,
                                   gy_dataset *train, gy_train_state *state, bool *is_found)
{
    int count = 0;
    int64_t *steps = gy_alloc("train.checkpoint", SEEN_LIMIT * sizeof(*steps));
    gy_status status = steps == NULL
                           ? GY_NOMEM
                           : list_steps(options->checkpoint_folder, steps, SEEN_LIMIT, &count);
    status = gy_session_agree(model->comm, status);
    if (status == GY_OK) {
        status = check_steps(model, steps, count);
    }
    *is_found = count > 0;
    if (status == GY_OK && count > 0) {
        status = read_newest(model, options, train, state, steps, count);
    }
    gy_free(steps);
    return status;
}
