/*
 * Goal: a model of the graph by workers in virtual time: the way that its gradients lead, the
 * time that the rules and stragglers make of it.
 */
#include "training_kit.h"

#include <stdio.h>

#include "gy_test.h"

enum { SIDE = 6 };

static gy_model *new_model(void)
{
    gy_model_options options = {
        .input_rank = 3, .input_sizes = {1, SIDE, SIDE}, .seed = 11, .workers = 1};
    gy_model *model = NULL;
    assert_ok(gy_model_named("mlp", &options, KIT_CLASSES, &model));
    return model;
}

static uint64_t hash_parameters(gy_model *model)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *value = gy_session_parameter(model->session, model->slots[i].name);
        const gy_view view = gy_tensor_pin(value);
        hash =
            gy_hash(view.data, (size_t)gy_view_count(&view) * gy_dtype_bytes(view.dtype), hash);
        gy_tensor_unpin(value);
    }
    return hash;
}

/* A model of the graph goes the way of its workers' gradients: under BSP the same way whoever
 * is slow, and to a loss sooner where nobody waits. It keeps its own parameters. */
GY_TEST(a_model_is_simulated_as_well)
{
    gy_dataset train = kit_digits(200, SIDE);
    gy_model *model = new_model();
    gy_ps_simulated even, slow, free_of;
    gy_ps_simulation o = GY_OPTIONS(gy_ps_simulation, .workers = 4, .batch = 8, .clocks = 40,
                                    .rate = 0.1, .seed = 3);
    even.struct_size = slow.struct_size = free_of.struct_size = sizeof(even);
    assert_ok(gy_train_simulate(model, &train, &o, &even));
    const uint64_t before = hash_parameters(model);
    o.stragglers = GY_PS_ONE_SLOW;
    assert_ok(gy_train_simulate(model, &train, &o, &slow));
    assert_true(hash_parameters(model) == before);
    assert_true(even.loss == slow.loss && even.loss < 1.5); /* ln 10 is that of a guess */
    assert_true(slow.time_s > 3.4 * even.time_s && slow.time_s < 4.4 * even.time_s);
    o.target_loss = even.loss;
    o.clocks = 400;
    o.sync = gy_ps_asp();
    assert_ok(gy_train_simulate(model, &train, &o, &free_of));
    printf("a loss of %.3f after %.1f s, without waiting %.3f after %.1f s\n", slow.loss,
           slow.time_s, free_of.loss, free_of.time_s);
    assert_true(free_of.is_reached && free_of.time_s < slow.time_s);
    o.stragglers = GY_PS_SKEWED;
    assert_status(gy_train_simulate(model, &train, &o, &free_of), GY_ARG);
    gy_model_free(model);
}

GY_TEST_MAIN(NULL, NULL)
