/* Goal: every type has one method with its messages, a job's files stay in its folder, and
 * content is named by its SHA-256. */
#include "control/net/net.h"

#include <string.h>

#include "gy_test.h"

GY_TEST(every_type_has_its_method)
{
    static const int firsts[][2] = {{GY_NET_DAEMON_STATE, GY_NET_ORDER},
                                    {GY_NET_REQUESTS, GY_NET_OVER},
                                    {GY_NET_ASK_BLOBS, GY_NET_LIST},
                                    {GY_NET_ATTACH, GY_NET_JOB_OVER},
                                    {GY_NET_LEASE_GONE, GY_NET_FETCHED}};
    for (size_t i = 0; i < GY_COUNT(firsts); i++) {
        for (int type = firsts[i][0]; type <= firsts[i][1]; type++) {
            gy_rpc_method method = gy_net_method((gy_net_type)type);
            assert_int_equal(method.type, type);
            assert_non_null(method.request);
            assert_true(method.roles != 0 && method.request_bytes_max > 0);
            assert_true((method.answer != NULL) == (method.answer_bytes_max > 0));
        }
    }
}

static char *words(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* A specification that is valid but for one change. */
#define SPEC_IS(outcome, change)                                                               \
    do {                                                                                       \
        Gy__Cluster__JobSpec spec;                                                             \
        Gy__Cluster__Key content = GY__CLUSTER__KEY__INIT;                                     \
        Gy__Cluster__SpecFile one, two;                                                        \
        Gy__Cluster__SpecFile *files[] = {&one, &two};                                         \
        char *arguments[] = {words("count"), words("in")}, *environment[] = {words("A=b")};    \
        char *libraries[] = {words("libx.so")};                                                \
        gy__cluster__job_spec__init(&spec);                                                    \
        gy__cluster__spec_file__init(&one);                                                    \
        gy__cluster__spec_file__init(&two);                                                    \
        content.low = 1;                                                                       \
        one.content = two.content = &content;                                                  \
        one.name = words("count");                                                             \
        two.name = words("libx.so");                                                           \
        spec.arguments = arguments;                                                            \
        spec.n_arguments = 2;                                                                  \
        spec.environment = environment;                                                        \
        spec.n_environment = 1;                                                                \
        spec.files = files;                                                                    \
        spec.n_files = 2;                                                                      \
        spec.libraries = libraries;                                                            \
        spec.n_libraries = 1;                                                                  \
        spec.directory = words("/tmp");                                                        \
        change;                                                                                \
        assert_int_equal(gy_net_check_spec(&spec), outcome);                                   \
    } while (0)

GY_TEST(a_spec_keeps_to_its_folder)
{
    SPEC_IS(GY_OK, (void)0);
    SPEC_IS(GY_FORMAT, spec.n_arguments = 0);
    SPEC_IS(GY_FORMAT, arguments[0] = words(""));
    SPEC_IS(GY_FORMAT, one.name = words(""));
    SPEC_IS(GY_FORMAT, one.name = words(".."));
    SPEC_IS(GY_FORMAT, one.name = words("../x"));
    SPEC_IS(GY_FORMAT, one.name = words("a/b"));
    SPEC_IS(GY_FORMAT, one.name = words("a\nb"));
    SPEC_IS(GY_FORMAT, two.name = words("count"));
    SPEC_IS(GY_FORMAT, two.content = NULL);
    SPEC_IS(GY_FORMAT, content.low = 0);
    SPEC_IS(GY_FORMAT, libraries[0] = words("../libc.so"));
    SPEC_IS(GY_FORMAT, spec.n_files = GY_NET_FILES_MAX + 1);
    SPEC_IS(GY_FORMAT, spec.n_libraries = 3);
    SPEC_IS(GY_FORMAT, spec.n_arguments = GY_NET_TEXTS_MAX + 1);
    SPEC_IS(GY_FORMAT, environment[0] = words("=b"));
    SPEC_IS(GY_FORMAT, environment[0] = words("b"));
    SPEC_IS(GY_FORMAT, spec.directory = words("tmp"));
}

GY_TEST(content_is_called_by_its_hash)
{
    gy_net_digest *digest = NULL;
    assert_ok(gy_net_digest_begin(&digest));
    gy_net_digest_feed(digest, "a", 1);
    gy_net_digest_feed(digest, "bc", 2);
    gy_key key = gy_net_digest_end(digest); /* FIPS 180-2, appendix B.1 */
    assert_true(key.high == 0xBA7816BF8F01CFEAu && key.low == 0x414140DE5DAE2223u);
    gy_net_digest_free(digest);
}

GY_TEST_MAIN(NULL, NULL)
