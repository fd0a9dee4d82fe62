/* Finds lines that match: fixed strings by memmem over whole texts, regular expressions line
 * by line. */
#include "mapreduce/job.h"

#include "base/base.h"
#include "base/escape.h"
#include "mapreduce/maps/maps.h"

#include <pthread.h>
#include <regex.h>
#include <string.h>

enum {
    IS_FIXED = 1,
    IGNORES_CASE = 2,
    IS_INVERTED = 4,
    IS_COUNTING = 8,
    PATTERN_BYTES = 64 << 10,
    NESTED_MOST = 1000 /* limit of nested groups, because the library recurses */
};

/* The parameter: flags, then the pattern with its NUL. */
typedef struct matcher {
    regex_t expression; /* not for fixed strings */
    char fastmap[256];  /* of the expression: the bytes that a match may begin with */
    bool is_fixed, is_inverted, is_counting;
    const char *pattern;
    size_t size;
    const char *file; /* the file whose name is in `name`; NULL: none yet */
    gy_text name;     /* as it appears in lines of the output */
} matcher;

static void drop_matcher(void *state)
{
    matcher *made = state;
    if (made != NULL && !made->is_fixed) {
        /* not allocated by the library, which must not free it */
        made->expression.fastmap = NULL;
        regfree(&made->expression);
    }
    if (made != NULL) {
        gy_text_free(&made->name);
    }
    gy_free(made);
}

/* Compile an extended expression in which '.' matches any byte, also NUL, as in `grep -a`;
 * regcomp cannot do that. GY_ARG: malformed, with the reason. */
static gy_status compile(regex_t *expression, const char *pattern, bool ignores_case)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    memset(expression, 0, sizeof(*expression));
    (void)pthread_mutex_lock(&lock); /* the library's syntax setting is global to the process */
    const reg_syntax_t before = re_set_syntax((RE_SYNTAX_POSIX_EXTENDED & ~RE_DOT_NOT_NULL) |
                                              RE_NO_SUB | (ignores_case ? RE_ICASE : 0));
    const char *why = re_compile_pattern(pattern, strlen(pattern), expression);
    expression->newline_anchor = 0; /* the text is one line, so '^' matches only at its begin */
    (void)re_set_syntax(before);
    (void)pthread_mutex_unlock(&lock);
    if (why != NULL) {
        return gy_fail(GY_ARG, "pattern '%.200s': %s", pattern, why);
    }
    return GY_OK;
}

static matcher *make_matcher(gy_map *map)
{
    size_t size = 0;
    const char *parameter = gy_map_parameter(map, &size);
    GY_ASSERT(size >= 2 && parameter[size - 1] == '\0');
    matcher *made = gy_alloc_zero("mapreduce.grep", 1, sizeof(*made));
    if (made == NULL) {
        gy_map_keep(map, GY_NOMEM);
        return NULL;
    }
    made->is_fixed = (parameter[0] & IS_FIXED) != 0;
    made->is_inverted = (parameter[0] & IS_INVERTED) != 0;
    made->is_counting = (parameter[0] & IS_COUNTING) != 0;
    made->pattern = parameter + 1;
    made->size = size - 2;
    if (!made->is_fixed) {
        gy_status status =
            compile(&made->expression, made->pattern, (parameter[0] & IGNORES_CASE) != 0);
        if (status < 0) {
            gy_map_keep(map, status);
            gy_free(made);
            return NULL;
        }
        made->expression.fastmap = made->fastmap;
        /* on failure matching works without the fastmap */
        (void)re_compile_fastmap(&made->expression);
    }
    return made;
}

static bool matches(const matcher *with, const char *line, size_t size)
{
    if (with->is_fixed) {
        return memmem(line, size, with->pattern, with->size) != NULL;
    }
    regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)size};
    return regexec(&with->expression, line, 1, &range, REG_STARTEND) == 0;
}

/* Write a file's name at the beginning of a line, with line ends in the name replaced. */
static void emit_name(gy_map *map, matcher *with, const char *file)
{
    if (with->file != file) {
        with->file = file;
        with->name.size_bytes = 0;
        gy_text_add_name(&with->name, file);
    }
    if (with->name.status < 0) {
        gy_map_keep(map, with->name.status);
    } else {
        gy_emit(map, gy_text_get(&with->name), with->name.size_bytes, 1);
    }
}

static void take_line(gy_map *map, matcher *with, const gy_record *record, const char *line,
                      size_t size)
{
    if (with->is_counting) {
        emit_name(map, with, record->file);
    } else {
        gy_map_write(map, line, size);
        gy_map_write(map, "\n", 1);
    }
}

/* Search from match to match, and find the lines around the matches. */
static void grep_fixed(gy_map *map, matcher *with, const gy_record *record)
{
    const char *at = record->data, *end = at + record->size;
    while (at < end) {
        const char *found = memmem(at, (size_t)(end - at), with->pattern, with->size);
        if (found == NULL) {
            return;
        }
        const char *before = memrchr(at, '\n', (size_t)(found - at));
        const char *line = before != NULL ? before + 1 : at;
        const char *after = memchr(found, '\n', (size_t)(end - found));
        const char *last = after != NULL ? after : end;
        const size_t size = gy_line_size(map, line, (size_t)(last - line));
        if (found + with->size <= line + size) { /* a match must not include the line end */
            take_line(map, with, record, line, size);
        }
        at = after != NULL ? after + 1 : end;
    }
}

void gy_map_grep(gy_map *map, const gy_record *record)
{
    void **state = gy_map_state(map, drop_matcher);
    if (*state == NULL) {
        *state = make_matcher(map);
        if (*state == NULL) {
            return;
        }
    }
    matcher *with = *state;
    if (with->is_fixed && !with->is_inverted && with->size > 0) {
        grep_fixed(map, with, record);
        return;
    }
    const char *at = record->data, *end = at + record->size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t whole = (size_t)((newline != NULL ? newline : end) - at);
        const size_t size = gy_line_size(map, at, whole);
        if (matches(with, at, size) != with->is_inverted) {
            take_line(map, with, record, at, size);
        }
        at += whole + (newline != NULL);
    }
}

/* Make an expression that matches the fixed string. */
static void escape(gy_text *out, const char *pattern)
{
    for (; *pattern != '\0'; pattern++) {
        if (strchr("\\.[]{}()*+?^$|", *pattern) != NULL) {
            gy_text_add(out, "\\");
        }
        gy_text_add_bytes(out, pattern, 1);
    }
}

/* The depth of nested groups; also counts parentheses inside brackets. */
static size_t nested_in(const char *pattern)
{
    size_t depth = 0, most = 0;
    for (const char *at = pattern; *at != '\0'; at++) {
        if (*at == '\\' && at[1] != '\0') {
            at++;
        } else if (*at == '(') {
            depth++;
            most = GY_MAX(most, depth);
        } else if (*at == ')' && depth > 0) {
            depth--;
        }
    }
    return most;
}

static gy_status check_pattern(const gy_grep_options *options)
{
    const char *pattern = options->pattern;
    if (pattern == NULL || strlen(pattern) > PATTERN_BYTES) {
        return gy_fail(GY_ARG, pattern == NULL ? "no pattern was given"
                                               : "a pattern of more than 64 KiB");
    }
    if (strchr(pattern, '\n') != NULL) {
        return gy_fail(GY_ARG, "a pattern with a line end matches no line");
    }
    if (!options->is_fixed && nested_in(pattern) > NESTED_MOST) {
        return gy_fail(GY_ARG, "a pattern of %zu groups one in the other: expected at most %d",
                       nested_in(pattern), NESTED_MOST);
    }
    if (!options->is_fixed) {
        regex_t expression;
        GY_TRY(compile(&expression, pattern, options->ignores_case));
        regfree(&expression);
    }
    return GY_OK;
}

gy_status gy_mapreduce_grep_parameter(const gy_grep_options *options, gy_text *parameter)
{
    GY_TRY(check_pattern(options));
    const bool is_fixed = options->is_fixed && !options->ignores_case;
    const char flags =
        (char)((is_fixed ? IS_FIXED : 0) | (options->ignores_case ? IGNORES_CASE : 0) |
               (options->is_inverted ? IS_INVERTED : 0) |
               (options->is_counting ? IS_COUNTING : 0));
    gy_text_add_bytes(parameter, &flags, 1);
    if (options->is_fixed && options->ignores_case) {
        escape(parameter, options->pattern);
    } else {
        gy_text_add_bytes(parameter, options->pattern, strlen(options->pattern));
    }
    gy_text_add_bytes(parameter, "", 1);
    return parameter->status;
}
