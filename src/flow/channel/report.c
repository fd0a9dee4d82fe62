/* Encodes and decodes reports: sizes and small outputs come first, where one lookup finds
 * them, then the counters. */
#include "base/base.h"
#include "flow/channel/vertex.h"

#include <assert.h>
#include <string.h>

enum { REPORT_INLINE = 1, REPORT_OUTPUTS_MAX = 1 << 20 };

typedef struct report_head {
    uint8_t flags, size_width; /* 2, 4 or 8 bytes for each size */
    uint16_t counter_count;
    uint32_t output_count;
    uint64_t content[2];
    int64_t skipped;
    uint32_t counter_bytes, sample_bytes;
} report_head;

static_assert(sizeof(report_head) == 40, "as it travels");

/* ---- writing ---- */

static bool is_nothing(const gy_vertex *vertex)
{
    bool is_empty =
        vertex->tally_count == 0 && vertex->skipped == 0 && vertex->sample.size_bytes == 0;
    for (uint32_t i = 0; is_empty && i < vertex->order->output_count; i++) {
        /* a final output is a file even when empty */
        is_empty = vertex->outputs[i].size_bytes == 0 &&
                   vertex->order->outputs[i].kind != GY_OUTPUT_FINAL;
    }
    return is_empty;
}

static void add_sizes(const gy_vertex *vertex, uint32_t width, gy_text *out)
{
    for (uint32_t i = 0; i < vertex->order->output_count; i++) {
        uint64_t size = vertex->outputs[i].size_bytes;
        gy_text_add_bytes(out, &size, width); /* little-endian: the low bytes come first */
    }
}

/* Add the end position of each inline output, then the bytes of all of them. */
static void add_inlined(const gy_vertex *vertex, gy_text *out)
{
    uint16_t end = 0;
    for (uint32_t i = 0; i < vertex->order->output_count; i++) {
        bool is_here = vertex->order->outputs[i].kind == GY_OUTPUT_SECTION;
        end = (uint16_t)(end + (is_here ? vertex->outputs[i].size_bytes : 0));
        gy_text_add_bytes(out, &end, sizeof(end));
    }
    for (uint32_t i = 0; i < vertex->order->output_count; i++) {
        if (vertex->order->outputs[i].kind == GY_OUTPUT_SECTION) {
            gy_text_add_bytes(out, gy_section_small(vertex->sections, i),
                              (size_t)vertex->outputs[i].size_bytes);
        }
    }
}

void gy_report_write(const gy_vertex *vertex, const gy_section_sum *sums, bool is_inline,
                     gy_worker_answer *answer)
{
    if (is_nothing(vertex)) {
        return;
    }
    uint64_t largest = 0;
    for (uint32_t i = 0; i < vertex->order->output_count; i++) {
        largest = GY_MAX(largest, vertex->outputs[i].size_bytes);
    }
    gy_key content = gy_section_content(sums, vertex->order->output_count);
    gy_text counters = {.data = NULL};
    for (int i = 0; i < vertex->tally_count; i++) {
        gy_text_add_bytes(&counters, &vertex->tallies[i].value, sizeof(int64_t));
        gy_text_add_bytes(&counters, vertex->tallies[i].name,
                          strlen(vertex->tallies[i].name) + 1);
    }
    report_head head = {
        .flags = is_inline ? REPORT_INLINE : 0,
        .size_width = largest <= UINT16_MAX   ? 2
                      : largest <= UINT32_MAX ? 4
                                              : 8,
        .counter_count = (uint16_t)vertex->tally_count,
        .output_count = vertex->order->output_count,
        .content = {content.high, content.low},
        .skipped = vertex->skipped,
        .counter_bytes = (uint32_t)counters.size_bytes,
        .sample_bytes = (uint32_t)vertex->sample.size_bytes,
    };
    gy_text *out = &answer->report;
    gy_text_add_bytes(out, &head, sizeof(head));
    add_sizes(vertex, head.size_width, out);
    gy_text_add_bytes(out, gy_text_get(&counters), counters.size_bytes);
    gy_text_add_bytes(out, gy_text_get(&vertex->sample), vertex->sample.size_bytes);
    if (is_inline) {
        add_inlined(vertex, out);
    }
    if (counters.status < 0) {
        out->status = counters.status;
    }
    gy_text_free(&counters);
    answer->content = content;
}

/* ---- reading ---- */

static gy_status bad(size_t size_bytes)
{
    return gy_fail(GY_FORMAT, "a report of %zu bytes is malformed", size_bytes);
}

static uint16_t end_at(const gy_report *report, uint32_t output)
{
    uint16_t end;
    memcpy(&end, report->ends + (size_t)output * sizeof(end), sizeof(end));
    return end;
}

static bool are_ends_good(const gy_report *report, size_t left)
{
    uint16_t before = 0;
    for (uint32_t i = 0; i < report->output_count; i++) {
        uint16_t end = end_at(report, i);
        if (end < before) {
            return false;
        }
        before = end;
    }
    return before == left;
}

gy_status gy_report_read(const void *data, size_t size_bytes, gy_report *report)
{
    report_head head;
    if (size_bytes == 0) {
        *report = (gy_report){.is_inline = true};
        return GY_OK;
    }
    if (size_bytes < sizeof(head)) {
        return bad(size_bytes);
    }
    memcpy(&head, data, sizeof(head));
    const unsigned char *at = (const unsigned char *)data + sizeof(head);
    uint64_t sizes = (uint64_t)head.output_count * head.size_width;
    uint64_t ends =
        (head.flags & REPORT_INLINE) != 0 ? (uint64_t)head.output_count * sizeof(uint16_t) : 0;
    uint64_t fixed =
        sizeof(head) + sizes + head.counter_bytes + (uint64_t)head.sample_bytes + ends;
    if (head.flags > REPORT_INLINE || head.output_count > REPORT_OUTPUTS_MAX ||
        (head.size_width != 2 && head.size_width != 4 && head.size_width != 8) ||
        fixed > size_bytes || (ends == 0 && head.output_count > 0 && fixed != size_bytes)) {
        return bad(size_bytes);
    }
    gy_report out = {
        .content = {head.content[0], head.content[1]},
        .is_inline = (head.flags & REPORT_INLINE) != 0,
        .output_count = head.output_count,
        .counter_count = head.counter_count,
        .skipped = head.skipped,
        .size_width = head.size_width,
        .counter_bytes = head.counter_bytes,
        .sample_bytes = head.sample_bytes,
    };
    out.sizes = at;
    out.counters = out.sizes + sizes;
    out.sample = out.counters + head.counter_bytes;
    out.ends = out.counters + head.counter_bytes + head.sample_bytes;
    out.inlined = out.ends + ends;
    if ((out.is_inline && !are_ends_good(&out, size_bytes - (size_t)fixed)) ||
        (head.counter_bytes > 0 && out.counters[head.counter_bytes - 1] != '\0')) {
        return bad(size_bytes);
    }
    *report = out;
    return GY_OK;
}

gy_report_part gy_report_output(const gy_report *report, uint32_t output)
{
    if (report->sizes == NULL || output >= report->output_count) {
        return (gy_report_part){.inlined = report->is_inline ? "" : NULL};
    }
    uint64_t size = 0;
    memcpy(&size, report->sizes + (size_t)output * report->size_width, report->size_width);
    gy_report_part part = {.size_bytes = size};
    if (report->is_inline) {
        uint16_t begin = output > 0 ? end_at(report, output - 1) : 0;
        uint16_t end = end_at(report, output);
        /* no bytes here: an output of another kind, or an empty one */
        part.inlined = (uint64_t)end - begin == size ? report->inlined + begin : NULL;
    }
    return part;
}

bool gy_report_counter(const gy_report *report, size_t *at, gy_counter *counter)
{
    if (report->counter_bytes < *at + sizeof(int64_t) + 1) {
        return false;
    }
    const unsigned char *from = report->counters + *at;
    memcpy(&counter->value, from, sizeof(counter->value));
    counter->name = (const char *)from + sizeof(counter->value);
    *at += sizeof(counter->value) + strlen(counter->name) + 1;
    return true;
}
