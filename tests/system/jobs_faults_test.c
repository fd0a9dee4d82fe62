/*
 * Goal: word count, sort and index over three processes end with the same bytes and the same
 * counters, and leave nothing else, whatever is killed or stopped meanwhile: processes in each
 * phase, and managers, after each of which another one goes on without running anything twice.
 * Disks that are full end a job with a reason and no output.
 */
#include "jobs_kit.h"

#include <sys/pidfd.h>

#define SILENCE "0.4" /* seconds after which a stopped process is lost */

enum {
    FILES = 4,
    WORDS = 20000, /* distinct ones */
    LINES = 40000, /* of a file */
    RECORDS = 60000,
    RECORD_BYTES = 100,
    KEY_BYTES = 10,
    PARTS = 6
};

typedef enum phase { ANY, SHUFFLE, REDUCE } phase;

/* A job with what it gave undisturbed. */
typedef struct work {
    const char *verb;
    const char *options[8];
    uint64_t hash;
    char *counters;
    int tasks;
    off_t journal_bytes;
} work;

enum { WORDCOUNT, SORT, INDEX, JOBS };
static work jobs[JOBS] = {
    [WORDCOUNT] = {.verb = "wordcount", .options = {"--split", "16KiB"}},
    [SORT] = {.verb = "sort",
              .options = {"--record", "100", "--key-offset", "0", "--key-bytes", "10"}},
    [INDEX] = {.verb = "index", .options = {"--split", "16KiB"}},
};

static gy_random chance;
static char inputs[FILES + 1][96], output[96], folder[96], log_path[96], trace[96];
static int counts[WORDS], in_files[WORDS];
static char *records; /* RECORDS, sorted */

/* ---- inputs, and what must come of them ---- */

static int compare_records(const void *left, const void *right)
{
    return memcmp(left, right, KEY_BYTES);
}

static void write_texts(void)
{
    for (int i = 0; i < FILES; i++) {
        snprintf(inputs[i], sizeof(inputs[i]), "%s/in-%d", kit_top, i);
        FILE *file = fopen(inputs[i], "w");
        assert_non_null(file);
        for (int line = 0; line < LINES; line++) {
            const uint64_t most =
                1 + gy_random_below(&chance, WORDS); /* small ones come more */
            for (int k = 0; k < 3; k++) {
                const int word = (int)gy_random_below(&chance, most);
                fprintf(file, "w%d%c", word, k < 2 ? ' ' : '\n');
                counts[word]++;
                in_files[word] |= 1 << i;
            }
        }
        assert_int_equal(fclose(file), 0);
    }
}

static void write_records(void)
{
    records = gy_alloc("test", (size_t)RECORDS * RECORD_BYTES);
    assert_non_null(records);
    for (int i = 0; i < RECORDS * RECORD_BYTES; i++) {
        records[i] = (char)gy_random_below(&chance, 256);
    }
    snprintf(inputs[FILES], sizeof(inputs[FILES]), "%s/records", kit_top);
    FILE *file = fopen(inputs[FILES], "w");
    assert_non_null(file);
    assert_int_equal(fwrite(records, RECORD_BYTES, RECORDS, file), RECORDS);
    assert_int_equal(fclose(file), 0);
    qsort(records, RECORDS, RECORD_BYTES, compare_records);
}

/* The parts of an output, one after the other. */
static char *read_parts(size_t *size_bytes)
{
    char *all = NULL;
    *size_bytes = 0;
    for (int i = 0; i < PARTS; i++) {
        char path[192];
        size_t size = 0;
        snprintf(path, sizeof(path), "%s/part-%05d", output, i);
        char *bytes = kit_read(path, &size);
        assert_non_null(bytes);
        all = gy_resize("test", all, *size_bytes + size + 1);
        assert_non_null(all);
        memcpy(all + *size_bytes, bytes, size + 1);
        *size_bytes += size;
        gy_free(bytes);
    }
    return all;
}

/* Each word once, with its count or its files. */
static void check_words(int job)
{
    size_t size = 0;
    static bool is_seen[WORDS];
    char *all = read_parts(&size);
    memset(is_seen, 0, sizeof(is_seen));
    int lines = 0, words = 0;
    for (char *at = all; at < all + size; lines++) {
        char *end = strchr(at, '\n');
        assert_true(end != NULL && at[0] == 'w');
        char expected[64] = "";
        const int word = (int)strtol(at + 1, &at, 10);
        assert_true(word >= 0 && word < WORDS && !is_seen[word]);
        is_seen[word] = true;
        if (job == WORDCOUNT) {
            snprintf(expected, sizeof(expected), "\t%d", counts[word]);
        }
        for (int i = 0, used = 0; job == INDEX && i < FILES; i++) {
            if ((in_files[word] >> i & 1) != 0) {
                used += snprintf(expected + used, sizeof(expected) - (size_t)used, "%c%d",
                                 used == 0 ? '\t' : ' ', i);
            }
        }
        *end = '\0';
        assert_string_equal(at, expected);
        at = end + 1;
    }
    for (int i = 0; i < WORDS; i++) {
        words += counts[i] > 0;
    }
    assert_int_equal(lines, words);
    gy_free(all);
}

static void check_records(void)
{
    size_t size = 0;
    char *all = read_parts(&size);
    assert_int_equal(size, (size_t)RECORDS * RECORD_BYTES);
    assert_memory_equal(all, records, size);
    gy_free(all);
}

/* ---- a job at work ---- */

typedef struct running {
    pid_t manager;
    int journal; /* -1: not there so far */
    bool has_ended;
    int status;
} running;

static const char *command(void)
{
    const char *binary = getenv("GYRE_BIN");
    return binary != NULL ? binary : "build/dev/gyre";
}

static running start(int job)
{
    char line[320], said[64];
    snprintf(line, sizeof(line), "rm -rf %s %s %s", output, folder, trace);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    const char *arguments[32] = {command(),      "mr",       jobs[job].verb, "-p",      "3",
                                 "-r",           "6",        "-q",           "-s",      "-o",
                                 output,         "--folder", folder,         "--trace", trace,
                                 "--copy-after", "0"};
    int count = 17;
    for (int i = 0; jobs[job].options[i] != NULL; i++) {
        arguments[count++] = jobs[job].options[i];
    }
    for (int i = job == SORT ? FILES : 0; i < (job == SORT ? FILES + 1 : FILES); i++) {
        arguments[count++] = inputs[i];
    }
    return (running){.manager = kit_start((char *const *)(uintptr_t)arguments, log_path),
                     .journal = -1};
}

/* Look again; true when it has ended. */
static bool look(running *at)
{
    if (at->journal < 0) {
        char path[192];
        snprintf(path, sizeof(path), "%s/journal", folder);
        at->journal = open(path, O_RDONLY);
    }
    if (!at->has_ended) {
        at->has_ended = kit_has_ended(at->manager, &at->status);
    }
    return at->has_ended;
}

static off_t journal_bytes(const running *at)
{
    struct stat about;
    return at->journal >= 0 && fstat(at->journal, &about) == 0 ? about.st_size : 0;
}

/* How many files of the final output are being made. */
static int count_staged(void)
{
    DIR *top = opendir(output);
    int count = 0;
    for (struct dirent *at = top != NULL ? readdir(top) : NULL; at != NULL; at = readdir(top)) {
        if (strncmp(at->d_name, ".gyre-", 6) == 0) {
            char path[512];
            snprintf(path, sizeof(path), "%s/%s", output, at->d_name);
            count = kit_entries(path);
        }
    }
    if (top != NULL) {
        closedir(top);
    }
    return count;
}

static bool is_in(const running *at, const work *job, phase wanted, double share)
{
    static kit_journal seen;
    const off_t bytes = journal_bytes(at);
    if (bytes == 0 || bytes < (off_t)(share * (double)job->journal_bytes)) {
        return false;
    }
    if (wanted == REDUCE) {
        return count_staged() > 0;
    }
    if (wanted == SHUFFLE) {
        kit_journal_read(at->journal, &seen);
        return seen.committed >= job->tasks - PARTS;
    }
    return true;
}

/* A moment of that phase; false: the job ended before. */
static bool reach(running *at, const work *job, phase wanted, double share)
{
    for (const double last = kit_now() + KIT_WAIT_SECONDS; !look(at);) {
        if (is_in(at, job, wanted, share)) {
            return true;
        }
        assert_true(kit_now() < last);
        kit_pause();
    }
    return false;
}

static void show_log(const char *what)
{
    char *text = kit_read(log_path, NULL);
    printf("%s\n%s\n", what, text != NULL ? text : "");
    gy_free(text);
}

/* It ends well, and nobody and nothing but the output is left. */
static void finish(running *at)
{
    for (const double last = kit_now() + KIT_WAIT_SECONDS; !look(at); kit_pause()) {
        if (kit_now() > last) {
            (void)kill(at->manager, SIGKILL);
            show_log("it did not end");
            fail();
        }
    }
    if (at->status != 0) {
        show_log("it failed");
        fail_msg("the job ended with status %#x", (unsigned)at->status);
    }
    kit_alone();
    kit_folder_is_clean(folder);
}

/* The lines of counters that a job printed; the caller frees them. */
static char *read_counters(void)
{
    char *text = kit_read(log_path, NULL);
    assert_non_null(text);
    size_t used = 0;
    for (char *at = text; *at != '\0';) {
        const size_t size = strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
        if (strncmp(at, "counter ", 8) == 0) {
            memmove(text + used, at, size);
            used += size;
        }
        at += size;
    }
    text[used] = '\0';
    return text;
}

static void check_same(const work *job)
{
    assert_true(kit_output_hash(output, PARTS) == job->hash);
    char *counters = read_counters();
    assert_string_equal(counters, job->counters);
    gy_free(counters);
}

static int count_spans(void)
{
    char *text = kit_read(trace, NULL);
    int count = 0;
    assert_non_null(text);
    for (const char *at = text; (at = strstr(at, "\"ph\":\"X\"")) != NULL; at++) {
        count++;
    }
    gy_free(text);
    return count;
}

/* What the history says of the last job. */
static bool history_says(const char *what)
{
    static char text[1 << 16];
    char line[512], path[192];
    snprintf(path, sizeof(path), "%s/id", folder);
    char *id = kit_read(path, NULL);
    assert_non_null(id);
    snprintf(line, sizeof(line), "%s job show %.*s", command(), (int)strcspn(id, "\n"), id);
    gy_free(id);
    assert_int_equal(gy_test_shell(line, text, sizeof(text)), 0);
    return strstr(text, what) != NULL;
}

/* ---- tests ---- */

static void undisturbed_jobs_are_right(void **state)
{
    (void)state;
    static kit_journal seen;
    for (int job = 0; job < JOBS; job++) {
        running at = start(job);
        (void)reach(&at, &jobs[job], ANY, 0); /* opens the journal */
        finish(&at);
        assert_true(at.journal >= 0);
        kit_journal_read(at.journal, &seen);
        jobs[job].journal_bytes = journal_bytes(&at);
        jobs[job].tasks = seen.committed;
        jobs[job].hash = kit_output_hash(output, PARTS);
        jobs[job].counters = read_counters();
        close(at.journal);
        assert_true(strlen(jobs[job].counters) > 0);
        assert_int_equal(count_spans(), jobs[job].tasks);
        if (job == SORT) {
            check_records();
        } else {
            check_words(job);
            assert_true(jobs[job].tasks >= 48);
        }
    }
}

typedef struct fault {
    const char *name;
    phase when;
    bool is_stop;
} fault;

/* A process of the job, whose number cannot become another's; -1: there is none now. */
static int pick_worker(const running *at, pid_t *pid)
{
    pid_t workers[16];
    const int count = kit_workers(at->manager, workers, 16);
    if (count == 0) {
        return -1;
    }
    *pid = workers[gy_random_below(&chance, (uint64_t)count)];
    return pidfd_open(*pid, 0);
}

static bool is_there(int process)
{
    return pidfd_send_signal(process, 0, NULL, 0) == 0;
}

/* True: the fault came in time. */
static bool disturb(running *at, const work *job, const fault *what)
{
    const double share = 0.1 + 0.75 * (double)gy_random_below(&chance, 1000) / 1000;
    int process = -1;
    pid_t pid = 0;
    while (process < 0) {
        if (!reach(at, job, what->when, what->when == ANY ? share : 0)) {
            return false;
        }
        process = pick_worker(at, &pid);
    }
    const bool was_there =
        pidfd_send_signal(process, what->is_stop ? SIGSTOP : SIGKILL, NULL, 0) == 0;
    if (what->is_stop && was_there) {
        while (is_there(process) && !look(at)) { /* bounded: reach and finish have deadlines */
            kit_pause();
        }
        (void)pidfd_send_signal(process, SIGCONT, NULL, 0);
    }
    close(process);
    return was_there;
}

static void disturbed_jobs_end_the_same(void **state)
{
    (void)state;
    static const fault faults[] = {{"killed in map", ANY, false},
                                   {"killed in shuffle", SHUFFLE, false},
                                   {"killed in reduce", REDUCE, false},
                                   {"stopped", ANY, true}};
    assert_int_equal(setenv("GYRE_JOB_SILENCE", SILENCE, 1), 0);
    int hits = 0, missed = 0, silent = 0;
    const long rounds = gy_test_cases(8) * (long)GY_COUNT(faults) / 8 * JOBS;
    for (long i = 0; i < (rounds > 0 ? rounds : 1) && missed < 40;) {
        const fault *what = &faults[(size_t)(i / JOBS) % GY_COUNT(faults)];
        const int job = (int)(i % JOBS);
        running at = start(job);
        const bool is_hit = disturb(&at, &jobs[job], what);
        finish(&at);
        check_same(&jobs[job]);
        silent += what->is_stop && is_hit && history_says("has been silent");
        if (at.journal >= 0) {
            close(at.journal);
        }
        hits += is_hit;
        missed += !is_hit;
        i += is_hit;
    }
    printf("%d faults, %d of them silence that was noticed; %d came too late\n", hits, silent,
           missed);
    assert_true(missed < 40);
    assert_true(silent > 0 || rounds < (long)GY_COUNT(faults) * JOBS);
    assert_int_equal(unsetenv("GYRE_JOB_SILENCE"), 0);
}

/* The next manager of the job in the folder. What processes of others left for the trace goes:
 * the trace shall have its own alone. */
static void resume(running *at)
{
    char path[192], said[64];
    snprintf(path, sizeof(path), "rm -f %s/trace/*", folder);
    assert_int_equal(gy_test_shell(path, said, sizeof(said)), 0);
    snprintf(path, sizeof(path), "%s/id", folder);
    char *id = kit_read(path, NULL);
    assert_non_null(id);
    id[strcspn(id, "\n")] = '\0';
    const char *arguments[] = {command(), "job", "resume", id, NULL};
    *at = (running){.manager = kit_start((char *const *)(uintptr_t)arguments, log_path),
                    .journal = at->journal};
    gy_free(id);
}

/* Managers are killed one after the other; the last one's trace has only what was left. */
static int kill_managers(int job, int most)
{
    static kit_journal seen;
    int kills = 0;
    running at = start(job);
    double share = 0;
    while (kills < most) {
        share += (1 - share) * (double)gy_random_below(&chance, 1000) / 1500;
        if (!reach(&at, &jobs[job], kills + 1 < most ? ANY : (phase)gy_random_below(&chance, 3),
                   share)) {
            break;
        }
        assert_int_equal(kill(at.manager, SIGKILL), 0);
        at.status = kit_wait(at.manager);
        if (!WIFSIGNALED(at.status)) { /* it was done */
            at.has_ended = true;
            break;
        }
        kit_alone();
        kills++;
        kit_journal_read(at.journal, &seen);
        resume(&at);
    }
    finish(&at);
    check_same(&jobs[job]);
    const int spans = count_spans(), left = jobs[job].tasks - (kills > 0 ? seen.committed : 0);
    if (spans != left) {
        fail_msg("%s: after %d managers that were killed %d tasks ran, %d were left",
                 jobs[job].verb, kills, spans, left);
    }
    kit_journal_read(at.journal, &seen);
    assert_int_equal(seen.committed, jobs[job].tasks);
    assert_int_equal(seen.raised, 0);
    assert_in_range(seen.managers, 1, kills + 1); /* some were killed before they said so */
    for (int i = 0; i < KIT_TASKS_MAX; i++) {
        assert_true(seen.commits[i] <= 1);
    }
    close(at.journal);
    return kills;
}

static void killed_managers_are_followed(void **state)
{
    (void)state;
    int kills = 0;
    const int wanted = (int)gy_test_cases(20);
    for (int i = 0; i < 3 * wanted && kills < wanted; i++) {
        const int left = wanted - kills;
        kills += kill_managers(i % JOBS, left < 4 ? left : 4);
    }
    printf("%d managers were killed\n", kills);
    assert_true(kills >= wanted);
}

/* A disk of some hundred KiB holds the output, or the job. */
static void a_full_disk_ends_a_job(void **state)
{
    (void)state;
    static char text[8192];
    char line[2048], disk[128];
    snprintf(disk, sizeof(disk), "%s/disk", kit_top);
    assert_int_equal(mkdir(disk, 0700), 0);
    snprintf(line, sizeof(line), "unshare -m mount -t tmpfs -o size=64k tmpfs %s 2>&1", disk);
    if (gy_test_shell(line, text, sizeof(text)) != 0) {
        printf("no disk of our own can be mounted here: %s\n", text);
        skip();
    }
    for (int is_job = 0; is_job < 2; is_job++) {
        snprintf(line, sizeof(line),
                 "cd %s && rm -rf out job && unshare -m sh -c 'mount -t tmpfs -o size=%s tmpfs "
                 "disk && { timeout 60 %s mr wordcount in-0 in-1 -r 6 -p 3 -q --split 16KiB -o "
                 "%sout --folder %sjob; echo status $?; find %sout %sjob; }' 2>&1",
                 kit_top, is_job == 1 ? "300k" : "40k", command(), is_job == 0 ? "disk/" : "",
                 is_job == 1 ? "disk/" : "", is_job == 0 ? "disk/" : "",
                 is_job == 1 ? "disk/" : "");
        (void)gy_test_shell(line, text, sizeof(text));
        const char *left = strstr(text, "status 1\n");
        if (left == NULL || strstr(text, "No space left") == NULL ||
            strstr(left, "\nout") != NULL || strstr(left, "disk/out\n") != NULL ||
            strstr(left, "out/") != NULL || strstr(left, "job/data") != NULL ||
            strstr(left, "job/scratch") != NULL) {
            fail_msg("a full disk of the %s: %s", is_job == 1 ? "job" : "output", text);
        }
        kit_alone();
    }
}

static int begin(void **state)
{
    if (kit_begin(state) != 0) {
        return 1;
    }
    chance = (gy_random){.key = gy_test_seed()};
    snprintf(output, sizeof(output), "%s/out", kit_top);
    snprintf(folder, sizeof(folder), "%s/job", kit_top);
    snprintf(log_path, sizeof(log_path), "%s/log", kit_top);
    snprintf(trace, sizeof(trace), "%s/trace.json", kit_top);
    write_texts();
    write_records();
    return 0;
}

static int end(void **state)
{
    for (int job = 0; job < JOBS; job++) {
        gy_free(jobs[job].counters);
    }
    gy_free(records);
    return kit_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undisturbed_jobs_are_right),
        cmocka_unit_test(disturbed_jobs_end_the_same),
        cmocka_unit_test(killed_managers_are_followed),
        cmocka_unit_test(a_full_disk_ends_a_job),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
