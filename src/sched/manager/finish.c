/* Ends a job in an order that survives a crash at any point: sync the final data under their
 * final names; sync the journal, which then records this and every earlier commit; create the
 * manifest exclusively; write the end to the journal. */
#include "sched/manager/manager_priv.h"

static void write_end(gy_manager *manager)
{
    manager->phase = PHASE_ENDING;
    gy_manager_write_end(manager, GY_OK, "");
    gy_manager_sync(manager);
    manager->awaited = manager->position;
}

void gy_manager_finish(gy_manager *manager)
{
    bool is_whole = manager->phase == PHASE_RUNNING &&
                    manager->committed_count == manager->task_count &&
                    manager->asked_count == 0 && manager->hold_count == 0;
    /* Final data may lie on hosts whose state is not known yet. */
    bool is_there = manager->hosts.expected == 0 || manager->is_saved ||
                    manager->final_count == 0 || GY_PLANTED(SAVED_BLIND);
    if (!is_whole || !is_there) {
        return;
    }
    if (manager->final_count == 0) {
        write_end(manager);
        return;
    }
    if (manager->is_saved || GY_PLANTED(PUBLISH_FIRST)) { /* by the previous manager */
        manager->phase = PHASE_PUBLISHING;
        gy_manager_emit(manager, GY_EFFECT_PUBLISH);
        return;
    }
    manager->phase = PHASE_SAVING;
    gy_manager_emit(manager, GY_EFFECT_SAVE);
}

void gy_manager_synced(gy_manager *manager, uint64_t position)
{
    manager->synced = GY_MAX(manager->synced, position);
    gy_manager_release(manager, position);
    if (position < manager->awaited) {
        return;
    }
    if (manager->phase == PHASE_STARTING) {
        manager->phase = PHASE_RUNNING;
    } else if (manager->phase == PHASE_SAVED) {
        manager->phase = PHASE_PUBLISHING;
        gy_manager_emit(manager, GY_EFFECT_PUBLISH);
    } else if (manager->phase == PHASE_ENDING) {
        gy_manager_end(manager, GY_OK, "");
    }
}

void gy_manager_saved(gy_manager *manager, const gy_sched_event *event)
{
    if (manager->phase != PHASE_SAVING) {
        return;
    }
    if (event->cause == GY_CAUSE_LOST_INPUT) {
        gy_manager_lost(manager, &event->id, event->reason);
    }
    if (manager->phase != PHASE_SAVING) {
        return; /* it was lost too often */
    }
    if (manager->committed_count < manager->task_count || event->cause == GY_CAUSE_LOST_INPUT) {
        manager->phase = PHASE_RUNNING; /* save again once all outputs are committed again */
        return;
    }
    if (event->cause != GY_CAUSE_NONE) {
        gy_manager_end(manager, GY_IO,
                       gy_manager_text(manager, "the output could not be saved: %s",
                                       event->reason != NULL ? event->reason : "no reason"));
        return;
    }
    manager->phase = PHASE_SAVED;
    gy_manager_write_saved(manager);
    gy_manager_sync(manager);
    manager->awaited = manager->position;
}

void gy_manager_published(gy_manager *manager, const gy_sched_event *event)
{
    if (manager->phase != PHASE_PUBLISHING) {
        return;
    }
    if (event->cause == GY_CAUSE_LOST_INPUT && manager->is_saved) {
        /* The previous manager failed after saving and removed the data. */
        manager->is_saved = false;
        manager->phase = PHASE_RUNNING;
        gy_manager_finish(manager);
        return;
    }
    if (event->cause != GY_CAUSE_NONE) {
        gy_manager_end(manager, GY_IO,
                       gy_manager_text(manager, "the output could not be published: %s",
                                       event->reason != NULL ? event->reason : "no reason"));
        return;
    }
    write_end(manager);
}
