#include "exec/transport/measure.hpp"
