/*
 * Goal: what a user can do wrong with the command itself, on one rank and on several: each ends
 * in bounded time with one clear line and status 1 or 2, and leaves no process and no half of a
 * file behind.
 */
#include "command_kit.h"

#include <stdbool.h>

#include "gy_test.h"

static int lines_with(const char *words)
{
    int count = 0;
    for (const char *at = strstr(output, words); at != NULL; at = strstr(at + 1, words)) {
        count++;
    }
    return count;
}

/* No process with our mark but the shell that looks, and no file that was being written. */
static void assert_nothing_is_left(void)
{
    assert_int_equal(
        shell("for p in /proc/[0-9]*; do "
              "grep -qsz \"^MARK=$MARK$\" $p/environ && ! grep -qs '^Stat[^a-z]*Z' "
              "$p/status && case $(readlink $p/exe) in *gyre|*yes) "
              "echo left: $p;; esac; done; find . -name '*tmp*'"),
        0);
    assert_string_equal(output, "");
}

/* `line` ends with `status`, says `words` in just one line, and "gyre" in one line. */
static void assert_fails(const char *line, int status, const char *words)
{
    int got = shell(line);
    if (got != status || lines_with(words) != 1 || lines_with("gyre") != 1) {
        fail_msg("'%s' ended with %d: %s", line, got, output);
    }
    assert_nothing_is_left();
}

GY_TEST(bad_data_is_told_once_by_any_number_of_ranks)
{
    static const char *const ranks[] = {"1", "2", "4"};
    assert_int_equal(
        shell("for f in label magic cut other; do cp -r digits $f; done; "
              "printf '\\012' | dd of=label/train-labels-idx1-ubyte bs=1 seek=13 "
              "conv=notrunc status=none; "
              "printf 'PNG' | dd of=magic/train-images-idx3-ubyte bs=1 "
              "conv=notrunc status=none; truncate -s -3 cut/t10k-images-idx3-ubyte; "
              "printf '\\0\\0\\010\\003\\0\\0\\0\\030\\0\\0\\0\\04\\0\\0\\0\\04' > "
              "other/t10k-images-idx3-ubyte; head -c 384 /dev/zero >> "
              "other/t10k-images-idx3-ubyte"),
        0);
    static const struct {
        const char *data, *words;
    } cases[] = {
        {"nowhere", "nowhere/train-images-idx3-ubyte: no such file"},
        {"label", "label/train-labels-idx1-ubyte: label 10 at index 5: expected 0 to 9"},
        {"magic", "magic/train-images-idx3-ubyte: not IDX"},
        {"cut", "cut/t10k-images-idx3-ubyte: the header says u8[24,8,8], 1552 bytes in all"},
    };
    char line[256];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(line, sizeof(line), "gyre train mlp -q -o out -n %s -d %s", ranks[i % 3],
                 cases[i].data);
        assert_fails(line, 1, cases[i].words);
    }
    for (size_t i = 0; i < 3; i++) {
        snprintf(line, sizeof(line), "gyre train mlp -q -o out -n %s -d other 2>&1 >said",
                 ranks[i]);
        assert_fails(line, 1, "has samples [1,4,4], model mlp takes [1,8,8]");
        snprintf(line, sizeof(line),
                 "gyre train mlp -q -o out -n %s -d digits -b 4 --epochs 3 --learning-rate 1e6 "
                 "--optimizer sgd "
                 "2>&1 >said",
                 ranks[i]);
        assert_fails(line, 1, "the loss is not a number at step ");
    }
    assert_int_equal(shell("find out -type f"), 0);
    assert_string_equal(output, "");
}

GY_TEST(shapes_that_do_not_fit_name_node_and_shape)
{
    assert_int_equal(
        shell("cp -r digits dot; for part in train t10k; do "
              "{ printf '\\0\\0\\010\\003\\0\\0\\0\\030\\0\\0\\0\\01\\0\\0\\0\\01'; "
              "head -c 24 /dev/zero; } > dot/$part-images-idx3-ubyte; done"),
        0);
    assert_fails("gyre train lenet -q -o out -d dot 2>&1 >said", 1,
                 "node max_pool_8 (of relu_7): max_pool: window 2 does not fit "
                 "f32[batch,32,1,1]");
}

/* The ranks of a mesh have groups, which a failed rank must not wait to leave. */
GY_TEST(a_failure_on_a_mesh_is_told_once)
{
    assert_fails("gyre train mlp -q -o out -d digits --mesh data=2,model=2 --pin "
                 "nothing:model=S1 2>&1 >said",
                 1, "model mlp has no parameter or value 'nothing'");
}

GY_TEST(places_that_cannot_be_written_are_told_once)
{
    assert_int_equal(shell("echo text > plain; mkdir -p ro; chmod 555 ro"), 0);
    assert_fails("gyre train mlp -q -d digits -n 3 -o plain", 1, "'plain': it is not a folder");
    assert_fails("gyre train mlp -q -d digits -n 3 -o plain/x", 1, "'plain/x'");
    /* Root may write anywhere: become nobody, where that is possible. */
    static const char *const nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    char line[512];
    bool is_root = geteuid() == 0;
    snprintf(line, sizeof(line), "%s \"${GYRE_BIN:-false}\" --version", is_root ? nobody : "");
    if (shell(line) != 0) {
        printf("skipped: cannot become another user: %s\n", output);
        skip();
    }
    snprintf(line, sizeof(line),
             "%s timeout 60 \"$GYRE_BIN\" train mlp -q -d digits -n 2 -o ro",
             is_root ? nobody : "");
    assert_fails(line, 1, "cannot write to 'ro': Permission denied");
    /* Nor may the job's own folder be made, where not even the way there may be gone. */
    assert_int_equal(shell("seq 9 > numbers; mkdir closed; chmod 700 closed"), 0);
    if (is_root) {
        snprintf(line, sizeof(line),
                 "XDG_STATE_HOME=$PWD/closed %s timeout 60 \"$GYRE_BIN\" mr wordcount -o away "
                 "numbers",
                 nobody);
        assert_int_equal(shell(line), 1);
        assert_int_equal(lines_with("\n"), 1);
        assert_non_null(strstr(output, "gyre mr: cannot make the folder "));
        assert_nothing_is_left();
    }
}

GY_TEST(a_full_disk_is_told_once_and_leaves_nothing)
{
    int status =
        shell("unshare -m true && mkdir -p disk && unshare -m sh -c 'mount -t tmpfs -o "
              "size=64k tmpfs disk'");
    if (status != 0) {
        printf("skipped: cannot mount a small disk: %s\n", output);
        skip();
    }
    static const char *const places[] = {"-o disk/out", "-o out --checkpoints disk/kept"};
    for (size_t i = 0; i < 2; i++) {
        char line[512];
        snprintf(line, sizeof(line),
                 "unshare -m sh -c 'mount -t tmpfs -o size=64k tmpfs disk && timeout 60 "
                 "\"$GYRE_BIN\" train mlp --epochs 1 -q -d digits -n 2 %s 2>&1 >said; s=$?; "
                 "[ -z \"$(find disk -type f)\" ] || s=3; exit $s'",
                 places[i]);
        assert_fails(line, 1, "No space left on device");
    }
}

GY_TEST(output_that_nobody_reads_ends_the_run)
{
    assert_int_equal(shell("{ gyre run -n 2 --prefix yes; echo $? >status; } | head -n 1; "
                           "grep -x 141 status >/dev/null"),
                     0);
    assert_nothing_is_left();
    assert_fails("gyre run -n 2 --prefix yes >/dev/full", 1, "cannot write the output of rank");
    assert_fails("gyre run -n 1 --prefix echo hello >/dev/full", 1, "cannot write the output");
    assert_fails("gyre train softmax -q -d digits --epochs 1 -o out >/dev/full", 1,
                 "cannot write to standard output");
    assert_fails("gyre train softmax -q -d digits -n 2 --epochs 1 -o out >/dev/full", 1,
                 "rank 0 ended with status 1: cannot write to standard output");
    assert_fails("gyre help train >/dev/full", 1, "cannot write to standard output");
    (void)shell("gyre info | head -n 0; gyre --help | head -n 1");
    assert_int_equal(lines_with("cannot"), 0);
}

/* The ranks have parts of all parameters, and each waits for the parts of the others. */
GY_TEST(a_killed_rank_ends_those_that_have_other_parts)
{
    int status = shell(
        "gyre train mlp -q -d digits -n 3 --zero 3 --epochs 1000 --checkpoints parts "
        "--checkpoint-every 1 -o out >said 2>told & "
        "until ls parts/step-*.safetensors >seen 2>&1; do kill -0 $! || exit; done; "
        "for p in /proc/[0-9]*; do grep -qsz '^GYRE_RANK=2$' $p/environ && "
        "grep -qsz \"^MARK=$MARK$\" $p/environ && kill -9 ${p#/proc/} && echo killed >>seen; "
        "done; wait $!; s=$?; grep -q killed seen && grep -v 'what the ranks did' told; exit "
        "$s");
    if (status != 137 || lines_with("rank 2 (process ") != 1 || lines_with("\n") != 1) {
        fail_msg("ended with %d: %s", status, output);
    }
    assert_int_equal(shell("rm -r parts"), 0);
    assert_nothing_is_left();
}

GY_TEST(images_that_do_not_fit_are_not_predicted)
{
    static const char *const lines[][2] = {
        {"", "FILE is missing: expected IDX files of images for model 'softmax'"},
        {"digits/t10k-labels-idx1-ubyte", "holds u8 of rank 1, expected images"},
        {"nowhere", "nowhere"},
        {"wide/t10k-images-idx3-ubyte", "has images of sizes 1 9 9, model 'softmax' takes 1 "},
        {"digits/t10k-images-idx3-ubyte --labels most",
         "most: label 11 at index 3: expected 0 to 9"},
        {"digits/t10k-images-idx3-ubyte --labels few", "has 24 images, few has 4 labels"},
        {"digits/t10k-images-idx3-ubyte wide/t10k-images-idx3-ubyte --labels few",
         "--labels is for one file of images, not for 2"},
    };
    assert_int_equal(shell("mkdir wide && gyre train softmax -q -d digits --epochs 1 -o out"),
                     0);
    char path[128];
    snprintf(path, sizeof(path), "%s/wide/t10k-images-idx3-ubyte", folder);
    kit_write_idx(path, 3, 5, 9);
    assert_int_equal(shell("f=digits/t10k-labels-idx1-ubyte; cp $f most && printf '\\013' | dd "
                           "of=most bs=1 seek=11 conv=notrunc && { printf '\\0\\0\\010\\1\\0\\0"
                           "\\0\\4' && tail -c 4 $f; } >few"),
                     0);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char line[512];
        snprintf(line, sizeof(line), "gyre predict out/model.safetensors %s", lines[i][0]);
        assert_fails(line,
                     strstr(lines[i][1], "FILE is") != NULL ||
                             strstr(lines[i][1], "--labels is") != NULL
                         ? 2
                         : 1,
                     lines[i][1]);
    }
    assert_int_equal(shell("rm -r wide out most few"), 0);
}

/* Lists of a file run where the checker takes them; else rank and action are named. */
GY_TEST(lists_of_stages_are_checked_before_they_run)
{
#define STAGES                                                                                 \
    "gyre train mlp -q -d digits -o out --steps 1 -b 4 --mesh pipe=2 -m 2 --pipe-schedule "
    static const struct {
        const char *line, *words;
        int status;
    } cases[] = {
        {"gyre plan pipe -p 2 -m 2 --lists computing >lists && " STAGES "lists", "trained 1",
         0},
        {"sed -i s/0F1,// lists; " STAGES "lists", "rank 0 action", 1},
        {STAGES "none", "'none' is neither", 2},
        {"gyre train mlp -d digits --mesh pipe=2 --pipe-schedule 1f1b", "--micro-batches", 2},
        {"gyre train mlp -d digits -m 2 --chunks 2", "has no axis pipe", 2},
        {"gyre train mlp -d digits --mesh pipe=2 -m 2 --chunks 2", "1f1b has one stage a", 2},
        {"gyre plan pipe --schedule interleaved -p 2 -m 2 --lists computing >two && "
         "gyre train mlp -d digits --mesh pipe=2 -m 2 --pipe-schedule two --chunks 3",
         "the lists of 'two' have 4 stages on 2 ranks", 2},
        {"gyre train mlp -d digits --steps 1 --mesh pipe=2 -m 5 --pipe-schedule interleaved",
         "micro-batches", 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int status = shell(cases[i].line);
        if (status != cases[i].status || lines_with(cases[i].words) == 0) {
            fail_msg("'%s' ended with %d: %s", cases[i].line, status, output);
        }
    }
    assert_int_equal(shell("rm -rf lists two out"), 0);
#undef STAGES
}

GY_TEST(a_training_cut_short_is_tested_where_it_ends)
{
    static const char *const lines[] = {
        "gyre train softmax -q -d digits -o out --epochs 5 -b 1 --steps-max 2",
        "gyre train softmax -q -d digits -o out --epochs 1 -b 1048576 --checkpoints kept",
        "gyre train softmax -q -d digits -o out --epochs 1 -b 1048576 --checkpoints kept "
        "--resume",
        "gyre train softmax -q -d digits -o out --epochs 1 -b 5 --accumulate 3 --steps-max 1 "
        "-n 4",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        int status = shell(lines[i]);
        if (status != 0 || lines_with("test accuracy: ") != 1 ||
            lines_with("loss 0.0000") > 0) {
            fail_msg("'%s' ended with %d: %s", lines[i], status, output);
        }
    }
    assert_nothing_is_left();
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
