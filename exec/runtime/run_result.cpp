#include "exec/runtime/run_result.hpp"
