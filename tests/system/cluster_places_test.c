/* Goal: vertices that read files of hosts' own disks run on these hosts, and wait for their
 * slots; those that would like to be on a host are there while it has free slots, and elsewhere
 * when it has none; counters say so. */
#include "cluster_scene.h"

#include <gyre/flow.h>

static char self[1024];

/* ---- the job: this program, submitted ---- */

/* Which daemon this process is at: its folder of the job says so. Then, if it is told to, wait
 * for a file. */
static gy_status say_where(gy_vertex *vertex)
{
    const void *data = NULL;
    size_t size = 0, bytes = 0;
    char line[64];
    const char *go = gy_vertex_parameter(vertex, &size), *scratch = gy_vertex_scratch(vertex);
    const char *folder = scratch != NULL ? strstr(scratch, "/jobs/") : NULL;
    if (folder == NULL || folder - scratch < 3 || folder[-2] != 'd') {
        return GY_STATE;
    }
    gy_status status = gy_vertex_read(vertex, 0, &data, &bytes);
    snprintf(line, sizeof(line), "h%c has %zu\n", folder[-1], bytes);
    if (status == GY_OK && size > 1) {
        char begun[300];
        snprintf(begun, sizeof(begun), "%s-%d", go, (int)getpid());
        const int file = open(begun, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        status = file >= 0 && close(file) == 0 ? GY_OK : GY_IO;
        for (const double last = kit_now() + KIT_WAIT_SECONDS;
             status == GY_OK && access(go, F_OK) != 0; kit_pause()) {
            status = kit_now() > last ? GY_TIMEOUT : GY_OK;
        }
    }
    return status < 0 ? status : gy_vertex_write(vertex, 0, line, strlen(line));
}

/* job OUT GO HOST FILE...: a vertex a file, near the host ("-": none); all wait for GO ("":
 * no). */
static int run_job(gy_flow *flow, int argc, char **argv)
{
    const char *const near[] = {argv[4], NULL};
    gy_vertex_options options[8];
    const char *files[8][2];
    char path[300];
    int count = 0;
    for (; count < 8 && count + 5 < argc; count++) {
        files[count][0] = argv[count + 5];
        files[count][1] = NULL;
        options[count] =
            (gy_vertex_options){.function = "where",
                                .parameter = argv[3],
                                .parameter_bytes = strlen(argv[3]) + 1,
                                .outputs = 1,
                                .files = files[count],
                                .preferred_hosts = near[0][0] != '-' ? near : NULL};
    }
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "where", &dag));
    gy_part_output(gy_dag_vertices(dag, options, count), "part");
    gy_job_report *report = NULL;
    const gy_flow_options run = {.output = argv[2], .backup_floor_s = -1}; /* would count */
    const gy_status status = gy_flow_run(flow, dag, &run, &report);
    snprintf(path, sizeof(path), "%s.counters", argv[2]);
    FILE *file = status == GY_OK ? fopen(path, "we") : NULL;
    if (file != NULL) {
        fprintf(file, "near %lld far %lld\n",
                (long long)gy_job_report_counter(report, "tasks started where their files are"),
                (long long)gy_job_report_counter(report,
                                                 "tasks started where their files are not"));
        (void)fclose(file);
    } else {
        fprintf(stderr, "%s\n", gy_error_text());
    }
    gy_job_report_free(report);
    gy_dag_free(dag);
    gy_flow_end(flow);
    return file != NULL ? 0 : 1;
}

/* ---- the tests ---- */

static int job_shell(const char *line)
{
    char whole[1500];
    snprintf(whole, sizeof(whole), "J=%s; %s", self, line);
    return shell(whole);
}

static int begin(void **state)
{
    /* A job that waits for a host's slots gets none of another job's, however long it waits. */
    at.options[0] = "--preemption-delay";
    at.options[1] = CLUSTER_LONG;
    return scene_begin(state) == 0 ? shell("printf 12345 >f") : 1;
}

GY_TEST(files_of_hosts_are_read_there)
{
    assert_int_equal(
        job_shell("$GYRE job submit $N -- $J job $T/own '' - file://h0$T/f file://h1$T/f "
                  "file://h2$T/f file://h1$T/f:1:3 file://h2,nobody$T/f && cat own/part-* "
                  "own.counters"),
        0);
    assert_non_null(strstr(said, "h0 has 5\nh1 has 5\nh2 has 5\nh1 has 3\nh2 has 5\n"
                                 "near 5 far 0\n"));
    /* A map a file, wherever it is. */
    assert_int_equal(
        job_shell("$GYRE job submit $N -- $GYRE mr wordcount -r 1 -o $T/words file://h1$T/f "
                  "file://h2$T/f $T/f && cat words/part-*"),
        0);
    assert_non_null(strstr(said, "12345\t3\n"));
}

GY_TEST(a_request_is_no_must)
{
    assert_int_equal(
        job_shell("$GYRE job submit $N -- $J job $T/free '' h1 f f && cat free/part-* "
                  "free.counters"),
        0);
    assert_non_null(strstr(said, "h1 has 5\nh1 has 5\nnear 2 far 0\n"));
    /* All slots of a host are taken: what must be there waits, what would like to be is not
     * kept waiting. */
    assert_int_equal(
        job_shell("$GYRE job submit $N --no-wait -- $J job $T/taken $T/go - file://h1$T/f "
                  "file://h1$T/f file://h1$T/f && for i in $(seq 2000); do [ $(ls go-* 2>&1 | "
                  "grep -c "
                  "[0-9]$) = 3 ] && break; sleep 0.02; done; $GYRE job submit $N --no-wait -- "
                  "$J job $T/late '' - "
                  "file://h1$T/f && $GYRE job submit $N -- $J job $T/other '' h1 f f && [ ! -e "
                  "late/MANIFEST.json ] && cat other/part-* other.counters"),
        0);
    assert_non_null(strstr(said, "near 0 far 2\n"));
    assert_null(strstr(said, "h1 has"));
    assert_int_equal(
        job_shell("touch go; for i in $(seq 2000); do [ -e late.counters -a -e taken.counters "
                  "] && break; sleep 0.02; done; cat late/part-* taken/part-* late.counters"),
        0);
    assert_non_null(strstr(said, "h1 has 5\nh1 has 5\nh1 has 5\nh1 has 5\nnear 1 far 0\n"));
}

/* Written to while it is read there: on its host's own disk, and where all hosts have it. */
GY_TEST(a_file_that_changes_is_named)
{
    assert_int_equal(
        job_shell("for of in file://h1$T/g $T/g; do printf 12345 >g; rm -f start*; { $GYRE job "
                  "submit $N -- $J job $T/never $T/start - $of >told 2>&1; } & for i in $(seq "
                  "2000); do ls start-* >listed 2>&1 && break; sleep 0.02; done; printf 67 >g; "
                  ": >start; wait $! && exit 1; grep \"$T/g changed while it was read\" told "
                  "|| { cat told; exit 1; }; [ ! -e never/MANIFEST.json ] || exit 1; rm -rf "
                  "never; done"),
        0);
}

GY_TEST(what_cannot_be_is_said)
{
    assert_int_equal(
        job_shell("! $GYRE job submit $N -- $GYRE mr sort -o $T/none file://h1$T/f && "
                  "! $GYRE mr wordcount -o $T/none file://h1$T/f"),
        0);
    assert_non_null(strstr(said, "cannot sort file://h1"));
    assert_non_null(strstr(said, "is on another host"));
    if (getenv("GYRE_SOAK") == NULL) {
        return; /* it takes ten seconds */
    }
    assert_int_equal(job_shell("! $GYRE job submit $N -- $J job $T/nowhere '' - file://h7$T/f "
                               "file://h0$T/f"),
                     0);
    assert_non_null(strstr(said, "on the disk of host h7"));
}

int main(int argc, char **argv)
{
    static const gy_function functions[] = {GY_VERTEX("where", say_where)};
    gy_flow *flow = NULL;
    const gy_status started = gy_flow_start(&argc, &argv, functions, 1, &flow);
    if (started != GY_OK) {
        return started < 0;
    }
    if (argc > 5 && strcmp(argv[1], "job") == 0) {
        return run_job(flow, argc, argv);
    }
    gy_flow_end(flow);
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) {
        return 1;
    }
    return GY_TESTS_RUN(begin, scene_end);
}
