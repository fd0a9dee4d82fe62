/* The driver's loop. */
#include "base/signals.h"
#include "driver/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 256 };
static const int64_t tick_every_ns = 100000000;
static const int64_t flush_after_ns = 5000000;
/* Time for the machine to end after a signal. */
static const int64_t last_after_ns = 10000000000;

void gy_driver_kill(gy_driver *driver, gy_status status)
{
    if (driver->is_killed) {
        return;
    }
    driver->is_killed = true;
    driver->last_ns = gy_now_ns(driver->env) + last_after_ns;
    driver->killed_status = status;
    gy_error why;
    gy_error_take(&why, status);
    gy_driver_step(driver, &(gy_sched_event){.kind = GY_EVENT_KILL, .reason = why.text});
}

static void handle_signals(gy_driver *driver, int signals)
{
    int count = gy_signals_count(signals);
    const char *name = sigabbrev_np(gy_signals_last());
    if (count > 0 && !driver->is_killed) {
        gy_driver_kill(driver, gy_fail(GY_CANCELLED, "the job was ended by SIG%s",
                                       name != NULL ? name : "?"));
        count--;
    }
    if (count > 0) {
        driver->is_hard = true;
        gy_driver_fail(driver, gy_fail(GY_CANCELLED, "the job was ended at once by SIG%s",
                                       name != NULL ? name : "?"));
    }
}

/* The maximum duration of the next wait. */
static int wait_ms(const gy_driver *driver)
{
    int64_t now_ns = gy_now_ns(driver->env);
    int64_t until_ns = GY_MIN(GY_MIN(driver->timer_ns, driver->tick_ns), driver->publish_ns);
    if (driver->executor->next_ns != NULL) {
        until_ns = GY_MIN(until_ns, driver->executor->next_ns(driver));
    }
    int64_t since_ns = 0;
    if (gy_journal_is_waiting(driver->folder.journal, &since_ns)) {
        until_ns = GY_MIN(until_ns, since_ns + flush_after_ns);
    }
    until_ns =
        GY_MIN(until_ns, driver->options->deadline.at_ns > 0 ? driver->options->deadline.at_ns
                                                             : INT64_MAX);
    if (driver->is_killed) {
        until_ns = GY_MAX(until_ns, now_ns + 1000000);
    }
    return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns + 999999) / 1000000);
}

/* Handle all messages. True: all that had arrived are handled. */
static bool handle_all(gy_driver *driver, int signals)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(driver->epoll, events, EVENTS, wait_ms(driver));
    gy_driver_watch(driver);
    for (int i = 0; i < count && !driver->has_ended; i++) {
        uint64_t name = events[i].data.u64;
        if ((name & 3) == GY_EPOLL_SIGNALS) {
            handle_signals(driver, signals);
        } else if (driver->executor->ready != NULL) {
            driver->executor->ready(driver, name, events[i].events);
        }
    }
    if (driver->executor->turn != NULL) {
        driver->executor->turn(driver);
    }
    return count < EVENTS;
}

static void check_clock(gy_driver *driver)
{
    int64_t now_ns = gy_now_ns(driver->env);
    int64_t deadline_ns = driver->options->deadline.at_ns;
    if (now_ns >= driver->timer_ns) {
        driver->timer_ns = INT64_MAX;
        gy_driver_step(driver, &(gy_sched_event){.kind = GY_EVENT_TIMER, .now_ns = now_ns});
    }
    if (now_ns >= driver->tick_ns) {
        driver->tick_ns = now_ns + tick_every_ns;
        gy_driver_processes_check(driver, now_ns);
        gy_folder_try_lock(&driver->folder);
        if (driver->executor->tick != NULL) {
            driver->executor->tick(driver, now_ns);
        }
        if (driver->ops->tick != NULL) {
            driver->ops->tick(driver->ops->arg, driver->manager);
        }
    }
    if (now_ns >= driver->publish_ns) {
        gy_driver_publish(driver);
    }
    if (deadline_ns > 0 && now_ns >= deadline_ns && !driver->is_killed) {
        gy_driver_kill(driver, gy_fail(GY_TIMEOUT, "the job has not ended by its deadline"));
    }
    if (driver->is_killed && now_ns >= driver->last_ns) {
        gy_driver_fail(driver, driver->killed_status);
    }
}

/* Errands cause steps, and steps errands. Messages to processes are sent before a sync, so that
 * the processes work meanwhile. */
static void do_all(gy_driver *driver)
{
    do {
        gy_driver_errands_do(driver);
        if (driver->executor->settle != NULL) {
            driver->executor->settle(driver);
        }
        gy_driver_processes_send(driver);
    } while (gy_driver_errands_sync(driver));
}

static void flush_journal(gy_driver *driver)
{
    gy_journal *journal = driver->folder.journal;
    int64_t since_ns = 0;
    if (driver->is_journal_lost || !gy_journal_is_waiting(journal, &since_ns) ||
        gy_now_ns(driver->env) - since_ns < flush_after_ns) {
        return;
    }
    if (gy_journal_flush(journal) < 0) {
        driver->is_journal_lost = true;
        gy_driver_step(driver, &(gy_sched_event){.kind = GY_EVENT_JOURNAL_FAILED,
                                                 .reason = gy_error_text()});
    }
}

static void run(gy_driver *driver, int signals)
{
    gy_driver_step(driver, &(gy_sched_event){.kind = GY_EVENT_BEGIN});
    do_all(driver);
    while (!driver->has_ended) {
        /* Handle waiting messages before judging silence: a sync may have taken long. */
        if (handle_all(driver, signals)) {
            check_clock(driver);
        }
        do_all(driver);
        flush_journal(driver);
    }
}

static gy_status open_driver(gy_driver *driver, int signals)
{
    const gy_driver_options *options = driver->options;
    driver->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = GY_EPOLL_SIGNALS}};
    if (driver->epoll < 0 || epoll_ctl(driver->epoll, EPOLL_CTL_ADD, signals, &event) != 0) {
        return gy_fail(GY_LIMIT, "cannot wait for events: %s", strerror(errno));
    }
    GY_TRY(gy_folder_open(&driver->folder, driver->env, options->folder, options->epoch > 0));
    GY_TRY(gy_driver_processes_open(driver));
    /* Start this first: the fork server loads the program, or connections are made, while the
     * journal is read. */
    GY_TRY(driver->executor->open(driver));
    GY_TRY(gy_folder_replay(&driver->folder, options->epoch, options->journal, options->owner,
                            driver->manager));
    if (driver->ops->began != NULL) {
        GY_TRY(driver->ops->began(driver->ops->arg));
    }
    return driver->executor->begin != NULL ? driver->executor->begin(driver) : GY_OK;
}

/* Write the end of the journal. A failed job has not synced it, so another epoch may have begun
 * unnoticed. */
static void end_journal(gy_driver *driver)
{
    gy_journal *journal = driver->folder.journal;
    if (journal != NULL) {
        /* Retain the journal of a failed job with epochs, since another manager may have to
         * resume it elsewhere. */
        const bool is_left = driver->end.status < 0 && gy_journal_epoch(journal) > 0;
        if (driver->has_ended && !driver->is_journal_lost) {
            const gy_status last =
                is_left ? gy_journal_sync(journal) : gy_journal_flush(journal);
            if (last == GY_STATE) {
                gy_error_take(&driver->end, last); /* takes precedence over any other failure */
            } else if (last < 0) {
                gy_driver_fail(driver, GY_IO);
            }
        }
        if (driver->end.status < 0 && !gy_journal_is_over(journal) &&
            gy_journal_check(journal) == GY_STATE) {
            gy_error_take(&driver->end, GY_STATE);
        }
        driver->is_over = driver->is_over || gy_journal_is_over(journal);
    }
    if (driver->is_over && driver->ops->over != NULL) {
        driver->ops->over(driver->ops->arg);
    }
}

static gy_status close_driver(gy_driver *driver)
{
    end_journal(driver);
    driver->executor->close(driver, driver->is_hard);
    gy_driver_processes_free(driver);
    gy_folder_close(&driver->folder);
    gy_driver_errands_free(driver);
    gy_free(driver->effects.items);
    gy_text_free(&driver->message);
    gy_free(driver->place.needs);
    if (driver->epoll >= 0) {
        close(driver->epoll);
    }
    if (driver->end.status < 0) {
        return gy_error_raise(&driver->end);
    }
    return GY_OK;
}

gy_status gy_driver_run(gy_env *env, gy_manager *manager, const gy_driver_options *options)
{
    int signals = -1;
    GY_ASSERT(options->folder != NULL && options->ops != NULL && options->ops->encode != NULL);
    if (options->processes < 1 || options->processes > 4096 || options->threads < 0 ||
        options->threads > 1024) {
        return gy_fail(GY_ARG, "%d processes of %d threads: expected 1 to 4096, and 0 to 1024",
                       options->processes, options->threads);
    }
    GY_TRY(gy_signals_open(&signals));
    gy_driver driver = {.env = env,
                        .manager = manager,
                        .options = options,
                        .ops = options->ops,
                        .executor =
                            options->ticket != NULL ? &gy_executor_cluster : &gy_executor_local,
                        .process_count = (uint32_t)options->processes,
                        .threads = (uint32_t)GY_MAX(options->threads, 1),
                        .folder = {.env = env, .lock = -1},
                        .epoll = -1,
                        .supervisor = {.socket = -1, .boards_file = -1},
                        .timer_ns = INT64_MAX,
                        .tick_ns = gy_now_ns(env) + tick_every_ns,
                        .publish_ns = INT64_MAX};
    gy_status status = open_driver(&driver, signals);
    if (status < 0) {
        driver.is_hard = true;
        driver.is_over = status == GY_STATE && options->epoch > 0;
        gy_driver_fail(&driver, status);
    } else {
        run(&driver, signals);
    }
    status = close_driver(&driver);
    gy_signals_close(signals);
    return status;
}
