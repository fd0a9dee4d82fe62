# Programs of tests in which nobody starts a second thread, nor in what they start: with TSan, which looks for races between
# threads, they would show nothing and take a quarter of its time. There they are built by name alone (scripts/build tsan
# NAME) and not run, which is said. Plainly they run behind tests/one_thread.c, which ends whoever belongs here no more.
set(GYRE_ONE_THREAD
    base_base_test base_env_test
    cli_man_test cli_options_test
    coll_extreme_test
    control_again_test cluster_ahead_test cluster_blobs_test control_convert_test control_daemon_test persist_etcd_test cluster_faults_test persist_history_test
    cluster_host_jobs_test cluster_host_test sched_hosts_test persist_journal_test driver_limits_test
    sched_lose_test sched_manager_test driver_meets_test control_names_test sched_near_test driver_numbers_test
    cluster_page_test worker_parse_test sched_pinned_test sched_place_test control_share_test
    sched_slow_test control_spec_test sched_spread_test driver_lease_client_test control_ticket_test
    control_view_test worker_wire_test
    doctor_diagnose_test
    flow_dag_test flow_fault_test flow_fetch_test flow_refine_test flow_lower_test flow_memo_test
    flow_override_test flow_progress_test flow_section_test flow_start_test flow_vertex_test
    frame_arrow_test frame_frame_test frame_read_test frame_write_test
    graph_fuse_test graph_passes_test
    launch_launch_test
    mapreduce_coded_test mapreduce_entries_test mapreduce_fields_test mapreduce_gather_test mapreduce_hot_test
    mapreduce_input_test mapreduce_losers_test mapreduce_merge_test mapreduce_plan_test
    mapreduce_range_test mapreduce_region_test mapreduce_rows_test mapreduce_sorter_test mapreduce_table_test
    mapreduce_task_test mapreduce_top_test
    mapreduce_vertex_sort_test mapreduce_words_test
    ops_gradient_test ops_placement_test ops_rows_test ops_tiles_test ops_update_test ops_values_test
    plan_check_test plan_claims_test plan_cost_test plan_layout_test plan_links_file_test plan_model_test
    plan_part_test plan_picture_test plan_pipe_check_test plan_pipe_notation_test plan_pipe_picture_test plan_pipe_schedule_test plan_shared_test plan_simulate_test
    rpc_bulk_test rpc_keyring_test rpc_message_test rpc_strangers_test rpc_stream_test
    sim_choice_test sim_cluster_test sim_coll_test sim_disk_test sim_journal_test sim_manager_test
    sim_renewal_test sim_rpc_test sim_sim_test sim_whole_test
    store_bundle_test store_parts_test store_file_test store_formats_test store_gzip_test store_host_file_test store_idx_test store_list_test
    store_uri_test store_writer_test store_zstd_test
    tensor_dtype_test
    topo_topo_test topo_ways_test
    train_ngrams_test train_plot_test train_progress_test
    transport_guided_test transport_net_test transport_simnet_test
)

# Called for each test. With TSan the program of such a test is its own.
function(gyre_one_thread name)
    if(NOT name IN_LIST GYRE_ONE_THREAD)
        return()
    endif()
    set_property(GLOBAL APPEND PROPERTY GYRE_ONE_THREAD_SEEN ${name})
    get_property(program GLOBAL PROPERTY GYRE_TEST_PROGRAM_${name})
    if(GYRE_SANITIZE STREQUAL "thread")
        set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
    elseif(GYRE_SANITIZE STREQUAL "") # ASan must be loaded first itself
        if(NOT TARGET one_thread)
            add_library(one_thread SHARED ${CMAKE_SOURCE_DIR}/tests/one_thread.c)
            target_link_libraries(one_thread PRIVATE gyre_flags)
        endif()
        gyre_test_depends(${name} one_thread)
        set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:one_thread>")
    endif()
endfunction()

# The list names tests, and what is left out is said where results are.
function(gyre_one_thread_check)
    get_property(seen GLOBAL PROPERTY GYRE_ONE_THREAD_SEEN)
    foreach(name IN LISTS GYRE_ONE_THREAD)
        if(NOT name IN_LIST seen)
            message(FATAL_ERROR "cmake/threads.cmake lists ${name}: there is no such test")
        endif()
    endforeach()
    list(LENGTH GYRE_ONE_THREAD count)
    if(GYRE_SANITIZE STREQUAL "thread")
        add_test(NAME one_thread COMMAND ${CMAKE_COMMAND} -E echo
            "skipped: ${count} programs of one thread, in which nothing can race (cmake/threads.cmake)")
    endif()
endfunction()
