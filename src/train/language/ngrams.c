#include "train/language/ngrams.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

enum { LINE_BEGIN = 2, LINE_END = 3 };

void gy_train_ngrams_row(const char *text, size_t size_bytes, int width, float *row)
{
    GY_ASSERT(width >= 2 && width <= 65536 && (width & (width - 1)) == 0);
    memset(row, 0, (size_t)width * sizeof(*row));
    size_t size = GY_MIN(size_bytes, (size_t)GY_NGRAM_LINE_BYTES);
    unsigned char framed[GY_NGRAM_LINE_BYTES + 2];
    framed[0] = LINE_BEGIN;
    memcpy(framed + 1, text, size);
    framed[size + 1] = LINE_END;

    uint16_t buckets[GY_NGRAM_LINE_BYTES];
    int used = 0;
    for (size_t i = 0; i < size; i++) {
        uint32_t bucket = gy_ngram_bucket(framed[i], framed[i + 1], framed[i + 2], width);
        if (row[bucket] == 0) {
            row[bucket] = 1;
            buckets[used++] = (uint16_t)bucket;
        }
    }
    float weight = used > 0 ? 1 / sqrtf((float)used) : 0;
    for (int i = 0; i < used; i++) {
        row[buckets[i]] = weight;
    }
}
