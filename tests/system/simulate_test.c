/*
 * Goal: gyre train --simulate prints a row a mesh and trains nothing, runs the example of the
 * manual page in seconds, and refuses what it cannot do in one line that says what to do.
 */
#include "command_kit.h"

#include "gy_test.h"

#define MLP  "gyre train mlp -d digits -b 64 "
#define FOUR "--simulate gpus=4,near=10GB/s,flops=50G"
#define TWO  "--mesh auto --simulate hosts=2,gpus=2,near=10GB/s,far=1MB/s,flops=50G"

/* The line ends with `status`, says `words`, and leaves no folder. */
static void assert_ends(const char *line, int status, const char *words)
{
    const int got = shell(line);
    if (got != status || strstr(output, words) == NULL) {
        fail_msg("'%s' ended with %d: %s; expected %s", line, got, output, words);
    }
    assert_int_equal(shell("[ ! -e out ]"), 0);
}

GY_TEST(a_row_a_mesh)
{
    assert_ends(MLP FOUR, 0, "mlp, batch 64, on 1 host of 4: 4 ranks, 10 GB/s near");
    assert_ends(MLP FOUR " | grep -c '^data='", 0, "8");
    assert_ends(MLP FOUR " --zero 2 | awk '/^data=/ { print $2 }' | sort -u | tr -d '\\n'", 0,
                "2");
    assert_ends(MLP FOUR " --mesh data=4 | grep -c '^data='", 0, "1");
    assert_ends(MLP FOUR " --mesh data=2,pipe=2 --zero 1 -m 2", 0,
                "memory at 0.5 GB/s, 2 micro-batches");
    assert_ends(MLP FOUR " --mesh pipe=4 -m 4 --pipe-schedule gpipe", 0, "4 micro-batches");
    assert_ends(MLP "--simulate gpus=2,near=10GB/s,flops=50G --mesh pipe=2 -m 4 "
                    "--pipe-schedule interleaved",
                0, "4 micro-batches");
    assert_ends(MLP FOUR ",memory=1GB --recompute auto --mesh data=4", 0, "data=4 ");
    assert_ends(MLP FOUR " --recompute auto --mesh data=4", 1, "needs the memory of a rank");
    assert_ends(MLP "--simulate gpus=2", 0, "shared memory, kernels as measured here");
}

/* All meshes of two hosts in their orders, the fastest first; what cannot be is said below. */
GY_TEST(all_meshes_of_auto)
{
    assert_ends(MLP TWO, 0, "mlp, batch 64, mesh auto on 2 hosts of 2: 4 ranks, 10 GB/s near");
    assert_ends(MLP TWO " | grep -c '^data=\\|^pipe=\\|^model='", 0, "8");
    assert_ends(MLP FOUR " --mesh auto --cut dense3.weight", 0, "left out: pipe=4: ");
    assert_ends(MLP FOUR ",memory=4MB --mesh auto", 0, "left out: data=4: needs 5.1 MB of a");
    assert_ends(MLP FOUR ",memory=1kB --mesh auto", 1, "mesh auto: no mesh fits in a rank's");
}

/* On ranks: the choice trains, and all that was tried is explained. */
GY_TEST(auto_trains)
{
    assert_ends("gyre train mlp -q -d digits -b 16 --steps 3 -n 2 --mesh auto "
                "--cluster hosts=2,far=1MB/s,flops=1G -o trained",
                0, "mesh auto on 2 hosts of 1: 2 ranks, 0.001 GB/s far");
    assert_int_equal(shell("[ -f trained/model.safetensors ]"), 0);
    assert_ends("gyre train mlp -q -d digits -b 16 --steps 1 -n 2 --mesh auto --memory 1kB "
                "-o trained",
                1, "mesh auto: no mesh fits in a rank's 1000 B");
}

/* A GPT of equal layers, where transfers are cheap: stages half as long have about half of the
 * bubble, and more values under way. Columns: time, ..., bubble, memory, sent. */
GY_TEST(stages_that_take_turns_on_a_rank_have_a_smaller_bubble)
{
    assert_ends("seq 20000 >numbers; "
                "row() { gyre train gpt --data numbers --layers 8 --model-width 256 --heads 4 "
                "-b 64 -m 8 --mesh pipe=4 --pipe-schedule $1 --simulate "
                "'gpus=4,near=450GB/s,flops=10T' | grep '^pipe=4' | tee -a rows; }; "
                "row 1f1b; row interleaved; "
                "awk '{ bubble[NR] = $8 + 0 } END { exit !(bubble[1] > 10 && bubble[2] < 0.8 * "
                "bubble[1]) }' rows",
                0, "pipe=4");
}

GY_TEST(the_example_of_the_page)
{
    assert_ends(
        "seq 20000 >numbers; gyre train gpt --data numbers --layers 8 --model-width 1024 "
        "--heads 16 -b 4096 -m 8 --simulate 'hosts=16,gpus=8,near=450GB/s,far=50GB/s,"
        "flops=400T,memory=80GB'",
        0, "on 16 hosts of 8: 128 ranks, 450 GB/s near, 50 GB/s far");
}

GY_TEST(what_cannot_be_is_told)
{
    assert_ends(MLP "--simulate gpu=4", 2, "no setting 'gpu', the nearest is gpus");
    assert_ends(MLP "--simulate gpus=4,near=0GB/s", 2, "near is '0GB/s': expected a speed");
    assert_ends(MLP "--simulate hosts=2,flops=1T", 2, "expected such as far=50GB/s");
    assert_ends(MLP "--simulate hosts=99999", 2, "hosts is '99999': expected 1 to 65536");
    assert_ends(MLP FOUR " -n 4", 2, "--ranks and --simulate exclude each other");
    assert_ends(MLP FOUR " --stats", 2, "--stats and --simulate exclude each other");
    assert_ends(MLP FOUR " --update ps:k=1", 2, "--update and --simulate exclude each other");
    assert_ends(MLP FOUR " --mesh data=3", 1, "expected axes whose product is 4");
    assert_ends("gyre train mlp -d digits -b 8 -m 2 --simulate gpus=8,near=1GB/s,flops=1T", 0,
                "left out: more than 4 ranks along data, each of which needs a row of a micro");
    assert_ends(MLP FOUR " --mesh data=2,pipe=2 --cut dense9.weight", 1, "dense9");
    assert_ends("gyre train mlp -d digits -b 3 " FOUR " --mesh data=4", 1,
                "3 rows for 4 ranks along data");
    assert_ends("gyre train mlp -d digits -b 1 --simulate hosts=97,far=1GB/s,flops=1T", 1,
                "choose a larger --batch");
    assert_ends("gyre train mlp -d nowhere " FOUR, 1, "no such file");
}

GY_TEST(what_does_not_fit_says_what_does)
{
    assert_ends(MLP FOUR ",memory=1kB", 1, "no mesh fits in a rank's 1.0 kB");
    assert_ends(MLP FOUR ",memory=4MB --mesh data=4", 1,
                "mesh data=4 needs 5.1 MB of a rank's 4.0 MB: data=");
    assert_ends(MLP FOUR " --memory 1kB --mesh data=4", 1, "no other mesh of these ranks does");
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
