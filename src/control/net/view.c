/* Checks the status of jobs that managers send for display. */
#include "control/net/net.h"

gy_status gy_net_check_view(const Gy__Cluster__View *view)
{
    GY_TRY(gy_net_check_job(view->job, view->epoch));
    if (view->n_stages > GY_NET_VIEW_STAGES || view->n_slow > GY_NET_VIEW_ROWS ||
        view->n_notes > GY_NET_VIEW_ROWS || view->n_counters > GY_NET_VIEW_ROWS) {
        return gy_fail(GY_FORMAT, "a view of %zu stages, %zu runs, %zu notes, %zu counters",
                       view->n_stages, view->n_slow, view->n_notes, view->n_counters);
    }
    for (size_t i = 0; i < view->n_stages; i++) {
        const Gy__Cluster__ViewStage *stage = view->stages[i];
        GY_TRY(gy_net_check_text(stage->name, GY_NET_VIEW_TEXT, "a stage's name"));
        for (size_t k = 0; k < stage->n_reads; k++) {
            if (k >= view->n_stages || stage->reads[k] >= view->n_stages) {
                return gy_fail(GY_FORMAT, "stage %zu reads what is none of %zu stages", i,
                               view->n_stages);
            }
        }
    }
    for (size_t i = 0; i < view->n_slow; i++) {
        GY_TRY(gy_net_check_text(view->slow[i]->host, GY_NET_VIEW_TEXT, "a host's name"));
        if (view->slow[i]->stage >= view->n_stages) {
            return gy_fail(GY_FORMAT, "a run is of none of %zu stages", view->n_stages);
        }
    }
    for (size_t i = 0; i < view->n_notes; i++) {
        GY_TRY(gy_net_check_text(view->notes[i]->text, GY_NET_VIEW_TEXT, "a note"));
    }
    for (size_t i = 0; i < view->n_counters; i++) {
        GY_TRY(
            gy_net_check_text(view->counters[i]->name, GY_NET_VIEW_TEXT, "a counter's name"));
    }
    return GY_OK;
}
