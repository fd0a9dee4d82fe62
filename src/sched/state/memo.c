/* Outputs of earlier jobs, indexed by key. */
#include "sched/state/state.h"

/* The first of several with one key is the one that is recalled. */
static gy_status add(gy_manager *manager, const gy_sched_memo *memo)
{
    const uint32_t row = (uint32_t)manager->memo_count;
    if (gy_index_find(&manager->memo_index, memo->key) == GY_NONE) {
        GY_TRY(gy_index_put(&manager->memo_index, memo->key, row));
    }
    manager->memos[row] = *memo;
    manager->memo_count++;
    return GY_OK;
}

gy_status gy_manager_remember(gy_manager *manager, const gy_sched_memo *memos, size_t count)
{
    GY_ASSERT(manager->phase == PHASE_NEW);
    GY_TRY(GY_GROW("manager.memo", manager->memos, manager->memo_capacity,
                   manager->memo_count + count));
    for (size_t i = 0; i < count; i++) {
        gy_sched_memo copy = memos[i];
        const uint8_t *kept = gy_manager_copy_report(manager, copy.report, copy.report_bytes);
        if (manager->status < 0) {
            return manager->status;
        }
        copy.report = kept != NULL ? kept + sizeof(uint32_t) : NULL;
        GY_TRY(add(manager, &copy));
    }
    return GY_OK;
}

const gy_sched_memo *gy_manager_recall(const gy_manager *manager, uint32_t task, gy_key key)
{
    const task_row *row = &manager->rows[task];
    bool may_recall = row->determinism != GY_OUTPUT_INDETERMINATE &&
                      (row->flags & GY_TASK_NO_MEMO) == 0 &&
                      ((row->epoch == 0 && (row->marks & MARK_CONTENT) == 0) ||
                       GY_PLANTED(MEMO_AGAIN)); /* not again after a loss */
    const uint32_t memo = may_recall ? gy_index_find(&manager->memo_index, key) : GY_NONE;
    return memo != GY_NONE ? &manager->memos[memo] : NULL;
}

void gy_manager_memo_free(gy_manager *manager)
{
    gy_free(manager->memos);
    gy_index_free(&manager->memo_index);
}
