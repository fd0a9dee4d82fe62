# Lists that PyTorch made; they are the seeds of the notation's fuzz target, too.
gyre_test_defines(plan_pipe_notation_test PIPE_LISTS="${CMAKE_SOURCE_DIR}/tests/fuzz/plan_pipe_fuzz")
