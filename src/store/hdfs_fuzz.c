/* Fuzz target: any bytes as an answer of WebHDFS give files, blocks, words or a failure. */
#include "store/remote/remote_priv.h"

#include <jansson.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static gy_status use_block(void *arg, const gy_place_block *block)
{
    size_t *bytes = arg;
    for (size_t i = 0; i < block->host_count; i++) {
        *bytes += strlen(block->hosts[i]);
    }
#ifdef GYRE_PLANTED_BUG
    /* room for two hosts: a third is written beyond it */
    size_t *sizes = gy_alloc_zero("fuzz", 2, sizeof(size_t));
    for (size_t i = 0; sizes != NULL && i < block->host_count; i++) {
        ((volatile size_t *)sizes)[i] = strlen(block->hosts[i]);
    }
    gy_free(sizes);
#endif
    return GY_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *document = NULL;
    if (gy_store_hdfs_read((const char *)data, size, &document) < 0) {
        return 0;
    }
    gy_hdfs_item item;
    gy_hdfs_words words;
    size_t bytes = 0;
    bool value = false;
    if (gy_store_hdfs_status(document, &item) == GY_OK) {
        bytes += strlen(item.name);
    }
    for (size_t i = 0; gy_store_hdfs_listed(document, i, &item) == GY_OK; i++) {
        bytes += strlen(item.name);
    }
    bytes += gy_store_hdfs_exception(document, &words) ? strlen(words.text) : 0;
    if (gy_store_hdfs_blocks(document, use_block, &bytes) < 0 ||
        gy_store_hdfs_boolean(document, &value) < 0) {
        bytes += gy_store_hdfs_remaining(document) > 0;
    }
    GY_ASSERT(bytes < (size_t)1 << 30);
    gy_store_hdfs_free(document);
    return 0;
}
