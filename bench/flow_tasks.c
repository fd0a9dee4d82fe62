/*
 * What a task costs: a job of empty tasks, each with two inputs, every one sent to a vertex
 * process, answered, and written to the journal. Beside it the floor: as many messages of the
 * same size to a process and back, as many in flight, and records of the same size to a file,
 * with no machine.
 *
 * usage: bench_flow_tasks [TASKS [PROCESSES [FOLDER]]]      (1000000 2 /tmp)
 */
#include "driver/driver.h"
#include "worker/wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IN_FLIGHT = 64, RECORD_BYTES = 64 };

static void run_task(void *arg, const gy_worker_task *task, const _Atomic bool *is_cancelled,
                     gy_worker_answer *answer)
{
    (void)arg;
    (void)is_cancelled;
    answer->content = (gy_key){.high = task->id.task, .low = 1};
}

static gy_status encode(void *arg, const gy_manager *manager, const gy_effect *start,
                        gy_driver_place *place, gy_text *message)
{
    (void)place;
    (void)arg;
    (void)manager;
    (void)start;
    return message->status;
}

static void fail_if(bool is_wrong, const char *what)
{
    if (is_wrong) {
        fprintf(stderr, "bench_flow_tasks: %s: %s\n", what, gy_error_text());
        exit(1);
    }
}

static double seconds_since(int64_t begin_ns)
{
    return (double)(gy_now_ns(gy_env_real()) - begin_ns) / 1e9;
}

static double rss_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* Task i reads i - 1000 and i - 2000: a graph with a thousand tasks ready at any time. */
static gy_manager *make_manager(uint32_t count, uint32_t processes)
{
    static const gy_stage stage = {.name = "empty"};
    gy_sched_task *tasks = calloc(count, sizeof(*tasks));
    gy_edge *edges = calloc((size_t)count * 2, sizeof(*edges));
    size_t edge_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        tasks[i] = (gy_sched_task){.key = {.high = i, .low = 1}, .width = 1, .output_count = 1};
        for (uint32_t back = 1000; back <= 2000 && back <= i; back += 1000) {
            edges[edge_count++] = (gy_edge){.from = i - back};
            tasks[i].input_count++;
        }
    }
    gy_manager *manager = NULL;
    gy_status status = gy_manager_new(
        &(gy_manager_options){.stages = &stage,
                              .stage_count = 1,
                              .process_max = processes,
                              .backup_floor_ns = -1},
        &(gy_growth){
            .tasks = tasks, .task_count = count, .edges = edges, .edge_count = edge_count},
        &manager);
    fail_if(status < 0, "cannot make the manager");
    free(tasks);
    free(edges);
    return manager;
}

static double run_job(uint32_t count, uint32_t processes, const char *folder)
{
    int64_t begin_ns = gy_now_ns(gy_env_real());
    gy_manager *manager = make_manager(count, processes);
    gy_driver_ops ops = {.encode = encode};
    gy_driver_options options = {.folder = folder, .processes = (int)processes, .ops = &ops};
    fail_if(gy_driver_run(gy_env_real(), manager, &options) < 0, "the job failed");
    double seconds = seconds_since(begin_ns);
    gy_stage_state state;
    gy_manager_stage(manager, 0, &state);
    fail_if(state.committed != count, "not all tasks are committed");
    gy_manager_free(manager);
    return seconds;
}

/* ---- the floor ---- */

/* Answer each message, those that came together together. */
static void echo(int socket)
{
    static uint8_t in[1 << 16];
    ssize_t got = 0;
    size_t left = 0;
    while ((got = read(socket, in + left, sizeof(in) - left)) > 0) {
        size_t whole = ((size_t)got + left) / GY_WIRE_HEAD_BYTES * GY_WIRE_HEAD_BYTES;
        if (write(socket, in, whole) != (ssize_t)whole) {
            break;
        }
        left = (size_t)got + left - whole;
        memmove(in, in + whole, left);
    }
    _exit(0);
}

/* Sends what was asked for and counts what comes, a batch of IN_FLIGHT / 4 at a time. */
static double run_floor(uint32_t count, const char *folder)
{
    enum { BATCH = IN_FLIGHT / 4 };
    static uint8_t out[BATCH * GY_WIRE_HEAD_BYTES], in[1 << 16], journal[1 << 18];
    char path[560];
    int pair[2];
    size_t kept = 0, come = 0, sent = 0;
    snprintf(path, sizeof(path), "%.500s/floor", folder);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fail_if(file < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0, "no socket or file");
    pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        echo(pair[1]);
    }
    close(pair[1]);
    int64_t begin_ns = gy_now_ns(gy_env_real());
    while (come / GY_WIRE_HEAD_BYTES < count) {
        while (sent < count && sent - come / GY_WIRE_HEAD_BYTES <= IN_FLIGHT - BATCH) {
            fail_if(write(pair[0], out, sizeof(out)) != (ssize_t)sizeof(out), "write");
            sent += BATCH;
        }
        ssize_t got = read(pair[0], in, sizeof(in));
        fail_if(got <= 0, "read");
        come += (size_t)got;
        kept += (size_t)got / GY_WIRE_HEAD_BYTES * RECORD_BYTES;
        if (kept >= sizeof(journal) - (1 << 17)) {
            fail_if(write(file, journal, kept) != (ssize_t)kept, "write");
            kept = 0;
        }
    }
    fail_if(fsync(file) != 0, "sync");
    double seconds = seconds_since(begin_ns);
    close(pair[0]);
    close(file);
    (void)waitpid(child, NULL, 0);
    unlink(path);
    return seconds;
}

int main(int argc, char **argv)
{
    const gy_worker_ops ops = {.run = run_task};
    if (gy_worker_socket() >= 0) {
        return gy_worker_serve(gy_worker_socket(), &ops);
    }
    char folder[512], job[560], path[600], line[640];
    snprintf(folder, sizeof(folder), "%.400s/gyre-bench-XXXXXX", argc > 3 ? argv[3] : "/tmp");
    fail_if(mkdtemp(folder) == NULL, "no folder");
    uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    uint32_t processes = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    fail_if(count < 1 || processes < 1, "usage: bench_flow_tasks [TASKS [PROCESSES [FOLDER]]]");
    double least = run_floor(count, folder);
    snprintf(job, sizeof(job), "%s/job", folder);
    double seconds = run_job(count, processes, job);
    double rss = rss_mb();
    struct stat status = {.st_size = 0};
    snprintf(path, sizeof(path), "%s/journal", job);
    (void)stat(path, &status);
    double again = run_job(count, processes, job);
    printf("%u tasks, %u processes: %.2f us a task (floor %.2f), peak %.0f MB, journal %.0f "
           "MB, all read again in %.2f s\n",
           count, processes, seconds * 1e6 / count, least * 1e6 / count, rss,
           (double)status.st_size / 1e6, again);
    snprintf(line, sizeof(line), "rm -rf '%s'", folder);
    fail_if(system(line) != 0, "cannot remove the folder");
    return 0;
}
