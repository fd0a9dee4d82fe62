/* Goal: a table behaves as a serial one, with each backend. With a real etcd of three members,
 * whichever of them are stopped or killed: no store reported as stored is lost, no store
 * reported as not stored appears later, and one candidate leads. */
#include "table_kit.h"

#include <sys/stat.h>

#include "etcd_kit.h"
#include "way_kit.h"

enum { TOKEN_S = 3, LEASE_S = 2 };

static kit_etcd etcd;
static char folder[64], password[96];

/* TLS with client certificates, users, and tokens valid for TOKEN_S seconds. */
static int set_up(void **state)
{
    (void)state;
    static char quota[16];
    static char *more[] = {"--quota-backend-bytes", quota, NULL};
    snprintf(quota, sizeof(quota), "%d", (getenv("GYRE_SOAK") != NULL ? 48 : 5) << 20);
    kit_etcd_start_secured(&etcd, TOKEN_S, more);
    /* all in base64: t/odd/fence: gyre table 2; t/bad/record/0: x */
    kit_etcd_manage(&etcd, "/v3/kv/put",
                    "{\"key\":\"dC9vZGQvZmVuY2U=\",\"value\":\"Z3lyZSB0YWJsZSAy\"}");
    kit_etcd_manage(&etcd, "/v3/kv/put",
                    "{\"key\":\"dC9iYWQvcmVjb3JkLzA=\",\"value\":\"eA==\"}");
    kit_etcd_add_users(&etcd);
    snprintf(folder, sizeof(folder), "/tmp/gyre-table-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(password, sizeof(password), "%s/password", folder);
    const int file = open(password, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(file, "se\"cret\n", 8), 8);
    close(file);
    return 0;
}

/* Options for table t/NAME as its user. Valid until the next call. */
static gy_persist_table_options in_etcd(const char *name)
{
    static char where[512], prefix[64];
    snprintf(prefix, sizeof(prefix), "t/%s", name);
    return (gy_persist_table_options){.where = kit_etcd_where(&etcd, prefix, where),
                                      .user = "gyre",
                                      .password_file = password,
                                      .authorities = etcd.authorities,
                                      .certificate = etcd.certificate,
                                      .certificate_key = etcd.key};
}

static gy_persist_table_options in_file(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s.db", folder, name);
    return (gy_persist_table_options){.where = path};
}

static int tear_down(void **state)
{
    (void)state;
    kit_etcd_stop(&etcd);
    return gy_disk_remove_tree(folder);
}

static gy_key key_of(uint64_t number)
{
    return (gy_key){number * UINT64_C(0x9e3779b97f4a7c15), number};
}

/* ---- a leader that stays ---- */

static kit_table steady;
static int64_t steady_ns;

static void a_candidate_is_elected(void **state)
{
    (void)state;
    gy_persist_table_options options = in_etcd("steady");
    options.lease_s = LEASE_S;
    kit_open(&steady, &options);
    assert_int_equal(kit_store(&steady, key_of(1), 0, "x", 1), GY_OK);
    assert_ok(gy_persist_table_campaign(steady.table, "names", "a:1"));
    KIT_UNTIL(&steady, NULL, steady.is_elected);
    steady_ns = gy_now_ns(gy_env_real());
}

/* Checked after other tests, and in any case after its first lease. */
static void it_leads_longer_than_its_lease(void **state)
{
    (void)state;
    bool is_kept = false;
    for (int tries = 0; tries < 3 && !is_kept; tries++) { /* etcd itself may be unavailable */
        KIT_UNTIL(&steady, NULL, steady.is_elected);
        const int64_t from_ns = tries == 0 ? steady_ns : gy_now_ns(gy_env_real());
        const gy_deadline later = {from_ns + LEASE_S * INT64_C(1000000000) + 50000000};
        const int changes = tries == 0 ? 1 : (int)steady.changes;
        do {
            (void)gy_persist_table_turn(steady.table, later);
        } while (gy_now_ns(gy_env_real()) < later.at_ns);
        is_kept = steady.is_elected && (int)steady.changes == changes;
    }
    assert_true(is_kept);
    gy_persist_table_resign(steady.table);
}

/* Late in the program, so that the token has nearly expired. */
static void a_token_that_is_over_is_renewed(void **state)
{
    (void)state;
    const gy_deadline later = {steady_ns + TOKEN_S * INT64_C(1000000000) + 100000000};
    do {
        (void)gy_persist_table_turn(steady.table, later);
    } while (gy_now_ns(gy_env_real()) < later.at_ns);
    assert_int_equal(kit_store(&steady, key_of(1), 1, "y", 1), GY_OK);
    kit_close(&steady);
}

/* ---- a serial table as the oracle ---- */

enum { KEYS = 8, ROUND = 4, ROUNDS = 40 };

typedef struct oracle {
    uint64_t versions[KEYS];
    size_t sizes[KEYS];
    uint8_t bytes[KEYS];
} oracle;

typedef struct planned {
    size_t key, size;
    uint64_t version;
    uint8_t byte;
    gy_status expected;
} planned;

/* A random store, mostly with the right version, and its effect on the oracle. */
static planned plan_store(oracle *serial, gy_random *random, size_t key)
{
    planned plan = {.key = key, .byte = (uint8_t)(1 + gy_random_below(random, 255))};
    plan.version = serial->versions[key];
    if (gy_random_below(random, 4) == 0) {
        plan.version = gy_random_below(random, 4);
    }
    plan.size = gy_random_below(random, 5) == 0 ? 0 : 1 + gy_random_below(random, 3000);
    if (plan.version == 0 && plan.size == 0) {
        plan.size = 1; /* removing a missing record is no store */
    }
    plan.expected = plan.version == serial->versions[key] ? GY_OK : GY_MISMATCH;
    if (plan.expected == GY_OK) {
        serial->versions[key] = plan.size > 0 ? plan.version + 1 : 0;
        serial->sizes[key] = plan.size;
        serial->bytes[key] = plan.byte;
    }
    return plan;
}

static void check_against(kit_table *kit, const oracle *serial)
{
    static kit_loaded loaded;
    kit_load(kit, &loaded);
    size_t count = 0;
    for (size_t i = 0; i < KEYS; i++) {
        const kit_record *record = kit_find(&loaded, key_of(i));
        assert_true((record != NULL) == (serial->versions[i] > 0));
        if (record != NULL) {
            count++;
            assert_true(record->version == serial->versions[i] &&
                        record->size == serial->sizes[i] && record->first == serial->bytes[i] &&
                        record->last == serial->bytes[i]);
        }
    }
    assert_int_equal(loaded.count, count);
}

static void compare_with_oracle(gy_persist_table_options options)
{
    gy_random random = {.key = gy_test_seed()};
    oracle serial = {.versions = {0}};
    static kit_table kits[2];
    for (int i = 0; i < 2; i++) {
        kit_open(&kits[i], &options);
    }
    const long rounds = gy_test_cases(ROUNDS);
    for (long round = 0; round < rounds; round++) {
        planned plans[2][ROUND];
        size_t key = gy_random_below(&random, KEYS);
        for (size_t i = 0; i < (size_t)2 * ROUND;
             i++) { /* different keys: any order is serial */
            static uint8_t data[3001];
            planned *plan = &plans[i % 2][i / 2];
            *plan = plan_store(&serial, &random, (key + i) % KEYS);
            memset(data, plan->byte, plan->size);
            if (i < 2) {
                kits[i].told = kits[i].begun = 0;
            }
            kit_begin(&kits[i % 2], key_of(plan->key), plan->version, data, plan->size);
        }
        for (size_t i = 0; i < (size_t)2 * ROUND; i++) {
            kit_settle(&kits[i % 2]);
            const planned *plan = &plans[i % 2][i / 2];
            for (size_t j = 0; j < ROUND; j++) {
                const kit_outcome *told = &kits[i % 2].outcomes[j];
                if (told->key.low == plan->key &&
                    (told->version != plan->version || told->status != plan->expected)) {
                    fail_msg("round %ld: key %zu version %llu gave %s", round, plan->key,
                             (unsigned long long)plan->version, gy_status_text(told->status));
                }
            }
        }
        if (round % 16 == 0 || round == rounds - 1) {
            check_against(&kits[round / 16 % 2], &serial);
        }
    }
    kit_close(&kits[0]);
    kit_close(&kits[1]);
}

static void both_places_are_serial(void **state)
{
    (void)state;
    compare_with_oracle(in_file("serial"));
    compare_with_oracle(in_etcd("serial"));
}

/* Two tables race for each version of one record: one of them wins each. */
static void race_for_versions(gy_persist_table_options options)
{
    static kit_table kits[2];
    for (int i = 0; i < 2; i++) {
        kit_open(&kits[i], &options);
    }
    const long rounds = gy_test_cases(40);
    int wins[2] = {0, 0};
    for (long version = 0; version < rounds; version++) {
        for (int i = 0; i < 2; i++) {
            kits[i].told = kits[i].begun = 0;
            kit_begin(&kits[i], key_of(1), (uint64_t)version, &i, sizeof(i));
        }
        for (int i = 0; i < 2; i++) {
            kit_settle(&kits[i]);
            const gy_status status = kits[i].outcomes[0].status;
            assert_true(status == GY_OK || status == GY_MISMATCH);
            wins[i] += status == GY_OK;
        }
        assert_int_equal(wins[0] + wins[1], version + 1);
    }
    printf("%d and %d of %ld\n", wins[0], wins[1], rounds);
    kit_close(&kits[0]);
    kit_close(&kits[1]);
}

static void one_of_two_wins_each_version(void **state)
{
    (void)state;
    race_for_versions(in_file("race"));
    race_for_versions(in_etcd("race"));
}

/* More records than a page has, and long ones. */
static void many_records_are_loaded(void **state)
{
    (void)state;
    enum { MANY = 200 };
    static kit_table kit;
    const gy_persist_table_options options = in_etcd("many");
    kit_open(&kit, &options);
    static uint8_t data[GY_TABLE_RECORD_BYTES];
    for (uint64_t i = 0; i < MANY; i++) {
        const size_t size = i == 7 ? sizeof(data) : 1 + i;
        memset(data, (int)(1 + i), size);
        kit_begin(&kit, key_of(i), 0, data, size);
    }
    kit_settle(&kit);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(kit.outcomes[i].status, GY_OK);
    }
    kit_close(&kit);
    kit_open(&kit, &options);
    static kit_loaded loaded;
    kit_load(&kit, &loaded);
    assert_int_equal(loaded.count, MANY);
    for (uint64_t i = 0; i < MANY; i++) {
        const kit_record *record = kit_find(&loaded, key_of(i));
        assert_non_null(record);
        assert_true(record->version == 1 && record->last == (uint8_t)(1 + i) &&
                    record->size == (i == 7 ? sizeof(data) : 1 + i));
    }
    kit_close(&kit);
}

/* ---- refused options ---- */

static void refuse(const gy_persist_table_options *options, gy_status status, const char *words)
{
    kit_table kit;
    assert_status(kit_try_open(&kit, options), status);
    if (strstr(gy_error_text(), words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", gy_error_text(), words);
    }
}

static void what_is_no_table_is_refused(void **state)
{
    (void)state;
    gy_persist_table_options options = in_etcd("odd");
    refuse(&options, GY_UNSUPPORTED, "t/odd/fence is of another version");
    options.password_file = NULL;
    refuse(&options, GY_ARG, "one alone");
    options = in_etcd("x");
    options.certificate_key = NULL;
    refuse(&options, GY_ARG, "one alone");
    options.where = "etcd:http://127.0.0.1:1";
    options.certificate = NULL;
    refuse(&options, GY_ARG, "without TLS");
    options = (gy_persist_table_options){.where = "etcd:http://127.0.0.1:1,10.9.9.1:2379",
                                         .user = "gyre",
                                         .password_file = password,
                                         .is_plaintext = true,
                                         .patience_s = 0.1};
    refuse(&options, GY_ARG, "user and password would cross the network in plain text");
    options.user = options.password_file = NULL;
    options.is_plaintext = false;
    refuse(&options, GY_ARG, "expected \"etcd:https://\"");
    int nobody[1];
    char where[64];
    kit_find_ports(nobody, 1);
    snprintf(where, sizeof(where), "etcd:http://127.0.0.1:%d", nobody[0]);
    refuse(&(gy_persist_table_options){.where = where, .patience_s = 0.1}, GY_TIMEOUT,
           "no answer");
    options = in_etcd("bad");
    static kit_table kit;
    static kit_loaded loaded;
    kit_open(&kit, &options);
    loaded.count = 0;
    assert_status(gy_persist_table_load(kit.table, kit_keep, &loaded), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "t/bad/record/0 is of no record"));
    kit_close(&kit);
}

static void who_may_not_is_refused(void **state)
{
    (void)state;
    char other[160], key[160];
    gy_persist_table_options options = in_etcd("x");
    options.user = NULL;
    options.password_file = NULL;
    refuse(&options, GY_STATE, "user name is empty");
    snprintf(other, sizeof(other), "%s/other", folder);
    const int file = open(other, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(file, "wrong", 5), 5);
    options.user = "gyre";
    options.password_file = other;
    refuse(&options, GY_STATE, "authentication failed");
    assert_int_equal(fchmod(file, 0644), 0);
    close(file);
    refuse(&options, GY_STATE, "may be read by others");
    options = in_etcd("x");
    options.where = kit_etcd_where(&etcd, "other", (char[512]){""});
    refuse(&options, GY_STATE, "permission denied");
    options = in_etcd("x");
    options.authorities = NULL;
    refuse(&options, GY_IO, "certificate");
    options = in_etcd("x");
    options.patience_s = 0.1; /* a server that refuses the certificate gives no error text */
    options.certificate = options.certificate_key = NULL;
    kit_table kit;
    assert_int_not_equal(kit_try_open(&kit, &options), GY_OK);
    options = in_etcd("x");
    snprintf(other, sizeof(other), "%s/named.pem", etcd.folder);
    snprintf(key, sizeof(key), "%s/named.key", etcd.folder);
    options.certificate = other;
    options.certificate_key = key;
    refuse(&options, GY_ARG, "has the common name \"gyre\", which etcd's JSON gateway");
}

/* ---- members that die and stop ---- */

/* As in_etcd, with this member asked first. */
static gy_persist_table_options first_asked(int first, const char *name)
{
    static char where[512];
    char prefix[64];
    gy_persist_table_options options = in_etcd(name);
    kit_etcd turned = etcd;
    for (int i = 0; i < etcd.count; i++) {
        turned.ports[i] = etcd.ports[(first + i) % etcd.count];
    }
    snprintf(prefix, sizeof(prefix), "t/%s", name);
    options.where = kit_etcd_where(&turned, prefix, where);
    return options;
}

static double seconds_since(int64_t began)
{
    return (double)(gy_now_ns(gy_env_real()) - began) * 1e-9;
}

static void no_store_is_lost_when_the_leader_dies(void **state)
{
    (void)state;
    if (getenv("GYRE_SOAK") == NULL) {
        return; /* the later points are no easier, and half a second each is expensive */
    }
    static kit_table kit;
    const int leader = kit_etcd_leader(&etcd, 0);
    const gy_persist_table_options options = first_asked(leader, "killed");
    kit_open(&kit, &options);
    enum { STORES = 120, KILLED_AT = 40 };
    double longest = 0;
    for (uint64_t i = 0; i < STORES; i++) {
        if (i == KILLED_AT) { /* while stores are under way */
            kit_etcd_kill(&etcd, leader);
        }
        const int64_t began = gy_now_ns(gy_env_real());
        kit_begin(&kit, key_of(i), 0, &i, sizeof(i));
        kit_begin(&kit, key_of(i + STORES), 0, &i, sizeof(i));
        while (kit.told + 6 < kit.begun) {
            (void)gy_persist_table_turn(kit.table, gy_deadline_after(20));
        }
        longest = GY_MAX(longest, seconds_since(began));
    }
    kit_settle(&kit);
    for (size_t i = 0; i < kit.told; i++) {
        assert_int_equal(kit.outcomes[i].status, GY_OK);
    }
    static kit_loaded loaded;
    kit_load(&kit, &loaded);
    assert_int_equal(loaded.count, 2 * STORES);
    printf("the leader killed: stores stood still for %.2f s\n", longest);
    assert_true(longest < 8);
    kit_close(&kit);
    kit_etcd_start_member(&etcd, leader);
    (void)kit_etcd_leader(&etcd, leader);
}

/* As in_etcd, but with a proxy to member 0 before the other endpoints. */
static void open_through(kit_table *kit, kit_way *way, const char *name)
{
    char where[512], prefix[64];
    kit_etcd first = etcd;
    gy_persist_table_options options = in_etcd(name);
    kit_way_start(way, etcd.ports[0]);
    first.ports[0] = way->port;
    snprintf(prefix, sizeof(prefix), "t/%s", name);
    options.where = kit_etcd_where(&first, prefix, where);
    kit_open(kit, &options);
    /* The table has a connection now. */
    assert_int_equal(kit_store(kit, key_of(0), 0, "x", 1), GY_OK);
    kit->told = kit->begun = 0;
}

/* One table's store loses its answer. Another's is delayed, and arrives after a second try
 * stored the record and it was removed again. The first must stay stored; the second must not
 * reappear. */
static void what_was_sent_is_done_once_and_not_later(void **state)
{
    (void)state;
    static kit_table mute, late;
    static kit_way ways[2];
    static kit_loaded loaded;
    open_through(&mute, &ways[0], "mute");
    open_through(&late, &ways[1], "sent");
    kit_way_set(&ways[0], KIT_WAY_MUTE);
    kit_way_set(&ways[1], KIT_WAY_HOLD);
    for (uint64_t i = 1; i < 4; i++) {
        kit_begin(&mute, key_of(i), 0, "mute", 4);
        kit_begin(&late, key_of(i), 0, "late", 4);
    }
    kit_settle(&mute);
    kit_settle(&late);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mute.outcomes[i].status, GY_OK);
        assert_int_equal(late.outcomes[i].status, GY_OK);
    }
    for (uint64_t i = 1; i < 4; i++) {
        assert_int_equal(kit_store(&late, key_of(i), 1, NULL, 0), GY_OK);
    }
    kit_way_set(&ways[1], KIT_WAY_OPEN);
    KIT_UNTIL(&late, NULL, __atomic_load_n(&ways[1].late_bytes, __ATOMIC_ACQUIRE) > 0);
    kit_load(&late, &loaded);
    assert_int_equal(loaded.count, 1);
    kit_way_set(&ways[0], KIT_WAY_OPEN);
    kit_load(&mute, &loaded);
    assert_int_equal(loaded.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(loaded.records[i].version, 1);
    }
    kit_close(&mute);
    kit_close(&late);
    kit_way_stop(&ways[0]);
    kit_way_stop(&ways[1]);
}

/* Each answer of this etcd takes longer than the first try's timeout. */
static void a_slow_etcd_is_waited_for(void **state)
{
    (void)state;
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    static kit_table kit;
    static kit_way way;
    char where[512];
    kit_etcd only = etcd;
    gy_persist_table_options options = in_etcd("slow");
    kit_way_start(&way, etcd.ports[0]);
    only.ports[0] = way.port;
    only.count = 1;
    options.where = kit_etcd_where(&only, "t/slow", where);
    kit_open(&kit, &options);
    kit_way_set(&way, KIT_WAY_SLOW);
    const int64_t began = gy_now_ns(gy_env_real());
    assert_ok(gy_persist_table_campaign(kit.table, "names", "a:1"));
    KIT_UNTIL(&kit, NULL, kit.is_elected);
    printf("soak: elected in a slow etcd after %.2f s\n", seconds_since(began));
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(kit_store(&kit, key_of(i), 0, "x", 1), GY_OK);
    }
    assert_true(kit.is_elected && kit.changes == 1);
    kit_way_set(&way, KIT_WAY_OPEN);
    kit_close(&kit);
    kit_way_stop(&way);
}

/* A request to a stopped member may be applied when the member resumes. */
static void a_late_store_never_comes_back(void **state)
{
    (void)state;
    static kit_table kit;
    static kit_loaded loaded;
    const int leader = kit_etcd_leader(&etcd, 0);
    const gy_persist_table_options options = first_asked(leader, "late");
    kit_open(&kit, &options);
    assert_int_equal(kit_store(&kit, key_of(0), 0, "x", 1), GY_OK);
    kit_etcd_freeze(&etcd, leader);
    const int64_t began = gy_now_ns(gy_env_real());
    for (uint64_t i = 1; i < 5; i++) {
        kit_begin(&kit, key_of(i), 0, "late", 4);
    }
    kit_settle(&kit);
    const double stood_s = seconds_since(began);
    for (size_t i = 0; i < kit.told; i++) {
        assert_int_equal(kit.outcomes[i].status, GY_OK);
    }
    for (uint64_t i = 1; i < 5; i++) {
        assert_int_equal(kit_store(&kit, key_of(i), 1, NULL, 0), GY_OK);
    }
    kill(etcd.pids[leader], SIGCONT);
    (void)kit_etcd_leader(&etcd, leader);
    kit_close(&kit);
    for (int i = 0; i < 5; i++) { /* through the member that was stopped */
        kit_open(&kit, &options);
        assert_int_equal(kit_store(&kit, key_of(0), (uint64_t)i + 1, "y", 1), GY_OK);
        kit_load(&kit, &loaded);
        assert_int_equal(loaded.count, 1);
        kit_close(&kit);
    }
    printf("the leader stopped: stores stood still for %.2f s\n", stood_s);
}

/* ---- elections ---- */

static void one_candidate_leads(void **state)
{
    (void)state;
    char value[GY_TABLE_VALUE_BYTES];
    static kit_table first, second, third;
    gy_persist_table_options options = in_etcd("led");
    options.lease_s = 1;
    kit_open(&first, &options);
    kit_open(&second, &options);
    kit_open(&third, &options);
    assert_status(gy_persist_table_leader(third.table, "names", value, NULL), GY_NOTFOUND);
    assert_ok(gy_persist_table_campaign(first.table, "names", "first:1"));
    KIT_UNTIL(&first, NULL, first.is_elected);
    assert_ok(gy_persist_table_campaign(second.table, "names", "second:2"));
    uint64_t number = 0;
    assert_ok(gy_persist_table_leader(third.table, "names", value, &number));
    assert_string_equal(value, "first:1");
    assert_true(number == first.number);
    KIT_UNTIL(&second, &first,
              gy_persist_table_leader(second.table, "names", value, NULL) == GY_OK);
    assert_string_equal(value, "first:1");
    /* A leader that is known to be dead is replaced at once; if it is alive, it learns that it
     * lost. */
    gy_persist_table_depose(second.table, first.number - 1);
    const int64_t began = gy_now_ns(gy_env_real());
    gy_persist_table_depose(second.table, first.number);
    KIT_UNTIL(&second, NULL, second.is_elected);
    printf("deposed and replaced in %.0f ms\n", 1e3 * seconds_since(began));
    assert_true(second.number > first.number);
    KIT_UNTIL(&first, &second, !first.is_elected);
    assert_ok(gy_persist_table_leader(third.table, "names", value, &number));
    assert_string_equal(value, "second:2");
    /* After a resignation another candidate follows, with a larger number. */
    gy_persist_table_resign(second.table);
    second.is_elected = false;
    KIT_UNTIL(&first, &second, first.is_elected);
    assert_true(first.number > second.number);
    assert_ok(gy_persist_table_campaign(second.table, "names", "second:2"));
    kit_close(&first);
    KIT_UNTIL(&second, NULL, second.is_elected);
    kit_close(&second);
    kit_close(&third);
}

/* The leader and etcd's own leader stop together; a candidate that knows this takes over. */
static void a_candidate_takes_over_without_the_leader_of_etcd(void **state)
{
    (void)state;
    if (getenv("GYRE_SOAK") == NULL) {
        return; /* the two cases are tested separately */
    }
    static kit_table first, second;
    const int leader = kit_etcd_leader(&etcd, 0);
    const gy_persist_table_options options = first_asked(leader, "both");
    kit_open(&first, &options);
    kit_open(&second, &options);
    assert_ok(gy_persist_table_campaign(first.table, "names", "first:1"));
    KIT_UNTIL(&first, NULL, first.is_elected);
    assert_ok(gy_persist_table_campaign(second.table, "names", "second:2"));
    char value[GY_TABLE_VALUE_BYTES];
    KIT_UNTIL(&second, NULL,
              gy_persist_table_leader(second.table, "names", value, NULL) == GY_OK);
    kit_etcd_freeze(&etcd, leader);
    const int64_t began = gy_now_ns(gy_env_real());
    gy_persist_table_depose(second.table, first.number);
    KIT_UNTIL(&second, NULL, second.is_elected);
    printf("soak: elected while etcd's leader stands still: %.2f s\n", seconds_since(began));
    assert_true(second.number > first.number);
    kill(etcd.pids[leader], SIGCONT);
    (void)kit_etcd_leader(&etcd, leader);
    KIT_UNTIL(&first, &second, !first.is_elected);
    kit_close(&first);
    kit_close(&second);
}

/* All of etcd stops: the result of a store is unknown, and the leader learns of its loss before
 * its lease expires. */
static void without_etcd_nothing_is_known_and_nobody_leads(void **state)
{
    (void)state;
    static kit_table kit;
    static kit_loaded loaded;
    gy_persist_table_options options = in_etcd("alone");
    options.lease_s = 1;
    options.patience_s = 0.4;
    kit_open(&kit, &options);
    assert_int_equal(kit_store(&kit, key_of(1), 0, "x", 1), GY_OK);
    assert_ok(gy_persist_table_campaign(kit.table, "names", "a:1"));
    KIT_UNTIL(&kit, NULL, kit.is_elected);
    const uint64_t number = kit.number;
    for (int i = 0; i < etcd.count; i++) {
        kit_etcd_freeze(&etcd, i);
    }
    const int64_t stopped = gy_now_ns(gy_env_real());
    int64_t until_ns = gy_persist_table_next(kit.table).at_ns;
    const gy_status status = kit_store(&kit, key_of(1), 1, "yy", 2);
    assert_true(status < 0 && status != GY_LIMIT && status != GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "etcd gave no answer"));
    KIT_UNTIL(&kit, NULL,
              (until_ns = kit.is_elected ? gy_persist_table_next(kit.table).at_ns : until_ns,
               !kit.is_elected));
    assert_true(until_ns > 0 && until_ns - stopped < 1000000000 && kit.lost_ns >= until_ns &&
                kit.lost_ns - until_ns < 2000000000);
    for (int i = 0; i < etcd.count; i++) {
        kill(etcd.pids[i], SIGCONT);
    }
    KIT_UNTIL(&kit, NULL, kit.is_elected);
    assert_true(kit.number > number);
    kit_close(&kit);
    options.patience_s = 0;
    kit_open(&kit, &options);
    kit_load(&kit, &loaded);
    const kit_record *record = kit_find(&loaded, key_of(1));
    assert_true(record != NULL && (record->version == 1 || record->version == 2));
    assert_int_equal(kit_store(&kit, key_of(1), record->version, "z", 1), GY_OK);
    kit_close(&kit);
}

/* ---- no room ---- */

static void what_has_no_room_is_surely_not_stored(void **state)
{
    (void)state;
    static kit_table kit;
    static kit_loaded loaded;
    static uint8_t data[GY_TABLE_RECORD_BYTES];
    const gy_persist_table_options options = in_etcd("full");
    kit_open(&kit, &options);
    size_t stored = 0, refused = 0;
    for (uint64_t i = 0; i < 1000 && refused == 0; i++) {
        data[0] = (uint8_t)(i + 1);
        kit_begin(&kit, key_of(i), 0, data, sizeof(data));
        if (i % 8 == 7) {
            kit_settle(&kit);
        }
        for (refused = stored = 0; refused + stored < kit.told;) {
            const gy_status status = kit.outcomes[refused + stored].status;
            if (status != GY_OK && status != GY_LIMIT) {
                fail_msg("store %zu gave %s", refused + stored, gy_status_text(status));
            }
            stored += status == GY_OK;
            refused += status == GY_LIMIT;
        }
    }
    printf("%zu records of 64 KiB stored, %zu refused\n", stored, refused);
    assert_true(refused > 0 && stored > 0);
    kit_close(&kit);
    kit_open(&kit, &options); /* as a restarted name server does */
    /* A removal needs no room. */
    assert_int_equal(kit_store(&kit, key_of(0), 1, NULL, 0), GY_OK);
    kit_load(&kit, &loaded);
    assert_int_equal(loaded.count, stored - 1);
    kit_close(&kit);
}

/* ---- what it costs ---- */

static int by_size(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Time one store after the other, and many at once. */
static void time_stores(const char *place, gy_persist_table_options options)
{
    enum { ALONE = 200, TOGETHER = 64, WAVES = 40 };
    static kit_table kit;
    static double took[ALONE];
    static const uint8_t data[300] = {1};
    kit_open(&kit, &options);
    for (uint64_t i = 0; i < ALONE; i++) {
        const int64_t began = gy_now_ns(gy_env_real());
        assert_int_equal(kit_store(&kit, key_of(0), i, data, sizeof(data)), GY_OK);
        took[i] = 1e3 * seconds_since(began);
    }
    qsort(took, ALONE, sizeof(took[0]), by_size);
    const int64_t began = gy_now_ns(gy_env_real());
    for (uint64_t wave = 0; wave < WAVES; wave++) {
        kit.told = kit.begun = 0;
        for (uint64_t i = 1; i <= TOGETHER; i++) {
            kit_begin(&kit, key_of(i), wave, data, sizeof(data));
        }
        kit_settle(&kit);
    }
    printf(
        "soak: %s: a store of 300 bytes %.2f ms (99 of 100: %.2f), %d at once %.0f a second\n",
        place, took[ALONE / 2], took[ALONE * 99 / 100], TOGETHER,
        TOGETHER * WAVES / seconds_since(began));
    kit_close(&kit);
}

static void what_a_store_costs(void **state)
{
    (void)state;
    if (getenv("GYRE_SOAK") != NULL) {
        time_stores("sqlite", in_file("timed"));
        time_stores("etcd", in_etcd("timed"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_candidate_is_elected),
        cmocka_unit_test(both_places_are_serial),
        cmocka_unit_test(one_of_two_wins_each_version),
        cmocka_unit_test(many_records_are_loaded),
        cmocka_unit_test(what_is_no_table_is_refused),
        cmocka_unit_test(who_may_not_is_refused),
        cmocka_unit_test(one_candidate_leads),
        cmocka_unit_test(no_store_is_lost_when_the_leader_dies),
        cmocka_unit_test(a_slow_etcd_is_waited_for),
        cmocka_unit_test(what_was_sent_is_done_once_and_not_later),
        cmocka_unit_test(it_leads_longer_than_its_lease),
        cmocka_unit_test(a_late_store_never_comes_back),
        cmocka_unit_test(a_candidate_takes_over_without_the_leader_of_etcd),
        cmocka_unit_test(without_etcd_nothing_is_known_and_nobody_leads),
        cmocka_unit_test(a_token_that_is_over_is_renewed),
        cmocka_unit_test(what_a_store_costs),
        /* Last, since the backend stays full. */
        cmocka_unit_test(what_has_no_room_is_surely_not_stored),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
