/**
 * Learning rates over time and the order of samples: pure functions.
 *
 * @source Loshchilov & Hutter, "SGDR", ICLR 2017 (cosine)
 */
#include "train/train_priv.h"

#include <math.h>

double gy_train_schedule_rate(const gy_train_options *options, int64_t step, int64_t steps,
                              int64_t steps_per_epoch)
{
    GY_ASSERT(step >= 0 && steps > 0 && steps_per_epoch > 0);
    if (step < options->warmup_steps) {
        return options->rate * (double)(step + 1) / options->warmup_steps;
    }
    const int64_t begin = options->warmup_steps;
    /* Behind the last step the end of the slope is kept: 1, exactly. */
    const double done = step < steps ? (double)(step - begin) / (double)(steps - begin) : 1;
    switch (options->schedule) {
    case GY_SCHEDULE_CONSTANT:
        break;
    case GY_SCHEDULE_STEP: {
        const int64_t epoch = step / steps_per_epoch;
        const int64_t stair = epoch / GY_MAX(options->schedule_every, 1);
        return options->rate * pow(options->schedule_factor, (double)stair);
    }
    case GY_SCHEDULE_COSINE:
        return options->rate * 0.5 * (1 + cos(3.141592653589793 * done));
    case GY_SCHEDULE_LINEAR:
        return options->rate * (1 - done);
    }
    return options->rate;
}

void gy_train_order_fill(uint64_t seed, int epoch, int64_t *order, int64_t count)
{
    gy_random random = {.key = gy_hash(&epoch, sizeof(epoch), seed)};
    for (int64_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t other = (int64_t)gy_random_below(&random, (uint64_t)i + 1);
        int64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

void gy_train_streams_fill(int64_t streams, int64_t *order, int64_t count)
{
    const int64_t length = count / streams;
    GY_ASSERT(streams > 0 && count >= streams);
    for (int64_t at = 0; at < length; at++) {
        for (int64_t row = 0; row < streams; row++) {
            order[at * streams + row] = row * length + at;
        }
    }
}
