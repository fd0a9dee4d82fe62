/* Goal: the command trains a language model on text, alike on any number of ranks, continues
 * text with it, and names in one line what it cannot use. */
#include "command_kit.h"

#include <limits.h>
#include <stdbool.h>

#include "gy_test.h"

/* A text that a small model learns in seconds, and the options of that model. */
static const char words[] =
    "[ -e text ] || for i in $(seq 120); do echo the cat sat on the mat. a dog ran.; done "
    ">text; "
    "G='gpt -d text --layers 1 --model-width 16 --heads 2 --context 16 -b 8 -q'; "
    "loss() { sed -n 's/^test loss: \\([0-9.]*\\) nats a character.*/\\1/p' \"$1\"; }; ";

static int run(const char *line)
{
    char whole[3072];
    const int size = snprintf(whole, sizeof(whole), "%s%s", words, line);
    assert_in_range(size, 1, sizeof(whole) - 1);
    return shell(whole);
}

static void expect(const char *line, int status)
{
    const int ended = run(line);
    if (ended != status) {
        fail_msg("'%s' ended with %d: %s", line, ended, output);
    }
}

GY_TEST(a_text_is_learned_and_continued)
{
    expect("gyre train $G --steps 300 --learning-rate 0.01 -o learned >said", 0);
    expect("ls learned", 0);
    assert_string_equal(output, "loss.svg\nmodel.safetensors\ntrace.json\n");
    expect("loss said", 0);
    assert_true(strtod(output, NULL) > 0 && strtod(output, NULL) < 0.3);
    expect("cat said", 0);
    assert_non_null(strstr(output, "4200 characters, 15 of them different: 236 windows of 16 "
                                   "to train, 26 to test\n"));
    assert_non_null(strstr(output, " characters/s\n"));
    expect("gyre generate learned/model.safetensors -q --top-k 1 --prompt 'the c' --length 40",
           0);
    assert_string_equal(output, "the cat sat on the mat. a dog ran.\nthe cat sa\n");
    /* A pipe that closes ends the writing, without a message of a signal. */
    expect("gyre generate learned/model.safetensors --length 100000 2>/dev/null | head -c 5",
           0);
}

GY_TEST(ranks_and_a_resume_change_no_loss)
{
    expect(
        "gyre train $G --steps 20 --dtype f64 --dropout 0.1 -o one >one.said && "
        "gyre train $G --steps 20 --dtype f64 --dropout 0.1 -n 2 -o two >two.said && "
        "gyre run -n 3 $GYRE_BIN train $G --steps 20 --dtype f64 --dropout 0.1 -o three "
        ">three.said && "
        "gyre train $G --steps 20 --dtype f64 --dropout 0.1 --checkpoints kept --steps-max 9 "
        "-o part >part.said && "
        "gyre train $G --steps 20 --dtype f64 --dropout 0.1 --checkpoints kept --resume "
        "-o part >part.said && cmp part/model.safetensors one/model.safetensors && "
        "grep -q 'resumed after step 9' part.said && "
        "for n in one two three part; do loss $n.said; done | uniq -c | wc -l",
        0);
    assert_string_equal(output, "1\n");
}

/* An LSTM: alike in two stages, in parts and after a resume, and it continues the text. */
GY_TEST(an_lstm_learns_and_writes)
{
    expect(
        "L='lstm -d text --layers 2 --hidden-size 12 --bptt 8 -b 4 -q --steps 12 --dtype f64 "
        "--dropout 0.1'; gyre train $L -o l1 >l1.said && "
        "gyre train $L --mesh pipe=2 --cut layer1.input.weight -o l2 >l2.said && "
        "gyre train $L --mesh data=2 --zero 2 -o l3 >l3.said && "
        "gyre train $L --checkpoints lk --steps-max 7 -o l4 >l4.said && "
        "gyre train $L --checkpoints lk --resume -o l4 >l4.said && "
        "cmp l4/model.safetensors l1/model.safetensors && "
        "for n in l1 l2 l3 l4; do loss $n.said; done | uniq -c | wc -l",
        0);
    assert_string_equal(output, "1\n");
    expect("gyre train lstm -d text --layers 1 --hidden-size 24 --bptt 16 -b 4 -q --steps 250 "
           "--learning-rate 0.02 -o l5 >said && "
           "gyre generate l5/model.safetensors -q --top-k 1 --prompt 'the c' --length 40",
           0);
    assert_string_equal(output, "the cat sat on the mat. a dog ran.\nthe cat sa\n");
}

/* Three ranks have three, three and two of eight rows: none is asked for by another. */
GY_TEST(ranks_that_do_not_divide_the_batch_share_it)
{
    expect(
        "gyre train $G -n 3 --steps 1 --explain -o three >said && grep -q 'allreduce(' said && "
        "! grep 'allgather(' said",
        0);
}

static const struct {
    int status;
    const char *line, *words;
} wrong[] = {
    {2, "gyre train gpt", "--data is missing: expected a text file"},
    {2, "gyre train lstm -d text --heads 2", "--heads is an option of model gpt, not of lstm"},
    {2, "gyre train gpt -d text --bptt 8", "--bptt is an option of model lstm, not of gpt"},
    {1, "gyre train lstm -q -d text --bptt 100 -b 64", "samples are no 64 streams"},
    {2, "gyre train lstm -d text --bptt 0", "--bptt: '0'"},
    {2, "gyre train gpt -d text --layers 0", "--layers: '0'"},
    {2, "gyre train gpt -d text --heads 3", "--model-width 128 is not divisible by --heads 3"},
    {2, "gyre train gpt -d text --model-width 6", "--model-width 6 is not divisible by"},
    {2, "gyre train gpt -d text --context 0", "--context: '0'"},
    {2, "gyre train gpt -d text --dropout 1", "--dropout: '1'"},
    {2, "gyre train gpt -d text --epochs 1 --steps 1", "--epochs and --steps"},
    {2, "gyre train mlp -d digits --layers 2", "--layers is an option of models gpt and lstm"},
    {2, "gyre train mlp -d digits --dropout 0",
     "--dropout is an option of models gpt and lstm"},
    {2, "gyre train mlp -d digits -d more", "--data 'more': model 'mlp' takes one folder"},
    {2, "gyre train gpt -d text -n 4 --mesh data=2",
     "--mesh: the product of 'data=2' is 2, but --ranks is 4"},
    {2, "gyre run -n 3 $GYRE_BIN train gpt -d text --mesh data=2",
     "--mesh: the product of 'data=2' is 2, but this launch has 3 ranks"},
    {2, "gyre train gpt -d text --mesh data=1024,model=1024", "of more than 1024 ranks"},
    {2, "gyre train gpt -d text --mesh rows=2", "--mesh: mesh 'rows=2': no axis 'rows'"},
    {2, "gyre train gpt -d text --pin 'embedding:foo=S1'",
     "--pin: 'embedding:foo=S1': no axis 'foo': expected data, model or auto"},
    {2, "gyre run -n 2 $GYRE_BIN train gpt -d text --pin 'embedding:foo=S1'",
     "--pin: 'embedding:foo=S1': no axis 'foo'"},
    {2, "gyre train gpt -d text --mesh data=2 --pin 'embedding:model=S1'",
     "--pin: 'embedding:model=S1': the mesh 'data=2' has no axis model"},
    {2, "gyre train gpt -d text --pin 'embedding:data=S8'",
     "--pin: 'embedding:data=S8' is not valid: expected NAME:AXIS=S0"},
    {1, "gyre train gpt -q -d text --mesh data=2 --pin 'embedding:data=S2'",
     "cannot cut dimension 2"},
    {1, "gyre train gpt -q -d text --mesh model=2 --pin 'block0.residual1:model=S0'",
     "pin of block0.residual1: dimension 0 has the rows of the batch, which model=2 does not "
     "cut, expected data or auto"},
    {1,
     "gyre train gpt -q -d text --mesh model=2 --model-width 12 --heads 3 "
     "--pin 'block*.qkv.*:model=S0' --pin 'block*.qkv.weight:model=S1'",
     "heads cannot be cut over 2 ranks, expected 1 or 3 ranks along model"},
    {2, "gyre train gpt -d text --zero 4", "--zero: '4'"},
    {2, "gyre train gpt -d text --memory much", "--memory: 'much'"},
    {2, "gyre train gpt -d text --memory 0", "--memory: '0'"},
    {2, "gyre train gpt -d text --memory -1", "--memory: '-1'"},
    {1, "gyre train gpt -q -d text --memory 1KB", "the limit is 1000 B; the least is "},
    {1, "gyre train gpt -d nowhere", "nowhere"},
    {1, "gyre train gpt -d empty", "empty: no text: the file is empty"},
    {1, "gyre train gpt -d binary", "binary: byte 0x00 at offset 3, expected text"},
    {1, "gyre train gpt -d latin", "latin: byte 0xe9 at offset 3, expected text"},
    {1, "gyre train gpt -d text --context 420",
     "text: a text of 4200 characters, of which the last 420 are the test part, is too "
     "short for "
     "windows of 420"},
    {1, "gyre train gpt -d text --context 420 -n 2", "too short for windows of 420"},
    {2, "gyre generate", "MODEL"},
    {1, "gyre generate nowhere", "nowhere"},
    {1, "gyre generate out", "cannot read out: it is a folder, expected a file"},
    {1, "gyre generate cut", "cut: tensor"},
    {1, "gyre generate out/model.safetensors --prompt 'the Zoo'",
     "does not know 'Z', character 5 of the prompt"},
    {2, "gyre generate out/model.safetensors --length 0", "--length: '0'"},
    {2, "gyre generate out/model.safetensors --temperature 0", "--temperature: '0'"},
    {2, "gyre generate out/model.safetensors --top-k 0", "--top-k: '0'"},
    {1, "gyre generate digits.safetensors", "model softmax does not write text"},
    {2, "gyre predict out/model.safetensors x",
     "out/model.safetensors is a model that writes text: use 'gyre generate'"},
};

GY_TEST(wrong_usage_and_texts_are_one_line)
{
    expect("gyre train $G --steps 1 -o out >said && gyre train softmax -q -d digits --epochs 1 "
           "-o made >said && cp made/model.safetensors digits.safetensors && >empty && "
           "head -c -100 out/model.safetensors >cut && "
           "printf 'abc\\0def' >binary && printf 'caf\\351 au lait' >latin",
           0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char line[512];
        snprintf(line, sizeof(line), "%s >printed", wrong[i].line);
        expect(line, wrong[i].status);
        const char *end = strchr(output, '\n');
        if (strstr(output, wrong[i].words) == NULL || end == NULL || end[1] != '\0') {
            fail_msg("'%s' said: %s", wrong[i].line, output);
        }
    }
}

/* The model of nanoGPT's README: fewer steps, and still better than pairs of letters. */
GY_TEST(plays_are_learned)
{
    char path[1024], whole[PATH_MAX], line[PATH_MAX + 400];
    if (gy_test_data(path, "text/tinyshakespeare.txt") == NULL) {
        skip();
    }
    assert_non_null(realpath(path, whole));
    snprintf(
        line, sizeof(line),
        "head -c 200000 '%s' >play && gyre train gpt -q -d play --layers 2 --model-width 48 "
        "--context 32 --steps 150 --learning-rate 0.004 >said && loss said",
        whole);
    expect(line, 0);
    assert_true(strtod(output, NULL) > 1.5 && strtod(output, NULL) < 2.6);
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
