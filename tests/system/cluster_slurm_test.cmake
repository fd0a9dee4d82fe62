gyre_test_defines(system_cluster_slurm_test GYRE_BUILD="${CMAKE_BINARY_DIR}"
    GYRE_SANITIZE="${GYRE_SANITIZE}")
