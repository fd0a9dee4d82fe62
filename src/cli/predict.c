/* gyre predict: labels files, or lines of standard input, with a saved language model; labels
 * images with a digits model. */
#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/demo/language.h>
#include <gyre/gpt.h>

#include <string.h>
#include <unistd.h>

#include <math.h>

enum { LINE_BYTES = 1024, LINES = 256, IMAGES = 256 };

static struct {
    bool probability;
    const char *labels;
} settings;

static const gy_option options[] = {
    {&gy_option_probability, GY_OPTION_FLAG, NULL, offsetof(__typeof__(settings), probability),
     0, 0, NULL},
    {&gy_option_labels, GY_OPTION_TEXT, NULL, offsetof(__typeof__(settings), labels), 0, 0,
     NULL},
};

/* Lines that wait for their labels. */
typedef struct waiting {
    char texts[LINES][LINE_BYTES];
    gy_sample samples[LINES];
    gy_language_verdict verdicts[LINES];
    int count;
} waiting;

static void print_label(const gy_model *model, const gy_language_verdict *verdict)
{
    const char *name =
        verdict->lines > 0 ? gy_model_class_name(model, (int)verdict->language) : "unknown";
    if (settings.probability) {
        printf("%s\t%.1f", name, 100 * verdict->probability);
    } else {
        printf("%s", name);
    }
}

/* Read one line, cut to LINE_BYTES; it may hold NUL bytes. False at the end of the input. */
static bool read_line(FILE *in, char *line, int32_t *size_bytes)
{
    int32_t size = 0;
    int c = getc(in);
    if (c == EOF) {
        return false;
    }
    for (; c != EOF && c != '\n'; c = getc(in)) {
        if (size < LINE_BYTES) {
            line[size++] = (char)c;
        }
    }
    while (size > 0 && line[size - 1] == '\r') {
        size--;
    }
    *size_bytes = size;
    return true;
}

static bool is_blank(const gy_sample *sample)
{
    for (int32_t i = 0; i < sample->size_bytes; i++) {
        if (strchr(" \t\r", sample->text[i]) == NULL) {
            return false;
        }
    }
    return true;
}

static gy_status label_waiting(gy_model *model, waiting *lines)
{
    GY_TRY(gy_language_label_lines(model, lines->samples, lines->count, lines->verdicts));
    for (int i = 0; i < lines->count; i++) {
        const gy_sample *sample = &lines->samples[i];
        if (is_blank(sample)) {
            lines->verdicts[i].lines = 0; /* the file has no lines that count */
        }
        print_label(model, &lines->verdicts[i]);
        putchar('\t');
        fwrite(sample->text, 1, (size_t)sample->size_bytes, stdout);
        putchar('\n');
    }
    lines->count = 0;
    return fflush(stdout) == 0 ? GY_OK : GY_IO;
}

/* Lines are labelled in batches, but one by one when a person types them. */
static gy_status label_input(gy_model *model)
{
    static waiting lines;
    int at_once = isatty(STDIN_FILENO) == 1 ? 1 : LINES;
    for (;;) {
        gy_sample *sample = &lines.samples[lines.count];
        sample->text = lines.texts[lines.count];
        bool is_line = read_line(stdin, lines.texts[lines.count], &sample->size_bytes);
        lines.count += is_line ? 1 : 0;
        if (lines.count == at_once || (!is_line && lines.count > 0)) {
            GY_TRY(label_waiting(model, &lines));
        }
        if (!is_line) {
            return GY_OK;
        }
    }
}

static int label_files(gy_model *model, char **operands, int operand_count)
{
    int result = GY_EXIT_OK;
    if (operand_count == 1) {
        gy_status status = label_input(model);
        if (status != GY_OK && ferror(stdout) == 0) {
            result = gy_cli_report_failure("predict", status);
        } else if (ferror(stdin) != 0) {
            fprintf(stderr, "gyre predict: cannot read standard input\n");
            result = GY_EXIT_FAILURE;
        }
    }
    for (int i = 1; i < operand_count; i++) {
        gy_language_verdict verdict;
        gy_status status = gy_language_label_file(model, operands[i], &verdict);
        if (status != GY_OK) {
            result = gy_cli_report_failure("predict", status);
            continue;
        }
        printf("%s: ", operands[i]);
        print_label(model, &verdict);
        printf("\n");
    }
    return result;
}

/* ---- images ---- */

/* Images of one file, and the model's results on them. */
typedef struct gallery {
    gy_model *model;
    gy_dataset *set;
    const char *path;
    double loss; /* a sum */
    int64_t right;
} gallery;

/* Print one line for each of the images [from, from + count) with these log-probabilities. */
static void print_images(gallery *g, int64_t from, int64_t count, gy_tensor *chances,
                         const int32_t *labels)
{
    const int64_t classes = gy_model_class_count(g->model);
    for (int64_t i = 0; i < count; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < classes; k++) {
            double chance = gy_tensor_get(chances, i * classes + k);
            best = chance > gy_tensor_get(chances, i * classes + best) ? k : best;
        }
        const char *name = gy_model_class_name(g->model, (int)best);
        printf("%s:%lld: ", g->path, (long long)from + i);
        if (name != NULL) {
            printf("%s", name);
        } else {
            printf("%lld", (long long)best);
        }
        if (settings.probability) {
            printf("\t%.1f", 100 * exp(gy_tensor_get(chances, i * classes + best)));
        }
        putchar('\n');
        if (settings.labels != NULL) {
            g->right += best == labels[i];
            g->loss -= gy_tensor_get(chances, i * classes + labels[i]);
        }
    }
}

/* Label images [from, from + count) of the set. */
static gy_status label_some(gallery *g, int64_t from, int64_t count)
{
    const char *dtype = gy_model_metadata(g->model, "gyre.dtype");
    int64_t sizes[GY_TENSOR_RANK_MAX] = {count}, indices[IMAGES];
    int32_t labels[IMAGES];
    gy_tensor *x = NULL, *chances = NULL;
    for (int i = 0; i < g->set->input_rank; i++) {
        sizes[i + 1] = g->set->input_sizes[i];
    }
    for (int64_t i = 0; i < count; i++) {
        indices[i] = from + i;
    }
    gy_status status =
        gy_tensor_new(NULL, dtype != NULL && strcmp(dtype, "f64") == 0 ? GY_F64 : GY_F32, sizes,
                      g->set->input_rank + 1, &x);
    if (status != GY_OK) {
        return status;
    }
    gy_view pixels = gy_tensor_pin(x), known = gy_view_of(labels, GY_I32, &count, 1);
    status = g->set->ops->fill(g->set, indices, count, &pixels, &known);
    gy_tensor_unpin(x);
    if (status == GY_OK) {
        status = gy_model_predict(g->model, x, &chances);
    }
    if (status == GY_OK) {
        print_images(g, from, count, chances, labels);
    }
    gy_tensor_drop(x);
    gy_tensor_drop(chances);
    return status;
}

/* The set has labels that the model does not know: name the first one. */
static void report_labels(const gallery *g)
{
    const int classes = gy_model_class_count(g->model);
    gy_tensor *labels = NULL;
    if (gy_read_idx(settings.labels, &labels) != GY_OK) {
        (void)gy_cli_report_failure("predict", GY_IO);
        return;
    }
    int64_t at = 0;
    while (at + 1 < gy_tensor_count(labels) && gy_tensor_get(labels, at) < classes) {
        at++;
    }
    fprintf(stderr, "gyre predict: %s: label %g at index %lld: expected 0 to %d\n",
            settings.labels, gy_tensor_get(labels, at), (long long)at, classes - 1);
    gy_tensor_drop(labels);
}

/* True when the model takes images of these sizes and knows the labels. */
static bool is_fit(const gallery *g)
{
    char sizes[GY_TENSOR_RANK_MAX * 24] = "";
    size_t used = 0;
    for (int i = 0; i < g->set->input_rank; i++) {
        int size = snprintf(sizes + used, sizeof(sizes) - used, "%s%lld", i == 0 ? "" : " ",
                            (long long)g->set->input_sizes[i]);
        if (size < 0 || (size_t)size >= sizeof(sizes) - used) {
            break; /* seven numbers of 20 digits fit */
        }
        used += (size_t)size;
    }
    const char *taken = gy_model_metadata(g->model, "gyre.input");
    if (taken == NULL || strcmp(sizes, taken) != 0) {
        fprintf(stderr, "gyre predict: %s: has images of sizes %s, model '%s' takes %s\n",
                g->path, sizes, gy_model_name(g->model), taken != NULL ? taken : "others");
        return false;
    }
    if (g->set->classes > gy_model_class_count(g->model)) {
        report_labels(g);
        return false;
    }
    return true;
}

static gy_status label_gallery(gallery *g)
{
    const int64_t count = g->set->count;
    if (!is_fit(g)) {
        return GY_SHAPE;
    }
    gy_status status = GY_OK;
    for (int64_t from = 0; from < count && status == GY_OK; from += IMAGES) {
        status = label_some(g, from, count - from < IMAGES ? count - from : IMAGES);
    }
    if (status != GY_OK) {
        (void)gy_cli_report_failure("predict", status);
        return status;
    }
    if (settings.labels != NULL) {
        printf("accuracy: %.2f %% of %lld, loss %.4f\n", 100 * (double)g->right / (double)count,
               (long long)count, g->loss / (double)count);
    }
    return GY_OK;
}

static int label_images(gy_model *model, char **operands, int operand_count)
{
    if (operand_count == 1) {
        return gy_cli_report_usage(
            "gyre predict: FILE is missing: expected IDX files of images for "
            "model '%s'",
            gy_model_name(model));
    }
    if (settings.labels != NULL && operand_count > 2) {
        return gy_cli_report_usage(
            "gyre predict: --labels is for one file of images, not for %d", operand_count - 1);
    }
    int result = GY_EXIT_OK;
    for (int i = 1; i < operand_count; i++) {
        gallery g = {.model = model, .path = operands[i]};
        gy_status status = gy_dataset_open_idx(operands[i], settings.labels, &g.set);
        if (status != GY_OK) {
            result = gy_cli_report_failure("predict", status);
            continue;
        }
        if (label_gallery(&g) != GY_OK) {
            result = GY_EXIT_FAILURE;
        }
        gy_dataset_free(g.set);
    }
    return result;
}

static int run(char **operands, int operand_count)
{
    gy_model *model = NULL;
    gy_status status = gy_model_load(operands[0], NULL, &model);
    if (status == GY_OK && strcmp(gy_model_name(model), GY_GPT_MODEL) == 0) {
        gy_model_free(model);
        return gy_cli_report_usage("gyre predict: %s is a model that writes text: use 'gyre "
                                   "generate'",
                                   operands[0]);
    }
    if (status == GY_OK && strcmp(gy_model_name(model), GY_LANGUAGE_MODEL) != 0) {
        int result = label_images(model, operands, operand_count);
        gy_model_free(model);
        return result;
    }
    gy_model_free(model);
    model = NULL;
    if (status == GY_OK && settings.labels != NULL) {
        return gy_cli_report_usage(
            "gyre predict: --labels is for images, but the model is for text");
    }
    status = status == GY_OK ? gy_language_open(operands[0], &model) : status;
    if (status != GY_OK) {
        return gy_cli_report_failure("predict", status);
    }
    int result = label_files(model, operands, operand_count);
    gy_model_free(model);
    return result;
}

const gy_command gy_command_predict = {
    .name = "predict",
    .summary = "label files, lines or images with a saved model",
    .operands = "MODEL [FILE...]",
    .operands_least = 1,
    .operands_most = -1,
    .description =
        "Labels each FILE (plain or .gz), or each line of standard input, with the model that\n"
        "'gyre train language' saved as MODEL; with a model of the digits it labels each "
        "image\n"
        "of the IDX files FILE.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
