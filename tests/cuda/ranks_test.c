/*
 * Goal: ranks on devices, one each or several on one, have the losses of ranks on CPUs: whole
 * batches, stages, cut operators, sharded state, parameter servers; and what goes wrong with a
 * device of one of them is named by all, in time.
 */
#include "base/base.h"

#include "command_kit.h"

#include "gy_test.h"

enum { MANY = 96 };

/*
 * What a line can say:
 *   t N OPTION...     trains mlp on N ranks, what it prints goes to `said`
 *   on N DEVICE OPTION...
 *                     ... on the CPU and on that device: both end alike, by the printed test
 *                     loss and by the losses of the steps, within 1e-4
 *   one RANK SETTING OPTION...
 *                     trains on two ranks of which RANK has the setting; ends within 90 s;
 *                     `said` has what they say, status how they ended
 */
static const char words[] =
    "export GYRE_TEST_CUDA_DEVICES=${GYRE_TEST_CUDA_DEVICES:-2} GYRE_TIMEOUT=100; "
    "export GYRE_TEST_CUDA_MULTIPROCESSORS=100 GYRE_CACHE_DIR=$PWD/kernels; "
    "P='train mlp -q -d many --steps 4 -b 96 --optimizer momentum'; "
    "t() { n=$1; shift; rm -rf out; gyre $P -n $n \"$@\" >said 2>&1; }; "
    "loss() { sed -n 's/.*, loss \\([0-9.]*\\)$/\\1/p' $1; }; "
    "near() { awk -v a=$(loss $1) -v b=$(loss $2) 'BEGIN { d = a - b; "
    "exit !(a > 0 && b > 0 && d <= 1e-4 && d >= -1e-4) }'; }; "
    "ran() { grep -q \"^$1; [1-9][0-9]* of a step's [1-9][0-9]* nodes run there\\$\" said; }; "
    "on() { n=$1; device=$2; shift 2; t $n --device none \"$@\" && mv said plain && "
    "! grep '^device' plain && t $n --device $device --explain \"$@\" && near plain said && "
    "grep -q '^device .*: [1-9][0-9]* of [0-9]* nodes' said; }; "
    "one() { rank=$1; export setting=$2; shift 2; rm -rf out; "
    "GYRE_TIMEOUT=20 timeout -k 5 90 $GYRE_BIN run -n 2 "
    "--on-failure continue sh -c '[ $GYRE_RANK = '$rank' ] && export \"$setting\"; "
    "exec $GYRE_BIN \"$@\"' sh $P \"$@\" >said 2>&1; status=$?; }; ";

/* The line ends well; else what was said last is shown. */
static void expect(const char *line)
{
    char whole[1024];
    (void)gy_print(whole, sizeof(whole), "{ %s; } || { tail -n 20 said; false; }", line);
    must(whole);
}

GY_TEST(ranks_with_a_device_each_have_the_losses_of_the_cpu)
{
    expect("on 1 1 --stats && ran 'device 1 (Stand-in 1): rank 0' && "
           "! grep -q 'kernels in' plain && grep -Eqx '  device: [1-9][0-9]* kernels in "
           "[1-9][0-9]* launches, [1-9][0-9]* of them graphs; [1-9][0-9]* copies there of .* "
           "[KM]iB, [1-9][0-9]* back of .*B' said");
    expect(
        "[ \"$(sed -n 's/^device .*: \\([0-9]* of [0-9]* nodes\\).*/\\1/p' said)\" = "
        "\"$(sed -n \"s/^device .*; \\([0-9]* of \\)a step's \\([0-9]* nodes\\).*/\\1\\2/p\" "
        "said)\" ]");
    expect("on 2 auto && ran 'device 0 (Stand-in 0): rank 0' && "
           "ran 'device 1 (Stand-in 1): rank 1'");
    expect("on 2 1,0 --zero 3 && ran 'device 1 (Stand-in 1): rank 0'");
    expect("on 2 auto --mesh model=2");
    expect("on 2 auto --mesh pipe=2 --micro-batches 3");
}

GY_TEST(ranks_that_share_one_have_them_too)
{
    expect("on 2 0 && ran 'device 0 (Stand-in 0) shared by 2 processes: rank 0, 1' && "
           "grep -q '^device 0 (Stand-in 0) shared by 2 processes: [1-9]' said");
    expect("on 3 auto --mesh data=3 && "
           "ran 'device 0 (Stand-in 0) shared by 2 processes: rank 0, 2' && "
           "ran 'device 1 (Stand-in 1): rank 1'");
}

GY_TEST(what_does_not_run_there_is_told)
{
    expect(
        "rm -rf out; gyre train softmax -q -d many --steps 2 -b 4 --device 0 >said 2>&1 && "
        "grep -q '^device 0 (Stand-in 0): rank 0; nothing runs there: no faster there' said");
    expect("GYRE_TEST_CUDA_MEMORY=3000000 t 1 --device 0 && "
           "grep -q '^device 0 .*; its memory is short: [0-9.]* [KM]iB, where more' said");
    expect(
        "t 1 --device 0,1 && grep -q 'warning: --device 0,1: .* --ranks 2 takes all' said && "
        "grep -q '^trained .*, device and other [0-9.]* s; ' said");
    expect("GYRE_CUDA_LIBRARIES=none t 1 --device auto && "
           "grep -q '^device auto: there is none, all ran on the CPU' said && "
           "export GYRE_CUDA_LIBRARIES=none && GYRE_DEVICE=auto t 2 && "
           "grep -q '^device auto: there is none' said && t 1 && ! grep '^device' said");
}

GY_TEST(workers_of_parameter_servers_have_one_each)
{
    expect("t 1 --update ps:k=1 --device none && mv said plain && "
           "t 1 --update ps:k=1 --device 1 && grep -q '^device 1 (Stand-in 1): rank 0' said && "
           "near plain said");
    expect("t 2 --update ps:k=1 --device auto && grep -q '^device 0 (Stand-in 0): rank 0;' "
           "said && "
           "grep -q '^device 1 (Stand-in 1): rank 1;' said");
}

GY_TEST(a_device_that_one_rank_lacks_is_named_by_all)
{
    expect("one 1 GYRE_CUDA_LIBRARIES=none --device 0; [ $status = 1 ] && "
           "grep -q 'rank 1 ended with status 1: no CUDA driver: none/libcuda.so.1' said && "
           "grep -q 'rank 0 ended.*: rank 1: no CUDA driver: none/libcuda.so.1' said");
    expect("one 0 GYRE_TEST_CUDA_VERSION=10020 --device auto; [ $status = 1 ] && "
           "grep -q 'rank 0 ended with status 1: the CUDA driver is of CUDA 10.2, and 11.4' "
           "said && "
           "grep -q 'rank 1 ended.*: rank 0: the CUDA driver is of CUDA 10.2' said");
    expect("one 1 GYRE_CUDA_LIBRARIES=none --device auto; [ $status = 0 ] && "
           "ran 'device 0 (Stand-in 0): rank 0' && ! grep 'rank 1' said");
    /* before the data are read */
    expect("! t 2 --device 7 && grep -q 'device 7: this machine shows devices 0 to 1' said && "
           "! grep 'to train' said");
    expect("! t 2 --device 0,7 && grep -q 'rank 1.*device 7: this machine shows devices 0 to "
           "1' said");
}

/* Its setting, what the rank says, and what the other one says of it. */
static const struct {
    const char *setting, *own, *other;
} faults[] = {
    {"GYRE_TEST_CUDA_FAIL=cuLaunchKernel:20:719",
     "device 1 (Stand-in 1) is lost: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)",
     "rank 1: .*device 1 (Stand-in 1) is lost: cuLaunchKernel"},
    {"GYRE_TEST_CUDA_FAIL=cuLaunchKernel:1:719",
     "device 1 (Stand-in 1) is lost: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)",
     "rank 1: .*device 1 (Stand-in 1) is lost: cuLaunchKernel"},
    {"GYRE_TEST_CUDA_FAIL=cuModuleLoadDataEx:1:200",
     "device 1 (Stand-in 1): .*CUDA_ERROR_INVALID_IMAGE (200)",
     "rank 1: .*device 1 (Stand-in 1): .*CUDA_ERROR_INVALID_IMAGE"},
    {"GYRE_TEST_CUDA_FAIL=cuEventQuery:40:46", "device 1 (Stand-in 1) is lost: cuEventQuery",
     "rank 1: .*device 1 (Stand-in 1) is lost: cuEventQuery"},
    {"GYRE_TEST_CUDA_FAIL=cuMemcpyDtoHAsync_v2:10:719",
     "device 1 (Stand-in 1) is lost: cuMemcpyDtoHAsync_v2",
     "rank 1: .*device 1 (Stand-in 1) is lost: cuMemcpyDtoHAsync_v2"},
    {"GYRE_TEST_CUDA_FAIL=cuMemAllocAsync:6-999:2",
     "device 1 (Stand-in 1) is out of memory: .* were asked for, of 64.0 MiB there are .* free",
     "rank 1: .*device 1 (Stand-in 1) is out of memory"},
    {"GYRE_TEST_CUDA_FAIL=cuMemHostAlloc:3-999:2",
     "device 1 (Stand-in 1): cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)",
     "rank 1: .*cuMemHostAlloc"},
    {"GYRE_TEST_CUDA_MEMORY=2000",
     "device 1 (Stand-in 1) is out of memory: 4.0 KiB were asked for, of 2.0 KiB",
     "rank 1: .*device 1 (Stand-in 1) is out of memory"},
    {"GYRE_TEST_CUDA_FAIL=cuLaunchKernel:20:-9", "was killed by signal 9", "rank 1 .*is lost"},
};

GY_TEST(a_device_that_fails_one_rank_in_the_middle_fails_all)
{
    char line[640];
    for (size_t i = 0; i < GY_COUNT(faults); i++) {
        (void)gy_print(line, sizeof(line),
                       "one 1 %s --device auto; [ $status = 1 -o $status = 137 ] && "
                       "grep -q 'rank 1 .*%s' said && grep -q 'rank 0 ended.*%s' said && "
                       "[ ! -e out/mlp/model.safetensors ]",
                       faults[i].setting, faults[i].own, faults[i].other);
        expect(line);
    }
}

GY_TEST(words_that_say_no_device_are_refused)
{
    static const char *const junk[] = {"0,x", "0,", "gpu", "1000", "-1", "0;1", "auto,0"};
    char line[256];
    for (size_t i = 0; i < GY_COUNT(junk); i++) {
        (void)gy_print(line, sizeof(line),
                       "gyre $P --device='%s' >said 2>&1; [ $? = 2 ] && grep -q "
                       "'gyre train: --device is \"%s\": expected none, auto or numbers' said",
                       junk[i], junk[i]);
        expect(line);
    }
    expect("gyre $P --device 0 --simulate hosts=2 >said 2>&1; [ $? = 2 ] && "
           "grep -q -e '--device and --simulate exclude' said");
    expect(
        "! t 2 --mesh auto --device 0 && grep -q 'mesh auto measures kernels on the CPU, and a "
        "device was asked for' said");
}

static int make_folder(void **state)
{
    char digits[80];
    if (kit_make_folder(state) != 0 || shell("mkdir many") != 0) {
        return 1;
    }
    (void)gy_print(digits, sizeof(digits), "%s/many", folder);
    kit_write_digits(digits, MANY, SIDE);
    kit_words = words;
    return 0;
}

GY_TEST_MAIN(make_folder, kit_remove_folder)
