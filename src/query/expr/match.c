/* like, ilike and regular expressions. A call makes each pattern once, and one that comes from
 * rows as often as it changes. */
#include "query/expr/expr_priv.h"

#include <string.h>

enum { REGEX = GY_EXPR_REGEX, REPLACE = GY_EXPR_REPLACE, REGEX_ANY_CASE, LIKE, ILIKE };
enum { REPLACED_MAX = 256 << 20 /* bytes of a text with what was replaced */ };

struct gy_expr_pattern {
    gy_expr_pattern *next;
    const gy_expr *expr;
    char *text; /* the pattern, then the escape */
    size_t size;
    gy_like *like;
    gy_regex *regex;
};

static void forget(gy_expr_pattern *pattern)
{
    gy_like_free(pattern->like);
    gy_regex_free(pattern->regex);
    gy_free(pattern->text);
    pattern->like = NULL;
    pattern->regex = NULL;
    pattern->text = NULL;
}

void gy_expr_patterns_free(gy_expr_work *work)
{
    while (work->patterns != NULL) {
        gy_expr_pattern *at = work->patterns;
        work->patterns = at->next;
        forget(at);
        gy_free(at);
    }
}

/* The pattern with '\\' for its escape, which has no case. */
static gy_status plain_escapes(gy_expr_work *work, gy_text_view pattern, gy_text_view escape,
                               gy_text_view *out)
{
    char *made = gy_expr_text_memory(work, pattern.size_bytes * 2);
    size_t size = 0;
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (size_t at = 0; at < pattern.size_bytes;) {
        const bool is_escape = escape.size_bytes > 0 &&
                               pattern.size_bytes - at >= escape.size_bytes &&
                               memcmp(pattern.data + at, escape.data, escape.size_bytes) == 0;
        at += is_escape ? escape.size_bytes : 0;
        const size_t step = at < pattern.size_bytes ? gy_values_step(pattern, at) : 0;
        if (is_escape || pattern.data[at] == '\\') {
            made[size++] = '\\';
        }
        memcpy(made + size, pattern.data + at, step);
        size += step;
        at += step;
    }
    GY_ASSERT(size <= pattern.size_bytes * 2);
    *out = (gy_text_view){made, size};
    return GY_OK;
}

static gy_status make(gy_expr_work *work, gy_expr_pattern *to, gy_text_view text,
                      gy_text_view escape)
{
    gy_text_view pattern = text, plain = escape;
    const int op = to->expr->op;
    if (op == REGEX || op == REGEX_ANY_CASE || op == REPLACE) {
        const bool ignores_case =
            op == REGEX_ANY_CASE || (op == REPLACE && escape.data[0] == 'i');
        GY_TRY(gy_regex_new(text, ignores_case, &to->regex));
    } else {
        if (op == ILIKE) {
            GY_TRY(plain_escapes(work, text, escape, &pattern));
            GY_TRY(gy_expr_turn_case(work, pattern, false, &pattern));
            plain = (gy_text_view){"\\", 1};
        }
        GY_TRY(gy_like_new(pattern, plain, &to->like));
    }
    to->text = gy_alloc("query.pattern", text.size_bytes + escape.size_bytes + 1);
    if (to->text == NULL) {
        return GY_NOMEM;
    }
    to->size = text.size_bytes;
    if (text.size_bytes > 0) {
        memcpy(to->text, text.data, text.size_bytes);
    }
    memcpy(to->text + to->size, escape.data, escape.size_bytes);
    to->text[text.size_bytes + escape.size_bytes] = '\0';
    return GY_OK;
}

/* The pattern in args[1], with the escape in args[2] if there is one. */
static gy_status pattern_of(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                            gy_expr_pattern **out)
{
    const gy_text_view text = args[1].text;
    const gy_text_view escape = expr->count > 2 ? args[2].text : (gy_text_view){"\\", 1};
    gy_expr_pattern *at = work->patterns;
    while (at != NULL && at->expr != expr) {
        at = at->next;
    }
    if (at == NULL) {
        at = gy_alloc_zero("query.pattern", 1, sizeof(*at));
        if (at == NULL) {
            return GY_NOMEM;
        }
        at->expr = expr;
        at->next = work->patterns;
        work->patterns = at;
    }
    *out = at;
    if (at->text != NULL && at->size == text.size_bytes &&
        (at->size == 0 || memcmp(at->text, text.data, at->size) == 0) &&
        strlen(at->text + at->size) == escape.size_bytes &&
        memcmp(at->text + at->size, escape.data, escape.size_bytes) == 0) {
        return GY_OK;
    }
    forget(at);
    if (escape.size_bytes > 0 && gy_values_step(escape, 0) < escape.size_bytes) {
        return gy_fail(GY_ARG, "invalid escape string '%.*s': expected one character or none",
                       (int)GY_MIN(escape.size_bytes, (size_t)40), escape.data);
    }
    return make(work, at, text, escape);
}

static gy_status match(gy_expr_work *work, const gy_expr_pattern *pattern, gy_text_view text,
                       bool *is_match)
{
    gy_text_view part;
    if (pattern->regex != NULL) {
        return gy_regex_match(pattern->regex, text, is_match, &part);
    }
    if (pattern->expr->op == ILIKE) {
        GY_TRY(gy_expr_turn_case(work, text, false, &text));
    }
    *is_match = gy_like_match(pattern->like, text);
    return GY_OK;
}

static gy_status row_match(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                           gy_expr_cell *out)
{
    gy_expr_pattern *pattern = NULL;
    GY_TRY(pattern_of(work, expr, args, &pattern));
    GY_TRY(match(work, pattern, args[0].text, &out->truth));
    out->truth = out->truth != expr->is_not;
    return GY_OK;
}

/* A constant pattern. */
static gy_status run_match(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                           gy_expr_vector *out)
{
    gy_expr_vector texts;
    gy_expr_pattern *pattern = NULL;
    uint64_t *bits = gy_expr_values(work, GY_FIELD_BOOL);
    if (bits == NULL) {
        return GY_NOMEM;
    }
    const gy_expr_cell cells[3] = {{.is_null = true},
                                   expr->args[1]->cell,
                                   expr->count > 2 ? expr->args[2]->cell
                                                   : (gy_expr_cell){.is_null = true}};
    GY_TRY(pattern_of(work, expr, cells, &pattern));
    GY_TRY(gy_expr_eval(work, expr->args[0], mask, &texts));
    GY_TRY(gy_expr_spread(work, GY_FIELD_TEXT, &texts));
    memset(bits, 0, GY_EXPR_WORDS * sizeof(*bits));
    for (int row = 0; row < work->rows; row++) {
        if (gy_expr_bit(mask, row) && gy_expr_bit(texts.valid, row)) {
            bool is_match = false;
            GY_TRY(match(work, pattern, texts.texts[row], &is_match));
            bits[row >> 6] |= (uint64_t)(is_match != expr->is_not) << (row & 63);
        }
    }
    out->bits = bits;
    out->valid = texts.valid;
    return GY_OK;
}

gy_status gy_expr_row_match_part(gy_expr_work *work, const gy_expr *expr,
                                 const gy_expr_cell *args, gy_expr_cell *out)
{
    gy_expr_pattern *pattern = NULL;
    bool is_found = false;
    GY_TRY(pattern_of(work, expr, args, &pattern));
    GY_TRY(gy_regex_match(pattern->regex, args[0].text, &is_found, &out->text));
    out->is_null = !is_found || out->text.data == NULL;
    return GY_OK;
}

/* The letters of regexp_replace: g all matches, i any case, c case matters. */
static gy_status read_flags(gy_text_view flags, bool *is_all, bool *ignores_case)
{
    *is_all = *ignores_case = false;
    for (size_t i = 0; i < flags.size_bytes; i++) {
        const char c = flags.data[i];
        if (c != 'g' && c != 'i' && c != 'c') {
            return gy_fail(GY_ARG,
                           "regexp_replace: flags '%.*s': expected letters of g, i and c",
                           (int)GY_MIN(flags.size_bytes, (size_t)40), flags.data);
        }
        *is_all = *is_all || c == 'g';
        *ignores_case = c == 'g' ? *ignores_case : c == 'i';
    }
    return GY_OK;
}

gy_status gy_expr_row_replace(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                              gy_expr_cell *out)
{
    gy_expr_pattern *pattern = NULL;
    bool is_all = false, ignores_case = false;
    gy_text made = {.data = NULL};
    if (expr->count > 3) {
        GY_TRY(read_flags(args[3].text, &is_all, &ignores_case));
    }
    /* where like has its escape stands what a pattern is made with */
    const gy_expr_cell cells[3] = {args[0], args[1], {.text = {ignores_case ? "i" : "c", 1}}};
    GY_TRY(pattern_of(work, expr, cells, &pattern));
    gy_status status = gy_regex_replace(pattern->regex, args[0].text, args[2].text, is_all,
                                        REPLACED_MAX, &made);
    char *copy = status == GY_OK ? gy_expr_text_memory(work, made.size_bytes) : NULL;
    if (copy != NULL) {
        memcpy(copy, gy_text_get(&made), made.size_bytes);
        out->text = (gy_text_view){copy, made.size_bytes};
    } else if (status == GY_OK) {
        status = GY_NOMEM;
    }
    gy_text_free(&made);
    return status;
}

/* A constant pattern that is malformed is refused now. */
static gy_status judge_pattern(gy_expr_binder *in, const gy_expr_spec *spec)
{
    gy_expr_work work = {.frame = NULL};
    const gy_expr expr = {.op = spec->op, .count = spec->count};
    gy_expr_cell cells[3] = {{.is_null = true}};
    gy_expr_pattern *pattern = NULL;
    for (int i = 1; i < spec->count; i++) {
        if (!spec->args[i]->is_constant || spec->args[i]->cell.is_null) {
            return GY_OK;
        }
        cells[i] = spec->args[i]->cell;
    }
    gy_expr_work_begin(&work, 0, 0);
    gy_status status = pattern_of(&work, &expr, cells, &pattern);
    gy_expr_work_fini(&work);
    if (status < 0 && status != GY_NOMEM) {
        char said[GY_ERROR_TEXT_BYTES / 4];
        gy_print(said, sizeof(said), "%s", gy_error_text());
        status = gy_sql_refuse(in->scope->source, spec->args[1]->place, status, "%s", said);
    }
    return status;
}

static gy_status bind_pattern(gy_expr_binder *in, const gy_sql_node *node, int op,
                              const gy_expr **args, const gy_expr **out)
{
    gy_expr_spec spec = {.row = row_match,
                         .type = gy_expr_simple(GY_FIELD_BOOL, false),
                         .args = args,
                         .count = (int)node->count,
                         .op = op,
                         .is_not = node->is_not ||
                                   (node->kind == GY_SQL_OPERATION && node->text[0] == '!'),
                         .name = op == LIKE || op == ILIKE ? "like" : node->text,
                         .place = node->place};
    bool is_constant = true;
    for (int i = 0; i < spec.count; i++) {
        GY_TRY(gy_expr_to_class(in, &args[i], GY_FIELD_TEXT));
        spec.type.is_nullable = spec.type.is_nullable || args[i]->type.is_nullable;
        is_constant = is_constant && (i == 0 || args[i]->is_constant);
    }
    GY_TRY(judge_pattern(in, &spec));
    spec.run = is_constant ? run_match : NULL;
    return gy_expr_make(in, &spec, out);
}

static bool are_texts(const gy_expr *const *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!gy_expr_is_implicit(&args[i]->type, GY_FIELD_TEXT)) {
            return false;
        }
    }
    return true;
}

gy_status gy_expr_bind_like(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    const gy_expr **args = NULL;
    GY_TRY(gy_expr_bind_items(in, node, &args));
    if (!are_texts(args, node->count)) {
        return gy_expr_no_operator(in, node->place, node->kind == GY_SQL_LIKE ? "~~" : "~~*",
                                   args, 2);
    }
    return bind_pattern(in, node, node->kind == GY_SQL_LIKE ? LIKE : ILIKE, args, out);
}

gy_status gy_expr_match_operation(gy_expr_binder *in, const gy_sql_node *node,
                                  const gy_expr **args, bool *is_done, const gy_expr **out)
{
    static const struct {
        const char *name;
        int op;
    } names[] = {{"~", REGEX}, {"~*", REGEX_ANY_CASE}, {"!~", REGEX},  {"!~*", REGEX_ANY_CASE},
                 {"~~", LIKE}, {"!~~", LIKE},          {"~~*", ILIKE}, {"!~~*", ILIKE}};
    *is_done = false;
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if (strcmp(names[i].name, node->text) == 0 && are_texts(args, node->count)) {
            *is_done = true;
            return bind_pattern(in, node, names[i].op, args, out);
        }
    }
    return GY_OK;
}
