/**
 * Models in safetensors files: parameters as tensors, what rebuilds the model as metadata.
 */
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

static gy_status set_class_names(gy_bundle *bundle, const gy_model *model)
{
    gy_text names = {.data = NULL};
    for (int i = 0; model->class_names != NULL && i < model->classes; i++) {
        gy_text_add(&names, "%s%s", i == 0 ? "" : "\n", model->class_names[i]);
    }
    gy_status status = names.status;
    if (status == GY_OK && names.data != NULL) {
        status = gy_bundle_set(bundle, "gyre.classes", gy_text_get(&names));
    }
    gy_text_free(&names);
    return status;
}

/* What the model is, as metadata. */
static gy_status describe(gy_bundle *bundle, const gy_model *model)
{
    gy_text layers = {.data = NULL};
    gy_text sizes = {.data = NULL};
    gy_train_layers_text(model->layers, model->layer_count, &layers);
    for (int i = 0; i < model->input_rank; i++) {
        gy_text_add(&sizes, "%s%lld", i == 0 ? "" : " ", (long long)model->input_sizes[i]);
    }
    gy_status status = layers.status < 0 ? layers.status : sizes.status;
    if (status == GY_OK) {
        status = gy_bundle_set(bundle, "gyre.layers", gy_text_get(&layers));
    }
    if (status == GY_OK) {
        status = gy_bundle_set(bundle, "gyre.input", gy_text_get(&sizes));
    }
    gy_text_free(&layers);
    gy_text_free(&sizes);
    GY_TRY(status);
    GY_TRY(gy_bundle_set(bundle, "gyre.model", model->name));
    GY_TRY(gy_bundle_set(bundle, "gyre.dtype", gy_dtype_name(model->dtype)));
    GY_TRY(set_number(bundle, "gyre.format", 1));
    return set_class_names(bundle, model);
}

static gy_status add_parameters(gy_bundle *bundle, gy_model *model)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        if (slot->kind != GY_SLOT_STATE) {
            gy_tensor *value = NULL;
            GY_TRY(gy_train_slot_tensor(model, slot->name, &value));
            GY_TRY(gy_bundle_add(bundle, slot->name, value));
        }
    }
    return GY_OK;
}

gy_status gy_model_save(gy_model *model, const char *path, const char *const *extra)
{
    gy_bundle *bundle = NULL;
    GY_TRY(gy_bundle_new(&bundle));
    gy_status status = describe(bundle, model);
    for (size_t i = 0; status == GY_OK && extra != NULL && extra[i] != NULL; i += 2) {
        GY_ASSERT(extra[i + 1] != NULL);
        status = gy_bundle_set(bundle, extra[i], extra[i + 1]);
    }
    if (status == GY_OK) {
        status = add_parameters(bundle, model);
    }
    if (status == GY_OK) {
        status = gy_bundle_write(bundle, path);
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

static gy_status parse_sizes(const char *text, gy_model_options *options)
{
    const char *at = text;
    while (*at != '\0') {
        char *end = NULL;
        long long size = strtoll(at, &end, 10);
        if (end == at || size < 1 || size > (1LL << 40) ||
            options->input_rank == GY_TENSOR_RANK_MAX - 1) {
            return gy_fail(GY_FORMAT, "input sizes '%.40s': expected up to %d numbers", text,
                           GY_TENSOR_RANK_MAX - 1);
        }
        options->input_sizes[options->input_rank++] = size;
        at = end + strspn(end, " ");
    }
    return GY_OK;
}

/* The lines of `text`, which is changed and must outlive the result; caller frees the array. */
static gy_status split_lines(char *text, const char ***lines, int *count)
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
        parts[i] = strsep(&rest, "\n");
    }
    *lines = parts;
    *count = found;
    return GY_OK;
}

/* The model was made to fit the bundle. */
static gy_status fill_parameters(gy_model *model, const gy_bundle *bundle)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *from = NULL, *to = NULL;
        GY_TRY(gy_train_slot_find(model, &model->slots[i], bundle, &from));
        GY_TRY(gy_train_slot_tensor(model, model->slots[i].name, &to));
        GY_TRY(gy_tensor_copy(to, from));
    }
    return GY_OK;
}

/* Options from the metadata; `layers`, `names` and `lines` are the caller's to free. */
static gy_status read_description(const gy_bundle *bundle, gy_model_options *options,
                                  gy_layer **layers, char **names, const char ***lines)
{
    const char *text = NULL;
    GY_TRY(need(bundle, "gyre.model", &text));
    options->name = text;
    GY_TRY(need(bundle, "gyre.format", &text));
    if (strcmp(text, "1") != 0) {
        return gy_fail(GY_FORMAT, "model format %.20s, this version reads 1", text);
    }
    GY_TRY(need(bundle, "gyre.dtype", &text));
    if (!gy_dtype_parse(text, &options->dtype)) {
        return gy_fail(GY_FORMAT, "unknown element type '%.20s'", text);
    }
    GY_TRY(need(bundle, "gyre.input", &text));
    options->input_rank = 0;
    GY_TRY(parse_sizes(text, options));
    GY_TRY(need(bundle, "gyre.layers", &text));
    GY_TRY(gy_train_layers_parse(text, layers, &options->layer_count));
    options->layers = *layers;
    options->class_names = NULL;
    text = gy_bundle_get(bundle, "gyre.classes");
    if (text != NULL) {
        *names = gy_copy_text("train.model", text);
        if (*names == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(split_lines(*names, lines, &options->class_count));
        options->class_names = *lines;
    }
    return GY_OK;
}

gy_status gy_model_load(const char *path, const gy_model_options *options, gy_model **model)
{
    gy_model_options o;
    GY_TRY(gy_options_take(gy_model_options, &o, options));
    gy_bundle *bundle = NULL;
    GY_TRY(gy_bundle_read(path, &bundle));
    gy_layer *layers = NULL;
    char *names = NULL;
    const char **lines = NULL;
    gy_model *made = NULL;
    gy_status status = read_description(bundle, &o, &layers, &names, &lines);
    if (status == GY_OK) {
        status = gy_model_make(&o, bundle, &made);
    }
    if (status == GY_OK) {
        status = fill_parameters(made, bundle);
    }
    gy_free(layers);
    gy_free(names);
    gy_free(lines);
    if (status < 0) {
        gy_bundle_free(bundle);
        gy_model_free(made);
        return gy_fail_within(status, "%s", path);
    }
    GY_ASSERT(made != NULL);
    made->source = bundle;
    *model = made;
    return GY_OK;
}
