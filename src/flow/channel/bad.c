/* Decides which records are bad: a record at which two attempts died. Pure: a value and
 * functions. */
#include "base/base.h"
#include "flow/channel/fault_priv.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct named {
    uint32_t task, member;
    gy_flow_record_id place;
    int failures;     /* 1: a suspect record; 2: a bad record */
    uint32_t attempt; /* the attempt that made it bad */
    int signal;
    bool is_timeout;
    char text[GY_FAULT_KEY_BYTES]; /* first bytes of a key */
    char *backtrace;               /* NULL: no datagram arrived */
} named;

struct gy_bad {
    int64_t records_max, count;
    named *items; /* ascending by (task, member, source, offset) */
    size_t item_count, item_capacity;
    gy_flow_record_id
        *places; /* result of gy_bad_of: the bad records alone, in the order of items */
    size_t place_capacity;
    named last; /* the record of the last gy_bad_tell; failures 0: none */
    gy_bad_namer namer;
    void *namer_arg;
};

/** A record as the journal stores it; its backtrace follows. */
typedef struct written {
    uint32_t task, member, source, failures;
    uint64_t offset;
    uint32_t attempt;
    int32_t signal;
    uint32_t is_timeout, backtrace_bytes;
    char text[GY_FAULT_KEY_BYTES];
} written;

gy_bad *gy_bad_new(int64_t records_max)
{
    gy_bad *bad = gy_alloc_zero("flow.bad", 1, sizeof(*bad));
    if (bad != NULL) {
        bad->records_max = records_max;
    }
    return bad;
}

void gy_bad_free(gy_bad *bad)
{
    for (size_t i = 0; bad != NULL && i < bad->item_count; i++) {
        gy_free(bad->items[i].backtrace);
    }
    if (bad != NULL) {
        gy_free(bad->items);
        gy_free(bad->places);
    }
    gy_free(bad);
}

static int compare(const named *a, const named *b)
{
    const uint64_t left[] = {a->task, a->member, a->place.source, a->place.offset};
    const uint64_t right[] = {b->task, b->member, b->place.source, b->place.offset};
    for (size_t i = 0; i < GY_COUNT(left); i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}

/* The index of the first item that is not less than `key`. */
static size_t find(const gy_bad *bad, const named *key)
{
    size_t low = 0, high = bad->item_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&bad->items[middle], key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The entry of that record; a new one has no failures. NULL: out of memory. */
static named *record_of(gy_bad *bad, const named *key)
{
    size_t at = find(bad, key);
    if (at < bad->item_count && compare(&bad->items[at], key) == 0) {
        return &bad->items[at];
    }
    gy_status status = GY_GROW("flow.bad", bad->items, bad->item_capacity, bad->item_count + 1);
    if (status == GY_OK) {
        status = GY_GROW("flow.bad", bad->places, bad->place_capacity, bad->item_count + 1);
    }
    if (status < 0) {
        return NULL;
    }
    memmove(bad->items + at + 1, bad->items + at, (bad->item_count - at) * sizeof(named));
    bad->items[at] = *key;
    bad->item_count++;
    return &bad->items[at];
}

static named key_of(gy_attempt id, uint32_t member, gy_flow_record_id place)
{
    return (named){.task = id.task, .member = member, .place = place};
}

void gy_bad_handle(gy_bad *bad, const gy_crash_report *crash_report)
{
    named key = key_of(crash_report->id, crash_report->member, crash_report->place);
    named *record = record_of(bad, &key);
    if (record == NULL || record->backtrace != NULL) {
        return; /* the list lacks a backtrace, but no decision depends on it */
    }
    gy_text names = {.data = NULL};
    gy_fault_names(crash_report->backtrace, &names);
    if (names.status == GY_OK) {
        record->backtrace = names.data;
    } else {
        gy_text_free(&names);
    }
}

static size_t suspects_of(const gy_bad *bad, const named *of)
{
    size_t count = 0;
    for (size_t i = 0; i < bad->item_count; i++) {
        const named *item = &bad->items[i];
        count += item->task == of->task && item->member == of->member && item->failures == 1;
    }
    return count;
}

static gy_bad_record record_as_told(const named *item)
{
    return (gy_bad_record){.task = item->task,
                           .member = item->member,
                           .place = item->place,
                           .key = item->text,
                           .signal = item->signal,
                           .is_timeout = item->is_timeout,
                           .backtrace = item->backtrace != NULL ? item->backtrace : ""};
}

void gy_bad_name_by(gy_bad *bad, gy_bad_namer namer, void *arg)
{
    bad->namer = namer;
    bad->namer_arg = arg;
}

void gy_bad_key_text(const char *key, gy_text *out)
{
    for (const char *at = key; *at != '\0'; at++) {
        bool is_plain = (unsigned char)*at >= ' ' && *at != 127 && *at != '\'';
        gy_text_add(out, is_plain ? "%c" : "\\x%02x", is_plain ? *at : (unsigned char)*at);
    }
}

void gy_bad_what(const gy_bad_record *record, gy_text *out)
{
    const char *name = sigabbrev_np(record->signal);
    if (record->is_timeout) {
        gy_text_add(out, "took too long");
    } else {
        gy_text_add(out, "SIG%s", name != NULL ? name : "?");
    }
}

static void describe(const gy_bad *bad, const named *item, gy_text *out)
{
    const gy_bad_record record = record_as_told(item);
    const bool is_key = record.place.source == GY_PLACE_KEY;
    if (bad->namer != NULL) {
        bad->namer(bad->namer_arg, &record, out);
    } else {
        gy_text_add(out, "task %u", record.task);
        if (record.member > 0) {
            gy_text_add(out, " member %u", record.member);
        }
        if (!is_key) {
            gy_text_add(out, " input %u", record.place.source);
        }
    }
    if (is_key) {
        gy_text_add(out, " key '");
        gy_bad_key_text(record.key, out);
        gy_text_add(out, "' ");
    } else {
        gy_text_add(out, " offset %llu ", (unsigned long long)record.place.offset);
    }
    gy_bad_what(&record, out);
}

static gy_cause too_many(const gy_bad *bad, const named *record)
{
    char text[320];
    gy_text words = {.data = NULL};
    describe(bad, record, &words);
    if (bad->records_max == 0) {
        (void)gy_fail(GY_LIMIT,
                      "a bad record, met twice: %s; none may be skipped (bad_records_max)",
                      gy_text_move(&words, text, sizeof(text)));
    } else {
        (void)gy_fail(GY_LIMIT, "more than %lld bad record%s (bad_records_max), the last: %s",
                      (long long)bad->records_max, bad->records_max == 1 ? "" : "s",
                      gy_text_move(&words, text, sizeof(text)));
    }
    return GY_CAUSE_FATAL;
}

/* A vertex dies with SIGBUS when the user's file under its mapping was shortened. The board
 * has only the end of the file's path; the namer knows the whole path. */
static gy_cause tell_mapped(const gy_bad *bad, gy_attempt id, uint32_t member,
                            const gy_fault_board *board, gy_cause cause)
{
    if (atomic_load_explicit(&board->mapped, memory_order_acquire) != GY_MAPPED_PLAIN) {
        /* an intermediate file: the next attempt finds it damaged and reports a lost input */
        return cause;
    }
    char text[GY_FAULT_KEY_BYTES];
    memcpy(text, board->text, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    gy_text words = {.data = NULL};
    const uint32_t input = atomic_load_explicit(&board->input, memory_order_relaxed);
    if (bad->namer != NULL) {
        const gy_bad_record record = {
            .task = id.task, .member = member, .place = {.source = input}};
        bad->namer(bad->namer_arg, &record, &words);
    } else {
        gy_text_add(&words, "input %u (%s%s)", input,
                    strlen(text) == sizeof(text) - 1 ? "…" : "", text);
    }
    (void)gy_fail(GY_STATE,
                  "%s changed while it was read (it became shorter): run the job again, on a "
                  "copy if the file keeps changing",
                  gy_text_get(&words));
    gy_text_free(&words);
    return GY_CAUSE_FATAL;
}

bool gy_bad_is_told(const void *board)
{
    return atomic_load_explicit(&((const gy_fault_board *)board)->signal,
                                memory_order_acquire) != 0;
}

gy_cause gy_bad_tell(gy_bad *bad, gy_attempt id, uint32_t member, const void *left_board,
                     gy_cause cause)
{
    const gy_fault_board *board = left_board;
    bad->last.failures = 0;
    int number = atomic_load_explicit(&board->signal, memory_order_acquire);
    if (number == 0) {
        return cause; /* the process did not die of this vertex's own work */
    }
    if (atomic_load_explicit(&board->mapped, memory_order_relaxed) != 0) {
        return tell_mapped(bad, id, member, board, cause);
    }
    if (atomic_load_explicit(&board->has_place, memory_order_relaxed) == 0) {
        return cause;
    }
    gy_flow_record_id place = {atomic_load_explicit(&board->source, memory_order_relaxed),
                               atomic_load_explicit(&board->offset, memory_order_relaxed)};
    named key = key_of(id, member, place);
    named *record = record_of(bad, &key);
    if (record == NULL) {
        return cause;
    }
    /* the attempt began before the record was bad, or its function does not skip records */
    if (record->failures >= 2) {
        return id.attempt <= record->attempt ? GY_CAUSE_NEW_BAD_RECORD : cause;
    }
    record->failures++;
    record->signal = number;
    record->is_timeout = atomic_load_explicit(&board->is_timeout, memory_order_relaxed) != 0;
    memcpy(record->text, board->text, sizeof(record->text));
    record->text[sizeof(record->text) - 1] = '\0';
    bad->last = *record;
    if (record->failures == 1) {
        return suspects_of(bad, record) <= GY_BAD_SUSPECTS_MAX ? GY_CAUSE_NEW_BAD_RECORD
                                                               : cause;
    }
    bad->count++;
    record->attempt = id.attempt;
    bool is_one_too_many = bad->records_max >= 0 && bad->count > bad->records_max;
    return is_one_too_many ? too_many(bad, record) : GY_CAUSE_NEW_BAD_RECORD;
}

void gy_bad_write_last(const gy_bad *bad, gy_text *out)
{
    if (bad->last.failures == 0) {
        return;
    }
    const named *from = &bad->items[find(bad, &bad->last)];
    const char *backtrace = from->backtrace != NULL ? from->backtrace : "";
    written to = {.task = from->task,
                  .member = from->member,
                  .source = from->place.source,
                  .failures = (uint32_t)from->failures,
                  .offset = from->place.offset,
                  .attempt = from->attempt,
                  .signal = from->signal,
                  .is_timeout = from->is_timeout,
                  .backtrace_bytes = (uint32_t)strlen(backtrace)};
    memcpy(to.text, from->text, sizeof(to.text));
    gy_text_add_bytes(out, &to, sizeof(to));
    gy_text_add_bytes(out, backtrace, to.backtrace_bytes);
}

gy_status gy_bad_learn(gy_bad *bad, const void *data, size_t size_bytes)
{
    written from;
    const char *bytes = data;
    if (size_bytes < sizeof(from)) {
        return gy_fail(GY_FORMAT, "a bad record of %zu bytes", size_bytes);
    }
    memcpy(&from, data, sizeof(from));
    if (from.backtrace_bytes != size_bytes - sizeof(from) || from.failures < 1 ||
        from.failures > 2 || memchr(from.text, '\0', sizeof(from.text)) == NULL) {
        return gy_fail(GY_FORMAT, "a bad record of %zu bytes with %u failures", size_bytes,
                       from.failures);
    }
    named key = {.task = from.task,
                 .member = from.member,
                 .place = {.source = from.source, .offset = from.offset}};
    named *record = record_of(bad, &key);
    if (record == NULL) {
        return GY_NOMEM;
    }
    bad->count += record->failures < 2 && from.failures == 2;
    record->failures = (int)from.failures;
    record->attempt = from.attempt;
    record->signal = from.signal;
    record->is_timeout = from.is_timeout != 0;
    memcpy(record->text, from.text, sizeof(record->text));
    if (record->backtrace == NULL && from.backtrace_bytes > 0) {
        gy_text text = {.data = NULL};
        gy_text_add(&text, "%.*s", (int)from.backtrace_bytes, bytes + sizeof(from));
        GY_TRY(text.status);
        record->backtrace = text.data;
    }
    return GY_OK;
}

const gy_flow_record_id *gy_bad_of(const gy_bad *bad, uint32_t task, uint32_t member,
                                   size_t *count)
{
    named key = {.task = task, .member = member};
    *count = 0;
    for (size_t i = find(bad, &key); i < bad->item_count; i++) {
        const named *item = &bad->items[i];
        if (item->task != task || item->member != member) {
            break;
        }
        if (item->failures >= 2) {
            bad->places[(*count)++] = item->place;
        }
    }
    return bad->places;
}

int64_t gy_bad_count(const gy_bad *bad)
{
    return bad->count;
}

bool gy_bad_get(const gy_bad *bad, int64_t index, gy_bad_record *record)
{
    for (size_t i = 0; i < bad->item_count; i++) {
        if (bad->items[i].failures >= 2 && index-- == 0) {
            *record = record_as_told(&bad->items[i]);
            return true;
        }
    }
    return false;
}

bool gy_bad_last(const gy_bad *bad, gy_text *out, bool *is_bad)
{
    if (bad->last.failures == 0) {
        return false;
    }
    describe(bad, &bad->last, out);
    *is_bad = bad->last.failures >= 2;
    return true;
}

void gy_bad_list(const gy_bad *bad, gy_text *out)
{
    for (size_t i = 0; i < bad->item_count; i++) {
        const named *record = &bad->items[i];
        if (record->failures < 2) {
            continue;
        }
        describe(bad, record, out);
        gy_text_add(out, "\n");
        for (const char *at = record->backtrace; at != NULL && *at != '\0';) {
            const char *end = strchrnul(at, '\n');
            gy_text_add(out, "    %.*s\n", (int)(end - at), at);
            at = *end != '\0' ? end + 1 : end;
        }
    }
}
