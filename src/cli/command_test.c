/* Goal: the real command's exit status and messages, from the outside. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "gy_test.h"

enum { OUTPUT_BYTES = 65536 };

typedef struct outcome {
    int status;
    char output[OUTPUT_BYTES]; /* standard output and standard error together */
} outcome;

static outcome result;

/* Run "gyre ARGUMENTS" through a shell; `before` stands before it ("cd /x &&"). */
static void gyre(const char *before, const char *arguments)
{
    const char *binary = getenv("GYRE_BIN");
    char line[2048];
    snprintf(line, sizeof(line), "%s %s %s 2>&1", before,
             binary != NULL ? binary : "build/dev/gyre", arguments);
    result.status = gy_test_shell(line, result.output, sizeof(result.output));
}

static size_t lines(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        count += *text == '\n' ? 1 : 0;
    }
    return count;
}

/* "gyre ARGUMENTS" ends with that status and says, among others, that. */
static void expect(int status, const char *arguments, const char *said)
{
    gyre("", arguments);
    if (result.status != status || strstr(result.output, said) == NULL) {
        fail_msg("gyre %s ended with %d, expected %d and '%s': %s", arguments, result.status,
                 status, said, result.output);
    }
}

GY_TEST(help_and_version_succeed)
{
    static const char *const good[] = {"--help",   "-h",         "help",      "--version",
                                       "help run", "run --help", "help info", "info -h"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        gyre("", good[i]);
        if (result.status != 0 || result.output[0] == '\0') {
            fail_msg("gyre %s ended with %d: %s", good[i], result.status, result.output);
        }
    }
    gyre("", "--help");
    assert_non_null(strstr(result.output, "usage: gyre COMMAND"));
    gyre("", "");
    assert_int_equal(result.status, 2);
}

/* Every process of a job starts as a gyre does: each of these would cost it up to 2 ms. */
GY_TEST(it_starts_without_libraries_that_few_commands_need)
{
    static const char *const later[] = {"libssl",  "libcrypto", "libsqlite3",
                                        "libcurl", "libhwloc",  "libmicrohttpd"};
    gyre("LD_TRACE_LOADED_OBJECTS=1", "");
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.output, "libc.so.6"));
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        if (strstr(result.output, later[i]) != NULL) {
            fail_msg("%s is loaded at the start:\n%s", later[i], result.output);
        }
    }
}

GY_TEST(wrong_usage_is_one_line_and_status_two)
{
    static const struct {
        const char *arguments, *said;
    } cases[] = {
        {"bogus", "'bogus'"},
        {"--bogus", "'--bogus'"},
        {"help bogus", "'bogus'"},
        {"help run run", "'run'"},
        {"run", "PROGRAM"},
        {"run -n 0 true", "'0'"},
        {"run -n -1 true", "'-1'"},
        {"run -n 99999 true", "'99999'"},
        {"run -n true", "'true'"},
        {"run --frobnicate true", "'--frobnicate'"},
        {"run --timeout 0 true", "'0'"},
        {"train", "MODEL"},
        {"train bogus", "'bogus'"},
        {"train mlp", "--data"},
        {"train mlp lenet", "'lenet'"},
        {"train language --ranks 0", "'0'"},
        {"train language --epochs -1", "'-1'"},
        {"train language --learning-rate nan", "'nan'"},
        {"train language --optimizer best", "'best'"},
        {"train language --resume", "--checkpoints"},
        {"train language --checkpoint-every 5", "--checkpoints"},
        {"train language --frobnicate", "'--frobnicate'"},
        {"plan", "VERB"},
        {"plan draw", "'draw'"},
        {"plan list allreduse", "all-to-all"},
        {"plan show", "OPERATION"},
        {"plan show allreduce", "--algorithm"},
        {"plan show allreduce --algorithm rign", "\"rign\"; there are ring"},
        {"plan show allreduce --algorithm ring --csv", "--csv"},
        {"plan table allreduce", "--operation"},
        {"plan table --operation sum", "\"sum\"; there are allreduce"},
        {"plan table --bytes 12XB", "'12XB'"},
        {"plan table --alpha-across 1", "--hosts"},
        {"plan table -n 65537", "'65537'"},
        {"plan check allreduce --algorithm ring --hosts 9 -n 8", "9 hosts"},
        {"plan simulate allreduce --algorithm ring --fail 3", "'3'"},
        {"plan table --links x --alpha 1", "--links gives"},
        {"plan list --links x", "--links does not apply"},
        {"plan simulate allreduce --algorithm ring --fail 9@1", "rank 9"},
        {"plan simulate allreduce --algorithm ring --retransmit-timeout 1", "--loss"},
        {"train lenet --data $GYRE_BIN", "'lenet' takes images: expected the folder"},
        {"predict", "MODEL"},
        {"predict --all", "'--all'"},
        {"tune all", "'all'"},
        {"tune -n 1", "'1'"},
        {"tune --hosts 2", "--print"},
        {"tune --print -n 2 --hosts 3", "2 ranks on 3 hosts"},
        {"info everything", "'everything'"},
        {"info --all", "'--all'"},
        {"job resume --no-wait x", "of a cluster"},
        {"job resume --wait-timeout 5 x", "of a cluster"},
        {"job resume --plaintext x", "--nameservers"},
        {"job gc --memo x --keep-days 3", "--keep-days"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!gy_test_takes(i)) {
            continue;
        }
        gyre("", cases[i].arguments);
        if (result.status != 2 || lines(result.output) != 1 ||
            strstr(result.output, cases[i].said) == NULL) {
            fail_msg("gyre %s ended with %d: %s", cases[i].arguments, result.status,
                     result.output);
        }
    }
}

GY_TEST(wrong_environment_is_one_line_and_status_two)
{
    static const char *const cases[][2] = {
        {"GYRE_LOG=loud", "error, warn, info, debug or trace"},
        {"GYRE_ISA=mmx", "baseline, avx2 or avx512"},
        {"GYRE_KERNEL=slow", "fast or reference"},
        {"GYRE_DEVICE=first", "none, auto or numbers from 0 to 999"},
        {"GYRE_DEVICE_GRAPHS=maybe", "on or off"},
        {"GYRE_TF32=yes", "0 or 1"},
        {"GYRE_COLL=best", "ring"},
        {"GYRE_COLL=allreduce=pairwise", "pairwise"},
        {"GYRE_TUNE=/dev/null", "/dev/null"},
        {"GYRE_TUNE=/proc/self/maps", "/proc/self/maps:1: expected \"gyre tune 1\""},
        {"GYRE_TRANSPORT=tcp", "auto, mpi or ucx"},
        {"GYRE_TIMEOUT=soon", "seconds"},
        {"GYRE_RANK=1", "GYRE_SIZE"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gyre(cases[i][0], "info");
        if (result.status != 2 || lines(result.output) != 1 ||
            strstr(result.output, cases[i][1]) == NULL ||
            strncmp(result.output, "gyre: GYRE_", 11) != 0) {
            fail_msg("%s gyre info ended with %d: %s", cases[i][0], result.status,
                     result.output);
        }
    }
    gyre("GYRE_FROB=1", "run -n 2 $GYRE_BIN info");
    assert_int_equal(result.status, 0);
    const char *warning = strstr(result.output, "GYRE_FROB");
    assert_non_null(warning);
    assert_null(strstr(warning + 1, "GYRE_FROB"));
    gyre("GYRE_TF32=1 GYRE_DEVICE_GRAPHS=off", "info");
    assert_null(strstr(result.output, "no variable"));
    gyre("GYRE_LOG=loud", "--version");
    assert_int_equal(result.status, 0);
}

GY_TEST(ranks_say_wrong_usage_once)
{
    static const char *const cases[][2] = {
        {"train bogus", "'bogus'"}, {"train mlp --epochs 0", "'0'"}, {"bench x", "'x'"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "run -n 3 $GYRE_BIN %s", cases[i][0]);
        gyre("", line);
        if (result.status != 2 || lines(result.output) != 1 ||
            strstr(result.output, cases[i][1]) == NULL) {
            fail_msg("gyre %s ended with %d: %s", line, result.status, result.output);
        }
    }
}

/* As many ranks as `gyre info` counts cores, quota and all. */
GY_TEST(run_starts_one_rank_a_core)
{
    gyre("", "info");
    const char *found = strstr(result.output, "cores: ");
    assert_non_null(found);
    long cores = strtol(found + 7, NULL, 10);
    gyre("", "run echo here");
    assert_int_equal(result.status, 0);
    assert_int_equal(lines(result.output), cores);
}

GY_TEST(run_passes_on_status_and_output)
{
    expect(0, "run -n 2 --prefix echo hello", "[0] hello\n");
    assert_non_null(strstr(result.output, "[1] hello\n"));
    gyre("", "run -n 2 sh -c 'exit 7'");
    assert_int_equal(result.status, 7);
    expect(127, "run -n 1 /nonexistent/program", "/nonexistent/program");
    gyre("", "run -n 1 -- sh -c 'kill -9 $$'");
    assert_int_equal(result.status, 137);
}

GY_TEST(info_names_cores_caches_and_libraries)
{
    expect(0, "info", "cpu: ");
    assert_non_null(strstr(result.output, "cores: "));
    assert_non_null(strstr(result.output, "instruction sets:"));
    assert_non_null(strstr(result.output, "blas: "));
    assert_non_null(strstr(result.output, "onednn: "));
    const bool has_unit = strstr(result.output, " avx512_bf16") != NULL;
    assert_true((strstr(result.output, " AVX512-BF16") != NULL) == has_unit);
    setenv("GYRE_ISA", "avx2", 1);
    expect(0, "info", "16-bit products: bf16 widened to f32, f16 widened to f32\n");
    unsetenv("GYRE_ISA");
}

/* A folder of our own, removed again by the caller. */
static const char *make_folder(char out[64])
{
    snprintf(out, 64, "/tmp/gyre-command-XXXXXX");
    assert_non_null(mkdtemp(out));
    return out;
}

static void shell(const char *line)
{
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    assert_int_equal(pclose(pipe), 0);
}

/* Each ends with status 1, says what is wrong in one line, and leaves nothing behind. */
GY_TEST(failures_are_one_line_and_status_one)
{
    static const struct {
        const char *arguments, *said;
    } cases[] = {
        {"train language --data empty --output out", "/usr/include"},
        {"train language --data nowhere --output out", "'nowhere'"},
        {"train mlp --data empty --output out", "train-images-idx3-ubyte"},
        {"train mlp --data digits --output out", "digits/train-images-idx3-ubyte"},
        {"train language --data empty --output plain/out", "'plain/out'"},
        {"train language --data empty --output plain", "'plain'"},
        {"predict nothing.safetensors", "nothing.safetensors"},
        {"predict empty", "empty"},
        {"predict plain", "plain"},
    };
    char folder[64], before[320];
    snprintf(before, sizeof(before),
             "cd %s && mkdir empty digits && echo text > plain && for part in train t10k; do "
             "printf '\\0\\0\\010\\003\\0' | tee digits/$part-images-idx3-ubyte "
             "> digits/$part-labels-idx1-ubyte; done",
             make_folder(folder));
    shell(before);
    snprintf(before, sizeof(before), "cd %s &&", folder);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!gy_test_takes(i)) {
            continue;
        }
        gyre(before, cases[i].arguments);
        if (result.status != 1 || lines(result.output) != 1 ||
            strstr(result.output, cases[i].said) == NULL) {
            fail_msg("gyre %s ended with %d: %s", cases[i].arguments, result.status,
                     result.output);
        }
    }
    snprintf(before, sizeof(before), "! ls %s/out/* 2>/dev/null && rm -r %s", folder, folder);
    shell(before);
}

/* A table of nothing has its header, a failure has no table. */
GY_TEST(a_damaged_history_is_said_alone)
{
    char folder[64], before[256];
    snprintf(before, sizeof(before), "export XDG_STATE_HOME=%s;", make_folder(folder));
    gyre(before, "job list");
    assert_int_equal(result.status, 0);
    assert_int_equal(lines(result.output), 1);
    snprintf(before, sizeof(before),
             "export XDG_STATE_HOME=%s; cd $XDG_STATE_HOME/gyre && rm history.db* && "
             "seq 2000 >history.db &&",
             folder);
    gyre(before, "job list");
    assert_int_equal(result.status, 1);
    assert_int_equal(lines(result.output), 1);
    assert_non_null(strstr(result.output, "cannot open the history of jobs"));
    snprintf(before, sizeof(before), "rm -r %s", folder);
    shell(before);
}

GY_TEST(output_that_cannot_be_written_is_a_failure)
{
    gyre("", "info 3>&1 1>/dev/full");
    assert_int_equal(result.status, 1);
}

GY_TEST(closed_standard_files_are_nobody_elses)
{
    static const char *const closed[] = {"<&- >&-", ">&-", "<&- >&- 2>&-"};
    char folder[64], before[128], arguments[160];
    snprintf(before, sizeof(before), "cd %s && echo a a b >in &&", make_folder(folder));
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
        snprintf(arguments, sizeof(arguments),
                 "mr wordcount in -o out%zu %s && grep -q '^a.2$' out%zu/part-* && true", i,
                 closed[i], i);
        gyre(before, arguments);
        if (result.status != 0) {
            fail_msg("gyre %s: %s", arguments, result.output);
        }
    }
    gyre("", "info >&- && true");
    assert_int_equal(result.status, 1); /* as before */
    snprintf(before, sizeof(before), "rm -r %s", folder);
    shell(before);
}

/* The lectures' table for 256 nodes: rows that must be there, to the letter. */
/* A file of links with those lines after its first, at `path`. */
static void write_links(const char *path, const char *lines)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "gyre links 1\n%s", lines);
    assert_int_equal(fclose(file), 0);
}

GY_TEST(plans_cost_what_a_file_of_links_says)
{
    static const char path[] = "/tmp/gyre-links-test.txt";
    static const char line[] = "allreduce,flat,3,1000,";
    write_links(path, "link ring 1 0\nlink far 1000000 0\nhost a 0-1\nhost b 2\n");
    gyre("", "plan table --links /tmp/gyre-links-test.txt --bytes 1000 --csv");
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.output, line));
    expect(0, "plan simulate broadcast --algorithm flat --links /tmp/gyre-links-test.txt -n 3",
           "3 of 3 ranks finished");
    assert_non_null(strstr(result.output, "ranks: 1"));
    gyre("", "plan show broadcast --algorithm weighted-tree --links /tmp/gyre-links-test.txt");
    assert_int_equal(result.status, 0);
    expect(2, "plan table --links /tmp/gyre-links-test.txt -n 4", "places 3");
    gyre("", "plan table --links /tmp/gyre-links-test.txt --hosts 2");
    assert_int_equal(result.status, 2);
    write_links(path, "link ring 1 x\n");
    gyre("", "plan table --links /tmp/gyre-links-test.txt");
    assert_int_equal(result.status, 1);
    assert_int_equal(lines(result.output), 1);
    assert_non_null(strstr(result.output, "gyre-links-test.txt:2: beta is \"x\""));
    assert_int_equal(remove(path), 0);
    expect(1, "plan table --links /tmp/gyre-links-test.txt", "cannot read the file of links");
}

GY_TEST(plan_table_says_what_the_lectures_say)
{
    static const char *const lines[] = {
        "allreduce of 97.5 MB over 256 ranks: a message 5e-06 s, a byte 2e-11 s, combining it "
        "1e-11 s\n",
        "algorithm             depth rounds      sent  received fan-in      time    formula\n",
        "ring                    510    510  194.2 MB  194.2 MB      1  7.406 ms   6.435 ms  "
        "2(p-1) a + 2 (p-1)/p n b  ring\n",
        "tree                     16     16    780 MB    780 MB      8  39.08 ms   31.28 ms  "
        "2 log p (a + n b)         tree\n",
        "256 x 3 x 97.5 MB/s = 74.88 GB/s, 1.5 times its link of 50 GB/s.\n",
        "(Lecture A's ResNet-50 on 256 V100s; its 73.1 GB/s is 74880 MB/s divided by 1024.)\n",
    };
    gyre("", "plan table -n 256 --bytes 97.5MB");
    assert_int_equal(result.status, 0);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (strstr(result.output, lines[i]) == NULL) {
            fail_msg("%s in the output, expected the line %s", result.output, lines[i]);
        }
    }
    gyre("", "plan table -n 4 --bytes 4000 --alpha 1 --beta 1e-3 --gamma 0 --csv");
    assert_non_null(strstr(result.output, "\nallreduce,ring,4,4000,6,6,6000,6000,24000,1,12,12,"
                                          "\"2(p-1) a + 2 (p-1)/p n b\",\"ring\"\n"));
    /* Both take seconds at the most ranks, in pure functions that tests of plan price there. */
    bool is_short = getenv("GYRE_SOAK") == NULL;
    gyre("", is_short ? "plan table -n 4096 --operation barrier"
                      : "plan table -n 65536 --operation barrier");
    assert_non_null(
        strstr(result.output, is_short ? "\ndissemination            12     12       0 B"
                                       : "\ndissemination            16     16       0 B"));
    gyre("", is_short ? "plan table -n 256 --plan-steps-max 20000" : "plan table -n 65536");
    assert_non_null(strstr(result.output, "\nring                 is too long for a cost: "));
    static const char left_out[] = "\nring                 is too long for a cost: 3.97e+03 "
                                   "steps (--plan-steps-max); by its formula ";
    expect(0, "plan table -n 32 --plan-steps-max 3967", left_out);
    gyre("", "plan table -n 32 --plan-steps-max 3968");
    assert_null(strstr(result.output, left_out));
    assert_non_null(strstr(result.output, "\nring                     62 "));
}

GY_TEST(plans_are_drawn_checked_and_simulated)
{
    expect(0, "plan show allreduce --algorithm ring -n 8",
           "\n    1  >1:0    >2:1    >3:2    >4:3    >5:4    "
           ">6:5    >7:6    >0:7\n       +7:7    +0:0");
    gyre("", "plan show allreduce --algorithm ring -n 8 --svg /nowhere/x.svg");
    assert_int_equal(result.status, 1);
    assert_int_equal(lines(result.output), 1);
    gyre("cd /tmp &&",
         "plan show allreduce --algorithm ring --svg gyre-plan.$$.svg && head -c 4 "
         "gyre-plan.$$.svg && rm gyre-plan.$$.svg");
    assert_string_equal(result.output, "<svg");
    gyre("", "plan check reduce-scatter --algorithm ring -n 9");
    assert_string_equal(result.output, "reduce-scatter by ring is right for 9 ranks\n");
    expect(0,
           "plan simulate allreduce --algorithm ring -n 64 --bytes 64KiB --loss 0.01 --seed 3",
           "64 of 64 ranks finished, seed 3, digest ");
    expect(1, "plan simulate allreduce --algorithm ring -n 64 --fail 5@1e-5",
           "rank 5 failed at 1e-05 s: 64 of 64 ranks");
}

GY_TEST(schedules_of_pipelines_are_planned_or_refused)
{
    expect(0, "plan pipe --schedule zb-h1 -p 4 -m 8", "time 27, bubble 11.11 %, at most 4");
    expect(2, "plan pipe --schedule zb-h2", "'zb-h2'");
    expect(2, "plan pipe --schedule 1f1b --chunks 2", "1f1b takes 1 chunk");
    expect(2, "plan pipe --schedule interleaved --chunks 2 -m 9", "expected 8 or 10");
    expect(2, "plan pipe --costs 1,2", "F,I,W");
    expect(2, "plan pipe --read x -p 3", "no --schedule, --stages");
    expect(1, "plan pipe --read /nowhere/x", "cannot be read");
    expect(2, "plan pipe -m 0", "'0'");
    expect(2, "plan table -m 4", "--micro-batches does not apply");
}

GY_TEST_MAIN(NULL, NULL)
