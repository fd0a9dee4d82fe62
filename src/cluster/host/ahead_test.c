/*
 * Goal: the fork server of a job starts before its first process is ordered, on the manager's
 * host; at most one for each slot, none that no manager will use, and a program that is no
 * manager is started once. It joins its control group before anything else, and none is left
 * behind.
 */
#include "cluster/host/host_test.h"

#include "control/net/ticket.h"

enum { SLOTS = 4 }; /* of kit_be_daemon */

/* ---- the manager's side ---- */

/* As gy_flow_run does: read the ticket, send the prewarm hint, then wait for ever. */
static int be_manager(void)
{
    gy_ticket ticket;
    char path[4200];
    if (gy_ticket_read(&ticket) < 0) {
        return 3;
    }
    const char *threads = getenv("GYRE_TEST_THREADS");
    gy_ticket_prewarm_hint(
        &ticket, &(gy_ticket_request){
                     .threads = threads != NULL ? (uint32_t)strtoul(threads, NULL, 10) : 1});
    snprintf(path, sizeof(path), "%s/told", ticket.folder);
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    close(file);
    for (;;) {
        (void)poll(NULL, 0, -1);
    }
}

static void job_is_manager(kit_scene *at, const char *variable)
{
    char path[512] = "";
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    kit_job_is(at,
               &(kit_program){.arguments = {path}, .directory = "/tmp", .variable = variable});
}

static void order_manager(kit_scene *at, uint32_t epoch)
{
    kit_order(at, 0,
              (gy_control_order){.kind = GY_ORDER_MANAGER, .job = at->job, .epoch = epoch});
}

/* The name server has replaced it. */
static void end_manager(kit_scene *at, uint32_t epoch)
{
    KIT_UNTIL(at, at->daemons[0].manager_count == 1);
    order_manager(at, epoch);
    KIT_UNTIL(at, at->daemons[0].manager_count == 0);
}

/* ---- processes ---- */

static bool has_variable(pid_t process, const char *name)
{
    char path[64], text[16384];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)process);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = file >= 0 ? read(file, text, sizeof(text) - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    text[GY_MAX(size, 0)] = '\0';
    for (ssize_t at = 0; at < size; at += (ssize_t)strlen(text + at) + 1) {
        if (strncmp(text + at, name, strlen(name)) == 0) {
            return true;
        }
    }
    return false;
}

static int list_children(pid_t parent, pid_t children[64])
{
    char path[64], text[4096];
    int count = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = file >= 0 ? read(file, text, sizeof(text) - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    text[GY_MAX(size, 0)] = '\0';
    char *rest = text, *end = NULL;
    for (long one = strtol(rest, &end, 10); end != rest && count < 64;
         one = strtol(rest, &end, 10)) {
        children[count++] = (pid_t)one;
        rest = end;
    }
    return count;
}

/* Number of fork servers of the daemon; *last is one of them. */
static int count_fork_servers(const kit_scene *at, pid_t *last)
{
    pid_t children[64];
    int found = 0;
    const int count = list_children(at->daemons[0].process, children);
    for (int i = 0; i < count; i++) {
        if (has_variable(children[i], "GYRE_VERTEX=")) {
            found++;
            *last = children[i];
        }
    }
    return found;
}

static void wait_for_told(kit_scene *at)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/jobs/%016llx%016llx/manager/told", at->daemons[0].folder,
             (unsigned long long)at->job.high, (unsigned long long)at->job.low);
    KIT_UNTIL(at, access(path, F_OK) == 0);
}

static void serve_first_executor(kit_scene *at)
{
    kit_serve_executor(at, kit_attach_first(at, 1), 1, 1);
}

GY_TEST(parents_come_before_their_children)
{
    static kit_scene at;
    pid_t early = 0, late = 0;
    kit_open(&at, false);
    kit_daemon_start(&at, 0, "");
    job_is_manager(&at, NULL);
    order_manager(&at, 1);
    KIT_UNTIL(&at, count_fork_servers(&at, &early) == 1);
    serve_first_executor(&at);
    assert_int_equal(count_fork_servers(&at, &late), 1);
    assert_int_equal(late, early);
    /* The daemon treats it like any other: its loss is reported. */
    kit_manager *own = &at.managers[0];
    assert_int_equal(kill(early, SIGKILL), 0);
    KIT_UNTIL(&at, own->gone_count == 1);
    kit_serve_executor(&at, own, 1, 2);
    kit_close(&at);
}

/* The control group named after `parent`, if the process is in it; false: it is not. */
static bool find_group(pid_t process, pid_t parent, char path[512])
{
    char name[64], text[4096], own[32];
    snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)process);
    snprintf(own, sizeof(own), "/gyre-%d\n", (int)parent);
    const int file = open(name, O_RDONLY | O_CLOEXEC);
    const ssize_t size = file >= 0 ? read(file, text, sizeof(text) - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    text[GY_MAX(size, 0)] = '\0';
    const char *at = strstr(text, ":pids:"), *end = at != NULL ? strchr(at, '\n') : NULL;
    if (end == NULL || end - at > 300 || strstr(at, own) != end + 1 - strlen(own)) {
        return false;
    }
    snprintf(path, 512, "/sys/fs/cgroup/pids%.*s", (int)(end - at - 6), at + 6);
    return true;
}

GY_TEST(groups_go_with_their_parents)
{
    static kit_scene at;
    char group[512] = "";
    pid_t parent = 0;
    if (access("/sys/fs/cgroup/pids", W_OK) != 0) {
        printf("skipped: no groups of processes can be made here\n");
        skip();
    }
    for (int round = 0; round < 2; round++) {
        kit_open(&at, false);
        kit_daemon_start(&at, 0, "");
        job_is_manager(&at, NULL);
        order_manager(&at, 1);
        KIT_UNTIL(&at, count_fork_servers(&at, &parent) == 1);
        serve_first_executor(&at);
        const pid_t child = kit_process_of(&at, &at.managers[0], 1, 1);
        assert_true(find_group(child, parent, group));
        /* A process that removes the group must not be in it. */
        assert_false(find_group(parent, parent, group));
        assert_int_equal(access(group, F_OK), 0);
        const int status = kit_daemon_end(&at, 0, round == 0 ? SIGKILL : SIGTERM);
        assert_true(round == 0 || status == 0);
        KIT_UNTIL(&at, kit_is_gone(parent) && kit_is_gone(child));
        KIT_UNTIL(&at, access(group, F_OK) != 0);
        kit_close(&at);
    }
}

GY_TEST(other_requests_get_another_one)
{
    static kit_scene at;
    pid_t early = 0, late = 0;
    kit_open(&at, false);
    kit_daemon_start(&at, 0, "");
    job_is_manager(&at, "GYRE_TEST_THREADS=3");
    order_manager(&at, 1);
    KIT_UNTIL(&at, count_fork_servers(&at, &early) == 1);
    serve_first_executor(&at); /* with one thread */
    KIT_UNTIL(&at, kit_is_gone(early));
    assert_int_equal(count_fork_servers(&at, &late), 1);
    assert_int_not_equal(late, early);
    kit_close(&at);
}

GY_TEST(what_nobody_wants_goes)
{
    static kit_scene at;
    pid_t early = 0, late = 0, children[64];
    kit_open(&at, false);
    kit_daemon_start(&at, 0, "");
    job_is_manager(&at, NULL);
    order_manager(&at, 1);
    KIT_UNTIL(&at, count_fork_servers(&at, &early) == 1);
    /* If it is killed before it is needed, the order starts a new one. What is killed here is
     * its reaper; the daemon adopts the fork server, which ends, too. */
    KIT_UNTIL(&at, list_children(early, children) == 1);
    assert_int_equal(kill(early, SIGKILL), 0);
    KIT_UNTIL(&at, kit_is_gone(early) && kit_is_gone(children[0]));
    assert_int_equal(count_fork_servers(&at, &late), 0);
    end_manager(&at, 2);
    order_manager(&at, 3);
    KIT_UNTIL(&at, count_fork_servers(&at, &early) == 1);
    end_manager(&at, 4); /* and it ends with the manager */
    KIT_UNTIL(&at, kit_is_gone(early));
    assert_int_equal(count_fork_servers(&at, &late), 0);
    order_manager(&at, 5); /* and with its daemon, in order or killed */
    KIT_UNTIL(&at, count_fork_servers(&at, &early) == 1);
    assert_int_equal(kit_daemon_end(&at, 0, SIGTERM), 0);
    assert_true(kit_is_gone(early));
    kit_daemon_start(&at, 0, "");
    order_manager(&at, 6);
    KIT_UNTIL(&at, count_fork_servers(&at, &early) == 1);
    kit_daemon_end(&at, 0, SIGKILL);
    KIT_UNTIL(&at, kit_is_gone(early));
    kit_close(&at);
}

GY_TEST(there_is_one_a_slot)
{
    static kit_scene at;
    pid_t last = 0;
    kit_open(&at, false);
    kit_daemon_start(&at, 0, "");
    job_is_manager(&at, NULL);
    for (int i = 0; i <= SLOTS; i++) {
        at.job.low++;
        order_manager(&at, 1);
        wait_for_told(&at);
    }
    /* Whoever gets an answer now, all earlier messages have been handled. */
    kit_manager_open(&at, 0, at.job, 1);
    kit_attach(&at, &at.managers[0], 0, GY_OK);
    KIT_UNTIL(&at, count_fork_servers(&at, &last) == SLOTS);
    kit_close(&at);
}

GY_TEST(who_is_no_manager_runs_once)
{
    static kit_scene at;
    char path[128], script[128], line[768], text[64] = "";
    kit_open(&at, false);
    kit_daemon_start(&at, 0, "");
    snprintf(path, sizeof(path), "%s/out", at.folder);
    snprintf(script, sizeof(script), "%s/script", at.folder);
    snprintf(line, sizeof(line),
             "echo '#!/bin/sh' >%s; echo 'echo once >>%s; echo nonsense "
             ">${GYRE_TICKET%%/*}/request' >>%s; chmod 755 %s",
             script, path, script, script);
    assert_int_equal(gy_test_shell(line, text, sizeof(text)), 0);
    kit_job_is(&at, &(kit_program){.arguments = {script}});
    order_manager(&at, 1);
    KIT_UNTIL(&at, at.ends == 1);
    assert_int_equal(at.end_status, GY_OK);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(file, text, sizeof(text)), 5);
    close(file);
    assert_int_equal(kit_daemon_end(&at, 0, SIGTERM), 0);
    kit_close(&at);
}

int main(void)
{
    if (gy_worker_socket() < 0 && getenv(GY_TICKET_VARIABLE) != NULL) {
        return be_manager();
    }
    HOST_TEST_SERVE();
    return GY_TESTS_RUN(NULL, NULL);
}
