/* Functions of texts. Characters are those of UTF-8; upper and lower know those of the C.UTF-8
 * locale, else ASCII alone. */
#include "query/expr/expr_priv.h"

#include <locale.h>
#include <string.h>
#include <wctype.h>

enum { INTEGER = GY_FIELD_INT64, TEXT = GY_FIELD_TEXT, BOOL = GY_FIELD_BOOL };
enum { MADE_MAX = 256 << 20 /* bytes of one text that is made */ };

#define ROW(name)                                                                              \
    static gy_status name(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,   \
                          gy_expr_cell *out)

/* ---- characters ---- */

static int64_t characters(gy_text_view text)
{
    int64_t count = 0;
    for (size_t i = 0; i < text.size_bytes; i++) {
        count += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    }
    return count;
}

/* The byte at which character `count` begins, or the end. */
static size_t byte_of(gy_text_view text, int64_t count)
{
    size_t at = 0;
    for (; count > 0 && at < text.size_bytes; count--) {
        at += gy_values_step(text, at);
    }
    return at;
}

static gy_text_view part(gy_text_view text, size_t begin, size_t end)
{
    return (gy_text_view){text.data + begin, end - begin};
}

/* Where `what` begins in `text` from byte `from` on; its size: nowhere. */
static size_t find(gy_text_view text, gy_text_view what, size_t from)
{
    if (what.size_bytes == 0) {
        return from;
    }
    const char *at = from < text.size_bytes ? memmem(text.data + from, text.size_bytes - from,
                                                     what.data, what.size_bytes)
                                            : NULL;
    return at != NULL ? (size_t)(at - text.data) : text.size_bytes;
}

/* Memory for a text of so many bytes. */
static gy_status begin_text(gy_expr_work *work, const gy_expr *expr, size_t size, char **out)
{
    if (size > MADE_MAX) {
        return gy_fail(GY_LIMIT, "%s: a text of %zu bytes, expected at most %d", expr->name,
                       size, MADE_MAX);
    }
    *out = gy_expr_text_memory(work, size);
    return *out != NULL ? GY_OK : GY_NOMEM;
}

static char *put(char *at, gy_text_view text)
{
    if (text.size_bytes > 0) {
        memcpy(at, text.data, text.size_bytes);
    }
    return at + text.size_bytes;
}

/* ---- case ---- */

static locale_t characters_locale;

static void make_locale(void)
{
    characters_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static uint32_t decode(const unsigned char *at, size_t size)
{
    uint32_t code = size == 1 ? at[0] : at[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        code = code << 6 | (at[i] & 0x3Fu);
    }
    return code;
}

static size_t encode(uint32_t code, unsigned char out[4])
{
    if (code < 0x80) {
        out[0] = (unsigned char)code;
        return 1;
    }
    const size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; code >>= 6) {
        out[i] = (unsigned char)(0x80 | (code & 0x3F));
    }
    out[0] = (unsigned char)((0xF00u >> size & 0xFF) | code);
    return size;
}

static uint32_t turn(uint32_t code, bool is_upper)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (code < 0x80) {
        const uint32_t lower = code | 0x20;
        const bool is_letter = lower >= 'a' && lower <= 'z';
        return !is_letter ? code : is_upper ? code & ~0x20u : lower;
    }
    (void)pthread_once(&once, make_locale);
    if (characters_locale == (locale_t)0) {
        return code;
    }
    return is_upper ? (uint32_t)towupper_l(code, characters_locale)
                    : (uint32_t)towlower_l(code, characters_locale);
}

gy_status gy_expr_turn_case(gy_expr_work *work, gy_text_view text, bool is_upper,
                            gy_text_view *out)
{
    char *made = gy_expr_text_memory(work, text.size_bytes * 2); /* 2 bytes may become 3 */
    unsigned char *at = (unsigned char *)made;
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < text.size_bytes;) {
        const size_t size = gy_values_step(text, i);
        at += encode(turn(decode((const unsigned char *)text.data + i, size), is_upper), at);
        i += size;
    }
    *out = (gy_text_view){made, (size_t)((char *)at - made)};
    return GY_OK;
}

ROW(upper_row)
{
    return gy_expr_turn_case(work, args[0].text, expr->op != 0, &out->text);
}

static bool is_of_word(uint32_t code)
{
    if (code < 0x80) {
        return (code >= '0' && code <= '9') || ((code | 0x20) >= 'a' && (code | 0x20) <= 'z');
    }
    return turn(code, true) != turn(code, false) ||
           (characters_locale != (locale_t)0 && iswalnum_l(code, characters_locale));
}

/* The first letter of each word in upper case, the others in lower case. */
ROW(initcap_row)
{
    (void)expr;
    const gy_text_view text = args[0].text;
    char *made = gy_expr_text_memory(work, text.size_bytes * 2); /* 2 bytes may become 3 */
    unsigned char *at = (unsigned char *)made;
    bool is_inside = false;
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < text.size_bytes;) {
        const size_t size = gy_values_step(text, i);
        const uint32_t code = decode((const unsigned char *)text.data + i, size);
        at += encode(turn(code, !is_inside), at);
        is_inside = is_of_word(code);
        i += size;
    }
    out->text = (gy_text_view){made, (size_t)((char *)at - made)};
    return GY_OK;
}

/* ---- lengths and places ---- */

ROW(length_row)
{
    (void)work, (void)expr;
    out->integer = characters(args[0].text);
    return GY_OK;
}

ROW(octet_row)
{
    (void)work;
    out->integer = (int64_t)args[0].text.size_bytes * expr->op;
    return GY_OK;
}

ROW(position_row)
{
    (void)work, (void)expr;
    const gy_text_view text = args[0].text;
    const size_t at = find(text, args[1].text, 0);
    out->integer = at < text.size_bytes || args[1].text.size_bytes == 0
                       ? characters(part(text, 0, at)) + 1
                       : 0;
    return GY_OK;
}

ROW(starts_row)
{
    (void)work, (void)expr;
    const gy_text_view text = args[0].text, with = args[1].text;
    out->truth = with.size_bytes == 0 || (text.size_bytes >= with.size_bytes &&
                                          memcmp(text.data, with.data, with.size_bytes) == 0);
    return GY_OK;
}

ROW(ascii_row)
{
    (void)work, (void)expr;
    const gy_text_view text = args[0].text;
    out->integer = text.size_bytes == 0
                       ? 0
                       : decode((const unsigned char *)text.data, gy_values_step(text, 0));
    return GY_OK;
}

/* ---- parts ---- */

ROW(substring_row)
{
    (void)work, (void)expr;
    const gy_text_view text = args[0].text;
    int64_t first = args[1].integer, end = INT64_MAX;
    if (expr->count > 2) {
        if (args[2].integer < 0) {
            return gy_fail(GY_NUMERIC, "negative substring length not allowed: %lld",
                           (long long)args[2].integer);
        }
        if (__builtin_add_overflow(first, args[2].integer, &end)) {
            end = INT64_MAX;
        }
    }
    first = GY_MAX(first, (int64_t)1);
    const size_t begin = byte_of(text, first - 1);
    const gy_text_view rest = part(text, begin, text.size_bytes);
    out->text =
        part(rest, 0,
             end == INT64_MAX ? rest.size_bytes : byte_of(rest, GY_MAX(end, first) - first));
    return GY_OK;
}

/* `op`: from the right. A count below zero leaves out so many at the other end. */
ROW(left_row)
{
    (void)work;
    const gy_text_view text = args[0].text;
    const int64_t count = args[1].integer, all = characters(text);
    const int64_t kept = count >= 0           ? GY_MIN(count, all)
                         : count == INT64_MIN ? 0
                                              : GY_MAX(all + count, (int64_t)0);
    out->text = expr->op != 0 ? part(text, byte_of(text, all - kept), text.size_bytes)
                              : part(text, 0, byte_of(text, kept));
    return GY_OK;
}

enum { LEFT = 1, RIGHT = 2 };

static bool has_character(gy_text_view set, gy_text_view one)
{
    for (size_t at = 0; at < set.size_bytes; at += gy_values_step(set, at)) {
        if (gy_values_step(set, at) == one.size_bytes &&
            memcmp(set.data + at, one.data, one.size_bytes) == 0) {
            return true;
        }
    }
    return false;
}

ROW(trim_row)
{
    (void)work;
    const gy_text_view text = args[0].text;
    const gy_text_view set = expr->count > 1 ? args[1].text : (gy_text_view){" ", 1};
    size_t begin = 0, end = text.size_bytes;
    while ((expr->op & LEFT) != 0 && begin < end &&
           has_character(set, part(text, begin, begin + gy_values_step(text, begin)))) {
        begin += gy_values_step(text, begin);
    }
    while ((expr->op & RIGHT) != 0 && end > begin) {
        size_t last = end - 1;
        while (last > begin && ((unsigned char)text.data[last] & 0xC0) == 0x80) {
            last--;
        }
        if (!has_character(set, part(text, last, end))) {
            break;
        }
        end = last;
    }
    out->text = part(text, begin, end);
    return GY_OK;
}

/* Field `number` of those between `by`, from 1, or from -1 at the end. */
ROW(split_row)
{
    (void)work, (void)expr;
    const gy_text_view text = args[0].text, by = args[1].text;
    int64_t number = args[2].integer, count = 1;
    if (number == 0) {
        return gy_fail(GY_NUMERIC, "split_part: field position must not be zero");
    }
    if (by.size_bytes == 0 || text.size_bytes == 0) {
        const bool is_whole = text.size_bytes > 0 && (number == 1 || number == -1);
        out->text = is_whole ? text : (gy_text_view){.data = ""};
        return GY_OK;
    }
    for (size_t at = 0; number < 0 && (at = find(text, by, at)) < text.size_bytes;
         at += by.size_bytes) {
        count++;
    }
    number = number > 0 ? number : number < -count ? 0 : count + 1 + number;
    size_t begin = 0;
    for (int64_t i = 1; i < number && begin <= text.size_bytes; i++) {
        const size_t at = find(text, by, begin);
        begin = at < text.size_bytes ? at + by.size_bytes : text.size_bytes + 1;
    }
    out->text = number < 1 || begin > text.size_bytes
                    ? (gy_text_view){.data = ""}
                    : part(text, begin, find(text, by, begin));
    return GY_OK;
}

/* ---- texts that are made ---- */

ROW(replace_row)
{
    const gy_text_view text = args[0].text, from = args[1].text, to = args[2].text;
    size_t count = 0;
    char *made = NULL;
    if (from.size_bytes == 0) {
        out->text = text;
        return GY_OK;
    }
    for (size_t at = 0; (at = find(text, from, at)) < text.size_bytes; at += from.size_bytes) {
        count++;
    }
    const size_t size = text.size_bytes - count * from.size_bytes + count * to.size_bytes;
    GY_TRY(begin_text(work, expr, size, &made));
    char *end = made;
    for (size_t at = 0; at < text.size_bytes;) {
        const size_t next = find(text, from, at);
        end = put(end, part(text, at, next));
        if (next < text.size_bytes) {
            end = put(end, to);
        }
        at = next < text.size_bytes ? next + from.size_bytes : next;
    }
    out->text = (gy_text_view){made, (size_t)(end - made)};
    return GY_OK;
}

ROW(repeat_row)
{
    const gy_text_view text = args[0].text;
    const int64_t count = GY_MAX(args[1].integer, (int64_t)0);
    char *made = NULL;
    size_t size = 0;
    if (__builtin_mul_overflow(text.size_bytes, (size_t)count, &size)) {
        size = SIZE_MAX;
    }
    GY_TRY(begin_text(work, expr, size, &made));
    char *end = made;
    for (size_t done = 0; done < size; done += text.size_bytes) {
        end = put(end, text);
    }
    out->text = (gy_text_view){made, size};
    return GY_OK;
}

ROW(reverse_row)
{
    const gy_text_view text = args[0].text;
    char *made = NULL;
    GY_TRY(begin_text(work, expr, text.size_bytes, &made));
    for (size_t at = 0; at < text.size_bytes;) {
        const size_t size = gy_values_step(text, at);
        memcpy(made + text.size_bytes - at - size, text.data + at, size);
        at += size;
    }
    out->text = (gy_text_view){made, text.size_bytes};
    return GY_OK;
}

/* Up to so many characters, with `fill` over and over; `op`: LEFT of the text or RIGHT. */
ROW(pad_row)
{
    const gy_text_view text = args[0].text;
    const gy_text_view fill = expr->count > 2 ? args[2].text : (gy_text_view){" ", 1};
    const int64_t wanted = GY_MAX(args[1].integer, (int64_t)0), had = characters(text);
    char *made = NULL;
    if (had >= wanted || fill.size_bytes == 0) {
        out->text = part(text, 0, byte_of(text, wanted));
        return GY_OK;
    }
    const int64_t added = wanted - had, unit = characters(fill);
    const size_t rest = byte_of(fill, added % unit);
    size_t size = 0;
    if (__builtin_mul_overflow((size_t)(added / unit), fill.size_bytes, &size) ||
        __builtin_add_overflow(size, text.size_bytes + rest, &size)) {
        size = SIZE_MAX;
    }
    GY_TRY(begin_text(work, expr, size, &made));
    char *end = expr->op == RIGHT ? put(made, text) : made;
    for (int64_t i = 0; i < added / unit; i++) {
        end = put(end, fill);
    }
    end = put(end, part(fill, 0, rest));
    (void)(expr->op == LEFT ? put(end, text) : end);
    out->text = (gy_text_view){made, size};
    return GY_OK;
}

/* Nulls are left out; `op`: the first is put between the others. */
ROW(concat_row)
{
    const int first = expr->op;
    size_t size = 0;
    char *made = NULL;
    if (first == 1 && args[0].is_null) {
        out->is_null = true;
        return GY_OK;
    }
    const gy_text_view between = first == 1 ? args[0].text : (gy_text_view){.data = ""};
    for (int i = first; i < expr->count; i++) {
        size += args[i].is_null ? 0 : args[i].text.size_bytes + between.size_bytes;
    }
    GY_TRY(begin_text(work, expr, size, &made));
    char *end = made;
    bool is_first = true;
    for (int i = first; i < expr->count; i++) {
        if (!args[i].is_null) {
            end = is_first ? end : put(end, between);
            end = put(end, args[i].text);
            is_first = false;
        }
    }
    out->text = (gy_text_view){made, (size_t)(end - made)};
    return GY_OK;
}

ROW(join_row)
{
    return concat_row(work, expr, args, out);
}

/* Each character of the text that stands in `from` becomes that of `to`, or nothing. */
ROW(translate_row)
{
    const gy_text_view text = args[0].text, from = args[1].text, to = args[2].text;
    char *made = NULL;
    GY_TRY(begin_text(work, expr, text.size_bytes * 4, &made));
    char *end = made;
    for (size_t at = 0; at < text.size_bytes;) {
        const size_t size = gy_values_step(text, at);
        const size_t place = find(from, part(text, at, at + size), 0);
        if (place == from.size_bytes) {
            end = put(end, part(text, at, at + size));
        } else {
            const size_t other = byte_of(to, characters(part(from, 0, place)));
            if (other < to.size_bytes) {
                end = put(end, part(to, other, other + gy_values_step(to, other)));
            }
        }
        at += size;
    }
    out->text = (gy_text_view){made, (size_t)(end - made)};
    return GY_OK;
}

const gy_expr_function gy_expr_texts[] = {
    {"upper", "t", TEXT, upper_row, .op = 1},
    {"lower", "t", TEXT, upper_row, .op = 0},
    {"initcap", "t", TEXT, initcap_row, .op = 0},
    {"length", "t", INTEGER, length_row, .op = 0},
    {"char_length", "t", INTEGER, length_row, .op = 0},
    {"character_length", "t", INTEGER, length_row, .op = 0},
    {"octet_length", "t", INTEGER, octet_row, .op = 1},
    {"bit_length", "t", INTEGER, octet_row, .op = 8},
    {"position", "tt", INTEGER, position_row, .op = 0},
    {"strpos", "tt", INTEGER, position_row, .op = 0},
    {"starts_with", "tt", BOOL, starts_row, .op = 0},
    {"ascii", "t", INTEGER, ascii_row, .op = 0},
    {"substring", "ti", TEXT, substring_row, .op = 0},
    {"substring", "tii", TEXT, substring_row, .op = 0},
    {"substring", "tt", TEXT, gy_expr_row_match_part, .op = GY_EXPR_REGEX, .gives_null = true},
    {"regexp_replace", "ttt", TEXT, gy_expr_row_replace, .op = GY_EXPR_REPLACE},
    {"regexp_replace", "tttt", TEXT, gy_expr_row_replace, .op = GY_EXPR_REPLACE},
    {"substr", "ti", TEXT, substring_row, .op = 0},
    {"substr", "tii", TEXT, substring_row, .op = 0},
    {"left", "ti", TEXT, left_row, .op = 0},
    {"right", "ti", TEXT, left_row, .op = 1},
    {"btrim", "t", TEXT, trim_row, .op = LEFT | RIGHT},
    {"btrim", "tt", TEXT, trim_row, .op = LEFT | RIGHT},
    {"ltrim", "t", TEXT, trim_row, .op = LEFT},
    {"ltrim", "tt", TEXT, trim_row, .op = LEFT},
    {"rtrim", "t", TEXT, trim_row, .op = RIGHT},
    {"rtrim", "tt", TEXT, trim_row, .op = RIGHT},
    {"split_part", "tti", TEXT, split_row, .op = 0},
    {"replace", "ttt", TEXT, replace_row, .op = 0},
    {"translate", "ttt", TEXT, translate_row, .op = 0},
    {"repeat", "ti", TEXT, repeat_row, .op = 0},
    {"reverse", "t", TEXT, reverse_row, .op = 0},
    {"lpad", "ti", TEXT, pad_row, .op = LEFT},
    {"lpad", "tit", TEXT, pad_row, .op = LEFT},
    {"rpad", "ti", TEXT, pad_row, .op = RIGHT},
    {"rpad", "tit", TEXT, pad_row, .op = RIGHT},
    {"concat", "a*", TEXT, concat_row, .takes_nulls = true},
    {"concat_ws", "ta*", TEXT, concat_row, .op = 1, .takes_nulls = true},
    {NULL, NULL, 0, NULL, .op = 0},
};

/* ---- || ---- */

static bool is_text(const gy_expr_type *type)
{
    return type->is_unknown || gy_expr_class(type) == TEXT;
}

static gy_status bind_join(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **args,
                           const gy_expr **out)
{
    const gy_expr_type text = gy_expr_simple(TEXT, true);
    for (int i = 0; i < 2; i++) {
        GY_TRY(gy_expr_cast_to(in, node->place, args[i], &text, &args[i]));
    }
    const gy_expr_spec spec = {
        .row = join_row,
        .type = gy_expr_simple(TEXT, args[0]->type.is_nullable || args[1]->type.is_nullable),
        .args = args,
        .count = 2,
        .name = "||",
        .place = node->place};
    return gy_expr_make(in, &spec, out);
}

gy_status gy_expr_text_operation(gy_expr_binder *in, const gy_sql_node *node,
                                 const gy_expr **args, bool *is_done, const gy_expr **out)
{
    *is_done =
        strcmp(node->text, "||") == 0 && (is_text(&args[0]->type) || is_text(&args[1]->type));
    return *is_done ? bind_join(in, node, args, out) : GY_OK;
}
