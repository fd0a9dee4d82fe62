/* gyre predict: label files, or lines of standard input, with a saved language model. */
#include "cli/cli.h"
#include "cli/report.h"

#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1024, LINES = 256 };

static struct {
    bool probability;
} settings;

static const gy_option options[] = {
    {"probability", 'p', GY_OPTION_FLAG, NULL, "show how sure the model is, in percent",
     offsetof(__typeof__(settings), probability), 0, 0, NULL},
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
            lines->verdicts[i].lines = 0; /* nothing that could be judged */
        }
        print_label(model, &lines->verdicts[i]);
        putchar('\t');
        fwrite(sample->text, 1, (size_t)sample->size_bytes, stdout);
        putchar('\n');
    }
    lines->count = 0;
    return fflush(stdout) == 0 ? GY_OK : GY_IO;
}

/* Lines are labelled many at a time, but one by one when somebody types them. */
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

static int run(char **operands, int operand_count)
{
    gy_model *model = NULL;
    gy_status status = gy_language_open(operands[0], &model);
    if (status != GY_OK) {
        return gy_report_failure("predict", status);
    }
    int result = GY_EXIT_OK;
    if (operand_count == 1) {
        status = label_input(model);
        if (status != GY_OK && ferror(stdout) == 0) {
            result = gy_report_failure("predict", status);
        } else if (ferror(stdin) != 0) {
            gy_say(stderr, "gyre predict: cannot read standard input\n");
            result = GY_EXIT_FAILURE;
        }
    }
    for (int i = 1; i < operand_count; i++) {
        gy_language_verdict verdict;
        status = gy_language_label_file(model, operands[i], &verdict);
        if (status != GY_OK) {
            result = gy_report_failure("predict", status);
            continue;
        }
        printf("%s: ", operands[i]);
        print_label(model, &verdict);
        printf("\n");
    }
    gy_model_free(model);
    return result;
}

const gy_command gy_command_predict = {
    .name = "predict",
    .summary = "name the language of files or lines with a saved model",
    .operands = "MODEL [FILE...]",
    .operands_least = 1,
    .operands_most = -1,
    .description = "Labels each FILE (plain or .gz), or each line of standard input, with the\n"
                   "model that 'gyre train language' saved as MODEL.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
