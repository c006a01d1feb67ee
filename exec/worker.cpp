#include "exec/worker.hpp"
