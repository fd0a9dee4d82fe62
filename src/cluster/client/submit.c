/* Submits a program: builds its specification, uploads the files that the name server lacks,
 * then creates the job. */
#include "base/text.h"
#include "cluster/client/client_priv.h"
#include "control/net/ticket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Environment variables that every job inherits. */
static const char *const usual[] = {"PATH",
                                    "HOME",
                                    "USER",
                                    "LOGNAME",
                                    "LANG",
                                    "LC_ALL",
                                    "LC_CTYPE",
                                    "TZ",
                                    "GYRE_LOG",
                                    "GYRE_JOB_PROCESSES",
                                    "GYRE_JOB_THREADS",
                                    "GYRE_JOB_MEMORY",
                                    "GYRE_JOB_TIMEOUT",
                                    "GYRE_JOB_HEARTBEAT_TIMEOUT",
                                    "GYRE_JOB_FOLDER",
                                    "GYRE_JOB_MEMO",
                                    "GYRE_JOB_MEMO_BYTES"};

typedef struct package {
    gy_arena arena;
    gy_client_files files;
    Gy__Cluster__JobSpec spec;
    gy_key key; /* of the packed specification */
    uint8_t *packed;
    size_t packed_bytes;
    gy_key missing[GY_NET_FILES_MAX + 1];
    size_t missing_count;
} package;

static char *borrowed(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* ---- The specification ---- */

/* "NAME=VALUE" from this process's environment. NULL: it is not set. */
static char *find_variable(const char *name)
{
    size_t size = strlen(name);
    for (char **at = environ; *at != NULL; at++) {
        if (strncmp(*at, name, size) == 0 && (*at)[size] == '=') {
            return *at;
        }
    }
    return NULL;
}

static gy_status put_variable(Gy__Cluster__JobSpec *spec, char *setting)
{
    size_t size = strcspn(setting, "=") + 1;
    for (size_t i = 0; i < spec->n_environment; i++) {
        if (strncmp(spec->environment[i], setting, size) == 0) {
            /* Explicit variables take precedence over inherited ones. */
            spec->environment[i] = setting;
            return GY_OK;
        }
    }
    if (spec->n_environment == GY_NET_TEXTS_MAX) {
        return gy_fail(GY_ARG, "more than %d variables", GY_NET_TEXTS_MAX);
    }
    spec->environment[spec->n_environment++] = setting;
    return GY_OK;
}

static const char ticket[] = GY_TICKET_VARIABLE "=";

static gy_status list_variables(package *made, const char *const *asked)
{
    made->spec.environment = gy_arena_alloc(&made->arena, GY_NET_TEXTS_MAX * sizeof(char *));
    if (made->spec.environment == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < GY_COUNT(usual); i++) {
        char *setting = find_variable(usual[i]);
        GY_TRY(setting != NULL ? put_variable(&made->spec, setting) : GY_OK);
    }
    for (; asked != NULL && *asked != NULL; asked++) {
        char *setting = strchr(*asked, '=') != NULL ? borrowed(*asked) : find_variable(*asked);
        if (setting == NULL || setting[0] == '=') {
            return gy_fail(GY_ARG, "the variable '%.80s' is not set here", *asked);
        }
        if (strncmp(setting, ticket, sizeof(ticket) - 1) == 0) {
            return gy_fail(GY_ARG, "the variable " GY_TICKET_VARIABLE
                                   " is set by the daemon: it identifies the job");
        }
        GY_TRY(put_variable(&made->spec, setting));
    }
    return GY_OK;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool is_among(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(*words, word) != 0) {
        words++;
    }
    return *words != NULL;
}

/* The part of a name that says what gyre runs: its command, and the verb or the map's own
 * command. */
static void name_verb(const char *const *arguments, char *out, size_t size_bytes)
{
    static const char map[] = "--map";
    static const char *const verbs[] = {"wordcount", "grep",  "sort",    "index", "topk",
                                        "language",  "lenet", "softmax", "mlp",   NULL};
    const char *verb = NULL;
    for (const char *const *at = arguments + 1; *at != NULL && verb == NULL; at++) {
        if (strncmp(*at, map, sizeof(map) - 1) == 0) {
            const char *value = *at + sizeof(map) - 1;
            verb = *value == '=' ? value + 1 : *value == '\0' ? at[1] : NULL;
        } else {
            verb = is_among(*at, verbs) ? *at : NULL;
        }
    }
    gy_print(out, size_bytes, "%s%s%s", arguments[0], verb != NULL ? " " : "",
             verb != NULL ? verb : "");
}

/* The display name: for gyre its command and verb, for an interpreter its script. */
static void name_job(const char *const *arguments, char *out, size_t size_bytes)
{
    static const char *const shells[] = {"sh",   "bash", "dash",    "env", "perl",
                                         "ruby", "node", "Rscript", NULL};
    const char *program = name_of(arguments[0]), *first = arguments[1];
    if (strcmp(program, "gyre") == 0 && first != NULL) {
        name_verb(arguments + 1, out, size_bytes);
    } else if (first != NULL && first[0] != '-' &&
               (is_among(program, shells) || strncmp(program, "python", 6) == 0)) {
        gy_print(out, size_bytes, "%s %s", program, name_of(first));
    } else {
        gy_print(out, size_bytes, "%s", program);
    }
}

/* Is the same file already listed under the same name? */
static bool is_brought(const package *made, const char *path, const char *name)
{
    for (size_t i = 0; i < made->files.count; i++) {
        const gy_client_file *row = &made->files.rows[i];
        if (strcmp(row->name, name) == 0 && strcmp(row->path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* If an argument is a program, add it and its libraries. */
static gy_status find_program(gy_cluster *cluster, const gy_cluster_program *program,
                              package *made, size_t at)
{
    char path[CLIENT_PATH_BYTES];
    bool is_system = false;
    GY_TRY(gy_client_find_program(program->arguments[at], path, &is_system));
    char *first = is_system ? path : borrowed(name_of(path));
    char *kept = gy_arena_alloc(&made->arena, strlen(first) + 1);
    if (kept == NULL) {
        return GY_NOMEM;
    }
    memcpy(kept, first, strlen(first) + 1);
    made->spec.arguments[at] = kept;
    if (!is_system && !is_brought(made, path, kept)) {
        GY_TRY(gy_client_add_file(cluster, &made->files, path, kept, false));
        GY_TRY(gy_client_find_libraries(cluster, path, &made->files));
    }
    return GY_OK;
}

/* The program first, then its libraries, then the user's files. */
static gy_status find_files(gy_cluster *cluster, const gy_cluster_program *program,
                            package *made)
{
    GY_TRY(find_program(cluster, program, made, 0));
    if (program->program_at > 0 && (size_t)program->program_at < made->spec.n_arguments) {
        GY_TRY(find_program(cluster, program, made, (size_t)program->program_at));
    }
    for (const char *const *at = program->files; at != NULL && *at != NULL; at++) {
        GY_TRY(gy_client_add_file(cluster, &made->files, *at, name_of(*at), false));
    }
    return made->files.count <= GY_NET_FILES_MAX
               ? GY_OK
               : gy_fail(GY_ARG, "a job of %zu files, at most %d", made->files.count,
                         GY_NET_FILES_MAX);
}

static gy_status list_files(package *made)
{
    const size_t count = made->files.count;
    Gy__Cluster__JobSpec *spec = &made->spec;
    gy_arena *arena = &made->arena;
    Gy__Cluster__SpecFile *rows = gy_arena_alloc(arena, (count + 1) * sizeof(*rows));
    Gy__Cluster__Key *keys = gy_arena_alloc(arena, (count + 1) * sizeof(*keys));
    spec->files = gy_arena_alloc(arena, (count + 1) * sizeof(void *));
    spec->libraries = gy_arena_alloc(arena, (count + 1) * sizeof(char *));
    if (rows == NULL || keys == NULL || spec->files == NULL || spec->libraries == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        gy_client_file *from = &made->files.rows[i];
        gy__cluster__key__init(&keys[i]);
        gy__cluster__spec_file__init(&rows[i]);
        keys[i].high = from->content.high;
        keys[i].low = from->content.low;
        rows[i].name = from->name;
        rows[i].content = &keys[i];
        rows[i].size_bytes = from->size_bytes;
        rows[i].is_executable = from->is_executable;
        spec->files[i] = &rows[i];
        if (from->is_library) {
            spec->libraries[spec->n_libraries++] = from->name;
        }
    }
    spec->n_files = count;
    return GY_OK;
}

static gy_status make_package(gy_cluster *cluster, const gy_cluster_program *program,
                              package *made)
{
    char directory[CLIENT_PATH_BYTES];
    Gy__Cluster__JobSpec *spec = &made->spec;
    gy_net_digest *digest = NULL;
    gy__cluster__job_spec__init(spec);
    while (program->arguments[spec->n_arguments] != NULL) {
        spec->n_arguments++;
    }
    spec->arguments = gy_arena_alloc(&made->arena, (spec->n_arguments + 1) * sizeof(char *));
    if (spec->arguments == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < spec->n_arguments; i++) {
        spec->arguments[i] = borrowed(program->arguments[i]);
    }
    if (getcwd(directory, sizeof(directory)) == NULL) {
        return gy_fail(GY_IO, "this folder has no path: %s", strerror(errno));
    }
    spec->directory = directory;
    GY_TRY(find_files(cluster, program, made));
    GY_TRY(list_files(made));
    GY_TRY(list_variables(made, program->variables));
    GY_TRY(gy_net_check_spec(spec));
    made->packed_bytes = gy__cluster__job_spec__get_packed_size(spec);
    if (made->packed_bytes > GY_NET_SPEC_BYTES) {
        return gy_fail(GY_ARG, "arguments and variables of %zu bytes, at most %d",
                       made->packed_bytes, GY_NET_SPEC_BYTES);
    }
    made->packed = gy_arena_alloc(&made->arena, made->packed_bytes + 1);
    if (made->packed == NULL) {
        return GY_NOMEM;
    }
    (void)gy__cluster__job_spec__pack(spec, made->packed);
    spec->directory = borrowed("");
    GY_TRY(gy_net_digest_begin(&digest));
    gy_net_digest_feed(digest, made->packed, made->packed_bytes);
    made->key = gy_net_digest_end(digest);
    gy_net_digest_free(digest);
    return GY_OK;
}

/* ---- Upload of missing files ---- */

static gy_status take_missing(void *arg, const ProtobufCMessage *answer)
{
    package *made = arg;
    const Gy__Cluster__Blobs *blobs = (const Gy__Cluster__Blobs *)answer;
    if (blobs->n_missing > GY_NET_FILES_MAX + 1) {
        return gy_fail(GY_FORMAT, "the name server lacks %zu files of the job",
                       blobs->n_missing);
    }
    made->missing_count = blobs->n_missing;
    for (size_t i = 0; i < blobs->n_missing; i++) {
        made->missing[i] = gy_net_key(blobs->missing[i]);
    }
    return GY_OK;
}

static gy_status ask_missing(gy_cluster *cluster, package *made)
{
    Gy__Cluster__AskBlobs asks = GY__CLUSTER__ASK_BLOBS__INIT;
    const size_t count = made->files.count;
    Gy__Cluster__Key *keys = gy_arena_alloc(&made->arena, (count + 1) * sizeof(*keys));
    asks.content = gy_arena_alloc(&made->arena, (count + 1) * sizeof(void *));
    if (keys == NULL || asks.content == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i <= count; i++) {
        const gy_key key = i < count ? made->files.rows[i].content : made->key;
        gy__cluster__key__init(&keys[i]);
        keys[i].high = key.high;
        keys[i].low = key.low;
        asks.content[i] = &keys[i];
    }
    asks.n_content = count + 1;
    return gy_client_ask(cluster, GY_NET_ASK_BLOBS, &asks.base, gy_client_soon(cluster),
                         take_missing, made);
}

static gy_status put_piece(gy_cluster *cluster, Gy__Cluster__PutBlob *piece)
{
    return gy_client_ask(cluster, GY_NET_PUT_BLOB, &piece->base, gy_client_soon(cluster), NULL,
                         NULL);
}

/* Upload from a file, or from memory (file < 0). */
static gy_status put_pieces(gy_cluster *cluster, gy_key key, int file, uint8_t *bytes,
                            uint64_t size_bytes)
{
    Gy__Cluster__Key content = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__PutBlob piece = GY__CLUSTER__PUT_BLOB__INIT;
    content.high = key.high;
    content.low = key.low;
    piece.content = &content;
    piece.size_bytes = size_bytes;
    do {
        size_t size = (size_t)GY_MIN(size_bytes - piece.offset, (uint64_t)GY_NET_BLOB_PIECE);
        piece.data.data = file < 0 ? bytes + piece.offset : bytes;
        for (size_t have = 0; file >= 0 && have < size;) {
            ssize_t got = pread(file, bytes + have, size - have, (off_t)(piece.offset + have));
            if (got <= 0 && !(got < 0 && errno == EINTR)) {
                return gy_fail(GY_IO, "it cannot be read: %s",
                               got < 0 ? strerror(errno) : "it is shorter than it was");
            }
            have += got > 0 ? (size_t)got : 0;
        }
        piece.data.len = size;
        GY_TRY(put_piece(cluster, &piece));
        piece.offset += size;
    } while (piece.offset < size_bytes);
    return GY_OK;
}

static gy_status put_file(gy_cluster *cluster, const gy_client_file *from)
{
    int file = open(from->path, O_RDONLY | O_CLOEXEC);
    uint8_t *bytes = file >= 0 ? gy_alloc("client", GY_NET_BLOB_PIECE) : NULL;
    gy_status status = GY_OK;
    if (file < 0) {
        status = gy_fail(GY_IO, "cannot open it: %s", strerror(errno));
    } else if (bytes == NULL) {
        status = GY_NOMEM;
    } else {
        status = put_pieces(cluster, from->content, file, bytes, from->size_bytes);
    }
    gy_free(bytes);
    if (file >= 0) {
        close(file);
    }
    return status < 0 ? gy_fail_within(status, "cannot upload %s", from->path) : GY_OK;
}

static gy_status put_missing(gy_cluster *cluster, package *made)
{
    for (size_t i = 0; i < made->missing_count; i++) {
        if (gy_key_is_same(made->missing[i], made->key)) {
            GY_TRY(put_pieces(cluster, made->key, -1, made->packed, made->packed_bytes));
        }
        for (size_t k = 0; k < made->files.count; k++) {
            if (gy_key_is_same(made->missing[i], made->files.rows[k].content)) {
                GY_TRY(put_file(cluster, &made->files.rows[k]));
                break;
            }
        }
    }
    return GY_OK;
}

/* ---- The job ---- */

static gy_status submit(gy_cluster *cluster, const gy_cluster_program *program,
                        const package *made, gy_key job)
{
    char name[GY_CONTROL_TEXT_BYTES], made_name[GY_CONTROL_TEXT_BYTES];
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT, spec = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Submit asks;
    gy__cluster__submit__init(&asks);
    name_job(program->arguments, made_name, sizeof(made_name));
    gy_net_clean_text(program->name != NULL ? program->name : made_name, name, sizeof(name));
    key.high = job.high;
    key.low = job.low;
    spec.high = made->key.high;
    spec.low = made->key.low;
    asks.job = &key;
    asks.spec = &spec;
    asks.platform = gy_net_platform();
    asks.weight = (uint32_t)program->weight;
    asks.slots_max = (uint32_t)program->slots_max;
    asks.name = name;
    asks.label = borrowed(program->label != NULL ? program->label : "");
    return gy_client_ask(cluster, GY_NET_SUBMIT, &asks.base, gy_client_soon(cluster), NULL,
                         NULL);
}

static bool is_missing(gy_status status)
{
    return status == GY_NOTFOUND || status == GY_STATE;
}

/* Is there a missing file whose hash came from the cache, without a read? */
static bool misses_recalled(const package *made)
{
    bool is_it = false;
    for (size_t i = 0; i < made->missing_count; i++) {
        for (size_t k = 0; k < made->files.count; k++) {
            const gy_client_file *row = &made->files.rows[k];
            is_it =
                is_it || (row->is_recalled && gy_key_is_same(row->content, made->missing[i]));
        }
    }
    return is_it;
}

static void free_package(package *made)
{
    gy_arena_free(&made->arena);
    gy_free(made->files.rows);
    *made = (package){.packed = NULL};
}

/* Submit at once: if all was uploaded before, nothing is missing. Only after a refusal ask
 * which files are missing. A name server elected in between may have other files, so start
 * again then. */
static gy_status bring_and_submit(gy_cluster *cluster, const gy_cluster_program *program,
                                  package *made, gy_key job)
{
    enum { ROUNDS = 3 };
    gy_status status = submit(cluster, program, made, job);
    for (int round = 0; round < ROUNDS && is_missing(status); round++) {
        GY_TRY(ask_missing(cluster, made));
        if (misses_recalled(made)) {
            gy_client_digests_forget(cluster->digests);
            free_package(made);
            GY_TRY(make_package(cluster, program, made));
            GY_TRY(ask_missing(cluster, made));
        }
        status = put_missing(cluster, made);
        status = status == GY_OK ? submit(cluster, program, made, job) : status;
    }
    return status;
}

gy_status gy_cluster_submit(gy_cluster *cluster, const gy_cluster_program *program,
                            char id[GY_CLUSTER_ID_BYTES])
{
    if (program->arguments == NULL || program->arguments[0] == NULL || program->weight < 0 ||
        program->slots_max < 0) {
        return gy_fail(GY_ARG, "no program is given, or a weight or limit is below 0");
    }
    package *made = gy_alloc_zero("client", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    const gy_env_ops *ops = cluster->env->ops;
    const gy_key job = {ops->random(cluster->env, GY_CHANCE_WORK),
                        ops->random(cluster->env, GY_CHANCE_WORK) | 1};
    gy_client_meanwhile(cluster); /* connect meanwhile */
    cluster->digests = gy_client_digests_open();
    gy_status status = make_package(cluster, program, made);
    status = status == GY_OK ? bring_and_submit(cluster, program, made, job) : status;
    if (status == GY_OK) {
        gy_net_key_text(job, id);
    }
    gy_client_digests_close(cluster->digests);
    cluster->digests = NULL;
    free_package(made);
    gy_free(made);
    return status;
}
