/* Goal: `gyre train --update ps:...` as a user sees it: the model of an allreduce, accuracy
 * under other rules, a killed worker that the others do not wait for, and nothing left behind.
 */
#include "command_kit.h"

#include "gy_test.h"

/*
 *   accuracy FILE   the percentage that a training printed
 *   rank N          the process of rank N of this test's launch
 */
static const char words[] =
    "accuracy() { sed -n 's/^test accuracy: \\([0-9.]*\\) %.*/\\1/p' $1; }; "
    "rank() { grep -lz \"^GYRE_RANK=$1$\" $(grep -lzx \"MARK=$MARK\" /proc/[0-9]*/environ "
    "2>/dev/null) 2>/dev/null | sed 's|/proc/\\([0-9]*\\)/.*|\\1|'; }; "
    "none_left() { ! grep -lzx \"GYRE_SERVERS=.*\" $(grep -lzx \"MARK=$MARK\" "
    "/proc/[0-9]*/environ 2>/dev/null) >left 2>/dev/null; }; ";

static int begin(void **state)
{
    kit_words = words;
    return kit_make_folder(state);
}

GY_TEST(two_workers_have_the_bits_of_two_ranks)
{
    must("T='-q -d digits --epochs 2 -b 8 -n 2'; for m in softmax mlp; do "
         "for o in sgd momentum adam; do "
         "gyre train $m $T --optimizer $o -o ranks >said && "
         "gyre train $m $T --optimizer $o -o workers --update ps:k=2 >said && "
         "cmp ranks/model.safetensors workers/model.safetensors || exit 1; done; done");
}

/* Servers and workers are gone when the command is, and what is trained is trained by all. */
GY_TEST(nothing_is_left_behind)
{
    must(
        "gyre train softmax -q -d digits --epochs 2 -b 8 -n 3 --update ps:k=2,sync=ssp:1 >said "
        "&& grep -q 'saved in' said && none_left");
}

/* The one that is killed has joined; the other two go on without it. */
GY_TEST(a_killed_worker_is_not_waited_for)
{
    must(
        "GYRE_LOG=info gyre train softmax -q -d digits --epochs 250 -b 4 -n 3 "
        "--update ps:k=1 >said 2>log & p=$!; "
        "until [ $(grep -c 'first step done' log) = 3 ] || ! kill -0 $p; do sleep 0.02; done; "
        "kill -9 $(rank 1) || exit 1; "
        "wait $p && grep -q 'saved in' said && grep -q 'trained 1500 steps' said && none_left");
    must("GYRE_LOG=info gyre train softmax -q -d digits --epochs 250 -b 4 -n 2 -o other "
         "--update ps:k=1 >said 2>log & p=$!; "
         "until [ $(grep -c 'first step done' log) = 2 ] || ! kill -0 $p; do sleep 0.02; done; "
         "kill -9 $(rank 0) || "
         "exit 1; "
         "! wait $p && grep -q 'worker 0, which saves the model, has failed' log && none_left");
}

/* Killed as a whole and resumed at new servers, a training ends with the bits of one that was
 * not; and worker 0 stops all of them early. */
GY_TEST(a_killed_training_goes_on_from_its_checkpoint)
{
    must("T='-q -d digits --epochs 300 -b 8 -n 2 --optimizer adam --checkpoint-every 50 "
         "--update ps:k=2,codec=topk:0.1'; "
         "gyre train softmax $T -o whole --checkpoints c0 >said && "
         "{ gyre train softmax $T -o cut --checkpoints c >said 2>log & } && "
         "until ls c/step* >/dev/null 2>&1 || ! kill -0 $!; do sleep 0.01; done; "
         "kill -9 $(rank 0) $(rank 1); wait; none_left && "
         "gyre train softmax $T -o cut --checkpoints c --resume >said && "
         "cmp whole/model.safetensors cut/model.safetensors && ls c/worker1/step* >/dev/null");
    must("gyre train softmax -q -d digits --epochs 50 -b 8 -n 2 --patience 1 "
         "--learning-rate 20 --update ps:k=1,sync=ssp:1 >said && "
         "grep -q 'stopped early' said");
}

/* LeNet by workers learns what it learns by ranks. The digits at hand, few of them here, all of
 * them with GYRE_SOAK. */
GY_TEST(lenet_by_workers_is_as_good_as_by_ranks)
{
    char path[1024];
    const bool is_soak = getenv("GYRE_SOAK") != NULL;
#ifdef GYRE_TSAN
    printf("skipped: more than a minute under the race detector; ps and train tests cover the "
           "parts\n");
    skip();
#endif
    if (gy_test_data(path, "mnist/t10k-labels-idx1-ubyte.gz") == NULL) {
        skip();
    }
    *strrchr(path, '/') = '\0';
    char line[2048], whole[1024];
    assert_non_null(realpath(path, whole));
    snprintf(line, sizeof(line),
             "T='-q -d %s -n 2 %s'; gyre train lenet $T -o ranks >ranks.said || exit 1; "
             "a=$(accuracy ranks.said); for u in %s; do "
             "gyre train lenet $T -o workers --update ps:$u >workers.said || exit 1; "
             "b=$(accuracy workers.said); echo $u $a $b; "
             "awk \"BEGIN { exit !($b > $a - %s) }\" || exit 1; done",
             whole, is_soak ? "--epochs 4" : "--steps 60 -b 64",
             is_soak ? "k=1 k=2 k=1,sync=ssp:4 k=2,sync=ssp:4" : "k=2,sync=ssp:4",
             is_soak ? "0.5" : "3");
    must(line);
    printf("%s", output);
}

GY_TEST_MAIN(begin, kit_remove_folder)
