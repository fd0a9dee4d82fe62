/*
 * Goal: `gyre tune` measures in the time it is given, also with more ranks than cores, and runs
 * that name its table, or find it where it usually lies, choose by it; what is wrong with a
 * table stops them before they start.
 */
#include "command_kit.h"

static void expect(const char *line)
{
    int status = shell(line);
    if (status != 0) {
        fail_msg("%s\nended with %d: %s", line, status, output);
    }
}

GY_TEST(table_is_measured_and_chosen_by)
{
    expect("gyre tune -n 2 --duration 0.4 -o table >said && grep -q '^link ring .* us .* GB/s' "
           "said");
    expect("GYRE_TUNE=table gyre bench allreduce -n 2 --duration 0.001 | tee said | "
           "grep -q '64 KiB .*measured, .* us'");
    expect("gyre bench allreduce -n 2 --duration 0.001 | grep -q '64 KiB .*built in'");
    expect("GYRE_TUNE=table GYRE_LOG=debug gyre bench allreduce -n 2 --duration 0.001 2>&1 | "
           "grep -q 'allreduce of 64.0 KiB over 2 ranks takes .*measured'");
    expect("GYRE_TUNE=table gyre tune --print -n 2 | grep -q '^allreduce .*measured, '");
    /* Nothing like it was measured: the model, on its links. */
    expect("GYRE_TUNE=table gyre tune --print -n 16 | grep -q '^allreduce .*model, '");
    expect("GYRE_TUNE=table GYRE_COLL=allreduce=staged gyre tune --print -n 2 | "
           "grep -q '^allreduce .*staged *GYRE_COLL'");
}

GY_TEST(more_ranks_than_cores_are_measured)
{
    expect(
        "gyre tune -n $(($(nproc) * 2 + 1)) --duration 0.3 -o crowd && grep -q '^take' crowd");
}

GY_TEST(usual_table_is_found)
{
    expect(
        "unset GYRE_TUNE; export XDG_CONFIG_HOME=$PWD/home; gyre tune -n 2 --duration 0.1 && "
        "gyre bench allreduce -n 2 --duration 0.001 | grep -q measured && "
        "sed -i 's/^machine .*/machine an abacus/' home/gyre/tune && "
        "gyre bench allreduce -n 2 --duration 0.001 >said 2>&1 && grep -q 'built in' said && "
        "[ $(grep -c 'is not used: it was measured on an abacus' said) = 1 ] && "
        "GYRE_TUNE=home/gyre/tune gyre bench allreduce -n 2 --duration 0.001 | grep -q "
        "measured");
}

GY_TEST(bad_table_stops_a_run)
{
    expect("gyre tune -n 2 --duration 0.05 -o table && head -n 5 table >cut && "
           "! GYRE_TUNE=cut gyre bench allreduce -n 2 2>said && "
           "grep -q 'GYRE_TUNE: cut:5: the file ends without a line \"end\"' said && "
           "[ $(wc -l <said) = 1 ]");
    /* Whoever names no table for a rank gets the other's choice told, not a hang. */
    expect("! gyre run -n 2 sh -c 'if [ $GYRE_RANK = 1 ]; then export GYRE_TUNE=table; fi; "
           "exec '$GYRE_BIN' bench allreduce --duration 0.001' 2>said && "
           "grep -q 'another GYRE_COLL or table of gyre tune' said");
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
