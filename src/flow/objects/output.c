/* Uploads the files of a folder below a prefix, with one leading thread and three helpers. */
#include "flow/objects/output.h"

#include "base/text.h"
#include "base/thread.h"
#include "store/remote/remote.h"
#include "store/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOCK_RANK = 30, /* rank above a place's lock */
    HANDS = 4,
    PIECE_BYTES = 256 << 10,
    AHEAD_BYTES = 1 << 20,
    PATH_BYTES = 4096,
    BEGINNING_BYTES = 512,
};
static const char manifest_name[] = "MANIFEST.json", own_names[] = ".gyre-";

typedef struct row {
    const char *name;
    uint64_t size_bytes;
} row;

/* An uploading thread; the first one leads. */
typedef struct hand {
    gy_object_output *output;
    gy_thread thread;
    gy_place *place; /* place of the current object; guarded by the lock */
    char *piece;     /* (2 * PIECE_BYTES) */
} hand;

struct gy_object_output {
    gy_env *env;
    gy_arena arena;
    const char *uri, *folder, *fence, *manifest;
    size_t manifest_bytes, same_bytes;
    bool is_again;
    row *files; /* (count) */
    size_t count, capacity;
    hand hands[HANDS];
    _Atomic bool is_ended; /* after a failure or a stop: no thread begins another file */
    gy_mutex lock;         /* guards the members that follow */
    gy_cond moves;
    size_t next, done;
    bool is_over;
    gy_error error; /* the first failure */
};

static bool is_ended(const gy_object_output *output)
{
    /* partner: end_all */
    return atomic_load_explicit(&output->is_ended, memory_order_acquire);
}

/* End the upload and cancel requests that threads wait for. */
static void end_all(gy_object_output *output, gy_status status)
{
    gy_mutex_lock(&output->lock);
    if (output->error.status >= 0) {
        gy_error_take(&output->error, status);
    }
    atomic_store_explicit(&output->is_ended, true, memory_order_release);
    for (int i = 0; i < HANDS; i++) {
        if (output->hands[i].place != NULL) {
            gy_place_cancel(output->hands[i].place);
        }
    }
    gy_mutex_unlock(&output->lock);
}

/* ---- one object ---- */

static gy_status open_place(hand *own, const char *name)
{
    gy_object_output *output = own->output;
    char uri[GY_URI_BYTES];
    gy_place *place = NULL;
    if (snprintf(uri, sizeof(uri), "%s%s", output->uri, name) >= (int)sizeof(uri)) {
        return gy_fail(GY_ARG, "the URI %.100s...%s is too long", output->uri, name);
    }
    GY_TRY(gy_place_open(gy_env_real(), uri, NULL, &place));
    gy_mutex_lock(&output->lock);
    own->place = place;
    gy_mutex_unlock(&output->lock);
    if (is_ended(output)) { /* end_all may have run before the place became visible to it */
        gy_place_cancel(place);
    }
    return GY_OK;
}

static void close_place(hand *own)
{
    gy_place *place = own->place;
    gy_mutex_lock(&own->output->lock);
    own->place = NULL;
    gy_mutex_unlock(&own->output->lock);
    gy_place_close(place);
}

static gy_status fail_other(const hand *own)
{
    return gy_fail(GY_EXISTS, "cannot publish %s: another one is there",
                   gy_place_uri(own->place));
}

static gy_status compare(const hand *own, gy_source *left, gy_source *right, bool *is_same)
{
    char *const pieces[2] = {own->piece, own->piece + PIECE_BYTES};
    size_t got[2] = {1, 1};
    *is_same = true;
    while (*is_same && got[0] > 0) {
        GY_TRY(gy_source_read(left, pieces[0], PIECE_BYTES, &got[0]));
        GY_TRY(gy_source_read(right, pieces[1], PIECE_BYTES, &got[1]));
        *is_same = got[0] == got[1] && memcmp(pieces[0], pieces[1], got[0]) == 0;
    }
    return GY_OK;
}

/* If an object of that name exists, compare its bytes with the file's. */
static gy_status look_at(const hand *own, const char *path, uint64_t size_bytes, bool *is_there)
{
    const gy_object_output *output = own->output;
    gy_place_facts facts;
    const gy_status found = gy_place_stat(own->place, &facts);
    *is_there = found == GY_OK;
    if (found < 0) {
        return found == GY_NOTFOUND ? GY_OK : found;
    }
    if (facts.is_folder || facts.size_bytes != size_bytes) {
        return fail_other(own);
    }
    const gy_source_part part = {.version = facts.version,
                                 .end = size_bytes,
                                 .ahead_bytes = AHEAD_BYTES,
                                 .is_cancelled = &output->is_ended};
    gy_source *file = NULL, *object = NULL;
    GY_TRY(gy_source_open(output->env, path, GY_ENCODING_PLAIN, &file));
    bool is_same = false;
    gy_status status =
        gy_source_open_part(gy_env_real(), gy_place_uri(own->place), &part, &object);
    if (status == GY_OK) {
        status = compare(own, file, object, &is_same);
    }
    gy_source_close(object);
    gy_source_close(file);
    return status < 0 ? status : is_same ? GY_OK : fail_other(own);
}

static gy_status pump(const hand *own, gy_source *file, gy_place_writer *writer)
{
    size_t got = 1;
    while (got > 0) {
        if (is_ended(own->output)) {
            return gy_fail(GY_CANCELLED, "%s: no longer needed", gy_place_uri(own->place));
        }
        GY_TRY(gy_source_read(file, own->piece, PIECE_BYTES, &got));
        GY_TRY(gy_place_writer_add(writer, own->piece, got));
    }
    return GY_OK;
}

static gy_status send_file(const hand *own, const char *path)
{
    gy_source *file = NULL;
    gy_place_writer *writer = NULL;
    GY_TRY(gy_source_open(own->output->env, path, GY_ENCODING_PLAIN, &file));
    gy_status status = gy_place_writer_open(own->place, GY_PLACE_NEW, &writer);
    if (status == GY_OK) {
        status = pump(own, file, writer);
        if (status == GY_OK) {
            status = gy_place_writer_finish(writer);
        } else { /* report the upload's failure, not that of the clean-up */
            gy_error error;
            gy_error_take(&error, status);
            gy_place_writer_abort(writer);
            status = gy_error_raise(&error);
        }
    }
    gy_source_close(file);
    return status;
}

static gy_status bring_open(const hand *own, const char *path, uint64_t size_bytes)
{
    bool is_there = false;
    if (own->output->is_again) {
        GY_TRY(look_at(own, path, size_bytes, &is_there));
    }
    gy_status status = is_there ? GY_OK : send_file(own, path);
    if (status == GY_EXISTS) { /* another manager created it meanwhile */
        GY_TRY(look_at(own, path, size_bytes, &is_there));
        status = is_there ? GY_OK : fail_other(own);
    }
    return status;
}

static gy_status bring(hand *own, const row *file)
{
    const gy_object_output *output = own->output;
    char path[PATH_BYTES];
    struct stat about;
    if (access(output->fence, F_OK) != 0) {
        return gy_fail(GY_STATE, "another manager has taken over: %s was removed",
                       output->fence);
    }
    if (snprintf(path, sizeof(path), "%s/%s", output->folder, file->name) >=
        (int)sizeof(path)) {
        return gy_fail(GY_ARG, "the path %.100s.../%s is too long", output->folder, file->name);
    }
    if (stat(path, &about) != 0 || (uint64_t)about.st_size != file->size_bytes) {
        return gy_fail(GY_NOTFOUND, "%s is missing or has another size than %llu bytes", path,
                       (unsigned long long)file->size_bytes);
    }
    GY_TRY(open_place(own, file->name));
    const gy_status status = bring_open(own, path, file->size_bytes);
    close_place(own);
    return status;
}

/* ---- the manifest ---- */

/* Does a manifest exist? If so, it must be of this output. */
static gy_status look_at_manifest(hand *own, bool *is_there)
{
    const gy_object_output *output = own->output;
    char *there = gy_alloc("flow.manifest", output->same_bytes + 1);
    size_t got = 0;
    if (there == NULL) {
        return GY_NOMEM;
    }
    gy_status status = gy_place_read(own->place, NULL, 0, there, output->same_bytes + 1, &got);
    *is_there = status == GY_OK;
    if (status == GY_OK && (got < output->same_bytes ||
                            memcmp(there, output->manifest, output->same_bytes) != 0)) {
        status = fail_other(own);
    }
    gy_free(there);
    return status == GY_NOTFOUND ? GY_OK : status;
}

static gy_status find_manifest(hand *own, bool *is_there)
{
    *is_there = false;
    if (!own->output->is_again) {
        return GY_OK;
    }
    GY_TRY(open_place(own, manifest_name));
    const gy_status status = look_at_manifest(own, is_there);
    close_place(own);
    return status;
}

static gy_status write_manifest(hand *own)
{
    const gy_object_output *output = own->output;
    GY_TRY(open_place(own, manifest_name));
    bool is_there = true;
    gy_status status =
        gy_place_write(own->place, GY_PLACE_NEW, output->manifest, output->manifest_bytes);
    if (status == GY_EXISTS) {
        status = look_at_manifest(own, &is_there);
        status = status == GY_OK && !is_there ? fail_other(own) : status;
    }
    close_place(own);
    return status;
}

/* ---- threads ---- */

static bool take_next(gy_object_output *output, size_t *index)
{
    gy_mutex_lock(&output->lock);
    const bool is_more = !is_ended(output) && output->next < output->count;
    *index = output->next;
    output->next += is_more;
    gy_mutex_unlock(&output->lock);
    return is_more;
}

static void *help(void *arg)
{
    hand *own = arg;
    gy_object_output *output = own->output;
    size_t index = 0;
    while (take_next(output, &index)) {
        const gy_status status = bring(own, &output->files[index]);
        if (status < 0) {
            end_all(output, status);
            break;
        }
        gy_mutex_lock(&output->lock);
        output->done++;
        gy_mutex_unlock(&output->lock);
    }
    return NULL;
}

static void bring_all(hand *own)
{
    gy_object_output *output = own->output;
    for (size_t i = 1; i < HANDS && i < output->count; i++) {
        hand *helper = &output->hands[i];
        if (gy_thread_start(&helper->thread, "gyre-output", help, helper) < 0) {
            break; /* fewer helpers can do it as well */
        }
    }
    (void)help(own);
    for (size_t i = 1; i < HANDS; i++) {
        if (output->hands[i].thread.is_started) {
            gy_thread_join(&output->hands[i].thread);
        }
    }
}

static void *lead(void *arg)
{
    hand *own = arg;
    gy_object_output *output = own->output;
    bool is_there = false;
    gy_status status = find_manifest(own, &is_there);
    if (status == GY_OK && !is_there) {
        bring_all(own);
        status = is_ended(output) ? GY_CANCELLED : write_manifest(own);
    }
    if (status < 0) {
        end_all(output, status);
    }
    gy_mutex_lock(&output->lock);
    output->done = is_there ? output->count : output->done;
    if (status == GY_OK) {
        output->error.status = GY_OK; /* the stop came after the last file */
    }
    output->is_over = true;
    gy_cond_broadcast(&output->moves);
    gy_mutex_unlock(&output->lock);
    return NULL;
}

/* ---- interface ---- */

static const char *keep(gy_object_output *output, const char *text, size_t size_bytes)
{
    char *copy = gy_arena_alloc(&output->arena, size_bytes + 1);
    if (copy != NULL) {
        memcpy(copy, text, size_bytes);
        copy[size_bytes] = '\0';
    }
    return copy;
}

gy_status gy_object_output_new(gy_env *env, const gy_object_output_options *options,
                               gy_object_output **output)
{
    gy_object_output *made = gy_alloc_zero("flow.output", 1, sizeof(*made));
    GY_ASSERT(options->same_bytes <= options->manifest_bytes);
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->env = env;
    gy_mutex_init(&made->lock, LOCK_RANK);
    gy_cond_init(&made->moves);
    made->uri = keep(made, options->uri, strlen(options->uri));
    made->folder = keep(made, options->folder, strlen(options->folder));
    made->fence = keep(made, options->fence, strlen(options->fence));
    made->manifest = keep(made, options->manifest, options->manifest_bytes);
    made->manifest_bytes = options->manifest_bytes;
    made->same_bytes = options->same_bytes;
    made->is_again = options->is_again;
    bool is_whole = made->uri != NULL && made->folder != NULL && made->fence != NULL &&
                    made->manifest != NULL;
    for (int i = 0; i < HANDS; i++) {
        made->hands[i].output = made;
        made->hands[i].piece = gy_alloc("flow.output", 2 * (size_t)PIECE_BYTES);
        is_whole = is_whole && made->hands[i].piece != NULL;
    }
    if (!is_whole) {
        gy_object_output_free(made);
        return GY_NOMEM;
    }
    *output = made;
    return GY_OK;
}

gy_status gy_object_output_add(gy_object_output *output, const char *name, uint64_t size_bytes)
{
    GY_TRY(GY_GROW("flow.output", output->files, output->capacity, output->count + 1));
    const char *copy = keep(output, name, strlen(name));
    if (copy == NULL) {
        return GY_NOMEM;
    }
    output->files[output->count++] = (row){copy, size_bytes};
    return GY_OK;
}

gy_status gy_object_output_start(gy_object_output *output)
{
    return gy_thread_start(&output->hands[0].thread, "gyre-output", lead, &output->hands[0]);
}

gy_status gy_object_output_look(gy_object_output *output)
{
    gy_mutex_lock(&output->lock);
    const bool is_over = output->is_over;
    gy_mutex_unlock(&output->lock);
    if (!is_over) {
        return GY_AGAIN;
    }
    return output->error.status < 0 ? gy_error_raise(&output->error) : GY_OK;
}

void gy_object_output_wait(gy_object_output *output)
{
    gy_mutex_lock(&output->lock);
    while (output->hands[0].thread.is_started && !output->is_over) {
        /* ends, since each request has a time limit */
        (void)gy_cond_wait(&output->moves, &output->lock, GY_NEVER);
    }
    gy_mutex_unlock(&output->lock);
}

void gy_object_output_stop(gy_object_output *output)
{
    if (gy_object_output_look(output) == GY_AGAIN) {
        end_all(output, gy_fail(GY_CANCELLED, "%s: no longer needed", output->uri));
        gy_object_output_wait(output);
    }
}

size_t gy_object_output_done(gy_object_output *output)
{
    gy_mutex_lock(&output->lock);
    const size_t done = output->done;
    gy_mutex_unlock(&output->lock);
    return done;
}

void gy_object_output_free(gy_object_output *output)
{
    if (output == NULL) {
        return;
    }
    if (output->hands[0].thread.is_started) {
        gy_object_output_stop(output);
        gy_thread_join(&output->hands[0].thread);
    }
    for (int i = 0; i < HANDS; i++) {
        gy_free(output->hands[i].piece);
    }
    gy_free(output->files);
    gy_arena_free(&output->arena);
    gy_cond_fini(&output->moves);
    gy_mutex_fini(&output->lock);
    gy_free(output);
}

/* ---- before the upload ---- */

/* Entries of a probe or of a killed writer do not count as data. */
static gy_status refuse_entry(void *arg, const gy_place_entry *entry)
{
    if (strncmp(entry->name, own_names, sizeof(own_names) - 1) == 0) {
        return GY_OK;
    }
    return gy_fail(GY_EXISTS, "the output %s is not empty: it has %.255s", (const char *)arg,
                   entry->name);
}

gy_status gy_object_output_check(gy_env *env, const char *uri, double patience_s)
{
    const gy_place_options options = {.patience_s = patience_s};
    gy_place_guarantees guarantees;
    gy_place *place = NULL;
    char manifest[GY_URI_BYTES];
    if (snprintf(manifest, sizeof(manifest), "%s%s", uri, manifest_name) >=
        (int)sizeof(manifest)) {
        return gy_fail(GY_ARG, "the URI %.100s... is too long", uri);
    }
    GY_TRY(gy_place_open(env, uri, &options, &place));
    gy_status status =
        gy_place_list(place, refuse_entry, (void *)(uintptr_t)gy_place_uri(place));
    gy_place_close(place);
    if (status < 0 && status != GY_NOTFOUND) {
        return status;
    }
    GY_TRY(gy_place_open(env, manifest, &options, &place));
    status = gy_place_guarantee(place, &guarantees);
    gy_place_close(place);
    if (status == GY_OK && !guarantees.is_exclusive) {
        status = gy_fail(GY_UNSUPPORTED, "%s cannot be an output: %s", uri, guarantees.reason);
    }
    return status;
}

bool gy_object_output_begins(gy_env *env, const char *uri, double patience_s,
                             const char *beginning)
{
    const gy_place_options options = {.patience_s = patience_s};
    char manifest[GY_URI_BYTES], there[BEGINNING_BYTES];
    const size_t size = strlen(beginning);
    size_t got = 0;
    gy_place *place = NULL;
    GY_ASSERT(size <= sizeof(there));
    if (snprintf(manifest, sizeof(manifest), "%s%s", uri, manifest_name) >=
            (int)sizeof(manifest) ||
        gy_place_open(env, manifest, &options, &place) < 0) {
        return false;
    }
    const bool is_same = gy_place_read(place, NULL, 0, there, size, &got) == GY_OK &&
                         got == size && memcmp(there, beginning, size) == 0;
    gy_place_close(place);
    return is_same;
}
