# Writes ${OUTPUT} with version ${VERSION} and the revision of ${SOURCE}; touches it only on change.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=10 HEAD OUTPUT_VARIABLE revision
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(revision "no revision")
else()
  execute_process(COMMAND git -C ${SOURCE} diff-index --quiet HEAD -- RESULT_VARIABLE changed
                  ERROR_QUIET OUTPUT_QUIET)
  if(changed)
    string(APPEND revision "+")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "cli/version.hpp"

namespace tandem::cli {

std::string_view version() { return "@VERSION@ (@revision@)"; }

}  // namespace tandem::cli
]] @ONLY)
