# What the documents show: links, paths, flags and words, and the commands themselves.
add_test(NAME "documents/text: links, paths, flags and words hold"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/documents/check_pages.py text $<TARGET_FILE:tandem>
                 $<TARGET_FILE:tandem-study>)
set_tests_properties("documents/text: links, paths, flags and words hold"
                     PROPERTIES LABELS documents TIMEOUT 60 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
add_test(NAME "documents/reference: flag tables and the table of strategies are what the programs print"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/documents/reference.py check $<TARGET_FILE:tandem>
                 $<TARGET_FILE:tandem-study>)
set_tests_properties("documents/reference: flag tables and the table of strategies are what the programs print"
                     PROPERTIES LABELS documents TIMEOUT 60 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
add_test(NAME "documents/papers: tables of papers' pages stand between markers that name experiments"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/documents/paper_tables.py markers $<TARGET_FILE:tandem-study>)
set_tests_properties("documents/papers: tables of papers' pages stand between markers that name experiments"
                     PROPERTIES LABELS documents TIMEOUT 60 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
if(NOT TANDEM_SANITIZE)  # they are run, not searched for undefined behaviour
  add_test(NAME "documents/commands: README, tutorials and how-tos print what they show"
           COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/documents/check_pages.py commands $<TARGET_FILE:tandem>)
  set_tests_properties("documents/commands: README, tutorials and how-tos print what they show"
                       PROPERTIES LABELS documents TIMEOUT 600 COST 1000 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
