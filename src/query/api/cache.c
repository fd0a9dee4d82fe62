/* Caches: rows that are computed once, by the first run that reads them. */
#include "query/api/api_priv.h"

#include "query/rows/rows.h"

/* Of a session's memory, caches keep a quarter, and so do partitions; what they have more is in
 * files. */
enum { SHARE = 4 };

void gy_rows_table_drop(gy_rows_table_of *of)
{
    for (size_t i = 0; i < of->table.frame_count; i++) {
        gy_frame_drop(of->table.frames[i]);
    }
    gy_free(of->kept);
    gy_rows_file_free(of->table.rest);
    gy_schema_drop(of->table.schema);
    *of = (gy_rows_table_of){.older = of->older, .table = {.name = of->table.name}};
}

/* ---- Filling ---- */

gy_status gy_rows_store_add(const gy_rows_store *store, gy_rows_table_of *of, gy_schema *schema,
                            gy_frame *frame)
{
    const uint64_t bound = store->session->how.memory_bytes, bytes = gy_rows_bytes(frame);
    const gy_rows_limits limits = {.memory_bytes = bound,
                                   .spill_folder = store->session->how.scratch};
    gy_rows_file *rest = of->table.rest;
    gy_status status = GY_OK;
    of->table.rows += (double)gy_frame_rows(frame);
    of->table.bytes += (double)bytes;
    if (rest == NULL && (bound == 0 || *store->used + bytes <= bound / SHARE)) {
        status = GY_GROW("query.cache", of->kept, of->capacity, of->table.frame_count + 1);
        if (status == GY_OK) {
            *store->used += bytes;
            of->kept[of->table.frame_count++] = frame;
            of->table.frames = of->kept;
            return GY_OK;
        }
    } else if (rest == NULL) {
        status = gy_rows_file_new(schema, &limits, &rest);
        of->table.rest = status == GY_OK ? rest : NULL;
    }
    status = status == GY_OK ? gy_rows_file_add(rest, frame) : status;
    gy_frame_drop(frame);
    return status;
}

/* A cache that was not filled to its end is an empty one. */
static void empty(gy_rows_session *session, gy_rows_table_of *of)
{
    for (size_t i = 0; i < of->table.frame_count; i++) {
        session->cached_bytes -= gy_rows_bytes(of->table.frames[i]);
    }
    gy_rows_table_drop(of);
}

/* Plans that were made of it live on. */
static gy_status retire_schema(gy_rows_session *session, gy_rows_table_of *of)
{
    if (of->table.schema == NULL) {
        return GY_OK;
    }
    gy_rows_table_of *old = gy_rows_alloc(session, 1, sizeof(*old));
    if (old == NULL) {
        return GY_NOMEM;
    }
    *old = (gy_rows_table_of){.table = {.schema = of->table.schema}, .older = session->tables};
    session->tables = old;
    of->table.schema = NULL;
    return GY_OK;
}

static gy_status fill(gy_rows *asking, const gy_rows *rows, bool is_planning)
{
    gy_rows_session *session = rows->session;
    gy_rows_table_of *of = rows->cache;
    const gy_rows_store store = {.session = session, .used = &session->cached_bytes};
    gy_schema *schema = NULL;
    gy_frame_source source;
    gy_frame *frame = NULL;
    if (of->is_full || (is_planning && of->table.schema != NULL)) {
        return GY_OK;
    }
    GY_TRY(retire_schema(session, of));
    GY_TRY(gy_rows_ask(asking, rows->inputs[0]->select, is_planning, &schema, &source));
    of->table.schema = schema;
    gy_status status = source.next(source.arg, &frame);
    while (status == GY_OK) {
        status = gy_rows_store_add(&store, of, schema, frame);
        status = status == GY_OK ? source.next(source.arg, &frame) : status;
    }
    source.close(source.arg);
    if (status != GY_DONE) {
        empty(session, of);
        return status;
    }
    of->is_full = !is_planning;
    return GY_OK;
}

/* Inputs first; rows that stand in several calls once. */
static gy_status visit(gy_rows *asking, gy_rows *rows, bool is_planning)
{
    if (rows == NULL || rows->visit == rows->session->visits ||
        (rows->cache != NULL && rows->cache->is_full)) {
        return GY_OK;
    }
    rows->visit = rows->session->visits;
    GY_TRY(visit(asking, rows->inputs[0], is_planning));
    GY_TRY(visit(asking, rows->inputs[1], is_planning));
    return rows->cache != NULL ? fill(asking, rows, is_planning) : GY_OK;
}

gy_status gy_rows_fill_caches(gy_rows *rows, bool is_planning)
{
    rows->session->visits++;
    return visit(rows, rows, is_planning);
}

/* ---- The call ---- */

gy_rows *gy_rows_cache(gy_rows *rows)
{
    gy_rows_call call;
    gy_sql_select *select = NULL;
    if (rows->failure != NULL) {
        return gy_rows_fail(rows);
    }
    gy_rows_session *session = rows->session;
    gy_status status = gy_rows_begin(session, "gy_rows_cache", NULL, &call);
    gy_rows_table_of *of = gy_rows_alloc(session, 1, sizeof(*of));
    gy_sql_from *from = gy_rows_alloc(session, 1, sizeof(*from));
    select = gy_rows_select_new(&call);
    if (status == GY_OK && (of == NULL || from == NULL || select == NULL)) {
        status = GY_NOMEM;
    }
    status = status == GY_OK ? gy_rows_star(&call, select) : status;
    if (status == GY_OK) {
        *of = (gy_rows_table_of){.table = {.name = "cache"}, .older = session->tables};
        session->tables = of;
        *from = (gy_sql_from){.kind = GY_SQL_TABLE,
                              .place = call.place,
                              .name = {.text = of->table.name},
                              .given = &of->table};
        select->from = from;
    }
    gy_rows *made = gy_rows_end(&call, status, select, rows, NULL);
    if (made->failure == NULL) {
        made->cache = of;
    }
    return made;
}
