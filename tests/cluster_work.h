/**
 * The jobs of jobs_work.h on the cluster of cluster_kit.h, whose daemons are on the hosts of
 * switch_kit.h: a network namespace each, and one for the user and the name server; what each
 * job leaves locally is what it must leave there.
 */
#ifndef GY_TESTS_CLUSTER_WORK_H
#define GY_TESTS_CLUSTER_WORK_H

/* Two kits have functions of these names. */
#define kit_read  hosts_read
#define kit_start hosts_start
#define kit_wait  hosts_wait
#include "switch_kit.h"
#undef kit_read
#undef kit_start
#undef kit_wait

#include "cluster_kit.h"
#include "jobs_work.h"

#include "cluster_scene.h" /* behind functions with an `at` of their own */

#include <glob.h>

enum { WORK_EPOCHS = 16, WORK_CALM_SECONDS = 20 };

static kit_hosts hosts;
static kit_switch net;
static char *home_counters[JOBS]; /* as the manifest of the job locally has them */

/* ---- the cluster ---- */

static inline void work_enter(int host)
{
    char path[64], name[32];
    if (!hosts.is_real) {
        return;
    }
    snprintf(path, sizeof(path), "/run/netns/%s", kit_name(&hosts, host, name));
    const int space = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(space >= 0 && setns(space, CLONE_NEWNET) == 0);
    close(space);
}

/* A cluster with slots for each host, as --slots takes them; NULL: 3. */
static inline void work_open(const char *const slots[CLUSTER_DAEMONS])
{
    const bool is_real = switch_open(&net, &hosts, gy_test_seed());
    at = (cluster){.loses = true,
                   .reserve = "1MiB",
                   .keep = "4", /* more than it takes until somebody is lost */
                   .network = is_real ? "10.7.7." : NULL,
                   .enter = work_enter,
                   .options = {"--preemption-delay", "0.05", "--preemption-grace", "0.3",
                               "--gang-preemption-exempt", "0.01"}};
    for (int i = 0; slots != NULL && i < CLUSTER_DAEMONS; i++) {
        at.slots[i] = slots[i];
    }
    work_enter(CLUSTER_DAEMONS);
    cluster_start(&at);
}

static inline void work_close(void)
{
    cluster_end(&at);
    switch_close(&net);
    kit_alone();
}

/* Its folder stays, or is emptied, which makes it another daemon. */
static inline void work_daemon_again(int host, bool is_emptied)
{
    char line[128];
    snprintf(line, sizeof(line), "rm -rf d%d", host);
    if (is_emptied) {
        assert_int_equal(shell(line), 0);
    }
    at.daemons[host] = cluster_daemon(&at, host);
}

static inline void work_kill_daemon(int host)
{
    assert_int_equal(kill(at.daemons[host], SIGKILL), 0);
    (void)kit_wait(at.daemons[host]);
    at.daemons[host] = 0;
}

/* ---- processes ---- */

/* Vertex processes at a host: those of fork servers, which its daemon's children start. */
static inline int work_workers(int host, pid_t *out, int most)
{
    pid_t children[16], parents[4];
    int count = 0;
    const int families =
        at.daemons[host] > 0 ? kit_children(at.daemons[host], children, 16) : 0;
    for (int i = 0; i < families; i++) {
        const int parent_count = kit_children(children[i], parents, 4);
        for (int k = 0; k < parent_count; k++) {
            if (!cluster_is_manager(parents[k])) {
                count += kit_children(parents[k], out + count, most - count);
            }
        }
    }
    return count;
}

/* Who can kill a vertex process: its parent. */
static inline pid_t work_parent(pid_t process)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    int parent = 0;
    if (file != NULL) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        const char *end = strrchr(text, ')'); /* behind the name */
        if (end == NULL || sscanf(end + 1, " %*c %d", &parent) != 1) {
            parent = 0;
        }
    }
    return (pid_t)parent;
}

/* All daemons that were started and not ended are there. */
static inline void work_expect_daemons(void)
{
    for (int i = 0; i < CLUSTER_DAEMONS; i++) {
        int status = 0;
        if (at.daemons[i] > 0 && waitpid(at.daemons[i], &status, WNOHANG) != 0) {
            at.daemons[i] = 0;
            (void)cluster_shell(&at, said, sizeof(said), "tail -n 20 names.log d?.log");
            printf("%s\n", said);
            fail_msg("daemon %d ended by itself with status %#x", i, (unsigned)status);
        }
    }
}

static inline bool work_is_own(pid_t process)
{
    bool is_own = process == at.server || process == net.process;
    for (int i = 0; i < CLUSTER_DAEMONS; i++) {
        is_own = is_own || process == at.daemons[i];
    }
    return is_own;
}

/* The one that waits at a daemon to become the parent of some job's processes: of none so far.
 */
static inline bool work_is_waiting(pid_t process)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)process);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        (void)!fgets(name, sizeof(name), file);
        fclose(file);
    }
    return strcmp(name, "gyre waits\n") == 0;
}

/* Nobody but the cluster itself is there: what a killed daemon left came to us. */
static inline bool work_is_quiet(void)
{
    pid_t found[64];
    bool is_quiet = true;
    const int own = kit_children(getpid(), found, 64);
    for (int i = 0; i < own; i++) {
        is_quiet = (work_is_own(found[i]) || waitpid(found[i], NULL, WNOHANG) != 0) && is_quiet;
    }
    for (int i = 0; i < CLUSTER_DAEMONS && is_quiet; i++) {
        const int count = at.daemons[i] > 0 ? kit_children(at.daemons[i], found, 64) : 0;
        is_quiet = count == 0 || (count == 1 && work_is_waiting(found[0]));
    }
    return is_quiet;
}

/* No process of a job is left, nor any file of one at a daemon that runs. */
static inline void work_calm(void)
{
    char line[160] = "! find ";
    for (int i = 0; i < CLUSTER_DAEMONS; i++) {
        if (at.daemons[i] > 0) {
            snprintf(line + strlen(line), sizeof(line) - strlen(line), "d%d/jobs ", i);
        }
    }
    snprintf(line + strlen(line), sizeof(line) - strlen(line),
             "-type f '(' -path '*/data/*' -o -path '*/fetched/*' -o -path '*/scratch/*' -o "
             "-path '*/manager/*' ')' | grep .");
    const double last = kit_now() + WORK_CALM_SECONDS;
    work_expect_daemons();
    while (!work_is_quiet() || cluster_shell(&at, said, sizeof(said), line) != 0) {
        if (kit_now() > last) {
            (void)cluster_shell(&at, said, sizeof(said),
                                "ps axo pid,ppid,stat,args | grep -F $T | grep -v grep; "
                                "tail -n 20 names.log d?.log");
            printf("%s\n", said);
            (void)cluster_shell(&at, said, sizeof(said), line);
            fail_msg("a job's process or file is still there: %s", said);
        }
        kit_pause();
    }
}

/* ---- a job ---- */

typedef struct remote_job {
    running at; /* manager: who submitted it and waits; journal: the first epoch's */
    int job;
    int segments[WORK_EPOCHS]; /* journals of epochs 1 ... as they were seen; -1: not seen */
} remote_job;

static inline void remote_start_with(remote_job *out, int job, const char *const *options)
{
    char line[320];
    snprintf(line, sizeof(line), "rm -rf %s %s %s", output, folder, trace);
    assert_int_equal(shell(line), 0);
    const char *arguments[48] = {command(), "job",   "submit", "--nameservers",
                                 at.names,  "--key", at.ring};
    int count = 7;
    while (*options != NULL) {
        arguments[count++] = *options++;
    }
    const char *const words[] = {
        "--",   command(),  "mr",   jobs[job].verb,   "-r", "6", "-q", "-o",
        output, "--folder", folder, "--backup-after", "0"};
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        arguments[count++] = words[i];
    }
    for (int i = 0; jobs[job].options[i] != NULL; i++) {
        arguments[count++] = jobs[job].options[i];
    }
    for (int i = job == SORT ? FILES : 0; i < (job == SORT ? FILES + 1 : FILES); i++) {
        arguments[count++] = inputs[i];
    }
    arguments[count] = NULL;
    *out = (remote_job){.job = job, .at = {.journal = -1}};
    for (int i = 0; i < WORK_EPOCHS; i++) {
        out->segments[i] = -1;
    }
    out->at.manager = kit_start((char *const *)(uintptr_t)arguments, log_path);
}

static inline void remote_start(remote_job *out, int job)
{
    remote_start_with(out, job, (const char *const[]){NULL});
}

/* Look for journals of more epochs; true: it has ended. */
static inline bool remote_look(remote_job *job)
{
    const bool has_ended = look(&job->at);
    job->segments[0] = job->at.journal;
    for (int i = 1; i < WORK_EPOCHS && job->segments[i - 1] >= 0; i++) {
        char path[192];
        snprintf(path, sizeof(path), "%s/journal.%d", folder, i + 1);
        if (job->segments[i] < 0) {
            job->segments[i] = open(path, O_RDONLY | O_CLOEXEC);
        }
    }
    return has_ended;
}

/* What all managers wrote, one after the other. */
static inline void remote_journals(const remote_job *job, kit_journal *out)
{
    static kit_journal one;
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < WORK_EPOCHS && job->segments[i] >= 0; i++) {
        kit_journal_read(job->segments[i], &one);
        for (int k = 0; k < KIT_TASKS_MAX; k++) {
            out->committed += out->commits[k] == 0 && one.commits[k] > 0;
            out->commits[k] += one.commits[k];
        }
        out->raised += one.raised;
        out->managers += one.managers;
    }
}

static inline void remote_forget(remote_job *job)
{
    job->segments[0] = job->at.journal;
    for (int i = 0; i < WORK_EPOCHS; i++) {
        if (job->segments[i] >= 0) {
            close(job->segments[i]);
        }
    }
}

static inline void remote_show(const char *what)
{
    show_log(what);
    (void)cluster_shell(&at, said, sizeof(said),
                        "$GYRE job list $N; $GYRE cluster list $N; tail -n 20 names.log d?.log "
                        "d?/jobs/*/log/manager");
    printf("%s\n", said);
}

/* The counters that a manifest has, but for those of how bytes came from host to host. */
static inline char *manifest_counters(const char *folder_of)
{
    static const char *const moves[] = {
        "bytes fetched",           "messages about fetching",
        "sections fetched",        "tasks started where their files",
        "transfers between hosts",
    };
    char path[192];
    snprintf(path, sizeof(path), "%s/MANIFEST.json", folder_of);
    char *text = kit_read(path, NULL);
    assert_non_null(text);
    char *from = strstr(text, "\"counters\"");
    assert_non_null(from);
    memmove(text, from, strlen(from) + 1);
    for (size_t i = 0; i < GY_COUNT(moves); i++) {
        for (char *word; (word = strstr(text, moves[i])) != NULL;) {
            const char *next = word + strcspn(word, "\n") + 1;
            word -= strlen("  \"");
            memmove(word, next, strlen(next) + 1);
        }
    }
    text[strcspn(text, "}")] = '\0';
    for (size_t end = strlen(text); end > 0 && strchr(",\n", text[end - 1]) != NULL; end--) {
        text[end - 1] = '\0'; /* whether the last one is gone or not */
    }
    return text;
}

/* It ends well, with what it gives locally, and leaves nothing. */
static inline void remote_finish(remote_job *job)
{
    for (const double last = kit_now() + KIT_WAIT_SECONDS; !remote_look(job); kit_pause()) {
        if (kit_now() > last) {
            remote_show("it did not end");
            (void)kill(job->at.manager, SIGKILL);
            (void)kit_wait(job->at.manager);
            fail();
        }
    }
    if (job->at.status != 0) {
        remote_show("it failed");
        fail_msg("the job ended with status %#x", (unsigned)job->at.status);
    }
    if (kit_output_hash(output, PARTS) != jobs[job->job].hash) {
        fail_msg("the output of %s has other bytes than at home", jobs[job->job].verb);
    }
    char *counters = manifest_counters(output);
    assert_string_equal(counters, home_counters[job->job]);
    gy_free(counters);
    kit_folder_is_clean(folder);
    work_calm();
}

/* ---- before and after ---- */

static inline int work_begin_jobs(void **state, int lines, int record_count)
{
    work_lines = lines;
    work_records = record_count;
    if (work_begin(state) != 0) {
        return 1;
    }
    for (int job = 0; job <= INDEX; job++) {
        run_undisturbed(job);
        home_counters[job] = manifest_counters(output);
        assert_true(strlen(home_counters[job]) > strlen("\"counters\": {}}\n"));
    }
    journal_name = "journal.1";
    work_open(NULL);
    return 0;
}

static inline int work_end_jobs(void **state)
{
    work_close();
    journal_name = "journal";
    for (int job = 0; job < JOBS; job++) {
        gy_free(home_counters[job]);
        home_counters[job] = NULL;
    }
    return work_end(state);
}

#endif
