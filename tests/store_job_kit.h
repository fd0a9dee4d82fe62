/**
 * What tests of jobs over remote storage share: both stubs, the real server, lines of a shell.
 */
#ifndef GY_STORE_JOB_KIT_H
#define GY_STORE_JOB_KIT_H

#include "command_kit.h"
#include "store_kit.h"

static kit_server s3, hdfs, real;
static char at_hdfs[64];

/** Settings of a stub, as a job finds them; $HDFS for lines. */
static inline void use_stub(const kit_server *server)
{
    char endpoint[64];
    (void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", server->port);
    kit_clear_settings();
    setenv("GYRE_S3_ENDPOINT", endpoint, 1);
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", 1);
    setenv("HDFS", at_hdfs, 1);
}

/** A folder and both stubs; not 0: there is no folder. */
static inline int kit_begin_stubs(void **state)
{
    if (kit_make_folder(state) != 0) {
        return 1;
    }
    kit_clear_settings();
    kit_start_stub(&s3, "s3.py");
    kit_start_stub(&hdfs, "webhdfs.py");
    (void)snprintf(at_hdfs, sizeof(at_hdfs), "hdfs://127.0.0.1:%d", hdfs.port);
    use_stub(&s3);
    return 0;
}

static inline int kit_end_stubs(void **state)
{
    gy_http_drop_kept();
    kit_stop(&s3);
    kit_stop(&hdfs);
    kit_stop(&real);
    return kit_remove_folder(state);
}

/** Start npm's s3rver over the folder `real` and use it: bucket `test`. Skips without it. */
static inline void use_real(void)
{
    char path[1024], there[256], endpoint[64];
    const char *given = getenv("GYRE_TEST_S3RVER");
    (void)snprintf(path, sizeof(path), "%s",
                   given != NULL ? given : "build/s3rver/node_modules/s3rver/bin/s3rver.js");
    if (access(path, R_OK) != 0) {
        printf("skipped: s3rver is not at %s: scripts/s3rver says why\n", path);
        skip();
    }
    (void)snprintf(there, sizeof(there), "%s/real", folder);
    kit_start(&real,
              (const char *const[]){"node", "--openssl-legacy-provider", path, "-d", there,
                                    "-a", "127.0.0.1", "-p", "0", "-s", "--configure-bucket",
                                    "test", NULL},
              "listening on 127.0.0.1:");
    kit_clear_settings();
    (void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", real.port);
    setenv("AWS_ENDPOINT_URL", endpoint, 1);
    setenv("AWS_ACCESS_KEY_ID", "S3RVER", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S3RVER", 1);
}

#endif
