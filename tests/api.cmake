tandem_tests(api SOURCES api/library_test.cpp LIBRARIES tandem::tandem)
