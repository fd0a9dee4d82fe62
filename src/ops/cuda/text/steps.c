/*
 * The expression of each element-wise operator, by operator code: $p, $q and $r are operands,
 * $T is the type of the result, $f the suffix of functions and numbers of the operands' type
 * and $U makes an integer wrap. The arithmetic is that of ops/kernels/tiles.inc; functions are
 * those of the device, within the tolerance of float32.
 */
#include "ops/cuda/text/program_priv.h"

typedef struct step_text {
    const char *real, *whole; /* NULL: not of these types */
} step_text;

static const step_text step_texts[GY_CODE_COUNT] = {
    [GY_CODE_identity] = {"$p", "$p"},
    [GY_CODE_add] = {"$p + $q", "($T)($U$p + $U$q)"},
    [GY_CODE_sub] = {"$p - $q", "($T)($U$p - $U$q)"},
    [GY_CODE_mul] = {"$p * $q", "($T)($U$p * $U$q)"},
    [GY_CODE_div] = {"$p / $q",
                     "$q == 0 ? ($T)0 : $q == ($T)-1 ? ($T)(0 - $U$p) : ($T)($p / $q)"},
    [GY_CODE_pow] = {"pow$f($p, $q)", NULL},
    [GY_CODE_minimum] = {"gy_minimum$f($p, $q)", "$p < $q ? $p : $q"},
    [GY_CODE_maximum] = {"gy_maximum$f($p, $q)", "$p > $q ? $p : $q"},
    [GY_CODE_equal] = {"($T)($p == $q)", "($T)($p == $q)"},
    [GY_CODE_not_equal] = {"($T)($p != $q)", "($T)($p != $q)"},
    [GY_CODE_less] = {"($T)($p < $q)", "($T)($p < $q)"},
    [GY_CODE_less_equal] = {"($T)($p <= $q)", "($T)($p <= $q)"},
    [GY_CODE_greater] = {"($T)($p > $q)", "($T)($p > $q)"},
    [GY_CODE_greater_equal] = {"($T)($p >= $q)", "($T)($p >= $q)"},
    [GY_CODE_select] = {"$p != 0 ? $q : $r", "$p != 0 ? $q : $r"},
    [GY_CODE_neg] = {"-$p", "($T)(0 - $U$p)"},
    [GY_CODE_abs] = {"fabs$f($p)", "$p < 0 ? ($T)(0 - $U$p) : $p"},
    [GY_CODE_sign] = {"($T)(($p > 0) - ($p < 0))", "($T)(($p > 0) - ($p < 0))"},
    [GY_CODE_square] = {"$p * $p", "($T)($U$p * $U$p)"},
    [GY_CODE_exp] = {"exp$f($p)", NULL},
    [GY_CODE_log] = {"log$f($p)", NULL},
    [GY_CODE_sqrt] = {"sqrt$f($p)", NULL},
    [GY_CODE_tanh] = {"tanh$f($p)", NULL},
    [GY_CODE_sigmoid] = {"$p < 0 ? exp$f($p) / (1 + exp$f($p)) : 1 / (1 + exp$f(-$p))", NULL},
    [GY_CODE_relu] = {"$p < 0 ? ($T)0 : $p", "$p < 0 ? ($T)0 : $p"},
    [GY_CODE_gelu] = {"0.5$f * $p * erfc$f(-$p * 0.70710678118654752440$f)", NULL},
    [GY_CODE_gelu_slope] =
        {"0.5$f * erfc$f(-$p * 0.70710678118654752440$f) +\n"
         "            $p * 0.39894228040143267794$f * exp$f(-0.5$f * $p * $p)",
         NULL},
    [GY_CODE_erf] = {"erf$f($p)", NULL},
    [GY_CODE_sin] = {"sin$f($p)", NULL},
    [GY_CODE_cos] = {"cos$f($p)", NULL},
    [GY_CODE_log1p] = {"log1p$f($p)", NULL},
    [GY_CODE_floor] = {"floor$f($p)", NULL},
    [GY_CODE_ceil] = {"ceil$f($p)", NULL},
    [GY_CODE_round] = {"rint$f($p)", NULL},
};

/* Toward zero, saturated: the ends as C writes them, and the power of two past the upper one.
 */
static const char *cut_text(gy_dtype to)
{
    switch ((int)to) {
    case GY_I64:
        return "GY_CUT($T, $p, -9223372036854775807 - 1, 9223372036854775807, "
               "9223372036854775808.0$f)";
    case GY_I32:
        return "GY_CUT($T, $p, -2147483647 - 1, 2147483647, 2147483648.0$f)";
    case GY_U8:
        return "GY_CUT($T, $p, 0, 255, 256.0$f)";
    default:
        return NULL;
    }
}

static const char *cast_text(gy_dtype from, gy_dtype to)
{
    if (from == GY_BF16 || from == GY_F16) {
        return to != GY_F32      ? NULL
               : from == GY_BF16 ? "gy_float_of_bf16($p)"
                                 : "gy_float_of_f16($p)";
    }
    if (to == GY_BF16 || to == GY_F16) {
        return from != GY_F32  ? NULL
               : to == GY_BF16 ? "gy_bf16_of_float($p)"
                               : "gy_f16_of_float($p)";
    }
    return gy_dtype_is_real(from) && !gy_dtype_is_real(to) ? cut_text(to) : "($T)$p";
}

const char *gy_cuda_step_text(gy_ops_code code, gy_dtype operand, gy_dtype result)
{
    GY_ASSERT(code < GY_CODE_COUNT);
    if (code == GY_CODE_cast) {
        return cast_text(operand, result);
    }
    return gy_dtype_is_real(operand) ? step_texts[code].real : step_texts[code].whole;
}
