/* Fuzz target: any bytes in any pieces give frames within their limits or a failure. */
#include "rpc/session/session_priv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Even tags are known, each with a limit of its own. */
static size_t limit_of(const void *arg, uint64_t tag)
{
    (void)arg;
    return tag % 2 == 0 ? (size_t)(tag & 0xfff) : 0;
}

/* The first byte says how long the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_rpc_inbox inbox = {0};
    uint64_t sum = 0;
    if (size < 1) {
        return 0;
    }
    size_t piece = (size_t)data[0] + 1;
    gy_status status = GY_AGAIN;
    for (size_t at = 1; at < size && status >= 0;) {
        size_t left = GY_MIN(piece, size - at);
        const uint8_t *from = data + at, *body = NULL;
        at += left;
        while ((status = gy_rpc_inbox_take(&inbox, &from, &left, limit_of, NULL, &body)) ==
               GY_OK) {
            size_t bytes = (size_t)inbox.frame.size_bytes;
            GY_ASSERT(bytes > 0 && bytes <= limit_of(NULL, inbox.frame.tag));
            for (size_t i = 0; i < bytes; i++) {
                sum += body[i];
            }
#ifdef GYRE_PLANTED_BUG
            /* room for a body of 16 bytes: the length is believed */
            uint8_t *copy = gy_alloc("fuzz", 16);
            for (size_t i = 0; copy != NULL && i < bytes; i++) {
                ((volatile uint8_t *)copy)[i] = body[i];
            }
            gy_free(copy);
#endif
        }
        GY_ASSERT(status < 0 || left == 0);
    }
    gy_rpc_inbox_fini(&inbox);
    return sum == UINT64_MAX ? -1 : 0;
}
