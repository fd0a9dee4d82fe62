target_compile_definitions(system_cluster_slurm_test PRIVATE GYRE_BUILD="${CMAKE_BINARY_DIR}"
    GYRE_SANITIZE="${GYRE_SANITIZE}")
