/* Goal: random chains of calls over random tables have the bytes of the statement that says the
 * same, with one worker and with two, in little memory, and as jobs of processes. */
#include "base/base.h"
#include "base/random.h"
#include "base/text.h"

#include "flow_main.h"

#include "gy_test.h"

#include <gyre/csv.h>
#include <gyre/query.h>
#include <gyre/rows.h>

#include <sys/stat.h>

/* ---- Tables ---- */

enum { TABLES = 3, COLUMNS = 8, JOINS_MAX = 3 };

static char folder[] = "/tmp/gyre-chains-XXXXXX";
static const char *const table_names[TABLES] = {"t0", "t1", "t2"};

static void path_of(int table, char path[256])
{
    snprintf(path, 256, "%s/%s.csv", folder, table_names[table]);
}

/* Columns a, b (integers), c (texts) and d (numbers); nulls, duplicates, a frequent key. */
static void write_table(int table, gy_random *random)
{
    static const char *const texts[] = {"x", "yy",         "\"a,\"\"b\"", "\"\"",
                                        "",  "\"li\nne\"", "z z"};
    char path[256];
    path_of(table, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("a,b,c,d\n7,7,text,0.25\n", file);
    for (uint64_t left = 10 + gy_random_below(random, 40); left > 0; left--) {
        const int key = gy_random_below(random, 3) == 0 ? 1 : (int)gy_random_below(random, 9);
        fprintf(file, "%d,", key);
        if (gy_random_below(random, 5) > 0) {
            fprintf(file, "%d", (int)gy_random_below(random, 40) - 20);
        }
        fprintf(file, ",%s,", texts[gy_random_below(random, GY_COUNT(texts))]);
        if (gy_random_below(random, 4) > 0) {
            fprintf(file, "%d.%d", (int)gy_random_below(random, 50),
                    (int)gy_random_below(random, 10));
        }
        fputs("\n", file);
    }
    assert_int_equal(fclose(file), 0);
}

/* ---- Chains ---- */

typedef enum type { INTEGER, TEXT, NUMBER } type;

typedef struct column {
    char name[16];
    type kind;
} column;

/* Rows, and the statement that says the same. */
typedef struct chain {
    gy_rows *rows;
    gy_text sql;
    column columns[COLUMNS];
    int count;
    bool is_sorted; /* by all columns */
} chain;

typedef struct maker {
    gy_random random;
    gy_rows_session *session;
    bool has_job; /* then no rows are in memory */
    bool has_cache;
    int joins, names;
} maker;

static int below(maker *in, int bound)
{
    return (int)gy_random_below(&in->random, (uint64_t)bound);
}

static const column *any(maker *in, const chain *of)
{
    return &of->columns[below(in, of->count)];
}

static void add_column(maker *in, chain *to, type kind)
{
    column *made = &to->columns[to->count++];
    assert_true(to->count <= COLUMNS);
    snprintf(made->name, sizeof(made->name), "n%d", ++in->names);
    made->kind = kind;
}

/* The statement becomes `before`, itself in parentheses, `behind`. */
static void wrap(chain *of, const char *before, const char *behind)
{
    gy_text made = {.data = NULL};
    gy_text_add(&made, "%s (%s) %s", before, gy_text_get(&of->sql), behind);
    gy_text_free(&of->sql);
    of->sql = made;
    of->is_sorted = false;
}

/* A condition on a column, whose name has a prefix. */
static void add_test(maker *in, const chain *of, const char *prefix, gy_text *out)
{
    static const char *const integers[] = {
        "> 1",          "% 3 = 1", "is null",           "between 0 and 5",
        "in (1, 2, 7)", "<> 1",    "is distinct from 1"};
    static const char *const texts[] = {"like '%y%'",  "= 'x'",          "> 'b'",
                                        "is not null", "in ('', 'z z')", "~ '^[a-y]'"};
    static const char *const numbers[] = {"< 20", ">= 2.5", "is null", "<> 0.25"};
    const column *on = any(in, of);
    const char *test = on->kind == INTEGER ? integers[below(in, GY_COUNT(integers))]
                       : on->kind == TEXT  ? texts[below(in, GY_COUNT(texts))]
                                           : numbers[below(in, GY_COUNT(numbers))];
    gy_text_add(out, "%s%s%s %s", below(in, 5) == 0 ? "not " : "", prefix, on->name, test);
}

static void add_condition(maker *in, const chain *of, const char *prefix, gy_text *out)
{
    add_test(in, of, prefix, out);
    for (int more = below(in, 3); more > 0; more--) {
        gy_text_add(out, "%s", below(in, 2) == 0 ? " and " : " or ");
        add_test(in, of, prefix, out);
    }
}

/* ---- Sources ---- */

static gy_rows *read_frames(gy_rows_session *session, const char *path)
{
    gy_csv *csv = NULL;
    gy_frame *frames[64];
    size_t count = 0;
    const gy_csv_options options = GY_OPTIONS(gy_csv_options, .cut_bytes = 256);
    assert_int_equal(gy_csv_open(path, &options, &csv), GY_OK);
    while (gy_csv_next(csv, &frames[count]) == GY_OK) {
        assert_true(++count < GY_COUNT(frames));
    }
    gy_rows *rows = gy_rows_frames(session, gy_csv_schema(csv), frames, count);
    for (size_t i = 0; i < count; i++) {
        gy_frame_drop(frames[i]);
    }
    gy_csv_close(csv);
    return rows;
}

static void begin(maker *in, chain *of)
{
    static const column columns[] = {
        {"a", INTEGER}, {"b", INTEGER}, {"c", TEXT}, {"d", NUMBER}};
    const int table = below(in, TABLES), from = below(in, 3);
    char path[256];
    path_of(table, path);
    *of = (chain){.count = GY_COUNT(columns)};
    memcpy(of->columns, columns, sizeof(columns));
    of->rows = from == 0 && !in->has_job ? read_frames(in->session, path)
               : from == 1               ? gy_rows_read(in->session, path, NULL)
                                         : gy_rows_table(in->session, table_names[table]);
    gy_text_add(&of->sql, "select * from %s", table_names[table]);
}

static void where(maker *in, chain *of)
{
    gy_text condition = {.data = NULL}, behind = {.data = NULL};
    const bool was_sorted = of->is_sorted;
    add_condition(in, of, "", &condition);
    gy_text_add(&behind, "q where %s", gy_text_get(&condition));
    of->rows = gy_rows_where(of->rows, gy_text_get(&condition));
    wrap(of, "select * from", gy_text_get(&behind));
    of->is_sorted = was_sorted; /* where keeps the order */
    gy_text_free(&condition);
    gy_text_free(&behind);
}

/* ---- Select and group ---- */

static type add_value(maker *in, const chain *of, gy_text *out)
{
    const column *one = any(in, of);
    const char *name = one->name;
    gy_text test = {.data = NULL};
    switch (below(in, 4)) {
    case 0:
        if (one->kind == INTEGER) {
            gy_text_add(out, "coalesce(%s %% 100, -1) + 1", name);
            return INTEGER;
        }
        gy_text_add(out, one->kind == TEXT ? "upper(%s) || '-'" : "%s", name);
        return one->kind;
    case 1:
        add_test(in, of, "", &test);
        gy_text_add(out, "case when %s then %s end", gy_text_get(&test), name);
        gy_text_free(&test);
        return one->kind;
    case 2:
        gy_text_add(out, one->kind == TEXT ? "length(%s)" : "%s is null and true", name);
        if (one->kind == TEXT) {
            return INTEGER;
        }
        gy_text_add(out, " or %s is null", name);
        gy_text_free(out);
        *out = (gy_text){.data = NULL};
        gy_text_add(out, "%s", name);
        return one->kind;
    default:
        gy_text_add(out, "%s", name);
        return one->kind;
    }
}

static void select_some(maker *in, chain *of)
{
    chain made = {.count = 0};
    gy_text list = {.data = NULL}, before = {.data = NULL};
    const int count = 1 + below(in, 4);
    for (int i = 0; i < count; i++) {
        gy_text value = {.data = NULL};
        add_column(in, &made, add_value(in, of, &value));
        gy_text_add(&list, "%s%s as %s", i > 0 ? ", " : "", gy_text_get(&value),
                    made.columns[i].name);
        gy_text_free(&value);
    }
    gy_text_add(&before, "select %s from", gy_text_get(&list));
    of->rows = gy_rows_select(of->rows, gy_text_get(&list));
    wrap(of, gy_text_get(&before), "q");
    memcpy(of->columns, made.columns, sizeof(made.columns));
    of->count = made.count;
    gy_text_free(&list);
    gy_text_free(&before);
}

static type add_aggregate(maker *in, const chain *of, gy_text *out)
{
    const column *one = any(in, of);
    switch (below(in, 5)) {
    case 0:
        gy_text_add(out, "count(*)");
        return INTEGER;
    case 1:
        gy_text_add(out, "count(distinct %s)", one->name);
        return INTEGER;
    case 2:
        gy_text_add(out, one->kind == INTEGER ? "sum(%s)" : "min(%s)", one->name);
        return one->kind == TEXT ? TEXT : NUMBER;
    case 3:
        gy_text_add(out, one->kind == INTEGER ? "avg(%s)" : "max(%s)", one->name);
        return one->kind == TEXT ? TEXT : NUMBER;
    default:
        gy_text_add(out, "max(%s)", one->name);
        return one->kind;
    }
}

static void group(maker *in, chain *of)
{
    chain made = {.count = 0};
    gy_text keys = {.data = NULL}, list = {.data = NULL}, before = {.data = NULL},
            behind = {.data = NULL};
    const int key_count = below(in, 3), count = key_count + 1 + below(in, 3);
    for (int i = 0; i < key_count; i++) {
        const column *key = any(in, of);
        gy_text_add(&keys, "%s%s", i > 0 ? ", " : "", key->name);
        add_column(in, &made, key->kind);
        gy_text_add(&list, "%s%s as %s", i > 0 ? ", " : "", key->name, made.columns[i].name);
    }
    for (int i = key_count; i < count; i++) {
        gy_text value = {.data = NULL};
        add_column(in, &made, add_aggregate(in, of, &value));
        gy_text_add(&list, "%s%s as %s", i > 0 ? ", " : "", gy_text_get(&value),
                    made.columns[i].name);
        gy_text_free(&value);
    }
    gy_text_add(&before, "select %s from", gy_text_get(&list));
    gy_text_add(&behind, key_count > 0 ? "q group by %s" : "q", gy_text_get(&keys));
    of->rows =
        gy_rows_group(of->rows, key_count > 0 ? gy_text_get(&keys) : NULL, gy_text_get(&list));
    wrap(of, gy_text_get(&before), gy_text_get(&behind));
    memcpy(of->columns, made.columns, sizeof(made.columns));
    of->count = made.count;
    gy_text_free(&keys);
    gy_text_free(&list);
    gy_text_free(&before);
    gy_text_free(&behind);
}

/* ---- Order, limits, distinct ---- */

/* Sorted by all columns, so that each prefix is the same whatever computes it. */
static void sort(maker *in, chain *of)
{
    static const char *const ways[] = {"", " desc", " nulls first", " desc nulls last"};
    gy_text keys = {.data = NULL}, behind = {.data = NULL};
    const int first = below(in, of->count);
    for (int i = 0; i < of->count; i++) {
        gy_text_add(&keys, "%s%s%s", i > 0 ? ", " : "",
                    of->columns[(first + i) % of->count].name, ways[below(in, 4)]);
    }
    gy_text_add(&behind, "q order by %s", gy_text_get(&keys));
    const int limit = below(in, 30), offset = below(in, 4);
    const char *const text = gy_text_get(&keys);
    switch (below(in, 5)) {
    case 0:
        of->rows = gy_rows_order_by(of->rows, text);
        break;
    case 1:
        of->rows = gy_rows_top(of->rows, text, limit);
        gy_text_add(&behind, " limit %d", limit);
        break;
    case 2:
        of->rows = gy_rows_limit(gy_rows_order_by(of->rows, text), limit, offset);
        gy_text_add(&behind, " limit %d offset %d", limit, offset);
        break;
    case 3:
        of->rows = gy_rows_take(gy_rows_skip(gy_rows_order_by(of->rows, text), offset), limit);
        gy_text_add(&behind, " limit %d offset %d", limit, offset);
        break;
    default:
        of->rows = gy_rows_skip(gy_rows_take(gy_rows_order_by(of->rows, text), limit), offset);
        gy_text_add(&behind, " limit %d offset %d", limit > offset ? limit - offset : 0,
                    offset);
        break;
    }
    wrap(of, "select * from", gy_text_get(&behind));
    of->is_sorted = true;
    gy_text_free(&keys);
    gy_text_free(&behind);
}

static void cache(maker *in, chain *of)
{
    in->has_cache = true;
    of->rows = gy_rows_cache(of->rows);
}

static void distinct(maker *in, chain *of)
{
    (void)in;
    of->rows = gy_rows_distinct(of->rows);
    wrap(of, "select distinct * from", "q");
}

/* ---- Two inputs ---- */

/* Another side: a table, perhaps filtered, or, at times, the chain itself. */
static void other_side(maker *in, const chain *of, chain *other)
{
    if (below(in, 6) == 0) {
        *other = *of;
        other->sql = (gy_text){.data = NULL};
        gy_text_add(&other->sql, "%s", gy_text_get(&of->sql));
        return;
    }
    begin(in, other);
    if (below(in, 2) == 0) {
        where(in, other);
    }
}

/* A pair of columns of one kind; false: there is none. */
static bool find_pair(maker *in, const chain *left, const chain *right, const column **a,
                      const column **b)
{
    for (int tries = 0; tries < 20; tries++) {
        *a = any(in, left);
        *b = any(in, right);
        if ((*a)->kind == (*b)->kind) {
            return true;
        }
    }
    return false;
}

static void join(maker *in, chain *of)
{
    static const char *const words[] = {"join", "left join", "right join", "full join"};
    chain other, made = {.count = 0};
    const column *a = NULL, *b = NULL;
    gy_text on = {.data = NULL}, list = {.data = NULL}, before = {.data = NULL},
            behind = {.data = NULL};
    if (in->joins == JOINS_MAX) {
        return;
    }
    other_side(in, of, &other);
    if (find_pair(in, of, &other, &a, &b)) {
        in->joins++;
        const gy_join_kind how = (gy_join_kind)below(in, 4);
        gy_text_add(&on, "l.%s = r.%s", a->name, b->name);
        if (how == GY_JOIN_INNER && below(in, 2) == 0) {
            gy_text_add(&on, " and (");
            add_test(in, &other, "r.", &on);
            gy_text_add(&on, ")");
        }
        for (int i = 0; i < 4; i++) {
            const bool is_left = below(in, 2) == 0;
            const column *one = any(in, is_left ? of : &other);
            add_column(in, &made, one->kind);
            gy_text_add(&list, "%s%s.%s as %s", i > 0 ? ", " : "", is_left ? "l" : "r",
                        one->name, made.columns[i].name);
        }
        gy_text_add(&before, "select %s from", gy_text_get(&list));
        gy_text_add(&behind, "l %s (%s) r on %s", words[how], gy_text_get(&other.sql),
                    gy_text_get(&on));
        of->rows =
            gy_rows_join(of->rows, other.rows, how, gy_text_get(&on), gy_text_get(&list));
        wrap(of, gy_text_get(&before), gy_text_get(&behind));
        memcpy(of->columns, made.columns, sizeof(made.columns));
        of->count = made.count;
    }
    gy_text_free(&other.sql);
    gy_text_free(&on);
    gy_text_free(&list);
    gy_text_free(&before);
    gy_text_free(&behind);
}

/* A semi join is an `in` here, an anti join a left join without a match. */
static void filter_join(maker *in, chain *of)
{
    chain other;
    const column *a = NULL, *b = NULL;
    gy_text on = {.data = NULL}, behind = {.data = NULL};
    other_side(in, of, &other);
    if (find_pair(in, of, &other, &a, &b)) {
        const bool is_semi = below(in, 2) == 0;
        gy_text_add(&on, "l.%s = r.%s", a->name, b->name);
        of->rows = gy_rows_join(of->rows, other.rows, is_semi ? GY_JOIN_SEMI : GY_JOIN_ANTI,
                                gy_text_get(&on), NULL);
        if (is_semi) {
            gy_text_add(&behind, "l where l.%s in (select %s from (%s) r)", a->name, b->name,
                        gy_text_get(&other.sql));
            wrap(of, "select * from", gy_text_get(&behind));
        } else {
            gy_text_add(&behind,
                        "l left join (select distinct %s as k, 1 as has from (%s) r) r on l.%s "
                        "= r.k where has is null",
                        b->name, gy_text_get(&other.sql), a->name);
            wrap(of, "select l.* from", gy_text_get(&behind));
        }
    }
    gy_text_free(&other.sql);
    gy_text_free(&on);
    gy_text_free(&behind);
}

static void set(maker *in, chain *of)
{
    static gy_rows *(*const calls[])(gy_rows *, gy_rows *) = {
        gy_rows_union,         gy_rows_union_all, gy_rows_intersect,
        gy_rows_intersect_all, gy_rows_except,    gy_rows_except_all};
    static const char *const words[] = {"union",         "union all", "intersect",
                                        "intersect all", "except",    "except all"};
    chain other;
    gy_text list[2] = {{.data = NULL}, {.data = NULL}}, before = {.data = NULL},
            behind = {.data = NULL};
    chain made = {.count = 0};
    const column *a = NULL, *b = NULL;
    other_side(in, of, &other);
    for (int i = 0; i < 2; i++) {
        if (find_pair(in, of, &other, &a, &b)) {
            add_column(in, &made, a->kind);
            const char *name = made.columns[made.count - 1].name;
            gy_text_add(&list[0], "%s%s as %s", made.count > 1 ? ", " : "", a->name, name);
            gy_text_add(&list[1], "%s%s as %s", made.count > 1 ? ", " : "", b->name, name);
        }
    }
    if (made.count > 0) {
        const int how = below(in, (int)GY_COUNT(words));
        of->rows = calls[how](gy_rows_select(of->rows, gy_text_get(&list[0])),
                              gy_rows_select(other.rows, gy_text_get(&list[1])));
        gy_text_add(&before, "select %s from", gy_text_get(&list[0]));
        gy_text_add(&behind, "q %s select %s from (%s) p", words[how], gy_text_get(&list[1]),
                    gy_text_get(&other.sql));
        wrap(of, gy_text_get(&before), gy_text_get(&behind));
        memcpy(of->columns, made.columns, sizeof(made.columns));
        of->count = made.count;
    }
    gy_text_free(&other.sql);
    gy_text_free(&list[0]);
    gy_text_free(&list[1]);
    gy_text_free(&before);
    gy_text_free(&behind);
}

static void make_chain(maker *in, chain *of)
{
    static void (*const steps[])(maker *, chain *) = {
        where, select_some, group, sort, distinct, cache, join, join, filter_join, set};
    begin(in, of);
    for (int left = 1 + below(in, 7); left > 0; left--) {
        steps[below(in, (int)GY_COUNT(steps))](in, of);
    }
    if (!of->is_sorted && below(in, 3) > 0) {
        sort(in, of);
    }
}

/* ---- Answers ---- */

static gy_status take_bytes(void *arg, const void *data, size_t size_bytes)
{
    gy_text_add_bytes(arg, data, size_bytes);
    return GY_OK;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Rows without an order, each as a line (a line end in a row parts it: both sides have it so).
 */
static void sort_lines(gy_text *text)
{
    gy_text sorted = {.data = NULL};
    char **lines = gy_alloc_zero("test", text->size_bytes + 1, sizeof(*lines));
    size_t count = 0;
    assert_non_null(lines);
    for (char *at = text->data; at != NULL && *at != '\0';) {
        char *end = strchr(at, '\n');
        lines[count++] = at;
        at = end != NULL ? end + 1 : NULL;
        if (end != NULL) {
            *end = '\0';
        }
    }
    qsort(lines, count, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < count; i++) {
        gy_text_add(&sorted, "%s\n", lines[i]);
    }
    gy_free(lines);
    gy_text_free(text);
    *text = sorted;
}

/* The answer as CSV; it is closed. */
static void print_all(gy_schema *schema, gy_frame_source *source, bool is_sorted, gy_text *out)
{
    gy_frame *frame = NULL;
    gy_status status = GY_OK;
    for (int i = 0; i < gy_schema_count(schema); i++) {
        gy_text_add(out, "%s%s", i > 0 ? "," : "", gy_schema_field(schema, i)->name);
    }
    gy_text_add(out, "\n");
    while ((status = source->next(source->arg, &frame)) == GY_OK) {
        const gy_csv_write_options rows =
            GY_OPTIONS(gy_csv_write_options, .has_no_header = true);
        assert_int_equal(gy_csv_write(frame, &rows, take_bytes, out), GY_OK);
        gy_frame_drop(frame);
    }
    assert_int_equal(status, GY_DONE);
    source->close(source->arg);
    gy_schema_drop(schema);
    if (!is_sorted) {
        sort_lines(out);
    }
}

static void answer_sql(const chain *of, gy_text *out)
{
    gy_query *query = NULL;
    gy_schema *schema = NULL;
    gy_frame_source source;
    const gy_query_options options = GY_OPTIONS(gy_query_options, .text = gy_text_get(&of->sql),
                                                .tables = folder, .workers = 1);
    gy_status status = gy_query_new(&options, &query);
    status = status == GY_OK ? gy_query_next(query, &schema, &source) : status;
    if (status != GY_OK) {
        fail_msg("%s\n%s", gy_text_get(&of->sql), gy_query_report(query));
    }
    print_all(schema, &source, of->is_sorted, out);
    gy_query_free(query);
}

static void answer_rows(const chain *of, gy_text *out)
{
    gy_schema *schema = NULL;
    gy_frame_source source;
    if (gy_rows_run(of->rows, &schema, &source) != GY_OK) {
        fail_msg("%s\n%s", gy_text_get(&of->sql), gy_rows_report(of->rows));
    }
    print_all(schema, &source, of->is_sorted, out);
}

static const gy_flow_options two_processes = {.processes = 2};

/* The chain of a seed in a session of its own; whether its rows and its statement say the
 * same. */
static void check_chain(uint64_t seed, const gy_rows_session_options *how, int64_t *rows)
{
    maker in = {.random = {.key = seed}, .has_job = how->job != NULL};
    chain of;
    gy_text wanted = {.data = NULL}, got = {.data = NULL};
    assert_int_equal(gy_rows_session_new(how, &in.session), GY_OK);
    make_chain(&in, &of);
    answer_sql(&of, &wanted);
    answer_rows(&of, &got);
    if (strcmp(gy_text_get(&wanted), gy_text_get(&got)) != 0) {
        char *plan = gy_rows_explain(of.rows);
        fail_msg("%s\nis answered by\n%s\nand the chain by\n%s\n%s", gy_text_get(&of.sql),
                 gy_text_get(&wanted), gy_text_get(&got), plan);
    }
    char *statistics = gy_rows_statistics(of.rows);
    assert_int_equal(strstr(statistics, "stage 0: ") != NULL, in.has_job && !in.has_cache);
    gy_string_free(statistics);
    for (const char *at = gy_text_get(&got); *at != '\0'; at++) {
        *rows += *at == '\n';
    }
    gy_text_free(&wanted);
    gy_text_free(&got);
    gy_text_free(&of.sql);
    gy_rows_session_free(in.session);
}

static int begin_tables(void **state)
{
    gy_random random = {.key = gy_test_seed()};
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < TABLES; i++) {
        write_table(i, &random);
    }
    return 0;
}

static int remove_tables(void **state)
{
    (void)state;
    for (int i = 0; i < TABLES; i++) {
        char path[256];
        path_of(i, path);
        unlink(path);
    }
    return rmdir(folder);
}

GY_TEST(chains_say_what_statements_say)
{
    const uint64_t seed = gy_test_seed();
    const long cases = gy_test_cases(150);
    int64_t rows = 0;
    for (long i = 0; i < cases; i++) {
        const gy_rows_session_options how =
            GY_OPTIONS(gy_rows_session_options, .tables = folder, .workers = 1 + (int)(i % 2),
                       .memory_bytes = i % 3 == 0 ? 4096 : 0, .scratch = folder);
        check_chain(seed + (uint64_t)i, &how, &rows);
    }
    assert_true(cases < 15 || rows > 5 * cases); /* not all of them are empty */
}

GY_TEST(chains_as_jobs_say_what_statements_say)
{
    const uint64_t seed = gy_test_seed() + 1000000;
    const long cases = gy_test_cases(16);
    int64_t rows = 0;
    for (long i = 0; i < cases; i++) {
        const gy_rows_session_options how =
            GY_OPTIONS(gy_rows_session_options, .tables = folder, .workers = 1,
                       .job = &two_processes, .flow = flow, .split_bytes = 256);
        check_chain(seed + (uint64_t)i, &how, &rows);
    }
    assert_true(cases < 8 || rows > cases);
}

static const gy_function functions[] = {GY_QUERY_VERTEX};

FLOW_TEST_MAIN((void)0, begin_tables, remove_tables)
