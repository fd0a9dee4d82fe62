/* Carries out the machine's effects, at once or later as errands. */
#include "driver/loop.h"

#include <string.h>

void gy_driver_fail(gy_driver *driver, gy_status status)
{
    if (!driver->has_ended) {
        driver->has_ended = true;
        gy_error_take(&driver->end, status);
    }
}

/* ---- errands ---- */

static void add_errand(gy_driver *driver, const gy_errand *errand)
{
    if (driver->errand_head == driver->errand_count) {
        driver->errand_head = driver->errand_count = 0;
    }
    gy_status status = GY_GROW("driver.errand", driver->errands, driver->errand_room,
                               driver->errand_count + 1);
    if (status < 0) {
        gy_free(errand->reason);
        gy_driver_fail(driver, status);
        return;
    }
    driver->errands[driver->errand_count++] = *errand;
}

static void add_effect(gy_driver *driver, const gy_effect *effect, char *reason)
{
    add_errand(driver, &(gy_errand){.kind = effect->kind,
                                    .process = effect->process,
                                    .generation = effect->generation,
                                    .stage = effect->stage,
                                    .member = effect->member,
                                    .id = effect->id,
                                    .reason = reason});
}

void gy_errand_failed(gy_driver *driver, const gy_effect *effect)
{
    add_effect(driver, effect, gy_copy_text("driver.errand", gy_error_text()));
}

/* ---- effects ---- */

gy_status gy_driver_place_add(gy_driver_place *place, const gy_driver_need *need)
{
    GY_TRY(GY_GROW("driver.needs", place->needs, place->room, place->count + 1));
    place->needs[place->count++] = *need;
    return GY_OK;
}

static void send_start(gy_driver *driver, const gy_effect *effect)
{
    gy_process *process = gy_process_get(driver, effect->process, effect->generation);
    if (process == NULL) { /* it has died, and the machine will be told soon */
        return;
    }
    gy_text *message = &driver->message;
    message->size_bytes = 0;
    message->status = GY_OK;
    const gy_executor_ops *executor = driver->executor;
    gy_driver_place *place = executor->host != NULL ? &driver->place : NULL;
    if (place != NULL) {
        place->host = executor->host(driver, effect->process);
        place->count = 0;
    }
    gy_status status =
        driver->ops->encode(driver->ops->arg, driver->manager, effect, place, message);
    status = status < 0 ? status : message->status;
    if (status == GY_OK && message->size_bytes > GY_WIRE_BODY_BYTES) {
        status =
            gy_fail(GY_LIMIT, "its message of %zu bytes is too large", message->size_bytes);
    }
    if (status == GY_OK && place != NULL) {
        status = executor->fetch(driver, process, effect, place);
    } else if (status == GY_OK) {
        gy_process_start(driver, process, effect);
    }
    if (status < 0) {
        gy_errand_failed(driver, effect);
    }
}

static void send_cancel(gy_driver *driver, const gy_effect *effect)
{
    gy_process *process = gy_process_get(driver, effect->process, effect->generation);
    if (process != NULL && driver->executor->unfetch != NULL &&
        driver->executor->unfetch(driver, effect)) {
        (void)gy_fail(GY_CANCELLED, "cancelled before it began");
        gy_errand_failed(driver, effect);
    } else if (process != NULL) {
        gy_wire_add(
            &process->out,
            &(gy_wire){.kind = GY_WIRE_CANCEL, .id = effect->id, .member = effect->member});
        gy_process_touch(driver, process);
    }
}

static void append(gy_driver *driver, const gy_effect *effect)
{
    if (!driver->is_journal_lost &&
        gy_journal_append(driver->folder.journal, effect->data, effect->size_bytes) < 0) {
        driver->is_journal_lost = true;
        gy_errand_failed(driver, effect);
    }
}

static void end(gy_driver *driver, const gy_effect *effect)
{
    gy_status status = effect->status;
    if (status < 0) {
        status = driver->is_killed && status == GY_CANCELLED ? driver->killed_status : status;
        status = gy_journal_is_over(driver->folder.journal) ? GY_STATE : status;
        (void)gy_fail(status, "%s", effect->reason != NULL ? effect->reason : "");
    }
    driver->has_ended = true;
    gy_error_take(&driver->end, status);
}

static void discard(gy_driver *driver, const gy_effect *effect)
{
    const gy_driver_ops *ops = driver->ops;
    if (driver->executor->discard == NULL) {
        ops->discard(ops->arg, driver->manager, effect, NULL);
        return;
    }
    gy_text names = {0};
    ops->discard(ops->arg, driver->manager, effect, &names);
    driver->executor->discard(driver, effect->host, &names);
    gy_text_free(&names);
}

static void tell(gy_driver *driver, const gy_effect *effect)
{
    const gy_driver_ops *ops = driver->ops;
    if (effect->kind == GY_EFFECT_COMMITTED && ops->committed != NULL) {
        ops->committed(ops->arg, effect);
    } else if (effect->kind == GY_EFFECT_DISCARD && ops->discard != NULL) {
        discard(driver, effect);
    } else if (effect->kind == GY_EFFECT_NOTE && ops->note != NULL) {
        ops->note(ops->arg, effect);
    }
}

static void begin(gy_driver *driver, const gy_effect *effect)
{
    switch (effect->kind) {
    case GY_EFFECT_START:
        send_start(driver, effect);
        break;
    case GY_EFFECT_APPEND:
        append(driver, effect);
        break;
    case GY_EFFECT_COMMITTED:
    case GY_EFFECT_DISCARD: /* each attempt ends with one of these, when no member runs any more
                             */
        gy_process_part(driver, &effect->id);
        tell(driver, effect);
        break;
    case GY_EFFECT_NOTE:
        tell(driver, effect);
        break;
    case GY_EFFECT_CANCEL:
        send_cancel(driver, effect);
        break;
    case GY_EFFECT_SPAWN:
        gy_process_spawn(driver, effect);
        break;
    case GY_EFFECT_KILL:
        gy_process_kill(driver, effect->process, effect->generation, NULL);
        if (driver->processes[effect->process].generation == effect->generation) {
            driver->processes[effect->process].is_silent = effect->is_silent;
        }
        break;
    case GY_EFFECT_SYNC:
        driver->is_sync_wanted = true;
        driver->sync_position = GY_MAX(driver->sync_position, effect->position);
        break;
    case GY_EFFECT_TIMER:
        driver->timer_ns = GY_MIN(driver->timer_ns, effect->at_ns);
        break;
    case GY_EFFECT_AVOID:
        if (driver->executor->avoid != NULL) {
            driver->executor->avoid(driver, effect->host, effect->reason);
        }
        break;
    case GY_EFFECT_GROW:
    case GY_EFFECT_SAVE:
    case GY_EFFECT_PUBLISH:
        add_effect(driver, effect, NULL);
        break;
    case GY_EFFECT_END:
        end(driver, effect);
        break;
    }
}

void gy_driver_step(gy_driver *driver, gy_sched_event *event)
{
    if (driver->has_ended) {
        return;
    }
    if (event->now_ns == 0) {
        event->now_ns = gy_now_ns(driver->env);
    }
    gy_status status = gy_manager_step(driver->manager, event, &driver->effects);
    if (status < 0) {
        gy_driver_fail(driver, status);
        return;
    }
    for (size_t i = 0; i < driver->effects.count && !driver->has_ended; i++) {
        begin(driver, &driver->effects.items[i]);
    }
}

/* ---- doing errands ---- */

static const int64_t publish_every_ns = 5000000;

static void grow(gy_driver *driver, const gy_errand *errand)
{
    const gy_driver_ops *ops = driver->ops;
    const gy_growth *growth = NULL;
    gy_sched_event event = {.kind = GY_EVENT_GROWN, .stage = errand->stage};
    if (ops->grow != NULL && ops->grow(ops->arg, driver->manager, errand->stage, &growth) < 0) {
        event.cause = GY_CAUSE_FATAL;
        event.reason = gy_error_text();
        growth = NULL;
    }
    event.growth = growth;
    gy_driver_step(driver, &event);
}

/* Before an action only for the current manager: false if another one has begun, or the journal
 * cannot be checked. */
static bool may_go_on(gy_driver *driver)
{
    if (driver->is_journal_lost || gy_journal_check(driver->folder.journal) == GY_OK) {
        return true;
    }
    driver->is_journal_lost = true;
    gy_driver_step(
        driver, &(gy_sched_event){.kind = GY_EVENT_JOURNAL_FAILED, .reason = gy_error_text()});
    return false;
}

/*
 * On a cluster, check regularly that no other manager has begun. A manager in a minority
 * partition would not learn of it otherwise, and would keep the daemons on its side alive: a
 * task that must not run twice would run there, and again elsewhere after its lease seemed to
 * have expired. So it sends nothing to daemons if the last successful check is too old.
 */
void gy_driver_watch(gy_driver *driver)
{
    const int64_t now_ns = gy_now_ns(driver->env);
    if (driver->executor->watch_ns == NULL || driver->has_ended || driver->is_journal_lost ||
        !gy_manager_has_exact(driver->manager) ||
        now_ns - driver->looked_ns < driver->executor->watch_ns(driver)) {
        return;
    }
    driver->looked_ns = may_go_on(driver) ? now_ns : driver->looked_ns;
}

static void save(gy_driver *driver)
{
    const gy_driver_ops *ops = driver->ops;
    gy_sched_event event = {.kind = GY_EVENT_OUTPUT_SAFE};
    gy_attempt lost = {.task = GY_TASK_NONE};
    gy_status status = ops->save != NULL ? ops->save(ops->arg, driver->manager, &lost) : GY_OK;
    if (status == GY_NOTFOUND && lost.task != GY_TASK_NONE) {
        event.cause = GY_CAUSE_LOST_INPUT;
        event.id = lost;
        event.reason = gy_error_text();
    } else if (status < 0) {
        event.cause = GY_CAUSE_FATAL;
        event.reason = gy_error_text();
    }
    gy_driver_step(driver, &event);
}

void gy_driver_publish(gy_driver *driver)
{
    const gy_driver_ops *ops = driver->ops;
    gy_sched_event event = {.kind = GY_EVENT_PUBLISHED};
    gy_status status = GY_OK;
    driver->publish_ns = INT64_MAX;
    if (driver->has_ended || driver->is_killed) {
        return;
    }
    if (ops->publish != NULL) {
        status = ops->publish(ops->arg, driver->manager);
    }
    if (status == GY_AGAIN) {
        driver->publish_ns = gy_now_ns(driver->env) + publish_every_ns;
        return;
    }
    if (status < 0) {
        event.cause = status == GY_NOTFOUND ? GY_CAUSE_LOST_INPUT : GY_CAUSE_FATAL;
        event.reason = gy_error_text();
    }
    gy_driver_step(driver, &event);
}

static void save_or_publish(gy_driver *driver, gy_effect_kind kind)
{
    if (!may_go_on(driver)) {
        return;
    }
    if (kind == GY_EFFECT_SAVE) {
        save(driver);
    } else {
        gy_driver_publish(driver);
    }
}

/* Tell the machine that an effect could not be carried out. */
static void tell_failure(gy_driver *driver, const gy_errand *errand)
{
    gy_sched_event event = {.kind = GY_EVENT_JOURNAL_FAILED,
                            .process = errand->process,
                            .generation = errand->generation,
                            .id = errand->id,
                            .member = errand->member,
                            .reason =
                                errand->reason != NULL ? errand->reason : "out of memory"};
    if (errand->kind == GY_EFFECT_CANCEL) { /* the run had not begun */
        event.kind = GY_EVENT_FAILED;
        event.cause = GY_CAUSE_CANCELLED;
    } else if (errand->kind == GY_EFFECT_START) {
        event.kind = GY_EVENT_FAILED;
        event.cause = GY_CAUSE_OWN;
    } else if (errand->kind == GY_EFFECT_SPAWN) {
        event.kind = GY_EVENT_PROCESS_DOWN;
        event.cause = GY_CAUSE_CANCELLED;
    }
    gy_driver_step(driver, &event);
}

void gy_driver_errands_do(gy_driver *driver)
{
    while (driver->errand_head < driver->errand_count && !driver->has_ended) {
        gy_errand errand = driver->errands[driver->errand_head++];
        if (errand.kind == GY_EFFECT_GROW) {
            grow(driver, &errand);
        } else if (errand.kind == GY_EFFECT_SAVE || errand.kind == GY_EFFECT_PUBLISH) {
            save_or_publish(driver, errand.kind);
        } else {
            tell_failure(driver, &errand);
        }
        gy_free(errand.reason);
    }
}

bool gy_driver_errands_sync(gy_driver *driver)
{
    if (!driver->is_sync_wanted || driver->has_ended || driver->is_journal_lost) {
        return false;
    }
    driver->is_sync_wanted = false;
    gy_sched_event event = {.kind = GY_EVENT_SYNCED, .position = driver->sync_position};
    if (gy_journal_sync(driver->folder.journal) < 0) {
        driver->is_journal_lost = true;
        event = (gy_sched_event){.kind = GY_EVENT_JOURNAL_FAILED, .reason = gy_error_text()};
    }
    gy_driver_step(driver, &event);
    return true;
}

void gy_driver_errands_free(gy_driver *driver)
{
    for (; driver->errand_head < driver->errand_count; driver->errand_head++) {
        gy_free(driver->errands[driver->errand_head].reason);
    }
    gy_free(driver->errands);
}
