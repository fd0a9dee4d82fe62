/*
 * The table that `gyre tune` writes, one fact a line:
 *
 *   gyre tune 1                              version of the format
 *   machine NAME                             where it was measured
 *   link CLASS ALPHA BETA                    us, ns per byte
 *   combine TYPE NS                          ns per byte
 *   take OPERATION TYPE MEMORY RANKS HOSTS BYTES ALGORITHM US
 *   end COUNT                                of the `take` lines
 *
 * `#` begins a comment line.
 */
#include "coll/coll_priv.h"

#include "base/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1 };

static const char *const link_names[GY_LINK_CLASSES] = {
    [GY_LINK_WORD] = "word", [GY_LINK_STAGED] = "staged",     [GY_LINK_DIRECT] = "direct",
    [GY_LINK_RING] = "ring", [GY_LINK_LOOPBACK] = "loopback", [GY_LINK_FAR] = "far"};
static const char *const memory_names[GY_MEMORY_COUNT] = {[GY_MEMORY_PRIVATE] = "private",
                                                          [GY_MEMORY_REGISTERED] = "registered",
                                                          [GY_MEMORY_MESSAGES] = "messages"};
static const char *const type_names[GY_TYPE_CLASSES] = {
    [GY_TYPE_PLAIN] = "plain", [GY_TYPE_HALF] = "half"};

const char *gy_memory_name(gy_memory memory)
{
    GY_ASSERT((unsigned)memory < GY_MEMORY_COUNT);
    return memory_names[memory];
}

const char *gy_type_name(gy_type_class type)
{
    GY_ASSERT((unsigned)type < GY_TYPE_CLASSES);
    return type_names[type];
}

const char *gy_link_name(gy_link_class link)
{
    GY_ASSERT((unsigned)link < GY_LINK_CLASSES);
    return link_names[link];
}

/* ---- Reading ---- */

typedef struct reader {
    gy_tuning *tuning;
    gy_lines lines;
    bool has_ended;
} reader;

static gy_status read_link(reader *from)
{
    int link = 0;
    double alpha = 0, beta = 0;
    GY_ASSERT(from->lines.count == 4);
    GY_TRY(gy_word_index(from->lines.words[1], "the link", link_names, GY_LINK_CLASSES, &link));
    GY_TRY(gy_word_number(from->lines.words[2], "alpha", &alpha));
    GY_TRY(gy_word_number(from->lines.words[3], "beta", &beta));
    GY_ASSERT(link >= 0 && link < GY_LINK_CLASSES);
    if (from->tuning->links[link].is_measured) {
        return gy_fail(GY_FORMAT, "link %s is given twice", link_names[link]);
    }
    from->tuning->links[link] =
        (gy_link_figures){.alpha = alpha * 1e-6, .beta = beta * 1e-9, .is_measured = true};
    return GY_OK;
}

static gy_status read_combine(reader *from)
{
    int type = 0;
    double gamma = 0;
    GY_ASSERT(from->lines.count == 3);
    GY_TRY(gy_word_index(from->lines.words[1], "the type", type_names, GY_TYPE_CLASSES, &type));
    GY_TRY(gy_word_number(from->lines.words[2], "gamma", &gamma));
    GY_ASSERT(type >= 0 && type < GY_TYPE_CLASSES);
    if (from->tuning->gamma[type] > 0) {
        return gy_fail(GY_FORMAT, "combine %s is given twice", type_names[type]);
    }
    from->tuning->gamma[type] = gamma * 1e-9;
    return GY_OK;
}

/* Checks that a call can follow the rule. */
static gy_status check_rule(const gy_rule *rule)
{
    GY_ASSERT(rule->row != NULL && rule->row->operation == rule->operation);
    static const gy_memory least[] = {[GY_NEED_MESSAGES] = GY_MEMORY_MESSAGES,
                                      [GY_NEED_STAGE] = GY_MEMORY_PRIVATE,
                                      [GY_NEED_DIRECT] = GY_MEMORY_REGISTERED};
    const gy_algorithm *row = rule->row;
    bool reduces = gy_call_reduces(&(gy_coll_call){.operation = rule->operation});
    bool is_shared = rule->memory != GY_MEMORY_MESSAGES;
    if (!reduces && rule->type != GY_TYPE_PLAIN) {
        return gy_fail(GY_FORMAT, "%s combines nothing, its type is plain",
                       gy_operation_name(rule->operation));
    }
    bool is_reached = row->need == GY_NEED_MESSAGES || gy_row_is_library(row) ||
                      (is_shared && rule->memory >= least[row->need]);
    if (!is_reached || (is_shared && rule->hosts > 1)) {
        return gy_fail(GY_FORMAT, "%s over %d hosts cannot go by %s memory", row->name,
                       rule->hosts, memory_names[rule->memory]);
    }
    if (is_shared && !gy_row_keeps_bits(row)) {
        return gy_fail(GY_FORMAT,
                       "%s does not combine as all that goes through shared memory does: in "
                       "the order of ranks",
                       row->name);
    }
    return GY_OK;
}

static gy_status read_take(reader *from)
{
    char **words = from->lines.words;
    gy_rule rule = {.line = from->lines.number};
    int type = 0, memory = 0;
    int64_t ranks = 0, hosts = 0;
    double us = 0;
    GY_ASSERT(from->lines.count == 9);
    GY_TRY(gy_plan_operation_find(words[1], &rule.operation));
    GY_TRY(gy_word_index(words[2], "the type", type_names, GY_TYPE_CLASSES, &type));
    GY_TRY(gy_word_index(words[3], "the memory", memory_names, GY_MEMORY_COUNT, &memory));
    GY_TRY(gy_word_count(words[4], "ranks", (const int64_t[]){2, GY_PLAN_RANKS}, &ranks));
    GY_TRY(gy_word_count(words[5], "hosts", (const int64_t[]){1, ranks}, &hosts));
    GY_TRY(gy_word_count(words[6], "the size", (const int64_t[]){0, INT64_C(1) << 60},
                         &rule.from_bytes));
    GY_TRY(gy_row_parse(rule.operation, words[7], &rule.row, rule.parameter));
    GY_TRY(gy_word_number(words[8], "the time", &us));
    rule.type = (gy_type_class)type;
    rule.memory = (gy_memory)memory;
    rule.ranks = (int)ranks;
    rule.hosts = (int)hosts;
    rule.seconds = us * 1e-6;
    GY_TRY(check_rule(&rule));
    return gy_tuning_add(from->tuning, &rule);
}

static gy_status read_end(reader *from)
{
    int64_t count = 0;
    GY_ASSERT(from->lines.count == 2);
    GY_TRY(gy_word_count(from->lines.words[1], "the count", (const int64_t[]){0, GY_RULES_MAX},
                         &count));
    if ((size_t)count != from->tuning->count) {
        return gy_fail(GY_FORMAT, "%zu lines \"take\" stand above, the end says %lld",
                       from->tuning->count, (long long)count);
    }
    from->has_ended = true;
    return GY_OK;
}

static gy_status read_fact(reader *from)
{
    static const struct {
        const char *name;
        int words;
        gy_status (*read)(reader *from);
    } kinds[] = {{"link", 4, read_link},
                 {"combine", 3, read_combine},
                 {"take", 9, read_take},
                 {"end", 2, read_end}};
    if (from->has_ended) {
        return gy_fail(GY_FORMAT, "\"%s\" stands after the end", from->lines.words[0]);
    }
    for (size_t i = 0; i < GY_COUNT(kinds); i++) {
        if (strcmp(from->lines.words[0], kinds[i].name) == 0) {
            return from->lines.count == kinds[i].words
                       ? kinds[i].read(from)
                       : gy_fail(GY_FORMAT, "\"%s\" has %d words, expected %d", kinds[i].name,
                                 from->lines.count, kinds[i].words);
        }
    }
    return gy_fail(GY_FORMAT, "\"%s\" begins no line, expected link, combine, take or end",
                   from->lines.words[0]);
}

static gy_status read_machine(reader *from, const char *text)
{
    size_t size = strlen(text);
    if (from->tuning->machine[0] != '\0' || size == 0 || size >= GY_MACHINE_BYTES) {
        return gy_fail(GY_FORMAT, "expected one machine of 1 to %d characters",
                       GY_MACHINE_BYTES - 1);
    }
    memcpy(from->tuning->machine, text, size + 1);
    return GY_OK;
}

static gy_status read_line(reader *from)
{
    char *line = from->lines.line;
    if (from->lines.number == 1) {
        int64_t version = 0;
        if (strncmp(line, "gyre tune ", 10) != 0) {
            return gy_fail(GY_FORMAT,
                           "expected \"gyre tune %d\": this is no table of gyre tune", VERSION);
        }
        return gy_word_count(line + 10, "the version", (const int64_t[]){VERSION, VERSION},
                             &version);
    }
    if (line[0] == '#') {
        return GY_OK;
    }
    if (strncmp(line, "machine ", 8) == 0) {
        return read_machine(from, line + 8);
    }
    GY_TRY(gy_line_split(&from->lines));
    return from->lines.count > 0 ? read_fact(from) : GY_OK;
}

static gy_status read_all(reader *from)
{
    gy_status status = GY_OK;
    if (from->lines.size_bytes > GY_TABLE_BYTES_MAX) {
        return gy_fail(GY_FORMAT, "%zu bytes, at most %d", from->lines.size_bytes,
                       GY_TABLE_BYTES_MAX);
    }
    while ((status = gy_line_next(&from->lines)) == GY_OK) {
        GY_TRY(read_line(from));
    }
    if (status < 0) {
        return status;
    }
    if (!from->has_ended || from->tuning->machine[0] == '\0') {
        return gy_fail(GY_FORMAT, "the file ends without a line \"%s\": it is not whole",
                       from->has_ended ? "machine" : "end");
    }
    return gy_tuning_seal(from->tuning);
}

gy_status gy_tuning_parse(const char *text, size_t size_bytes, const char *path,
                          gy_tuning *tuning)
{
    GY_ASSERT(text != NULL && path != NULL);
    reader from = {.tuning = tuning, .lines = {.text = text, .size_bytes = size_bytes}};
    *tuning = (gy_tuning){.count = 0};
    gy_status status = read_all(&from);
    if (status < 0) {
        status = gy_fail_within(status == GY_NOMEM ? status : GY_FORMAT, "%s:%d", path,
                                from.lines.number);
        gy_tuning_fini(tuning);
    }
    return status;
}

/* ---- Storing ---- */

void gy_tuning_fini(gy_tuning *tuning)
{
    gy_free(tuning->rules);
    gy_free(tuning->path);
    *tuning = (gy_tuning){.count = 0};
}

gy_status gy_tuning_add(gy_tuning *tuning, const gy_rule *rule)
{
    GY_ASSERT(rule->row != NULL && rule->ranks >= 1 && rule->hosts >= 1);
    if (tuning->count == GY_RULES_MAX) {
        return gy_fail(GY_FORMAT, "more than %d lines \"take\"", GY_RULES_MAX);
    }
    GY_TRY(GY_GROW("coll.tuning", tuning->rules, tuning->capacity, tuning->count + 1));
    tuning->rules[tuning->count++] = *rule;
    GY_ASSERT(tuning->count <= tuning->capacity);
    return GY_OK;
}

static int compare_kinds(const gy_rule *a, const gy_rule *b)
{
    const int left[] = {(int)a->operation, (int)a->type, (int)a->memory, a->ranks, a->hosts};
    const int right[] = {(int)b->operation, (int)b->type, (int)b->memory, b->ranks, b->hosts};
    for (size_t i = 0; i < GY_COUNT(left); i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}

static int compare_rules(const void *left, const void *right)
{
    const gy_rule *a = left, *b = right;
    int order = compare_kinds(a, b);
    bool is_less = a->from_bytes < b->from_bytes;
    return order != 0 ? order : is_less ? -1 : a->from_bytes > b->from_bytes;
}

gy_status gy_tuning_seal(gy_tuning *tuning)
{
    gy_text text = {.data = NULL};
    if (tuning->count > 0) {
        qsort(tuning->rules, tuning->count, sizeof(*tuning->rules), compare_rules);
    }
    for (size_t i = 1; i < tuning->count; i++) {
        const gy_rule *rule = &tuning->rules[i];
        if (compare_rules(rule - 1, rule) == 0) {
            return gy_fail(GY_FORMAT, "lines %d and %d are of one kind and size",
                           GY_MIN(rule[-1].line, rule->line),
                           GY_MAX(rule[-1].line, rule->line));
        }
    }
    gy_tuning_print(tuning, &text);
    gy_status status = text.status;
    tuning->hash = (uint32_t)gy_hash(gy_text_get(&text), text.size_bytes, 0) | 1;
    GY_ASSERT(tuning->hash != 0);
    gy_text_free(&text);
    return status;
}

gy_rules gy_tuning_select(const gy_tuning *tuning, const gy_rule *kind, int ranks, int hosts)
{
    GY_ASSERT(ranks > 0 && hosts > 0);
    gy_rules best = {.count = 0};
    for (size_t i = 0, end = 0; i < tuning->count; i = end) {
        const gy_rule *rule = &tuning->rules[i];
        for (end = i; end < tuning->count && compare_kinds(rule, &tuning->rules[end]) == 0;) {
            end++;
        }
        gy_rule same = *rule;
        same.operation = kind->operation;
        same.type = kind->type;
        same.memory = kind->memory;
        int low = GY_MIN(rule->ranks, ranks), high = GY_MAX(rule->ranks, ranks);
        bool is_near = rule->hosts == hosts && (low == high || (hosts == 1 && high <= 2 * low));
        if (compare_kinds(&same, rule) != 0 || !is_near) {
            continue;
        }
        /* A smaller ratio is nearer; of two equal ratios the one with fewer ranks wins, which
         * comes first. */
        int held = best.count == 0 ? 0 : best.first->ranks;
        int64_t held_low = GY_MIN(held, ranks), held_high = GY_MAX(held, ranks);
        if (best.count == 0 || high * held_low < held_high * low) {
            best = (gy_rules){.first = rule, .count = end - i};
            GY_ASSERT(best.count > 0);
        }
    }
    return best;
}

const gy_rule *gy_rules_find(gy_rules rules, int64_t bytes)
{
    GY_ASSERT(bytes >= 0);
    size_t at = 0;
    while (at + 1 < rules.count && rules.first[at + 1].from_bytes <= bytes) {
        at++;
    }
    return rules.count == 0 ? NULL : &rules.first[at];
}

/* ---- Writing ---- */

static void print_rule(const gy_rule *rule, gy_text *out)
{
    GY_ASSERT((unsigned)rule->type < GY_TYPE_CLASSES &&
              (unsigned)rule->memory < GY_MEMORY_COUNT);
    char operation[32], name[64];
    snprintf(operation, sizeof(operation), "%s", gy_operation_name(rule->operation));
    for (char *at = strchr(operation, ' '); at != NULL; at = strchr(at, ' ')) {
        *at = '-';
    }
    gy_pick pick = {.row = rule->row};
    memcpy(pick.parameter, rule->parameter, sizeof(pick.parameter));
    gy_text_add(out, "take %s %s %s %d %d %lld %s %.6g\n", operation, type_names[rule->type],
                memory_names[rule->memory], rule->ranks, rule->hosts,
                (long long)rule->from_bytes, gy_pick_name(&pick, name), rule->seconds * 1e6);
}

void gy_tuning_print(const gy_tuning *tuning, gy_text *out)
{
    gy_text_add(out, "gyre tune %d\nmachine %s\n", VERSION, tuning->machine);
    gy_text_add(out, "# link CLASS ALPHA BETA: us, ns per byte\n");
    for (int i = 0; i < GY_LINK_CLASSES; i++) {
        const gy_link_figures *link = &tuning->links[i];
        if (link->is_measured) {
            gy_text_add(out, "link %s %.6g %.6g\n", link_names[i], link->alpha * 1e6,
                        link->beta * 1e9);
        }
    }
    gy_text_add(out, "# combine TYPE NS: ns per byte\n");
    for (int i = 0; i < GY_TYPE_CLASSES; i++) {
        if (tuning->gamma[i] > 0) {
            gy_text_add(out, "combine %s %.6g\n", type_names[i], tuning->gamma[i] * 1e9);
        }
    }
    gy_text_add(out,
                "# take OPERATION TYPE MEMORY RANKS HOSTS BYTES ALGORITHM US: from BYTES of "
                "the whole vector on\n");
    for (size_t i = 0; i < tuning->count; i++) {
        print_rule(&tuning->rules[i], out);
    }
    gy_text_add(out, "end %zu\n", tuning->count);
}
