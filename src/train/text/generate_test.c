/* Goal: what a model writes follows its probabilities and the seed, and a prompt that it cannot
 * read is named. */
#include "base/base.h"

#include <gyre/gpt.h>

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { CLASSES = 5, LENGTH = 4, WRITTEN = 40 };

static const char *const characters[CLASSES] = {"\n", "a", "b", "\xc3\xa9", "d"};

/* What comes behind each character, by preference: log-odds of 4, 3, 2, 1 and 0. */
static const int ranking[CLASSES][CLASSES] = {
    {1, 2, 3, 4, 0}, {2, 3, 4, 0, 1}, {3, 4, 0, 1, 2}, {4, 0, 1, 2, 3}, {0, 1, 2, 3, 4}};

/* A table of what follows what: the logits of a place know its own character alone. */
static gy_status table(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    (void)arg;
    *logits = gy_op_embedding(
        gy_model_parameter(builder, "table", (int64_t[]){CLASSES, CLASSES}, 2, gy_init_zeros()),
        x);
    return GY_OK;
}

static gy_model *table_model(const char *const *names)
{
    gy_model *model = NULL;
    assert_ok(gy_model_new(&GY_OPTIONS(gy_model_options, .name = "table", .input_rank = 1,
                                       .input_sizes = {LENGTH}, .workers = 1, .build = table,
                                       .input_dtype = GY_I32, .label_rank = 1,
                                       .label_sizes = {LENGTH}, .class_names = names,
                                       .class_count = names != NULL ? CLASSES : 0),
                           &model));
    gy_tensor *values = gy_session_parameter(gy_model_session(model), "table");
    for (int i = 0; i < CLASSES * CLASSES; i++) {
        gy_tensor_set(values, i / CLASSES * CLASSES + ranking[i / CLASSES][i % CLASSES],
                      4 - i % CLASSES);
    }
    return model;
}

static gy_status keep(void *arg, const char *character)
{
    char *text = arg;
    memcpy(text + strlen(text), character, strlen(character) + 1);
    return GY_OK;
}

static const char *write_text(gy_model *model, const char *prompt, gy_generate_options options)
{
    static char text[8][1 << 16];
    static int next;
    char *out = text[next++ % 8];
    out[0] = '\0';
    options.on_text = keep;
    options.arg = out;
    options.length = options.length != 0 ? options.length : WRITTEN;
    assert_ok(gy_gpt_generate(model, prompt, &options));
    return out;
}

GY_TEST(the_likeliest_follow_one_another)
{
    gy_model *model = table_model(characters);
    gy_generate_options greedy = {.top_k = 1, .length = 9};
    assert_string_equal(write_text(model, "a", greedy), "b\xc3\xa9"
                                                        "d\nab\xc3\xa9"
                                                        "d\n");
    /* A prompt longer than the window, and one of two bytes a character. */
    assert_string_equal(write_text(model, "aabbdda\n\xc3\xa9", greedy), "d\nab\xc3\xa9"
                                                                        "d\nab");
    /* An empty one stands for a line end. */
    assert_string_equal(write_text(model, "", greedy), write_text(model, "\n", greedy));
    greedy.top_k = 0;
    greedy.temperature = 1e-3;
    assert_string_equal(write_text(model, "a", greedy), "b\xc3\xa9"
                                                        "d\nab\xc3\xa9"
                                                        "d\n");
    gy_model_free(model);
}

GY_TEST(the_seed_decides)
{
    gy_model *model = table_model(characters);
    const gy_generate_options one = {.seed = 1}, two = {.seed = 2};
    assert_string_equal(write_text(model, "a", one), write_text(model, "a", one));
    assert_string_not_equal(write_text(model, "a", one), write_text(model, "a", two));
    gy_model_free(model);
}

/* Shares of what follows "a" in a long text, against e^((4 - place) / temperature). */
GY_TEST(draws_follow_the_probabilities)
{
    gy_model *model = table_model(characters);
    static const double temperatures[] = {1, 2, 1};
    static const int tops[] = {0, 0, 3};
    for (size_t k = 0; k < GY_COUNT(tops); k++) {
        const char *text = write_text(model, "a",
                                      (gy_generate_options){.length = 6000,
                                                            .seed = 3 + k,
                                                            .temperature = temperatures[k],
                                                            .top_k = tops[k]});
        double counts[CLASSES] = {0}, all = 0, total = 0;
        const int allowed = tops[k] > 0 ? tops[k] : CLASSES;
        for (const char *at = strchr(text, 'a'); at != NULL && at[1] != '\0';
             at = strchr(at + 1, 'a'), all++) {
            for (int place = 0; place < CLASSES; place++) {
                const char *name = characters[ranking[1][place]];
                counts[place] += strncmp(at + 1, name, strlen(name)) == 0;
            }
        }
        for (int place = 0; place < allowed; place++) {
            total += exp((4 - place) / temperatures[k]);
        }
        assert_true(all > 500);
        for (int place = 0; place < CLASSES; place++) {
            const double share =
                place < allowed ? exp((4 - place) / temperatures[k]) / total : 0;
            const double spread = sqrt(share * (1 - share) / all);
            assert_true(fabs(counts[place] / all - share) <= 5 * spread);
        }
    }
    gy_model_free(model);
}

static gy_status stop(void *arg, const char *character)
{
    int *left = arg;
    (void)character;
    return --*left > 0 ? GY_OK : gy_fail(GY_IO, "enough");
}

GY_TEST(what_cannot_be_read_or_written_is_named)
{
    gy_model *model = table_model(characters), *nameless = table_model(NULL), *digits = NULL;
    static const struct {
        const char *prompt;
        gy_generate_options options;
        const char *words;
    } cases[] = {
        {"ab\xc3\xa9z", {.length = 1}, "does not know 'z', character 4 of the prompt"},
        {"\xe4\xb8\xad"
         "a",
         {.length = 1},
         "does not know '\xe4\xb8\xad', character 1 "},
        {"a\xff", {.length = 1}, "does not know '\\xff', character 2 "},
        {"a", {.length = -1}, "length -1"},
        {"a", {.top_k = -1}, "top k -1"},
        {"a", {.temperature = -0.5}, "temperature -0.5"},
        {"a", {.temperature = NAN}, "temperature nan"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_status(gy_gpt_generate(model, cases[i].prompt, &cases[i].options), GY_ARG);
        assert_non_null(strstr(gy_error_text(), cases[i].words));
    }
    const gy_model_options images = {.input_rank = 1, .input_sizes = {LENGTH}, .workers = 1};
    assert_ok(gy_model_named("softmax", &images, CLASSES, &digits));
    assert_status(gy_gpt_generate(digits, "a", NULL), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "model softmax does not write text"));
    assert_status(gy_gpt_generate(nameless, "a", NULL), GY_ARG);
    int left = 7;
    const gy_generate_options stopped = {.length = 20, .on_text = stop, .arg = &left};
    assert_status(gy_gpt_generate(model, "a", &stopped), GY_IO);
    assert_int_equal(left, 0);
    gy_model_free(model);
    gy_model_free(nameless);
    gy_model_free(digits);
}

GY_TEST_MAIN(NULL, NULL)
