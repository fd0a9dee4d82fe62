/* Goal: sandbox options are parsed as documented, and others are refused. */
#include "worker/sandbox/sandbox.h"

#include "gy_test.h"

GY_TEST(test_words)
{
    static const struct {
        const char *text;
        uint32_t parts;
        bool is_available;
        const char *paths; /* with a space for each NUL */
    } good[] = {
        {"none", 0, false, ""},
        {"strict", GY_SANDBOX_ALL, false, ""},
        {"available", GY_SANDBOX_ALL, true, ""},
        {"available,calls", GY_SANDBOX_CALLS | GY_SANDBOX_RIGHTS, true, ""},
        {"files", GY_SANDBOX_FILES | GY_SANDBOX_RIGHTS, false, ""},
        {"calls,network", GY_SANDBOX_CALLS | GY_SANDBOX_NETWORK | GY_SANDBOX_RIGHTS, false, ""},
        {"strict,read=/usr/../usr,write=/tmp", GY_SANDBOX_ALL, false, "r/usr w/tmp "},
    };
    static const char *const wrong[] = {"",      "strict,",  "file",  "none files",
                                        "read=", "read=/no", "STRICT"};
    for (size_t i = 0; i < GY_COUNT(good); i++) {
        gy_sandbox sandbox = {.parts = 0};
        char paths[64] = "";
        assert_ok(gy_sandbox_parse(good[i].text, &sandbox));
        assert_int_equal(sandbox.parts, good[i].parts);
        assert_int_equal(sandbox.is_available, good[i].is_available);
        assert_true(sandbox.paths.size_bytes < sizeof(paths));
        for (size_t at = 0; at < sandbox.paths.size_bytes; at++) {
            char byte = sandbox.paths.data[at];
            paths[at] = byte != '\0' ? byte : ' ';
        }
        assert_string_equal(paths, good[i].paths);
        gy_sandbox_fini(&sandbox);
    }
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        gy_sandbox sandbox = {.parts = 0};
        assert_status(gy_sandbox_parse(wrong[i], &sandbox), GY_ARG);
        gy_sandbox_fini(&sandbox);
    }
}

GY_TEST_MAIN(NULL, NULL)
