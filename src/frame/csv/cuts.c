/* Cuts: one pass over the bytes says where the rows of each begin. */
#include "frame/csv/csv_priv.h"

enum { ROW_FOLLOWS = 1 }; /* the next cut begins with a row */

typedef struct cut_look {
    gy_csv_bytes *bytes;
    gy_way way;
    size_t cut_bytes;
    gy_csv_cut *cuts;
    gy_mutex lock;
    GY_GUARDED(lock) gy_error error; /* of the first cut that failed */
    GY_GUARDED(lock) int64_t failed;
} cut_look;

static gy_status look(const cut_look *looking, gy_csv_window *window, int64_t index)
{
    const size_t size = looking->cut_bytes;
    window->offset = (uint64_t)index * size;
    window->size_bytes = 0;
    window->is_end = false;
    GY_TRY(gy_csv_fill(looking->bytes, window, size + 1)); /* a LF behind a CR */
    const gy_text_view text = {window->data, GY_MIN(window->size_bytes, size)};
    gy_csv_look(looking->way, text, window->data[text.size_bytes], &looking->cuts[index]);
    return GY_OK;
}

static void look_at_cuts(void *arg, int64_t begin, int64_t end)
{
    cut_look *looking = arg;
    gy_csv_window window = {.data = NULL};
    for (int64_t i = begin; i < end; i++) {
        const gy_status status = look(looking, &window, i);
        if (status < 0) {
            gy_mutex_lock(&looking->lock);
            if (looking->failed < 0 || i < looking->failed) {
                gy_error_take(&looking->error, status);
                looking->failed = i;
            }
            gy_mutex_unlock(&looking->lock);
            break;
        }
    }
    gy_csv_window_fini(&window);
}

/* The state that each cut begins in, then from behind where its rows do. */
static gy_status find_begins(const cut_look *looking, int64_t count)
{
    gy_csv_cut *cuts = looking->cuts;
    uint64_t last_quote = 0;
    bool is_inside = false;
    for (int64_t i = 0; i < count; i++) {
        gy_csv_cut *cut = &cuts[i];
        const uint64_t base = (uint64_t)i * looking->cut_bytes;
        const bool begins_row = i == 0 || cuts[i - 1].begin == ROW_FOLLOWS;
        const uint64_t first = cut->first[is_inside];
        last_quote = cut->last_quote != UINT64_MAX ? base + cut->last_quote : last_quote;
        const bool ends_row = cut->ends_row[is_inside];
        is_inside = is_inside != cut->is_odd;
        const uint64_t found = begins_row            ? base
                               : first != UINT64_MAX ? base + first
                                                     : UINT64_MAX;
        cut->first[0] = found;
        cut->begin = ends_row ? ROW_FOLLOWS : 0; /* until the pass from behind */
    }
    if (is_inside) {
        gy_csv_window window = {.offset = last_quote};
        gy_status status = gy_csv_fill(looking->bytes, &window, 1);
        uint64_t line = 0;
        status = status == GY_OK ? gy_csv_line(looking->bytes, &window, 0, &line) : status;
        gy_csv_window_fini(&window);
        return status < 0 ? status
                          : gy_fail(GY_FORMAT, "%s:%llu: a quote that is not closed",
                                    looking->bytes->name, (unsigned long long)line);
    }
    cuts[count] = (gy_csv_cut){.begin = looking->bytes->size_bytes};
    for (int64_t i = count - 1; i >= 0; i--) {
        cuts[i].begin = GY_MIN(cuts[i].first[0], cuts[i + 1].begin);
    }
    return GY_OK;
}

gy_status gy_csv_cuts_find(gy_csv_bytes *bytes, gy_way way, size_t cut_bytes, gy_engine *engine,
                           gy_csv_cut *cuts)
{
    GY_ASSERT(!bytes->is_stream && (cut_bytes & (cut_bytes - 1)) == 0);
    const int64_t count = (int64_t)((bytes->size_bytes + cut_bytes - 1) / cut_bytes);
    cut_look looking = {
        .bytes = bytes, .way = way, .cut_bytes = cut_bytes, .cuts = cuts, .failed = -1};
    gy_mutex_init(&looking.lock, 1);
    gy_parallel_for(engine, count, 4, look_at_cuts, &looking);
    gy_mutex_fini(&looking.lock);
    return looking.failed >= 0 ? gy_error_raise(&looking.error) : find_begins(&looking, count);
}
