#include "train/train_priv.h"

gy_status gy_train_explain(gy_model *model, const gy_train_options *options, char **text)
{
    gy_train_options filled;
    GY_TRY(gy_train_defaults(options, &filled));
    GY_TRY(gy_model_build(model, &filled));
    return gy_session_explain(model->session, filled.batch, model->update.fetches,
                              model->update.fetch_count, text);
}
