/* Places in a source, and errors with the line that they are in. */
#include "dml/syntax/syntax.h"

#include <string.h>

enum { EXCERPT_BYTES = 80 };

void gy_dml_place(const gy_dml_source *source, size_t place, int *line, int *column)
{
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < place && i < source->size; i++) {
        if (source->text[i] == '\n') {
            *line += 1;
            *column = 1;
        } else {
            *column += 1;
        }
    }
}

/* The line around `place`, or the part of it that fits, and a caret under the place. */
static void add_excerpt(const gy_dml_source *source, size_t place, gy_text *text)
{
    place = GY_MIN(place, source->size);
    size_t begin = place, end = place;
    while (begin > 0 && source->text[begin - 1] != '\n' && place - begin < EXCERPT_BYTES / 2) {
        begin--;
    }
    while (end < source->size && source->text[end] != '\n' && end - begin < EXCERPT_BYTES) {
        end++;
    }
    char line[EXCERPT_BYTES + 1];
    for (size_t i = begin; i < end; i++) {
        const unsigned char c = (unsigned char)source->text[i];
        line[i - begin] = ' ';
        if (c >= ' ' && c != 0x7F) {
            line[i - begin] = source->text[i];
        }
    }
    line[end - begin] = '\0';
    char shown[4 * EXCERPT_BYTES];
    gy_printable(shown, sizeof(shown), line, end - begin, "");
    gy_text_add(text, "    %s\n    %*s^\n", shown, (int)(place - begin), "");
}

gy_status gy_dml_refuse(const gy_dml_source *source, size_t place, gy_status status,
                        const char *hint, const char *format, ...)
{
    gy_dml_report *report = source->report;
    char message[GY_ERROR_TEXT_BYTES / 2];
    va_list args;
    va_start(args, format);
    gy_print_list(message, sizeof(message), format, args);
    va_end(args);
    int line = 0, column = 0;
    gy_dml_place(source, place, &line, &column);
    if (report->status == GY_OK) {
        gy_text text = {.data = NULL};
        gy_text_add(&text, "%s:%d:%d: %s\n", source->path, line, column, message);
        add_excerpt(source, place, &text);
        if (hint[0] != '\0') {
            gy_text_add(&text, "hint: %s\n", hint);
        }
        report->status = status;
        gy_text_move(&text, report->text, sizeof(report->text));
    }
    return gy_fail(status, "%s:%d:%d: %s%s%s", source->path, line, column, message,
                   hint[0] != '\0' ? "; " : "", hint);
}
