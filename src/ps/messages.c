/* Methods, and tables as messages. */
#include "ps/ps_priv.h"

#include <math.h>
#include <string.h>

void gy_ps_methods(gy_rpc_method methods[PS_METHODS])
{
    static const gy_ps_method_row rows[PS_METHODS] = {
        {"open a table", &gy__ps__open__descriptor, &gy__ps__opened__descriptor,
         GY_RPC_REPEATABLE, PS_MESSAGE_BYTES, PS_MESSAGE_BYTES, 0, 0},
        {"push", &gy__ps__push__descriptor, &gy__ps__pushed__descriptor, 0, PS_MESSAGE_BYTES,
         PS_MESSAGE_BYTES, GY_RPC_BESIDE_MAX, 0},
        {"pull", &gy__ps__pull__descriptor, &gy__ps__rows__descriptor, GY_RPC_READS,
         PS_MESSAGE_BYTES, PS_MESSAGE_BYTES, GY_RPC_BESIDE_MAX, GY_RPC_BESIDE_MAX},
        {"clock", &gy__ps__clock__descriptor, &gy__ps__done__descriptor, 0, PS_MESSAGE_BYTES,
         PS_MESSAGE_BYTES, 0, 0},
        {"leave", &gy__ps__leave__descriptor, &gy__ps__done__descriptor, 0, PS_MESSAGE_BYTES,
         PS_MESSAGE_BYTES, 0, 0},
        {"save", &gy__ps__save__descriptor, &gy__ps__saved__descriptor, GY_RPC_READS,
         PS_SAVE_BYTES, PS_SAVE_BYTES, 0, 0},
        {"show", &gy__ps__show__descriptor, &gy__ps__shown__descriptor, GY_RPC_READS,
         PS_MESSAGE_BYTES, PS_SHOWN_BYTES, 0, 0},
    };
    gy_ps_methods_fill(rows, PS_METHODS, GY_RPC_TYPE_FIRST, methods);
}

void gy_ps_table_tell(const char *name, const gy_ps_table_options *table, double *numbers,
                      Gy__Ps__Table *message)
{
    const double all[PS_NUMBERS] = {table->rate,         table->momentum, table->beta1,
                                    table->beta2,        table->epsilon,  table->weight_decay,
                                    table->l1,           table->l2,       table->ftrl_beta,
                                    table->initial_range};
    gy__ps__table__init(message);
    memcpy(numbers, all, sizeof(all));
    message->name = (char *)(uintptr_t)name;
    message->dtype = (uint32_t)table->dtype;
    message->width = table->width;
    message->is_sparse = table->is_sparse;
    message->rows = table->rows;
    message->is_by_range = table->is_by_range;
    message->update = (uint32_t)table->update;
    message->rule = (uint32_t)table->sync.rule;
    message->bound = table->sync.bound;
    message->n_numbers = PS_NUMBERS;
    message->numbers = numbers;
    message->function = (char *)(uintptr_t)(table->function != NULL ? table->function : "");
    message->takes_non_finite = table->takes_non_finite;
    message->seed = table->seed;
}

gy_status gy_ps_table_hear(const Gy__Ps__Table *message, gy_ps_table_options *table)
{
    if (message == NULL || message->n_numbers != PS_NUMBERS ||
        message->update >= GY_PS_UPDATES || message->rule >= GY_PS_RULES ||
        message->dtype > INT32_MAX) {
        return gy_fail(GY_FORMAT, "a message without a table: another version of Gyre?");
    }
    const double *numbers = message->numbers;
    *table = (gy_ps_table_options){
        .dtype = (gy_dtype)message->dtype,
        .width = message->width,
        .is_sparse = message->is_sparse,
        .rows = message->rows,
        .is_by_range = message->is_by_range,
        .update = (gy_ps_update)message->update,
        .sync = {.rule = (gy_ps_rule)message->rule, .bound = message->bound},
        .rate = numbers[0],
        .momentum = numbers[1],
        .beta1 = numbers[2],
        .beta2 = numbers[3],
        .epsilon = numbers[4],
        .weight_decay = numbers[5],
        .l1 = numbers[6],
        .l2 = numbers[7],
        .ftrl_beta = numbers[8],
        .initial_range = numbers[9],
        .function = message->function[0] != '\0' ? message->function : NULL,
        .takes_non_finite = message->takes_non_finite,
        .seed = message->seed};
    return GY_OK;
}

static bool are_same(const double a[PS_NUMBERS], const double b[PS_NUMBERS])
{
    for (int i = 0; i < PS_NUMBERS; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

bool gy_ps_table_is_same(const gy_ps_table_options *a, const gy_ps_table_options *b)
{
    double numbers[2][PS_NUMBERS];
    Gy__Ps__Table as[2];
    gy_ps_table_tell("", a, numbers[0], &as[0]);
    gy_ps_table_tell("", b, numbers[1], &as[1]);
    return as[0].dtype == as[1].dtype && as[0].width == as[1].width &&
           as[0].is_sparse == as[1].is_sparse && as[0].rows == as[1].rows &&
           as[0].is_by_range == as[1].is_by_range && as[0].update == as[1].update &&
           as[0].rule == as[1].rule && as[0].bound == as[1].bound &&
           are_same(numbers[0], numbers[1]) && strcmp(as[0].function, as[1].function) == 0 &&
           as[0].takes_non_finite == as[1].takes_non_finite && as[0].seed == as[1].seed;
}
