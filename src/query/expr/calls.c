/* Calls of functions. */
#include "query/expr/expr_priv.h"

gy_status gy_expr_bind_call(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    (void)out;
    return gy_sql_refuse(in->scope->source, node->place, GY_NOTFOUND,
                         "function %s does not exist", node->text);
}

gy_status gy_expr_bind_like(gy_expr_binder *in, const gy_sql_node *node, const gy_expr **out)
{
    (void)out;
    return gy_sql_refuse(in->scope->source, node->place, GY_UNSUPPORTED, "not supported: like");
}

gy_status gy_expr_time_operation(gy_expr_binder *in, const gy_sql_node *node,
                                 const gy_expr **args, bool *is_done, const gy_expr **out)
{
    (void)in, (void)node, (void)args, (void)out;
    *is_done = false;
    return GY_OK;
}

gy_status gy_expr_text_operation(gy_expr_binder *in, const gy_sql_node *node,
                                 const gy_expr **args, bool *is_done, const gy_expr **out)
{
    (void)in, (void)node, (void)args, (void)out;
    *is_done = false;
    return GY_OK;
}

void gy_expr_patterns_free(gy_expr_work *work)
{
    (void)work;
}

size_t gy_expr_step(gy_text_view text, size_t at)
{
    size_t end = at + 1;
    while (end < text.size_bytes && ((unsigned char)text.data[end] & 0xC0) == 0x80) {
        end++;
    }
    return end - at;
}

int64_t gy_expr_days(int64_t micros)
{
    const int64_t days = micros / GY_MICROS_A_DAY;
    return days - (micros % GY_MICROS_A_DAY < 0);
}
