/**
 * Models in safetensors files: parameters as tensors, what rebuilds the model as metadata.
 */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gy_status set_number(gy_bundle *bundle, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    return gy_bundle_set(bundle, key, text);
}

/* A line end in a name, as of the character \n, is written "\n", a backslash "\\". */
static void add_name(gy_text *text, const char *name)
{
    for (const char *at = name; *at != '\0'; at++) {
        if (*at == '\n' || *at == '\\') {
            gy_text_add(text, "%s", *at == '\n' ? "\\n" : "\\\\");
        } else {
            gy_text_add_bytes(text, at, 1);
        }
    }
}

/* Undo add_name, in place. */
static void read_name(char *name)
{
    char *to = name;
    for (const char *at = name; *at != '\0'; at++) {
        const bool is_escaped = *at == '\\' && (at[1] == 'n' || at[1] == '\\');
        at += is_escaped;
        *to = *at;
        if (is_escaped && *at == 'n') {
            *to = '\n';
        }
        to++;
    }
    *to = '\0';
}

static bool has_line_ends(const gy_model *model)
{
    bool has = false;
    for (int i = 0; model->class_names != NULL && i < model->classes; i++) {
        has = has || strchr(model->class_names[i], '\n') != NULL;
    }
    return has;
}

/* A line for each; of format 1 as they are. */
static gy_status set_class_names(gy_bundle *bundle, const gy_model *model, bool is_plain)
{
    gy_text names = {.data = NULL};
    for (int i = 0; model->class_names != NULL && i < model->classes; i++) {
        gy_text_add(&names, "%s", i == 0 ? "" : "\n");
        if (is_plain) {
            gy_text_add(&names, "%s", model->class_names[i]);
        } else {
            add_name(&names, model->class_names[i]);
        }
    }
    gy_status status = names.status;
    if (status == GY_OK && names.data != NULL) {
        status = gy_bundle_set(bundle, "gyre.classes", gy_text_get(&names));
    }
    gy_text_free(&names);
    return status;
}

static gy_status set_sizes(gy_bundle *bundle, const char *key, const int64_t *sizes, int rank)
{
    gy_text text = {.data = NULL};
    for (int i = 0; i < rank; i++) {
        gy_text_add(&text, "%s%lld", i == 0 ? "" : " ", (long long)sizes[i]);
    }
    gy_status status =
        text.status < 0 ? text.status : gy_bundle_set(bundle, key, gy_text_get(&text));
    gy_text_free(&text);
    return status;
}

static gy_status set_layers(gy_bundle *bundle, const gy_model *model)
{
    gy_text layers = {.data = NULL};
    gy_train_layers_text(model->layers, model->layer_count, &layers);
    gy_status status = layers.status;
    if (status == GY_OK) {
        status = gy_bundle_set(bundle, "gyre.layers", gy_text_get(&layers));
    }
    gy_text_free(&layers);
    return status;
}

/* What the model is, as metadata. A file of format 1 is of layers, of one label a sample, and
 * its input has the element type of its parameters, no class name has a line end. */
static gy_status describe(gy_bundle *bundle, const gy_model *model)
{
    const bool is_function = model->layers == NULL;
    const bool is_plain = !is_function && model->label_rank == 0 &&
                          model->input_dtype == model->dtype && !has_line_ends(model);
    if (is_function) {
        GY_TRY(gy_bundle_set(bundle, "gyre.configuration", model->configuration));
    } else {
        GY_TRY(set_layers(bundle, model));
    }
    if (!is_plain) {
        GY_TRY(gy_bundle_set(bundle, "gyre.input_dtype", gy_dtype_name(model->input_dtype)));
        GY_TRY(set_sizes(bundle, "gyre.labels", model->label_sizes, model->label_rank));
    }
    GY_TRY(set_sizes(bundle, "gyre.input", model->input_sizes, model->input_rank));
    GY_TRY(gy_bundle_set(bundle, "gyre.model", model->name));
    GY_TRY(gy_bundle_set(bundle, "gyre.dtype", gy_dtype_name(model->dtype)));
    GY_TRY(set_number(bundle, "gyre.format", is_plain ? 1 : 2));
    return set_class_names(bundle, model, is_plain);
}

static gy_status fill_bundle(gy_bundle *bundle, const gy_model *model, const char *const *extra)
{
    GY_TRY(gy_train_slots_outline(model, false, bundle));
    GY_TRY(describe(bundle, model));
    for (size_t i = 0; extra != NULL && extra[i] != NULL; i += 2) {
        GY_ASSERT(extra[i + 1] != NULL);
        GY_TRY(gy_bundle_set(bundle, extra[i], extra[i + 1]));
    }
    return GY_OK;
}

gy_status gy_model_save(gy_model *model, const char *path, const char *const *extra)
{
    gy_comm *comm = model->is_sharded ? model->comm : NULL;
    gy_bundle *bundle = NULL;
    gy_status status = gy_bundle_new(&bundle);
    if (status == GY_OK) {
        status = fill_bundle(bundle, model, extra);
    }
    status = gy_session_agree(comm, status);
    if (status == GY_OK) {
        status = gy_session_save(model->session, comm, bundle, path);
    }
    gy_bundle_free(bundle);
    return status;
}

static gy_status need(const gy_bundle *bundle, const char *key, const char **value)
{
    *value = gy_bundle_get(bundle, key);
    return *value != NULL
               ? GY_OK
               : gy_fail(GY_FORMAT, "no '%s' in the metadata: not a model of gyre", key);
}

/* Up to rank_max sizes of one sample's input or labels. */
static gy_status parse_sizes(const char *what, const char *text, int rank_max, int64_t *sizes,
                             int *rank)
{
    const char *at = text;
    *rank = 0;
    while (*at != '\0') {
        char *end = NULL;
        long long size = strtoll(at, &end, 10);
        if (end == at || size < 1 || size > (1LL << 40) || *rank == rank_max) {
            return gy_fail(GY_FORMAT, "%s sizes '%.40s': expected up to %d numbers", what, text,
                           rank_max);
        }
        sizes[(*rank)++] = size;
        at = end + strspn(end, " ");
    }
    return GY_OK;
}

/* The lines of `text`, which is changed and must outlive the result; caller frees the array. */
static gy_status split_lines(char *text, bool is_plain, const char ***lines, int *count)
{
    int found = 1;
    for (const char *at = text; *at != '\0'; at++) {
        found += *at == '\n';
    }
    const char **parts = gy_alloc_zero("train.model", (size_t)found, sizeof(*parts));
    if (parts == NULL) {
        return GY_NOMEM;
    }
    char *rest = text;
    for (int i = 0; i < found; i++) {
        char *name = strsep(&rest, "\n");
        if (!is_plain) {
            read_name(name);
        }
        parts[i] = name;
    }
    *lines = parts;
    *count = found;
    return GY_OK;
}

/* The model was made to fit the bundle. One rank reads its values now; one of several reads its
 * parts when they are first used, for what these are a training decides. */
static gy_status fill_parameters(gy_model *model, gy_bundle *bundle)
{
    model->source = bundle;
    model->is_lazy = model->comm != NULL && gy_comm_size(model->comm) > 1;
    if (model->is_lazy) {
        gy_session_set_fill(model->session, gy_session_fill_from, bundle);
        return GY_OK;
    }
    for (size_t i = 0; i < model->slot_count; i++) {
        GY_TRY(gy_session_read_part(model->session, model->slots[i].name, bundle));
    }
    gy_bundle_close(bundle);
    return GY_OK;
}

static gy_status need_dtype(const gy_bundle *bundle, const char *key, gy_dtype *dtype)
{
    const char *text = NULL;
    GY_TRY(need(bundle, key, &text));
    return gy_dtype_parse(text, dtype)
               ? GY_OK
               : gy_fail(GY_FORMAT, "unknown element type '%.20s'", text);
}

/* What the description of a file points at while a model is made of it. */
typedef struct described {
    gy_layer *layers;
    char *names;
    const char **lines;
} described;

/* Layers, or the function that the file is of and its configuration. */
static gy_status read_kind(const gy_bundle *bundle, gy_model_options *options, described *made)
{
    const char *layers = gy_bundle_get(bundle, "gyre.layers");
    if (layers != NULL) {
        if (options->build != NULL) {
            return gy_fail(GY_ARG, "model %s is a list of layers, not one of a function",
                           options->name);
        }
        GY_TRY(gy_train_layers_parse(layers, &made->layers, &options->layer_count));
        options->layers = made->layers;
        return GY_OK;
    }
    const char *text = NULL;
    const char *expected = options->configuration;
    GY_TRY(need(bundle, "gyre.configuration", &text));
    if (expected != NULL && strcmp(expected, text) != 0) {
        return gy_fail(GY_MISMATCH, "model %s has configuration '%.80s', expected '%.80s'",
                       options->name, text, expected);
    }
    options->configuration = text;
    options->layer_count = 0;
    if (options->build == NULL) {
        options->build = gy_train_function_named(options->name);
    }
    return options->build != NULL
               ? GY_OK
               : gy_fail(GY_ARG,
                         "model %s is one of a function, which only its program has: give it "
                         "as gy_model_options.build",
                         options->name);
}

static gy_status read_names(const gy_bundle *bundle, bool is_plain, gy_model_options *options,
                            described *made)
{
    const char *text = gy_bundle_get(bundle, "gyre.classes");
    options->class_names = NULL;
    if (text == NULL) {
        return GY_OK;
    }
    made->names = gy_copy_text("train.model", text);
    if (made->names == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(split_lines(made->names, is_plain, &made->lines, &options->class_count));
    options->class_names = made->lines;
    return GY_OK;
}

/* Options from the metadata. */
static gy_status read_description(const gy_bundle *bundle, gy_model_options *options,
                                  described *made)
{
    const char *text = NULL, *format = NULL;
    GY_TRY(need(bundle, "gyre.model", &options->name));
    GY_TRY(need(bundle, "gyre.format", &format));
    const bool is_plain = strcmp(format, "1") == 0;
    if (!is_plain && strcmp(format, "2") != 0) {
        return gy_fail(GY_FORMAT, "model format %.20s, this version reads 1 and 2", format);
    }
    GY_TRY(need_dtype(bundle, "gyre.dtype", &options->dtype));
    GY_TRY(need(bundle, "gyre.input", &text));
    GY_TRY(parse_sizes("input", text, GY_TENSOR_RANK_MAX - 1, options->input_sizes,
                       &options->input_rank));
    options->input_dtype = options->dtype;
    options->label_rank = 0;
    if (!is_plain) {
        GY_TRY(need_dtype(bundle, "gyre.input_dtype", &options->input_dtype));
        GY_TRY(need(bundle, "gyre.labels", &text));
        GY_TRY(parse_sizes("label", text, GY_TENSOR_RANK_MAX - 2, options->label_sizes,
                           &options->label_rank));
    }
    GY_TRY(read_kind(bundle, options, made));
    return read_names(bundle, is_plain, options, made);
}

gy_status gy_model_load(const char *path, const gy_model_options *options, gy_model **model)
{
    gy_model_options o;
    GY_TRY(gy_options_take(gy_model_options, &o, options));
    gy_bundle *bundle = NULL;
    GY_TRY(gy_bundle_open(gy_env_real(), path, &bundle));
    described parts = {.layers = NULL};
    gy_model *made = NULL;
    gy_status status = gy_session_verify(NULL, bundle);
    if (status == GY_OK) {
        status = read_description(bundle, &o, &parts);
    }
    if (status == GY_OK) {
        status = gy_model_make(&o, bundle, &made);
    }
    if (status == GY_OK) {
        status = fill_parameters(made, bundle);
    }
    gy_free(parts.layers);
    gy_free(parts.names);
    gy_free(parts.lines);
    if (status < 0) {
        if (made == NULL) {
            gy_bundle_free(bundle);
        }
        gy_model_free(made);
        return gy_fail_within(status, "%s", path);
    }
    GY_ASSERT(made != NULL);
    *model = made;
    return GY_OK;
}
