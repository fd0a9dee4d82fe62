#include "base/text.h"
#include "launch/launch_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Write a whole line with its prefix in one call, so that lines of two ranks never mix. */
static void write_line(gy_launch_lines *lines, const char *text, size_t size_bytes)
{
    char out[GY_LINE_BYTES + 32];
    size_t used = gy_print(out, sizeof(out), "[%d] ", lines->rank);
    memcpy(out + used, text, size_bytes);
    size_t size = used + size_bytes, done = 0;
    out[size++] = '\n';
    while (done < size && lines->failure == 0) {
        ssize_t written = write(lines->to, out + done, size - done);
        if (written < 0 && errno != EINTR) {
            lines->failure = errno; /* the keeper checks it, and ends the launch */
        }
        done += written > 0 ? (size_t)written : 0;
    }
}

/* More than a pipe holds, so one call empties that of a dead rank. */
enum { PIECES_AT_ONCE = 17 };

static void end_line(gy_launch_lines *lines)
{
    write_line(lines, lines->line, lines->size_bytes);
    if (lines->size_bytes > 0) {
        memcpy(lines->last, lines->line, lines->size_bytes);
        lines->last[GY_MIN(lines->size_bytes, (size_t)GY_LINE_BYTES - 1)] = '\0';
    }
    lines->size_bytes = 0;
}

void gy_launch_lines_pass(gy_launch_lines *lines)
{
    char bytes[4096];
    /* Bounded, so that a rank that floods its pipe does not delay the other ranks and signals.
     */
    for (int piece = 0; piece < PIECES_AT_ONCE && lines->from >= 0; piece++) {
        ssize_t size = read(lines->from, bytes, sizeof(bytes));
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size < 0 && errno == EAGAIN) {
            return;
        }
        if (size <= 0) {
            if (lines->size_bytes > 0) {
                end_line(lines);
            }
            close(lines->from);
            lines->from = -1;
            return;
        }
        for (ssize_t i = 0; i < size; i++) {
            if (bytes[i] == '\n') {
                end_line(lines);
                continue;
            }
            if (lines->size_bytes == GY_LINE_BYTES) {
                end_line(lines);
            }
            lines->line[lines->size_bytes++] = bytes[i];
        }
    }
}
