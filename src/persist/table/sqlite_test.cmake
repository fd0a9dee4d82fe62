# It calls more of SQLite than Gyre does, which opens it when it is first called.
gyre_test_links(persist_sqlite_test ${SQLITE_LIBRARIES})
