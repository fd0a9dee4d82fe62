/* Goal: of the status that managers send only values within the limits, and consistent ones,
 * are accepted. */
#include "control/net/net.h"

#include <string.h>

#include "gy_test.h"

static char just[GY_NET_VIEW_TEXT], beyond[GY_NET_VIEW_TEXT + 1];
static Gy__Cluster__Key job = GY__CLUSTER__KEY__INIT;
static Gy__Cluster__ViewStage stage;
static Gy__Cluster__ViewRun run;
static Gy__Cluster__ViewNote note;
static Gy__Cluster__ViewCounter counter;
static Gy__Cluster__ViewStage *stages[GY_NET_VIEW_STAGES + 1];
static Gy__Cluster__ViewRun *runs[GY_NET_VIEW_ROWS + 1];
static Gy__Cluster__ViewNote *notes[GY_NET_VIEW_ROWS + 1];
static Gy__Cluster__ViewCounter *counters[GY_NET_VIEW_ROWS + 1];
static uint32_t reads[GY_NET_VIEW_STAGES + 1];

/* A status with the maximum of every entry. */
static Gy__Cluster__View full(void)
{
    Gy__Cluster__View view = GY__CLUSTER__VIEW__INIT;
    gy__cluster__view_stage__init(&stage);
    gy__cluster__view_run__init(&run);
    gy__cluster__view_note__init(&note);
    gy__cluster__view_counter__init(&counter);
    job.low = 1;
    view.job = &job;
    view.epoch = 1;
    memset(just, 'x', sizeof(just) - 1);
    memset(beyond, 'x', sizeof(beyond) - 1);
    stage.name = run.host = note.text = counter.name = just;
    for (size_t i = 0; i <= GY_NET_VIEW_STAGES; i++) {
        stages[i] = &stage;
    }
    for (size_t i = 0; i <= GY_NET_VIEW_ROWS; i++) {
        runs[i] = &run;
        notes[i] = &note;
        counters[i] = &counter;
    }
    stage.reads = reads;
    stage.n_reads = GY_NET_VIEW_STAGES;
    reads[0] = run.stage = GY_NET_VIEW_STAGES - 1;
    view.stages = stages;
    view.slow = runs;
    view.notes = notes;
    view.counters = counters;
    view.n_stages = GY_NET_VIEW_STAGES;
    view.n_slow = view.n_notes = view.n_counters = GY_NET_VIEW_ROWS;
    return view;
}

GY_TEST(what_fits_is_taken)
{
    Gy__Cluster__View view = full();
    assert_ok(gy_net_check_view(&view));
}

GY_TEST(too_many_are_refused)
{
    for (int which = 0; which < 6; which++) {
        Gy__Cluster__View view = full();
        view.n_stages += which == 0;
        view.n_slow += which == 1;
        view.n_notes += which == 2;
        view.n_counters += which == 3;
        stage.n_reads += which == 4;
        view.epoch -= which == 5;
        assert_int_equal(gy_net_check_view(&view), GY_FORMAT);
    }
}

GY_TEST(wrong_texts_and_stages_are_refused)
{
    char **const texts[] = {&stage.name, &run.host, &note.text, &counter.name};
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        Gy__Cluster__View view = full();
        *texts[i] = beyond;
        assert_int_equal(gy_net_check_view(&view), GY_FORMAT);
    }
    Gy__Cluster__View view = full();
    reads[0] = GY_NET_VIEW_STAGES;
    assert_int_equal(gy_net_check_view(&view), GY_FORMAT);
    view = full();
    run.stage = GY_NET_VIEW_STAGES;
    assert_int_equal(gy_net_check_view(&view), GY_FORMAT);
}

GY_TEST_MAIN(NULL, NULL)
