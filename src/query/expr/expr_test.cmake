gyre_test_defines(query_expr_test GYRE_QUERY_PAGE="${CMAKE_SOURCE_DIR}/src/query/README.md")
