/*
 * Goal: regions arrive byte for byte, packed or not, to a file or to one who takes them in his
 * own time; who may not have them, what is cut short or silent, is said; calls do not wait
 * behind them.
 */
#include "rpc/bulk.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "rpc_pair.h"

enum { REGION = 3000000, SKIPPED = 1234 };

typedef struct scene {
    kit_pair pair;
    gy_bulk_server serves;
    int files[2]; /* noise; words, which pack well */
    int into;
    uint64_t cut_bytes; /* the region is said to be longer */
    gy_keyring_who asked;
} scene;

typedef struct outcome {
    int ends, pauses;
    gy_status status;
    uint64_t came, taken;
    char text[512];
    scene *at;
    uint64_t number, announced_bytes;
    char note[GY_BULK_NOTE_BYTES + 1];
    bool is_slow, must_go_on;
    uint8_t *to;
} outcome;

static uint8_t *bytes_of(int which)
{
    static uint8_t bytes[2][SKIPPED + REGION];
    uint64_t key = 9;
    bool is_made = bytes[0][SKIPPED] != 0;
    for (size_t i = 0; !is_made && i < sizeof(bytes[0]); i++) {
        key = key * 6364136223846793005u + 1442695040888963407u;
        bytes[0][i] = (uint8_t)(key >> 56 | 1);
        bytes[1][i] = (uint8_t) "over and over again "[i % 20];
    }
    return bytes[which];
}

/* Pieces of the noise, in another order than there; the second has nothing. */
static const gy_bulk_extent pieces[] = {
    {2000000, 300001}, {5, 0}, {1000, 7}, {SKIPPED, 500000}, {2300001, 1}};
enum { PIECES_BYTES = 300001 + 7 + 500000 + 1 };

static gy_status find_pieces(const scene *at, gy_bulk_region *region)
{
    *region = (gy_bulk_region){.fd = dup(at->files[0]),
                               .is_taken = true,
                               .size_bytes = PIECES_BYTES,
                               .extents = gy_alloc("test", sizeof(pieces)),
                               .extent_count = GY_COUNT(pieces),
                               .note = "these are pieces",
                               .note_bytes = 16};
    memcpy(region->extents, pieces, sizeof(pieces));
    return GY_OK;
}

static gy_status find(void *arg, gy_rpc_role role, const char *subject, const void *name,
                      size_t name_bytes, gy_bulk_region *region)
{
    scene *at = arg;
    at->asked = (gy_keyring_who){.role = role};
    snprintf(at->asked.subject, sizeof(at->asked.subject), "%s", subject);
    if (name_bytes == 6 && memcmp(name, "pieces", 6) == 0) {
        return find_pieces(at, region);
    }
    for (int i = 0; i < 2; i++) {
        const char *known = i == 0 ? "noise" : "words";
        if (name_bytes == 5 && memcmp(name, known, 5) == 0) {
            *region = (gy_bulk_region){.fd = dup(at->files[i]),
                                       .is_taken = true,
                                       .offset = SKIPPED,
                                       .size_bytes = REGION + at->cut_bytes};
            return GY_OK;
        }
    }
    return gy_fail(GY_NOTFOUND, "there is no such output");
}

static void new_node(scene *at, kit_end *end, const char *name, gy_rpc_role role)
{
    gy_rpc_options options = kit_options(end, name, role);
    options.key_file = at->pair.is_plain ? NULL : at->pair.ring;
    options.is_plaintext = at->pair.is_plain;
    options.subject = role == GY_RPC_MANAGER ? "job-1" : NULL;
    options.bulk = role == GY_RPC_DAEMON ? &at->serves : NULL;
    assert_ok(gy_rpc_new(gy_env_real(), &options, &end->rpc));
}

static void open_scene(scene *at, bool is_plain, gy_rpc_role role)
{
    char path[64];
    *at = (scene){0};
    kit_pair_open(&at->pair, gy_env_real(), is_plain);
    at->serves = (gy_bulk_server){.roles = GY_RPC_MAY(GY_RPC_MANAGER), .find = find, .arg = at};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%d", at->pair.folder, i);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        unlink(path);
        if (i < 2) {
            at->files[i] = fd;
            assert_int_equal(write(fd, bytes_of(i), SKIPPED + REGION), SKIPPED + REGION);
        } else {
            at->into = fd;
        }
    }
    new_node(at, &at->pair.server, "a daemon", GY_RPC_DAEMON);
    new_node(at, &at->pair.client, "one who fetches", role);
    assert_ok(gy_rpc_listen(at->pair.server.rpc, "127.0.0.1:0", at->pair.address));
}

static void close_scene(scene *at)
{
    close(at->files[0]);
    close(at->files[1]);
    close(at->into);
    kit_pair_close(&at->pair);
}

static void done(void *arg, gy_status status, uint64_t size_bytes)
{
    outcome *what = arg;
    what->ends++;
    what->status = status;
    what->came = size_bytes;
    snprintf(what->text, sizeof(what->text), "%s", status < 0 ? gy_error_text() : "");
}

static gy_status begun(void *arg, uint64_t size_bytes, const void *note, size_t note_bytes)
{
    outcome *what = arg;
    assert_true(what->announced_bytes == 0 && note_bytes <= GY_BULK_NOTE_BYTES);
    what->announced_bytes = size_bytes;
    memcpy(what->note, note, note_bytes);
    return what->must_go_on ? gy_fail(GY_LIMIT, "no room for it") : GY_OK;
}

/* Every third time it is not wanted yet. */
static gy_status take(void *arg, uint64_t offset, const void *data, size_t size_bytes)
{
    outcome *what = arg;
    if (what->is_slow && what->pauses < 3 * (int)(what->taken / 300000)) {
        what->pauses++;
        what->must_go_on = true;
        return GY_AGAIN;
    }
    assert_true(offset + size_bytes <= REGION);
    memcpy(what->to + offset, data, size_bytes);
    what->taken += size_bytes;
    return GY_OK;
}

static gy_bulk_fetch fetch_of(scene *at, const char *name, outcome *what)
{
    *what = (outcome){.at = at};
    return (gy_bulk_fetch){.address = at->pair.address,
                           .name = name,
                           .name_bytes = strlen(name),
                           .size_bytes = UINT64_MAX,
                           .deadline = gy_deadline_after(20),
                           .fd = at->into,
                           .done = done,
                           .arg = what};
}

/* The receiver that paused goes on. */
static void go_on(scene *at, outcome *what)
{
    if (what->must_go_on) {
        what->must_go_on = false;
        gy_rpc_bulk_go_on(at->pair.client.rpc, what->number);
    }
}

static void wait_for(scene *at, outcome *what)
{
    KIT_TURN_UNTIL(&at->pair, (go_on(at, what), what->ends > 0));
    assert_int_equal(what->ends, 1);
}

static void regions_arrive(bool is_plain)
{
    scene at;
    outcome what;
    int64_t live = gy_alloc_live();
    uint8_t *got = gy_alloc("test", REGION);
    open_scene(&at, is_plain, GY_RPC_MANAGER);
    for (int which = 0; which < 2; which++) {
        for (int is_raw = 0; is_raw < 2; is_raw++) {
            gy_bulk_fetch fetch = fetch_of(&at, which == 0 ? "noise" : "words", &what);
            fetch.at = 77;
            fetch.is_raw = is_raw == 1;
            assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
            wait_for(&at, &what);
            if (what.status != GY_OK) {
                fail_msg("%s", what.text);
            }
            assert_int_equal(what.came, REGION);
            assert_int_equal(pread(at.into, got, REGION, 77), REGION);
            assert_memory_equal(got, bytes_of(which) + SKIPPED, REGION);
            assert_int_equal(ftruncate(at.into, 0), 0);
        }
    }
    /* A part, taken slowly through a small window. */
    gy_bulk_fetch fetch = fetch_of(&at, "words", &what);
    fetch.offset = 500000;
    fetch.size_bytes = 2000001;
    fetch.take = take;
    fetch.window_bytes = 200000;
    memset(got, 0, REGION);
    what.to = got;
    what.is_slow = true;
    assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
    wait_for(&at, &what);
    assert_int_equal(what.status, GY_OK);
    assert_int_equal(what.taken, 2000001);
    assert_true(what.pauses > 10);
    assert_memory_equal(got + 500000, bytes_of(1) + SKIPPED + 500000, 2000001);
    assert_true(got[499999] == 0 && got[2500001] == 0);
    /* Nothing is something as well. */
    fetch = fetch_of(&at, "noise", &what);
    fetch.offset = REGION;
    assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
    wait_for(&at, &what);
    assert_true(what.status == GY_OK && what.came == 0);
    close_scene(&at);
    gy_free(got);
    assert_int_equal(gy_alloc_live(), live);
}

/* Several pieces of a file arrive as one region, from any byte of it on, behind a note. */
GY_TEST(pieces_arrive_as_one)
{
    scene at;
    outcome what;
    static uint8_t got[PIECES_BYTES], whole[PIECES_BYTES];
    static const uint64_t from[] = {0, 1, 300000, 300001, 300005, 300008, 800008, PIECES_BYTES};
    size_t used = 0;
    for (size_t i = 0; i < GY_COUNT(pieces); used += pieces[i++].size_bytes) {
        memcpy(whole + used, bytes_of(0) + pieces[i].offset, pieces[i].size_bytes);
    }
    open_scene(&at, true, GY_RPC_MANAGER);
    for (size_t i = 0; i < GY_COUNT(from); i++) {
        gy_bulk_fetch fetch = fetch_of(&at, "pieces", &what);
        fetch.offset = from[i];
        fetch.begun = begun;
        assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
        wait_for(&at, &what);
        if (what.status != GY_OK) {
            fail_msg("%s", what.text);
        }
        assert_int_equal(what.came, PIECES_BYTES - from[i]);
        assert_int_equal(what.announced_bytes, what.came);
        assert_string_equal(what.note, "these are pieces");
        assert_int_equal(pread(at.into, got, sizeof(got), 0), what.came);
        assert_memory_equal(got, whole + from[i], what.came);
        assert_int_equal(ftruncate(at.into, 0), 0);
    }
    /* Who hears how much it is may not want it. */
    gy_bulk_fetch fetch = fetch_of(&at, "pieces", &what);
    fetch.begun = begun;
    what.must_go_on = true;
    assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
    KIT_TURN_UNTIL(&at.pair, what.ends > 0);
    assert_true(what.status == GY_LIMIT && what.came == 0);
    close_scene(&at);
}

GY_TEST(regions_arrive_under_tls)
{
    regions_arrive(false);
}

GY_TEST(regions_arrive_in_plain_text)
{
    regions_arrive(true);
}

static void expect(scene *at, const gy_bulk_fetch *fetch, outcome *what, gy_status status,
                   const char *text)
{
    assert_ok(gy_rpc_bulk_begin(at->pair.client.rpc, fetch, &what->number));
    wait_for(at, what);
    if (what->status != status || strstr(what->text, text) == NULL) {
        fail_msg("%s: \"%s\", expected \"%s\"", gy_status_text(what->status), what->text, text);
    }
}

GY_TEST(what_fails_is_said)
{
    scene at;
    outcome what;
    open_scene(&at, false, GY_RPC_MANAGER);
    gy_log_set_level(GY_LOG_ERROR);
    gy_bulk_fetch fetch = fetch_of(&at, "nothing", &what);
    expect(&at, &fetch, &what, GY_NOTFOUND, "127.0.0.1:");
    assert_non_null(strstr(what.text, "there is no such output"));
    fetch = fetch_of(&at, "noise", &what);
    fetch.offset = REGION + 1;
    expect(&at, &fetch, &what, GY_ARG, "from byte 3000001 of 3000000");
    at.cut_bytes = 1000; /* the file is shorter than it should be */
    fetch = fetch_of(&at, "noise", &what);
    expect(&at, &fetch, &what, GY_IO, "the file is shorter");
    at.cut_bytes = 0;
    fetch = fetch_of(&at, "noise", &what);
    fetch.deadline = (gy_deadline){1};
    expect(&at, &fetch, &what, GY_TIMEOUT, "by the deadline");
    fetch = fetch_of(&at, "noise", &what);
    fetch.fd = -1;
    expect(&at, &fetch, &what, GY_IO, "cannot be written");
    fetch = fetch_of(&at, "noise", &what);
    assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
    gy_rpc_bulk_cancel(at.pair.client.rpc, what.number);
    assert_int_equal(what.ends, 0);
    wait_for(&at, &what);
    assert_int_equal(what.status, GY_CANCELLED);
    /* The node ends in the middle. */
    fetch = fetch_of(&at, "noise", &what);
    fetch.take = take;
    what.is_slow = true;
    what.taken = REGION; /* it pauses at once */
    assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
    KIT_TURN_UNTIL(&at.pair, what.must_go_on);
    gy_rpc_free(at.pair.client.rpc);
    at.pair.client.rpc = NULL;
    assert_true(what.ends == 1 && what.status == GY_CANCELLED);
    assert_int_equal(at.asked.role, GY_RPC_MANAGER);
    assert_string_equal(at.asked.subject, "job-1");
    /* Somebody else's key. */
    new_node(&at, &at.pair.client, "a user", GY_RPC_SUBMITTER);
    fetch = fetch_of(&at, "noise", &what);
    expect(&at, &fetch, &what, GY_STATE, "a submitter may not fetch");
    gy_rpc_free(at.pair.server.rpc);
    new_node(&at, &at.pair.server, "a daemon", GY_RPC_DAEMON);
    fetch = fetch_of(&at, "noise", &what);
    expect(&at, &fetch, &what, GY_PEER, "Connection refused");
    gy_log_set_level(GY_LOG_WARN);
    close_scene(&at);
}

/* ---- What breaks on the way ---- */

/* What was claimed, and no more, is there and right. */
static void expect_part(const scene *at, const outcome *what, int which, uint64_t least)
{
    struct stat into;
    uint8_t *got = gy_alloc("test", REGION);
    assert_int_equal(fstat(at->into, &into), 0);
    assert_int_equal(into.st_size, what->came);
    assert_true(what->came >= least && what->came < REGION);
    assert_int_equal(pread(at->into, got, REGION, 0), what->came);
    assert_memory_equal(got, bytes_of(which) + SKIPPED, what->came);
    assert_int_equal(ftruncate(at->into, 0), 0);
    gy_free(got);
}

static void expect_cut(scene *at, const outcome *what, const char *address)
{
    assert_int_equal(what->ends, 1);
    if (what->status != GY_PEER || strstr(what->text, address) == NULL) {
        fail_msg("%s after %llu bytes, \"%s\": does it name %s?", gy_status_text(what->status),
                 (unsigned long long)what->came, what->text, address);
    }
    expect_part(at, what, 0, 1);
}

GY_TEST(a_half_is_not_the_whole)
{
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        scene at;
        outcome what;
        kit_middle way;
        open_scene(&at, is_plain == 1, GY_RPC_MANAGER);
        kit_middle_open(&way, at.pair.address);
        /* The connection is cut. */
        gy_bulk_fetch fetch = fetch_of(&at, "noise", &what);
        fetch.address = way.address;
        assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
        KIT_PASS_UNTIL(&at.pair, &way, way.passed > REGION / 2);
        kit_middle_cut(&way);
        KIT_PASS_UNTIL(&at.pair, &way, what.ends > 0);
        expect_cut(&at, &what, way.address);
        /* The peer ends. */
        fetch = fetch_of(&at, "noise", &what);
        fetch.address = way.address;
        fetch.window_bytes = 400000; /* or all could be on its way already */
        assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
        KIT_PASS_UNTIL(&at.pair, &way, way.passed > REGION / 2);
        gy_rpc_free(at.pair.server.rpc);
        at.pair.server.rpc = NULL;
        KIT_PASS_UNTIL(&at.pair, &way, what.ends > 0);
        expect_cut(&at, &what, way.address);
        kit_middle_close(&way);
        close_scene(&at);
    }
}

/* A byte of a chunk is another one when it arrives. */
GY_TEST(a_changed_byte_is_found)
{
    scene at;
    outcome what;
    kit_middle way;
    open_scene(&at, true, GY_RPC_MANAGER);
    kit_middle_open(&way, at.pair.address);
    for (way.spoilt = 100000; way.spoilt < REGION; way.spoilt += 1000000) {
        gy_bulk_fetch fetch = fetch_of(&at, "noise", &what);
        fetch.address = way.address;
        assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
        KIT_PASS_UNTIL(&at.pair, &way, what.ends > 0);
        assert_int_equal(what.status, GY_FORMAT);
        if (strstr(what.text, way.address) == NULL ||
            strstr(what.text, "the checksum of byte") == NULL) {
            fail_msg("\"%s\"", what.text);
        }
        assert_true(what.came <= way.spoilt);
        expect_part(&at, &what, 0, way.spoilt < 200000 ? 0 : way.spoilt - 200000);
    }
    kit_middle_close(&way);
    close_scene(&at);
}

/* Whichever byte of a short, packed transfer it is: never is something else said to be whole.
 */
GY_TEST(no_changed_byte_goes_unseen)
{
    enum { PART = 2000 };
    scene at;
    outcome what;
    kit_middle way;
    uint8_t got[PART];
    uint64_t failed = 0, sums = 0, bytes = 1;
    open_scene(&at, true, GY_RPC_MANAGER);
    kit_middle_open(&way, at.pair.address);
    way.spoilt = UINT64_MAX;
    for (uint64_t i = 0; i <= bytes; i++) {
        gy_bulk_fetch fetch = fetch_of(&at, "words", &what);
        fetch.address = way.address;
        fetch.size_bytes = PART;
        fetch.deadline = gy_deadline_after(i == 0 ? 20 : 0.05); /* a length may grow */
        assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
        KIT_PASS_UNTIL(&at.pair, &way, what.ends > 0);
        failed += what.status != GY_OK;
        sums += strstr(what.text, "the checksum of byte 0") != NULL;
        if (what.status == GY_OK) {
            assert_int_equal(what.came, PART);
            assert_int_equal(pread(at.into, got, PART, 0), PART);
            assert_memory_equal(got, bytes_of(1) + SKIPPED, PART);
            assert_int_equal(ftruncate(at.into, 0), 0);
        }
        bytes = i == 0 ? way.passed : bytes;
        way.spoilt = i;
    }
    assert_true(bytes < PART / 2);
    assert_true(failed > bytes / 10 * 9 && sums > 8); /* 8: the sum itself */
    kit_middle_close(&way);
    close_scene(&at);
}

/* Between two chunks there is room for others. */
GY_TEST(calls_do_not_wait)
{
    scene at;
    outcome what;
    kit_call call;
    open_scene(&at, false, GY_RPC_MANAGER);
    assert_ok(gy_rpc_dial(at.pair.client.rpc, at.pair.address, &at.pair.peer));
    assert_ok(
        kit_ask(at.pair.client.rpc, at.pair.peer, KIT_ECHO, 1, gy_deadline_after(20), &call));
    KIT_TURN_UNTIL(&at.pair, call.ends == 1);
    gy_bulk_fetch fetch = fetch_of(&at, "noise", &what);
    assert_ok(gy_rpc_bulk_begin(at.pair.client.rpc, &fetch, &what.number));
    int calls = 0;
    while (what.ends == 0) {
        assert_ok(kit_ask(at.pair.client.rpc, at.pair.peer, KIT_ECHO, 1, gy_deadline_after(20),
                          &call));
        KIT_TURN_UNTIL(&at.pair, call.ends == 1);
        calls++;
    }
    assert_int_equal(what.status, GY_OK);
    assert_true(calls >= 2);
    close_scene(&at);
}

GY_TEST_MAIN(NULL, NULL)
