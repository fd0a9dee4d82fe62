/*
 * Goal: a program of the public headers runs on the device that GYRE_DEVICE says, as ranks on
 * one each, and has the losses that it has without; a device that is not there is named by all
 * ranks.
 */
#include "command_kit.h"

#include "gy_test.h"

/* `losses`: its steps alone; `near A B`: the same lines within 1e-4. */
static const char words[] =
    "export GYRE_TEST_CUDA_MULTIPROCESSORS=100; example=$(dirname $GYRE_BIN)/example_device; "
    "run() { timeout -k 5 60 $example \"$@\"; }; "
    "losses() { grep '^step' $1; }; near() { losses $1 >a; losses $2 >b; [ -s a ] && "
    "paste a b | awk '{ d = $4 - $8; if ($2 != $6 || d > 1e-4 || d < -1e-4) bad = 1 } "
    "END { exit bad || NR != 4 }'; }; "
    "[ -e plain ] || GYRE_DEVICE=none run >plain; ";

GY_TEST(without_a_device_it_runs_on_the_cpu)
{
    must("grep -qx 'rank 0: the CPU alone' plain && run --explain >said && "
         "! grep '^device' said && near plain said");
    must("[ $(awk '/^step 0/ { print $4 }' plain | cut -c1) -ge 1 ] && "
         "awk '/^step 0/ { a = $4 } /^step 3/ { b = $4 } END { exit !(b < a) }' plain");
}

GY_TEST(with_one_it_runs_there_and_says_so)
{
    must(
        "GYRE_DEVICE=0 run --explain >said && grep -qx 'rank 0: device 0 (Stand-in 0)' said && "
        "grep -q '^device 0 (Stand-in 0): [1-9][0-9]* of ' said && near plain said");
    must("GYRE_DEVICE=auto run >said && grep -q 'device 0' said && near plain said");
}

GY_TEST(each_rank_of_a_host_has_its_own)
{
    must("export GYRE_TEST_CUDA_DEVICES=2; GYRE_DEVICE=auto gyre run -n 2 $example >said && "
         "grep -qx 'rank 0: device 0 (Stand-in 0)' said && "
         "grep -qx 'rank 1: device 1 (Stand-in 1)' said && near plain said");
    must("GYRE_DEVICE=0 gyre run -n 2 $example >said && "
         "[ $(grep -c ': device 0 (Stand-in 0) shared by 2 processes$' said) = 2 ] && "
         "near plain said");
}

GY_TEST(a_failure_of_one_is_told_by_all)
{
    must("GYRE_DEVICE=0,7 timeout -k 5 50 $GYRE_BIN run -n 2 --on-failure continue $example "
         ">said "
         "2>&1; [ $? = 1 ] && "
         "grep -q '^rank 1: device 7: this machine shows device 0 alone' said && "
         "grep -q '^rank 0: .*rank 1.*device 7: this machine shows device 0 alone' said");
    must("export GYRE_TEST_CUDA_DEVICES=2; GYRE_DEVICE=auto timeout -k 5 50 $GYRE_BIN run -n 2 "
         "--on-failure continue sh -c '[ $GYRE_RANK = 1 ] && "
         "export GYRE_TEST_CUDA_FAIL=cuModuleLoadDataEx:1:200; exec $0' $example >said 2>&1; "
         "[ $? = 1 ] && grep -q '^rank 1: .*device 1 (Stand-in 1): cuModuleLoadDataEx' said && "
         "grep -q '^rank 0: .*rank 1: .*device 1 (Stand-in 1): cuModuleLoadDataEx' said");
    must("GYRE_DEVICE=0,x run >said 2>&1; [ $? = 1 ] && grep -q 'GYRE_DEVICE is \"0,x\"' said");
}

static int make_folder(void **state)
{
    kit_words = words;
    return kit_make_folder(state);
}

GY_TEST_MAIN(make_folder, kit_remove_folder)
