/*
 * Outputs of earlier jobs by key: a table with open addressing over what was told.
 */
#include "sched/state/state.h"

#include <string.h>

static gy_status index_all(gy_manager *manager)
{
    size_t slots = 16;
    while (slots < manager->memo_count * 2) {
        slots *= 2;
    }
    uint32_t *table = gy_alloc_zero("manager.memo", slots, sizeof(*table));
    if (table == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < manager->memo_count; i++) {
        size_t at = manager->memos[i].key.low & (slots - 1);
        while (table[at] != 0) {
            at = (at + 1) & (slots - 1);
        }
        table[at] = (uint32_t)i + 1;
    }
    gy_free(manager->memo_index);
    manager->memo_index = table;
    manager->memo_mask = slots - 1;
    return GY_OK;
}

gy_status gy_manager_remember(gy_manager *manager, const gy_sched_memo *memos, size_t count)
{
    GY_ASSERT(manager->phase == PHASE_NEW);
    GY_TRY(GY_GROW("manager.memo", manager->memos, manager->memo_capacity,
                   manager->memo_count + count));
    for (size_t i = 0; i < count; i++) {
        gy_sched_memo copy = memos[i];
        const uint8_t *kept = gy_manager_keep(manager, copy.report, copy.report_bytes);
        if (manager->status < 0) {
            return manager->status;
        }
        copy.report = kept != NULL ? kept + sizeof(uint32_t) : NULL;
        manager->memos[manager->memo_count++] = copy;
    }
    return index_all(manager);
}

const gy_sched_memo *gy_manager_recall(const gy_manager *manager, uint32_t task, gy_key key)
{
    const task_row *row = &manager->rows[task];
    bool may_recall = row->determinism != GY_OUTPUT_INDETERMINATE &&
                      (row->flags & GY_TASK_NO_MEMO) == 0 &&
                      ((row->epoch == 0 && (row->marks & MARK_CONTENT) == 0) ||
                       GY_PLANTED(MEMO_AGAIN)); /* else it was lost: not again */
    for (size_t at = key.low & manager->memo_mask; may_recall && manager->memo_index[at] != 0;
         at = (at + 1) & manager->memo_mask) {
        const gy_sched_memo *memo = &manager->memos[manager->memo_index[at] - 1];
        if (memcmp(&memo->key, &key, sizeof(key)) == 0) {
            return memo;
        }
    }
    return NULL;
}

void gy_manager_memo_free(gy_manager *manager)
{
    gy_free(manager->memos);
    gy_free(manager->memo_index);
}
