/* Goal: a transient failure in a daemon destroys nothing that is intact: no process runs
 * unobserved, no slot is given to another process while one uses it, no file is discarded
 * unread. */
#include "cluster/host/host_priv.h"

#include "cluster/host/process_test.h"
#include "driver/job_test.h"
#include "rpc/keyring.h"

static gy_host host;
static gy_host_options options;
static char folder[64];

static int begin(void **state)
{
    (void)state;
    char path[96];
    snprintf(folder, sizeof(folder), "/tmp/gyre-faults-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/blobs", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    options = (gy_host_options){.names = "127.0.0.1:1", .is_plaintext = true};
    host = (gy_host){.env = gy_env_real(), .options = &options, .slots = 2, .epoll = -1};
    snprintf(host.folder, sizeof(host.folder), "%s", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    gy_host_jobs_free(&host);
    gy_host_blobs_free(&host);
    gy_free(host.events);
    assert_int_equal(gy_alloc_live(), 0);
    return gy_disk_remove_tree(folder);
}

static host_job *make_job(void)
{
    host_job *job = gy_host_job_new(&host, (gy_key){7, 8});
    assert_non_null(job);
    assert_ok(gy_host_job_folder(&host, job));
    return job;
}

/* ---- Processes whose messages could not arrive: epoll fails ---- */

GY_TEST_WITH(test_a_manager_that_is_not_heard_is_over, .setup_func = begin,
             .teardown_func = end)
{
    static char shell[] = "/bin/sh", option[] = "-c", line[] = "exec sleep 1000", none[] = "";
    char *arguments[] = {shell, option, line}, *environment[] = {NULL};
    Gy__Cluster__JobSpec spec;
    host_job *job = make_job();
    gy__cluster__job_spec__init(&spec);
    spec.arguments = arguments;
    spec.n_arguments = GY_COUNT(arguments);
    job->program = (host_program){.state = PROGRAM_READY,
                                  .spec = &spec,
                                  .path = shell,
                                  .environment = environment,
                                  .directory = "/",
                                  .folder = none,
                                  .again_ns = INT64_MAX};
    job->manager.wanted = 3;
    gy_host_manager_go(&host, job, GY_OK);
    gy_host_manager_free(job);
    memset(&job->program, 0, sizeof(job->program)); /* it is not on the heap */
    assert_int_equal(host.event_count, 1);
    assert_int_equal(host.events[0].event.kind, GY_DAEMON_MANAGER_DOWN);
    assert_int_equal(host.events[0].event.epoch, 3);
    assert_true(job->manager.shim == 0 && job->manager.epoch == 0);
    /* Only what its shim left remains, and that is killed. */
    assert_true(host.orphans_ns != 0);
    gy_test_job_alone();
}

GY_TEST_WITH(test_a_process_that_is_not_heard_keeps_its_slot, .setup_func = begin,
             .teardown_func = end)
{
    gy_supervisor *supervisor =
        gy_alloc_zero("test", 1, sizeof(*supervisor)); /* the job owns and frees it */
    char path[512] = "", *argv[] = {path, NULL};
    host_job *job = make_job();
    gy_fork_server_news news;
    gy_status status = GY_AGAIN;
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    job->slots = gy_alloc_zero("test", host.slots, 1);
    assert_non_null(job->slots);
    assert_non_null(supervisor);
    *supervisor = (gy_supervisor){.env = host.env,
                                  .start = {.argv = argv},
                                  .role = {.processes = host.slots, .threads = 1},
                                  .folder = job->path};
    job->supervisor = supervisor;
    assert_ok(gy_supervisor_open(job->supervisor));
    assert_ok(gy_supervisor_start(job->supervisor));
    gy_host_executor_start(&host, &(gy_daemon_effect){.kind = GY_DAEMON_EXECUTOR_START,
                                                      .job = job->key,
                                                      .lease = 1,
                                                      .generation = 4,
                                                      .epoch = 1});
    const host_executor *executor = gy_host_executor(job, 1, 4);
    assert_true(executor != NULL && executor->has_process && executor->is_killed);
    assert_int_equal(host.event_count, 0); /* its end is not reported before it has happened */
    assert_int_equal(job->slots[executor->slot], 1);
    while (status == GY_AGAIN) {
        struct pollfd look = {.fd = job->supervisor->socket, .events = POLLIN};
        assert_int_equal(poll(&look, 1, 20000), 1);
        status = gy_supervisor_handle(job->supervisor, &news);
    }
    assert_ok(status);
    assert_true(news.slot == executor->slot && news.generation == 4);
    /* It may see its stream close before the signal arrives. */
    assert_true(WIFEXITED(news.status) ||
                (WIFSIGNALED(news.status) && WTERMSIG(news.status) == SIGKILL));
    gy_supervisor_close(job->supervisor, true);
    gy_free(job->supervisor);
    job->supervisor = NULL;
    gy_test_job_alone();
}

/* ---- Keys of managers ---- */

/* Add an epoch with a time of its own to the ring. */
static void rotate(const char *ring)
{
    static time_t second = 1000000000;
    uint64_t epoch = 0;
    second++;
    const struct timespec times[2] = {{.tv_sec = second}, {.tv_sec = second}};
    assert_ok(gy_keyring_rotate(ring, &epoch));
    assert_int_equal(utimensat(AT_FDCWD, ring, times, 0), 0);
}

static gy_status count_epoch(void *arg, const gy_keyring_entry *entry)
{
    (void)entry;
    ++*(int *)arg;
    return GY_OK;
}

static int count_epochs(const char *key)
{
    int count = 0;
    assert_ok(gy_keyring_list(key, count_epoch, &count));
    return count;
}

GY_TEST_WITH(test_a_key_that_was_not_written_is_written_later, .setup_func = begin,
             .teardown_func = end)
{
    char ring[96], key[HOST_PATH], beside[HOST_PATH + 8];
    snprintf(ring, sizeof(ring), "%s/ring", folder);
    assert_ok(gy_keyring_make(ring));
    options.key_file = ring;
    host_job *job = make_job();
    assert_true(gy_host_path(key, job->path, "manager", "key"));
    snprintf(beside, sizeof(beside), "%s.new", key);
    assert_ok(gy_keyring_scope(ring, GY_RPC_MANAGER, job->name, key));
    job->manager.shim = getpid(); /* it runs */
    gy_host_check_ring(&host);
    rotate(ring);
    assert_int_equal(mkdir(beside, 0700), 0); /* so that nothing can be written there */
    gy_host_check_ring(&host);
    gy_host_check_ring(&host);
    assert_int_equal(count_epochs(key), 1);
    assert_int_equal(rmdir(beside), 0);
    gy_host_check_ring(&host);
    assert_int_equal(count_epochs(key), 2);
    /* An interrupted try has left a file. */
    rotate(ring);
    assert_int_equal(close(open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)), 0);
    gy_host_check_ring(&host);
    assert_int_equal(count_epochs(key), 3);
    assert_int_not_equal(access(beside, F_OK), 0);
    job->manager.shim = 0;
}

/* ---- Files ---- */

static gy_key put_blob(size_t size_bytes, char path[HOST_PATH])
{
    gy_net_digest *digest = NULL;
    void *data = gy_alloc_zero("test", size_bytes, 1);
    assert_non_null(data);
    assert_ok(gy_net_digest_begin(&digest));
    gy_net_digest_feed(digest, data, size_bytes);
    const gy_key key = gy_net_digest_end(digest);
    gy_net_digest_free(digest);
    gy_host_blob_path(&host, key, path);
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    assert_true(file >= 0 && write(file, data, size_bytes) == (ssize_t)size_bytes);
    assert_int_equal(close(file), 0);
    gy_free(data);
    assert_ok(gy_host_blobs_load(&host));
    return key;
}

GY_TEST_WITH(test_a_file_is_not_thrown_away_unread, .setup_func = begin, .teardown_func = end)
{
    enum { LITTLE = 1000, MUCH = 5 << 20 }; /* of MUCH only a part is read at once */
    char path[HOST_PATH];
    const gy_key little = put_blob(LITTLE, path);
    gy_status status = GY_NOMEM;
    int64_t n = 0;
    while (status == GY_NOMEM) {
        gy_alloc_fail_after(++n);
        status = gy_host_blob(&host, little);
        gy_alloc_fail_after(0);
        assert_int_equal(access(path, F_OK), 0);
    }
    assert_ok(status);
    assert_true(n > 2);
    gy_host_blobs_free(&host);
    assert_int_equal(unlink(path), 0);
    const gy_key much = put_blob(MUCH, path);
    assert_int_equal(gy_host_blob(&host, much), GY_AGAIN);
    gy_alloc_fail_after(1);
    assert_true(gy_host_blobs_verify(&host));
    gy_alloc_fail_after(0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(gy_host_blob(&host, much), GY_AGAIN); /* it is read again */
    while (gy_host_blobs_verify(&host)) {
    }
    assert_ok(gy_host_blob(&host, much));
}

int main(void)
{
    GY_JOB_TEST_SERVE();
    gy_log_set_level(GY_LOG_ERROR);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    return GY_TESTS_RUN(NULL, NULL);
}
