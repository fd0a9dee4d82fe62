/**
 * Jobs that tests of faults disturb: word count, sort and index, one with a hot key, over three
 * processes as the command runs them, their inputs, what they must give, and where they are at
 * a moment.
 */
#ifndef GY_JOBS_WORK_H
#define GY_JOBS_WORK_H

#include "base/text.h"
#include "jobs_kit.h"

enum {
    FILES = 4,
    WORDS = 20000, /* distinct ones */
    RECORD_BYTES = 100,
    KEY_BYTES = 10,
    SMALL_FILES = 1200,
    PARTS = 6
};

typedef enum phase { ANY, MAP, SHUFFLE, REDUCE } phase;

/* A job with what it gave undisturbed. */
typedef struct work {
    const char *verb;
    const char *options[8];
    uint64_t hash;
    char *counters;
    int tasks;
    off_t journal_bytes;
} work;

enum { WORDCOUNT, SORT, INDEX, HOT, JOBS }; /* HOT: an index with a hot key */
static work jobs[JOBS] = {
    [WORDCOUNT] = {.verb = "wordcount", .options = {"--split", "16KiB"}},
    [SORT] = {.verb = "sort",
              .options = {"--record-bytes", "100", "--key-offset", "0", "--key-bytes", "10"}},
    [INDEX] = {.verb = "index", .options = {"--split", "16KiB"}},
    [HOT] = {.verb = "index", .options = {"--split", "1KiB", "--hot-key", "300"}},
};

static gy_random chance;
static int work_lines, work_records; /* of each file of text; of the file to sort */
static char inputs[FILES + 1][96], small_files[96], output[96], folder[96], log_path[96],
    trace[96];
static int counts[WORDS], in_files[WORDS];
static char *records; /* (work_records) sorted */
/* At which of its calls the next manager dies, in the words of mortal.c; "": at none; NULL: it
 * is started without mortal.c, which is part of the program that a job is resumed with. */
static const char *mortal;
static const char *journal_name =
    "journal"; /* in the job's folder; of a cluster's: journal.1 */

/* ---- inputs, and what must come of them ---- */

static inline int compare_records(const void *left, const void *right)
{
    return memcmp(left, right, KEY_BYTES);
}

static inline void write_texts(void)
{
    memset(counts, 0, sizeof(counts));
    memset(in_files, 0, sizeof(in_files));
    for (int i = 0; i < FILES; i++) {
        snprintf(inputs[i], sizeof(inputs[i]), "%s/in-%d", kit_top, i);
        FILE *file = fopen(inputs[i], "w");
        assert_non_null(file);
        for (int line = 0; line < work_lines; line++) {
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

static inline void write_records(void)
{
    records = gy_alloc("test", (size_t)work_records * RECORD_BYTES);
    assert_non_null(records);
    for (size_t i = 0; i < (size_t)work_records * RECORD_BYTES; i++) {
        records[i] = (char)gy_random_below(&chance, 256);
    }
    snprintf(inputs[FILES], sizeof(inputs[FILES]), "%s/records", kit_top);
    FILE *file = fopen(inputs[FILES], "w");
    assert_non_null(file);
    assert_int_equal(fwrite(records, RECORD_BYTES, (size_t)work_records, file), work_records);
    assert_int_equal(fclose(file), 0);
    qsort(records, (size_t)work_records, RECORD_BYTES, compare_records);
}

/* A folder of files, all of which have one word, and each two of few. */
static inline void write_small(void)
{
    snprintf(small_files, sizeof(small_files), "%s/small", kit_top);
    assert_int_equal(mkdir(small_files, 0700), 0);
    for (int i = 0; i < SMALL_FILES; i++) {
        char path[160];
        snprintf(path, sizeof(path), "%s/%04d", small_files, i);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "rare%d hot rare%d\n", (int)gy_random_below(&chance, 6),
                (int)gy_random_below(&chance, 6));
        assert_int_equal(fclose(file), 0);
    }
}

/* The parts of an output, one after the other. */
static inline char *read_parts(size_t *size_bytes)
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
static inline void check_words(int job)
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
        size_t used = 0;
        for (int i = 0; job == INDEX && i < FILES; i++) {
            if ((in_files[word] >> i & 1) != 0) {
                used += gy_print(expected + used, sizeof(expected) - used, "%c%d",
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

static inline void check_records(void)
{
    size_t size = 0;
    char *all = read_parts(&size);
    assert_int_equal(size, (size_t)work_records * RECORD_BYTES);
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

static inline const char *command(void)
{
    const char *binary = getenv("GYRE_BIN");
    return binary != NULL ? binary : "build/dev/gyre";
}

/* Start a manager. */
static inline pid_t start_manager(const char *const *arguments)
{
    static char options[512]; /* of the sanitizer, which wants to be loaded before all else */
    if (mortal != NULL) {
        const char *was = getenv("ASAN_OPTIONS");
        if (was == NULL || strstr(was, "verify_asan_link_order") == NULL) {
            snprintf(options, sizeof(options), "%s%sverify_asan_link_order=0", was ? was : "",
                     was ? ":" : "");
            assert_int_equal(setenv("ASAN_OPTIONS", options, 1), 0);
        }
        assert_non_null(getenv("GYRE_TEST_PRELOAD"));
        assert_int_equal(setenv("LD_PRELOAD", getenv("GYRE_TEST_PRELOAD"), 1), 0);
        assert_int_equal(setenv("GYRE_TEST_MORTAL", mortal, 1), 0);
    }
    const pid_t manager = kit_start((char *const *)(uintptr_t)arguments, log_path);
    assert_int_equal(unsetenv("LD_PRELOAD") | unsetenv("GYRE_TEST_MORTAL"), 0);
    return manager;
}

static inline running start(int job)
{
    char line[320], said[64];
    snprintf(line, sizeof(line), "rm -rf %s %s %s", output, folder, trace);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    const char *arguments[32] = {
        command(), "mr", jobs[job].verb, "-p",       "3",    "-r",      "6",   "-q",
        "-s",      "-o", output,         "--folder", folder, "--trace", trace, "--backup-after",
        "0"};
    int count = 17;
    for (int i = 0; jobs[job].options[i] != NULL; i++) {
        arguments[count++] = jobs[job].options[i];
    }
    if (job == HOT) {
        arguments[count++] = small_files;
    }
    for (int i = job == SORT ? FILES : 0; job != HOT && i < (job == SORT ? FILES + 1 : FILES);
         i++) {
        arguments[count++] = inputs[i];
    }
    return (running){.manager = start_manager(arguments), .journal = -1};
}

/* Look again; true when it has ended. */
static inline bool look(running *at)
{
    if (at->journal < 0) {
        char path[192];
        snprintf(path, sizeof(path), "%s/%s", folder, journal_name);
        at->journal = open(path, O_RDONLY);
    }
    if (!at->has_ended) {
        at->has_ended = kit_has_ended(at->manager, &at->status);
    }
    return at->has_ended;
}

static inline off_t journal_bytes(const running *at)
{
    struct stat about;
    return at->journal >= 0 && fstat(at->journal, &about) == 0 ? about.st_size : 0;
}

/* How many files of the final output are being made. */
static inline int count_staged(void)
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

static inline bool is_in(const running *at, const work *job, phase wanted, double share)
{
    static kit_journal seen;
    const off_t bytes = journal_bytes(at);
    if (bytes == 0 || bytes < (off_t)(share * (double)job->journal_bytes)) {
        return false;
    }
    if (wanted == REDUCE) {
        return count_staged() > 0;
    }
    if (wanted != ANY) {
        kit_journal_read(at->journal, &seen);
        const bool is_mapped = seen.committed >= job->tasks - PARTS;
        return job->tasks == PARTS || is_mapped == (wanted == SHUFFLE); /* a sort has no map */
    }
    return true;
}

/* A moment of that phase; false: the job ended before. */
static inline bool reach(running *at, const work *job, phase wanted, double share)
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

static inline void show_log(const char *what)
{
    char *text = kit_read(log_path, NULL);
    printf("%s\n%s\n", what, text != NULL ? text : "");
    gy_free(text);
}

/* It ends well, and nobody and nothing but the output is left. */
static inline void finish(running *at)
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
static inline char *read_counters(void)
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

static inline void check_same(const work *job)
{
    assert_true(kit_output_hash(output, PARTS) == job->hash);
    char *counters = read_counters();
    assert_string_equal(counters, job->counters);
    gy_free(counters);
}

static inline int count_spans(void)
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
static inline bool history_says(const char *what)
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

/* ---- intermediates ---- */

/* A file in the folder `data` that a task has committed goes, or one of its bits turns. The
 * task; -1: there was none. */
static inline int damage(const running *at, const char *data, bool is_flip)
{
    static kit_journal seen;
    char path[400];
    kit_journal_read(at->journal, &seen);
    DIR *files = opendir(data);
    int found = -1;
    for (struct dirent *one = files != NULL ? readdir(files) : NULL; one != NULL && found < 0;
         one = readdir(files)) {
        const long task = strtol(one->d_name, NULL, 10);
        if (one->d_name[0] == '.' || task >= KIT_TASKS_MAX || seen.commits[task] == 0) {
            continue;
        }
        snprintf(path, sizeof(path), "%.250s/%.100s", data, one->d_name);
        if (!is_flip) {
            found = unlink(path) == 0 ? (int)task : -1;
            continue;
        }
        const int file = open(path, O_RDWR);
        struct stat about = {.st_size = 0};
        uint8_t byte = 0;
        if (file >= 0 && fstat(file, &about) == 0 && about.st_size > 0) {
            const off_t place = (off_t)gy_random_below(&chance, (uint64_t)about.st_size);
            if (pread(file, &byte, 1, place) == 1) {
                byte ^= (uint8_t)(1 << gy_random_below(&chance, 8));
                found = pwrite(file, &byte, 1, place) == 1 ? (int)task : -1;
            }
        }
        close(file);
    }
    if (files != NULL) {
        closedir(files);
    }
    return found;
}

/* What was damaged ran again, and nothing else. */
static inline void expect_one_run_again(const running *at, const work *job, int damaged)
{
    static kit_journal seen;
    kit_journal_read(at->journal, &seen);
    for (int i = 0; i < KIT_TASKS_MAX; i++) {
        const int expected = i >= job->tasks ? 0 : i == damaged ? 2 : 1;
        if (seen.commits[i] != expected) {
            fail_msg("task %d of %s was committed %d times, expected %d (task %d was damaged)",
                     i, job->verb, seen.commits[i], expected, damaged);
        }
    }
    assert_int_equal(seen.raised, 1);
}

/* ---- undisturbed, and again ---- */

/* The word of all files was shared; without that the bytes are the same. */
static inline void check_hot(work *job)
{
    char *said = kit_read(log_path, NULL);
    assert_non_null(said);
    assert_non_null(strstr(said, "stage hot key: "));
    assert_non_null(strstr(said, "counter hot keys: 1\n"));
    gy_free(said);
    assert_true(history_says("hot key"));
    const char *const size = job->options[3];
    job->options[3] = "0";
    running at = start(HOT);
    finish(&at);
    job->options[3] = size;
    assert_true(kit_output_hash(output, PARTS) == job->hash);
    said = kit_read(log_path, NULL);
    assert_non_null(said);
    assert_null(strstr(said, "hot key"));
    gy_free(said);
}

/* What each job gives when nothing happens, compared with what is known of its input. */
static inline void run_undisturbed(int job)
{
    static kit_journal seen;
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
    } else if (job == HOT) {
        check_hot(&jobs[job]);
    } else {
        check_words(job);
    }
}

/* The next manager of the job in the folder. What processes of others left for the trace goes:
 * the trace shall have its own alone. */
static inline void resume(running *at)
{
    char path[192], said[64];
    snprintf(path, sizeof(path), "rm -f %s/trace/*", folder);
    assert_int_equal(gy_test_shell(path, said, sizeof(said)), 0);
    snprintf(path, sizeof(path), "%s/id", folder);
    char *id = kit_read(path, NULL);
    assert_non_null(id);
    id[strcspn(id, "\n")] = '\0';
    const char *arguments[] = {command(), "job", "resume", id, NULL};
    *at = (running){.manager = start_manager(arguments), .journal = at->journal};
    gy_free(id);
}

static inline int work_begin(void **state)
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
    write_small();
    return 0;
}

static inline int work_end(void **state)
{
    for (int job = 0; job < JOBS; job++) {
        gy_free(jobs[job].counters);
        jobs[job].counters = NULL;
    }
    gy_free(records);
    return kit_end(state);
}

#endif
