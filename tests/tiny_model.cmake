# The models that come with tandem, against their generator and PyTorch: the longest test, so the first (COST).
if(NOT TANDEM_SANITIZE)  # the scores take minutes there, and test numbers
  add_test(NAME "scenarios/tandem-tiny, tandem-deep: are what their generator makes, and score what PyTorch says"
           COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/tiny_model/check_tiny_model.py
                   $<TARGET_FILE:tandem> ${PROJECT_SOURCE_DIR}/scenarios/models)
  set_tests_properties("scenarios/tandem-tiny, tandem-deep: are what their generator makes, and score what PyTorch says"
                       PROPERTIES LABELS torch TIMEOUT 600 COST 1000
                                  ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
add_test(NAME "scenarios/sparse loss: the fit is monotone, and that of what was measured"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/tiny_model/sparse_loss_fit.py ${PROJECT_SOURCE_DIR}/scenarios/models)
set_tests_properties("scenarios/sparse loss: the fit is monotone, and that of what was measured"
                     PROPERTIES LABELS torch TIMEOUT 120 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
