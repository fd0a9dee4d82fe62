/* Models of text: gpt reads windows in any order, lstm each row of a batch as one stream. */
#include "cli/train/text.h"
#include "cli/cli.h"
#include "cli/report.h"

#include <stdio.h>
#include <string.h>

/* What a model has where no option says otherwise. */
enum { WIDTH = 128, HEADS = 4, CONTEXT = 64, BPTT = 64 };

bool gy_cli_is_text(const char *model)
{
    return gy_cli_options_choice(GY_GPT_MODEL "|" GY_LSTM_MODEL, model) >= 0;
}

int gy_cli_text_check(const char *model, const gy_cli_text *text)
{
    const struct {
        const char *name;
        bool is_given, is_of_both, is_of_lstm;
    } own[] = {{"layers", text->layers > 0, true, false},
               {"dropout", text->dropout >= 0, true, false},
               {"model-width", text->width > 0, false, false},
               {"heads", text->heads > 0, false, false},
               {"context", text->context > 0, false, false},
               {"hidden-size", text->hidden > 0, false, true},
               {"bptt", text->bptt > 0, false, true}};
    const bool is_lstm = strcmp(model, GY_LSTM_MODEL) == 0;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        const bool fits =
            gy_cli_is_text(model) && (own[i].is_of_both || own[i].is_of_lstm == is_lstm);
        if (own[i].is_given && !fits) {
            return gy_cli_report_usage("gyre train: --%s is an option of model%s, not of %s",
                                       own[i].name,
                                       own[i].is_of_both   ? "s gpt and lstm"
                                       : own[i].is_of_lstm ? " lstm"
                                                           : " gpt",
                                       model);
        }
    }
    const long long width = text->width > 0 ? text->width : WIDTH;
    const long long heads = text->heads > 0 ? text->heads : HEADS;
    if (width % heads != 0) {
        return gy_cli_report_usage(
            "gyre train: --model-width %lld is not divisible by --heads %lld", width, heads);
    }
    return GY_EXIT_OK;
}

gy_status gy_cli_text_open(const char *model, const gy_cli_text *text, const char *const *paths,
                           bool is_first, gy_dataset **train, gy_dataset **test)
{
    const bool is_lstm = strcmp(model, GY_LSTM_MODEL) == 0;
    const long long given = is_lstm ? text->bptt : text->context;
    const long long length = given > 0 ? given : is_lstm ? BPTT : CONTEXT;
    GY_TRY(gy_dataset_open_text(paths, length, train, test));
    if (is_first) {
        printf("%lld characters, %d of them different: %lld windows of %lld to train, %lld to "
               "test\n",
               (long long)gy_dataset_text_count(*train), (*train)->classes,
               (long long)(*train)->count, length, (long long)(*test)->count);
        fflush(stdout);
    }
    return GY_OK;
}

gy_status gy_cli_text_model(const char *model, const gy_cli_text *text, gy_dataset *train,
                            const gy_model_options *base, gy_model **made)
{
    gy_model_options options = *base;
    const double dropout = text->dropout > 0 ? text->dropout : 0;
    options.class_names = train->class_names;
    options.class_count = train->classes;
    if (strcmp(model, GY_LSTM_MODEL) == 0) {
        return gy_lstm_new(&GY_OPTIONS(gy_lstm_options, .layers = (int)text->layers,
                                       .hidden = (int)text->hidden, .dropout = dropout),
                           &options, made);
    }
    return gy_gpt_new(&GY_OPTIONS(gy_gpt_options, .layers = (int)text->layers,
                                  .width = (int)text->width, .heads = (int)text->heads,
                                  .dropout = dropout),
                      &options, made);
}
