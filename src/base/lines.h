/**
 * Text files of one fact a line, read within bounds: lines, their words, what words say. All
 * failures are GY_FORMAT and name what was found and what was expected; who knows the file's
 * name and the line's number puts them in front (gy_fail_within).
 */
#ifndef GY_BASE_LINES_H
#define GY_BASE_LINES_H

#include <gyre/base.h>

enum { GY_LINE_BYTES = 512, GY_LINE_WORDS = 10 };

/** A text as it is read; zero but for text and size at first. */
typedef struct gy_lines {
    const char *text; /* (size_bytes) borrowed */
    size_t size_bytes, at;
    int number;                 /* of the line at hand, from 1 */
    char line[GY_LINE_BYTES];   /* without its end */
    char *words[GY_LINE_WORDS]; /* of the line, after gy_line_split, which cuts it */
    int count;
} gy_lines;

/** Go to the next line. GY_OK; GY_AGAIN there is none; GY_FORMAT it is too long, or holds what
 * is no text. @threads any */
GY_MUST_CHECK gy_status gy_line_next(gy_lines *lines);
/** Cut the line at spaces and tabs. GY_FORMAT more words than GY_LINE_WORDS */
GY_MUST_CHECK gy_status gy_line_split(gy_lines *lines);

/** A number from 0 to 1e12; `what` stands in the failure. */
GY_MUST_CHECK gy_status gy_word_number(const char *word, const char *what, double *value);
/** A whole number from range[0] to range[1]. */
GY_MUST_CHECK gy_status gy_word_count(const char *word, const char *what,
                                      const int64_t range[2], int64_t *value);
/** Which of `count` names it is. */
GY_MUST_CHECK gy_status gy_word_index(const char *word, const char *what,
                                      const char *const *names, int count, int *index);

#endif
