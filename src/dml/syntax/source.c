/* Places in a source, and errors with the line that they are in. */
#include "dml/syntax/syntax.h"

#include "base/text.h"

void gy_dml_place(const gy_dml_source *source, size_t place, int *line, int *column)
{
    gy_text_place(source->text, source->size, place, line, column);
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
        gy_text_add_excerpt(&text, source->text, source->size, place);
        if (hint[0] != '\0') {
            gy_text_add(&text, "hint: %s\n", hint);
        }
        report->status = status;
        gy_text_move(&text, report->text, sizeof(report->text));
    }
    return gy_fail(status, "%s:%d:%d: %s%s%s", source->path, line, column, message,
                   hint[0] != '\0' ? "; " : "", hint);
}
