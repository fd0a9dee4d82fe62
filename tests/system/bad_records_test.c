/* Goal: a job whose records kill its vertices, in every way a record can, ends with the output
 * and the counters of all the others, with datagrams and without, in one thread or two, through
 * vertices of its own or maps of word count, index and sort; every bad record is listed,
 * nothing else is. What was learnt of them outlives a killed manager. */
#include "base/base.h"
#include "base/text.h"

#include <gyre/data.h>
#include <gyre/flow.h>
#include <gyre/job.h>
#include <gyre/mapreduce.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "flow_main.h"
#include "submitted_kit.h"

enum { LINES = 400, KINDS = 7, FILES = 2, EACH = 10 };
static const char *const words[KINDS] = {"segv", "abort", "fpe", "ill", "bus", "deep", "slow"};

/* What a vertex of "lines" does besides. */
typedef struct habits {
    bool is_blocked; /* its datagrams are lost */
    bool
        is_neighbour; /* it waits until the other has begun so many attempts: it dies with it */
    char attempts[96]; /* a file with a byte for each attempt of the other; "": none */
} habits;

enum { ATTEMPTS_SEEN = 12 }; /* more than a vertex may fail */

/* ---- vertices ---- */

static int64_t dig(volatile int64_t depth)
{
    volatile char room[4096];
    room[depth % 4096] = 1;
    return depth < INT64_MAX ? dig(depth + 1) + room[depth % 4096] : 0;
}

static void die_of(const char *word)
{
    volatile int zero = 0;
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    if (strncmp(word, "segv", 4) == 0) {
        *(volatile int *)(uintptr_t)8 = zero;
    } else if (strncmp(word, "fpe", 3) == 0) {
#if defined(__x86_64__)
        __asm__ volatile("divl %0" : : "r"(zero), "a"(1), "d"(0)); /* undefined in C */
#else
        (void)raise(SIGFPE);
#endif
    } else if (strncmp(word, "ill", 3) == 0) {
        __asm__ volatile("ud2");
    } else if (strncmp(word, "bus", 3) == 0) {
        (void)raise(SIGBUS);
    } else if (strncmp(word, "deep", 4) == 0) {
        (void)dig(zero);
    } else if (strncmp(word, "slow", 4) == 0) {
        while (zero == 0) {
            (void)poll(NULL, 0, 0); /* in calls alone ThreadSanitizer delivers signals */
        }
    }
    abort();
}

/* No datagram leaves this process. */
static void block_datagrams(void)
{
    for (int file = 3; file < 256; file++) {
        int type = 0;
        socklen_t size = sizeof(type);
        if (getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM) {
            (void)close(file);
        }
    }
}

static gy_status live_up_to(gy_vertex *vertex)
{
    size_t size = 0;
    const habits *has = gy_vertex_parameter(vertex, &size);
    if (has->is_blocked) {
        block_datagrams();
    }
    if (has->is_neighbour) {
        struct stat status = {.st_size = 0};
        while (stat(has->attempts, &status) != 0 || status.st_size < ATTEMPTS_SEEN) {
            if (gy_vertex_is_cancelled(vertex)) {
                return gy_fail(GY_CANCELLED, "nobody dies any more");
            }
            (void)poll(NULL, 0, 1);
        }
    } else if (has->attempts[0] != '\0') {
        int file = open(has->attempts, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        GY_ASSERT(file >= 0 && write(file, "x", 1) == 1);
        (void)close(file);
    }
    return GY_OK;
}

/* Lines "fine N" are counted and go to the output; a line that is a word of the list kills. */
static gy_status read_lines(gy_vertex *vertex)
{
    size_t size = 0;
    const void *data = NULL;
    GY_TRY(live_up_to(vertex));
    GY_TRY(gy_vertex_read(vertex, 0, &data, &size));
    const char *begin = data;
    for (const char *at = begin; at < begin + size;) {
        const char *end = memchr(at, '\n', (size_t)(begin + size - at));
        size_t length = (size_t)(end - at) + 1;
        uint64_t offset = (uint64_t)(at - begin);
        if (!gy_vertex_is_bad_record(vertex, 0, offset)) {
            gy_vertex_at_record(vertex, 0, offset);
            if (strncmp(at, "fine", 4) != 0) {
                die_of(at);
            }
            GY_TRY(gy_vertex_write(vertex, 0, at, length));
            gy_vertex_count(vertex, "lines", 1);
        }
        at += length;
    }
    return GY_OK;
}

/* Counts bytes by their key, of which there are three; one kills. */
static gy_status reduce_keys(gy_vertex *vertex)
{
    static const char *const keys[] = {"alpha", "poison", "omega"};
    uint64_t total = 0;
    for (int i = 0; i < gy_vertex_inputs(vertex); i++) {
        const void *data = NULL;
        for (size_t size = 1; size > 0; total += size) {
            GY_TRY(gy_vertex_read(vertex, i, &data, &size));
        }
    }
    for (size_t i = 0; i < GY_COUNT(keys); i++) {
        if (gy_vertex_is_bad_key(vertex, keys[i], strlen(keys[i]))) {
            continue;
        }
        gy_vertex_at_key(vertex, keys[i], strlen(keys[i]));
        if (i == 1) {
            die_of("abort");
        }
        char text[64];
        const size_t bytes =
            gy_print(text, sizeof(text), "%s %llu\n", keys[i], (unsigned long long)total);
        GY_TRY(gy_vertex_write(vertex, 0, text, bytes));
    }
    return GY_OK;
}

/* Maps of word count, index and sort, over lines of which some kill. */

static bool is_blocked_here(const gy_map *map)
{
    size_t size = 0;
    const bool *is_blocked = gy_map_parameter(map, &size);
    return *is_blocked;
}

/* A line that may be counted; the others do not return. */
static void take_line(gy_map *map, const gy_record *line)
{
    if (is_blocked_here(map)) {
        block_datagrams();
    }
    if (strncmp(line->data, "fine", 4) != 0) {
        die_of(line->data);
    }
    gy_vertex_count(gy_map_vertex(map), "lines", 1);
}

static void map_words(gy_map *map, const gy_record *line)
{
    take_line(map, line);
    for (gy_token word = gy_first_word(line); word.size > 0; word = gy_next_word(word)) {
        gy_emit(map, word.data, word.size, 1);
    }
}

static void map_places(gy_map *map, const gy_record *line)
{
    take_line(map, line);
    const int64_t file = line->file[strlen(line->file) - 1] - '0';
    for (gy_token word = gy_first_word(line); word.size > 0; word = gy_next_word(word)) {
        gy_emit(map, word.data, word.size, file);
    }
}

static void map_keys(gy_map *map, const gy_record *line)
{
    take_line(map, line);
    gy_emit_bytes(map, line->data, line->size, "", 0);
}

static const gy_function functions[] = {
    GY_VERTEX("lines", read_lines), GY_VERTEX("keys", reduce_keys),
    GY_MAP("map words", map_words), GY_MAP("map places", map_places),
    GY_MAP("map keys", map_keys),
};

/* ---- the job ---- */

typedef struct place {
    char top[64], files[FILES][96], output[96], folder[96];
    int bad, fine;
    uint64_t fine_bytes;
} place;

/* Two files: the first with `each` bad records of every kind, the other without. */
static place make_place(int each)
{
    place at = {.bad = 0};
    snprintf(at.top, sizeof(at.top), "/tmp/gyre-bad-test-XXXXXX");
    assert_non_null(mkdtemp(at.top));
    char top[64];
    memcpy(top, at.top, sizeof(top));
    snprintf(at.output, sizeof(at.output), "%s/out", top);
    snprintf(at.folder, sizeof(at.folder), "%s/job", top);
    for (int f = 0; f < FILES; f++) {
        snprintf(at.files[f], sizeof(at.files[f]), "%s/in%d", top, f);
        FILE *file = fopen(at.files[f], "we");
        assert_non_null(file);
        int left[KINDS];
        for (int k = 0; k < KINDS; k++) {
            left[k] = f > 0 ? 0 : each;
        }
        for (int i = 0; i < LINES; i++) {
            int kind = i % (KINDS + 1);
            if (i > 0 && kind < KINDS && left[kind] > 0) {
                left[kind]--;
                at.bad++;
                fprintf(file, "%s\n", words[kind]);
            } else {
                at.fine++;
                at.fine_bytes += (uint64_t)fprintf(file, "fine %d\n", i);
            }
        }
        assert_int_equal(fclose(file), 0);
    }
    return at;
}

static gy_dag *make_dag(const place *at, bool is_blocked, bool has_neighbour, bool is_counted)
{
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "bad", &dag));
    gy_vertex_options readers[FILES];
    const char *files[FILES][2];
    habits has[FILES];
    for (int f = 0; f < FILES; f++) {
        files[f][0] = at->files[f];
        files[f][1] = NULL;
        has[f] = (habits){.is_blocked = is_blocked, .is_neighbour = has_neighbour && f > 0};
        if (has_neighbour || is_counted) {
            snprintf(has[f].attempts, sizeof(has[f].attempts), "%s/attempts", at->top);
        }
        readers[f] = (gy_vertex_options){
            .function = "lines",
            .outputs = 1,
            .files = files[f],
            .parameter = &has[f],
            .parameter_bytes = sizeof(has[f]),
        };
    }
    gy_part lines = gy_dag_vertices(dag, readers, FILES);
    gy_part keys = gy_dag_vertex(
        dag, &(gy_vertex_options){.function = "keys", .inputs = GY_PORTS_ANY, .outputs = 1});
    gy_part_output(gy_part_bipartite(lines, keys, GY_CHANNEL_FILE), "keys");
    return dag;
}

static int count_lines_with(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        count++;
    }
    return count;
}

static void expect_output(const place *at)
{
    char path[160], text[256] = "", expected[256];
    snprintf(path, sizeof(path), "%s/keys-00000", at->output);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    snprintf(expected, sizeof(expected), "alpha %llu\nomega %llu\n",
             (unsigned long long)at->fine_bytes, (unsigned long long)at->fine_bytes);
    assert_string_equal(text, expected);
}

static void remove_place(const place *at)
{
    char line[128], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", at->top);
    assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
}

/* What `gyre job show` knows: every record with its file, or its key. */
static void expect_history(const place *at, int each)
{
    char path[160], id[GY_JOB_ID_BYTES] = "";
    if (submitted_is()) {
        return; /* no user's history has it */
    }
    snprintf(path, sizeof(path), "%s/id", at->folder);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(id, sizeof(id), file));
    fclose(file);
    id[strcspn(id, "\n")] = '\0';
    gy_job *job = NULL;
    assert_ok(gy_job_read(id, &job));
    assert_int_equal(job->report.bad_record_count, at->bad + 1);
    int lines = 0, keys = 0, illegal = 0;
    for (size_t i = 0; i < job->report.bad_record_count; i++) {
        lines += strcmp(job->report.bad_records[i].source, at->files[0]) == 0;
        keys += strcmp(job->report.bad_records[i].source, "key 'poison'") == 0;
        illegal += strcmp(job->report.bad_records[i].what, "SIGILL") == 0;
    }
    assert_int_equal(lines, at->bad);
    assert_int_equal(keys, 1);
    assert_int_equal(illegal, each);
    gy_job_free(job);
}

static void run_job(int each, bool is_blocked, int threads)
{
    place at = make_place(each);
    gy_flow_options options = {
        .output = at.output,
        .folder = at.folder,
        .processes = threads > 1 ? 1 : 2,
        .threads = threads,
        .timeout_s = 100,
        .record_timeout_s = 0.05,
        .bad_records_max = at.bad + 1,
        .backup_floor_s = -1,
    };
    gy_dag *dag = make_dag(&at, is_blocked, threads > 1, false);
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_output(&at);
    expect_history(&at, each);
    assert_int_equal(report->skipped_records, at.bad + 1);
    assert_int_equal(gy_job_report_counter(report, "lines"), at.fine);
    assert_int_equal(count_lines_with(report->bad_record_text, "offset "), at.bad);
    assert_int_equal(count_lines_with(report->bad_record_text, "key 'poison' SIGABRT"), 1);
    static const char *const says[KINDS] = {" SIGSEGV", " SIGABRT", " SIGFPE",      " SIGILL",
                                            " SIGBUS",  " SIGSEGV", "took too long"};
    for (int k = 0; k < KINDS; k++) { /* a stack that ends is a SIGSEGV too */
        const int expected = strcmp(says[k], " SIGSEGV") == 0 ? 2 * each : each;
        assert_int_equal(count_lines_with(report->bad_record_text, says[k]),
                         expected + (k == 1)); /* the key's */
    }
#if !defined(GYRE_ASAN) && !defined(GYRE_TSAN) /* their frames lie between */
    int named = count_lines_with(report->bad_record_text, " die_of") +
                count_lines_with(report->bad_record_text, " dig\n");
    assert_true(is_blocked || submitted_is()
                    ? count_lines_with(report->bad_record_text, " read_lines") == 0
                    : named >= at.bad);
#endif
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

static int of_each(int wanted)
{
    const char *given = getenv("GYRE_TEST_EACH"); /* a job's environment is not the test's */
    if (given != NULL) {
        return (int)strtol(given, NULL, 10);
    }
    const long cases = gy_test_cases(wanted);
    return cases < wanted ? (int)cases : wanted;
}

GY_TEST(ten_of_each_kind_are_skipped)
{
    run_job(of_each(EACH), false, 1);
}

GY_TEST(the_same_without_datagrams)
{
    run_job(of_each(EACH), true, 1);
}

/* ---- word count, index, sort ---- */

typedef struct ready_job {
    const char *name, *map;
    gy_combine combine;
    gy_reduce_order order;
    bool has_bytes;
    size_t split_bytes;
    int threads; /* of one process; 0: three processes of one each */
} ready_job;

/* All bytes of an output, hashed, and the counters of its maps; bad: records skipped. */
static uint64_t run_ready(const ready_job *job, const place *at, const char *const *files,
                          bool is_blocked, int bad)
{
    const gy_map_reduce_options how = {.inputs = files,
                                       .format = GY_RECORDS_LINES,
                                       .map = job->map,
                                       .combine = job->combine,
                                       .order = job->order,
                                       .has_bytes = job->has_bytes,
                                       .partitions = 2,
                                       .split_bytes = job->split_bytes,
                                       .parameter = &is_blocked,
                                       .parameter_bytes = sizeof(is_blocked)};
    const gy_flow_options options = {.output = at->output,
                                     .folder = at->folder,
                                     .processes = job->threads > 0 ? 1 : 3,
                                     .threads = job->threads,
                                     .timeout_s = 100,
                                     .record_timeout_s = 0.05,
                                     .bad_records_max = bad,
                                     .backup_floor_s = -1};
    char line[400], out[64];
    uint64_t hash = 0;
    snprintf(line, sizeof(line), "rm -rf %s %s", at->output, at->folder);
    assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
    gy_dag *dag = NULL;
    assert_ok(gy_map_reduce(flow, &how, &dag));
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    assert_int_equal(report->skipped_records, bad);
    assert_int_equal(count_lines_with(report->bad_record_text, "offset "), bad);
    assert_int_equal(gy_job_report_counter(report, "lines"), at->fine);
    for (int i = 0; i < 2; i++) {
        static char text[1 << 16];
        snprintf(line, sizeof(line), "%s/part-%05d", at->output, i);
        FILE *file = fopen(line, "re");
        assert_non_null(file);
        const size_t size = fread(text, 1, sizeof(text), file);
        assert_true(size < sizeof(text));
        fclose(file);
        hash = gy_hash(text, size, hash + 1);
    }
    gy_job_report_free(report);
    gy_dag_free(dag);
    return hash;
}

/* Undisturbed: the same lines without those that kill, in files of the same last letters. */
GY_TEST(ready_jobs_skip_them_too)
{
    static const ready_job jobs[] = {
        {.name = "word count", .map = "map words", .combine = GY_COMBINE_SUM},
        {.name = "index", .map = "map places", .combine = GY_COMBINE_SET},
        {.name = "sort", .map = "map keys", .order = GY_ORDER_KEY, .has_bytes = true}};
    const int each = getenv("GYRE_SOAK") != NULL ? EACH : of_each(2);
    place at = make_place(each);
    char clean[FILES][96], line[512], out[64], top[64];
    memcpy(top, at.top, sizeof(top));
    const char *files[FILES + 1] = {at.files[0], at.files[1], NULL};
    const char *clean_files[FILES + 1] = {clean[0], clean[1], NULL};
    for (int f = 0; f < FILES; f++) {
        snprintf(clean[f], sizeof(clean[f]), "%s/clean%d", top, f);
        snprintf(line, sizeof(line), "grep fine %s >%s", at.files[f], clean[f]);
        assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
    }
    for (size_t i = 0; i < GY_COUNT(jobs); i++) {
        const uint64_t expected = run_ready(&jobs[i], &at, clean_files, false, 0);
        for (int is_blocked = 0; is_blocked < 2; is_blocked++) {
            if (getenv("GYRE_SOAK") != NULL || (int)i % 2 == is_blocked) {
                assert_true(run_ready(&jobs[i], &at, files, is_blocked, at.bad) == expected);
                printf("soak: %s, datagrams %s: %d bad records of %d kinds skipped\n",
                       jobs[i].name, is_blocked ? "blocked" : "sent", at.bad, KINDS);
            }
        }
    }
    remove_place(&at);
}

/* ---- a manager that is killed ---- */

typedef struct witness {
    const place *at;
    int enough; /* bad records when the manager dies */
} witness;

static void die_when_enough(void *arg, const gy_job_report *report)
{
    const witness *seen = arg;
    if (count_lines_with(report->bad_record_text, "offset ") >= seen->enough) {
        (void)raise(SIGKILL);
    }
}

static off_t attempts_of(const place *at)
{
    char path[96];
    struct stat status = {.st_size = 0};
    snprintf(path, sizeof(path), "%.80s/attempts", at->top);
    (void)stat(path, &status);
    return status.st_size;
}

/* Each bad record costs two attempts, whoever was the manager then: none is met again. */
GY_TEST(what_was_learnt_outlives_the_manager)
{
    place at = make_place(getenv("GYRE_SOAK") != NULL ? EACH : of_each(4) + 1);
    witness seen = {.at = &at, .enough = at.bad / 3};
    gy_flow_options options = {.output = at.output,
                               .folder = at.folder,
                               .processes = 2,
                               .timeout_s = 100,
                               .record_timeout_s = 0.05,
                               .bad_records_max = at.bad + 1,
                               .backup_floor_s = -1};
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        options.progress = die_when_enough;
        options.progress_arg = &seen;
        (void)!gy_flow_run(flow, make_dag(&at, false, false, true), &options, NULL);
        _exit(3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const off_t before = attempts_of(&at);
    options.is_resume = true;
    gy_dag *dag = make_dag(&at, false, false, true);
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_output(&at);
    assert_int_equal(report->skipped_records, at.bad + 1);
    assert_int_equal(count_lines_with(report->bad_record_text, "offset "), at.bad);
    printf("soak: %d bad records, the manager killed after %d of %d attempts\n", at.bad,
           (int)before, (int)attempts_of(&at));
    assert_true(before >= seen.enough);
    /* One goes through in each file; what the manager knew for less than 5 ms may be lost. */
    assert_in_range(attempts_of(&at), 2 * at.bad + FILES, 2 * at.bad + FILES + 5);
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

GY_TEST(neighbours_in_a_process_are_excused)
{
    run_job(3, false, 2);
}

/* Tasks of some lines each, which begin and end at any moment of their neighbours' deaths: few,
 * so that one that is blamed for them is soon blamed too often. */
GY_TEST(neighbours_that_just_begin_are_excused)
{
    enum { COPIES = 4, FINE = 61 };
    static const char *const killers[] = {"segv", "abort", "fpe", "deep", "bus"};
    static const ready_job job = {.name = "word count",
                                  .map = "map words",
                                  .combine = GY_COMBINE_SUM,
                                  .split_bytes = 80,
                                  .threads = 4};
    place at = make_place(0);
    FILE *file = fopen(at.files[0], "we");
    assert_non_null(file);
    for (int i = 0; i < FINE; i++) {
        fprintf(file, "fine\n%s%s", i == 48 ? "segv\n" : "", i == 60 ? "bus\n" : "");
        for (int k = 1; i == 57 && k < 4; k++) {
            fprintf(file, "%s\n", killers[k]);
        }
    }
    assert_int_equal(fclose(file), 0);
    const char *files[COPIES + 1] = {at.files[0], at.files[0], at.files[0], at.files[0]};
    at.fine = COPIES * FINE;
    for (long i = 0; i < gy_test_cases(8); i++) {
        (void)run_ready(&job, &at, files, false, COPIES * (int)GY_COUNT(killers));
    }
    remove_place(&at);
}

GY_TEST(one_too_many_ends_the_job)
{
    place at = make_place(2);
    gy_flow_options options = {
        .output = at.output,
        .folder = at.folder,
        .processes = 2,
        .timeout_s = 100,
        .bad_records_max = 1,
    };
    gy_dag *dag = make_dag(&at, false, false, false);
    gy_job_report *report = NULL;
    assert_true(gy_flow_run(flow, dag, &options, &report) < 0);
    assert_non_null(strstr(gy_error_text(), "more than 1 bad record (bad_records_max)"));
    assert_true(access(at.output, F_OK) != 0 || rmdir(at.output) == 0);
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

FLOW_TEST_MAIN(submitted_begin(), NULL, NULL)
