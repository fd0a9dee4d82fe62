#include "base/lines.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gy_status gy_line_next(gy_lines *lines)
{
    if (lines->at >= lines->size_bytes) {
        return GY_AGAIN;
    }
    const char *from = lines->text + lines->at;
    const char *end = memchr(from, '\n', lines->size_bytes - lines->at);
    size_t size = end != NULL ? (size_t)(end - from) : lines->size_bytes - lines->at;
    lines->at += size + (end != NULL);
    lines->number++;
    if (size >= GY_LINE_BYTES) {
        return gy_fail(GY_FORMAT, "%zu characters, at most %d", size, GY_LINE_BYTES - 1);
    }
    memcpy(lines->line, from, size);
    lines->line[size] = '\0';
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)lines->line[i] < ' ' && lines->line[i] != '\t') {
            return gy_fail(GY_FORMAT, "character %d is %02x: expected text", (int)i + 1,
                           (unsigned)(unsigned char)lines->line[i]);
        }
    }
    return GY_OK;
}

gy_status gy_line_split(gy_lines *lines)
{
    char *rest = NULL;
    lines->count = 0;
    for (char *word = strtok_r(lines->line, " \t", &rest); word != NULL;
         word = strtok_r(NULL, " \t", &rest)) {
        if (lines->count == GY_LINE_WORDS) {
            return gy_fail(GY_FORMAT, "more than %d words", GY_LINE_WORDS);
        }
        lines->words[lines->count++] = word;
    }
    return GY_OK;
}

gy_status gy_word_number(const char *word, const char *what, double *value)
{
    char *end = NULL;
    *value = strtod(word, &end);
    if (end == word || *end != '\0' || !isfinite(*value) || *value < 0 || *value > 1e12) {
        return gy_fail(GY_FORMAT, "%s is \"%s\", expected a number from 0 to 1e12", what, word);
    }
    return GY_OK;
}

gy_status gy_word_count(const char *word, const char *what, const int64_t range[2],
                        int64_t *value)
{
    char *end = NULL;
    bool is_digit = word[0] >= '0' && word[0] <= '9';
    *value = is_digit ? strtoll(word, &end, 10) : -1;
    if (!is_digit || *end != '\0' || *value < range[0] || *value > range[1]) {
        return gy_fail(GY_FORMAT, "%s is \"%s\", expected an integer from %lld to %lld", what,
                       word, (long long)range[0], (long long)range[1]);
    }
    return GY_OK;
}

gy_status gy_word_index(const char *word, const char *what, const char *const *names, int count,
                        int *index)
{
    char all[256] = "";
    for (*index = 0; *index < count; ++*index) {
        if (strcmp(names[*index], word) == 0) {
            return GY_OK;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof(all) - used, "%s%s", *index > 0 ? ", " : "", names[*index]);
    }
    return gy_fail(GY_FORMAT, "%s is \"%s\", expected one of %s", what, word, all);
}
