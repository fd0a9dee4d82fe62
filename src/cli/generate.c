/* gyre generate: continue a text with a model that 'gyre train gpt' or 'gyre train
 * lstm' saved. */
#include "cli/cli.h"
#include "cli/report.h"

#include <gyre/gpt.h>

#include <limits.h>

static struct {
    const char *prompt;
    long long length, top_k, seed;
    double temperature;
    bool quiet;
} settings = {.prompt = "", .length = 500, .seed = 1, .temperature = 1};

#define PLACE(member) offsetof(__typeof__(settings), member)

static const gy_option options[] = {
    {&gy_option_prompt, GY_OPTION_WORDS, "default: none", PLACE(prompt), 0, 0, NULL},
    {&gy_option_length, GY_OPTION_INTEGER, "default: 500", PLACE(length), 1, INT_MAX, NULL},
    {&gy_option_temperature, GY_OPTION_REAL, "below 1: likely ones more often; default: 1",
     PLACE(temperature), 1e-3, 1e3, NULL},
    {&gy_option_top_k, GY_OPTION_INTEGER, "default: all", PLACE(top_k), 1, INT_MAX, NULL},
    {&gy_option_seed, GY_OPTION_INTEGER, "the same seed gives the same text; default: 1",
     PLACE(seed), 0, INT_MAX, NULL},
    {&gy_option_quiet, GY_OPTION_FLAG, NULL, PLACE(quiet), 0, 0, NULL},
};

/* Behind the prompt each character at once: somebody may be reading. */
static gy_status print(void *arg, const char *character)
{
    long long *written = arg;
    if (*written == 0) {
        fputs(settings.prompt, stdout);
    }
    if (fputs(character, stdout) < 0 || fflush(stdout) != 0) {
        return GY_IO;
    }
    (*written)++;
    return GY_OK;
}

static gy_status write_text(gy_model *model)
{
    long long written = 0;
    const gy_deadline begun = gy_deadline_after(0);
    const gy_generate_options chosen =
        GY_OPTIONS(gy_generate_options, .length = settings.length,
                   .temperature = settings.temperature, .top_k = (int)settings.top_k,
                   .seed = (uint64_t)settings.seed, .on_text = print, .arg = &written);
    GY_TRY(gy_gpt_generate(model, settings.prompt, &chosen));
    printf("\n");
    (void)fflush(stdout); /* the figures stand behind the text on a terminal */
    const double seconds = (double)(gy_deadline_after(0).at_ns - begun.at_ns) / 1e9;
    if (!settings.quiet) {
        gy_print_to(stderr, "%lld characters in %.2f s: %.0f a second\n", written, seconds,
                    (double)written / (seconds > 0 ? seconds : 1));
    }
    return GY_OK;
}

static int run(char **operands, int operand_count)
{
    gy_model *model = NULL;
    (void)operand_count;
    gy_status status = gy_model_load(operands[0], NULL, &model);
    if (status == GY_OK) {
        status = write_text(model);
    }
    gy_model_free(model);
    if (status != GY_OK && ferror(stdout) != 0) {
        gy_print_to(stderr, "gyre generate: cannot write to standard output\n");
        return GY_EXIT_FAILURE;
    }
    return status == GY_OK ? GY_EXIT_OK : gy_cli_report_failure("generate", status);
}

const gy_command gy_command_generate = {
    .name = "generate",
    .summary = "continue a text with a saved language model",
    .operands = "MODEL",
    .operands_least = 1,
    .operands_most = 1,
    .description =
        "Prints the prompt and the characters that follow it, drawn one by one by what the\n"
        "model that 'gyre train gpt' or 'gyre train lstm' saved as MODEL (such as\n"
        "out/gpt/model.safetensors) makes of those before. An empty prompt stands for a line "
        "end.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .settings = &settings,
    .run = run,
};
